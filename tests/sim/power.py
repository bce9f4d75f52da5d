"""The power fails at any moment, and the disk has forgotten, reordered or torn what it was not made to keep: no alert is lost, repeats are the same.

The engine's loop and the real files of a checkpoint, of which the disk keeps what somebody has waited for. The logs keep all, as topics do
whose brokers are elsewhere. Each look at the clock shows a later millisecond: in which order an engine takes records of one millisecond that
it read in two cuts is forgotten with these cuts. `python -m tests.sim --power --histories 50000`, or with `--mutants`.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import patch

from lab.engine.checkpoint import durable
from lab.engine.checkpoint.cuts import CutLog
from lab.engine.checkpoint.lease import Lease
from lab.engine.loop import epochs
from lab.engine.loop.cut import Planner
from lab.engine.windows import shared
from lab.model import times
from lab.model.enginelogs import READ
from lab.model.reference import evaluate_log
from lab.model.schema import LOGINS
from tests.engine.test_inprocess import count_rule, login
from tests.engine.test_loop import Engine, cut
from tools.simfaults.power import POWER_FAULTS

LONGEST = 60  # times that somebody waits for the disk before the power fails at the latest
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


def alerts_after_a_power_failure(folder: Path, seed: int) -> list[dict]:
    """All alerts of an engine of whose machine the power fails once."""
    rng = Random(seed)
    run = Run(folder)
    disk = ForgetfulDisk(rng, rng.randint(0, LONGEST))
    try:
        with (
            patch.object(durable, "keep_content", disk.keep_content),
            patch.object(durable, "keep_folder", disk.keep_folder),
        ):
            while run.logged < len(LOG):
                run.some(rng.randint(1, 5))
    except PowerFailure:
        pass
    finally:
        before = run.engine.checkpoint
        run.engine.close()
    run.engine.checkpoint = folder / "after"
    disk.copy_what_is_left(str(before), run.engine.checkpoint)
    disk.open.close()
    run.engine.start()
    try:
        run.to_the_end()
    finally:
        run.engine.close()
    return run.alerts


@cache
def wanted() -> set[tuple[str, str]]:
    """The alerts of the reference, by id, with their aggregates."""
    return {(alert.alert_id, str(alert.aggregate)) for alert in evaluate_log(LOGINS, LOG).alerts}


class Outcome(NamedTuple):
    """What a history shows: what is wrong, empty if nothing, and whether alerts came again."""

    seed: int
    wrong: str
    has_repeats: bool


def outcome(seed: int) -> Outcome:
    """Runs the history of a seed."""
    clock = count(1_800_000_000_000)
    with (
        tempfile.TemporaryDirectory(prefix="lab-power-", dir=shared.memory_folder()) as folder,
        patch.object(times, "time", SimpleNamespace(time_ns=lambda: next(clock) * 1_000_000)),
        # asking for it at each array takes a third of a history's time
        patch.object(shared, "memory_left_bytes", lambda: 1 << 40),
    ):
        try:
            alerts = alerts_after_a_power_failure(Path(folder), seed)
        except Exception as error:  # noqa: BLE001  (whatever it is, the engine did not go on)
            return Outcome(seed, f"{type(error).__name__}: {error}", False)
    found = {(alert["alertId"], str(alert["aggregate"])) for alert in alerts}
    lost, more = sorted(wanted() - found), sorted(found - wanted())
    when = {alert["alertId"]: [alert["logTime"], alert["alertTime"]] for alert in alerts}
    wrong = (
        f"lost {len(lost)} alerts: {lost[:3]}, {len(more)} too many: {more[:3]}; logged and alerted at {when}"
    )
    return Outcome(seed, "" if found == wanted() else wrong, len(alerts) > len(wanted()))


def histories_until_found(name: str, seeds: range) -> tuple[int, str] | None:
    """After how many histories a planted fault is found, and as what; None if it is not."""
    with POWER_FAULTS[name]():
        for number, seed in enumerate(seeds, 1):
            if wrong := outcome(seed).wrong:
                return number, wrong
    return None


def told(seeds: range, outcomes: Iterator[Outcome]) -> Iterator[str]:
    """Sentences about the histories; raises ValueError at the first that is wrong."""
    again = 0
    for number, one in enumerate(outcomes, 1):
        if one.wrong:
            raise ValueError(f"--power --seed {one.seed} --histories 1 is wrong: {one.wrong}")
        again += one.has_repeats
        if number % 500 == 0 or number == len(seeds):
            yield f"{number:,} power failures, no alert lost; in {again:,} some alerts came again"
