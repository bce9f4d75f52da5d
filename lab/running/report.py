"""What an engine did, from its stats log."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lab.logs.protocol import Log
from lab.logs.reading import SkippedLines, new_records, parse_records
from lab.model.routestats import COUNTS, RouteTallies
from lab.model.rules import MAX_RULES
from lab.model.statuslines import ALERT_COUNTS, parse_stats
from lab.model.times import now_ms

RECORD_WORDS = {"routed": "routed", "unrouted": "without a route", "deadLetters": "dead letters"}
FATE_WORDS = {
    "evaluated": "evaluated",
    "storedLate": "stored late",
    "duplicates": "duplicates",
    "droppedLate": "dropped late",
}
RETURN_WORDS = {"takenBack": "taken back", "notHeld": "not stored when they were to be taken back"}


def describe_counts(counts: Mapping[str, int], labels: Mapping[str, str]) -> str:
    """Formats counts for people.

    >>> describe_counts({"routed": 1200}, RECORD_WORDS)
    '1,200 routed, 0 without a route, 0 dead letters'
    """
    return ", ".join(f"{counts.get(name, 0):,} {label}" for name, label in labels.items())


def report_sentences(subject: str, counts: Mapping[str, int], routes: RouteTallies) -> Iterator[str]:
    """Sentences about the records (the first begins with `subject`), then about the events on all routes, then the warnings."""
    yield f"{subject} {describe_counts(counts, RECORD_WORDS)}."
    if counts.get("routed"):
        number = len(routes.by_route)
        of_each = f"Over {number:,} routes (an event counts once on each)" if number > 1 else "On one route"
        returns = RETURN_WORDS if any(counts.get(name) for name in RETURN_WORDS) else {}
        yield f"{of_each}: {describe_counts(counts, FATE_WORDS | returns)}."
    for name, kind in ALERT_COUNTS.items():
        if kind.sentence and counts.get(name):
            yield f"{counts[name]:,} {kind.sentence}."
    for warning in routes.warnings():
        yield f"Warning: {warning}"


class StatsReport:
    """What an engine did since the report began, read from its stats log; `on_stats` is called once for each line."""

    def __init__(
        self, stats: Log, on_stats: Callable[[dict], None] | None = None, left_out: SkippedLines | None = None
    ):
        self.left_out = left_out or SkippedLines()
        self._tail, self.total, self._on_stats = stats.tail(new=True), Counter(), on_stats
        self._began_ms = now_ms()
        self._last: dict[int, dict] = {}  # by the task's first key-group
        self._stored: Counter[int] = Counter()  # by key-group
        self.engines: dict[str, dict] = {}  # by their ids, what they last said
        # where the newest micro-batch of which a line came ends in the events' sources, by their numbers
        self.events_end: Mapping[str, int] | None = None
        self.routes = RouteTallies()
        self.alerts = {name: Counter[int]() for name in ALERT_COUNTS}  # each by rule id
        self._spans_ms: list[tuple[int, int]] = []  # of the micro-batches of the last call of `read`

    @property
    def window_event_count(self) -> int:
        """The number of events stored in windows, in the tasks that have reported since this report began."""
        return sum(stats.get("heldEvents", 0) for stats in self._last.values())

    @property
    def span_s(self) -> float:
        """Seconds from the start of the first micro-batch that the last call of `read` returned to the end of the last; 0 without any.

        Of a micro-batch that was chosen before this report began: from when its records were decoded. Of one that was read while the one
        before was evaluated: from the end of that.
        """
        starts, ends = zip(*self._spans_ms) if self._spans_ms else ((0,), (0,))
        return (max(ends) - min(starts)) / 1000

    @property
    def state_bytes(self) -> int:
        """Bytes of durable state, of the same tasks."""
        return sum(stats.get("stateBytes", 0) for stats in self._last.values())

    @property
    def state_bytes_by_key_group(self) -> dict[int, int]:
        """About how many bytes each key-group has: a task's bytes, shared as the events are that this run saw it store."""
        sizes = {}
        for stats in self._last.values():
            low, high = stats["keyGroups"]
            stored = {kg: n for kg, n in self._stored.items() if low <= kg <= high and n}
            total = sum(stored.values())
            sizes |= {kg: stats.get("stateBytes", 0) * n // total for kg, n in stored.items()}
        return sizes

    def read(self) -> Counter[str]:
        """Reads the lines since the last call."""
        new: Counter[str] = Counter()
        self._spans_ms = []
        for records in new_records(self._tail):
            for _, stats in parse_records(records, parse_stats, self.left_out):
                if engine := stats.get("engine"):
                    self.engines[engine["id"]] = stats
                if self._is_new(stats):
                    self._add(stats, new)
        self.total.update(new)
        return new

    def _is_new(self, stats: dict) -> bool:
        """Whether a line is not about a batch that ran again after a crash. An engine with another checkpoint has numbers of its own."""
        before = self._last.get(stats["keyGroups"][0])
        if before is None or _engine_id(before) != _engine_id(stats):
            return True
        return before["batch"] < stats["batch"]

    def _add(self, stats: dict, new: Counter[str]) -> None:
        (low, high), times = stats["keyGroups"], stats["times"]
        if low not in self._last or self._last[low]["keyGroups"] != [low, high]:
            # a rescale may have given the key-groups of earlier tasks to this one
            self._last = {n: of for n, of in self._last.items() if n > high or of["keyGroups"][1] < low}
        ended_ms = self._last[low]["times"].get("end", 0) if low in self._last else 0
        self._last[low] = stats
        self.events_end = stats.get("cut", {}).get("events", self.events_end)
        if "start" in times:  # else another task's line has them
            # an engine that was killed since then may have chosen the cut, long ago
            chosen_before = times["start"] < self._began_ms
            begun_ms = max(times["decode" if chosen_before else "start"], ended_ms)
            self._spans_ms.append((min(begun_ms, times["end"]), times["end"]))
        self._stored.update({int(kg): n for kg, n in stats.get("stored", {}).items()})
        counts = (*COUNTS, *ALERT_COUNTS, "datedLikeSeconds", "nanAsNull", "diskWaitMs")
        new.update({name: stats.get(name, 0) for name in counts})
        for kind, counter in self.alerts.items():
            for name, count in stats.get(ALERT_COUNTS[kind].by_rule, {}).items():
                rule_id = name.partition(".")[0]
                if rule_id.isdecimal() and (int(rule_id) in counter or len(counter) < MAX_RULES):
                    counter[int(rule_id)] += count
        self.routes.add_stats(stats)
        if self._on_stats:
            self._on_stats(stats)


def _engine_id(stats: Mapping[str, Any]) -> str | None:
    """The id of the checkpoint of the engine that wrote a line; None of those that give none."""
    return stats.get("engine", {}).get("id")
