"""Past events to try rules on, without NumPy and Numba: the reference evaluates them, thousands a second."""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, islice, repeat
from math import sqrt
from typing import Any

from lab.model.aggregates import AGGREGATES, Exact, square_root_to_6_places
from lab.model.aggregation import Aggregation
from lab.model.field import Id
from lab.model.horizon import newest_times
from lab.model.jsontext import BadRecord, compact_json
from lab.model.keygroups import key_group_of
from lab.model.rules import Route, Rule
from lab.model.schema import Schema
from lab.model.when import passes_filter
from lab.model.whenreader import takes_back
from lab.past.fastreference import FastReference
from lab.past.limits import without_limit
from lab.past.pastevents import PastEvents
from lab.past.routehistory import PastEvent, RouteHistory, group_of

MOST_STEPS = 2_000_000  # in the windows of a backtest: some seconds in a browser


class Numbers(list):
    """A list of numbers with as much of a NumPy array as readers of aggregates use.

    >>> Numbers([3, 1]).min(), Numbers([True, True]).sum(), Numbers([3, 1]).tolist()
    (1, 2, [3, 1])
    """

    def min(self) -> float:
        return min(self)

    def max(self) -> float:
        return max(self)

    def sum(self) -> float:
        return sum(self)

    def tolist(self) -> list:
        return list(self)


@dataclass(frozen=True)
class Aggregates:
    """A rule's first aggregate at each event that it judges: event times in ms, ids, values as floats (for pictures and sliders).

    `bases`: what the aggregate in its limit gives, as floats; 0 without one. `measures`: the values exactly.
    """

    times: Sequence[int]
    ids: Sequence
    values: Numbers
    bases: Numbers
    measures: Sequence[Exact | None]
    scale = 0

    def alert_mask(self, rule: Rule, limit: Decimal | float) -> Numbers:
        """Which of them alert at another limit: see `lab.past.columnpast.Aggregates.alert_mask`."""
        if not rule.can_count_alerts_at_other_limits:
            return Numbers([True] * len(self.measures))
        own = replace(rule.conditions[0], limit=Decimal(str(limit)))
        return Numbers(own.holds(measure) for measure in self.measures)

    def ascending(self) -> list[float]:
        """The values in order."""
        return sorted(self.values)

    def exact_values(self) -> list[Exact]:
        """See `lab.past.columnpast.Aggregates.exact_values`."""
        return [Fraction(each) for each in self.measures if each is not None]


class Past(PastEvents):
    """The newest events, `at_most` of them, in order of arrival: `lab.past.columnpast.Past` for a page."""

    def __init__(self, schema: Schema, at_most: int = 5_000, history: RouteHistory | None = None):
        super().__init__(schema, at_most, history)
        self._events: deque[dict] = deque(maxlen=at_most)
        self._log_times: deque[int] = deque(maxlen=at_most)

    def __len__(self) -> int:
        return len(self._events)

    def evaluated_count_and_time_range_ms(self, rule: Rule) -> tuple[int, int, int]:
        """How many of the newest events `aggregates` evaluates for a rule, and the smallest and largest of their times in ms."""
        times = [event[self.schema.time_field] for event, _ in self._affordable(rule)]
        return len(times), min(times, default=0), max(times, default=0)

    def _add(self, lines: list[str | bytes], log_times: Sequence[int] | None) -> int:
        before, max_future_ms = self.arrived, self.history.settings.max_future_ms
        for line, log_time in zip(lines, repeat(0) if log_times is None else log_times):
            try:
                events = self.schema.events(line if isinstance(line, bytes) else line.encode())
                for event in events:
                    self.schema.check_future(event, log_time, max_future_ms)
            except BadRecord:
                continue
            self._events += events
            self._log_times += [log_time] * len(events)
            self.arrived += len(events)
        if self.arrived > self.at_most and self.history.has_much_to_forget:
            self.history.forget_before(min(self._log_times))
        return self.arrived - before

    def aggregates(self, rule: Rule) -> Aggregates:
        """The rule's first aggregate where it alerts, or would with some limit: see `lab.past.columnpast.Past.aggregates`."""
        if rule.can_count_alerts_at_other_limits:
            rule = without_limit(rule)
        reference = _NotingReference.of_settings(self.history.settings)
        versions = self.history.as_lists_changed(replace(rule, state="ACTIVE"))
        for event, log_time in self._affordable(rule):
            now = [each for since, each in versions if since <= log_time][-1]
            reference.routes = {now.route: (now,)}
            reference.evaluate_event(event, log_time)
        found, noted, [own, *_] = reference.alerts, reference.noted, rule.conditions
        ids = [
            compact_json(each.event_id) if isinstance(each.event_id, tuple) else each.event_id
            for each in found
        ]
        values = Numbers(float(each.aggregate) for each in found)
        if not (rule.absence or rule.joined_by == "or"):  # more digits than alerts tell
            values = Numbers(_float(own.aggregation, each[own.aggregation] or 0) for each in noted)
        bases = Numbers(
            _float(own.limit_of, each[own.limit_of] or 0) if own.limit_of else 0.0 for each in noted
        )
        measures = [each.get(own.aggregation) for each in noted]
        return Aggregates(Numbers(each.event_time for each in found), Numbers(ids), values, bases, measures)

    def seconds_and_bytes(self, rules: Sequence[Rule]) -> tuple[float, int]:
        """Not known here: raises ValueError."""
        raise ValueError("what rules cost is not known without Numba, which this Python does not have")

    def _affordable(self, rule: Rule) -> list[tuple[dict, int]]:
        """The newest events, with their log times, whose windows together have at most `MOST_STEPS` events: the reference goes through each window."""
        groups: dict[tuple, list[int]] = {}
        for event in self._events:
            if _is_on(event, rule.route, self.schema):
                group = tuple(event[name] for name in rule.keys)
                groups.setdefault(group, []).append(event[self.schema.time_field])
        steps = 0
        for times in groups.values():
            times.sort()
            steps += sum(at - bisect_left(times, time - rule.widest_ms) + 1 for at, time in enumerate(times))
        dropped = int(len(self._events) * max(0, 1 - MOST_STEPS / max(steps, 1)))
        return list(islice(zip(self._events, self._log_times), dropped, None))

    def _occurs(self, name: str, value: Any) -> bool:
        return any(event[name] == value for event in self._events)

    def _newest_values(self, name: str, most: int) -> list:
        return [event[name] for event in self._events][-most:]

    def rows_of(self, event_id: Id, event_time: int | None = None) -> list[int]:
        schema = self.schema
        return [
            row
            for row in self._rows_as_logged()
            if schema.id_of(event := self._events[row]) == event_id
            and event_time in (None, event[schema.time_field])
            and not takes_back(event, schema)
        ]

    def _rows_as_logged(self) -> list[int]:
        log_times = list(self._log_times)
        return sorted(range(len(log_times)), key=log_times.__getitem__)

    def log_times_of(self, row: int) -> tuple[int, int]:
        log_time = self._log_times[row]
        return log_time, log_time or self._newest_until()[row]

    def _newest_until(self) -> list[int]:
        """The newest event time until each row."""
        return list(accumulate((event[self.schema.time_field] for event in self._events), max))

    def event_in(self, row: int) -> dict[str, Any]:
        return self._events[row]

    def events_of_key_group(self, route: Route, group: tuple, last: int | None = None) -> list[PastEvent]:
        key_groups, time_field = self.history.settings.key_groups, self.schema.time_field
        newest, events, log_times = self._newest_until(), list(self._events), list(self._log_times)
        key_group, found = key_group_of(group, key_groups), list[PastEvent]()
        versions = self.history.as_lists_changed(route)
        for row in self._rows_as_logged():
            event, log_time = events[row], log_times[row]
            route = [each for since, each in versions if since <= log_time][-1]
            time, of_event = event[time_field], group_of(route, event)
            if _is_on(event, route, self.schema) and key_group_of(of_event, key_groups) == key_group:
                reached, own = log_time or newest[row], event if of_event == group else None
                if own or not takes_back(event, self.schema):
                    found.append(PastEvent(len(found), log_time, reached, time, of_event, own))
            if row == last:
                break
        return found

    def all_events(self) -> list[dict[str, Any]]:
        return [event for event in self._events if not takes_back(event, self.schema)]

    def newest_event_times_before(self, log_time: int) -> list[int]:
        before = zip(self._log_times, self._events)
        return newest_times(event[self.schema.time_field] for logged, event in before if logged < log_time)


class _NotingReference(FastReference):
    """The reference, which notes what a rule measured at each of its alerts."""

    def __init__(self, schema: Schema, **settings: Any):
        super().__init__(schema, **settings)
        self._measures: dict[Aggregation, Exact | None] = {}
        self.noted: list[dict[Aggregation, Exact | None]] = []  # for each alert

    def _measure(self, rule: Rule, of: Aggregation, *window: Any) -> Exact | None:
        self._measures[of] = super()._measure(rule, of, *window)
        return self._measures[of]

    def _alert(self, *alert: Any, **more: Any) -> None:
        super()._alert(*alert, **more)
        self.noted.append(dict(self._measures))


def _float(of: Aggregation, measure: Exact) -> float:
    """What an aggregation gives, nearly."""
    squared = AGGREGATES[of.function].to_reported is square_root_to_6_places
    return sqrt(measure) if squared else round(float(measure), 9)


def _is_on(event: dict, route: Route, schema: Schema) -> bool:
    """Whether a route has the event, or what takes it back."""
    fits = passes_filter(route.filter, event)
    return (fits or takes_back(event, schema)) and all(event[name] is not None for name in route.keys)
