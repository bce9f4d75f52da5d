"""What goes wrong when two operators keep the rules each on its own: routing under one rule set, evaluation under another.

    control ──┬──random delay──► route's rules       event e: routed under rule set 4,
              └──random delay──► evaluate's rules             evaluated under rule set 5

In Flink's demo `DynamicKeyFunction` and `DynamicAlertFunction` each hold the rules in broadcast state of their own, and each
takes a change when it gets it. Windows and rules here are those of `lab.Reference`; only the moment at which a change arrives
differs. Three ways to bring changes:

    two copies   each operator gets a change after a delay of its own
    travelling   routing gets it after a delay and passes it on in front of the next event: one delay
    log order    a change has a place in the log, and applies to every event logged after it
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from lab.model.alerts import Alert
from lab.model.reference import Reference, evaluate_log
from lab.model.rules import Route, RuleBook, rule_message
from lab.model.schema import PAYMENTS

WAYS = ("two copies", "travelling", "log order")
START_MS = 1_735_689_600_000  # 2025-01-01 00:00 UTC
Log = list[tuple[int, str, bytes]]  # time in ms, "event" or "control", text; in order of time


@dataclass(frozen=True)
class RaceOutcome:
    """The result of a run: events at which the two operators disagreed, and its alerts compared with those of the log in order."""

    events: int
    mixed_events: int  # routed under one rule set, evaluated under another
    right_alerts: int  # alerts of the reference
    lost_alerts: int  # alerts of the reference that are missing
    wrong_alerts: int  # alerts that the reference does not give, or not with this aggregate


class EvaluationOperator(Reference):
    """Evaluation with rules of its own: it judges the copies of an event that routing has sent, on its routes."""

    def evaluate_copies(self, event: dict, routes: Sequence[Route]) -> None:
        """Evaluates copies of an event; a copy on a route that it does not know is neither judged nor stored.

        `DynamicAlertFunction` does not judge a copy of a rule that it does not know either, but puts the event into its window.
        """
        for route in routes:
            if route in self.routes:
                self._on_route(event, route, self.routes[route])


def scenario(seed: int = 1, events: int = 1500, changes_every_ms: int = 1000) -> Log:
    """A log of payments, 100 a second, and changes of three rules: limits, keys, pause, active, delete.

    >>> log = scenario(events=300)
    >>> [kind for _, kind, _ in log].count("event"), [kind for _, kind, _ in log].count("control")
    (300, 5)
    """
    rng = Random(seed)
    log: Log = []
    for number in range(events):
        event: dict[str, Any] = {
            "transactionId": number + 1,
            "eventTime": START_MS + 10 * number,
            "payeeId": rng.randrange(12),
            "beneficiaryId": rng.randrange(6),
            "paymentAmount": rng.randint(500, 2000) / 100,
        }
        log.append((event["eventTime"], "event", json.dumps(event).encode()))
    changes = [_rule(rng, rule_id) for rule_id in (1, 2, 3)]
    log += [(START_MS - 1, "control", change) for change in changes]
    for time in range(START_MS + changes_every_ms, log[events - 1][0], changes_every_ms):
        log.append((time + rng.randrange(10), "control", _change(rng)))
    return sorted(log, key=lambda entry: (entry[0], entry[1]))  # control first on a tie


def _rule(rng: Random, rule_id: int) -> bytes:
    keys = rng.choice((["payeeId"], ["beneficiaryId"], ["payeeId", "beneficiaryId"]))
    rule = rule_message(rule_id, keys, "paymentAmount", "SUM", "GREATER", rng.randrange(100, 400), "2s")
    return json.dumps(rule).encode()


def _change(rng: Random) -> bytes:
    rule_id = rng.choice((1, 2, 3))
    state = rng.choice(("ACTIVE", "ACTIVE", "ACTIVE", "PAUSE", "DELETE"))
    if state == "ACTIVE":
        return _rule(rng, rule_id)
    return json.dumps({"ruleId": rule_id, "ruleState": state}).encode()


def race(log: Log, delay_ms: float, way: str = "two copies", seed: int = 1) -> RaceOutcome:
    """Plays the log with changes that reach an operator after `delay_ms` on average, in their order; events do not wait.

    >>> race(scenario(), 200, "log order")
    RaceOutcome(events=1500, mixed_events=0, right_alerts=1742, lost_alerts=0, wrong_alerts=0)
    >>> race(scenario(), 200).mixed_events > 0
    True
    """
    if way not in WAYS:
        raise ValueError(f"way: {way!r}, expected one of {', '.join(WAYS)}")
    rng = Random(seed)
    mean_ms = 0 if way == "log order" else delay_ms
    changes = [(time, text) for time, kind, text in log if kind == "control"]
    at_route = _arrivals(rng, changes, mean_ms)
    at_evaluate = _arrivals(rng, changes, mean_ms) if way == "two copies" else at_route
    routing, evaluate = RuleBook(PAYMENTS), EvaluationOperator(PAYMENTS)
    routed = evaluated = mixed = events = 0  # the first two: how many changes each has taken
    for time, kind, text in log:
        while routed < len(changes) and at_route[routed] <= time:
            routing.apply(changes[routed][1])
            routed += 1
        while evaluated < len(changes) and at_evaluate[evaluated] <= time:
            evaluate.control(changes[evaluated][1])
            evaluated += 1
        if kind == "event":
            events += 1
            mixed += routed != evaluated
            evaluate.evaluate_copies(PAYMENTS.parse(text), list(routing.routes()))
    found, right = comparable_alerts(evaluate.alerts), comparable_reference_alerts(tuple(log))
    return RaceOutcome(events, mixed, len(right), len(right - found), len(found - right))


def _arrivals(rng: Random, changes: list[tuple[int, bytes]], mean_ms: float) -> list[float]:
    """When each change arrives: after a random delay, and never before the one that was sent before it."""
    arrivals: list[float] = []
    for time, _ in changes:
        delay_ms = rng.expovariate(1 / mean_ms) if mean_ms else 0
        arrivals.append(max(time + delay_ms, arrivals[-1] if arrivals else 0))
    return arrivals


@cache
def comparable_reference_alerts(log: tuple) -> frozenset:
    """The alerts of `lab.Reference` on the log in its order, as `comparable_alerts` has them."""
    return comparable_alerts(evaluate_log(PAYMENTS, ((kind, text) for _, kind, text in log)).alerts)


def comparable_alerts(alerts: Iterable[Alert]) -> frozenset:
    """What two runs must agree on: (rule, version, group, event, aggregate) of each alert."""
    return frozenset((a.rule_id, a.rule_version, a.group, a.event_id, a.aggregate) for a in alerts)
