"""Measures the engine on this machine: `python -m tools.bench [--events N] [--repeats N] [--json FILE]`.

Medians of interleaved repeats (A B C A B C …) in one Spark session, after a round that is thrown away.
"""

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from lab.contrast.mapstate import textbook
from lab.machine.session import session
from lab.model.times import DAY_MS
from lab.past.replay import replay as replay_file
from tools.bench import against, data, shares, state
from tools.bench.against import ENGINE
from tools.bench.drive import Json, Run, replay
from tools.bench.limit import duckdb_seconds
from tools.bench.stages import stage_seconds

MANY_PROGRESSES = {"spark.sql.streaming.numRecentProgressUpdates": "1000"}
TARGETS = {
    "three rules": 200_000,
    "hundred rules": 30_000,
    "thousand rules": 50_000,
    "joined rules": 50_000,
    "ten thousand rules": 10_000,
}
LONG_TO_SHORT = 0.75  # the rate must not fall further for windows 43,200 times as long
LISTED_TO_PLAIN = 0.9  # nor for a list of 100,000 entries


@dataclass
class Case:
    """Something that can be run again; `measure` gives events a second, or a run of the engine."""

    title: str
    measure: Callable[[], float | Run]
    samples: list[float] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    def turn(self) -> None:
        sample = self.measure()
        if isinstance(sample, Run):
            self.runs.append(sample)
        self.samples.append(sample.rate if isinstance(sample, Run) else sample)

    def forget(self) -> None:
        self.samples.clear()
        self.runs.clear()

    @property
    def rate(self) -> float:
        return median(self.samples)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000, metavar="N", help="of a file (1000000)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="after a warm-up (3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples to this file too")
    parser.add_argument(
        "--against", metavar="COMMIT", help="also the engine as it was then, in turns with today's"
    )
    parser.add_argument("--ten-thousand-rules", action="store_true", help="as well: it takes minutes more")
    options = parser.parse_args()
    console = Console(width=None if Console().is_terminal else 120)
    with tempfile.TemporaryDirectory(prefix="lab-bench-") as folder, session(conf=MANY_PROGRESSES) as spark:
        bench = Bench(spark, Path(folder), console, options.events, options.repeats, options.against)
        bench.ten_thousand_rules = options.ten_thousand_rules
        result = bench.run()
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
        console.print(f"All samples: {options.json}")


class Bench:
    """The cases and what they gave."""

    ten_thousand_rules = False

    def __init__(
        self, spark, folder: Path, console: Console, events: int, repeats: int, commit: str | None = None
    ):
        self.spark, self.folder, self.console, self.repeats = spark, folder, console, repeats
        compared = {"today": None, commit: commit} if commit else {}
        self.trees = {name: against.tree(folder / "trees" / name, at) for name, at in compared.items()}
        with console.status("Making payments"):
            self.wide = data.Payments.make(folder / "wide", events, 100_000)
            self.rough = data.Payments.make(folder / "rough", events, 100_000, rough=data.Rough())
            self.narrow = data.Payments.make(folder / "narrow", events, 1_000)
            self.many = data.Payments.make(folder / "many", events // 2, 100_000)
            self.sample = data.Payments.make(folder / "sample", min(3_000, events), 1_000, DAY_MS)

    def run(self) -> Json:
        machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "spark": self.spark.version}
        self.console.print(f"{machine['cpus']} CPUs, Python {machine['python']}, Spark {machine['spark']}")
        cases = self._cases()
        *others, textbook = cases.values()
        self._measure(others)
        # in turns with it the engine's workers would idle until their memory is taken
        self._measure([textbook])
        runs = cases["three rules"].runs
        alerts = {run.alerts for run in runs + cases["two tasks"].runs + cases["listed"].runs} | {
            self.local_alerts,
            self.duckdb_alerts,
        }
        assert len(alerts) == 1, (
            f"the engine, with and without Spark, and DuckDB differ in their alerts: {alerts}"
        )
        self._print_rates(cases)
        with self.console.status("Stages one by one"):
            python = self._stage_seconds()
        share = shares.cpu_shares(runs, python)
        wall = shares.wall_shares(runs)
        self._print_shares(share, wall)
        with self.console.status("A long replay"):
            replayed, files = self._state()
        self._print_state(replayed, files)
        return {
            "machine": machine,
            "eventsPerSecond": {name: case.samples for name, case in cases.items()},
            "withoutFirstBatch": [run.warm_rate for run in runs],
            "cpuSeconds": {name: [run.cpu for run in case.runs] for name, case in cases.items() if case.runs},
            "cpuMsPer100kEvents": share,
            "wallMsPer100kEvents": wall,
            "state": replayed.stats,
            "stateFiles": files,
            "batches": runs[-1].batches,
        }

    def _measure(self, cases: list[Case]) -> None:
        for turn in range(1 + self.repeats):
            round_name = f"Round {turn} of {self.repeats}" if turn else "Warm-up"
            for case in cases:
                with self.console.status(f"{round_name}: {case.title}"):
                    case.turn()
                if not turn:
                    case.forget()

    # -- speed ---------------------------------------------------------------------------------------------------------

    def _cases(self) -> dict[str, Case]:
        def engine(title: str, payments: data.Payments, rules: list[str], tasks: int = 1) -> Case:
            settings = replace(ENGINE, parallelism=tasks)
            return Case(title, lambda: replay(self.spark, payments, rules, settings))

        narrow, short, long = self.narrow, data.same_window_rules("1m"), data.same_window_rules("30d")
        ten_thousand = engine("10,000 rules, 120 aggregates", self.many, data.many_rules(10_000))
        return {
            "three rules": engine("3 rules, 100k × 100k keys", self.wide, data.three_rules()),
            "two tasks": engine("the same, parallelism 2", self.wide, data.three_rules(), tasks=2),
            "listed": engine("the same, of payees not in a list of 100,000", self.wide, data.listed_rules()),
            "rough": engine("late events, hot keys, bursts, nulls", self.rough, data.three_rules()),
            "long windows": engine("1k × 1k keys, 30 d windows", narrow, long),
            "short windows": engine("1k × 1k keys, 1 min windows", narrow, short),
            "hundred rules": engine("100 rules on 5 routes", self.many, data.hundred_rules()),
            "thousand rules": engine("1,000 rules, 120 aggregates", self.many, data.many_rules(1_000)),
            "joined rules": engine("1,000 rules of 3 conditions", self.many, data.joined_rules(1_000)),
            **({"ten thousand rules": ten_thousand} if self.ten_thousand_rules else {}),
            "local": Case("the same 3 rules by `lab replay`, without Spark", self._local),
            "duckdb": Case("DuckDB, the same 3 rules", self._duckdb),
            **{
                name: Case(f"3 rules, own process, {name}", partial(against.rate, tree, self.wide))
                for name, tree in self.trees.items()
            },
            "textbook": Case("textbook MapState, 1 rule", self._textbook),
        }

    def _local(self) -> float:
        found = replay_file(self.wide.file, data.three_rules(), engine="local", settings=ENGINE)
        self.local_alerts = found.alert_count
        return found.events_per_second

    def _duckdb(self) -> float:
        seconds, self.duckdb_alerts = duckdb_seconds(self.wide)
        return self.wide.events / seconds

    def _textbook(self) -> float:
        return textbook(
            self.spark, self.sample.file, data.rule(1, data.PAYEE, "24h", 70), batches=6
        ).events_per_second

    def _print_rates(self, cases: dict[str, Case]) -> None:
        first, long, short = (cases[name] for name in ("three rules", "long windows", "short windows"))
        title = f"Events a second, median of {self.repeats}"
        table = _table(title, "case", "median", "range", "by CPU alone", "to the first", "target")
        for name, case in cases.items():
            target = TARGETS.get(name)
            by_cpu = f"{median(run.cpu_rate for run in case.runs):,.0f}" if case.runs else ""
            _row(table, case.title, case.samples, by_cpu, first.rate, target)
            if case is first:
                _row(
                    table,
                    "  without its first batch",
                    [run.warm_rate for run in case.runs],
                    "",
                    first.rate,
                    target,
                )
        self.console.print(table)
        for what, rate in (("rate", lambda run: run.rate), ("rate by CPU alone", lambda run: run.cpu_rate)):
            ratio = median(rate(a) / rate(b) for a, b in zip(long.runs, short.runs, strict=True))
            verdict = _met(ratio >= LONG_TO_SHORT)
            self.console.print(
                f"Windows of 30 d have {ratio:.0%} of the {what} of 1 min: {verdict} {LONG_TO_SHORT:.0%}"
            )
        pairs = zip(cases["listed"].runs, first.runs, strict=True)
        ratio = median(listed.warm_rate / plain.warm_rate for listed, plain in pairs)
        verdict = _met(ratio >= LISTED_TO_PLAIN)
        self.console.print(
            f"With a list of 100,000 entries, {ratio:.0%} of the rate without the first batch: {verdict} {LISTED_TO_PLAIN:.0%}"
        )
        disturbance = median(run.disturbance for case in cases.values() for run in case.runs)
        quiet = "" if disturbance < 0.1 else ": too much, measure again on a quiet machine"
        self.console.print(
            f"Other processes took {disturbance:.2f} s of CPU for each second of the engine's{quiet}"
        )

    # -- where the time goes -------------------------------------------------------------------------------------------

    def _stage_seconds(self) -> dict[str, float]:
        turns = [stage_seconds(self.wide, data.three_rules(), ENGINE) for _ in range(self.repeats)]
        return {stage: median(turn[stage] for turn in turns) / self.wide.events for stage in turns[0]}

    def _print_shares(self, cpu: Json, wall: Json) -> None:
        for title, parts in (("CPU", cpu), ("Wall-clock", wall)):
            table = _table(f"{title} ms for 100,000 events, 3 rules", "part", "ms", "share")
            total = sum(parts.values())
            for part, spent in parts.items():
                table.add_row(part, f"{spent:.0f}", f"{spent / total:.0%}")
            table.add_row("all", f"{total:.0f}", "")
            self.console.print(table)

    # -- state ---------------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[state.Replay, dict[int, int]]:
        events = self.wide.events // 5
        batches = min(100, events // 10)
        replayed = state.long_replay(
            self.spark, self.folder / "long", hours=20, batches=batches, events=events
        )
        return replayed, state.files_kept(self.folder / "files", batches=min(512, events))

    def _print_state(self, replayed: state.Replay, files: dict[int, int]) -> None:
        title = f"Windows of 1 h over {replayed.hours} h; {replayed.held:,.0f} events are within reach"
        columns = ("batch", "events in memory", "memory B / event", "files B / event", "files")
        table = _table(title, *columns)
        for stats in replayed.points():
            table.add_row(
                str(stats["batch"]),
                f"{stats['heldEvents']:,}",
                f"{stats['memoryBytes'] / replayed.held:.0f}",
                f"{stats['stateBytes'] / replayed.held:.1f}",
                str(stats["files"]),
            )
        self.console.print(table)
        for name, shown in (("memoryBytes", "memory"), ("stateBytes", "files")):
            least, most = replayed.per_event(name)
            self.console.print(
                f"After twice the widest window, bytes per event, {shown}: {least:.1f} to {most:.1f}, ×{most / least:.2f}"
            )
        kept = ", ".join(f"{count} in {batches}" for batches, count in files.items())
        self.console.print(f"Most state files while nothing expires: {kept} batches")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left")
    return table


def _row(
    table: Table, title: str, samples: list[float], by_cpu: str, first: float, target: int | None
) -> None:
    rate = median(samples)
    span = f"{min(samples):,.0f} – {max(samples):,.0f}"
    verdict = f"{_met(rate >= target)} {target:,}" if target else ""
    table.add_row(title, f"{rate:,.0f}", span, by_cpu, f"×{rate / first:.3g}", verdict)


def _met(met: bool) -> str:
    return "[green]met[/]" if met else "[red]missed[/]"


if __name__ == "__main__":
    main()
