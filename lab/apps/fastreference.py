"""The reference, quick enough for a page: the events of a group are in order of time, so that it finds them by bisection.

held   ─●──●──●──●──●──●──●──●──●─►  time
        └ gone ┘     └ window ┘└ late ones are put in their place
"""

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import Any

from lab.model.keygroups import key_group_of
from lab.model.reference import Reference
from lab.model.rules import Route, Rule
from lab.model.stored import StoredEvent

TIME = attrgetter("time")


class FastReference(Reference):
    """The same alerts as `Reference`. An event costs what its windows hold, not what is kept for late events."""

    def _on_route(
        self, event: dict[str, Any], route: Route, rules: tuple[Rule, ...]
    ) -> tuple[str, StoredEvent | None]:
        time, event_id = event[self.schema.time_field], self.schema.id_of(event)
        group = tuple(event[name] for name in route.keys)
        key_group = key_group_of(group, self.key_groups)
        self.newest[route, key_group] = max(time, self.newest.get((route, key_group), time))
        if time < self._horizon(route, key_group):
            return "droppedLate", None
        stored = self.stored_events[route, group]
        del stored[: bisect_left(stored, self._horizon(route, key_group), key=TIME)]
        after = bisect_right(stored, time, key=TIME)
        for other in stored[bisect_left(stored, time, key=TIME) : after]:
            if other.id == event_id and not other.taken_back:
                return "duplicates", other
        late = bool(stored) and stored[-1].time - self.max_out_of_orderness_ms > time
        if late and self.late_policy == "drop":
            return "droppedLate", None
        fields = {name: value for rule in rules for name, value in rule.fields_to_store(event).items()}
        current = StoredEvent(self.counts["records"], time, event_id, fields)
        stored.insert(after, current)
        if late and self.late_policy == "store":
            return "storedLate", None
        for rule in rules:
            if rule.state == "ACTIVE" and not rule.absence and self._is_judged(rule, group, current):
                window = stored[bisect_left(stored, time - rule.widest_ms, key=TIME) : after + 1]
                self._evaluate(rule, group, window, current, event)
        return "evaluated", None
