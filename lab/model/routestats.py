"""How many events of each route were evaluated, duplicates, late and so on: counted during evaluation, and written to the stats log.

    "routes": {"payeeId": {"rule": 1, "rules": 2, "routed": 100, "evaluated": 97, "duplicates": 3, "example": {...}}, ...}

Of each route: routed = evaluated + storedLate + duplicates + droppedLate + takenBack + notHeld.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import nlargest
from itertools import islice
from typing import Any

from lab.model.alerts import utc_text
from lab.model.field import Id
from lab.model.formatting import escape_control_characters, plain_text
from lab.model.rules import Route

# of an event on a route; the last two of a record that takes an event back: the event was stored, it was not
FATES = ("evaluated", "storedLate", "duplicates", "droppedLate", "takenBack", "notHeld")
# of a log: records = deadLetters + unrouted (no route has a group for them) + routed; the fates are summed over all routes
COUNTS = ("records", "deadLetters", "unrouted", "routed", *FATES)

ROUTES_TOLD, RULES_TOLD = 100, 1_000  # that a line of the stats log names; the others are summed up
ROUTES_KEPT = 1_000  # that a reader counts one by one
NAME_CHARS, WARNINGS = 200, 5
EXAMPLES, FIELDS_SHOWN, VALUE_CHARS = 3, 10, 60  # in a line; of a record; of a value


def is_loss_worth_reporting(lost: int, routed: int) -> bool:
    """Whether people should know of a loss: if it is more than 1 %."""
    return 100 * lost > routed


def bounded_route_id(route: Route | str) -> str:
    """The route's id; of a long one its beginning and a hash. A name is its own."""
    if isinstance(route, str):
        return route
    text = route.id
    if len(text) <= NAME_CHARS:
        return text
    return f"{text[:NAME_CHARS]}…{blake2b(text.encode(), digest_size=8).hexdigest()}"


def largest_counts_and_other(counts: Counter[str], at_most: int = RULES_TOLD) -> Counter[str]:
    """The largest counts, and the sum of the others as `other`.

    >>> largest_counts_and_other(Counter({"1.1": 5, "2.1": 2, "3.1": 1}), at_most=1)
    Counter({'1.1': 5, 'other': 3})
    """
    if len(counts) <= at_most:
        return counts
    most = Counter(dict(counts.most_common(at_most)))
    most["other"] = counts.total() - most.total()
    return most


@dataclass
class RouteTally:
    """What became of the events of a route. `lowest_rule_id`, `rule_count`: for the route's rules.

    `example`: two records that are duplicates; `late_example`: an event that was dropped late, and the newest beside it.
    """

    lowest_rule_id: int
    rule_count: int = 1
    counts: Counter[str] = field(default_factory=Counter)
    example: dict[str, Any] | None = None
    late_example: dict[str, Any] | None = None

    @property
    def record_count(self) -> int:
        return sum(self.counts[fate] for fate in FATES)

    @property
    def lost_count(self) -> int:
        """The number of duplicates, and of late events that were dropped."""
        return self.counts["duplicates"] + self.counts["droppedLate"]

    @property
    def has_notable_loss(self) -> bool:
        """Whether the route lost so many events that people should know."""
        return is_loss_worth_reporting(self.lost_count, self.record_count)

    def warning(self, name: str) -> str:
        """A sentence about what the route with this name lost, with an example of duplicates or late events if there are many."""
        percent = 100 * self.lost_count / self.record_count
        share = f"{percent if percent == 100 else min(percent, 99.9):.1f}"  # 100.0 only if all are lost
        duplicates, late = self.counts["duplicates"], self.counts["droppedLate"]
        rules = (
            f"{self.lowest_rule_id} and {self.rule_count - 1:,} more"
            if self.rule_count > 1
            else f"{self.lowest_rule_id}"
        )
        route = f"rule {rules} (route {escape_control_characters(name)})"
        again = "1 duplicate" if duplicates == 1 else f"{duplicates:,} duplicates"
        text = (
            f"{route} did not count {share} % of {self.record_count:,} events: {again}, {late:,} dropped late"
        )
        if self.example and is_loss_worth_reporting(duplicates, self.record_count):
            text = f"{text}; {duplicate_example_text(self.example)}"
        if self.late_example and is_loss_worth_reporting(late, self.record_count):
            text = f"{text}; {late_example_text(self.late_example)}"
        return text

    @property
    def has_notable_miss(self) -> bool:
        """Whether many records that were to take events back did not."""
        missed = self.counts["notHeld"]
        return missed > 0 and is_loss_worth_reporting(missed, missed + self.counts["takenBack"])

    def miss_warning(self, name: str) -> str:
        """A sentence about the records of the route with this name that took back no event, and why that may be."""
        missed = self.counts["notHeld"]
        return (
            f"{missed:,} of {missed + self.counts['takenBack']:,} records on route {escape_control_characters(name)} took back no event: "
            "none with their id, time and group is stored, because it never came, had another time or group, was late or filtered out, or has expired"
        )

    def to_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "rule": self.lowest_rule_id,
            "rules": self.rule_count,
            "routed": self.record_count,
        }
        fields |= {fate: self.counts[fate] for fate in FATES if self.counts[fate]}
        examples = {"example": self.example, "lateExample": self.late_example}
        return fields | {name: example for name, example in examples.items() if example}


class RouteTallies:
    """The tallies of at most `at_most` routes, each under its name (or the route itself); all others are summed up.

    >>> tallies = RouteTallies()
    >>> tallies.add("payeeId", 1, 2, {"evaluated": 97, "duplicates": 3})
    >>> tallies.to_stats()
    {'routes': {'payeeId': {'rule': 1, 'rules': 2, 'routed': 100, 'evaluated': 97, 'duplicates': 3}}}
    >>> list(tallies.warnings())
    ['rule 1 and 1 more (route payeeId) did not count 3.0 % of 100 events: 3 duplicates, 0 dropped late']
    """

    def __init__(self, at_most: int = ROUTES_KEPT):
        self.at_most = at_most
        self.by_route: dict[Route | str, RouteTally] = {}
        self.others: Counter[str] = Counter()

    def add(
        self,
        route: Route | str,
        lowest_rule_id: int,
        rule_count: int,
        counts: Mapping[str, int],
        example: dict[str, Any] | None = None,
        late_example: dict[str, Any] | None = None,
    ) -> None:
        """Adds the counts of what became of some events of a route."""
        tally = self.by_route.get(route)
        if tally is None:
            if len(self.by_route) >= self.at_most:
                self.others.update(counts)
                return
            tally = self.by_route[route] = RouteTally(lowest_rule_id)
        tally.lowest_rule_id, tally.rule_count = lowest_rule_id, rule_count
        tally.example, tally.late_example = tally.example or example, tally.late_example or late_example
        tally.counts.update(counts)

    def add_stats(self, stats: dict) -> None:
        """Adds the counts of a line of the stats log; a line of cuts that routed nothing has none."""
        for name, tally in stats.get("routes", {}).items():
            counts = {fate: tally.get(fate, 0) for fate in FATES}
            examples = tally.get("example"), tally.get("lateExample")
            self.add(name, tally["rule"], tally["rules"], counts, *examples)
        self.others.update({fate: stats.get("otherRoutes", {}).get(fate, 0) for fate in FATES})

    def to_stats(self) -> dict[str, Any]:
        """The members of a line of the stats log: the routes that lost most, by name, and the sums of the others."""
        routes = list(self.by_route.items())
        largest = nlargest(ROUTES_TOLD, routes, key=lambda each: (each[1].lost_count, each[1].record_count))
        others = Counter(self.others)
        if len(largest) < len(routes):
            all_of_them: Counter[str] = sum((tally.counts for _, tally in routes), Counter(self.others))
            others = all_of_them - sum((tally.counts for _, tally in largest), Counter())
        names = {bounded_route_id(route): tally.to_dict() for route, tally in largest}
        return ({"routes": names} if names else {}) | (
            {"otherRoutes": dict(others)} if others.total() else {}
        )

    def routes_with_notable_loss(self) -> list[tuple[str, RouteTally]]:
        """The routes that lost many of their events, those that lost most first."""
        many = [
            (bounded_route_id(route), tally)
            for route, tally in self.by_route.items()
            if tally.has_notable_loss
        ]
        return sorted(many, key=lambda each: -each[1].lost_count)

    def warnings(self) -> Iterator[str]:
        """A warning for each of these routes, or for the first ones and how many more there are."""
        losing = self.routes_with_notable_loss()
        for name, tally in losing[:WARNINGS]:
            yield tally.warning(name)
        if len(losing) > WARNINGS:
            yield f"{len(losing) - WARNINGS:,} more routes did not count more than 1 % of their events"
        missing = [(route, tally) for route, tally in self.by_route.items() if tally.has_notable_miss]
        for route, tally in missing[:WARNINGS]:
            yield tally.miss_warning(bounded_route_id(route))


def make_duplicate_example(
    event_id: Id, time: int, key: str, first: Mapping[str, Any], again: Mapping[str, Any]
) -> dict[str, Any]:
    """Two records that are duplicates: what they share, and some of the fields that rules need of each; all bounded in length."""
    records = [
        {
            name: value if isinstance(value, int | None) else plain_text(value)[:VALUE_CHARS]
            for name, value in some
        }
        for some in (islice(record.items(), FIELDS_SHOWN) for record in (first, again))
    ]
    return {"id": _bounded_id(event_id), "time": time, "key": key[:NAME_CHARS], "records": records}


def make_late_example(at: tuple[Id, int], key: str, newest: tuple[Id, int]) -> dict[str, Any]:
    """An event that was dropped late and the newest one beside it, each as id and time; `key`: of the first one's group.

    Of ids that are texts, stores keep only digests, so the newest event is named by its time alone.
    """
    (event_id, time), (newest_id, newest_time) = at, newest
    of_newest = {"id": newest_id} if isinstance(newest_id, int) else {}
    of_newest |= {"time": newest_time}
    return {"id": _bounded_id(event_id), "time": time, "key": key[:NAME_CHARS], "newest": of_newest}


def _bounded_id(event_id: Id) -> int | str:
    if isinstance(event_id, tuple):
        event_id = json.dumps(event_id, separators=(",", ":"))
    return event_id if isinstance(event_id, int) else event_id[:VALUE_CHARS]


def duplicate_example_text(example: Mapping[str, Any]) -> str:
    """Two records that are duplicates, for people."""
    first, again = (
        ", ".join(f"{name} {value}" for name, value in record.items()) for record in example["records"]
    )
    records = f"id {example['id']} and time {utc_text(example['time'])} in group {example['key']}"
    if first:
        records = f"{records}, with {first} and then {again}"
    return escape_control_characters(
        f"for example two records have {records}: is the schema's id unique for each event?"
    )


def late_example_text(example: Mapping[str, Any]) -> str:
    """An event that was dropped late and the newest one beside it, for people."""
    newest = example["newest"]
    newest_id = f"with id {newest['id']} and time" if "id" in newest else "with time"
    text = (
        f"for example the event with id {example['id']} and time {utc_text(example['time'])} in group {example['key']}; "
        f"the newest event beside it is the one {newest_id} {utc_text(newest['time'])}: is that time right?"
    )
    return escape_control_characters(text)
