"""Whether events come in the order of their times, as rules expect them: an event behind newer ones is late, and its windows have expired.

09:00 09:05 09:05 09:10   in order
09:10 09:05 09:05 09:00   backwards, as a database gives them with ORDER BY time DESC
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from lab.model.jsontext import BadRecord
from lab.model.routestats import is_loss_worth_reporting
from lab.model.schema import Schema
from lab.model.times import duration_words
from lab.sources.inferredfields import NEARLY_ALL

if TYPE_CHECKING:  # so that the page's Python can do without logs
    from lab.sources.sources import EventSource

LATE_MS = 300_000  # behind a newer event, as `--max-out-of-orderness` has it if nothing is said
LOOKED_AT = 1_000  # records, whether they are in order
EPOCH_SECONDS = range(1_000_000_000, 4_102_444_800)  # from 2001 to 2100; as ms they are in 1970
LARGER_UNITS = {"ms": "s", "us": "ms", "ns": "us"}
BACKWARDS = 0.9  # this share of the steps between different times leads back


@dataclass
class TimeOrder:
    """In what order times came. `behind`: how many were more than `late_ms` before an earlier one's time.

    >>> TimeOrder().add_all([9, 5, 4]).backwards, TimeOrder().add_all([4, 5, 9]).backwards
    (True, False)
    """

    late_ms: int = LATE_MS
    count: int = 0
    behind: int = 0
    like_seconds: int = 0  # times in 1970 that would be in our days if each ms were a second
    falls: int = 0
    rises: int = 0
    _newest: int | None = None
    _last: int | None = None

    def add_all(self, times: Iterable[int]) -> "TimeOrder":
        for time in times:
            self.add(time)
        return self

    def add(self, time: int) -> None:
        """Takes in the time of the next event, in ms."""
        last = time if self._last is None else self._last
        newest = time if self._newest is None else self._newest
        self.count += 1
        self.like_seconds += time in EPOCH_SECONDS
        self.falls += time < last
        self.rises += time > last
        self.behind += time < newest - self.late_ms
        self._last, self._newest = time, max(time, newest)

    @property
    def backwards(self) -> bool:
        """Whether the newest come first."""
        return self.falls > BACKWARDS * (self.falls + self.rises)

    def problem(self, sampled: bool = False) -> str:
        """What is wrong with the order, in words; "" if at most 1 % are late. `sampled`: the times are only some of all."""
        if not is_loss_worth_reporting(self.behind, self.count):
            return ""
        if self.backwards:
            return "the times run backwards, the newest first"
        some = f"{self.behind:,} of {self.count:,} {'sampled ' * sampled}records"
        return f"{some} come more than {duration_words(self.late_ms)} after a newer one"

    def unit_problem(self, schema: Schema) -> str:
        """That the times are all in 1970, because the events have a larger unit than their schema says; "" if it fits."""
        field = schema.field(schema.time_field)
        unit = "ms" if field.type == "long" else field.unit
        if unit not in LARGER_UNITS or not self.count or self.like_seconds < NEARLY_ALL * self.count:
            return ""
        return (
            f"nearly all events are in 1970, because {field.name} is read in {unit}; if it is in {LARGER_UNITS[unit]}, "
            f'the schema needs type = "time" and unit = "{LARGER_UNITS[unit]}" for it'
        )


def events_of_line(line: bytes, schema: Schema) -> list[dict[str, Any]]:
    """The events of a record; none if it is a dead letter."""
    try:
        return schema.events(line)
    except BadRecord:
        return []


def line_time(line: bytes, schema: Schema) -> int | None:
    """The event time of a record, in ms; None if it is no event.

    >>> from lab.model.schema import PAYMENTS
    >>> line_time(b'{"transactionId": 1, "eventTime": 5}', PAYMENTS), line_time(b"no record", PAYMENTS)
    (5, None)
    """
    events = events_of_line(line, schema)
    return events[0][schema.time_field] if events else None


def looked_at_every(source: "EventSource") -> int:
    """One line of how many is looked at, for about `LOOKED_AT` in all: of a topic its first ones, of other events all over them."""
    from lab.sources.sources import TopicSource

    return 1 if isinstance(source, TopicSource) else max(len(source) // LOOKED_AT, 1)


def order_problem(source: "EventSource", schema: Schema, late_ms: int) -> str:
    """What is wrong with the order of events, by about `LOOKED_AT` of them, as `TimeOrder.problem` says it."""
    every = looked_at_every(source)
    some = islice(source, 0, every * LOOKED_AT, every)
    times = (time for line in some if (time := line_time(line, schema)) is not None)
    return TimeOrder(late_ms).add_all(times).problem(sampled=len(source) > LOOKED_AT)


def sort_advice(problem: str, schema: Schema) -> str:
    """The warning of commands about such a problem."""
    return f"{problem}: rules need the order of time, so windows miss events. --sort sorts the events by {schema.time_field} first"


def rows_advice(problem: str, schema: Schema) -> str:
    """The warning of functions that take tables about such a problem."""
    return f"{problem}: the order of the rows counts, so sort them by {schema.time_field} first"
