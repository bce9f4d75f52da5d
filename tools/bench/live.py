"""Measures the live engine on topics of a real broker, its latency also on logs in folders: `python -m tools.bench.live [latency|throughput] …`.

Broker, generator and engine are processes of their own on this machine. Latency is from the append of an event to that of its alert.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.kafkalogs import KafkaLogs
from lab.followers.latency import PERCENTILES, Latencies
from lab.machine import broker
from lab.machine.orphans import run_if_killed
from lab.model.quantiles import percentile_texts
from lab.running.report import StatsReport
from tests.answers import only_answers
from tests.topics import count_appended
from tools.bench.catchup import catchup
from tools.bench.data import BENEFICIARY, PAIR, PAYEE, Payments, rule, three_rules

LATENCY_TARGETS: dict[float, int] = {50: 15, 99: 25, 99.9: 60}  # percentile -> ms
BUSY_TARGETS: dict[float, int] = {99: 80}  # beside loops that keep every CPU busy
ANSWER_TARGET_MS = 30  # at p99
# the first is a rule that some events in a hundred break, so that there is something to time
TIMED_RULES = [
    rule(1, PAYEE, "30d", 19.6, "MAX"),
    rule(2, PAIR, "30d", 20_000_000),
    rule(3, BENEFICIARY, "24h", 10_000_000),
]
FLOORS = {"spark": "a query that only copies", "loop": "a bare loop that consumes and produces"}
CHANGES = ["3,(pause)", "3,(active)"]
STEADY_TARGET = 80_000  # events/s
READY_S = 180
STARTED_S = 1  # of each round is not counted


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.live", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("latency", help="percentiles at a steady rate")
    command.add_argument(
        "--rates", type=int, nargs="+", default=[500, 1000], metavar="N", help="events/s (500 1000)"
    )
    command.add_argument(
        "--seconds", type=int, default=300, metavar="N", help="measured, after warm-up (300)"
    )
    command.add_argument("--warm-up", type=int, default=60, metavar="N", help="seconds (60)")
    command.add_argument(
        "--floor",
        type=int,
        default=60,
        metavar="N",
        help="seconds, also after warm-up, of each floor: a query that only copies, and a bare loop; 0: none (60)",
    )
    command.add_argument(
        "--busy",
        type=int,
        default=os.cpu_count(),
        metavar="N",
        help="loops without end beside which all is measured again at the first rate; 0: not again (one for each CPU)",
    )
    command.add_argument("--folders", action="store_true", help="logs in folders, not in topics; no floors")
    command.add_argument(
        "--run",
        nargs=argparse.REMAINDER,
        default=["--parallelism", "1"],
        help="arguments of `lab run` (--parallelism 1)",
    )
    command = commands.add_parser(
        "throughput", help="the highest rate at which the lag does not grow, and how fast a backlog is read"
    )
    command.add_argument("--rates", type=int, nargs="+", default=[60_000, 80_000, 100_000], metavar="N")
    command.add_argument("--seconds", type=int, default=45, metavar="N", help="at each rate (45)")
    command.add_argument(
        "--events",
        type=int,
        default=1_000_000,
        metavar="N",
        help="of a backlog that is read afterwards (1000000)",
    )
    command.add_argument("--repeats", type=int, default=3, metavar="N", help="of that, after a warm-up (3)")
    options = parser.parse_args()
    console = Console(width=None if Console().is_terminal else 100, highlight=False)
    if options.command == "latency":
        for rate in options.rates:
            latency(rate, LATENCY_TARGETS, options, console)
        if options.busy:
            with busy_loops(options.busy):
                console.print(f"The same beside {options.busy} loops without end:")
                latency(options.rates[0], BUSY_TARGETS, options, console)
    else:
        throughput(options.rates, options.seconds, console)
        catchup(options.events, options.repeats, console)


@contextmanager
def engine(rules: list[str], *arguments: str, folders: bool = False) -> Iterator[KafkaLogs | FileLogs]:
    """A broker, unless logs are in folders, and an engine that has taken the rules, both gone at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="lab-bench-") as folder,
        nullcontext() if folders else broker.running_broker() as kafka,
    ):
        logs = KafkaLogs(kafka.address) if kafka else FileLogs(Path(folder, "logs"))
        logs.create()
        logs.log("control").publish(rules, [str(number) for number in range(len(rules))])
        where = f"kafka://{kafka.address}" if kafka else f"{folder}/logs"
        words = ["--logs", where, "--checkpoint", f"{folder}/checkpoint", *arguments]
        with process("-m", "lab", "run", *words):
            _wait_for_acks(logs, len(rules))
            yield logs


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen]:
    """A Python process that is interrupted at the end."""
    one = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with run_if_killed("kill", str(one.pid)):
            yield one
    finally:
        one.send_signal(2)
        with suppress(subprocess.TimeoutExpired):
            one.wait(30)
        one.kill()


def _wait_for_acks(logs: KafkaLogs | FileLogs, count: int) -> None:
    deadline = time.monotonic() + READY_S
    while len(only_answers(logs.log("acks").read())) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the engine did not take the rules within {READY_S} s")
        time.sleep(0.5)


def latency(rate: int, targets: dict[float, int], options: argparse.Namespace, console: Console) -> None:
    """Prints the table of `lab latency` for one rate, how it stands to the targets, and the floors."""
    seconds, warm_up = options.seconds, options.warm_up
    with engine(TIMED_RULES, *options.run, folders=options.folders) as logs, payments(logs, rate):
        time.sleep(warm_up)
        latencies = Latencies(logs, at_most=1_000_000)
        acks, control = logs.log("acks").tail(new=True), logs.log("control")
        busy = cpu_busy()
        for second in range(seconds):
            control.publish([CHANGES[second % 2]], ["3"])
            time.sleep(1)
            latencies.read()
        busy = cpu_busy() - busy
        with closing(acks):
            answers = [record.log_time_ms - json.loads(record.line)["logTime"] for record in acks.records()]
    console.print(
        f"{rate:,} events/s for {seconds} s after {warm_up} s; CPUs busy {100 * busy / seconds / os.cpu_count():.0f} %"
    )
    console.print(latencies.table())
    total = latencies.total()
    for percentile, target in targets.items():
        value = np.percentile(total, percentile)
        console.print(f"p{percentile} {value:,.0f} ms: {'met' if value <= target else 'NOT MET'} {target} ms")
    value = np.percentile(answers, 99)
    met = "met" if value <= ANSWER_TARGET_MS else "NOT MET"
    console.print(
        f"From append of a rule's change to append of its answer, {len(answers)} changes: "
        f"p50 {np.percentile(answers, 50):,.0f} ms, p99 {value:,.0f} ms: {met} {ANSWER_TARGET_MS} ms"
    )
    for way in FLOORS if options.floor and not options.folders else ():
        floor(way, rate, warm_up, options.floor, console)


def payments(logs: KafkaLogs | FileLogs, rate: int) -> AbstractContextManager[subprocess.Popen]:
    """A generator beside us."""
    to = f"{logs.log('events')!r}"
    return process("-m", "lab", "simulate", "payments", "--to", to, "--rate", str(rate), "--bursts", "0")


def floor(way: str, rate: int, warm_up: int, seconds: int, console: Console) -> None:
    """Prints the same percentiles with nothing between topic and topic."""
    with broker.running_broker() as kafka:
        logs = KafkaLogs(kafka.address)
        logs.create()
        with process("-m", "tools.bench.floor", way, kafka.address, "events", "alerts"), payments(logs, rate):
            time.sleep(warm_up)
            with closing(logs.log("alerts").tail(new=True)) as copies:
                time.sleep(seconds)
                took = [record.log_time_ms - int(record.line) for record in copies.records()]
    names = ", ".join(f"p{percentile:g}" for percentile in PERCENTILES)
    console.print(
        f"The floor, {FLOORS[way]}, {rate:,} events/s for {seconds} s, {len(took):,} records: "
        f"{names} {', '.join(percentile_texts(took, PERCENTILES))} ms"
    )


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keeps so many CPUs busy."""
    with ExitStack() as loops:
        for _ in range(count):
            loops.enter_context(process("-c", "while True: pass"))
        yield


def cpu_busy() -> float:
    """CPU seconds that all processes of the machine have taken."""
    user, nice, system, *_ = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def throughput(rates: list[int], seconds: int, console: Console) -> None:
    """Prints, for rising rates, how far the engine was behind halfway and at the end; stops where that grows."""
    table = Table(
        "events/s", "written/s", "behind halfway", "behind at the end", title="Lag, in events (and seconds)"
    )
    steady, rates, first = 0, [rates[0], *rates], 0  # the first round warms up and is not shown
    with (
        tempfile.TemporaryDirectory(prefix="lab-bench-") as folder,
        engine(three_rules(), "--throughput") as logs,
    ):
        assert isinstance(logs, KafkaLogs)
        made = Payments.make(Path(folder, "made"), sum(rates) * seconds, keys=100_000)
        report, to = StatsReport(logs.log("stats")), f"{logs.log('events')!r}"
        for number, rate in enumerate(rates):
            part = map(str, (made.file, first, rate * seconds, rate))
            first += rate * seconds
            with process("-m", "tools.bench.feed", to, *part) as feed:
                samples = list(_lag(logs, report, feed))
            if number == 0:
                continue
            samples = [sample for sample in samples if sample[1] > samples[0][1] + STARTED_S * rate]
            third = len(samples) // 3
            half, end = (
                float(np.mean([lag for _, _, lag in some]))
                for some in (samples[third:-third], samples[-third:])
            )
            written = (samples[-1][1] - samples[0][1]) / (samples[-1][0] - samples[0][0])
            table.add_row(
                f"{rate:,}", f"{written:,.0f}", *(f"{lag:,.0f} ({lag / rate:.1f})" for lag in (half, end))
            )
            if end - half > rate or written < 0.95 * rate:
                break
            steady = rate
    console.print(table)
    met = "met" if steady >= STEADY_TARGET else "NOT MET"
    console.print(f"highest rate without growing lag: {steady:,} events/s; {met} {STEADY_TARGET:,}")


def _lag(logs: KafkaLogs, report: StatsReport, feed: subprocess.Popen) -> Iterator[tuple[float, int, int]]:
    """(time, events in the topic, how many of them the engine has not reported), twice a second while the feed runs."""
    while feed.poll() is None:
        time.sleep(0.5)
        report.read()
        written = count_appended(logs.log("events"))
        yield time.monotonic(), written, written - report.total["records"]


if __name__ == "__main__":
    main()
