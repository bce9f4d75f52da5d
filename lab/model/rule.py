"""A rule as a value: what it says of which events, and how it is written.

SUM(paymentAmount) per payeeId over 20 min > 50    ◄── {"ruleId": 1, "aggregatorFunctionType": "SUM", ...}

A plain rule compares one aggregate with a number. Others have several conditions, or one that says more: `Condition`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from lab.model.aggregates import AGGREGATES, Exact, rounded
from lab.model.conditions import written
from lab.model.filters import Filter, filter_text, filter_value, json_value
from lab.model.times import duration_text, duration_words
from lab.model.when import RELATIONS, When, is_true, when_text
from lab.model.words import html_table, plain

SYMBOLS = {
    "EQUAL": "=",
    "NOT_EQUAL": "!=",
    "GREATER": ">",
    "GREATER_EQUAL": ">=",
    "LESS": "<",
    "LESS_EQUAL": "<=",
}
OPERATORS = tuple(SYMBOLS)
FUNCTIONS = tuple(AGGREGATES)
UNIT_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
# begin the names under which an event keeps whether a `where` is true of it, and whether a rule alerted at it; no field is called so
WHERE, SPOKE = "?", "!"
ONE_BIT = (WHERE, SPOKE)


@dataclass(frozen=True)
class Route:
    """Where events go: rules with the same set of keys (sorted here) and the same filter share one copy.

    >>> Route(("userId",), (("action", ("login",)), ("country", ("CN", "KR")))).id
    'userId|action=login&country=CN,KR'
    """

    keys: tuple[str, ...]
    filter: Filter

    @property
    def id(self) -> str:
        """Short text, the same in every process and different for every route; `{}` stands for no keys."""
        keys = ",".join(self.keys) or "{}"
        if not isinstance(self.filter, tuple):
            return f"{keys}|{when_text(self.filter)}"
        parts = (f"{name}={','.join(map(written, values))}" for name, values in self.filter)
        return f"{keys}|{'&'.join(parts)}" if self.filter else keys


@dataclass(frozen=True)
class Aggregation:
    """`function` of `field` over the last `window_ms` of a group. `field` None: it counts; `unique` is for UNIQUE_COUNT only.

    `where`: which events of the group count for it, all if None. `exclude_current`: the event that is judged does not.
    """

    function: str
    field: str | None
    unique: tuple[str, ...]
    window_ms: int
    where: When | None = None
    exclude_current: bool = False

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """What an event keeps for it, sorted: fields, and under its own name whether `where` is true."""
        return tuple(sorted(filter(None, {*self.unique, self.field, self.kept_where})))

    @cached_property
    def kept_where(self) -> str | None:
        """The name under which an event keeps whether `where` is true of it."""
        return WHERE + when_text(self.where) if self.where else None

    def kept(self, event: dict[str, Any]) -> dict[str, Any]:
        """What it needs of an event; None where `where` is not true, as of a null, does not count."""
        fields = {name: event[name] for name in self.needs if name != self.kept_where}
        if self.where and self.kept_where:
            fields[self.kept_where] = is_true(self.where, event) or None
        return fields

    def counts(self, event: dict[str, Any]) -> bool:
        """Whether an event counts for it, as far as the event itself says."""
        return all(value is not None for value in self.kept(event).values())

    def measure(self, events: list[dict[str, Any]]) -> Exact | None:
        """What it measures over the events that count, exactly; None if there are none and it is no count."""
        aggregate = AGGREGATES[self.function]
        if aggregate.of == "field":
            return (
                aggregate.measure([event[self.field] for event in events]) if events and self.field else None
            )
        return aggregate.measure([tuple(event[name] for name in self.unique) for event in events])

    def to_dict(self) -> dict[str, Any]:
        """Its attributes in a message."""
        return {
            "aggregateFieldName": self.field,
            "aggregatorFunctionType": self.function,
            "unique": list(self.unique) or None,
            "window": duration_text(self.window_ms),
            "where": when_text(self.where) if self.where else None,
            "excludeCurrent": self.exclude_current or None,
        }

    def describe(self, per: str = "") -> str:
        without = " without the current event" if self.exclude_current else ""
        return f"{self.function}{self.describe_of()}{per} over {duration_words(self.window_ms)}{without}"

    def describe_of(self) -> str:
        """What it is of, in brackets."""
        of = ", ".join(self.unique) or self.field or "events"
        where = f" where {when_text(self.where)}" if self.where else ""
        return f"({of}{where})"


@dataclass(frozen=True)
class Condition:
    """What `aggregation` measures is in the relation `operator` to `limit`, or to `limit` × `limit_of` ÷ `divided_by` + `plus`.

    >>> sum_of_hour = Aggregation("SUM", "amount", (), 3_600_000)
    >>> of_month = Aggregation("SUM", "amount", (), 30 * 86_400_000)
    >>> Condition(sum_of_hour, "GREATER", Decimal(5), of_month, 30).describe()
    'SUM(amount) over 1 h > 5 × SUM(amount) over 30 d ÷ 30'
    """

    aggregation: Aggregation
    operator: str
    limit: Decimal
    limit_of: Aggregation | None = None
    divided_by: int = 1
    plus: Decimal = Decimal(0)

    def limit_at(self, base: Exact | None) -> Fraction | None:
        """The limit where `limit_of` measures `base`."""
        if self.limit_of is None:
            return Fraction(self.limit)
        if base is None:
            return None
        return Fraction(self.limit) * Fraction(base) / self.divided_by + Fraction(self.plus)

    def holds(self, measure: Exact | None, base: Exact | None = None) -> bool:
        """Whether it is true, exactly, of what its aggregation measures and what `limit_of` does; not if either has no value."""
        limit = self.limit_at(base)
        if measure is None or limit is None:
            return False
        compared = AGGREGATES[self.aggregation.function].compared(limit)
        return RELATIONS[SYMBOLS[self.operator]](Fraction(measure), compared)

    def told(self, measure: Exact | None, base: Exact | None = None) -> "Told":
        """What an alert tells of it."""
        aggregate = None if measure is None else AGGREGATES[self.aggregation.function].reported(measure)
        limit = self.limit_at(base)
        if limit is None or self.limit_of:
            return Told(aggregate, self.operator, None if limit is None else rounded(limit))
        return Told(aggregate, self.operator, self.limit)

    def to_dict(self) -> dict[str, Any]:
        """Its attributes in a message."""
        base = self.limit_of and self.limit_of.to_dict()
        if base and self.divided_by > 1:
            base |= {"dividedBy": self.divided_by}
        if base and self.plus:
            base |= {"plus": json_value(self.plus)}
        return self.aggregation.to_dict() | {
            "limitOperatorType": self.operator,
            "limit": json_value(self.limit),
            "limitOf": base and _given(base),
        }

    def describe(self, per: str = "", limit: str | None = None) -> str:
        return f"{self.aggregation.describe(per)} {symbol(self.operator)} {self.describe_limit(limit)}"

    def describe_limit(self, limit: str | None = None) -> str:
        """The limit in words; `limit`: how its number is written there."""
        limit = plain(self.limit) if limit is None else limit
        if self.limit_of is None:
            return limit
        times = "" if self.limit == 1 else f"{limit} × "
        divided = f" ÷ {self.divided_by}" if self.divided_by > 1 else ""
        plus = f" {'+' if self.plus > 0 else '-'} {plain(abs(self.plus))}" if self.plus else ""
        return f"{times}{self.limit_of.describe()}{divided}{plus}"


class Told(NamedTuple):
    """A condition in an alert: None where there was no event to measure."""

    aggregate: Decimal | None
    operator: str
    limit: Decimal | None


@dataclass(frozen=True)
class Rule:
    """Alert when `function` of `field` over the last `window_ms` of a group is `operator` than `limit`.

    `field` None: every event counts. `unique` is for UNIQUE_COUNT only. `version` 0: not yet in a book.
    `where` … `plus`: as in its first `Condition`. `more`: further conditions, `joined` to the first by "and" or "or".
    `when`: which event may alert; it has no say in which events count.
    `action`: what to do with the group of an alert, for `ttl_ms`; the engine keeps both and acts on neither.
    `at_most`: alerts of a group at events within `per_ms`; others are suppressed.
    `absence`: alert at an event after which none that counts is logged for `window_ms`; the function is COUNT, the limit = 0.
    `severity`, `title`, `labels` (sorted by name): each alert carries them, for whoever reads it; and of its event the
    `event_fields`.

    >>> from lab.model.rules import parse_message
    >>> from lab.model.schema import PAYMENTS
    >>> message = "1,(active),(payeeId&beneficiaryId),,(paymentAmount),(SUM),(>),(50),(20)"
    >>> rule = parse_message(message, PAYMENTS).rule
    >>> rule.describe()
    'SUM(paymentAmount) per payeeId, beneficiaryId over 20 min > 50'
    >>> rule.route.id, rule.needs, rule.holds(Decimal("50.01")), rule.holds(50)
    ('beneficiaryId,payeeId', ('paymentAmount',), True, False)
    """

    rule_id: int
    state: str
    keys: tuple[str, ...]
    filter: Filter
    function: str
    field: str | None
    unique: tuple[str, ...]
    operator: str
    limit: Decimal
    window_ms: int
    version: int = 0
    action: str | None = None
    ttl_ms: int = 0
    when: When | None = None
    severity: str | None = None
    title: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    where: When | None = None
    exclude_current: bool = False
    limit_of: Aggregation | None = None
    divided_by: int = 1
    plus: Decimal = Decimal(0)
    joined: str | None = None
    more: tuple[Condition, ...] = ()
    at_most: int | None = None
    per_ms: int = 0
    absence: bool = False
    event_fields: tuple[str, ...] = ()

    @cached_property
    def route(self) -> Route:
        return Route(tuple(sorted(self.keys)), self.filter)

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """All its conditions, the one that it has itself first."""
        of = (self.function, self.field, self.unique, self.window_ms, self.where, self.exclude_current)
        own = Condition(
            Aggregation(*of), self.operator, self.limit, self.limit_of, self.divided_by, self.plus
        )
        return (own, *self.more)

    @cached_property
    def aggregations(self) -> tuple[Aggregation, ...]:
        """What its conditions measure and compare with, each once."""
        both = ((each.aggregation, each.limit_of) for each in self.conditions)
        return tuple(dict.fromkeys(one for pair in both for one in pair if one))

    @property
    def is_plain(self) -> bool:
        """Whether it compares one aggregate of all events with a number: then an event that does not count for it is not judged."""
        return not (self.where or self.exclude_current or self.limit_of or self.more or self.absence)

    @property
    def has_curve(self) -> bool:
        """Whether its aggregate at each event tells how often it would alert at any other limit."""
        return self.is_plain and self.function != "COUNT_WITH_RESET" and not self.at_most

    @cached_property
    def widest_ms(self) -> int:
        """How far back from an event it looks: its widest window, or that in which its alerts are counted."""
        return max(self.per_ms, *(each.window_ms for each in self.aggregations))

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """What an event keeps for its conditions, sorted."""
        return tuple(sorted({name for each in self.aggregations for name in each.needs}))

    def kept(self, event: dict[str, Any]) -> dict[str, Any]:
        """What it needs of an event."""
        return {name: value for each in self.aggregations for name, value in each.kept(event).items()}

    def told(self, measures: list[tuple[Exact | None, Exact | None]]) -> tuple[Told, tuple[Told, ...]] | None:
        """What its alert tells where its conditions measure this: the first that holds, and of several all. None: no alert."""
        holds = [each.holds(*pair) for each, pair in zip(self.conditions, measures, strict=True)]
        if not (any(holds) if self.joined == "or" else all(holds)):
            return None
        told = tuple(each.told(*pair) for each, pair in zip(self.conditions, measures))
        return told[holds.index(True)], told if self.more else ()

    @property
    def symbol(self) -> str:
        """Its operator, short: `>`."""
        return symbol(self.operator)

    @property
    def relation(self) -> Callable:
        """Its operator as a function of aggregate and limit; numbers or NumPy arrays."""
        return RELATIONS[self.symbol]

    def holds(self, measure: Exact) -> bool:
        """Whether what its aggregate measures is in the rule's relation to the limit, exactly; for STDDEV that is the variance."""
        limit = AGGREGATES[self.function].compared(Fraction(self.limit))
        return self.relation(Fraction(measure), limit)

    def to_dict(self) -> dict[str, Any]:
        """The attributes as a message gives them, ready for `json.dumps`; `parse_message` reads them back."""
        attributes = {
            "ruleId": self.rule_id,
            "ruleState": self.state,
            "groupingKeyNames": list(self.keys),
            "filter": filter_value(self.filter),
            **self.conditions[0].to_dict(),
            self.joined or "and": [_given(each.to_dict()) for each in self.more] or None,
            "when": when_text(self.when) if self.when else None,
            "atMost": {"alerts": self.at_most, "per": duration_text(self.per_ms)} if self.at_most else None,
            "absence": self.absence or None,
            "action": self.action,
            "ttl": duration_text(self.ttl_ms) if self.action else None,
            "severity": self.severity,
            "title": self.title,
            "labels": dict(self.labels) or None,
            "eventFields": list(self.event_fields) or None,
            "version": self.version or None,
        }
        return _given(attributes)

    def describe(self, limit: str | None = None) -> str:
        """The rule in plain English; `limit`: how its limit is written there."""
        where = f" where {filter_text(self.filter)}" if self.filter else ""
        per = f"{where} per {', '.join(self.keys)}" if self.keys else where
        first, *more = self.conditions
        said = f" {self.joined} ".join([first.describe(per, limit), *(each.describe() for each in more)])
        if self.absence:
            said = f"NO{first.aggregation.describe_of()}{per} within {duration_words(self.window_ms)} after"
        when = f", when {when_text(self.when)}" if self.when else ""
        then = f", then {self.action} for {duration_words(self.ttl_ms)}" if self.action else ""
        most = f", at most {self.describe_at_most()}" if self.at_most else ""
        return f"{said}{when}{most}{then}"

    def describe_at_most(self) -> str:
        """How often it alerts in words, such as `1 per 10 min`; "" if that is not limited."""
        return f"{self.at_most} per {duration_words(self.per_ms)}" if self.at_most else ""

    def _repr_html_(self) -> str:
        return table([self])


def spoke(rule_id: int, joined: int) -> str:
    """The name under which an event keeps whether a rule, on its route since it joined it, alerted at it."""
    return f"{SPOKE}{rule_id}.{joined}"


def _given(attributes: dict[str, Any]) -> dict[str, Any]:
    """Those that are given."""
    return {name: value for name, value in attributes.items() if value is not None}


def symbol(operator: str) -> str:
    """An operator, short; unknown text stays as it is.

    >>> symbol("GREATER_EQUAL")
    '>='
    """
    return SYMBOLS.get(operator, operator)


def meaning(rule: Rule) -> str:
    """A rule in plain English, its limit as people write numbers.

    >>> meaning(Rule(1, "ACTIVE", ("payeeId",), (), "SUM", "paymentAmount", (), "GREATER", Decimal("20000000.5"), 60_000))
    'SUM(paymentAmount) per payeeId over 1 min > 20,000,000.5'
    """
    return rule.describe(f"{Decimal(plain(rule.limit)):,f}")


def table(rules: list[Rule]) -> str:
    """Rules for a notebook."""
    rows = [(rule.rule_id, rule.version, rule.state, meaning(rule)) for rule in rules]
    return html_table(("rule", "version", "state", "alerts when"), rows)
