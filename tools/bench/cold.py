"""Where the time of a cold `lab replay` goes: `python -m tools.bench.cold [--events N] [--repeats N]`. Prints a table.

Each replay is a process of its own, with three rules. CPU counts all of its processes: Python, the JVM, Spark's workers.
"""

import argparse
import json
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import psutil
from rich.console import Console
from rich.table import Table

from tools.bench.data import Payments, three_rules

Spent = dict[str, tuple[float, float]]  # part -> seconds, CPU seconds
IMPORTS, SPARK, QUERY, ALERTS = (
    "Python and imports",
    "Java and Spark started, beside it the log",
    "query started",
    "alerts put in order",
)
STOPPED = "Spark and Java stopped"  # their CPU time cannot be asked for any more
FIRST = (
    "  planned, a worker started",
    "  read and decoded",
    "  routed",
    "  evaluated, state written",
    "  the rest",
)
WHOLE, OTHERS = "first micro-batch", "other micro-batches"


class Clock:
    """Seconds and CPU seconds since the last look at it, the first time since the process `began` (s since the epoch)."""

    def __init__(self, began: float) -> None:
        self.spent: Spent = {}
        self._last = began, 0.0

    def passed(self, part: str) -> None:
        now = time.time(), sum(map(_cpu, [psutil.Process(), *psutil.Process().children(recursive=True)]))
        self.spent[part] = now[0] - self._last[0], now[1] - self._last[1]
        self._last = now


def _cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
        return times.user + times.system
    except psutil.NoSuchProcess:
        return 0.0


def child(events: str, rules: str, began: str) -> None:
    """One replay; prints what its parts took as JSON."""
    clock = Clock(float(began))
    from lab.engine.spark import pipeline
    from lab.past import replay

    start, run, in_order = pipeline.start, replay._run, replay._sorted

    def timed_start(*args: Any, **named: Any) -> Any:
        clock.passed(SPARK)
        engine = start(*args, **named)
        clock.passed(QUERY)
        return engine

    def timed_run(engine: Any, logs: Any, *args: Any) -> Any:
        result = run(engine, logs, *args)
        clock.passed(OTHERS)
        whole = engine.query.recentProgress[0].durationMs["triggerExecution"] / 1000
        at = json.loads(next(iter(logs.log("stats").read())))["times"]
        steps = [at[name] / 1000 for name in ("start", "decode", "route", "evaluate", "end")]
        parts = [end - begin for begin, end in pairwise(steps)]
        clock.spent |= {name: (spent, 0) for name, spent in zip(FIRST, [*parts, whole - sum(parts)])}
        clock.spent[WHOLE] = whole, 0
        clock.spent[OTHERS] = clock.spent[OTHERS][0] - whole, clock.spent[OTHERS][1]
        return result

    def timed_sort(lines: list[str]) -> list[str]:
        result = in_order(lines)
        clock.passed(ALERTS)
        return result

    clock.passed(IMPORTS)
    with (
        patch.object(pipeline, "start", timed_start),
        patch.object(replay, "_run", timed_run),
        patch.object(replay, "_sorted", timed_sort),
    ):
        replay.replay(events, replay.read_rules(rules))
    clock.passed(STOPPED)
    clock.spent[STOPPED] = clock.spent[STOPPED][0], 0
    print(json.dumps(clock.spent))


def measured(events: int, repeats: int) -> list[Spent]:
    with TemporaryDirectory(prefix="lab-cold-") as folder:
        payments = Payments.make(Path(folder, "payments"), events, 100_000)
        rules = Path(folder, "rules.txt")
        rules.write_text("\n".join(three_rules()))
        command = [sys.executable, "-m", "tools.bench.cold", "--child", str(payments.file), str(rules)]
        return [
            json.loads(subprocess.check_output([*command, str(time.time())], text=True).splitlines()[-1])
            for _ in range(repeats)
        ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.cold", description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000, metavar="N", help="of the file (1000000)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="replays (3)")
    parser.add_argument("--child", nargs=3, metavar=("EVENTS", "RULES", "BEGAN"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(*options.child)
    runs = measured(options.events, options.repeats)
    table = Table(
        title=f"A cold replay of {options.events:,} events, median of {options.repeats}", title_justify="left"
    )
    for name in ("part", "seconds", "CPU seconds"):
        table.add_column(name, justify="left" if name == "part" else "right")
    for part in (IMPORTS, SPARK, QUERY, WHOLE, *FIRST, OTHERS, ALERTS, STOPPED):
        seconds, cpu = (median(run[part][of] for run in runs) for of in (0, 1))
        with_first = " with the first" if part == OTHERS else ""
        table.add_row(part, f"{seconds:.2f}", f"{cpu:.2f}{with_first}" if cpu else "")
    totals = [median(sum(run[part][of] for part in run if part[0] != " ") for run in runs) for of in (0, 1)]
    table.add_row("all", *(f"{total:.2f}" for total in totals))
    Console(width=None if Console().is_terminal else 120).print(table)


if __name__ == "__main__":
    main()
