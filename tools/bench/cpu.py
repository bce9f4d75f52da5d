"""CPU seconds of a running engine's processes, at rest and at a steady rate, on folders and on Kafka: `python -m tools.bench.cpu`.

With `--against COMMIT` the engine of a commit takes turns with that of today, in one run.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.kafkalogs import KafkaLogs
from lab.machine import broker
from lab.stream.player import Player
from tests.answers import only_answers
from tests.waiting import wait_until
from tools.bench.against import tree
from tools.bench.live import TIMED_RULES

EVERY_S = 0.002  # events are appended this often; `lab simulate` appends to folders ten times a second, which costs less
KINDS = ("JVM", "worker", "driver", "others")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.cpu", description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=500, metavar="N", help="events/s (500)")
    parser.add_argument("--seconds", type=int, default=60, metavar="N", help="of each measurement (60)")
    parser.add_argument("--warm-up", type=int, default=45, metavar="N", help="seconds before each (45)")
    parser.add_argument("--against", metavar="COMMIT", help="also as it was then")
    options = parser.parse_args()
    table = Table("logs", "engine", "", *KINDS, "sum", title="Cores that an engine keeps busy")
    with tempfile.TemporaryDirectory(prefix="lab-bench-") as folder:
        trees = {"today": tree(Path(folder, "today"), None)}
        if options.against:
            trees[options.against] = tree(Path(folder, "then"), options.against)
        for logs in ("folders", "Kafka"):
            for name, of in trees.items():
                for phase, cores in measured(logs, of, options.rate, options.warm_up, options.seconds):
                    spent = [f"{cores[kind]:.3f}" for kind in KINDS]
                    table.add_row(logs, name, phase, *spent, f"{sum(cores.values()):.3f}")
    Console(width=None if Console().is_terminal else 100, highlight=False).print(table)


def measured(
    kind: str, of: Path, rate: int, warm_up: int, seconds: int
) -> list[tuple[str, dict[str, float]]]:
    """The cores that an engine with the `lab` of a tree keeps busy: at rest, and at a rate."""
    with (
        tempfile.TemporaryDirectory(prefix="lab-bench-") as folder,
        broker.running_broker() if kind == "Kafka" else nullcontext() as kafka,
    ):
        logs = KafkaLogs(kafka.address) if kafka else FileLogs(Path(folder, "logs"))
        logs.create()
        logs.log("control").publish(TIMED_RULES, [str(number) for number in range(len(TIMED_RULES))])
        where = f"kafka://{kafka.address}" if kafka else str(Path(folder, "logs"))
        words = ["--logs", where, "--checkpoint", f"{folder}/checkpoint"]
        command = [sys.executable, "-m", "lab", "run", *words]
        environment = os.environ | {"PYTHONPATH": str(of)}
        output = Path(folder, "output")
        with output.open("wb") as file:
            engine = subprocess.Popen(command, cwd=of, env=environment, stdout=file, stderr=file)
        try:
            wait_until(
                lambda: len(only_answers(logs.log("acks").read())) >= len(TIMED_RULES),
                alive=lambda: engine.poll() is None,
                said=output.read_text,
            )
            time.sleep(warm_up)
            found = [("at rest", cores(engine.pid, seconds))]
            with Player("payments", logs.log("events"), rate, burst_every_s=0, every_s=EVERY_S):
                time.sleep(warm_up)
                found.append((f"{rate:,} events/s", cores(engine.pid, seconds)))
        finally:
            engine.send_signal(2)
            engine.wait()
    return found


def cores(engine: int, seconds: float) -> dict[str, float]:
    """The cores that each kind of process of an engine keeps busy for some seconds, but for processes that end meanwhile."""
    before, found = spent(engine), dict.fromkeys(KINDS, 0.0)
    time.sleep(seconds)
    for (kind, process), cpu_s in spent(engine).items():
        found[kind] += (cpu_s - before.get((kind, process), 0)) / seconds
    return found


def spent(engine: int) -> dict[tuple[str, int], float]:
    """The CPU seconds of each of an engine's processes so far, by kind and process id."""
    found: dict[tuple[str, int], float] = {}
    for one in (parent := psutil.Process(engine), *parent.children(recursive=True)):
        try:
            words, times = " ".join(one.cmdline()), one.cpu_times()
        except psutil.NoSuchProcess:
            continue
        kind = "driver" if one == parent else "JVM" if "java" in words.split(" ")[0] else "others"
        if "-m lab.engine.spark.daemon" in words:
            kind = "worker"
        found[kind, one.pid] = times.user + times.system
    return found


if __name__ == "__main__":
    main()
