"""What an event costs the windows: `python -m tools.bench.cost [--events N] [--plot FILE.svg]`.

CPU time of `route`, `RouteStore.evaluate` and `alert_lines` on columns in memory: no decoding, no Spark. One thing changes at
a time.
"""

import argparse
import json
import time
from dataclasses import dataclass, replace
from math import ceil, floor, log10
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from lab.engine.checkpoint.ledger import Ledger
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.route import route_events
from lab.engine.records.columns import LOG_TIME, SOURCE, Columns
from lab.engine.records.decode import DecodedBatch
from lab.engine.windows import shared
from lab.engine.windows.alertlines import alert_lines, first_row_of_each_alert
from lab.engine.windows.store import RouteStore
from lab.model.rules import RuleBook
from lab.model.schema import PAYMENTS
from lab.model.times import HOUR_MS, MINUTE_MS
from tools.bench.data import PAYEE, Rough, rule

BATCH = 20_000  # events
NEVER = 10**15  # a limit that nothing reaches
BENEFICIARIES = 1_000
SETTINGS = Settings(key_groups=1)


FIVE = ("SUM", "AVG", "MAX", "COUNT", "STDDEV")
ROUGH = Rough()
ORDERED = Rough(late=0, hot=0, bursts=0, nulls=0)


@dataclass(frozen=True)
class Load:
    """Events of one grouping and its rules. Half of the events come first, unmeasured.

    `filters`: how many different ones the rules have, each for its share of the beneficiaries; 0: they have none.
    """

    events: int = 400_000
    every_ms: int = 100
    keys: int = 1_000
    rough: Rough = ROUGH
    functions: tuple[str, ...] = ("SUM",)
    windows_ms: tuple[int, ...] = (HOUR_MS,)
    rules: int = 1
    limit: int = NEVER
    filters: int = 0

    def messages(self) -> list[str]:
        kinds = [(window_ms, function) for window_ms in self.windows_ms for function in self.functions]
        chosen = (kinds[number % len(kinds)] for number in range(self.rules))
        return [
            rule(
                number,
                PAYEE,
                f"{window_ms // 1000}s",
                (self.limit + number) * (-1 if function == "MIN" else 1),
                function,
                self._filter(number),
            )
            for number, (window_ms, function) in enumerate(chosen, 1)
        ]

    def _filter(self, number: int) -> dict[str, list[int]] | None:
        if not self.filters:
            return None
        wanted = number * self.filters // (self.rules + 1)
        return {"beneficiaryId": list(range(wanted, BENEFICIARIES, self.filters))}

    def columns(self) -> Columns:
        rng = np.random.default_rng(1)
        cents = rng.integers(500, 2000, self.events)
        null = rng.random(self.events) < self.rough.nulls
        return {
            "transactionId": np.arange(self.events),
            "eventTime": self.rough.times(self.events, self.events * self.every_ms, rng),
            LOG_TIME: np.ones(self.events, np.int64),
            SOURCE: np.zeros(self.events, np.int64),
            "payeeId": self.rough.keys(self.events, self.keys, rng),
            "beneficiaryId": rng.integers(0, BENEFICIARIES, self.events),
            "paymentAmount": pa.array(cents, mask=null) if null.any() else cents,
        }


def cost(load: Load) -> float:
    """CPU µs an event."""
    ledger, columns, seconds = Ledger(RuleBook(PAYMENTS)), load.columns(), 0.0
    for message in load.messages():
        assert ledger.apply(message.encode())["status"] == "accepted"
    with TemporaryDirectory(prefix="lab-cost-", dir=shared.memory_folder()) as folder:
        stores = {
            (kept := plan.entry).store: RouteStore(
                *(Path(folder, f"{kept.store}"), PAYMENTS, plan.route, list(kept.fields), plan.rules),
                *(1, SETTINGS.max_out_of_orderness_ms),
            )
            for plan in ledger.plans
        }
        for first in range(0, load.events, BATCH):
            batch = {name: values[first : first + BATCH] for name, values in columns.items()}
            started = time.process_time()
            for envelope in route_events(DecodedBatch([batch]), ledger, [], SETTINGS).envelopes:
                store = stores[envelope.store_number]
                _, found = store.evaluate(envelope.columns, first, 0)
                alert_lines(store, envelope.columns, found, first_row_of_each_alert(store, found), first)
            if first >= load.events // 2:
                seconds += time.process_time() - started
    return seconds / (load.events // 2) * 1e6


Point = tuple[float, Load]
Figure = tuple[str, dict[str, list[tuple[float, float]]]]


def series(events: int) -> dict[str, tuple[str, dict[str, list[Point]]]]:
    """Title of a plot -> what is along it, and for each line its points."""
    base = Load(events=events)
    one_key = replace(base, keys=1, every_ms=10)
    windows = [MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, 10 * HOUR_MS]
    return {
        "window": (
            "minutes",
            {
                function: [
                    (window / MINUTE_MS, replace(base, functions=(function,), windows_ms=(window,)))
                    for window in windows
                ]
                for function in ("SUM", "MAX")
            },
        ),
        "late events, one key": (
            "% of the events",
            {
                function: [
                    (
                        100 * late,
                        replace(
                            one_key, functions=(function,), rough=replace(ORDERED, late=late, behind_ms=1000)
                        ),
                    )
                    for late in (0, 0.01, 0.03, 0.1, 0.3)
                ]
                for function in ("SUM", "MAX", "VARIANCE")
            },
        ),
        "keys": ("keys", {"SUM": [(keys, replace(base, keys=keys)) for keys in (1, 100, 10_000, 100_000)]}),
        "rules": (
            "rules of a route",
            {
                f"{len(kinds) * len(spans)} different aggregates": [
                    (rules, replace(base, functions=kinds, windows_ms=spans, rules=rules))
                    for rules in (1, 10, 100, 1000, 10_000)
                    if rules >= len(kinds) * len(spans)
                ]
                for kinds, spans in (
                    (("SUM",), (HOUR_MS,)),
                    (("SUM", "AVG", "MIN", "MAX", "COUNT", "STDDEV"), tuple(windows)),
                )
            },
        ),
        "filters": (
            "filters of 1,000 rules",
            {
                "5 aggregates each": [
                    (filters, replace(base, functions=FIVE, rules=1_000, filters=filters))
                    for filters in (1, 20, 200)
                ]
            },
        ),
        "alerts": (
            "% of the events alert",
            {"SUM": [(0, base), (100, replace(base, limit=0, rough=replace(Rough(), nulls=0)))]},
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.cost", description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=400_000, metavar="N", help="of each load (400000)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="the median of which counts (3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw them")
    options = parser.parse_args()
    console = Console(width=None if Console().is_terminal else 120)
    measured = series(options.events)
    loads = [load for _, lines in measured.values() for points in lines.values() for _, load in points]
    functions = tuple({function: None for load in loads for function in load.functions})
    # compiled or read from Numba's cache
    cost(Load(events=2 * BATCH, functions=functions, rules=len(functions)))
    figures: dict[str, Figure] = {}
    for title, (along, lines) in measured.items():
        figures[title] = along, {}
        table = Table(title=f"{title}: CPU µs an event", title_justify="left")
        for name in (along, *lines):
            table.add_column(name, justify="right")
        points = {(line, x): load for line, at in lines.items() for x, load in at}
        samples: dict[tuple[str, float], list[float]] = {point: [] for point in points}
        for _ in range(options.repeats):
            for point, load in points.items():
                samples[point].append(cost(load))
        for x in dict.fromkeys(x for _, x in points):
            row = [f"{median(samples[line, x]):.2f}" if (line, x) in samples else "" for line in lines]
            table.add_row(f"{x:,g}", *row)
        for line, at in lines.items():
            figures[title][1][line] = [(x, median(samples[line, x])) for x, _ in at]
        console.print(table)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    if options.plot:
        options.plot.write_text(svg(figures))


# -- the plot ----------------------------------------------------------------------------------------------------------

PANEL, GAP, HIGH = 220, 50, 200  # px
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")


def svg(figures: dict[str, Figure]) -> str:
    """Panels side by side with one logarithmic axis of µs an event; the axis along the bottom has a place for each value."""
    costs = [us for _, lines in figures.values() for line in lines.values() for _, us in line]
    low, high = floor(log10(min(costs))), ceil(log10(max(costs)))

    def y(us: float) -> float:
        return 30 + HIGH * (high - log10(us)) / (high - low)

    parts = []
    for number, (title, (along, lines)) in enumerate(figures.items()):
        left = GAP + number * (PANEL + GAP)
        xs = sorted({x for line in lines.values() for x, _ in line})
        at = {x: left + PANEL * (place + 0.5) / len(xs) for place, x in enumerate(xs)}
        parts.append(f'<text x="{left}" y="16" font-weight="bold">{title}</text>')
        for power in range(low, high + 1):
            level = y(10**power)
            parts.append(f'<path d="M{left} {level:.0f}h{PANEL}" stroke="#ddd"/>')
            parts.append(f'<text x="{left - 4}" y="{level + 4:.0f}" text-anchor="end">{10.0**power:g}</text>')
        for x, place in at.items():
            parts.append(f'<text x="{place:.0f}" y="{HIGH + 46}" text-anchor="middle">{x:,g}</text>')
        parts.append(f'<text x="{left + PANEL / 2}" y="{HIGH + 62}" text-anchor="middle">{along}</text>')
        for row, (colour, (name, line)) in enumerate(zip(COLOURS, lines.items())):
            path = " ".join(f"{at[x]:.1f},{y(us):.1f}" for x, us in line)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
            parts.append(f'<text x="{left + 6}" y="{44 + 14 * row}" fill="{colour}">{name}</text>')
    width = GAP + len(figures) * (PANEL + GAP)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HIGH + 74}" font-family="sans-serif" '
    )
    return f'{head}font-size="11"><rect width="100%" height="100%" fill="white"/>\n{chr(10).join(parts)}\n</svg>\n'


if __name__ == "__main__":
    main()
