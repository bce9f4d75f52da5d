"""Fills windows of 30 days on three routes: `python -m tools.bench.longwindows [--events N] [--keys N]`.

Payments over 40 days, read by the engine's loop in this process: first with the windows where the engine puts them, which is in memory as
long as that has room, then all on the disk of the temporary folder (`TMPDIR`). To see what a limit of memory does, start it under
one that you have set up yourself, such as a container's: then the first run, too, moves to the disk what finds no room.
"""

import argparse
import json
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import perf_counter
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from lab.engine.loop.inprocess import InProcessEngine, compile_kernels
from lab.engine.windows import shared
from lab.engine.windows.memoryleft import memory_left_bytes
from tools.bench.against import ENGINE
from tools.bench.data import Payments, logs_of, same_window_rules
from tools.bench.drive import Json

PLACES: dict[str, AbstractContextManager] = {
    "where the engine puts them": nullcontext(),
    "all on the disk": patch.object(shared, "memory_left_bytes", lambda: 0),
}


def fill(folder: Path, payments: Payments) -> tuple[float, Json]:
    """Events a second, and the engine's last line of statistics."""
    with InProcessEngine(ENGINE, logs_of(folder, payments, same_window_rules("30d"))) as engine:
        started, newest = perf_counter(), ""
        while engine.step():
            newest = engine.out["stats"][-1]
            engine.out.clear()
        return payments.events / (perf_counter() - started), json.loads(newest)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench.longwindows", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--events", type=int, default=10_000_000, metavar="N", help="payments (10000000)")
    parser.add_argument(
        "--keys", type=int, default=100_000, metavar="N", help="payees, beneficiaries (100000)"
    )
    options = parser.parse_args()
    compile_kernels()
    title = f"{options.events:,} payments, 30 days, 3 routes; {memory_left_bytes() >> 20:,} MB of memory left at the start"
    columns = (
        "windows",
        "events/s",
        "stored events",
        "B / event and route",
        "on the disk, MB",
        "process, MB",
    )
    table = Table(*columns, title=title, title_justify="left")
    with tempfile.TemporaryDirectory(prefix="lab-bench-") as name:
        payments = Payments.make(Path(name, "payments"), options.events, options.keys)
        for number, (place, chosen) in enumerate(PLACES.items()):
            with chosen:
                rate, stats = fill(Path(name, str(number)), payments)
            table.add_row(
                place,
                f"{rate:,.0f}",
                f"{stats['heldEvents']:,}",
                f"{stats['memoryBytes'] / stats['heldEvents']:.1f}",
                f"{stats.get('diskBytes', 0) >> 20:,}",
                f"{getrusage(RUSAGE_SELF).ru_maxrss >> 10:,}",
            )
    Console(width=None if Console().is_terminal else 120).print(table)


if __name__ == "__main__":
    main()
