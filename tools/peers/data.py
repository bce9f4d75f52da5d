"""What all peers read, and what is right: payments with late events, duplicates, hot keys and nulls, and three rules."""

import random
import time
from collections import defaultdict
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path

from lab.model.alerts import Alert
from lab.model.field import Id
from lab.model.reference import evaluate_log
from lab.model.schema import PAYMENTS
from tools.bench.data import THREE_RULES, Payments, Rough, three_rules

DUPLICATES, APART = 0.01, 50  # of the lines, so many come again, at most so many lines later
MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000}


def make(folder: Path, events: int, keys: int, **rough) -> Payments:
    """Payments of 40 days whose lines are not all different."""
    payments = Payments.make(folder, events, keys, rough=replace(Rough(), **rough))
    rng, again = random.Random(1), defaultdict(list)
    with payments.file.open() as lines, (folder / "twice.jsonl").open("w") as out:
        for number, line in enumerate(lines):
            if rng.random() < DUPLICATES:
                again[number + rng.randint(1, APART)].append(line)
            out.writelines([line, *again.pop(number, ())])
    (folder / "twice.jsonl").rename(payments.file)
    return replace(payments, events=sum(1 for _ in payments.file.open()))


def window_ms(window: str) -> int:
    return int(window[:-1]) * MS[window[-1]]


@dataclass(frozen=True)
class Case:
    """An alert: its rule's number and its event."""

    rule: int
    event: Id


@dataclass(frozen=True)
class Window:
    """A report of a window, without its end, that was over a rule's limit; `key` as alerts have it."""

    rule: int
    key: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class Answer:
    """What a peer reported on a file, and how long it took for `events` of them."""

    reports: AbstractSet[Case | Window]
    seconds: float
    events: int

    @property
    def rate(self) -> float:
        return self.events / self.seconds


@dataclass(frozen=True)
class Exact:
    """The reference's alerts on a file."""

    alerts: list[Alert]

    def judged(self, reports: Iterable[Case | Window]) -> tuple[float, int]:
        """The share of the true alerts that were found, and how many reports are of none.

        A window finds the alerts of its rule and group whose events are in it.
        """
        cases = {Case(alert.rule_id, alert.event_id): alert for alert in self.alerts}
        by_group = defaultdict(list)
        for case, alert in cases.items():
            by_group[alert.rule_id, alert.key].append((alert.event_time, case))
        found, wrong = set(), 0
        for report in reports:
            if isinstance(report, Case):
                of = {report} & cases.keys()
            else:
                near = by_group.get((report.rule, report.key), ())
                of = {case for at, case in near if report.start_ms <= at < report.end_ms}
            found |= of
            wrong += not of
        return len(found) / len(cases), wrong


def reference(payments: Payments) -> tuple[Exact, Answer]:
    lines = payments.file.read_bytes().splitlines()
    log = [*(("control", rule.encode()) for rule in three_rules()), *(("event", line) for line in lines)]
    started = time.process_time()
    exact = Exact(evaluate_log(PAYMENTS, log).alerts)
    seconds = time.process_time() - started
    return exact, Answer({Case(a.rule_id, a.event_id) for a in exact.alerts}, seconds, payments.events)


RULES = [
    (number, keys, window_ms(window), limit) for number, (keys, window, limit) in enumerate(THREE_RULES, 1)
]
