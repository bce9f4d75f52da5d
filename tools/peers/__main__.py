"""The peers side by side: `python -m tools.peers [--events N] [--sample N] [--repeats N] [--plot FILE.svg]`, told in `docs/peers.md`.

Speed: the engine, DuckDB and Polars on the whole file, the others on a sample: as many days, fewer keys. What they find:
against the reference, all on the sample.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, log10
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from lab.machine.session import session
from tools.bench.data import Payments
from tools.peers import batches, flink, streams
from tools.peers.data import Answer, make, reference

KEYS = 100_000  # payees, and as many beneficiaries

QUOTED = {  # events/s, measured before on two cores of the same kind, alone on the machine; not by this command
    "Flink's Java demo, 100k × 100k keys": 49_000,
    "Flink's Java demo, 1k × 1k keys": 10_100,
}


@dataclass
class Peer:
    """A way to evaluate the rules; `file`: what its speed is measured on."""

    title: str
    file: Payments
    answer: Callable[[Payments], Answer]
    warm: bool = True  # whether a first run must be thrown away; the others see to it themselves
    rates: list[float] = field(default_factory=list)
    missing: str = ""
    found: float = 0
    wrong: int = 0

    @property
    def rate(self) -> float:
        return median(self.rates)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.peers", description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=500_000, metavar="N", help="of the file (500000)")
    parser.add_argument("--sample", type=int, default=10_000, metavar="N", help="of the sample (10000)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="after a warm-up (3)")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the table")
    options = parser.parse_args()
    console = Console(width=None if Console().is_terminal else 120)
    with tempfile.TemporaryDirectory(prefix="lab-peers-") as folder, session() as spark:
        whole = make(Path(folder, "payments"), options.events, KEYS)
        sample = make(Path(folder, "sample"), options.sample, keys=KEYS * options.sample // options.events)
        peers = [
            Peer("the engine", whole, lambda of: streams.engine(spark, of)),
            Peer("DuckDB, finished file", whole, batches.by_duckdb),
            Peer("Polars, finished file", whole, batches.by_polars),
            Peer("Spark's sliding windows, S = W/10", sample, lambda of: streams.sliding(spark, of), False),
            Peer("textbook MapState, PySpark", sample, lambda of: streams.textbook(spark, of), False),
            Peer("textbook MapState, PyFlink", sample, flink.flink, False),
            Peer("the reference", sample, lambda of: reference(of)[1], False),
        ]
        measure(peers, sample, options.repeats, console)
    console.print(table(peers, sample, options.repeats))
    load, cpus = os.getloadavg()[1], os.cpu_count()
    busy = ": others worked too, measure again on a quiet machine" if load > 2 * cpus else ""
    console.print(f"{cpus} CPUs, load {load:.0f}{busy}")
    if options.plot:
        options.plot.write_text(svg(peers))


def measure(peers: list[Peer], sample: Payments, repeats: int, console: Console) -> None:
    exact, _ = reference(sample)
    if not exact.alerts:
        sys.exit(f"--sample: {sample.events:,} events have no true alert, take more")
    try:
        with console.status("Installing PyFlink in an environment of its own"):
            flink.install()
    except flink.NotInstalled as error:
        next(peer for peer in peers if peer.answer is flink.flink).missing = f"not installed: {error}"
    for turn in range(1 + repeats):
        for peer in peers:
            if peer.missing or (turn == 0 and not peer.warm):
                continue
            with console.status(f"Round {turn} of {repeats}: {peer.title}"):
                answer = peer.answer(peer.file)
            if turn:
                peer.rates.append(answer.rate)
            if turn == repeats:
                on_sample = answer if peer.file is sample else peer.answer(sample)
                peer.found, peer.wrong = exact.judged(on_sample.reports)


def table(peers: list[Peer], sample: Payments, repeats: int) -> Table:
    title = f"3 rules, 100k × 100k keys; events a second: median of {repeats}; alerts of the sample of {sample.events:,} events"
    out = Table(title=title, title_justify="left")
    for name in ("peer", "events/s", "range", "on events", "true alerts found", "false ones"):
        out.add_column(name, justify="left" if name == "peer" else "right")
    for peer in peers:
        if peer.missing:
            out.add_row(peer.title, peer.missing)
            continue
        span = f"{min(peer.rates):,.0f} – {max(peer.rates):,.0f}"
        judged = f"{peer.found:.1%}", f"{peer.wrong:,}"
        out.add_row(peer.title, f"{peer.rate:,.0f}", span, f"{peer.file.events:,}", *judged)
    for title, rate in QUOTED.items():
        out.add_row(title, f"{rate:,}", "quoted, not measured now")
    return out


ROW, LEFT, WIDE = 30, 240, 560  # px
COLOURS = {"measured": "#1f77b4", "quoted": "#aaaaaa"}


def svg(peers: list[Peer]) -> str:
    """A bar for each peer on a logarithmic axis of events a second; beside it what it found."""
    bars = [
        (of.title, of.rate, "measured", f"{of.rate:,.0f}/s, {of.found:.0%} found, {of.wrong:,} false")
        for of in peers
        if not of.missing
    ]
    bars += [(title, rate, "quoted", f"{rate:,}/s, quoted") for title, rate in QUOTED.items()]
    decades = ceil(log10(max(rate for _, rate, _, _ in bars)))
    parts = []
    for row, (title, rate, kind, told) in enumerate(sorted(bars, key=lambda bar: -bar[1])):
        y, long = 10 + row * ROW, WIDE * log10(rate) / decades
        parts.append(f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{title}</text>')
        parts.append(
            f'<rect x="{LEFT}" y="{y}" width="{long:.0f}" height="{ROW - 8}" fill="{COLOURS[kind]}"/>'
        )
        parts.append(f'<text x="{LEFT + 6}" y="{y + 15}" fill="white">{told}</text>')
    high = 10 + len(bars) * ROW
    for power in range(decades + 1):
        x = LEFT + WIDE * power / decades
        parts.append(f'<path d="M{x:.0f} 4V{high}" stroke="#00000022"/>')
        parts.append(f'<text x="{x:.0f}" y="{high + 16}" text-anchor="middle">{10**power:,}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDE + 60} {high + 26}" font-family="sans-serif" '
    return f'{head}font-size="12"><rect width="100%" height="100%" fill="white"/>\n{chr(10).join(parts)}\n</svg>\n'


if __name__ == "__main__":
    main()
