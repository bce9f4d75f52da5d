"""`lab run` stopped in every phase, by Ctrl-C and as a service manager does, under load: no traceback, nothing lost. Run by `make soak`."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import psutil
import pytest

from lab.logs.files import FileLog
from lab.model.reference import COUNTS
from lab.stream.simulate import payments, to_json
from tests.soak.test_kill import RULES, counted, expected

STOPS = int(os.environ.get("STOPS", "20"))
ENDED = {0, 130}  # in order, or before it began
LONGEST_S = 90


def write(folder: Path, stopped: Event) -> None:
    events = FileLog(folder / "events")
    stream = payments(seed=7, events=None, start_ms=0, rate_per_s=5, payees=25, beneficiaries=40)
    while not stopped.wait(0.2):
        events.append([to_json(next(stream)) for _ in range(20)])


def family(pid: int) -> list[psutil.Process]:
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def stopped(folder: Path, after_s: float, number: int) -> float:
    """Starts an engine and stops it; returns how long that took, in s."""
    command = [sys.executable, "-m", "lab", "run", "--logs", str(folder)]
    with (folder / "screen").open("w") as screen:
        engine = subprocess.Popen(command, stdout=screen, stderr=screen, start_new_session=True)
        time.sleep(after_s)
        assert engine.poll() is None, (folder / "screen").read_text()
        processes = family(engine.pid)
        asked = time.monotonic()
        if number % 2:
            os.killpg(engine.pid, signal.SIGINT)  # a terminal's way
        else:
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGTERM)
        engine.wait(LONGEST_S)
    said = (folder / "screen").read_text()
    assert engine.returncode in ENDED and "Traceback" not in said and "Error" not in said, said
    _, alive = psutil.wait_procs(processes, 15)
    assert not alive, alive
    return time.monotonic() - asked


@pytest.mark.soak
def test_an_engine_stops_in_order_in_every_phase(tmp_path):
    rng, end = random.Random(os.environ.get("SEED", "1")), Event()
    FileLog(tmp_path / "control").append(RULES)
    writer = Thread(target=write, args=(tmp_path, end))
    writer.start()
    took = []
    try:
        for number in range(STOPS):
            after_s = rng.uniform(0.3, 4) if number % 4 < 2 else rng.uniform(4, 25)
            took.append(stopped(tmp_path, after_s, number))
    finally:
        end.set()
        writer.join()
    last = subprocess.Popen([sys.executable, "-m", "lab", "run", "--logs", str(tmp_path)])
    reference = expected(tmp_path)
    deadline = time.monotonic() + 120
    while counted(tmp_path)["records"] < reference.counts["records"] and time.monotonic() < deadline:
        time.sleep(0.5)
    last.send_signal(signal.SIGTERM)
    assert last.wait(LONGEST_S) == 0
    alerts = [json.loads(line)["alertId"] for line in FileLog(tmp_path / "alerts").read()]
    assert sorted(alerts) == sorted(alert.alert_id for alert in reference.alerts)
    assert counted(tmp_path) == {name: reference.counts[name] for name in COUNTS}
    print(f"{STOPS} stops, the longest {max(took):.1f} s; {reference.counts['records']} events: nothing lost")
