"""The window behind an alert of the page, found by the kit's Python among the events that JavaScript hands over.

past.js ──► events of the alert's key-group ──► Replay of lab.past ──► WindowBehind ──► what alertwindow.js draws
"""

from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import accumulate
from typing import Any, NamedTuple

from lab.model.alerts import Alert, event_id_text
from lab.model.field import Id
from lab.model.formatting import plain_text
from lab.model.reference import LATE_POLICIES
from lab.model.rule import Route, Rule
from lab.model.schema import Schema
from lab.model.times import duration_words
from lab.model.when import list_names, passes_filter
from lab.past.alertwindow import WindowBehind, event_identity, shown_fields, shown_value, window_behind
from lab.past.routehistory import EventsInMemory, PastEvent, RouteHistory

MOST_BARS, MOST_LISTED = 500, 100


class PageSettings(NamedTuple):
    """What a `RouteHistory` has to know of the page's engine."""

    schema: Schema
    late_policy: str
    max_out_of_orderness_ms: int


class HandedEvents(EventsInMemory):
    """Events of one key-group, the last of which is the alert's. What stands for log times is how many events had come by then.

    `rows`: of each the number of those before it, its time and group, and its fields if it is of the alert's group, or if the
    route's filter looks at named lists, which it saw as they were then.
    """

    def __init__(self, schema: Schema, history: RouteHistory, rows: list, newest: dict[int, list[int]]):
        self.schema, self.history, self._rows, self._newest = schema, history, rows, newest

    def rows_of(self, event_id: Id, event_time: int | None = None) -> list[int]:
        return [len(self._rows) - 1]

    def log_times_of(self, row: int) -> tuple[int, int]:
        log_time = self._rows[row][0] + 1
        return log_time, log_time

    def event_in(self, row: int) -> dict[str, Any]:
        return self._rows[row][3]

    def events_of_key_group(
        self, route: Route, group: tuple, since: int | None = None, last: int | None = None
    ) -> list[PastEvent]:
        newest, of_alert = accumulate((time for _, time, *_ in self._rows), max), self._rows[-1][2]
        versions = self.history.as_lists_changed(route) if list_names(route.filter) else []
        return [
            PastEvent(
                n, number + 1, reached, time, group if of == of_alert else of, own if of == of_alert else None
            )
            for n, ((number, time, of, own), reached) in enumerate(zip(self._rows, newest))
            if not versions or passes_filter(_as_of(versions, number + 1).filter, own)
        ]

    def newest_event_times_before(self, log_time: int) -> list[int]:
        return self._newest[log_time]

    def time_reached_at(self, log_time: int) -> int:
        return max(self._newest[log_time], default=0)


def _as_of(versions: list[tuple[int, Route]], log_time: int) -> Route:
    return [route for since, route in versions if since <= log_time][-1]


class Windows:
    """The windows behind alerts. `late_ms`, `late_policy`: as of `Book`; `value`: of a field, from how JavaScript writes it."""

    def __init__(self, schema: Schema, late_ms: int, late_policy: int, value: Callable[[str, Any], Any]):
        settings: Any = PageSettings(schema, LATE_POLICIES[late_policy], late_ms)
        self.schema, self._value = schema, value
        self._decimals = [name for name in schema.names if schema.field(name).is_decimal]
        self._history, self._newest = RouteHistory(settings), dict[int, list[int]]()

    def carry_out(self, messages: Iterable[tuple[str, int, list[int]]]) -> None:
        """Takes in control messages that were accepted: of each how many events had come, and the newest times of these."""
        for text, events, newest in messages:
            self._history.apply(text, events + 1)
            self._newest[events + 1] = newest

    def behind(self, rule: Rule, alert: Alert, rows: list) -> dict[str, Any]:
        """What the page shows of the window behind an alert. `rows`: of `HandedEvents`, with lists of values instead of fields."""
        given = [(number, time, group, self._event(values)) for number, time, group, values in rows]
        return window_for_page(HandedEvents(self.schema, self._history, given, self._newest), rule, alert)

    def _event(self, values: list | None) -> dict[str, Any] | None:
        if values is None:
            return None
        event = dict(zip(self.schema.names, values))
        for name in self._decimals:
            event[name] = self._value(name, event[name])
        return event


def window_for_page(past: EventsInMemory, rule: Rule, alert: Alert) -> dict[str, Any]:
    """What the page shows of the window behind an alert."""
    window, schema = window_behind(past, rule, alert), past.schema
    if not window.events:
        return {}
    counted = {event_identity(event, schema) for event in window.counted}
    own = (alert.event_id, alert.event_time)
    bars = [
        {
            "ms": event[schema.time_field],
            "height": window.height(event),
            "counts": event_identity(event, schema) in counted,
            "own": event_identity(event, schema) == own,
        }
        for event in window.events
    ]
    step = -(-len(bars) // MOST_BARS)
    points = zip(window.counted, window.so_far)
    so_far = [{"ms": of[schema.time_field], "value": float(each)} for of, each in points if each is not None]
    first, other = window.first, window.other_condition
    return {
        "events": len(window.events),
        "total": _plain(window.adds_up),
        "soFar": so_far,
        "step": step,
        "bars": [max(bars[n : n + step], key=_is_shown) for n in range(0, len(bars), step)],
        "counted": len(window.counted),
        "isPlain": rule.is_plain,
        "first": {"aggregate": _plain(first.aggregate), "limit": _plain(first.limit)},
        "condition": other and other.describe(),
        "aggregation": rule.aggregation.describe(),
        "window": duration_words(rule.aggregation.window_ms),
        "amount": window.amount_field,
        **_table(window, schema),
    }


def _is_shown(bar: dict[str, Any]) -> tuple[bool, float]:
    """Of several bars the alert's own, else the highest, is shown."""
    return bar["own"], bar["height"]


def _plain(value: Decimal | None) -> str | None:
    return None if value is None else plain_text(value)


def _table(window: WindowBehind, schema: Schema) -> dict[str, Any]:
    """The newest events that count, with their fields in words."""
    names = shown_fields(window.rule, schema)
    rows = [
        [event_id_text(schema.id_of(event)), event[schema.time_field]]
        + [shown_value(event[name]) for name in names]
        for event in window.counted[-MOST_LISTED:][::-1]
    ]
    return {"names": names, "numeric": [schema.field(name).is_number_or_time for name in names], "rows": rows}
