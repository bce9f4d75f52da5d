"""The steps of `lab.contrast.steps` that need no Spark: one process, one rule `SUM(…) per … > limit`, a log in order of event time.

lines        each line parsed by itself, each event walks its window
columns      all lines parsed at once
running      a running sum per key instead of the walk
compiled     that loop compiled: the engine's own
"""

import json
import os
import subprocess
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from lab.engine.checkpoint.settings import Settings
from lab.engine.compiled.layout import LOW_PART, ROW
from lab.engine.records.columns import Columns
from lab.engine.records.decode import decode_records
from lab.engine.records.feeds import LooseLines
from lab.engine.windows.store import RouteStore
from lab.model.field import Id
from lab.model.language import say
from lab.model.reference import evaluate_log
from lab.model.rules import Rule, RuleBook, rule_message
from lab.model.schema import PAYMENTS
from lab.stream.simulate import write_payments

KEY, VALUE, CENTS = "payeeId", "paymentAmount", 100
Alerts = dict[Id, int]  # event id -> aggregate in cents


@dataclass(frozen=True)
class StepTiming:
    """The result of a step. `events`: how many were timed; `alerts`: the alerts of all events that the step read.

    `seconds`: elapsed time on Spark, CPU time in one process, which never waits; `decode_s`: the part for reading lines.
    """

    name: str
    where: str
    events: int
    seconds: float
    alerts: Alerts = field(repr=False)
    decode_s: float = 0.0

    @property
    def events_per_second(self) -> float:
        """Events a second."""
        return self.events / self.seconds

    def __str__(self) -> str:
        return say(
            "{step}, {place}: {events} events in {seconds} s, {rate} a second",
            step=self.name,
            place=say("one process") if self.where == "one process" else self.where,
            events=f"{self.events:,}",
            seconds=f"{self.seconds:.2f}",
            rate=f"{self.events_per_second:,.0f}",
        )


def message(window: str = "1h", limit: int = 350) -> str:
    """The rule as a control message: SUM(paymentAmount) per payeeId over `window` > `limit`."""
    return json.dumps(rule_message(1, [KEY], VALUE, "SUM", "GREATER", limit, window))


def parse_rule(text: str) -> Rule:
    """The rule of a control message, version 1."""
    book = RuleBook(PAYMENTS)
    book.apply(text)
    return book.rules[1]


def payment_lines(events: int, payees: int = 50, every_ms: int = 4_000) -> list[bytes]:
    """Lines of a log in order of event time.

    >>> payment_lines(2)[1][:50]
    b'{"transactionId":2,"eventTime":1735689604000,"paye'
    """
    with TemporaryDirectory(prefix="lab-steps-") as folder:
        path = write_payments(Path(folder, "payments"), events, 1, payees, payees, span_ms=events * every_ms)
        return path.read_bytes().splitlines()


def reference_alerts(lines: Iterable[bytes], text: str) -> Alerts:
    """The alerts of the reference."""
    log = [("control", text.encode()), *(("event", line) for line in lines)]
    return {alert.event_id: int(alert.aggregate * CENTS) for alert in evaluate_log(PAYMENTS, log).alerts}


# -- windows in plain Python -------------------------------------------------------------------------------------------


@dataclass
class RecomputedWindowSum:
    """Adds up all events of the key for each event: the work per event grows with the window.

    >>> window = RecomputedWindowSum(window_ms=10)
    >>> [window.add_and_total(*event) for event in [(25, 0, 5), (25, 10, 2), (25, 11, 1)]]
    [5, 7, 3]
    """

    window_ms: int
    events_by_key: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def add_and_total(self, key: int, time_ms: int, value: int) -> int:
        """Adds an event of a key and returns the sum over the window that ends with it."""
        self.events_by_key[key].append((time_ms, value))
        self.events_by_key[key] = window = [
            event for event in self.events_by_key[key] if event[0] >= time_ms - self.window_ms
        ]
        return sum(value for _, value in window)


@dataclass
class IncrementalWindowSum:
    """Keeps a running sum: each event is added once and removed once, whatever the window's length.

    >>> window = IncrementalWindowSum(window_ms=10)
    >>> [window.add_and_total(*event) for event in [(25, 0, 5), (25, 10, 2), (25, 11, 1)]]
    [5, 7, 3]
    """

    window_ms: int
    events_by_key: dict[int, deque[tuple[int, int]]] = field(default_factory=lambda: defaultdict(deque))
    sums: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def add_and_total(self, key: int, time_ms: int, value: int) -> int:
        """Adds an event of a key and returns the sum over the window that ends with it."""
        window = self.events_by_key[key]
        window.append((time_ms, value))
        self.sums[key] += value
        while window[0][0] < time_ms - self.window_ms:
            self.sums[key] -= window.popleft()[1]
        return self.sums[key]


def evaluate_tuples(
    window: RecomputedWindowSum | IncrementalWindowSum, events: Iterable[Sequence[int]], limit: int
) -> Alerts:
    """Events as (key, time, id, cents), in order."""
    totals = (
        (event_id, window.add_and_total(key, time_ms, cents)) for key, time_ms, event_id, cents in events
    )
    return {event_id: total for event_id, total in totals if total > limit}


# -- in one process ----------------------------------------------------------------------------------------------------


def time_in_process(step: str, lines: Sequence[bytes], text: str) -> StepTiming:
    """Times a step, `lines`, `columns`, `running`, `interpreted` or `compiled`, in this process: the best of three runs, by CPU time."""
    if step == "interpreted":
        return _interpreted(lines, text)
    return min((_once(step, lines, parse_rule(text)) for _ in range(3)), key=lambda result: result.seconds)


def _once(name: str, lines: Sequence[bytes], rule: Rule) -> StepTiming:
    data = b"\n".join(lines)
    window = (
        IncrementalWindowSum(rule.aggregation.window_ms)
        if name == "running"
        else RecomputedWindowSum(rule.aggregation.window_ms)
    )
    with TemporaryDirectory(prefix="lab-steps-") as folder:
        path, late_ms = Path(folder, "store"), Settings.max_out_of_orderness_ms
        store = RouteStore(path, PAYMENTS, rule.route, [VALUE], (rule,), key_groups=1, late_ms=late_ms)
        started = time.process_time()
        events: Any = decode_by_line(data) if name == "lines" else decode_at_once(data)
        decoded = time.process_time()
        if name == "compiled":
            alerts = _compiled(store, events)
        else:
            rows = events if name == "lines" else zip(*(column.tolist() for column in events.values()))
            alerts = evaluate_tuples(window, rows, int(rule.first.limit * CENTS))
        ended = time.process_time()
    return StepTiming(name, "one process", len(lines), ended - started, alerts, decoded - started)


def time_engine(
    take: Callable[[dict], Iterable[Sequence]], lines: Sequence[bytes], text: str, name: str = "my engine"
) -> StepTiming:
    """Times an engine of a learner, whose `take` gets rules and payments and gives alerts: rule, payment, sum. It counts in cents."""
    rule = parse_rule(text)
    minutes, limit = rule.aggregation.window_ms // 60_000, int(rule.first.limit * CENTS)
    started = time.process_time()
    payments = [json.loads(line) for line in lines]
    for payment in payments:
        payment[VALUE] = round(payment[VALUE] * CENTS)
    decoded = time.process_time()
    take(rule_message(1, [KEY], VALUE, "SUM", "GREATER", limit, "", windowMinutes=minutes))
    alerts = {event_id: total for payment in payments for _, event_id, total in take(payment)}
    ended = time.process_time()
    return StepTiming(name, "one process", len(lines), ended - started, alerts, decoded - started)


def _interpreted(lines: Sequence[bytes], text: str) -> StepTiming:
    """`compiled` in a process in which Numba does not compile; one run."""
    env = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    child = [sys.executable, "-W", "ignore", "-c", f"from {__name__} import _child; _child()", text]
    output = subprocess.run(
        child, input=b"\n".join(lines), stdout=subprocess.PIPE, env=env, check=True
    ).stdout
    seconds, decode, alerts = json.loads(output)
    return StepTiming("interpreted", "one process", len(lines), seconds, dict(alerts), decode)


def _child() -> None:
    data = sys.stdin.buffer.read()
    decode_at_once(data)  # the first call loads the compiled reader
    step = _once("compiled", data.split(b"\n"), parse_rule(sys.argv[1]))
    print(json.dumps([step.seconds, step.decode_s, list(step.alerts.items())]))


def decode_by_line(data: bytes) -> list[tuple]:
    """(key, time, id, cents) of each line, parsed by itself."""
    return [
        (event[KEY], event["eventTime"], event["transactionId"], int(event[VALUE] * CENTS))
        for event in map(PAYMENTS.parse, data.split(b"\n"))
    ]


def decode_at_once(data: bytes) -> Columns:
    """The same as columns, all lines parsed at once, as the engine does it."""
    columns, _, _ = decode_records(LooseLines(data), PAYMENTS)
    names = {"key:payeeId": KEY, "time": "eventTime", "id": "transactionId", "value:paymentAmount": VALUE}
    return {name: columns[of].to_numpy() for name, of in names.items()}


def _compiled(store: RouteStore, columns: Columns) -> Alerts:
    columns["keyGroup"] = np.zeros(len(columns["time"]), np.int64)
    _, found = store.evaluate(columns, 0, 0)
    return dict(zip(columns["id"][found[:, ROW]].tolist(), found[:, LOW_PART].tolist()))
