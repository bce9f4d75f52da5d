"""`lab alerts` and `lab latency`: what a running engine gives, and how fast.

Where the time of an alert goes, on the clocks of the broker and of this machine:

    event appended ──wait──► micro-batch ──plan──► decode ──► route ──► evaluate ──► alert made ──deliver──► alert appended
                             begins                starts    starts    starts
"""

import json
import sys
import time
from argparse import Namespace
from collections import deque
from collections.abc import Iterable
from contextlib import closing

import numpy as np
from rich.console import Console
from rich.table import Table

from lab.apps.bookmarks import bookmark, set_bookmark
from lab.apps.run import POLL_S, existing, logs_of
from lab.logs.positions import position_text
from lab.machine.signals import stop_signals
from lab.model.alerts import Alert, utc
from lab.model.words import plain

STAGES = ("wait", "plan", "decode", "route", "evaluate", "deliver")
PERCENTILES = (50, 90, 99, 99.9)
AT_ONCE = 5_000  # alerts


class Latencies:
    """Of the alerts that come from now on: how long each took, and in which stages. Keeps the newest `at_most`, of
    alerts and of micro-batches."""

    def __init__(self, logs, at_most: int = 100_000):
        self._alerts, self._stats = (logs.log(name).tail(new=True) for name in ("alerts", "stats"))
        self._at_most = at_most
        self._alerted: deque[tuple[int, int, int]] = deque(maxlen=at_most)  # logTime, alertTime, append time
        self._batches: dict[int, dict[str, int]] = {}  # number -> times

    def read(self) -> int:
        """Takes in what came since the last call; returns how many alerts."""
        records = self._alerts.records()
        for record in records:
            alert = json.loads(record.line)
            self._alerted.append((alert["logTime"], alert["alertTime"], record.append_ms))
        for record in self._stats.records():
            stats = json.loads(record.line)
            if "decode" in stats["times"]:
                self._batches[stats["batch"]] = stats["times"]
        for batch in list(self._batches)[: -self._at_most]:
            del self._batches[batch]
        return len(records)

    def since(self, ms: int) -> int:
        """How many of the alerts were appended at this time (ms since the epoch) or later."""
        return int((self._columns()[2] >= ms).sum())

    def total(self) -> np.ndarray:
        """ms from the append of the event to that of its alert, for each alert."""
        logged, _, appended = self._columns()
        return appended - logged

    def stages(self) -> dict[str, np.ndarray]:
        """The same by stage, for the alerts whose micro-batch is known; the stages of an alert add up to its total."""
        times = sorted(self._batches.values(), key=lambda times: times["evaluate"])
        columns = np.array(
            [[of[name] for name in ("start", "decode", "route", "evaluate")] for of in times], np.int64
        )
        logged, made, appended = self._columns()
        if not len(times):
            return {stage: np.empty(0, np.int64) for stage in STAGES}
        batch = np.searchsorted(columns[:, 3], made, side="right") - 1
        known = batch >= 0
        start, decode, route, evaluate = columns[batch[known]].T
        ends = [logged[known], start, decode, route, evaluate, made[known], appended[known]]
        return dict(zip(STAGES, np.diff(ends, axis=0)))

    def _columns(self) -> np.ndarray:
        return np.array(self._alerted, np.int64).reshape(-1, 3).T

    def table(self) -> Table:
        """Percentiles in ms, in all and by stage."""
        table = Table(
            "ms", title=f"From the append of an event to that of its alert, {len(self._alerted):,} alerts"
        )
        for percentile in PERCENTILES:
            table.add_column(f"p{percentile:g}", justify="right")
        for stage, values in self.stages().items():
            table.add_row(stage, *percentiles(values))
        table.add_section()
        table.add_row("total", *percentiles(self.total()), style="bold")
        return table

    def close(self) -> None:
        self._alerts.close()
        self._stats.close()


def percentiles(values: Iterable[float]) -> list[str]:
    """For people; dashes when there are no values."""
    found = np.asarray(values)
    if not len(found):
        return ["–"] * len(PERCENTILES)
    return [f"{value:,.0f}" for value in np.percentile(found, PERCENTILES)]


def alerts(options: Namespace) -> None:
    """Prints the alerts of a log; with `--follow`, those to come, as they come; with `--from`, from a position on."""
    log = existing(logs_of(options), "alerts")
    saved = options.start == "saved"
    at = bookmark(log) if saved else options.start
    new = options.follow and options.start is None
    with stop_signals() as stopped, closing(log.tail(new, at)) as tail:
        while not stopped.is_set():
            lines = tail.read(AT_ONCE)
            for line in lines:
                print(line if options.json else describe(Alert.from_json(line)))
            sys.stdout.flush()
            if saved and lines:
                set_bookmark(log, tail.positions)
            if not lines:
                if not options.follow:
                    break
                stopped.wait(POLL_S)
    if options.follow or options.start is not None:
        print(f"read up to {position_text(tail.positions)}; --from goes on there", file=sys.stderr)


def describe(alert: Alert) -> str:
    """An alert in a line of text."""
    took = f"  {alert.alert_time - alert.log_time:5} ms" if alert.log_time else ""
    held = f"{plain(alert.aggregate)} {alert.operator} {plain(alert.limit)}"
    return f"{utc(alert.event_time)}  rule {alert.rule_id} v{alert.rule_version}  {alert.key}  {held}  event {alert.event_id}{took}"


def latency(options: Namespace) -> None:
    """Watches for a while and prints the table."""
    logs = logs_of(options)
    for name in ("alerts", "stats"):
        existing(logs, name).close()
    latencies = Latencies(logs)
    console = Console(highlight=False)
    with stop_signals() as stopped, console.status(f"watching for {options.seconds} s") as status:
        end = time.monotonic() + options.seconds
        while time.monotonic() < end and not stopped.wait(1):
            latencies.read()
            total = latencies.total()
            status.update(
                f"{max(end - time.monotonic(), 0):.0f} s left, {len(total):,} alerts, p50 {percentiles(total)[0]} ms"
            )
    console.print(latencies.table())
    latencies.close()
