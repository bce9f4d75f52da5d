"""A rule as a value: what it says of which events, and how it is written.

SUM(paymentAmount) per payeeId over 20 min > 50    ◄── {"ruleId": 1, "aggregatorFunctionType": "SUM", ...}
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

from lab.model.aggregates import AGGREGATES, Exact
from lab.model.conditions import Filter, conditions_text
from lab.model.times import duration_parts as _duration
from lab.model.times import duration_words as _duration_text
from lab.model.when import RELATIONS, When, when_text
from lab.model.words import html_table, plain, visible

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
        parts = (f"{name}={','.join(map(_word, values))}" for name, values in self.filter)
        return f"{keys}|{'&'.join(parts)}" if self.filter else keys


@dataclass(frozen=True)
class Rule:
    """Alert when `function` of `field` over the last `window_ms` of a group is `operator` than `limit`.

    `field` None: every event counts. `unique` is for UNIQUE_COUNT only. `version` 0: not yet in a book.
    `when`: which event may alert; it has no say in which events count.
    `action`: what to do with the group of an alert, for `ttl_ms`; the engine keeps both and acts on neither.
    `severity`, `title`, `labels` (sorted by name): each alert carries them, for whoever reads it.

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
    ttl_ms: int | None = None
    when: When | None = None
    severity: str | None = None
    title: str | None = None
    labels: tuple[tuple[str, str], ...] = ()

    @cached_property
    def route(self) -> Route:
        return Route(tuple(sorted(self.keys)), self.filter)

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """The event fields to keep for its aggregate, sorted."""
        return tuple(sorted({*self.unique, self.field} - {None}))

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
            "filter": filter_object(self.filter) or None,
            "aggregateFieldName": self.field,
            "aggregatorFunctionType": self.function,
            "unique": list(self.unique) or None,
            "limitOperatorType": self.operator,
            "limit": _json_value(self.limit),
            "window": "".join(_duration(self.window_ms)),
            "when": when_text(self.when) if self.when else None,
            "action": self.action,
            "ttl": "".join(_duration(self.ttl_ms)) if self.action else None,
            "severity": self.severity,
            "title": self.title,
            "labels": dict(self.labels) or None,
            "version": self.version or None,
        }
        return {name: value for name, value in attributes.items() if value is not None}

    def describe(self, limit: str | None = None) -> str:
        """The rule in plain English; `limit`: how its limit is written there."""
        limit = plain(self.limit) if limit is None else limit
        of = ", ".join(self.unique) or self.field or "events"
        where = f" where {conditions_text(self.filter)}" if self.filter else ""
        per = f" per {', '.join(self.keys)}" if self.keys else ""
        when = f", when {when_text(self.when)}" if self.when else ""
        then = f", then {self.action} for {_duration_text(self.ttl_ms)}" if self.action else ""
        over = _duration_text(self.window_ms)
        return f"{self.function}({of}){where}{per} over {over} {self.symbol} {limit}{when}{then}"

    def _repr_html_(self) -> str:
        return table([self])


def symbol(operator: str) -> str:
    """An operator, short; unknown text stays as it is.

    >>> symbol("GREATER_EQUAL")
    '>='
    """
    return SYMBOLS.get(operator, operator)


def _json_value(value: str | int | Decimal) -> str | int:
    """Ready for `json.dumps`, exactly: a whole number as int, another decimal as text."""
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else plain(value)
    return value


def filter_object(filter: Filter) -> dict[str, Any]:
    """A filter as a message gives it.

    >>> filter_object((("action", ("login",)), ("userId", (7, 8))))
    {'action': 'login', 'userId': [7, 8]}
    """
    lists = {name: [_json_value(value) for value in values] for name, values in filter}
    return {name: values if len(values) > 1 else values[0] for name, values in lists.items()}


def _word(value: str | int | Decimal) -> str:
    """As it is when that cannot be misread, else as a JSON string."""
    text = plain(value)
    return text if re.fullmatch(r"[\w.-]+", text) else visible(json.dumps(text, ensure_ascii=False))


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
