"""The pipeline on Spark: restarts, other masters, settings."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.lease import Lease
from lab.engine.checkpoint.lock import CheckpointInUse, FolderLock
from lab.engine.checkpoint.record import last_saved_mark
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.ends import check_tasks_can_reach
from lab.engine.loop.filelogs import ROW_BYTES, FileLogs
from lab.engine.loop.job import Job
from lab.engine.loop.kafkalogs import KafkaLogs
from lab.engine.records.keyedlines import JoinedLines, KeyedLines
from lab.engine.spark import pipeline
from lab.engine.spark.source import output_rows
from lab.engine.windows import shared
from lab.model.reference import Reference
from lab.model.schema import PAYMENTS
from lab.past.replay import replay
from lab.state.read import read_state
from lab.state.rescale import rescale
from lab.stream.simulate import payments, to_json
from tests.engine import onspark
from tests.engine.drawn import Drawn
from tests.waiting import wait_until

RULES = [
    "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(60),(10)",
    "2,(active),(beneficiaryId),,(COUNT_WITH_RESET_FLINK),(SUM),(>=),(4),(30)",
    json.dumps(
        {
            "ruleId": 3,
            "ruleState": "ACTIVE",
            "groupingKeyNames": ["payeeId"],
            "aggregateFieldName": "COUNT",
            "limitOperatorType": ">",
            "limit": 3,
            "window": "10m",
            "when": "paymentAmount > 9.99 and paymentType = CSH",
        }
    ),
]
EVENTS = [
    to_json(event).encode() for event in payments(seed=3, events=600, start_ms=0, rate_per_s=1, payees=9)
]


def write(logs: FileLogs, events: list[bytes], rules: list[str] | None = None) -> None:
    if rules:
        logs.log("control").append(rules, log_time_ms=0)
    for first in range(0, len(events), 100):
        logs.log("events").append(events[first : first + 100], log_time_ms=0)


def run(spark, folder: Path, settings: Settings) -> None:
    with pipeline.start(spark, FileLogs(folder), folder / "checkpoint", settings, once=True) as engine:
        engine.query.awaitTermination()


def alert_ids(folder: Path) -> list[str]:
    return sorted(json.loads(line)["alertId"] for line in FileLogs(folder).log("alerts").read())


def expected() -> list[str]:
    reference = Reference(PAYMENTS)
    for rule in RULES:
        reference.control(rule)
    for line in EVENTS:
        reference.event(line)
    assert len(reference.alerts) > 100 and {alert.rule_id for alert in reference.alerts} >= {1, 3}
    return sorted(alert.alert_id for alert in reference.alerts)


def test_a_stopped_engine_continues_where_it_was(spark, tmp_path):
    logs, settings = FileLogs(tmp_path), Settings(max_batch_records=300)
    write(logs, EVENTS[:300], RULES)
    run(spark, tmp_path, settings)
    write(logs, EVENTS[300:])
    run(spark, tmp_path, settings)
    assert alert_ids(tmp_path) == expected()


def test_a_checkpoint_refuses_other_settings(spark, tmp_path):
    write(FileLogs(tmp_path), EVENTS[:100], RULES)
    run(spark, tmp_path, Settings())
    with pytest.raises(ValueError, match="key_groups: 8, but checkpoint .* was made with 16"):
        run(spark, tmp_path, Settings(key_groups=8))


def test_two_engines_on_one_checkpoint_are_refused(spark, tmp_path):
    write(FileLogs(tmp_path), EVENTS[:100], RULES)
    refused = pytest.raises(CheckpointInUse, match=rf"checkpoint .* an engine \(process {os.getpid()}\)")
    with FolderLock(tmp_path / "checkpoint"), refused:
        run(spark, tmp_path, Settings())
    run(spark, tmp_path, Settings())
    FolderLock(tmp_path / "checkpoint").release()  # it let go


def test_two_engines_on_one_output_log_are_refused(spark, tmp_path):
    write(FileLogs(tmp_path), EVENTS[:100], RULES)
    refused = pytest.raises(CheckpointInUse, match=r"log .*/stats is in use by an engine \(process \d+\)")
    with FolderLock(tmp_path / "stats"), refused:
        run(spark, tmp_path, Settings())
    run(spark, tmp_path, Settings())


def test_lines_reach_the_logs_in_their_order_however_many_share_a_row(tmp_path):
    logs, lines = FileLogs(tmp_path), [f"{number} ä" for number in range(ROW_BYTES // 4)]
    job = Job(Settings(PAYMENTS), logs, str(tmp_path / "checkpoint"), "start")
    rows = output_rows(
        job,
        {
            "alerts": KeyedLines(["key"] * len(lines), JoinedLines(lines)),
            "acks": KeyedLines([""], JoinedLines(["one"])),
        },
    )
    assert len(rows) > 2
    logs.write(pa.Table.from_batches([rows]), 0, "writer", 0)
    assert (logs.log("alerts").read(), logs.log("acks").read()) == (lines, ["one"])


def test_logs_in_folders_are_refused_where_spark_is_on_other_hosts(tmp_path):
    far = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://far:7077", _jsc=True))
    with pytest.raises(ValueError, match="Spark's tasks on spark://far:7077 are on others: use topics"):
        pipeline.start(far, FileLogs(tmp_path), tmp_path / "checkpoint", Settings())


@pytest.mark.parametrize("master", ["spark://far:7077", "yarn", "k8s://https://far:443"])
def test_a_checkpoint_on_this_machine_is_refused_where_spark_is_on_other_hosts(master, tmp_path):
    far = SimpleNamespace(sparkContext=SimpleNamespace(master=master, _jsc=True))
    refused = pytest.raises(
        ValueError, match=f"use file://{tmp_path}/checkpoint if all hosts share that folder, or"
    )
    with refused:
        pipeline.start(far, KafkaLogs("localhost:1"), tmp_path / "checkpoint", Settings())
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize(
    ("checkpoint", "master"),
    [
        ("file:///mnt/c", "spark://far:7077"),
        ("s3a://bucket/c", "yarn"),
        ("c", "local[4]"),
        ("c", "local-cluster[2,1,1024]"),
    ],
)
def test_a_checkpoint_that_all_tasks_can_reach_is_not_refused(checkpoint, master):
    check_tasks_can_reach(KafkaLogs("localhost:1"), CheckpointFolder(checkpoint), master)


def test_an_engine_lets_go_even_if_its_query_does_not_stop(tmp_path):
    def fails() -> None:
        raise TimeoutError("the query did not stop")

    memory = shared.private_folder("a-test-of-stop")
    with ExitStack() as held:
        held.enter_context(Lease(CheckpointFolder(tmp_path)))
        held.callback(shutil.rmtree, memory)
        engine = pipeline.Engine(
            SimpleNamespace(stop=fails), held.pop_all(), SimpleNamespace(runs_loop=False)
        )
    with pytest.raises(CheckpointInUse):
        Lease(CheckpointFolder(tmp_path))
    with pytest.raises(TimeoutError):
        engine.stop()
    assert not memory.exists()
    Lease(CheckpointFolder(tmp_path)).release()


def wait_for_records(logs: FileLogs, engine: pipeline.Engine, count: int) -> None:
    """Until the stats log tells of so many."""
    wait_until(
        lambda: sum(json.loads(line).get("records", 0) for line in logs.log("stats").read()) >= count,
        alive=lambda: engine.query.isActive,
        said=engine.query.exception,
    )


def test_a_stop_that_is_interrupted_stops_the_query(tmp_path, monkeypatch):
    """As with the button of a notebook, which a user presses while the loop ends."""
    stopped = []

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "tell_to_stop", interrupted)
    query = SimpleNamespace(stop=lambda: stopped.append("query"))
    job = Job(Settings(), FileLogs(tmp_path), str(tmp_path), "interrupted")
    with ExitStack() as until_stopped:
        until_stopped.callback(stopped.append, "lease")
        engine = pipeline.Engine(query, until_stopped.pop_all(), job)
    with pytest.raises(KeyboardInterrupt):
        engine.stop()
    assert stopped == ["query", "lease"]


def test_reading_rescaling_and_replaying_leave_a_running_engine_alone(spark, tmp_path):
    logs = FileLogs(tmp_path / "live")
    write(logs, EVENTS[:100], RULES)
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(EVENTS[:50]))
    with pipeline.start(spark, logs, logs.folder / "checkpoint", Settings()) as engine:
        # an epoch is saved
        wait_until(lambda: last_saved_mark(logs.folder / "checkpoint"))
        assert len(read_state(logs.folder / "checkpoint").rules) == len(RULES)
        with pytest.raises(CheckpointInUse):
            rescale(logs.folder / "checkpoint", 4)
        assert replay(tmp_path / "events.jsonl", RULES).events == 50
        assert engine.query.isActive
        write(logs, EVENTS[100:])
        wait_for_records(logs, engine, len(EVENTS))
    assert alert_ids(logs.folder) == expected()


@pytest.mark.soak
def test_separate_executor_processes_give_the_same_alerts(tmp_path):
    write(FileLogs(tmp_path), EVENTS, RULES)
    script = f"""
import sys
from pathlib import Path
from lab.machine.session import session
from lab.engine.checkpoint.lease import Lease
from lab.engine.checkpoint.settings import Settings
from {__name__} import run
with session("local-cluster[2,1,1024]") as spark:
    run(spark, Path(sys.argv[1]), Settings(max_batch_records=300))
    assert spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() == 3  # two and the driver
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    assert alert_ids(tmp_path) == expected()


@pytest.mark.slow
def test_random_logs_give_the_alerts_of_the_reference_on_spark(spark):
    assert onspark.first_difference(spark, range(100)) == ""


def test_every_random_log_is_read_with_its_schema_on_spark(monkeypatch):
    read: list[Drawn] = []

    def check(_spark, logs: list[Drawn], _rng) -> None:
        assert all(of.schema == logs[0].schema for of in logs)
        read.extend(logs)

    monkeypatch.setattr(onspark, "check", check)
    assert onspark.first_difference(None, range(200)) == ""
    assert len(read) == 200
    assert {(bool(of.schema.derived), bool(of.schema.legs)) for of in read} == {
        *product((False, True), repeat=2)
    }
