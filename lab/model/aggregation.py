"""What a rule measures and compares: an aggregation over a window, and a condition on what it measures.

SUM(amount) over 1 h  >  5 × SUM(amount) over 30 d ÷ 30        Condition(Aggregation("SUM", …), "GREATER", 5, Aggregation(…), 30)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeVar

from lab.model.aggregates import AGGREGATES, Exact, WithRoot
from lab.model.conditions import quote_text
from lab.model.formatting import plain_text
from lab.model.operators import RELATIONS
from lab.model.times import duration_text, duration_words
from lab.model.when import Steps, When, exact_json_value, is_true, when_text

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
# begin the names under which an event keeps whether a `where` is true of it, and whether a rule alerted at it; no field is called so
WHERE, SPOKE = "?", "!"
ONE_BIT = (WHERE, SPOKE)
EVENTS_WITHIN = " events within "  # between the two parts of a window of the last events
SESSION = "a session with gaps up to "


class HasTime(Protocol):
    time: int


TimedEvent = TypeVar("TimedEvent", bound=HasTime)


@dataclass(frozen=True)
class Aggregation:
    """`function` of `field` over the last `window_ms` of a group. `field` None: it counts; `unique` is for UNIQUE_COUNT only, `steps` for SEQUENCE.

    `where`: which events of the group count for it, all if None. `exclude_current`: the event that is judged does not.
    `last_events`: only so many events of the group in the window may count, those at its end; all if 0.
    `ends_before_ms`: the window ends so long before the judged event, which then does not count.
    `session_gap_ms`: of the events of the group in the window, only those since the last gap that is longer may count; all if 0.
    Without `has_window`, it is of the judged event alone, and `window_ms` is the shortest.
    """

    function: str
    field: str | None
    unique: tuple[str, ...]
    window_ms: int
    where: When | None = None
    exclude_current: bool = False
    last_events: int = 0
    ends_before_ms: int = 0
    session_gap_ms: int = 0
    steps: Steps | None = None

    @property
    def has_window(self) -> bool:
        """Whether it is of a window, and not of the judged event alone."""
        return AGGREGATES[self.function].has_window

    @property
    def says_without_current(self) -> bool:
        """Whether it says that the judged event does not count: not if that is so of each with its function or such a window."""
        is_implied = AGGREGATES[self.function].of_events_before or self.ends_before_ms
        return self.exclude_current and not is_implied

    @property
    def reach_ms(self) -> int:
        """How far back from the judged event it looks."""
        return self.window_ms + self.ends_before_ms

    @property
    def resets(self) -> bool:
        """Whether it counts only since its rule fired."""
        return AGGREGATES[self.function].resets

    @property
    def is_root(self) -> bool:
        """Whether it is the root of what it measures."""
        return AGGREGATES[self.function].is_root

    @cached_property
    def needed_names(self) -> tuple[str, ...]:
        """What an event must have to count for it: fields, and under its own name that `where` is true."""
        return tuple(filter(None, (*self.unique, self.field, self.where_result_name)))

    @cached_property
    def stored_field_names(self) -> tuple[str, ...]:
        """What an event keeps for it, sorted: what it needs, and which steps the event is."""
        return tuple(sorted({*self.needed_names, *filter(None, self.step_names)}))

    @cached_property
    def where_result_name(self) -> str | None:
        """The name under which an event keeps whether `where` is true of it."""
        return _name_of(self.where)

    @cached_property
    def step_names(self) -> tuple[str | None, ...]:
        """The names under which an event keeps whether it ends a sequence, and which steps it is; none without steps."""
        return tuple(map(_name_of, (self.steps.without, *self.steps.conditions))) if self.steps else ()

    @cached_property
    def event_conditions(self) -> dict[str, When]:
        """The conditions of which an event keeps whether they are true, under these names."""
        steps = (self.steps.without, *self.steps.conditions) if self.steps else ()
        return {name: of for of in (self.where, *steps) if of and (name := _name_of(of))}

    def fields_to_store(self, event: dict[str, Any]) -> dict[str, Any]:
        """What it needs of an event; None where a condition is not true, as of a null."""
        conditions = self.event_conditions
        if not conditions:
            return {name: event[name] for name in self.stored_field_names}
        return {
            name: (is_true(conditions[name], event) or None) if name in conditions else event[name]
            for name in self.stored_field_names
        }

    def is_counted(self, event: dict[str, Any]) -> bool:
        """Whether an event counts for it, as far as the event itself says."""
        fields = self.fields_to_store(event)
        return all(fields[name] is not None for name in self.needed_names)

    def window_of(self, current: TimedEvent, stored: Sequence[TimedEvent]) -> list[TimedEvent]:
        """Of the stored events of a group, in order of arrival, those in the window of `current`, in order of time."""
        if not self.has_window:
            return [each for each in stored if each is current]
        end = current.time - self.ends_before_ms
        inside = (each for each in stored if end - self.window_ms <= each.time <= end)
        in_order = sorted(inside, key=lambda each: each.time)
        if self.session_gap_ms:
            pairs = enumerate(pairwise(in_order), 1)
            starts = [n for n, (one, next) in pairs if next.time - one.time > self.session_gap_ms]
            in_order = in_order[starts[-1] if starts else 0 :]
        others = [each for each in in_order if not (self.exclude_current and each is current)]
        return others[-self.last_events :]

    def measure(self, events: list[dict[str, Any]]) -> Exact | None:
        """What it measures over the events that count, exactly; None if there are none and it is no count."""
        return self.measure_of(self.arguments_of(events))

    def arguments_of(self, events: list[dict[str, Any]]) -> list:
        """What its aggregate takes of each event."""
        if AGGREGATES[self.function].argument_kind == "field":
            return [event[self.field or ""] for event in events]
        if self.steps:
            return [[event.get(name or "") for name in self.step_names] for event in events]
        return [tuple(event[name] for name in self.unique) for event in events]

    def measure_of(self, arguments: list) -> Exact | None:
        """`measure` of the events of which it takes these."""
        aggregate = AGGREGATES[self.function]
        if aggregate.argument_kind == "field" and len(arguments) <= aggregate.of_pair:
            return None
        return aggregate.measure(arguments)

    def to_dict(self) -> dict[str, Any]:
        """Its attributes in a message."""
        return {
            "aggregateFieldName": self.field,
            "aggregatorFunctionType": self.function,
            "unique": list(self.unique) or None,
            "steps": self.steps and self.steps.text,
            "window": duration_text(self.window_ms),
            "where": when_text(self.where) if self.where else None,
            "excludeCurrent": self.says_without_current or None,
            "lastEvents": self.last_events or None,
            "endsBefore": duration_text(self.ends_before_ms) if self.ends_before_ms else None,
            "sessionGap": duration_text(self.session_gap_ms) if self.session_gap_ms else None,
        }

    def describe(self, per: str = "") -> str:
        over = f" over {self.describe_window()}" if self.has_window else ""
        without = " without the current event" if self.says_without_current else ""
        return f"{self.function}{self.describe_arguments()}{per}{over}{without}"

    def describe_window(self, duration: Callable[[int], str] = duration_words) -> str:
        """Its window in words; `duration`: how its lengths are written."""
        events = f"{self.last_events}{EVENTS_WITHIN}" if self.last_events else ""
        if self.session_gap_ms:
            events = f"{SESSION}{duration(self.session_gap_ms)} within "
        ending = f" ending {duration(self.ends_before_ms)} before" if self.ends_before_ms else ""
        return f"{events}{duration(self.window_ms)}{ending}"

    def describe_arguments(self) -> str:
        """What it is of, in brackets; a field of that name in quotes, as without them COUNT(events) counts every event."""
        field = self.field and (quote_text(self.field) if self.field.lower() == "events" else self.field)
        of = self.steps.text if self.steps else ", ".join(self.unique) or field or "events"
        where = f" where {when_text(self.where)}" if self.where else ""
        return f"({of}{where})"


def _name_of(condition: When | None) -> str | None:
    """The name under which an event keeps whether a condition is true of it."""
    return WHERE + when_text(condition) if condition else None


@dataclass(frozen=True)
class Multiple:
    """What `aggregation` measures × `times` ÷ `divided_by`; `times` is not 0."""

    aggregation: Aggregation
    times: Decimal
    divided_by: int = 1

    @property
    def factor(self) -> Fraction:
        return Fraction(self.times) / self.divided_by

    def to_dict(self) -> dict[str, Any]:
        """Its attributes in a message, without `times`."""
        return self.aggregation.to_dict() | ({"dividedBy": self.divided_by} if self.divided_by > 1 else {})

    def describe(self, times: str) -> str:
        """In words; `times`: how its number is written, without a sign."""
        divided = f" ÷ {self.divided_by}" if self.divided_by > 1 else ""
        return f"{'' if times == '1' else f'{times} × '}{self.aggregation.describe()}{divided}"


@dataclass(frozen=True)
class Condition:
    """What `aggregation` measures is in the relation `operator` to `limit`, or to `limit` × `limit_of` ÷ `divided_by` + `plus_of` + `plus`.

    >>> sum_of_hour = Aggregation("SUM", "amount", (), 3_600_000)
    >>> of_month = Aggregation("SUM", "amount", (), 30 * 86_400_000)
    >>> Condition(sum_of_hour, "GREATER", Decimal(5), of_month, 30).describe()
    'SUM(amount) over 1 h > 5 × SUM(amount) over 30 d ÷ 30'

    At most one of its aggregates is a root: so it is compared exactly.
    """

    aggregation: Aggregation
    operator: str
    limit: Decimal
    limit_of: Aggregation | None = None
    divided_by: int = 1
    plus: Decimal = Decimal(0)
    plus_of: Multiple | None = None

    @property
    def aggregations(self) -> tuple[Aggregation | None, ...]:
        """What it measures: `aggregation`, then those of its limit, None where it has none."""
        more = self.plus_of.aggregation if self.plus_of else None
        return self.aggregation, self.limit_of, more

    @property
    def multiples(self) -> tuple[Multiple, ...]:
        """Those that its limit adds up."""
        first = self.limit_of and Multiple(self.limit_of, self.limit, self.divided_by)
        return tuple(each for each in (first, self.plus_of) if each)

    @property
    def symbol(self) -> str:
        """Its operator, short: `>`."""
        return SYMBOLS[self.operator]

    def limit_where(self, *bases: Exact | None) -> WithRoot | None:
        """The limit where the aggregates in it measure these `bases`; None if one has no value."""
        limit = WithRoot(Fraction(self.plus if self.limit_of else self.limit))
        for each, base in zip(self.multiples, bases):
            if base is None:
                return None
            limit = limit.plus(each.factor, base, each.aggregation.is_root)
        return limit

    def holds(self, measure: Exact | None, *bases: Exact | None) -> bool:
        """Whether it is true, exactly, of what its `aggregations` measure; not if one of them has no value."""
        limit = self.limit_where(*bases)
        if measure is None or limit is None:
            return False
        below = WithRoot(-limit.fraction, -limit.square)
        return RELATIONS[self.symbol](below.plus(Fraction(1), measure, self.aggregation.is_root).sign, 0)

    def measured_condition(self, measure: Exact | None, *bases: Exact | None) -> "MeasuredCondition":
        """The condition as an alert shows it."""
        aggregate = None if measure is None else AGGREGATES[self.aggregation.function].to_reported(measure)
        if self.limit_of is None:
            return MeasuredCondition(aggregate, self.operator, self.limit)
        limit = self.limit_where(*bases)
        return MeasuredCondition(aggregate, self.operator, limit and limit.to_6_places)

    def to_dict(self) -> dict[str, Any]:
        """Its attributes in a message."""
        multiples = [each.to_dict() for each in self.multiples]
        base = multiples[0] if multiples else None
        if base and self.plus_of:
            more = multiples[1] | {"times": exact_json_value(self.plus_of.times)}
            base |= {"plusOf": without_none(more)}
        if base and self.plus:
            base |= {"plus": exact_json_value(self.plus)}
        return self.aggregation.to_dict() | {
            "limitOperatorType": self.operator,
            "limit": exact_json_value(self.limit),
            "limitOf": base and without_none(base),
        }

    def describe(self, per: str = "", limit: str | None = None) -> str:
        return f"{self.aggregation.describe(per)} {self.symbol} {self.describe_limit(limit)}"

    def describe_limit(self, limit: str | None = None) -> str:
        """The limit in words; `limit`: how its number is written there."""
        limit = plain_text(self.limit) if limit is None else limit
        if self.limit_of is None:
            return limit
        first, *others = self.multiples
        said = first.describe(limit)
        for each in others:
            said += f" {_sign(each.times)} {each.describe(plain_text(each.times.copy_abs()))}"
        return said + (f" {_sign(self.plus)} {plain_text(self.plus.copy_abs())}" if self.plus else "")


def _sign(number: Decimal) -> str:
    return "-" if number < 0 else "+"


class MeasuredCondition(NamedTuple):
    """A condition in an alert: None where there was no event to measure."""

    aggregate: Decimal | None
    operator: str
    limit: Decimal | None


def without_none(attributes: dict[str, Any]) -> dict[str, Any]:
    """Those that are given."""
    return {name: value for name, value in attributes.items() if value is not None}


def operator_symbol(operator: str) -> str:
    """An operator, short; unknown text stays as it is.

    >>> operator_symbol("GREATER_EQUAL")
    '>='
    """
    return SYMBOLS.get(operator, operator)
