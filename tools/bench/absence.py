"""What a rule that says `absence` costs with many open groups: `python -m tools.bench.absence [--groups N] [--rate N]`.

Memory and state for each group, and the latency of another rule's alerts. The engine's loop runs in this process, without Spark,
on folders: without and with the rule in turn. First there is an event of each group, then events of random ones at a steady rate.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from random import Random
from shutil import rmtree
from statistics import median
from threading import Thread

import numpy as np
from rich.console import Console
from rich.table import Table

from lab.engine.checkpoint.cuts import Cut, CutLog
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.cut import Planner
from lab.engine.loop.epochs import running_epoch
from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.inprocess import compile_kernels
from lab.engine.loop.job import Job
from lab.engine.spark.runner import EPOCH_S, GATHER_S, REST_S
from lab.engine.windows import shared
from lab.engine.windows.evaluate import TaskOutput
from lab.model.times import now_ms
from tools.bench.live import cpu_busy

AT_ONCE, EVERY_S = 50_000, 0.01
TIMED = "1: COUNT(events) per payeeId over 1 d >= 2"
ABSENCE = "2: NO(events) per payeeId within 1 d after"
KINDS = {"without": [TIMED], "with": [TIMED, ABSENCE]}
MOST_BYTES, MOST_SLOWER = 300, 1.2


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench.absence", description=__doc__.split(": `")[0]
    )
    parser.add_argument("--groups", type=int, default=1_000_000, metavar="N", help="(1000000)")
    parser.add_argument("--rate", type=int, default=500, metavar="N", help="events/s (500)")
    parser.add_argument("--seconds", type=int, default=30, metavar="N", help="of each run (30)")
    parser.add_argument("--warm-up", type=int, default=5, metavar="N", help="seconds before (5)")
    parser.add_argument("--repeats", type=int, default=2, metavar="N", help="of both (2)")
    options = parser.parse_args()
    compile_kernels()
    busy, began = cpu_busy(), time.monotonic()
    runs: dict[str, list[tuple[dict, np.ndarray]]] = {kind: [] for kind in KINDS}
    for _ in range(options.repeats):
        for kind, rules in KINDS.items():
            runs[kind].append(measured(rules, options.groups, options.rate, options.warm_up, options.seconds))
    share = (cpu_busy() - busy) / (time.monotonic() - began) / os.cpu_count()
    table = Table("absence", title=f"{options.groups:,} groups, {options.rate:,} events/s; latency in ms")
    for column in ("memory, bytes a group", "state, bytes a group", "alerts", "p50", "p99"):
        table.add_column(column, justify="right")
    told = {}
    for kind, of in runs.items():
        per_group = [
            median(stats[name] for stats, _ in of) / options.groups for name in ("memoryBytes", "stateBytes")
        ]
        latency = [median(np.percentile(took, p) for _, took in of) for p in (50, 99)]
        count = sum(len(took) for _, took in of)
        table.add_row(kind, *(f"{n:,.0f}" for n in (*per_group, count)), *(f"{ms:.1f}" for ms in latency))
        told[kind] = per_group[0], latency[1]
    console = Console(width=None if Console().is_terminal else 100, highlight=False)
    console.print(table)
    more, slower = told["with"][0] - told["without"][0], told["with"][1] / told["without"][1]
    console.print(f"CPUs busy {100 * share:.0f} %, what else runs here included")
    console.print(
        f"memory {more:,.0f} bytes a group: {'met' if more <= MOST_BYTES else 'NOT MET'} {MOST_BYTES}"
    )
    console.print(f"p99 × {slower:.2f}: {'met' if slower <= MOST_SLOWER else 'NOT MET'} × {MOST_SLOWER}")


def measured(
    rules: list[str], groups: int, rate: int, warm_up_s: int, seconds: int
) -> tuple[dict, np.ndarray]:
    """The last line of statistics, and from append of an event to delivery of its alert, ms."""
    start, appended, alerted = f"bench-{time.monotonic_ns()}", {}, {}
    stats: dict = {}

    def feed(log) -> None:
        rng, number, ends = Random(1), groups, time.perf_counter() + warm_up_s + seconds
        while time.perf_counter() < ends:
            lines = [payment(number + n, rng.randrange(groups)) for n in range(max(1, round(rate * EVERY_S)))]
            appended.update(dict.fromkeys(range(number, number + len(lines)), time.perf_counter()))
            log.append(lines)
            number += len(lines)
            time.sleep(EVERY_S)

    def deliver(cut: Cut, output: TaskOutput, again: frozenset) -> None:
        outlet.put(cut, output, again)
        now = time.perf_counter()
        if alerts := output.get("alerts"):
            alerted.update((int(line.split(".", 3)[2]), now) for line in alerts.lines)
        stats.update(json.loads(output["stats"].lines.data))

    with tempfile.TemporaryDirectory(prefix="lab-bench-") as name:
        logs = FileLogs(Path(name, "logs"))
        logs.log("control").append(rules)
        events = logs.log("events")
        for first in range(0, groups, AT_ONCE):
            events.append([payment(n, n) for n in range(first, min(first + AT_ONCE, groups))])
        job = Job(Settings(), logs, f"{name}/checkpoint", start)
        planner = Planner(logs.feed("events"), logs.feed("control"), job.folder, job.settings)
        cuts, outlet = CutLog(job.folder, planner.mark_at_start_of_logs()), logs.outlet(start)
        feeder = Thread(target=feed, args=(events,), daemon=True)
        try:
            while feeder.is_alive() or not feeder.ident:
                with running_epoch(job, planner, cuts, deliver) as running:
                    ends = time.monotonic() + EPOCH_S
                    while time.monotonic() < ends or stats.get("groups", 0) != groups:
                        if running.wait_until_cut_due(REST_S):
                            running.pause(GATHER_S)
                            running.step()
                if not feeder.ident:  # what was there is taken, and saved
                    feeder.start()
        finally:
            rmtree(shared.private_folder(start), ignore_errors=True)
    begin = min(appended.values()) + warm_up_s
    took = [alerted[event] - at for event, at in appended.items() if at > begin and event in alerted]
    return stats, 1000 * np.array(took)


def payment(number: int, payee: int) -> str:
    return (
        f'{{"transactionId":{number},"eventTime":{now_ms()},"payeeId":{payee},"beneficiaryId":{payee},'
        '"paymentType":"CSH","paymentAmount":1.50}'
    )


if __name__ == "__main__":
    main()
