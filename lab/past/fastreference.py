"""The reference, quick enough for a page: the events of a group are in order of time, so that it finds them by bisection.

held   ─●──●──●──●──●──●──●──●──●─►  time
        └ gone ┘     └ window ┘└ late ones are put in their place
"""

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import Any

from lab.model import horizon
from lab.model.horizon import note_time
from lab.model.reference import Reference
from lab.model.referencestate import StoredEvent
from lab.model.rules import Route, Rule

TIME = attrgetter("time")


class FastReference(Reference):
    """The same alerts as `Reference`. An event costs what its windows hold, not what is kept for late events."""

    def _on_route(
        self, event: dict[str, Any], route: Route, rules: tuple[Rule, ...]
    ) -> tuple[str, StoredEvent | None]:
        time, event_id = event[self.schema.time_field], self.schema.id_of(event)
        group = tuple(event[name] for name in route.keys)
        stored, newest = self.stored_events[route, group], self._newest_of_key_group(route, group)
        oldest = self._horizon(route, group, stored[-horizon.WITNESSES :])
        if time < oldest:
            of_newest = self.stored_events[route, next(iter(newest))]
            return "droppedLate", of_newest[-1] if of_newest else None
        del stored[: bisect_left(stored, oldest, key=TIME)]
        after = bisect_right(stored, time, key=TIME)
        for other in stored[bisect_left(stored, time, key=TIME) : after]:
            if other.id == event_id and not other.taken_back:
                return "duplicates", other
        latest = min(stored[-1].time, self.log_time_reached) if stored else time
        late = latest - self.max_out_of_orderness_ms > time
        if late and self.late_policy == "drop":
            return "droppedLate", stored[-1]
        fields = {name: value for rule in rules for name, value in rule.fields_to_store(event).items()}
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
