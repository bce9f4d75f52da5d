"""`lab run` killed again and again while its logs grow: nothing lost, nothing twice. Run by `make soak`; `KILLS=2` for a shorter one."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest

from lab.engine.checkpoint.settings import Settings
from lab.logs.files import FileLog
from lab.model.reference import COUNTS, Reference
from lab.model.schema import PAYMENTS
from lab.stream.simulate import payments, to_json

KILLS = int(os.environ.get("KILLS", "10"))
APPENDS, EVENTS_PER_APPEND, PAUSE_S = 70 * KILLS, 40, 0.2
RULES = [
    "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(900),(10)",
    "2,(active),(beneficiaryId),,(COUNT_WITH_RESET_FLINK),(SUM),(>=),(40),(30)",
    (
        '{"ruleId": 3, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "aggregatorFunctionType": "UNIQUE_COUNT",'
        ' "unique": ["beneficiaryId"], "limitOperatorType": ">", "limit": 15, "window": "2m"}'
    ),
    "4,(active),(paymentType),,(paymentAmount),(AVG),(>),(12.6),(1)",
    "5,(active),(payeeId&paymentType),,(paymentAmount),(MAX),(>=),(19.99),(5)",
]
CHANGES = [
    "1,(pause)",
    "1,(active)",
    RULES[0].replace("900", "850"),
    "4,(delete)",
    RULES[3],
    "2,(pause)",
    "2,(active)",
]


def write(folder: Path) -> None:
    """Lets the events log grow, with a change of rules now and then."""
    events, control = FileLog(folder / "events"), FileLog(folder / "control")
    control.append(RULES)
    stream = payments(seed=7, events=None, start_ms=0, rate_per_s=5, payees=25, beneficiaries=40)
    changes = iter(CHANGES)
    for number in range(APPENDS):
        if number % 90 == 50 and (change := next(changes, None)):
            control.append([change])
        events.append([to_json(next(stream)) for _ in range(EVENTS_PER_APPEND)])
        time.sleep(PAUSE_S)


def expected(folder: Path, kind: type[Reference] = Reference) -> Reference:
    """The reference over what the logs hold, in order of effective log time: of a file log, its log time."""
    records = [
        (record.log_time_ms, log, record.line)
        for log in ("control", "events")  # control first on a tie
        for record in FileLog(folder / log).tail().records()
    ]
    settings = Settings()
    reference = kind(PAYMENTS, key_groups=settings.key_groups)
    for _, log, line in sorted(records, key=lambda entry: entry[0]):
        (reference.control if log == "control" else reference.event)(line.encode())
    return reference


def start(folder: Path) -> subprocess.Popen:
    where = ["--logs", str(folder), "--checkpoint", str(folder / "checkpoint")]
    with (folder / "run.log").open("a") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "lab", "run", *where], stdout=log, stderr=log, start_new_session=True
        )


def counted(folder: Path) -> dict[str, int]:
    lines = [json.loads(line) for line in FileLog(folder / "stats").read()]
    return {name: sum(line.get(name, 0) for line in lines) for name in COUNTS}


@pytest.mark.soak
def test_a_killed_engine_loses_and_repeats_nothing(tmp_path):
    rng = random.Random(os.environ.get("SEED", "1"))
    writer = Thread(target=write, args=(tmp_path,))
    writer.start()
    for kill in range(KILLS):
        engine = start(tmp_path)
        time.sleep(rng.uniform(4, 18))
        assert engine.poll() is None, (tmp_path / "run.log").read_text()
        if kill % 2:  # the whole family at once, or only the parent: then the JVM finds out by itself
            os.killpg(engine.pid, signal.SIGKILL)
        else:
            engine.kill()
        engine.wait()
    engine = start(tmp_path)
    writer.join()
    deadline = time.time() + 300
    while counted(tmp_path)["records"] < APPENDS * EVENTS_PER_APPEND and time.time() < deadline:
        assert engine.poll() is None, (tmp_path / "run.log").read_text()
        time.sleep(0.5)
    engine.send_signal(signal.SIGINT)
    engine.wait(60)

    reference = expected(tmp_path)
    alerts = [json.loads(line)["alertId"] for line in FileLog(tmp_path / "alerts").read()]
    assert len(alerts) == len(set(alerts)), "an alert came twice"
    assert sorted(alerts) == sorted(alert.alert_id for alert in reference.alerts)
    assert counted(tmp_path) == reference.counts
    assert len(alerts) > 100 * KILLS, "too few alerts to mean anything"
    print(
        f"{KILLS} kills, {reference.counts['records']} events, {len(alerts)} alerts: none missing, none twice"
    )
