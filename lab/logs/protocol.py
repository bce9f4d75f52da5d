"""What a log is for those who write and read it, whatever stores it: a folder, a topic, or a kind that somebody adds.

    writers ──append, publish──► Log ──tail──► Tail ──records──► readers

A kind of log is one file with four classes: its `Log`, its `Tail`, a `Feed` for the engine (`lab.engine.records.feeds`), and
the `Logs` of an engine (`lab.engine.loop.ends`), whose registry names it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from heapq import merge
from typing import Protocol

from lab.logs.positions import Positions, Record


class NoLog(Exception):
    """A log that another program creates does not exist. The message says what helps."""


class Tail(Protocol):
    """Reads a growing log, each record once. If records expire before they are read, it continues with the oldest that are kept.

    `expired`: a sentence about the records that it missed in this way; it remains until a caller empties it. `topic_id`: of the log
    whose positions it has, as `Log.check_topic_id` takes it; "" where logs have no ids.
    """

    expired: str
    topic_id: str = ""

    @property
    def positions(self) -> Positions:
        """Where the next call starts to read."""

    def records(self, at_most: int | None = None, upto: Positions | None = None) -> list[Record]:
        """The records appended since the last call, in order of log time; about `at_most`; `upto`: only before these positions."""

    def read(self, at_most: int | None = None) -> list[str]:
        """The lines appended since the last call."""
        return [record.line for record in self.records(at_most)]

    def close(self) -> None:
        """Closes connections."""
        return  # a reader without any


class Log(Protocol):
    """A log, for any number of writers and readers. Its text names it for people."""

    pause_s: float = 0.01  # between two appends of a steady stream

    @property
    def absolute_name(self) -> str:
        """Names the log in whatever folder a command runs."""

    def create(self) -> None:
        """Creates the log unless it exists."""

    def append(self, lines: Iterable[str | bytes]) -> object:
        """Appends records. May return before they are stored; `close` waits."""

    def publish(self, lines: Sequence[str | bytes], keys: Sequence[str]) -> list[str]:
        """Appends records with keys, waits until they are stored, and returns the place of each, as `Record.place` gives it."""

    def bounds(self) -> tuple[Positions, Positions]:
        """Where the log begins and ends now."""

    def records_between(self, starts: Positions, ends: Positions) -> int:
        """About how many records lie between two positions."""
        return sum(max(end - starts.get(number, 0), 0) for number, end in ends.items())

    def tail(self, new: bool = False, at: Positions | None = None) -> Tail:
        """A reader that starts at the oldest record; with `new` at the end; with `at` at these positions (ValueError if there are none)."""

    def read(self) -> list[str]:
        """All lines of the log up to now."""
        with closing(self.tail()) as tail:
            return tail.read()

    def earlier(self, positions: Positions, records: int) -> Positions:
        """The positions about `records` records before the given ones, or the start."""
        starts, _ = self.bounds()
        return {
            number: max(start, positions.get(number, start) - records) for number, start in starts.items()
        }

    def newest(self, at_most: int) -> list[str]:
        """The newest lines: at most so many; of a folder, so many KiB."""
        return [record.line for record in self.newest_records(at_most)]

    def newest_records(self, at_most: int) -> list[Record]:
        """The same with the log time and the place of each line."""
        with closing(self.tail(at=self.earlier(self.bounds()[1], at_most))) as tail:
            return tail.records()

    def place_of(self, source: int, position: int) -> str:
        """The place of the record at a position, for people."""
        return f"{self}/{source}:{position}"

    def values(self, source: int, start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
        """(log time, position, value) of the records between two positions of a source; here, each position has a record."""
        with closing(self.tail(at={source: start})) as tail:
            for position, record in enumerate(tail.records(upto={source: end}), start):
                yield record.log_time_ms, position, record.line.encode()

    def values_in_order(
        self,
        starts: Positions,
        ends: Positions,
        floor: Callable[[int, int], int] = lambda source, position: 0,
    ) -> Iterator[tuple[int, int, int, bytes]]:
        """(log time, source, position, value) of the records between positions of all sources, in this order.

        A log time is never less than those before it in its source, nor than `floor` of source and position.
        """

        def of_source(source: int) -> Iterator[tuple[int, int, int, bytes]]:
            newest = 0
            for log_time, position, value in self.values(source, starts.get(source, 0), ends[source]):
                newest = max(newest, log_time, floor(source, position))
                yield newest, source, position, value

        return merge(*map(of_source, sorted(ends)))

    def check_topic_id(self, topic_id: str, remedy: str) -> None:
        """Raises TopicMadeAnew, with a remedy, if the log is not the one that had this id; "" is any."""
        return  # a log without ids

    def unread_bytes(self, append: str) -> Iterator[str]:
        """Sentences about what other programs have stored there that nobody reads. `append`: a command that appends {file} to {log}."""
        return iter(())

    def time_notice(self) -> str:
        """A notice if log times do not say when a record was appended; "" if they do."""
        return ""

    def close(self) -> None:
        """Stores the waiting records and closes connections."""
        return  # a log without any
