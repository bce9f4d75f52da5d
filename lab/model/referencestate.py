"""Events as the reference keeps them, and what it awaits after some."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from typing import Any

from lab.model.field import Id
from lab.model.group import group_key
from lab.model.routestats import make_duplicate_example, make_late_example
from lab.model.rule import Route, Rule
from lab.model.schema import Schema


@dataclass
class StoredEvent:
    """An event as a group keeps it: only what its route's rules needed when it arrived."""

    arrival: int
    time: int
    id: Id
    fields: dict[str, Any]
    counted_alert_rules: set[int] = field(default_factory=set)  # the rules with `atMost` that alerted at it
    alerted: bool = False  # whether any rule did
    taken_back: bool = False

    def copied(self) -> "StoredEvent":
        """The same event, on which alerts are noted by themselves."""
        counted = {*self.counted_alert_rules}
        return StoredEvent(
            self.arrival, self.time, self.id, self.fields, counted, self.alerted, self.taken_back
        )


@dataclass(frozen=True)
class AbsenceWait:
    """An event that waits for one that counts; `started_log_time`: `Reference.log_time_reached` when the event came.

    `event`: the fields of the event that an alert shows.
    """

    started_log_time: int
    rule: Rule
    group: tuple
    id: Id
    time: int
    is_live: bool
    event: tuple

    def was_started_by(self, route: Route, event: dict[str, Any], event_id: Id, time: int) -> bool:
        """Whether it is after the event of a route with this id and time, in the group of `event`."""
        group = tuple(event[name] for name in self.rule.keys)
        return (self.rule.route, self.group, self.id, self.time) == (route, group, event_id, time)

    @property
    def until_log_time(self) -> int:
        """What is logged then is the last that counts."""
        return self.started_log_time + self.rule.aggregation.window_ms

    @property
    def alert_log_time(self) -> int | None:
        """The log time that its alert has; None in a log that is not live."""
        return self.until_log_time if self.is_live else None

    @property
    def group_of_route(self) -> tuple:
        """Its group, with the values in the order of the route's keys."""
        value_of = dict(zip(self.rule.keys, self.group, strict=True))
        return tuple(value_of[name] for name in self.rule.route.keys)


def newest_event(stored: Iterable[StoredEvent]) -> StoredEvent:
    """The one with the newest time; of several, the one that arrived last."""
    return max(stored, key=lambda event: (event.time, event.arrival))


def examples_of_loss(
    event: dict[str, Any], schema: Schema, route: Route, fate: str, other: StoredEvent
) -> tuple[dict | None, dict | None]:
    """An event that a route lost, as an example of duplicates or of late events; `other`: the one that it repeats, or the newest beside it."""
    key = group_key(route.keys, (event[name] for name in route.keys))
    if fate == "droppedLate":
        at = schema.id_of(event), event[schema.time_field]
        return None, make_late_example(at, key, (other.id, other.time))
    fields = {name: value for name, value in other.fields.items() if name in event}
    again = {name: event[name] for name in fields}
    return make_duplicate_example(other.id, other.time, key, fields, again), None


def compute_aggregate_and_holds(rule: Rule, window: list[StoredEvent]) -> tuple[Decimal, bool]:
    """The aggregate of a plain rule over the events of a window, as an alert tells it, and whether it holds against the limit."""
    own = rule.conditions[0]
    with localcontext(prec=100):
        measure = own.aggregation.measure([event.fields for event in window])
        aggregate = own.measured_condition(measure).aggregate
        assert aggregate is not None, "a window has the event with which it ends"
        return aggregate, own.holds(measure)
