"""Broker and engine killed while events and rule changes flow through topics: nothing lost, none wrong.

Run by `make soak`; `ROUNDS=3` for a shorter one.
"""

import os
import random
import signal
import subprocess
import sys
import time
from threading import Thread

import pytest

from lab.engine.loop.kafkalogs import KafkaLogs
from lab.machine import broker
from lab.stream.simulate import payments, to_json
from tests.soak.test_kill import CHANGES, RULES
from tests.topics import assert_equal, counted, expected, publish

ROUNDS = int(os.environ.get("ROUNDS", "9"))
APPENDS, EVENTS_PER_APPEND, PAUSE_S = 130 * ROUNDS, 25, 0.1
DOWN_S = 3  # how long the broker is away


def grow(logs: KafkaLogs, appends: int, pause_s: float, change_every: int) -> None:
    """Lets the events topic grow, with a change of rules now and then; outages only delay it."""
    publish(logs, *RULES)
    stream = payments(seed=7, events=None, start_ms=0, rate_per_s=5, payees=25, beneficiaries=40)
    log, changes = logs.log("events"), iter(CHANGES)
    for number in range(appends):
        if number % change_every == change_every // 2 and (change := next(changes, None)):
            log.flush()
            publish(logs, change)
        log.append([to_json(next(stream)) for _ in range(EVENTS_PER_APPEND)])
        time.sleep(pause_s)
    log.close()


@pytest.mark.soak
def test_killed_brokers_and_engines_lose_nothing(tmp_path):
    rng = random.Random(os.environ.get("SEED", "1"))
    command = [
        sys.executable,
        "-m",
        "lab",
        "run",
        "--checkpoint",
        str(tmp_path / "checkpoint"),
        "--key-groups",
        "8",
    ]

    def start() -> subprocess.Popen:
        run = [*command, "--logs", f"kafka://{kafka.address}"]
        with (tmp_path / "run.log").open("w") as log:
            return subprocess.Popen(run, stdout=log, stderr=log, start_new_session=True)

    def wait_until_it_reads() -> None:
        """A `lab run` that finds no broker at its start ends, as it should."""
        log, deadline = tmp_path / "run.log", time.time() + 180
        while "reading " not in log.read_text() and time.time() < deadline:
            assert engine.poll() is None, log.read_text()
            time.sleep(0.1)

    with broker.running_broker() as kafka:
        logs = KafkaLogs(kafka.address)
        logs.create()
        writer = Thread(target=grow, args=(logs, APPENDS, PAUSE_S, 150))
        writer.start()
        engine = start()
        for round in range(ROUNDS):
            if round % 3 != 1:
                wait_until_it_reads()
            time.sleep(rng.uniform(1, 10))
            assert engine.poll() is None, (tmp_path / "run.log").read_text()
            if round % 3 != 1:
                kafka.kill()
            if round % 3 != 0:
                os.killpg(engine.pid, signal.SIGKILL)
                engine.wait()
            if round % 3 != 1:
                time.sleep(DOWN_S)
                kafka = kafka.restart()
            if round % 3 != 0:
                engine = start()
        writer.join()
        sent, deadline = len(logs.log("events").read()), time.time() + 120
        assert sent >= APPENDS * EVENTS_PER_APPEND
        while counted(logs)["records"] < sent and time.time() < deadline:
            assert engine.poll() is None, (tmp_path / "run.log").read_text()
            time.sleep(1)
        engine.send_signal(signal.SIGINT)
        engine.wait(60)
        alerts = assert_equal(logs, expected(logs, key_groups=8))
    assert alerts > 100 * ROUNDS, "too few alerts to mean anything"
    print(f"{ROUNDS} kills of broker, engine or both: {sent} events, {alerts} alerts, as the reference")
