"""Filters: which events a rule sees at all. Rules with the same keys and the same filter share a route.

{"country": ["KR", "CN"]}     ──►  (("country", ("CN", "KR")),)       the values that fields must have
country in (KR, CN)           ──►  the same
amount > 500 or ip is null    ──►  any other condition, as `lab.model.when` has it, in one order of its parts
"""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from lab.model.operators import are_networks
from lab.model.when import (
    AllOf,
    AnyOf,
    Comparison,
    OtherField,
    When,
    flat_parts,
    is_true,
    join_conditions,
    when_text,
)
from lab.model.words import plain_text

# fields with the values that they may have: sorted by field, values sorted and distinct
FieldValues = tuple[tuple[str, tuple[str | int | Decimal, ...]], ...]
Filter = FieldValues | When
ONE_OF = {"in": "=", "not in": "!="}


def canonical_filter(when: When) -> Filter:
    """The filter that a condition means: the same for conditions that differ only in the order of their parts.

    >>> from lab.model.schema import LOGINS
    >>> from lab.model.whenreader import parse_when
    >>> canonical_filter(parse_when("country in (KR, CN) and action = login", LOGINS))
    (('action', ('login',)), ('country', ('CN', 'KR')))
    >>> when_text(canonical_filter(parse_when("ip is null or amount > 5 or amount > 5", LOGINS)))
    'amount > 5.00 or ip is null'
    """
    when = _in_order(when)
    parts = when.parts if isinstance(when, AllOf) else (when,)
    pairs = [(part.field, _values(part)) for part in parts if isinstance(part, Comparison)]
    fixed = {name: values for name, values in pairs if values}
    return tuple(sorted(fixed.items())) if len(fixed) == len(parts) else when


def _in_order(when: When) -> When:
    if isinstance(when, AllOf | AnyOf):
        # one of which only a part of the same kind is left joins its parts to these before they are put in order
        parts = flat_parts(type(when), map(_in_order, when.parts))
        distinct = {when_text(part): part for part in parts}
        return join_conditions(type(when), (distinct[text] for text in sorted(distinct)))
    if isinstance(when.operand, tuple) and len(when.operand) == 1 and not are_networks(when.operand):
        return replace(when, operator=ONE_OF[when.operator], operand=when.operand[0])
    return when


def _values(of: Comparison) -> tuple:
    """The values of which the field must have one; () if the comparison says something else."""
    if of.local_time_part:
        return ()
    if of.operator == "=" and not isinstance(of.operand, OtherField):
        return (of.operand,)
    is_list = of.operator == "in" and isinstance(of.operand, tuple) and not are_networks(of.operand)
    return of.operand if is_list and isinstance(of.operand, tuple) else ()


def required_values(filter: Filter) -> FieldValues:
    """The fields that must have one of some values for an event to pass, and these values.

    >>> required_values((("country", ("KR",)),)), required_values(AllOf((Comparison("ip", "is null"), Comparison("userId", "=", 7))))
    ((('country', ('KR',)),), (('userId', (7,)),))
    """
    if isinstance(filter, tuple):
        return filter
    parts = filter.parts if isinstance(filter, AllOf) else (filter,)
    pairs = [(part.field, _values(part)) for part in parts if isinstance(part, Comparison)]
    return tuple((name, values) for name, values in pairs if values)


def filter_to_condition(filter: Filter) -> When | None:
    """The filter as a condition; None: every event passes."""
    if not isinstance(filter, tuple):
        return filter
    pairs = (
        Comparison(name, "in", values) if len(values) > 1 else Comparison(name, "=", values[0])
        for name, values in filter
    )
    return join_conditions(AllOf, pairs) if filter else None


def passes_filter(filter: Filter, event: Mapping[str, Any]) -> bool:
    """Whether an event passes the filter.

    >>> passes_filter((("country", ("CN", "KR")),), {"country": "KR"}), passes_filter((("country", ("KR",)),), {"country": None})
    (True, False)
    """
    if isinstance(filter, tuple):
        return all(event[name] in values for name, values in filter)
    return is_true(filter, event)


def filter_text(filter: Filter) -> str:
    """A filter in words, "" if every event passes; `parse_filter` reads it back.

    >>> filter_text((("action", ("login",)), ("country", ("CN", "New York")), ("userId", (7,))))
    'action = "login" and country in (CN, "New York") and userId = 7'
    """
    condition = filter_to_condition(filter)
    return when_text(condition) if condition else ""


def filter_json_value(filter: Filter) -> dict[str, Any] | str | None:
    """A filter as a message gives it: an object if it says which values fields must have, else in words.

    >>> filter_json_value((("action", ("login",)), ("userId", (7, 8))))
    {'action': 'login', 'userId': [7, 8]}
    """
    if not isinstance(filter, tuple):
        return when_text(filter)
    lists = {name: [exact_json_value(value) for value in values] for name, values in filter}
    return {name: values if len(values) > 1 else values[0] for name, values in lists.items()} or None


def exact_json_value(value: str | int | Decimal) -> str | int:
    """Ready for `json.dumps`, exactly: a whole number as int, another decimal as text."""
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else plain_text(value)
    return value
