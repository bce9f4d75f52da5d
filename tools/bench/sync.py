"""What it costs that saves wait for the disk: `python -m tools.bench.sync [--folder FOLDER] [--saves N]`.

The engine's loop in this process saves its state again and again, on a disk that `--folder` is on: at rest, when an epoch has one event,
and as at 500 events/s, when it has the thousand of two seconds. Each with `--power-safe` and without.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import quantiles
from time import perf_counter

from rich.console import Console
from rich.table import Table

from lab.engine.checkpoint.cuts import CutLog
from lab.engine.checkpoint.durable import take_waited_ms
from lab.engine.loop.cut import Planner
from lab.engine.loop.epochs import running_epoch
from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.inprocess import compile_kernels
from lab.engine.loop.job import Job
from lab.engine.windows import shared
from lab.model.enginelogs import READ
from tools.bench.against import ENGINE
from tools.bench.data import Payments, three_rules

WARM_UP = 5  # saves that are not measured
SAVED = {"at rest, 1 event": 1, "500/s, 1,000 events": 1000}  # what there is in an epoch


def saves(folder: Path, payments: Payments, events: int, power_safe: bool) -> list[tuple[float, float]]:
    """How long each save took, and for how much of that it waited for the disk, ms."""
    logs = FileLogs(folder / "logs")
    logs.log("control").append(three_rules())
    job = Job(replace(ENGINE, power_safe=power_safe), logs, str(folder / "checkpoint"), f"sync-{folder.name}")
    events_feed, control_feed = map(logs.feed, READ)
    found, cuts = [], None
    try:
        for part in payments.parts(events):
            logs.log("events").append(part)
            planner = Planner(events_feed, control_feed, job.folder, job.settings)
            cuts = cuts or CutLog(job.folder, planner.mark_at_start_of_logs())
            epoch = running_epoch(job, planner, cuts, lambda *_: None)
            with epoch as running:
                while not running.step():
                    pass
                take_waited_ms()
                begun = perf_counter()
            found.append((1000 * (perf_counter() - begun), float(take_waited_ms())))
    finally:
        shared.remove_private_folder(job.start_id)
    return found[WARM_UP:]


def shown(values: Sequence[float]) -> str:
    """Median and 99th percentile."""
    of = quantiles(values, n=100, method="inclusive")
    return f"{of[49]:.1f}, {of[98]:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.sync", description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="on the disk to measure (here)")
    parser.add_argument("--saves", type=int, default=200, metavar="N", help="of each kind (200)")
    options = parser.parse_args()
    compile_kernels()
    table = Table("a save", "--power-safe", "p50, p99 ms", "of these waiting for the disk")
    with tempfile.TemporaryDirectory(prefix="lab-bench-", dir=options.folder) as name:
        for number, (kind, events) in enumerate(SAVED.items()):
            payments = Payments.make(Path(name, str(number)), events * (WARM_UP + options.saves), 1000)
            for power_safe in (False, True):
                found = saves(Path(name, f"{number}-{power_safe}"), payments, events, power_safe)
                took, waited = zip(*found, strict=True)
                table.add_row(kind, "yes" if power_safe else "no", shown(took), shown(waited))
    Console(width=None if Console().is_terminal else 120).print(table)


if __name__ == "__main__":
    main()
