"""The reference, quick enough for a page: the events of a group are in order of time, so that it finds them by bisection.

held   ─●──●──●──●──●──●──●──●──●─►  time
        └ gone ┘     └ window ┘└ late ones are put in their place
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from copy import copy
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

from lab.model import horizon
from lab.model.horizon import NOT_REACHED, note_time
from lab.model.reference import Reference
from lab.model.referencestate import StoredEvent
from lab.model.routestats import RouteTallies
from lab.model.rules import Route, Rule, RuleBook

if TYPE_CHECKING:  # so that the page's Python can do without the engine's checkpoint
    from lab.engine.checkpoint.settings import Settings

TIME, WIDEST = attrgetter("time"), attrgetter("widest_ms")


class FastReference(Reference):
    """The same alerts as `Reference`. An event costs what its windows hold, not what is kept for late events."""

    @classmethod
    def of_settings(cls, of: "Settings") -> Self:
        """One with the settings of an engine."""
        return cls(
            of.schema,
            late_policy=of.late_policy,
            max_out_of_orderness_ms=of.max_out_of_orderness_ms,
            max_future_ms=of.max_future_ms,
            key_groups=of.key_groups,
        )

    def fork(self) -> "FastReference":
        """One with the same rules and state, and nothing in its logs, that goes on by itself."""
        other, book = copy(self), self.book
        other.book = RuleBook(book.schema, dict(book.rules), dict(book.versions), dict(book.lists))
        other.waits = list(self.waits)
        other.newest = defaultdict(dict, {near: dict(of) for near, of in self.newest.items()})
        other.reset = dict(self.reset)
        copied = {at: list(map(StoredEvent.copied, stored)) for at, stored in self.stored_events.items()}
        other.stored_events = defaultdict(list, copied)
        other.alerts_and_withdrawals, other.shadow_alerts, other.acks, other.dead_letters = [], [], [], []
        other.suppressed, other.muted, other.nan_as_null = Counter(), Counter(), Counter()
        other.counts, other.tallies = Counter(records=self.counts["records"]), RouteTallies()
        return other

    def _on_route(
        self, event: dict[str, Any], route: Route, rules: tuple[Rule, ...]
    ) -> tuple[str, StoredEvent | None]:
        time, event_id = event[self.schema.time_field], self.schema.id_of(event)
        group = tuple(event[name] for name in route.keys)
        stored, newest = self._kept(route, group), self._newest_of_key_group(route, group)
        oldest = self._oldest_kept(rules, stored, newest)
        if time < oldest:
            of_newest = self.stored_events[route, next(iter(newest))]
            return "droppedLate", of_newest[-1] if of_newest else None
        if stored and stored[0].time < oldest:
            del stored[: bisect_left(stored, oldest, key=TIME)]
        after = len(stored)
        if stored and stored[-1].time >= time:
            after = bisect_right(stored, time, key=TIME)
            for other in stored[bisect_left(stored, time, key=TIME) : after]:
                if other.id == event_id and not other.taken_back:
                    return "duplicates", other
        latest = min(stored[-1].time, self.log_time_reached) if stored else time
        late = latest - self.max_out_of_orderness_ms > time
        if late and self.late_policy == "drop":
            return "droppedLate", stored[-1]
        fields: dict[str, Any] = {}
        for rule in rules:
            fields |= rule.fields_to_store(event)
        current = StoredEvent(self.counts["records"], time, event_id, fields)
        stored.insert(after, current)
        note_time(newest, group, time)
        if late and self.late_policy == "store":
            return "storedLate", None
        for rule in rules:
            if rule.is_judged and not rule.absence and self._is_judged(rule, group, current):
                window = stored[bisect_left(stored, time - rule.widest_ms, key=TIME) : after + 1]
                self._evaluate(rule, group, window, current, event)
        return "evaluated", None

    def _kept(self, route: Route, group: tuple) -> list[StoredEvent]:
        """The events of a group on a route, in order of time."""
        return self.stored_events[route, group]

    def _oldest_kept(
        self, rules: tuple[Rule, ...], stored: list[StoredEvent], newest: dict[tuple, int]
    ) -> int:
        """`_horizon` of a group with these events, in order of time, in a key-group with these newest groups, newest first."""
        of_events = stored[-horizon.WITNESSES].time if len(stored) >= horizon.WITNESSES else NOT_REACHED
        of_groups = next(reversed(newest.values())) if len(newest) == horizon.WITNESSES else NOT_REACHED
        reached = min(max(of_events, of_groups), self.log_time_reached)
        return reached - max(map(WIDEST, rules)) - self.max_out_of_orderness_ms
