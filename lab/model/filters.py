"""Filters: which events a rule sees at all. Rules with the same keys and the same filter share a route.

{"country": ["KR", "CN"]}     ──►  country in (CN, KR)            a condition of `lab.model.when`, its parts in one order;
country in (KR, CN)           ──►  the same                       None: every event passes
amount > 500 or ip is null    ──►  amount > 500 or ip is null

A filter that says which values fields must have is an object in JSON, and columns are tested faster: `field_values`.
"""

from collections.abc import Iterable, Mapping
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
ONE_OF = {"in": "=", "not in": "!="}


def canonical_filter(when: When) -> When:
    """The filter that a condition means: the same for conditions that differ only in the order of their parts.

    >>> from lab.model.schema import LOGINS
    >>> from lab.model.whenreader import parse_when
    >>> when_text(canonical_filter(parse_when("country in (KR, CN) and action = login", LOGINS)))
    'action = "login" and country in (CN, KR)'
    >>> when_text(canonical_filter(parse_when("ip is null or amount > 5 or amount > 5", LOGINS)))
    'amount > 5.00 or ip is null'
    """
    if isinstance(when, AllOf | AnyOf):
        # one of which only a part of the same kind is left joins its parts to these before they are put in order
        parts = flat_parts(type(when), map(canonical_filter, when.parts))
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


def required_values(filter: When | None) -> FieldValues:
    """The fields that must have one of some values for an event to pass, and these values.

    >>> required_values(AllOf((Comparison("ip", "is null"), Comparison("userId", "=", 7))))
    (('userId', (7,)),)
    """
    pairs = [(part.field, _values(part)) for part in _parts(filter) if isinstance(part, Comparison)]
    return tuple((name, values) for name, values in pairs if values)


def field_values(filter: When | None) -> FieldValues | None:
    """The same if the filter says nothing else, and each field has its values once; else None.

    >>> field_values(None), field_values(Comparison("userId", "=", 7)), field_values(Comparison("ip", "is null"))
    ((), (('userId', (7,)),), None)
    """
    pairs = required_values(filter)
    return pairs if len(dict(pairs)) == len(_parts(filter)) else None


def filter_of_values(pairs: Iterable[tuple[str, tuple]]) -> When | None:
    """The filter that wants these fields to have one of these values; `pairs` are sorted, as are the values.

    >>> when_text(filter_of_values([("country", ("CN", "KR")), ("userId", (7,))]))
    'country in (CN, KR) and userId = 7'
    """
    parts = [
        Comparison(name, "in", values) if len(values) > 1 else Comparison(name, "=", values[0])
        for name, values in pairs
    ]
    return join_conditions(AllOf, parts) if parts else None


def _parts(filter: When | None) -> tuple[When, ...]:
    if filter is None:
        return ()
    return filter.parts if isinstance(filter, AllOf) else (filter,)


def passes_filter(filter: When | None, event: Mapping[str, Any]) -> bool:
    """Whether an event passes the filter."""
    return filter is None or is_true(filter, event)


def filter_text(filter: When | None) -> str:
    """A filter in words, "" if every event passes; `parse_filter` reads it back."""
    return when_text(filter) if filter else ""


def filter_json_value(filter: When | None) -> dict[str, Any] | str | None:
    """A filter as a message gives it: an object if it says which values fields must have, else in words.

    >>> filter_json_value(filter_of_values([("action", ("login",)), ("userId", (7, 8))]))
    {'action': 'login', 'userId': [7, 8]}
    """
    if filter is None:
        return None
    if (pairs := field_values(filter)) is None:
        return when_text(filter)
    lists = {name: [exact_json_value(value) for value in values] for name, values in pairs}
    return {name: values if len(values) > 1 else values[0] for name, values in lists.items()}


def exact_json_value(value: str | int | Decimal) -> str | int:
    """Ready for `json.dumps`, exactly: a whole number as int, another decimal as text."""
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else plain_text(value)
    return value
