"""Processes that run the loop on one checkpoint, killed at any moment or left to linger: every alert is there once.

A long version: `make soak ARGS=tests/engine/test_loop_kill.py`, with `KILLS=1000`.
"""

import json
import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from itertools import count
from math import inf
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from lab.engine.checkpoint.cuts import CutLog, TakenOver
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop import readahead
from lab.engine.loop.cut import Planner
from lab.engine.loop.epochs import running_epoch
from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.inprocess import compile_kernels
from lab.engine.loop.job import Job
from lab.engine.loop.readahead import ReadAhead
from lab.engine.windows import shared, undo
from lab.engine.windows.statefiles import StaleEpoch
from lab.logs.index import BatchConflict
from lab.model.enginelogs import READ
from lab.model.reference import Reference
from lab.model.schema import LOGINS
from tests.engine.test_inprocess import count_rule, login
from tests.waiting import wait_until

LINGER = 0.2  # so many are not killed before the next one starts
SEED = int(os.environ.get("SEED", "7"))


def run_epochs(logs: FileLogs, checkpoint: Path, start: str, seed: int, most: int | None = None) -> None:
    """Runs epochs of some cuts each, the last one that has begun first. With an odd `seed`, each cut is read ahead."""
    rng = random.Random(seed)
    job = Job(Settings(LOGINS, key_groups=4), logs, str(checkpoint), start)
    events, control = map(logs.feed, READ)
    planner = Planner(events, control, job.folder, job.settings)
    cuts = CutLog(job.folder, planner.mark_at_start_of_logs())
    with (
        patch.object(readahead, "WORTH_READING_AHEAD", 1 if seed % 2 else inf),
        ReadAhead(job, planner) as ahead,
    ):
        for _ in count() if most is None else range(most):
            with running_epoch(job, planner, cuts, logs.outlet("engine").put, ahead) as running:
                for _ in range(rng.choice([1, 3, 10])):
                    if not running.step():
                        time.sleep(0.001)


def started(logs: FileLogs, checkpoint: Path, seed: int) -> int:
    """The id of a process that runs epochs until it is killed, or overtaken by another."""
    if process := os.fork():
        return process
    try:
        with suppress(TakenOver, StaleEpoch, BatchConflict):
            run_epochs(logs, checkpoint, f"{os.getpid()}-{seed}", seed)
    finally:
        os._exit(0)


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def expected(logs: FileLogs) -> Counter:
    """The alerts of the reference over the logs, in their order."""
    records = [
        (record.log_time_ms, log, position, record.line.encode())
        for log in ("control", "events")
        for position, record in enumerate(logs.log(log).tail().records())
    ]
    reference = Reference(LOGINS, key_groups=4)
    for _, log, _, value in sorted(records):
        (reference.control if log == "control" else reference.event)(value)
    return Counter(alert.alert_id for alert in reference.alerts)


def delivered(logs: FileLogs) -> Counter:
    return Counter(json.loads(line)["alertId"] for line in logs.log("alerts").read())


@pytest.mark.parametrize(
    "kills", [20, pytest.param(int(os.environ.get("KILLS", "1000")), marks=pytest.mark.soak)]
)
def test_killed_at_any_moment_it_goes_on_and_every_alert_is_there_once(tmp_path, kills):
    compile_kernels()
    rng, logs, checkpoint = random.Random(SEED), FileLogs(tmp_path / "logs"), tmp_path / "checkpoint"
    logs.create()
    logs.log("control").append([count_rule(">", 0, "5m")[1]])
    lingering: list[int] = []
    waits_ms, number = [], 0
    for run in range(kills):
        process = started(logs, checkpoint, run)
        before, begun = logs.log("stats").end(), time.monotonic()
        for _ in range(rng.randrange(8)):
            number += 1
            logs.log("events").append([login(number, 100 + number // 9)[1]])
            if rng.random() < 0.1:
                logs.log("control").append([count_rule(">", rng.randrange(3), "5m")[1]])
            time.sleep(rng.choice([0, 0.001, 0.01]))
        if rng.random() < 0.2:  # else it is killed wherever it is
            logs.log("events").append([login(number := number + 1, 100 + number // 9)[1]])
            wait_until(lambda before=before: logs.log("stats").end() > before, pause_s=0.001)
            waits_ms.append(1000 * (time.monotonic() - begun))
        lingering.append(process)
        if rng.random() > LINGER:
            while lingering:
                kill(lingering.pop())
    while lingering:
        kill(lingering.pop())
    run_epochs(logs, checkpoint, f"{os.getpid()}-after-{kills}", 0, most=20)
    wanted, got = expected(logs), delivered(logs)
    p50, p99 = np.percentile(waits_ms or [0], [50, 99])
    print(
        f"{kills} kills, seed {SEED}: {wanted.total():,} alerts, {(wanted - got).total()} lost, "
        f"{(got - wanted).total()} extra; from a start to its first line in the stats log p50 {p50:.0f} ms, p99 {p99:.0f} ms"
    )
    assert got == wanted
    counted = [json.loads(line) for line in logs.log("stats").read()]
    assert sum(line.get("records", 0) for line in counted) == number
    assert [line["batch"] for line in counted] == list(range(len(counted)))


@pytest.mark.parametrize(
    "kills", [12, pytest.param(int(os.environ.get("KILLS", "300")), marks=pytest.mark.soak)]
)
def test_windows_on_a_disk_outlive_real_kills(tmp_path, monkeypatch, kills):
    """Large cuts, so that many a kill comes in the middle of the window loop."""
    compile_kernels()
    for name in ("shm", "disk"):
        (tmp_path / name).mkdir()
    undone, undo_epoch = tmp_path / "undone", undo.undo_epoch

    def counted(*arguments):
        with undone.open("a") as file:
            file.write(".")
        return undo_epoch(*arguments)

    monkeypatch.setattr(shared, "_parents", lambda: (tmp_path / "shm", tmp_path / "disk"))
    monkeypatch.setattr(shared, "memory_left_bytes", lambda: 0)
    monkeypatch.setattr(undo, "undo_epoch", counted)
    rng, logs, checkpoint = random.Random(SEED), FileLogs(tmp_path / "logs"), tmp_path / "checkpoint"
    logs.create()
    logs.log("control").append([count_rule(">", 20, "5m")[1]])
    number = 0
    for run in range(kills):
        for _ in range(rng.randrange(4)):
            ids = range(number, number := number + rng.choice([10, 2000, 4000]))
            late = (rng.choice([0, 0, 0, 1, 200]) for _ in ids)
            times = (1000 + n // 20 - behind for n, behind in zip(ids, late))
            logs.log("events").append([login(n, time, user=n % 997)[1] for n, time in zip(ids, times)])
        process, before = started(logs, checkpoint, 2 * run), logs.log("stats").end()
        if number and rng.random() < 0.5:
            with suppress(AssertionError):  # it may have nothing to do
                wait_until(lambda before=before: logs.log("stats").end() > before, 1.0, pause_s=0.001)
        time.sleep(rng.choice([0, 0.01, 0.03, 0.1, 0.3]))
        kill(process)
    run_epochs(logs, checkpoint, f"{os.getpid()}-after-{kills}", 0, most=20)
    assert delivered(logs) == expected(logs)
    assert undone.exists()
    shared.remove_private_folder(f"{os.getpid()}-after-{kills}")
