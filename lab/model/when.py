"""A condition on an event itself, as `when`, `where` and `filter` have it: a small tree, evaluated on one event at a time.

    amount > 500 and ip in 10.0.0.0/8   ──parse_when──►   AllOf((Comparison("amount", ">", 500), Comparison("ip", "in", (…,))))
                                         ◄──when_text──

A comparison with null is false, whichever it is, and nothing negates a whole condition: so null never passes by accident.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from decimal import Decimal
from typing import Any, TypeVar

from lab.model.conditions import quote_if_needed, quote_text
from lab.model.field import Value
from lab.model.formatting import plain_text
from lab.model.lists import EMPTY, ListOperand, NamedList
from lab.model.operators import OPERATORS, are_networks
from lab.model.times import DAY_MS, HOUR_MS, check_zone, offset_ms

# -- clocks ------------------------------------------------------------------------------------------------------------
# hour(eventTime) >= 22        hour(eventTime, "+09:00") < 6        weekday(eventTime, "Europe/Berlin") in (6, 7)

SHOWS = {"hour": (0, 23), "weekday": (1, 7)}  # the smallest and the largest number; 1 is Monday
FIRST_WEEKDAY = 3  # days from a Monday to 1970-01-01


@dataclass(frozen=True)
class LocalTimePart:
    """`part`: a word of SHOWS. `zone`: as `lab.model.times` knows it. Raises ValueError for an unknown one.

    >>> LocalTimePart("hour").value_at(82_800_000), LocalTimePart("hour", "+09:00").value_at(82_800_000), LocalTimePart("weekday", "+09:00").value_at(82_800_000)
    (23, 8, 5)
    >>> LocalTimePart("hour", "Europe/Belrin")
    Traceback (most recent call last):
    ValueError: unknown time zone "Europe/Belrin", did you mean Europe/Berlin?...
    """

    part: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        check_zone(self.zone)

    def value_at(self, time_ms: int) -> int:
        """What it shows at a time in ms since the epoch."""
        return self.value_at_local(time_ms + offset_ms(self.zone, time_ms))

    def value_at_local(self, local_ms):
        """What it shows where clocks are so far, in ms: an integer, or a NumPy array of them."""
        if self.part == "hour":
            return local_ms // HOUR_MS % 24
        return (local_ms // DAY_MS + FIRST_WEEKDAY) % 7 + 1

    def condition_text(self, field: str) -> str:
        """How a condition names what it shows at the time in a field."""
        zone = "" if self.zone == "UTC" else f", {quote_if_needed(self.zone)}"
        return f"{self.part}({field}{zone})"


@dataclass(frozen=True)
class OtherField:
    """Another field of the same event."""

    name: str


@dataclass(frozen=True)
class Comparison:
    """A field of the event compared with a value, several values or networks, a named list, another field, or null.

    `clock`: what is compared is what it shows at the field's time.
    """

    field: str
    operator: str
    operand: Value | OtherField | ListOperand | tuple = None
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


@dataclass(frozen=True)
class Steps:
    """Conditions on events that come one after the other. An event of which `without` is true ends what has begun."""

    conditions: tuple[When, ...]
    without: When | None = None

    @property
    def text(self) -> str:
        """The steps in words; `parse_steps` reads them back."""
        without = f" without {when_text(self.without)}" if self.without else ""
        return f"{', '.join(map(when_text, self.conditions))}{without}"


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
            other: Any = operand
            if isinstance(operand, OtherField):
                other = event[operand.name]
            elif isinstance(operand, ListOperand):
                other = operand.at(event[operand.time_field])
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


def list_names(when: When | None) -> frozenset[str]:
    """The named lists that a condition looks at."""
    match when:
        case AllOf(parts) | AnyOf(parts):
            return frozenset().union(*map(list_names, parts))
        case Comparison(operand=ListOperand(name)):
            return frozenset((name,))
    return frozenset()


T = TypeVar("T")


def with_lists(of: T, lists: Mapping[str, NamedList]) -> T:
    """The same condition, or what has some inside it, which sees what is in these lists; one that is not among them is empty."""
    made: Any = of
    match made:
        case ListOperand(name):
            made = replace(made, entries=lists.get(name, EMPTY))
        case tuple():
            made = tuple(with_lists(each, lists) for each in made)
        case _ if is_dataclass(made) and not isinstance(made, type):
            made = replace(
                made, **{each.name: with_lists(getattr(made, each.name), lists) for each in fields(made)}
            )
    return made


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
        case Comparison(field, operator, ListOperand(name)):
            return f"{field} {operator} @{name}"
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


# -- filters -----------------------------------------------------------------------------------------------------------
# Which events a rule sees at all. Rules with the same keys and the same filter share a route.
#
# {"country": ["KR", "CN"]}     ──►  country in (CN, KR)            a condition, its parts in one order;
# country in (KR, CN)           ──►  the same                       None: every event passes
# amount > 500 or ip is null    ──►  amount > 500 or ip is null
#
# A filter that says which values fields must have is an object in JSON, and columns are tested faster: `field_values`.

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
