"""A rule as a value: what it says of which events, and how it is written.

SUM(paymentAmount) per payeeId over 20 min > 50    ◄── {"ruleId": 1, "aggregatorFunctionType": "SUM", ...}

A plain rule compares one aggregate with a number. Others have several conditions, or one that says more: `Condition`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from lab.model.aggregates import Exact
from lab.model.aggregation import SPOKE, WHERE, Aggregation, Condition, MeasuredCondition, without_none
from lab.model.attributes import Carries, carried_attributes
from lab.model.conditions import quote_if_needed
from lab.model.formatting import html_table, plain_text
from lab.model.kinds import Carried
from lab.model.language import say
from lab.model.lists import NamedList
from lab.model.times import duration_text, duration_words
from lab.model.when import (
    FieldValues,
    When,
    condition_fields,
    field_values,
    filter_json_value,
    filter_text,
    list_names,
    when_text,
    with_lists,
)

UNIT_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


@dataclass(frozen=True)
class Route:
    """Where events go: rules with the same set of keys (sorted here) and the same filter share one copy.

    >>> from lab.model.when import filter_of_values
    >>> Route(("userId",), filter_of_values([("action", ("login",)), ("country", ("CN", "KR"))])).id
    'userId|action=login&country=CN,KR'
    """

    keys: tuple[str, ...]
    filter: When | None

    @property
    def id(self) -> str:
        """Short text, the same in every process and different for every route; `{}` stands for no keys."""
        keys = ",".join(self.keys) or "{}"
        if self.filter is None:
            return keys
        if self.field_values is None:
            return f"{keys}|{when_text(self.filter)}"
        parts = (f"{name}={','.join(map(quote_if_needed, values))}" for name, values in self.field_values)
        return f"{keys}|{'&'.join(parts)}"

    @cached_property
    def field_values(self) -> FieldValues | None:
        """The values that its filter wants fields to have, if that is all it says."""
        return field_values(self.filter)


@dataclass(frozen=True)
class Rule(Carries):
    """Alert at an event of a group at which the conditions hold. `version` 0: not yet in a book.

    `conditions`: what must hold, at least one; several are `joined_by` "and" or "or".
    `when`: which event may alert; it does not decide which events count.
    `action`: what to do with the group of an alert, for `ttl_ms`; the engine stores both but does not act on them.
    `at_most`: most alerts per group at events within `at_most_per_ms`; others are suppressed.
    `absence`: alert if no event that counts is logged for `window_ms` after an event; the function is COUNT, the limit = 0.
    `carried`: what each alert carries for its readers, such as severity and title; it also tells the `event_fields` of its event.

    >>> from lab.model.rules import parse_message
    >>> from lab.model.schema import PAYMENTS
    >>> message = "1,(active),(payeeId&beneficiaryId),,(paymentAmount),(SUM),(>),(50),(20)"
    >>> rule = parse_message(message, PAYMENTS).rule
    >>> rule.describe()
    'SUM(paymentAmount) per payeeId, beneficiaryId over 20 min > 50'
    >>> rule.route.id, rule.stored_field_names, rule.first.holds(Decimal("50.01")), rule.first.holds(50)
    ('beneficiaryId,payeeId', ('paymentAmount',), True, False)
    """

    rule_id: int
    state: str
    keys: tuple[str, ...]
    filter: When | None
    conditions: tuple[Condition, ...]
    joined_by: str | None = None
    version: int = 0
    action: str | None = None
    ttl_ms: int = 0
    when: When | None = None
    carried: tuple[tuple[str, Any], ...] = ()
    at_most: int | None = None
    at_most_per_ms: int = 0
    absence: bool = False
    event_fields: tuple[str, ...] = ()

    @property
    def is_judged(self) -> bool:
        """Whether events are judged by it: in state ACTIVE, or in SHADOW, where its alerts go to a log of their own."""
        return self.state in ("ACTIVE", "SHADOW")

    @property
    def as_active(self) -> "Rule":
        """The rule as it would be if it was not in SHADOW."""
        return replace(self, state="ACTIVE") if self.state == "SHADOW" else self

    @cached_property
    def route(self) -> Route:
        return Route(tuple(sorted(self.keys)), self.filter)

    @property
    def first(self) -> Condition:
        """Its first condition."""
        return self.conditions[0]

    @property
    def aggregation(self) -> Aggregation:
        """What its first condition measures."""
        return self.conditions[0].aggregation

    @cached_property
    def aggregations(self) -> tuple[Aggregation, ...]:
        """What its conditions measure and compare with, each once."""
        every = (one for each in self.conditions for one in each.aggregations)
        return tuple(dict.fromkeys(one for one in every if one))

    @property
    def is_plain(self) -> bool:
        """Whether it compares one aggregate of all events with a number: then an event that does not count for it is not judged."""
        of = self.aggregation
        more = len(self.conditions) > 1 or self.first.limit_of
        return not (
            of.where or of.exclude_current or of.last_events or of.session_gap_ms or more or self.absence
        )

    @property
    def can_count_alerts_at_other_limits(self) -> bool:
        """Whether its first aggregate, at each event at which its other conditions hold, tells how often it would alert at any other limit."""
        resets = any(each.resets for each in self.aggregations)
        return not (self.absence or self.at_most or self.first.limit_of or self.joined_by == "or" or resets)

    @cached_property
    def widest_ms(self) -> int:
        """How far back from an event it looks: its widest window with what lies between it and the event, or the time in which its alerts are counted."""
        return max(self.at_most_per_ms, *(each.reach_ms for each in self.aggregations))

    @cached_property
    def stored_field_names(self) -> tuple[str, ...]:
        """What an event keeps for its conditions, sorted."""
        return tuple(sorted({name for each in self.aggregations for name in each.stored_field_names}))

    @property
    def event_conditions(self) -> tuple[When | None, ...]:
        """All its conditions on an event: of what it sees, counts, and may alert at."""
        counted = (of for each in self.aggregations for of in each.event_conditions.values())
        return self.filter, *counted, self.when

    @cached_property
    def field_names(self) -> tuple[str, ...]:
        """The fields of an event that decide whether it alerts, each once: those of its aggregates first."""
        kept = (name for name in self.stored_field_names if not name.startswith(WHERE))
        looked_at = (name for each in self.event_conditions for name in condition_fields(each))
        return tuple(dict.fromkeys((*kept, *self.keys, *looked_at)))

    @cached_property
    def list_names(self) -> frozenset[str]:
        """The named lists that its conditions look at."""
        return frozenset().union(*map(list_names, self.event_conditions))

    def with_lists(self, lists: Mapping[str, NamedList]) -> "Rule":
        """The same rule, whose conditions see what is in these lists."""
        return with_lists(self, lists) if self.list_names else self

    def with_first(self, **changes: Any) -> "Rule":
        """The rule with other attributes of its first condition, or of what that measures."""
        measured = {each.name: changes.pop(each.name) for each in fields(Aggregation) if each.name in changes}
        first = replace(self.first, aggregation=replace(self.aggregation, **measured), **changes)
        return replace(self, conditions=(first, *self.conditions[1:]))

    def fields_to_store(self, event: dict[str, Any]) -> dict[str, Any]:
        """What it needs of an event."""
        fields: dict[str, Any] = {}
        for each in self.aggregations:
            fields |= each.fields_to_store(event)
        return fields

    def conditions_for_alert(
        self, measures: list[list[Exact | None]]
    ) -> tuple[MeasuredCondition, tuple[MeasuredCondition, ...]] | None:
        """What its alert tells where its conditions measure this: the first that holds, and of several all. None: no alert."""
        holds = [each.holds(*of) for each, of in zip(self.conditions, measures, strict=True)]
        if not (any(holds) if self.joined_by == "or" else all(holds)):
            return None
        measured = tuple(each.measured_condition(*of) for each, of in zip(self.conditions, measures))
        return measured[holds.index(True)], measured if len(measured) > 1 else ()

    def to_dict(self) -> dict[str, Any]:
        """The attributes as a message gives them, ready for `json.dumps`; `parse_message` reads them back."""
        attributes = {
            "ruleId": self.rule_id,
            "ruleState": self.state,
            "groupingKeyNames": list(self.keys),
            "filter": filter_json_value(self.filter),
            **self.first.to_dict(),
            self.joined_by or "and": [without_none(each.to_dict()) for each in self.conditions[1:]] or None,
            "when": when_text(self.when) if self.when else None,
            "atMost": {"alerts": self.at_most, "per": duration_text(self.at_most_per_ms)}
            if self.at_most
            else None,
            "absence": self.absence or None,
            "action": self.action,
            "ttl": duration_text(self.ttl_ms) if self.action else None,
            **{name: kind.to_json(self.carries(name)) for name, kind in self._carried_kinds()},
            "eventFields": list(self.event_fields) or None,
            "version": self.version or None,
        }
        return without_none(attributes)

    def describe(self, limit: str | None = None) -> str:
        """The rule as one sentence, which `lab.model.sentence` reads back; `limit`: how its limit is written there."""
        said = (f", {name} {kind.describe(self.carries(name))}" for name, kind in self._carried_kinds())
        event = f", with {', '.join(self.event_fields)} of the event" if self.event_fields else ""
        return f"{self.summarize(limit)}{''.join(said)}{event}"

    def summarize(self, limit: str | None = None) -> str:
        """What it alerts at, how often, and what follows: `describe` without what its alerts carry."""
        where = f" where {filter_text(self.filter)}" if self.filter else ""
        per = f"{where} per {', '.join(self.keys)}" if self.keys else where
        first, *more = self.conditions
        said = f" {self.joined_by} ".join([first.describe(per, limit), *(each.describe() for each in more)])
        if self.absence:
            said = f"NO{first.aggregation.describe_arguments()}{per} within {duration_words(self.aggregation.window_ms)} after"
        when = f", when {when_text(self.when)}" if self.when else ""
        then = f", then {self.action} for {duration_words(self.ttl_ms)}" if self.action else ""
        most = f", at most {self.describe_at_most()}" if self.at_most else ""
        return f"{said}{when}{most}{then}"

    def describe_at_most(self) -> str:
        """How often it alerts in words, such as `1 per 10 min`; "" if that is not limited."""
        return f"{self.at_most} per {duration_words(self.at_most_per_ms)}" if self.at_most else ""

    def _carried_kinds(self) -> list[tuple[str, Carried]]:
        """What it carries, in the order of the table of attributes."""
        return [(name, kind) for name, kind in carried_attributes() if name in dict(self.carried)]

    def _repr_html_(self) -> str:
        return rules_html_table([self])


def alerted_marker(rule_id: int, joined_route_at: int) -> str:
    """The name under which an event stores whether a rule alerted at it; `joined_route_at`: when the rule joined its route."""
    return f"{SPOKE}{rule_id}.{joined_route_at}"


def readable_rule_sentence(rule: Rule) -> str:
    """A rule as one sentence, its limit as people write numbers.

    >>> from lab.model.attributes import carried
    >>> above = Condition(Aggregation("SUM", "paymentAmount", (), 60_000), "GREATER", Decimal("20000000.5"))
    >>> readable_rule_sentence(Rule(1, "ACTIVE", ("payeeId",), None, (above,), carried=carried(severity="high")))
    'SUM(paymentAmount) per payeeId over 1 min > 20,000,000.5, severity high'
    """
    return rule.describe(_limit_in_english(rule))


def readable_rule_summary(rule: Rule) -> str:
    """`readable_rule_sentence` without the attributes that alerts carry, for tables and explanations of alerts."""
    return rule.summarize(_limit_in_english(rule))


def _limit_in_english(rule: Rule) -> str:
    return f"{Decimal(plain_text(rule.first.limit)):,f}"


def rules_html_table(rules: list[Rule]) -> str:
    """Rules for a notebook."""
    rows = [(rule.rule_id, rule.version, rule.state, readable_rule_summary(rule)) for rule in rules]
    return html_table(say("Rules"), (say("rule"), say("version"), say("state"), say("alerts when")), rows)
