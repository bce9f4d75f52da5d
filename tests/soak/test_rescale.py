"""A long log under changing parallelism, commands and engines killed at each change: the alerts of a run that never changed.

Run by `make soak`; `EVENTS=100000` for a shorter one.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from lab.engine.checkpoint.record import read_record
from lab.logs.files import FileLog
from lab.model.times import HOUR_MS
from lab.past.replay import replay
from tools.bench.data import Payments

EVENTS, KILLS = int(os.environ.get("EVENTS", "1_000_000")), 2
STEPS = (3, 4, 2, 5)
BATCHES = 40
RULES = [
    "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(330),(30)",
    "2,(active),(beneficiaryId),,(COUNT_WITH_RESET_FLINK),(SUM),(>=),(25),(20)",
    "3,(active),(payeeId&paymentType),,(paymentAmount),(MAX),(>=),(19.99),(5)",
]
RUN = """
import sys
from pathlib import Path
from lab.engine.loop.filelogs import FileLogs
from lab.engine.spark.pipeline import start
from lab.engine.checkpoint.settings import Settings
from lab.machine.session import session

master, folder, parallelism, records = sys.argv[1:]
folder, settings = Path(folder), Settings(parallelism=int(parallelism), max_batch_records=int(records))
with session(master) as spark:
    engine = start(spark, FileLogs(folder), folder / "checkpoint", settings, once=True)
    engine.query.awaitTermination()
    engine.stop()
"""


def killed(words: list[str], after_s: float) -> bool:
    """Starts a command and kills it with all its processes; False if it was done by then."""
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    return False


def seconds(words: list[str]) -> float:
    """How long a command takes."""
    began = time.monotonic()
    subprocess.run(words, check=True)
    return time.monotonic() - began


@pytest.mark.soak
@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
def test_a_long_log_under_changing_parallelism_gives_the_same_alerts(tmp_path, master):
    rng = random.Random(os.environ.get("SEED", "1"))
    events = EVENTS if master == "local[2]" else EVENTS // 10
    payments = Payments.make(tmp_path / "made", events, 100, events * HOUR_MS // 5000)
    FileLog(tmp_path / "control").append(RULES, log_time_ms=0)
    log, checkpoint = FileLog(tmp_path / "events"), tmp_path / "checkpoint"
    parts, kills, usual = payments.parts(-(-events // len(STEPS))), 0, 10.0
    for part, parallelism in zip(parts, STEPS, strict=True):
        rescale = [sys.executable, "-m", "lab", "rescale", str(checkpoint), "--to", str(parallelism)]
        for _ in range(KILLS) if checkpoint.exists() else ():
            if read_record(checkpoint)["parallelism"] != parallelism:
                kills += killed(rescale, rng.uniform(0, 2))
        if checkpoint.exists() and read_record(checkpoint)["parallelism"] != parallelism:
            subprocess.run(rescale, check=True, stdout=subprocess.DEVNULL)
        log.append(part, log_time_ms=0)
        run = [
            sys.executable,
            "-c",
            RUN,
            master,
            str(tmp_path),
            str(parallelism),
            str(payments.per_batch(BATCHES)),
        ]
        kills += sum(killed(run, rng.uniform(0.3, 0.9) * usual) for _ in range(KILLS))
        usual = seconds(run)

    alerts = sorted(json.loads(line)["alertId"] for line in FileLog(tmp_path / "alerts").read())
    unchanged = replay(payments.file, RULES, engine="spark" if master == "local[2]" else "reference")
    assert alerts == sorted(alert.alert_id for alert in unchanged.alerts)
    if master == "local[2]":
        reference = replay(payments.file, RULES, engine="reference")
        assert alerts == sorted(alert.alert_id for alert in reference.alerts)
    assert len(alerts) > events // 1000, "too few alerts to mean anything"
    print(f"{master}: {events} events, {kills} kills, {len(alerts)} alerts: none missing, none twice")
