"""An exercise whose answer is a rule: known by the events at which it alerts, in logs drawn at random.

answer ──► rule ──► reference, on each log ──► events at which it alerts ──┐
                                         the right rule ──► the same ──────┴── differ? ──► the shortest such log, as text
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from random import Random
from typing import Any

from lab.model.language import say
from lab.model.reference import Reference
from lab.model.rule import Rule
from lab.model.schema import Schema
from lab.model.times import DAY_MS
from lab.teach.exercises.given import rule_from_message
from lab.teach.judge import AnswerRefused, ValueExercise

LOGS = 60
BEGIN_MS = 1_704_067_200_000  # a Monday, 00:00
END_MS = 800 * DAY_MS  # after the begin: all that a rule waits for has passed
WITH_ID = re.compile(r"\s*(\{|[0-9]+\s*(,|:|PAUSE|ACTIVE))", re.IGNORECASE)
Log = Sequence[tuple[int, dict[str, Any]]]  # ms since the begin, fields


@dataclass(frozen=True, eq=False)
class AlertsOnRandomLogs:
    """Logs of a schema's events, drawn from small to large: called with a rule, it gives the events at which that alerts.

    `name`: what the learner calls the rule; `final_event`: the fields of an event long after all others.
    """

    name: str
    schema: Schema
    draw_log: Callable[[Random, int], Log]
    final_event: dict[str, Any]

    @cached_property
    def logs(self) -> list[list[dict[str, Any]]]:
        """Events as the schema reads them."""
        return [self._events(self.draw_log(Random(size), size)) for size in range(1, LOGS + 1)]

    def _events(self, log: Log) -> list[dict[str, Any]]:
        empty: dict[str, Any] = dict.fromkeys(self.schema.names)
        steps = sorted([*log, (END_MS, self.final_event)], key=lambda step: step[0])
        return [
            empty | fields | {"eventId": number, "eventTime": BEGIN_MS + time}
            for number, (time, fields) in enumerate(steps, 1)
        ]

    def __call__(self, answer: object) -> list[list[int]]:
        """For each log, the numbers of the events at which the rule alerts. Raises AnswerRefused."""
        if isinstance(answer, str) and not WITH_ID.match(answer):
            answer = f"1: {answer}"
        rule = rule_from_message(answer, self.name, self.schema)
        if rule.state != "ACTIVE":
            raise AnswerRefused(say("{name} is paused, so it never alerts", name=self.name))
        return self._alerts(replace(rule, severity=None, title=None, labels=(), event_fields=()))

    @cache  # noqa: B019  (there is one of these for each exercise)
    def _alerts(self, rule: Rule) -> list[list[int]]:
        return [self._alerts_in(log, rule) for log in self.logs]

    def _alerts_in(self, log: list[dict[str, Any]], rule: Rule) -> list[int]:
        engine = Reference(self.schema)
        engine.routes = {rule.route: (rule,)}
        for event in log:
            engine.evaluate_event(event)
        return sorted(int(str(alert.event_id)) for alert in engine.alerts)

    def describe_shortest_difference(self, got: list[list[int]], right: list[list[int]]) -> str:
        """The shortest log in which two rules differ, with what is wrong at its events."""
        differing = [
            (log, set(mine), set(its)) for log, mine, its in zip(self.logs, got, right) if mine != its
        ]
        log, mine, its = min(differing, key=lambda each: len(each[0]))
        marks = dict.fromkeys(mine & its, say("   alerts, and should"))
        marks |= dict.fromkeys(mine - its, say("   ← alerts, but should not"))
        marks |= dict.fromkeys(its - mine, say("   ← should alert, but does not"))
        shown = [event_line(event) + marks.get(event["eventId"], "") for event in log[:-1]]
        head = say("not yet: in these events {name} is wrong where the arrow is", name=self.name)
        return "\n".join([head, *shown])


@dataclass(frozen=True)
class RuleExercise(ValueExercise):
    """A `ValueExercise` whose `read` is an `AlertsOnRandomLogs`."""

    def _differs(self, got: Any, expected: Any) -> str:
        return self.read.describe_shortest_difference(got, expected)  # type: ignore[attr-defined]


def event_line(event: Mapping[str, Any]) -> str:
    """An event as a line of a log.

    >>> event_line({"eventId": 1, "eventTime": BEGIN_MS + DAY_MS + 61_000, "account": 7, "action": "pay", "payee": None, "amount": "2.50"})
    'day 2, 00:01:01   account 7, pay, amount 2.50'
    """
    day, rest = divmod((event["eventTime"] - BEGIN_MS) // 1_000, DAY_MS // 1_000)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    fields = {
        name: value for name, value in event.items() if not name.startswith("event") and value is not None
    }
    said = [str(value) if name == "action" else f"{name} {value}" for name, value in fields.items()]
    return say("day {day}, {clock}", day=day + 1, clock=clock) + f"   {', '.join(said)}"
