"""The window behind an alert, for pictures of it: its events, which of them count, and how the first aggregate builds up.

events in memory, rule, alert ──► window_behind ──► WindowBehind(events, counted) ──► so_far, adds_up
"""

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, compress

from lab.model.aggregates import AGGREGATES
from lab.model.aggregation import Aggregation, Condition, MeasuredCondition
from lab.model.alerts import Alert
from lab.model.formatting import escape_control_characters
from lab.model.rule import Rule
from lab.model.schema import Schema
from lab.past.routehistory import EventsInMemory

MOST_POINTS = 100  # at which the aggregate so far is computed
MOST_MEASURED = 400_000  # events in all of these prefixes of a window together


@dataclass(frozen=True)
class WindowBehind:
    """`events`: those of the group in the window, in order of event time. `counted`: those over which the first aggregate is computed."""

    rule: Rule
    alert: Alert
    events: list[dict]
    counted: list[dict]

    @cached_property
    def so_far(self) -> list[Decimal | None]:
        """The first aggregate over the first of the counted events, the first two, …: see `running_aggregates`."""
        return running_aggregates(self.rule, self.counted)

    @property
    def adds_up(self) -> Decimal | None:
        """The first aggregate over all counted events; None if these have no value."""
        if self.counted:
            return self.so_far[-1]
        return None if self._row.argument_kind == "field" else Decimal(0)

    @property
    def first(self) -> MeasuredCondition:
        """What the alert tells of the rule's first condition: its own value and limit may be those of another one."""
        has_all = len(self.alert.conditions) == len(self.rule.conditions)
        return self.alert.conditions[0] if has_all else self.alert.own_condition

    @property
    def other_condition(self) -> Condition | None:
        """The condition whose value the alert shows; None if it is the rule's first."""
        of, own = self.alert.conditions, self.alert.own_condition
        place = of.index(own) if own in of else 0
        return self.rule.conditions[place] if 0 < place < len(self.rule.conditions) else None

    @cached_property
    def amount_field(self) -> str | None:
        """The field that the first aggregate is of, if it is a number."""
        is_amount = self._row.argument_kind == "field" and not self._row.of_place
        return self.rule.aggregation.field if is_amount else None

    def height(self, event: dict) -> float:
        """How high an event stands in a picture."""
        return float(event[self.amount_field] or 0) if self.amount_field else 1.0

    @property
    def _row(self):
        return AGGREGATES[self.rule.aggregation.function]


def window_behind(past: EventsInMemory, rule: Rule, alert: Alert) -> WindowBehind:
    """The window of an alert, with no events if they are not in memory, or come after the event."""
    if rule.absence:
        return WindowBehind(rule, alert, [], [])
    own, found = rule.aggregations[0], WindowBehind(rule, alert, _window(past, rule, alert), [])
    judged, events = (alert.event_id, alert.event_time), found.events
    left_out = [
        event for event in events if own.exclude_current and event_identity(event, past.schema) == judged
    ]
    if own.resets:
        newest = int(found.first.aggregate or 0) + sum(map(own.is_counted, left_out))
        events = _window(past, rule, alert, newest)
    elif rule.is_plain:
        return WindowBehind(rule, alert, events, events)
    counted = [event for event in events if own.is_counted(event) and event not in left_out]
    return WindowBehind(rule, alert, found.events, counted)


def _window(past: EventsInMemory, rule: Rule, alert: Alert, newest: int | None = None) -> list[dict]:
    return past.window(rule, alert.event_id, alert.event_time, newest, alert.group, all_events=True)


def running_aggregates(rule: Rule, events: list[dict]) -> list[Decimal | None]:
    """The rule's first aggregate over the first event of a window, the first two, …, as an alert shows it; None where it has no value.

    Of many events, it computes only about `MOST_POINTS` values, always including the last one; the others are None.
    """
    of, count = rule.conditions[0], len(events)
    stored = [of.aggregation.fields_to_store(event) for event in events]
    does_count = [all(each[name] is not None for name in of.aggregation.needed_names) for each in stored]
    counted, digits = _in_last_digits(
        of.aggregation.arguments_of([*compress(stored, does_count)]), of.aggregation
    )
    until = list(accumulate(does_count))  # each event so many of them are stored
    step = max(-(-count // MOST_POINTS), -(-count * count // (2 * MOST_MEASURED)), 1)
    so_far: list[Decimal | None] = [None] * count
    with localcontext(prec=100):
        for n in range(count - 1, -1, -step):
            measure = of.aggregation.measure_of(counted[: until[n]]) if until[n] else None
            if digits and measure is not None:
                if isinstance(measure, Fraction):
                    measure /= 10**digits
                else:
                    measure = Decimal(measure).scaleb(-digits)
            so_far[n] = of.measured_condition(measure).aggregate
    return so_far


def _in_last_digits(arguments: list, of: Aggregation) -> tuple[list, int]:
    """Decimals that an aggregate takes as integers, which add up faster; what it measures has so many more digits before the point."""
    if not arguments or not all(isinstance(value, Decimal) for value in arguments):
        return arguments, 0
    places = max(-int(value.as_tuple().exponent) for value in arguments)
    return [int(value.scaleb(places)) for value in arguments], places * AGGREGATES[of.function].unit_power


def event_identity(event: dict, schema: Schema) -> tuple:
    """What tells an event from others: its id at its time."""
    return schema.id_of(event), event[schema.time_field]


def shown_fields(rule: Rule, schema: Schema) -> list[str]:
    """The columns of a table of events: what the rule looks at comes first; the id and the time have their own."""
    known = {*schema.id_fields, schema.time_field} - {*rule.field_names}
    return [name for name in dict.fromkeys((*rule.field_names, *schema.names)) if name not in known]


def shown_value(value: object) -> str:
    """A field's value: amounts as people write them, ids as they are."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, Decimal) else escape_control_characters(str(value))
