"""The window behind an alert of the page, found by the kit's Python among the events that JavaScript hands over.

past.js ──► events of the alert's key-group ──► Judge of lab.desk ──► AlertPicture ──► what alertwindow.js draws
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import accumulate, compress, repeat
from typing import Any, NamedTuple, cast

from lab.desk.judging import Judge
from lab.desk.picture import AlertPicture, shown_value
from lab.model.alerts import Alert
from lab.model.derived import Stored
from lab.model.field import Field, Id
from lab.model.formatting import plain_text
from lab.model.reference import LATE_POLICIES
from lab.model.rule import Route
from lab.model.schema import Schema
from lab.model.times import duration_words
from lab.model.when import list_names, passes_filter
from lab.page.derivation import Column
from lab.past.routehistory import EventsInMemory, PastEvent, RouteHistory

MOST_BARS, MOST_LISTED = 500, 100
Columns = dict[str, Column]


class PageSettings(NamedTuple):
    """What a `RouteHistory` has to know of the page's engine."""

    schema: Schema
    late_policy: str
    max_out_of_orderness_ms: int


class HandedEvents(EventsInMemory):
    """Events of one key-group, the last of which is the alert's. What stands for log times is how many events had come by then.

    `numbers`: of each how many came before it; `columns`: of each field the values of all, numbers in units of their last digit.
    """

    def __init__(
        self,
        schema: Schema,
        history: RouteHistory,
        newest: dict[int, list[int]],
        numbers: list[int],
        columns: Columns,
    ):
        self.schema, self.history, self._newest = schema, history, newest
        self._numbers, self._columns = numbers, columns

    def rows_of(self, event_id: Id, event_time: int | None = None) -> list[int]:
        return [len(self._numbers) - 1]

    def log_times_of(self, row: int) -> tuple[int, int]:
        log_time = self._numbers[row] + 1
        return log_time, log_time

    def event_in(self, row: int) -> dict[str, Any]:
        return next(self._events_in(n == row for n in range(len(self._numbers))))

    def _events_in(self, rows: Iterable[bool]) -> Iterator[dict[str, Any]]:
        """The events in some rows, as {field: value}."""
        of, names = [*rows], self.schema.names
        columns = (_values(self.schema.field(name), compress(self._columns[name], of)) for name in names)
        return (dict(zip(names, values)) for values in zip(*columns))

    def events_of_key_group(self, route: Route, group: tuple, last: int | None = None) -> list[PastEvent]:
        """Those that pass the route's filter, which saw named lists as they were when each event came."""
        groups = [*zip(*(self._columns[name] for name in route.keys))] or [()] * len(self._numbers)
        own = [each == groups[-1] for each in groups]
        versions = self.history.as_lists_changed(route) if list_names(route.filter) else []
        times = cast(list[int], self._columns[self.schema.time_field])
        events = self._events_in(repeat(True, len(own)) if versions else own)
        found: list[PastEvent] = []
        reached = accumulate(times, max)
        for number, newest, time, of, is_own in zip(self._numbers, reached, times, groups, own):
            event = next(events) if is_own or versions else {}
            if versions and not passes_filter(_as_of(versions, number + 1).filter, event):
                continue
            # another group is a tuple in a tuple: its numbers may be those of this one in other units
            of_event = (group, event) if is_own else ((of,), None)
            found.append(PastEvent(len(found), number + 1, newest, time, *of_event))
        return found

    def newest_event_times_before(self, log_time: int) -> list[int]:
        return self._newest[log_time]

    def time_reached_at(self, log_time: int) -> int:
        return max(self._newest[log_time], default=0)


def _as_of(versions: list[tuple[int, Route]], log_time: int) -> Route:
    return [route for since, route in versions if since <= log_time][-1]


class Windows:
    """The windows behind alerts. `late_ms`, `late_policy`: as of `Book`."""

    def __init__(self, schema: Schema, late_ms: int, late_policy: int):
        settings: Any = PageSettings(schema, LATE_POLICIES[late_policy], late_ms)
        self._schema, self._history, self._newest = schema, RouteHistory(settings), dict[int, list[int]]()

    def carry_out(self, messages: Iterable[tuple[str, int, list[int]]]) -> None:
        """Takes in control messages that were accepted: of each how many events had come, and the newest times of these."""
        for text, events, newest in messages:
            self._history.apply(text, events + 1)
            self._newest[events + 1] = newest

    def behind(self, alert: Alert, numbers: list[int], columns: Columns) -> dict[str, Any]:
        """What the page shows of the window behind an alert; `numbers`, `columns`: of `HandedEvents`."""
        past = HandedEvents(self._schema, self._history, self._newest, numbers, columns)
        return window_for_page(past, alert)


def _values(field: Field, column: Iterable[Stored | None]) -> Iterable[Any]:
    """The values of a column, as events have them."""
    if not field.is_decimal:
        return column
    return (None if each is None else Decimal(each).scaleb(-field.scale) for each in column)


def window_for_page(past: EventsInMemory, alert: Alert) -> dict[str, Any]:
    """What the page shows of the window behind an alert."""
    verdict = Judge(past).of_alert(alert, with_changes=False)
    window = AlertPicture(alert, verdict) if verdict else None
    if window is None or not window.events:
        return {}
    bars = [(window.is_own(event), window.height(event), event) for event in window.events]
    step = -(-len(bars) // MOST_BARS)
    # of several bars the alert's own, else the highest
    shown = (max(bars[n : n + step], key=lambda bar: bar[:2]) for n in range(0, len(bars), step))
    points = ((each.time, each.so_far[0]) for each in window.counted)
    so_far = [{"ms": ms, "value": float(value)} for ms, value in points if value is not None]
    rule, first, other = window.rule, window.first, window.other_condition
    return {
        "events": len(window.events),
        "total": _plain(window.adds_up),
        "soFar": so_far,
        "step": step,
        "bars": [
            {"ms": event.time, "height": height, "counts": event.counts[0], "own": is_own}
            for is_own, height, event in shown
        ],
        "counted": len(window.counted),
        "isPlain": rule.is_plain,
        "resets": rule.is_plain and rule.aggregation.resets,
        "first": {"aggregate": _plain(first.aggregate), "limit": _plain(first.limit)},
        "condition": other and other.describe(),
        "aggregation": rule.aggregation.describe(),
        "window": duration_words(rule.aggregation.window_ms),
        "amount": window.amount_field,
        **_table(window, past.schema),
    }


def _plain(value: Decimal | None) -> str | None:
    return None if value is None else plain_text(value)


def _table(window: AlertPicture, schema: Schema) -> dict[str, Any]:
    """The newest events that count, with their fields in words."""
    names = window.shown_fields(schema)
    rows = [
        [event.id, event.time, *(shown_value(event.fields[name]) for name in names)]
        for event in window.counted[-MOST_LISTED:][::-1]
    ]
    return {"names": names, "numeric": [schema.field(name).is_number_or_time for name in names], "rows": rows}
