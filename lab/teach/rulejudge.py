"""An exercise whose answer is a rule: known by the events at which it alerts, in logs drawn at random.

answer ──► rule ──► reference, on each log ──► events at which it alerts ──┐
                                         the right rule ──► the same ──────┴── differ? ──► the shortest such log, shrunk, as text

Each log is there three times: as it is drawn, which is easy to read; at another time, of other accounts, with fields that do not
matter filled in, and with the largest or smallest amount far away; and with other amounts. The last two are for rules that are
right, or are a typical mistake, only in the small world of these logs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
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
from lab.teach.shrinking import shrink

LOGS = 60
BEGIN_MS = 1_704_067_200_000  # a Monday, 00:00
END_MS = 800 * DAY_MS  # after the begin: all that a rule waits for has passed
YEAR_MS = 365 * DAY_MS
OTHER_IDS = 1_000_000
FACTORS = [Decimal(factor) for factor in ("0.1", "0.5", "1", "1", "1", "1", "2")]
LEAST, MOST = Decimal("0.01"), Decimal("9999999.99")
Log = Sequence[tuple[int, dict[str, Any]]]  # ms since the begin, fields


@dataclass(frozen=True)
class JudgedRule:
    """A rule and, for each log, the numbers of the events at which it alerts; equal to another rule that alerts at the same."""

    rule: Rule = field(compare=False)
    alerts: list[list[int]]


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
        drawn = [self._events(self.draw_log(Random(size), size)) for size in range(1, LOGS + 1)]
        elsewhere = [self._elsewhere(log, Random(number)) for number, log in enumerate(drawn)]
        return drawn + elsewhere + [_with_other_amounts(log, Random(n)) for n, log in enumerate(drawn)]

    def _events(self, log: Log) -> list[dict[str, Any]]:
        empty: dict[str, Any] = dict.fromkeys(self.schema.names)
        steps = sorted([*log, (END_MS, self.final_event)], key=lambda step: step[0])
        return [
            empty | fields | {"eventId": number, "eventTime": BEGIN_MS + time}
            for number, (time, fields) in enumerate(steps, 1)
        ]

    def _elsewhere(self, log: list[dict[str, Any]], random: Random) -> list[dict[str, Any]]:
        """The log as somebody else's at another time, with one amount that is far larger, or smaller, than all others."""
        shift, others = random.randrange(YEAR_MS), random.randrange(1, OTHER_IDS)
        extreme, limit = random.choice(((min, LEAST), (max, MOST)))
        amounts = [value for event in log for value in event.values() if isinstance(value, Decimal)]
        edge = extreme(amounts, default=limit)

        def moved(name: str, value: Any) -> Any:
            if name in ("eventId", "eventTime"):
                return value + shift * (name == "eventTime")
            if value is None and self.schema.field(name).type == "string":
                return random.choice("abc")
            if isinstance(value, Decimal):
                return limit if value == edge else value
            return value + others if isinstance(value, int) else value

        return [{name: moved(name, value) for name, value in event.items()} for event in log]

    def __call__(self, answer: object) -> JudgedRule:
        """The rule with its alerts in each log. Raises AnswerRefused."""
        rule = self.rule(answer)
        return JudgedRule(rule, self._alerts(rule))

    def rule(self, answer: object) -> Rule:
        """The rule, without what does not matter here. Raises AnswerRefused."""
        rule = rule_from_message(answer, self.name, self.schema)
        if rule.state != "ACTIVE":
            raise AnswerRefused(say("{name} is paused, so it never alerts", name=self.name))
        return replace(rule, rule_id=1, carried=(), event_fields=())

    @cache  # noqa: B019  (there is one of these for each exercise)
    def _alerts(self, rule: Rule) -> list[list[int]]:
        return [self._alerts_in(log, rule) for log in self.logs]

    def _alerts_in(self, log: list[dict[str, Any]], rule: Rule) -> list[int]:
        engine = Reference(self.schema)
        engine.routes = {rule.route: (rule,)}
        for event in log:
            engine.evaluate_event(event)
        return sorted(int(str(alert.event_id)) for alert in engine.alerts)

    def describe_shortest_difference(self, answer: JudgedRule, right: JudgedRule) -> str:
        """The shortest log in which two rules differ, without the events that do not matter, and with what is wrong at the others."""

        def alerts_in(log: list[dict[str, Any]]) -> list[set[int]]:
            return [set(self._alerts_in([*log, last], each.rule)) for each in (answer, right)]

        def is_wrong(log: list[dict[str, Any]]) -> bool:
            mine, its = alerts_in(log)
            return mine != its

        differing = [log for log, mine, its in zip(self.logs, answer.alerts, right.alerts) if mine != its]
        *log, last = min(differing, key=len)
        log = shrink(log, is_wrong)
        mine, its = alerts_in(log)
        marks = dict.fromkeys(mine & its, say("   alerts, and should"))
        marks |= dict.fromkeys(mine - its, say("   ← alerts, but should not"))
        marks |= dict.fromkeys(its - mine, say("   ← should alert, but does not"))
        shown = [event_line(event) + marks.get(event["eventId"], "") for event in log]
        head = say("not yet: in these events {name} is wrong where the arrow is", name=self.name)
        if not any(answer.alerts):
            head += "\n" + say(
                "({name} alerts in none of the {count} logs)", name=self.name, count=len(self.logs)
            )
        return "\n".join([head, *shown])


@dataclass(frozen=True)
class RuleExercise(ValueExercise):
    """A `ValueExercise` whose `read` is an `AlertsOnRandomLogs`."""

    def _typical(self, answer: object, got: Any, given: tuple) -> str:
        """As for any answer; but rules that never alert do so for many reasons, so such a rule must say the same, but for its `when`."""
        if got is None or any(got.alerts):
            return super()._typical(answer, got, given)
        for mistake in self.mistakes:
            known = self.read(mistake.answer)
            if not any(known.alerts) and replace(known.rule, when=got.rule.when) == got.rule:
                return say(mistake.says)
        return ""

    def _differs(self, got: JudgedRule, expected: JudgedRule) -> str:
        return self.read.describe_shortest_difference(got, expected)  # type: ignore[attr-defined]


def _with_other_amounts(log: list[dict[str, Any]], random: Random) -> list[dict[str, Any]]:
    """The log with some amounts doubled, or made smaller; whole cents, and none below one."""

    def other(value: Any) -> Any:
        return max(round(value * random.choice(FACTORS), 2), LEAST) if isinstance(value, Decimal) else value

    return [{name: other(value) for name, value in event.items()} for event in log]


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
