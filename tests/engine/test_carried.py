"""Checkpoints and logs of older versions, as `carried/make.py` made them: this version goes on from them, or says how."""

import json
import re
import shutil
import tarfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from lab.engine.checkpoint.record import OLDEST, VERSION
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.ends import WRITTEN, FileLogs
from lab.engine.loop.restored import CheckpointRestored
from lab.engine.spark import pipeline
from lab.model.alerts import Alert
from lab.model.reference import Reference, evaluate_log
from lab.model.schema import LOGINS
from lab.state.reprocess import reprocess
from tests.engine.carried.make import CONTROL, RUNS, events, rule
from tests.engine.test_pipeline import wait_for_records

ARCHIVES = sorted(Path(__file__).with_name("carried").glob("*.tar.xz"))
LATER = [rule(2, limit=5, filter={"action": "login"})]  # a change of rules for this version
SETTINGS = Settings(LOGINS, key_groups=4)


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.partition(".")[0])
def logs(request, tmp_path) -> FileLogs:
    with tarfile.open(request.param) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and newer
        packed.extractall(tmp_path)
    return FileLogs(tmp_path / "logs")


def go_on(spark, logs: FileLogs, checkpoint: str = "checkpoint") -> list[Alert]:
    """Runs this version until it has read all; the alerts that it gives."""
    tail = logs.log("alerts").tail(new=True)
    with pipeline.start(spark, logs, logs.folder / checkpoint, SETTINGS, once=True) as engine:
        engine.query.awaitTermination()
    return [Alert.from_json(line) for line in tail.read()]


def reference(runs: int) -> Reference:
    log = [
        (kind, line.encode())
        for number in range(runs)
        for kind, lines in (("control", [*CONTROL, LATER][number]), ("event", events(number)))
        for line in lines
    ]
    return evaluate_log(LOGINS, log, key_groups=SETTINGS.key_groups)


def said(alerts: Iterable[Alert]) -> list[tuple]:
    """What alerts of any version say."""
    return sorted((a.rule_id, a.rule_version, a.key, a.aggregate, a.event_id, a.event_time) for a in alerts)


def log_more(logs: FileLogs) -> None:
    logs.log("control").append(LATER)
    logs.log("events").append(events(RUNS))


def set_version(checkpoint: Path, version: int) -> None:
    record = json.loads((checkpoint / "lab.json").read_text())
    (checkpoint / "lab.json").write_text(json.dumps(record | {"version": version}))


def version_of(logs: FileLogs) -> int:
    return json.loads((logs.folder / "checkpoint" / "lab.json").read_text())["version"]


def test_it_goes_on_from_the_checkpoint_of_an_older_version(spark, logs):
    if version_of(logs) < OLDEST:
        pytest.skip("another version of checkpoints: refused, see below")
    lines = logs.log("alerts").read()
    before = list(map(Alert.from_json, lines))
    assert said(before) == said(reference(RUNS).alerts) and len(before) > 500
    # what the older version wrote keeps its id, and reads back with it
    assert [alert.alert_id for alert in before] == [json.loads(line)["alertId"] for line in lines]
    log_more(logs)
    after, wanted = go_on(spark, logs), reference(RUNS + 1)
    assert said(before + after) == said(wanted.alerts) and len(after) > 100
    assert {alert.alert_id for alert in after} <= {alert.alert_id for alert in wanted.alerts}


@pytest.mark.parametrize("written", [True, False], ids=["written", "not written"])
def test_a_batch_that_the_older_version_had_under_way_is_in_the_logs_once(spark, logs, written):
    if version_of(logs) < OLDEST:
        pytest.skip("another version of checkpoints: refused, see below")
    checkpoint, lines = logs.folder / "checkpoint", logs.log("alerts").read()
    last = str(RUNS - 1)
    (checkpoint / "commits" / last).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink()
    if not written:
        for name in WRITTEN:
            shutil.rmtree(logs.log_folder(name))
        logs.create()
    again = go_on(spark, logs)
    if written:
        assert not again and logs.log("alerts").read() == lines
    else:  # the alerts of that batch alone, and their ids are those of this version
        old, ids = list(map(Alert.from_json, lines)), {alert.alert_id for alert in reference(RUNS).alerts}
        assert said(again) == said(old[-len(again) :]) and 0 < len(again) < len(old)
        assert {alert.alert_id for alert in again} <= ids


def test_a_checkpoint_of_another_form_is_refused_and_a_new_one_comes_to_the_same_windows(spark, logs):
    checkpoint = logs.folder / "checkpoint"
    set_version(checkpoint, OLDEST - 1)
    with pytest.raises(
        ValueError, match="Start with a new checkpoint: it reads the logs from their beginning"
    ):
        go_on(spark, logs)
    log_more(logs)
    # everything is logged by now, and all rules come before all events that were logged later than they
    again = go_on(spark, logs, "new")
    assert said(again) == said(reference(RUNS + 1).alerts)
    set_version(checkpoint, VERSION + 1)
    with pytest.raises(ValueError, match="made by a newer engine: use that"):
        go_on(spark, logs)


def test_the_way_back_to_a_copy_from_before_the_upgrade(spark, logs):
    if version_of(logs) < OLDEST:
        pytest.skip("another version of checkpoints: refused, see above")
    checkpoint, copy = logs.folder / "checkpoint", logs.folder / "copy"
    shutil.copytree(checkpoint, copy)
    log_more(logs)
    after = go_on(spark, logs)
    shutil.rmtree(checkpoint)
    copy.rename(checkpoint)
    with pytest.raises(CheckpointRestored, match=re.escape(f"lab reprocess {checkpoint}, and start again")):
        go_on(spark, logs)
    reprocess(checkpoint)
    again = go_on(spark, logs)
    assert [alert.alert_id for alert in again] == [alert.alert_id for alert in after]


@pytest.mark.parametrize("written", [True, False], ids=["written", "not written"])
def test_a_loop_goes_on_from_a_batch_that_the_older_version_had_under_way(spark, logs, written):
    if version_of(logs) < OLDEST:
        pytest.skip("another version of checkpoints: refused, see above")
    checkpoint, lines = logs.folder / "checkpoint", logs.log("alerts").read()
    count = sum(len(events(number)) for number in range(RUNS + 1))
    for name in (f"{RUNS - 1}", f".{RUNS - 1}.crc"):
        (checkpoint / "commits" / name).unlink()
    if not written:
        for name in WRITTEN:
            shutil.rmtree(logs.log_folder(name))
        logs.create()
        count = len(events(RUNS - 1)) + len(events(RUNS))
    log_more(logs)
    with pipeline.start(spark, logs, checkpoint, SETTINGS) as engine:
        wait_for_records(logs, engine, count)
    now, every = logs.log("alerts").read(), said(reference(RUNS + 1).alerts)
    if written:
        assert now[: len(lines)] == lines and said(map(Alert.from_json, now)) == every
    else:  # the alerts of that batch, and of what was logged since
        before = Counter(said(reference(RUNS - 1).alerts))
        assert Counter(said(map(Alert.from_json, now))) == Counter(every) - before
