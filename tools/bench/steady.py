"""An engine on Kafka at a steady rate for long, with rules that change: does anything grow? Then ten times the rate for a while.

`python -m tools.bench.steady [--seconds N] [--burst N] [--plot FILE.svg]`: memory and open files of all of its processes, bytes and files
of its checkpoint, latency; each drawn over time. Says what grew, the most memory during the burst, and how long it took to catch up.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from itertools import count
from math import isfinite, nan
from pathlib import Path
from statistics import median
from subprocess import Popen

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from lab.engine.loop.kafkalogs import KafkaLogs
from lab.followers.latency import Latencies
from lab.machine import broker
from lab.running.report import StatsReport
from tests.topics import count_appended
from tools.bench.live import _wait_for_acks, process

RULES = [
    "1,(active),(payeeId&beneficiaryId),,(paymentAmount),(SUM),(>),(35),(1)",
    "2,(active),(beneficiaryId),,(paymentAmount),(MAX),(>),(19.9),(1)",
]
GROWS = 1.15  # of the last third against the one before
CHANGE_S, TIMES, CAUGHT_UP_S, GIVE_UP_S = 10, 10, 1, 600
PANEL, HIGH, LEFT = 720, 110, 90  # px


@dataclass(frozen=True)
class Sample:
    """What there is at a time, in seconds since the start."""

    at: float
    memory_mb: float
    open_files: int
    checkpoint_mb: float
    checkpoint_files: int
    p50_ms: float
    p99_ms: float
    behind: int


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.steady", description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=1000, metavar="N", help="events/s (1000)")
    parser.add_argument("--seconds", type=int, default=3600, metavar="N", help="at that rate (3600)")
    parser.add_argument(
        "--burst", type=int, default=60, metavar="N", help="seconds at ten times the rate (60)"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw it")
    options = parser.parse_args()
    console = Console(width=None if Console().is_terminal else 100, highlight=False)
    with tempfile.TemporaryDirectory(prefix="lab-steady-") as folder, broker.running_broker() as kafka:
        logs, checkpoint = KafkaLogs(kafka.address), Path(folder, "checkpoint")
        logs.create()
        logs.log("control").publish(RULES, ["1", "2"])
        words = [
            "--logs",
            f"kafka://{kafka.address}",
            "--checkpoint",
            str(checkpoint),
            "--max-out-of-orderness",
            "10s",
        ]
        with process("-m", "lab", "run", *words) as engine:
            _wait_for_acks(logs, len(RULES))
            samples, took = measure(engine, logs, checkpoint, options.rate, options.seconds, options.burst)
    calm = [sample for sample in samples if sample.at <= options.seconds]
    console.print(verdict(calm, options.rate))
    wild = [sample.memory_mb for sample in samples if sample.at > options.seconds] or [0]
    before = median(sample.memory_mb for sample in calm[-max(1, len(calm) // 3) :])
    console.print(
        f"{TIMES * options.rate:,} events/s for {options.burst} s: {before:,.0f} MB before, {max(wild):,.0f} MB at most, "
        f"up to {max(sample.behind for sample in samples):,} events behind; "
        + (f"caught up {took:.0f} s after it" if took is not None else f"NOT caught up in {GIVE_UP_S} s")
    )
    if options.plot:
        options.plot.write_text(svg(samples, options.seconds))


def measure(
    engine: Popen, logs: KafkaLogs, checkpoint: Path, rate: int, seconds: int, burst: int
) -> tuple[list[Sample], float | None]:
    """The samples, and how many seconds after the burst the engine had caught up; None if it did not."""
    every, began, samples = max(2, seconds / 240), time.monotonic(), []
    report, latencies, changes = StatsReport(logs.log("stats")), Latencies(logs), rule_changes()
    changed = 0.0

    def look() -> Sample:
        nonlocal changed
        time.sleep(every)
        at = time.monotonic() - began
        if at > changed + CHANGE_S:
            message, key = next(changes)
            logs.log("control").publish([message], [key])
            changed = at
        report.read()
        alerts = latencies.read()
        took = latencies.total()[-alerts:] if alerts else np.array([np.nan])
        size, files = folder_size(checkpoint)
        memory, opened = of_processes(engine)
        behind = count_appended(logs.log("events")) - report.total["records"]
        p50, p99 = np.percentile(took, (50, 99)).tolist()
        samples.append(Sample(at, memory, opened, size, files, p50, p99, behind))
        return samples[-1]

    to = ["-m", "lab", "simulate", "payments", "--to", f"{logs.log('events')!r}", "--bursts", "0"]
    with process(*to, "--rate", str(rate)):
        while look().at < seconds:
            pass
        with process(*to, "--rate", str((TIMES - 1) * rate)):
            while look().at < seconds + burst:
                pass
        ended = time.monotonic()
        while look().behind > CAUGHT_UP_S * rate:
            if time.monotonic() > ended + GIVE_UP_S:
                return samples, None
    return samples, time.monotonic() - ended


def rule_changes() -> Iterator[tuple[str, str]]:
    """Rules that change their limit, come and go."""
    for number in count():
        yield RULES[1].replace("19.9", f"19.{80 + number % 19}"), "2"
        yield RULES[0].replace("1,(active)", "3,(active)").replace("35", f"{36 + number % 9}"), "3"
        yield '{"ruleId": 3, "ruleState": "DELETE"}', "3"


def of_processes(engine: Popen) -> tuple[float, int]:
    """MB of memory, what is shared counted once, and open files, of the engine and all that it started."""
    memory = files = 0
    for one in (parent := psutil.Process(engine.pid), *parent.children(recursive=True)):
        with suppress(psutil.Error):
            memory += one.memory_full_info().pss
            files += one.num_fds()
    return memory / 1e6, files


def folder_size(folder: Path) -> tuple[float, int]:
    sizes = []
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # merged meanwhile
            if path.is_file():
                sizes.append(path.stat().st_size)
    return sum(sizes) / 1e6, len(sizes)


def verdict(samples: list[Sample], rate: int) -> Table:
    """The medians of each third; what is higher in the last than in the one before, grows."""
    title = f"{rate:,} events/s for {samples[-1].at:,.0f} s, a rule changed every {CHANGE_S} s: medians"
    table = Table("", "first third", "second", "last", "", title=title)
    third = max(1, len(samples) // 3)
    for number, field in enumerate(fields(Sample)[1:], start=1):
        values = [astuple(sample)[number] for sample in samples]
        thirds = (values[:third], values[third : 2 * third], values[-third:])
        parts = [median(filter(isfinite, part)) if any(map(isfinite, part)) else nan for part in thirds]
        grows = field.name != "behind" and parts[2] > GROWS * parts[1]
        word = "NOT MEASURED" if not all(map(isfinite, parts)) else "GROWS" if grows else "flat"
        table.add_row(field.name.replace("_", " "), *(f"{part:,.0f}" for part in parts), word)
    return table


def svg(samples: list[Sample], seconds: float) -> str:
    """A panel for each of what was measured, over time; a line where the burst begins."""
    parts, end = [], samples[-1].at
    burst = LEFT + PANEL * seconds / end
    for row, field in enumerate(fields(Sample)[1:]):
        top, values = 24 + row * (HIGH + 34), [astuple(sample)[row + 1] for sample in samples]
        most = max((value for value in values if isfinite(value)), default=0) or 1
        line = " ".join(
            f"{LEFT + PANEL * sample.at / end:.1f},{top + HIGH * (1 - value / most):.1f}"
            for sample, value in zip(samples, values)
            if isfinite(value)
        )
        parts += [
            f'<text x="{LEFT}" y="{top - 6}" font-weight="bold">{field.name.replace("_", " ")}</text>',
            f'<text x="{LEFT - 6}" y="{top + 8}" text-anchor="end">{most:,.0f}</text>',
            f'<path d="M{LEFT} {top + HIGH}h{PANEL}M{burst:.0f} {top}v{HIGH}" stroke="#bbb" fill="none"/>',
            f'<polyline points="{line}" fill="none" stroke="#1f77b4" stroke-width="1.5"/>',
        ]
    high = 24 + (len(fields(Sample)) - 1) * (HIGH + 34)
    parts.append(f'<text x="{LEFT + PANEL}" y="{high}" text-anchor="end">{end:,.0f} s</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + PANEL + 20} {high + 10}" font-family="sans-serif"'
    return f'{head} font-size="11"><rect width="100%" height="100%" fill="white"/>\n{chr(10).join(parts)}\n</svg>\n'


if __name__ == "__main__":
    main()
