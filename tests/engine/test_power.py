"""What waits for the disk, so that a power failure loses no alert; `tests.sim.power` has the disk that forgets."""

import json
import os
import re
import time
from shutil import copytree
from types import SimpleNamespace

import pytest

from lab.engine.checkpoint import durable
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.record import check_spark_logs_are_whole, planned_end
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.ends import check_power_safe_possible
from lab.engine.loop.filelogs import FileLogs
from lab.model.reference import evaluate_log
from lab.model.schema import LOGINS
from tests.engine.test_loop import Engine, cut
from tests.sim import power
from tests.sim.power import LOG, Run
from tools.simfaults.power import POWER_FAULTS

HISTORIES = 30


@pytest.mark.parametrize("first", range(0, HISTORIES, 10))
def test_no_alert_is_lost_and_those_that_come_again_are_the_same(first):
    found = [power.outcome(seed) for seed in range(first, first + 10)]
    assert [one for one in found if one.wrong] == []
    assert any(one.has_repeats for one in found), "else the power never failed between a delivery and a save"


@pytest.mark.parametrize("name", POWER_FAULTS)
def test_a_planted_fault_is_found(name):
    assert power.histories_until_found(name, range(200))


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
