"""The pipeline on Spark: restarts, other masters, settings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.engine import pipeline
from lab.engine.ends import FileLogs
from lab.engine.held import CheckpointInUse, Held
from lab.engine.settings import Settings
from lab.model.reference import Reference
from lab.model.schema import PAYMENTS
from lab.stream.simulate import payments, to_json

RULES = [
    "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(60),(10)",
    "2,(active),(beneficiaryId),,(COUNT_WITH_RESET_FLINK),(SUM),(>=),(4),(30)",
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
    engine = pipeline.start(spark, FileLogs(folder), folder / "checkpoint", settings, once=True)
    engine.query.awaitTermination()
    engine.stop()


def alert_ids(folder: Path) -> list[str]:
    return sorted(json.loads(line)["alertId"] for line in FileLogs(folder).log("alerts").read())


def expected() -> list[str]:
    reference = Reference(PAYMENTS)
    for rule in RULES:
        reference.control(rule)
    for line in EVENTS:
        reference.event(line)
    assert len(reference.alerts) > 100
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
    with Held(tmp_path / "checkpoint"), refused:
        run(spark, tmp_path, Settings())
    run(spark, tmp_path, Settings())
    Held(tmp_path / "checkpoint").release()  # it let go


@pytest.mark.soak
def test_separate_executor_processes_give_the_same_alerts(tmp_path):
    write(FileLogs(tmp_path), EVENTS, RULES)
    script = f"""
import sys
from pathlib import Path
from lab.machine.session import session
from lab.engine.settings import Settings
from {__name__} import run
with session("local-cluster[2,1,1024]") as spark:
    run(spark, Path(sys.argv[1]), Settings(max_batch_records=300))
    assert spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() == 3  # two and the driver
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    assert alert_ids(tmp_path) == expected()
