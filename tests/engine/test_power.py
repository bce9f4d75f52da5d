"""The power fails at any moment, and the disk has forgotten what it was not made to keep: no alert is lost, and those that come again are the same.

The logs keep all, as topics do whose brokers are elsewhere.
"""

import json
import os
import re
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from shutil import copytree
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from lab.engine.checkpoint import durable
from lab.engine.checkpoint.cuts import CutLog
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.lease import Lease
from lab.engine.checkpoint.record import check_spark_logs_are_whole, planned_end
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop import epochs
from lab.engine.loop.cut import Planner
from lab.engine.loop.ends import READ, check_power_safe_possible
from lab.engine.loop.filelogs import FileLogs
from lab.model.reference import evaluate_log
from lab.model.schema import LOGINS
from tests.engine.test_inprocess import count_rule, login
from tests.engine.test_loop import Engine, cut

HISTORIES = 40
LOG = [
    count_rule(">", 0, "5m"),
    *(login(number, 100 + number, user=number % 3) for number in range(9)),
    count_rule(">", 1, "10m"),
    *(login(number, 100 + number, user=number % 3) for number in range(9, 20)),
]


class PowerFailure(BaseException):
    """The machine is off."""


class Named(NamedTuple):
    """What a name in a folder is."""

    inode: int
    is_folder: bool


class ForgetfulDisk:
    """Knows what a disk has to keep, and fails at the `lasts`-th time that somebody waits for it."""

    def __init__(self, rng: Random, lasts: int):
        self.rng, self.lasts = rng, lasts
        self.content: dict[int, bytes] = {}  # inode -> what it holds for certain
        self.names: dict[str, dict[str, Named]] = {}  # folder -> its names for certain
        self.open = ExitStack()  # no other file gets the inode of one that is open

    def keep_content(self, file: int) -> None:
        self._wait()
        self.open.callback(os.close, os.dup(file))
        self.content[os.fstat(file).st_ino] = Path(f"/proc/self/fd/{file}").read_bytes()

    def keep_folder(self, folder: int) -> None:
        self._wait()
        where = os.readlink(f"/proc/self/fd/{folder}")
        self.names[where] = listed(where)

    def _wait(self) -> None:
        self.lasts -= 1
        if self.lasts < 0:
            raise PowerFailure

    def copy_what_is_left(self, folder: str, to: Path) -> None:
        """Copies a folder as it may be found when the power is back."""
        kept, here = self.names.get(folder, {}), listed(folder)
        to.mkdir()
        for name in sorted(kept.keys() | here.keys()):
            found = [of[name] for of in (kept, here) if name in of] + [None] * (
                not (name in kept and name in here)
            )
            if (chosen := self.rng.choice(found)) is None:
                continue
            if chosen.is_folder:
                self.copy_what_is_left(f"{folder}/{name}", to / name)
            else:
                (to / name).write_bytes(self._left_of(chosen.inode, Path(folder, name), here.get(name)))

    def _left_of(self, inode: int, path: Path, here: Named | None) -> bytes:
        certain = self.content.get(inode, b"")
        if here is None or here.inode != inode:  # removed, or replaced
            return certain
        written = path.read_bytes()
        if not written.startswith(certain):  # cut off, and written on
            return self.rng.choice([certain, written])
        rest = written[len(certain) :]
        part = rest[: self.rng.randint(0, len(rest))]
        first, last = sorted(self.rng.randint(0, len(rest)) for _ in range(2))
        hole = rest[:first] + bytes(last - first) + rest[last:]
        return certain + self.rng.choice([b"", part, rest, hole, bytes(len(rest))])


def listed(folder: str) -> dict[str, Named]:
    if not os.path.isdir(folder):
        return {}
    with os.scandir(folder) as entries:
        return {entry.name: Named(entry.inode(), entry.is_dir()) for entry in entries}


class PowerSafe(Engine):
    """An engine whose saves wait for the disk."""

    def start(self) -> None:
        super().start()
        self.job = replace(self.job, settings=replace(self.job.settings, power_safe=True))


class Run:
    """An engine whose alerts go where nothing is lost; it goes on from the entry that it has not logged."""

    def __init__(self, folder: Path):
        self.engine, self.logged, self.alerts = PowerSafe(folder), 0, []

    def epoch(self):
        engine = self.engine
        events, control = map(engine.logs.feed, READ)
        planner = Planner(events, control, engine.job.folder, engine.job.settings)
        cuts = CutLog(engine.job.folder, planner.mark_at_start_of_logs())
        return epochs.running_epoch(engine.job, planner, cuts, self._deliver)

    def _deliver(self, _cut, output, _redelivered) -> None:
        self.alerts += map(json.loads, output["alerts"][1]) if "alerts" in output else ()

    def some(self, most: int) -> None:
        """An epoch of some of the entries."""
        with self.epoch() as running:
            for entry in LOG[self.logged : self.logged + most]:
                self.logged += 1
                cut(running, self.engine, entry)

    def begin(self) -> None:
        """What a start writes first."""
        folder = self.engine.job.folder
        Lease(folder).release()
        self.engine.job.settings.bind(folder.where)

    def to_the_end(self, end: int = len(LOG)) -> None:
        with self.epoch():  # which has perhaps an end already
            pass
        while self.logged < end:
            self.some(3)
        with self.epoch() as running:
            while running.step():
                pass


def alerts_after_a_power_failure(tmp_path: Path, seed: int, monkeypatch) -> list[dict]:
    rng = Random(seed)
    run = Run(tmp_path)
    disk = ForgetfulDisk(rng, rng.randint(0, 60))
    monkeypatch.setattr(durable, "keep_content", disk.keep_content)
    monkeypatch.setattr(durable, "keep_folder", disk.keep_folder)
    try:
        while run.logged < len(LOG):
            run.some(rng.randint(1, 5))
    except PowerFailure:
        pass
    monkeypatch.undo()
    before = run.engine.checkpoint
    run.engine.close()
    run.engine.checkpoint = tmp_path / "after"
    disk.copy_what_is_left(str(before), run.engine.checkpoint)
    disk.open.close()
    run.engine.start()
    try:
        run.to_the_end()
    finally:
        run.engine.close()
    return run.alerts


@pytest.mark.parametrize("first", range(0, HISTORIES, 10))
def test_no_alert_is_lost_and_those_that_come_again_are_the_same(tmp_path, first, monkeypatch):
    wanted = {(alert.alert_id, str(alert.aggregate)) for alert in evaluate_log(LOGINS, LOG).alerts}
    again = 0
    for seed in range(first, first + 10):
        (folder := tmp_path / str(seed)).mkdir()
        alerts = alerts_after_a_power_failure(folder, seed, monkeypatch)
        assert {(alert["alertId"], str(alert["aggregate"])) for alert in alerts} == wanted, seed
        again += len(alerts) > len(wanted)
    assert again, "else the power never failed between a delivery and a save"


def test_where_a_power_failure_takes_more_than_the_state_it_is_refused(tmp_path):
    with pytest.raises(ValueError, match="--power-safe with parallelism 2: .* use parallelism 1"):
        Settings(LOGINS, parallelism=2, power_safe=True)
    with pytest.raises(ValueError, match="--power-safe with --exactly-once: .* leave one of them out"):
        Settings(LOGINS, exactly_once=True, power_safe=True)
    with pytest.raises(ValueError, match="--power-safe is for topics: these logs are folders"):
        check_power_safe_possible(FileLogs(tmp_path), CheckpointFolder(tmp_path))
    topics = SimpleNamespace(has_transactions=True)
    with pytest.raises(
        ValueError, match="--power-safe with checkpoint s3a://bucket/here: use a running engine"
    ):
        check_power_safe_possible(topics, CheckpointFolder("s3a://bucket/here"))
    with pytest.raises(ValueError, match="an engine that stops when it has read all"):
        check_power_safe_possible(topics, CheckpointFolder(tmp_path), stops_at_end=True)


def test_without_it_nothing_waits_for_the_disk(tmp_path, monkeypatch):
    def refused(*_) -> None:
        raise AssertionError

    for name in ("keep_content", "keep_folder"):
        monkeypatch.setattr(durable, name, refused)
    engine = Engine(tmp_path)
    with engine.epoch() as running:
        for entry in LOG[:3]:
            cut(running, engine, entry)
    engine.close()


def test_how_long_saves_wait_for_a_slow_disk_is_in_the_stats_log(tmp_path, monkeypatch):
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda file: (time.sleep(0.02), real(file)))
    run, waited = Run(tmp_path), []
    run._deliver = lambda _cut, output, _: waited.extend(map(json.loads, output["stats"][1]))
    for _ in range(3):  # a save after each; the next line says how long it waited
        run.some(1)
    run.engine.close()
    assert [stats["diskWaitMs"] >= 20 for stats in waited] == [True] * 3


def test_what_spark_has_written_is_kept_too(tmp_path, monkeypatch):
    kept = set()
    for name in ("keep_content", "keep_folder"):
        monkeypatch.setattr(durable, name, lambda it: kept.add(os.readlink(f"/proc/self/fd/{it}")))
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1")
    CheckpointFolder(tmp_path, power_safe=True).keep_everything()
    assert kept == {str(tmp_path), f"{tmp_path}/offsets", f"{tmp_path}/offsets/0"}


@pytest.mark.parametrize("share", [0, 0.5, 0.9])
def test_a_checkpoint_of_which_a_file_is_cut_short_goes_on_or_says_how_to(tmp_path, share):
    wanted = {alert.alert_id for alert in evaluate_log(LOGINS, LOG[:9]).alerts}
    run = Run(tmp_path)
    run.begin()
    for _ in range(3):
        run.some(3)
    run.engine.close()
    whole, refused = run.engine.checkpoint, set()
    files = [path.relative_to(whole) for path in sorted(whole.rglob("*.*")) if path.suffix != ".lock"]
    for number, file in enumerate(files):
        run.engine.checkpoint = tmp_path / str(number)
        copytree(whole, run.engine.checkpoint)
        os.truncate(run.engine.checkpoint / file, int(share * (whole / file).stat().st_size))
        before = len(run.alerts)
        run.engine.start()
        try:
            run.begin()
            run.to_the_end(9)
        except ValueError as error:
            assert re.search(
                f"{file.name} is (damaged|not the record|no state file).*--checkpoint FOLDER", str(error)
            )
            refused.add(file.parts[0])
        else:
            assert {alert["alertId"] for alert in run.alerts} == wanted, file
        finally:
            run.engine.close()
        del run.alerts[before:]
    assert {file.parts[0] for file in files} == {"cuts", "lab.json", "lease", "rules", "state"}
    assert refused == {"lab.json", "rules", "state"}


@pytest.mark.parametrize("kept", [0, 1, 3, 40, 60])
def test_what_spark_wrote_and_is_cut_short_is_refused_with_a_way_on(tmp_path, kept):
    plan = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n{"batch": 7}'
    texts = {"offsets/7": plan, "commits/7": 'v1\n{"nextBatchWatermarkMs":0}', "metadata": '{"id":"4c1f"}'}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert planned_end(tmp_path, 7) == {"batch": 7}
    check_spark_logs_are_whole(tmp_path)
    for name, text in texts.items():
        if kept < len(text):
            (tmp_path / name).write_text(text[:kept])
            with pytest.raises(ValueError, match=rf"{name} is cut short.*--checkpoint FOLDER"):
                check_spark_logs_are_whole(tmp_path)
            (tmp_path / name).write_text(text)
