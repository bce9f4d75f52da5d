"""`lab latency`: how long the alerts of a running engine take, and in which stages.

Where the time of an alert goes, on the clocks of the broker and of this machine:

    event appended ──wait──► cut    ──plan──► decode ──► route ──► evaluate ──► alert made ──deliver──► alert appended
                             chosen           starts    starts    starts

*gap* is the part of the wait in which no cut could be chosen: the state was saved, or a task began anew.
"""

import time
from bisect import bisect_right
from collections import deque
from itertools import pairwise

from rich.console import Console
from rich.table import Table

from lab.engine.loop.ends import Logs
from lab.logs.reading import SkippedLines, new_records, parse_records
from lab.machine.signals import stop_signals
from lab.model.alerts import Alert, parse_alert_line
from lab.model.quantiles import percentile_texts
from lab.model.statuslines import STAGES as TIMES
from lab.model.statuslines import parse_stats
from lab.running.target import Target

STAGES = ("gap", "wait", "plan", "decode", "route", "evaluate", "deliver")
PERCENTILES = (50, 90, 99, 99.9)


class Latencies:
    """Of the alerts that come from now on: how long each took, and in which stages. Keeps the newest `at_most`, of
    alerts and of micro-batches. An alert that is delivered again, as topics get it after a crash, counts once."""

    def __init__(self, logs: Logs, at_most: int = 100_000, left_out: SkippedLines | None = None):
        self._alerts, self._stats = (logs.log(name).tail(new=True) for name in ("alerts", "stats"))
        self._at_most, self.left_out = at_most, left_out or SkippedLines()
        self._alerted: deque[tuple[int, int, int]] = deque(maxlen=at_most)  # logTime, alertTime, append time
        self._known: dict[tuple[str, int], None] = {}  # alertId and log time of the same alerts
        self._batches: dict[int, dict[str, int]] = {}  # number -> times

    def read(self) -> int:
        """Reads new alerts since the last call; returns how many."""
        count = 0
        for records in new_records(self._alerts):
            live = [
                (of.log_time, of.alert_time, record.log_time_ms)
                for record, of in parse_records(records, parse_alert_line, self.left_out)
                if isinstance(of, Alert)
                and of.log_time is not None
                and of.alert_time is not None
                and self._is_new(of.alert_id, of.log_time)
            ]
            self._alerted.extend(live)
            count += len(live)
        for records in new_records(self._stats):
            for _, stats in parse_records(records, parse_stats, self.left_out):
                if "start" in stats["times"]:
                    self._batches[stats["batch"]] = stats["times"]
        for batch in list(self._batches)[: -self._at_most]:
            del self._batches[batch]
        return count

    def _is_new(self, alert_id: str, log_time: int) -> bool:
        """Notes an alert, and returns whether it has not come before."""
        if (alert := (alert_id, log_time)) in self._known:
            return False
        self._known[alert] = None
        if len(self._known) > self._at_most:
            del self._known[next(iter(self._known))]
        return True

    def count_since(self, time_ms: int) -> int:
        """How many of the alerts were appended at this time (ms since the epoch) or later."""
        return sum(appended >= time_ms for _, _, appended in self._alerted)

    def total(self) -> list[int]:
        """ms from the append of the event to that of its alert, for each alert."""
        return [appended - logged for logged, _, appended in self._alerted]

    def stages(self) -> dict[str, list[int]]:
        """The same by stage, for the alerts whose micro-batch is known; the stages of an alert add up to its total."""
        times = sorted(self._batches.values(), key=lambda times: times["evaluate"])
        evaluated = [of["evaluate"] for of in times]
        found: dict[str, list[int]] = {stage: [] for stage in STAGES}
        for logged, made, appended in self._alerted:
            if batch := bisect_right(evaluated, made):
                of = times[batch - 1]
                gap = min(of.get("resumed", 0), of["start"]) - max(of.get("stopped", 0), logged)
                began = (of[stage] for stage in TIMES[:-1])
                ends = logged, logged + max(gap, 0), *began, made, appended
                for values, (begin, end) in zip(found.values(), pairwise(ends)):
                    values.append(end - begin)
        return found

    def table(self) -> Table:
        """Percentiles in ms, in all and by stage."""
        table = Table(
            "ms", title=f"From append of an event to append of its alert, {len(self._alerted):,} alerts"
        )
        for percentile in PERCENTILES:
            table.add_column(f"p{percentile:g}", justify="right")
        for stage, values in self.stages().items():
            table.add_row(stage, *percentile_texts(values, PERCENTILES))
        table.add_section()
        table.add_row("total", *percentile_texts(self.total(), PERCENTILES), style="bold")
        return table

    def close(self) -> None:
        self._alerts.close()
        self._stats.close()


def print_latency(target: Target, seconds: int = 30) -> None:
    """Watches for a while and prints the table."""
    for name in ("alerts", "stats"):
        target.logs.existing(name).close()
    latencies = Latencies(target.logs)
    console = Console(highlight=False)
    with stop_signals() as stopped, console.status(f"watching for {seconds} s") as status:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not stopped.wait(1):
            latencies.read()
            total = latencies.total()
            status.update(
                f"{max(end - time.monotonic(), 0):.0f} s left, {len(total):,} alerts, p50 {percentile_texts(total, (50,))[0]} ms"
            )
    console.print(latencies.table())
    latencies.left_out.print_total()
    latencies.close()
