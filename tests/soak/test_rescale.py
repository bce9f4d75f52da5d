"""A long log under changing parallelism, killed in the middle of each change: the alerts of a run that never changed.

Run by `make soak`; `EVENTS=100000` for a shorter one.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from lab.apps.replay import replay
from lab.engine.checkpoint import read_record
from lab.logs.files import FileLog
from lab.stream.simulate import HOUR_MS
from tests.bench.data import Payments

EVENTS, SEGMENTS, KILLS = int(os.environ.get("EVENTS", "1_000_000")), 40, 2
STEPS = (3, 4, 2, 5)
RULES = [
    "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(330),(30)",
    "2,(active),(beneficiaryId),,(COUNT_WITH_RESET_FLINK),(SUM),(>=),(25),(20)",
    "3,(active),(payeeId&paymentType),,(paymentAmount),(MAX),(>=),(19.99),(5)",
]
RUN = """
import sys
from pathlib import Path
from lab.engine.ends import FileLogs
from lab.engine.pipeline import start
from lab.engine.settings import Settings
from lab.state.rescale import rescale
from lab.machine.session import session

master, what, folder, number = sys.argv[1:]
folder, number = Path(folder), int(number)
with session(master) as spark:
    if what == "rescale":
        print(rescale(folder / "checkpoint", number, spark=spark).summary())
    else:
        settings = Settings(parallelism=number, max_segments_per_batch=2)
        engine = start(spark, FileLogs(folder), folder / "checkpoint", settings, once=True)
        engine.query.awaitTermination()
        engine.stop()
"""


def command(master: str, what: str, folder: Path, number: int) -> list[str]:
    return [sys.executable, "-c", RUN, master, what, str(folder), str(number)]


def killed(words: list[str], folder: Path, rng: random.Random) -> bool:
    """Starts a rescale and kills it and its Spark soon after it began to change things; False if it was done by then."""
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while process.poll() is None and "rescaling" not in read_record(folder / "checkpoint"):
        time.sleep(0.01)
    time.sleep(rng.uniform(0, 1.2))
    late = process.poll() is not None
    if not late:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return not late


@pytest.mark.soak
@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
def test_a_long_log_under_changing_parallelism_gives_the_same_alerts(tmp_path, master):
    rng = random.Random(os.environ.get("SEED", "1"))
    events = EVENTS if master == "local[2]" else EVENTS // 10
    payments = Payments.make(tmp_path / "made", events, 100, events * HOUR_MS // 5000, -(-events // SEGMENTS))
    FileLog(tmp_path / "control").append(RULES, log_time_ms=0)
    log = FileLog(tmp_path / "events")
    cuts = [0, SEGMENTS // 2, SEGMENTS * 2 // 3, SEGMENTS * 5 // 6, SEGMENTS]
    kills, times = 0, KILLS if master == "local[2]" else 0
    for number, ((first, end), parallelism) in enumerate(zip(pairwise(cuts), STEPS)):
        if number:
            words, folder = command(master, "rescale", tmp_path, parallelism), tmp_path
            kills += sum(killed(words, folder, rng) for _ in range(times) if _unfinished(folder, parallelism))
            if _unfinished(folder, parallelism):
                subprocess.run(words, check=True)
        for segment, path in enumerate(payments.segments[first:end], first):
            os.utime(path, (1_000_000_000 + segment,) * 2)
            os.link(path, log.folder / path.name)
        subprocess.run(command(master, "run", tmp_path, parallelism), check=True)

    alerts = sorted(json.loads(line)["alertId"] for line in FileLog(tmp_path / "alerts").read())
    unchanged = replay(payments.file, RULES, engine="spark" if master == "local[2]" else "reference")
    assert alerts == sorted(alert.alert_id for alert in unchanged.alerts)
    if master == "local[2]":
        reference = replay(payments.file, RULES, engine="reference")
        assert alerts == sorted(alert.alert_id for alert in reference.alerts)
    assert len(alerts) > events // 1000, "too few alerts to mean anything"
    print(f"{master}: {events} events, {kills} kills, {len(alerts)} alerts: none missing, none twice")


def _unfinished(folder: Path, parallelism: int) -> bool:
    record = read_record(folder / "checkpoint")
    return "rescaling" in record or record["parallelism"] != parallelism
