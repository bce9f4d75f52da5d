"""Long windows, in memory and on a disk: `python -m tools.bench.longwindows [--events N] [--keys N] [--seconds S] [--disk-only]`.

Payments over 40 days, read by the engine's loop in this process: first with the windows where the engine puts them, which is in memory as
long as that has room, then all on the disk of the temporary folder (`TMPDIR`). Then the engine starts again, once after it was stopped and
once after a worker was killed within an epoch, and reads 500 payments a second while a rule changes every second. DuckDB must find
the same alerts in the same payments. To see what a limit of
memory does, start it under one that you have set up yourself, such as a container's: then the first run, too, moves to the disk what
finds no room.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from threading import Thread
from time import perf_counter
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from rich.console import Console
from rich.table import Table

from lab.engine.checkpoint.cuts import Cut, CutId, CutLog
from lab.engine.loop.cut import Planner
from lab.engine.loop.epochs import Epoch, running_epoch
from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.inprocess import compile_kernels
from lab.engine.loop.job import Job, new_start_id
from lab.engine.loop.readahead import ReadAhead
from lab.engine.windows import shared, windowstate
from lab.engine.windows.evaluate import TaskOutput
from lab.engine.windows.memoryleft import memory_left_bytes
from lab.model.enginelogs import READ
from lab.model.times import DAY_MS
from tools.bench.against import ENGINE
from tools.bench.data import AT_ONCE, BENEFICIARY, PAIR, PAYEE, Payments, SumRule, messages, rule
from tools.bench.drive import Json
from tools.bench.limit import alerts_of

PLACES: dict[str, AbstractContextManager] = {
    "where the engine puts them": nullcontext(),
    "all on the disk": patch.object(shared, "memory_left_bytes", lambda: 0),
}
WINDOW_DAYS, SPAN_DAYS = 30, 40
RATE, APPENDS_A_S = 500, 50
EPOCH_S, GATHER_S = 2.0, 0.003  # as in `lab.engine.spark.runner`
LOST = 1000  # payments of the epoch in which the worker is killed
COLUMNS = (
    *("windows", "events/s", "stored events", "B / event and route", "on the disk, MB"),
    *("restart, s", "after a kill, s", "at 500/s: p50, p99, ms", "process, MB", "alerts, as DuckDB's"),
)


class Arrivals(NamedTuple):
    """How many payments had been appended by when."""

    counts: list[int]
    times: list[float]


@dataclass
class Engine:
    """The engine's loop in this process, started again on the same checkpoint as often as one likes."""

    logs: FileLogs
    checkpoint: Path

    def __post_init__(self) -> None:
        self.stats: Json = {}
        self.delivered: list[tuple[float, int]] = []  # when, and how many payments, of each cut
        self.alerts: list[tuple[int, int]] = []  # a rule's number, the payment
        self.start()

    def start(self) -> None:
        self.job = Job(ENGINE, self.logs, str(self.checkpoint), new_start_id())
        events, control = map(self.logs.feed, READ)
        self.planner = Planner(events, control, self.job.folder, ENGINE)
        self.cuts = CutLog(self.job.folder, self.planner.mark_at_start_of_logs())

    def stop(self) -> None:
        windowstate._open.clear()
        shared._mapped.clear()
        shared.leave_private_folder(self.job.start_id)

    def _deliver(self, _cut: Cut, output: TaskOutput, _redelivered: frozenset[CutId]) -> None:
        *_, line = output["stats"].lines
        self.stats = json.loads(line)
        for alert in map(json.loads, output["alerts"].lines if "alerts" in output else ()):
            self.alerts.append((alert["ruleId"], alert["eventId"]))
        self.delivered.append((perf_counter(), self.stats["records"]))

    def epoch(self, ahead: ReadAhead | None = None) -> AbstractContextManager[Epoch]:
        return running_epoch(self.job, self.planner, self.cuts, self._deliver, ahead)

    def read_all(self) -> None:
        """Epochs of one cut each, until nothing is left."""
        more = True
        with ReadAhead(self.job, self.planner) as ahead:
            while more:
                with self.epoch(ahead) as running:
                    more = running.step()

    def restart_s(self) -> float:
        """How long it takes from the start until a new payment has been evaluated; what the last epoch has left comes first."""
        self.stop()
        begun, taken = perf_counter(), len(self.delivered)
        self.start()
        with self.epoch() as running:
            while len(self.delivered) == taken:
                running.step()
            return perf_counter() - begun

    def kill_worker(self) -> None:
        """Takes a cut in a process that is killed before the epoch is saved."""

        def die(_state: windowstate.WindowState) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        if worker := os.fork():
            os.waitpid(worker, 0)
            return
        try:
            with patch.object(windowstate.WindowState, "_save", die), self.epoch() as running:
                while not running.step():
                    pass
        finally:
            os._exit(1)


def fill(engine: Engine, payments: Iterator[bytes], count: int) -> float:
    """Events a second."""
    log = engine.logs.log("events")
    while part := list(islice(payments, min(AT_ONCE, count))):
        log.append(part, log_time_ms=0)
        count -= len(part)
    begun = perf_counter()
    engine.read_all()
    return sum(events for _, events in engine.delivered) / (perf_counter() - begun)


def live(engine: Engine, payments: Sequence[bytes]) -> np.ndarray:
    """The delays of payments, ms, that come evenly while a rule changes each second: until their cut is delivered."""
    arrivals, step = Arrivals([], []), RATE // APPENDS_A_S

    def append() -> None:
        begun = perf_counter()
        for number, at in enumerate(range(0, len(payments), step)):
            time.sleep(max(0.0, begun + number / APPENDS_A_S - perf_counter()))
            if number % APPENDS_A_S == 0:
                limit = 10**6 + number
                engine.logs.log("control").append([rule(1, ["payeeId", "beneficiaryId"], "30d", limit)])
            arrivals.times.append(perf_counter())
            part = payments[at : at + step]
            engine.logs.log("events").append(part)
            arrivals.counts.append(len(part))

    engine.delivered.clear()
    writer = Thread(target=append)
    writer.start()
    while writer.is_alive() or sum(events for _, events in engine.delivered) < len(payments):
        until = perf_counter() + EPOCH_S
        with engine.epoch() as running:
            while perf_counter() < until:
                if running.wait_until_cut_due(0.1):
                    running.pause(GATHER_S)
                    running.step()
    writer.join()
    done, ends = (np.array(of) for of in zip(*engine.delivered, strict=True))
    delivered = np.repeat(done, ends.astype(int))[: len(payments)]
    return 1000 * (delivered - np.repeat(arrivals.times, arrivals.counts))


def long_rules(events: int, keys: int) -> list[SumRule]:
    """Of each grouping a sum over 30 days: of a pair never above its limit, of a payee and a beneficiary at one payment in a thousand."""
    in_window = events / keys * WINDOW_DAYS / SPAN_DAYS
    mean, mean_of_squares = 12.5, 175  # of amounts, evenly from 5 to 20
    limit = round(in_window * mean + 3 * (in_window * mean_of_squares) ** 0.5)
    return [(PAIR, "30d", 10**6), (PAYEE, "30d", limit), (BENEFICIARY, "30d", limit)]


def run(
    folder: Path, payments: Payments, events: int, rules: Sequence[SumRule], expected: set[tuple[int, int]]
) -> list[str]:
    """The figures of one place, as text. `expected`: the alerts that DuckDB finds. Exits if these are others, or one came twice."""
    logs = FileLogs(folder / "logs")
    logs.log("control").append(messages(rules), log_time_ms=0)
    engine = Engine(logs, folder / "checkpoint")
    try:
        with payments.file.open("rb") as lines:
            rate = fill(engine, lines, events)
            filled = engine.stats
            logs.log("events").append([next(lines)])
            restart_s = engine.restart_s()
            logs.log("events").append(list(islice(lines, LOST)))
            engine.kill_worker()
            after_kill_s = engine.restart_s()
            delays = np.percentile(live(engine, list(lines)), (50, 99))
    finally:
        engine.stop()
        shared.remove_private_folder(engine.job.start_id)
    if Counter(engine.alerts) != Counter(expected):
        differing = Counter(engine.alerts) - Counter(expected) + (Counter(expected) - Counter(engine.alerts))
        sys.exit(
            f"alerts that only the engine or only DuckDB finds, or that came twice: {differing.most_common(5)}"
        )
    return [
        f"{rate:,.0f}",
        f"{filled['heldEvents']:,}",
        f"{filled['memoryBytes'] / filled['heldEvents']:.1f}",
        f"{filled.get('diskBytes', 0) >> 20:,}",
        f"{restart_s:.1f}",
        f"{after_kill_s:.1f}",
        "{:,.0f}, {:,.0f}".format(*delays),
        f"{getrusage(RUSAGE_SELF).ru_maxrss >> 10:,}",
        f"{len(expected):,}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench.longwindows", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--events", type=int, default=10_000_000, metavar="N", help="payments (10000000)")
    parser.add_argument(
        "--keys", type=int, default=100_000, metavar="N", help="payees, beneficiaries (100000)"
    )
    parser.add_argument("--seconds", type=int, default=20, metavar="S", help="at 500 a second (20)")
    parser.add_argument("--disk-only", action="store_true", help="only all on the disk")
    options = parser.parse_args()
    compile_kernels()
    title = f"{options.events:,} payments, 30 days, 3 routes; {memory_left_bytes() >> 20:,} MB of memory left at the start"
    table = Table(*COLUMNS, title=title, title_justify="left")
    with tempfile.TemporaryDirectory(prefix="lab-bench-") as name:
        more = 1 + LOST + RATE * options.seconds
        payments = Payments.make(
            Path(name, "payments"), options.events + more, options.keys, SPAN_DAYS * DAY_MS
        )
        rules = long_rules(options.events, options.keys)
        expected = alerts_of(payments, rules, Path(name, "duckdb"), memory_left_bytes() // 2)
        for number, (place, chosen) in enumerate(PLACES.items()):
            if options.disk_only and number == 0:
                continue
            with chosen:
                table.add_row(place, *run(Path(name, str(number)), payments, options.events, rules, expected))
    Console(width=None if Console().is_terminal else 180).print(table)


if __name__ == "__main__":
    main()
