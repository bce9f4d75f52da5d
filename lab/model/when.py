"""A condition on an event itself, as `when`, `where` and `filter` have it: a small tree, evaluated on one event at a time.

    amount > 500 and ip in 10.0.0.0/8   ──parse_when──►   AllOf((Comparison("amount", ">", 500), Comparison("ip", "in", (…,))))
                                         ◄──when_text──

A comparison with null is false, whichever it is, and nothing negates a whole condition: so null never passes by accident.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from lab.model.clock import LocalTimePart
from lab.model.conditions import quote_if_needed, quote_text
from lab.model.field import Value
from lab.model.operators import OPERATORS, are_networks
from lab.model.words import plain_text


@dataclass(frozen=True)
class OtherField:
    """Another field of the same event."""

    name: str


@dataclass(frozen=True)
class Comparison:
    """A field of the event compared with a value, several values or networks, another field, or null.

    `clock`: what is compared is what it shows at the field's time.
    """

    field: str
    operator: str
    operand: Value | OtherField | tuple = None
    local_time_part: LocalTimePart | None = None


@dataclass(frozen=True)
class AllOf:
    """Every part is true."""

    parts: tuple["When", ...]


@dataclass(frozen=True)
class AnyOf:
    """At least one part is true."""

    parts: tuple["When", ...]


When = Comparison | AllOf | AnyOf


def flat_parts(of: type[AllOf] | type[AnyOf], parts: Iterable[When]) -> list[When]:
    """The parts without brackets that change nothing."""
    flat: list[When] = []
    for part in parts:
        flat += part.parts if isinstance(part, of) else (part,)
    return flat


def join_conditions(of: type[AllOf] | type[AnyOf], parts: Iterable[When]) -> When:
    """Several parts as one condition; brackets that change nothing leave no trace."""
    flat = flat_parts(of, parts)
    return of(tuple(flat)) if len(flat) > 1 else flat[0]


# -- evaluation --------------------------------------------------------------------------------------------------------


def is_true(when: When, event: Mapping[str, Any]) -> bool:
    """Whether the condition is true of an event.

    >>> from lab.model.schema import LOGINS
    >>> from lab.model.whenreader import parse_when
    >>> when = parse_when("amount > 500 or country not in (KR, CN)", LOGINS)
    >>> [is_true(when, {"amount": amount, "country": country}) for amount, country in ((501, "KR"), (500, "US"), (500, None))]
    [True, True, False]
    """
    match when:
        case AllOf(parts):
            return all(is_true(part, event) for part in parts)
        case AnyOf(parts):
            return any(is_true(part, event) for part in parts)
        case Comparison(field, operator, operand, clock):
            value = event[field]
            if clock and value is not None:
                value = clock.value_at(value)
            other = event[operand.name] if isinstance(operand, OtherField) else operand
            return OPERATORS[operator].compare(value, other)


def condition_fields(when: When | None) -> tuple[str, ...]:
    """The fields that the condition looks at, in their order."""
    return tuple(dict.fromkeys(_fields_of(when))) if when else ()


def _fields_of(when: When) -> Iterator[str]:
    if isinstance(when, Comparison):
        yield when.field
        if isinstance(when.operand, OtherField):
            yield when.operand.name
    else:
        for part in when.parts:
            yield from _fields_of(part)


# -- text --------------------------------------------------------------------------------------------------------------


def when_text(when: When) -> str:
    """The condition in words, the same for equal conditions; `parse_when` reads it back.

    >>> from lab.model.schema import LOGINS
    >>> from lab.model.whenreader import parse_when
    >>> when_text(parse_when("country=KR and (amount>=5 OR ip in (10.0.0.0/8)) and userId NOT in(7,8)", LOGINS))
    'country = "KR" and (amount >= 5.00 or ip in 10.0.0.0/8) and userId not in (7, 8)'
    """
    match when:
        case AllOf(parts):
            return " and ".join(
                f"({when_text(part)})" if isinstance(part, AnyOf) else when_text(part) for part in parts
            )
        case AnyOf(parts):
            return " or ".join(map(when_text, parts))
        case Comparison(field, operator, operand, LocalTimePart() as clock):
            return when_text(Comparison(clock.condition_text(field), operator, operand))
        case Comparison(field, operator) if OPERATORS[operator].takes == "nothing":
            return f"{field} {operator}"
        case Comparison(field, operator, OtherField(name)):
            return f"{field} {operator} {name}"
        case Comparison(field, operator, tuple(operand)):
            listed = ", ".join(str(each) if are_networks(operand) else _in_list(each) for each in operand)
            alone = are_networks(operand) and len(operand) == 1
            return f"{field} {operator} {listed}" if alone else f"{field} {operator} ({listed})"
        case Comparison(field, operator, operand):
            # a text in quotes, as without them it may be the name of a field, today or when the schema has one more
            value = quote_text(operand) if isinstance(operand, str) else plain_text(operand)
            return f"{field} {operator} {value}"


def _in_list(value: int | str | Decimal) -> str:
    return quote_text(value) if isinstance(value, str) and value.lower() == "null" else quote_if_needed(value)
