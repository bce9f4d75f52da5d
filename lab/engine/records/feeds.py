"""Logs as the engine reads them: numbered sources, each a run of records at growing positions, with log times.

    source 0   ──●──●───●●──►     positions: bytes of a file log, offsets of a Kafka partition
    source 1   ────●───●────►

A feed says where a source ended at a log time, and reads ranges. Effective log time: never less than that of the records
before it in its source, nor than `floor`, the time of the cut before.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import numpy as np

from lab.logs.files import BYTES_A_RECORD, FileLog
from lab.logs.folderwatch import FolderWatch
from lab.logs.segments import folder_version
from lab.model.deadletters import BEGINNING
from lab.model.jsontext import MAX_LINE_BYTES, LongLine
from lab.model.times import now_ms

Positions = dict[int, int]  # source -> position

AT_ONCE = 1 << 22  # bytes of a file log that are decoded at once


class LogLost(ValueError):
    """Records that the engine has not read yet are no longer in the log."""


class Records(Protocol):
    """A run of records of one source, for `decode`."""

    @property
    def source(self) -> int:
        """The number of its source."""

    @property
    def log_time(self) -> np.ndarray:
        """The effective log time of each record, ms."""

    @property
    def data(self) -> bytes:
        """The records, one a line; empty if that is impossible, so that only `lines` has them."""

    @property
    def keys(self) -> Sequence[bytes | None]:
        """The key of each record, as a topic has them; empty if the log has none."""

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """(place, record) for each record."""

    def places(self, lines: Sequence[int]) -> list[str]:
        """The places of some lines of `data`, counted from 0, as text for people."""


class Feed(Protocol):
    """A log as the engine reads it. `divisible`: a source's range may be read in parts, each by itself.

    `positions_are_records`: positions count records, not bytes. Unless a feed says otherwise, the log time of a record depends on those before it.
    `topic`: the name of the log in errors; "": that of `enginelogs.LOGS`.
    """

    topic: str = ""
    divisible: bool = False
    positions_are_records: bool = True

    def clock(self) -> int:
        """A log time, ms: a later call of `ends` includes every record that was logged before it."""

    def starts(self) -> Positions:
        """Where each source begins."""

    def sync_clock(self) -> None:
        """Sets the clock by the newest record of the log: called if records are later than the clock."""

    def ends(self) -> Positions:
        """Where each source ends."""

    def ends_of_both(self, other: "Feed") -> tuple[Positions, Positions]:
        """The ends of this log and another one."""
        return self.ends(), other.ends()

    def wait_for_records_of_either(
        self, starts: Positions, other: "Feed", other_starts: Positions, timeout_s: float
    ) -> bool:
        """Waits until this log, or another one that is the same at each call, may have records after some positions.

        Waits for `timeout_s` at most; returns whether one may have some.
        """
        return True  # a feed that cannot wait: the caller asks for the ends

    def ends_before(self, log_time: int, starts: Positions, ends: Positions) -> Positions:
        """The end of each source before a log time (ms), at most that in `ends`; `starts`: where the caller has read up to."""

    def may_be_replaced(self) -> bool:
        """Whether another log may have taken this one's place since the last call."""
        return False

    def has_read(self, positions: Positions, log_time: int) -> bool:
        """Whether a reader of this log can be at these positions at a log time; if not, another log has taken its place."""
        return True  # topics have ids

    def estimated_records(self, source: int, start: int, end: int) -> int:
        """About how many records lie between two positions."""
        return end - start

    def position_after(self, source: int, start: int, end: int, records: int) -> int:
        """The position about `records` records after `start`, at most `end`, where a record begins."""
        return min(end, start + max(records, 1))

    def read(self, ranges: Mapping[int, tuple[int, int]], floor: int) -> Iterator[Records]:
        """The records of ranges (source -> start, end)."""

    def close(self) -> None:
        """Closes connections, which fetch records ahead; the next call opens others."""
        return  # a feed without any


def join_unless_multiline(values: Sequence[bytes]) -> bytes:
    """Records as `Records.data` has them.

    >>> join_unless_multiline([b"a", b"b"]), join_unless_multiline([b"a", b"b\\nc"])
    (b'a\\nb', b'')
    """
    joined = b"\n".join(values)
    return joined if joined.count(b"\n") == len(values) - 1 else b""


@dataclass(frozen=True)
class LooseLines:
    """Lines that are in no log: their places are their numbers, from 1."""

    data: bytes
    log_time: int | np.ndarray = 0  # ms; 0: not known
    source: int = 0
    keys: Sequence[bytes | None] = ()

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """(number, line) of each line that is not blank, without its end."""
        for number, line in enumerate(self.data.split(b"\n"), 1):
            if line.strip():
                yield str(number), line.removesuffix(b"\r")

    def places(self, lines: Sequence[int]) -> list[str]:
        """The numbers of the lines, from 1."""
        return [str(line + 1) for line in lines]


@dataclass(frozen=True)
class FileRecords:
    """A run of a file log's lines."""

    log: FileLog
    start: int
    data: bytes
    log_time: np.ndarray
    source: int = 0
    keys: Sequence[bytes | None] = ()

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """(place, line) of each line that is not blank, without its end."""
        lines = self.data.split(b"\n")[:-1]
        kept = [number for number, line in enumerate(lines) if line.strip()]
        yield from zip(self.places(kept), (lines[number].removesuffix(b"\r") for number in kept))

    def places(self, lines: Sequence[int]) -> list[str]:
        """The places as the log writes them."""
        if not len(lines):
            return []
        starts = np.append(0, np.flatnonzero(np.frombuffer(self.data, np.uint8) == ord("\n")) + 1)
        return [self.log.place(self.start + int(starts[line])) for line in lines]


@dataclass(frozen=True)
class LongRecord:
    """A line of a file log that is too long to be read into memory."""

    log: FileLog
    start: int
    line: LongLine
    log_time: np.ndarray
    source: int = 0
    data: bytes = b""
    keys: Sequence[bytes | None] = ()

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """The place of the line, and the `LongLine` that stands for it."""
        yield self.log.place(self.start), self.line

    def places(self, lines: Sequence[int]) -> list[str]:
        """The place of the line, once for each entry of `lines`."""
        return [self.log.place(self.start) for _ in lines]


@dataclass(frozen=True)
class PartitionRecords:
    """A run of records of one partition."""

    topic: str
    source: int
    offsets: Sequence[int]
    values: Sequence[bytes]
    log_time: np.ndarray
    keys: Sequence[bytes | None] = ()

    @property
    def data(self) -> bytes:
        """The records, one a line; empty if a record contains a line break."""
        return join_unless_multiline(self.values)

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """(place, value) of each record."""
        return zip(self.places(range(len(self.values))), self.values, strict=True)

    def places(self, lines: Sequence[int]) -> list[str]:
        """Topic, partition and offset of some records, counted from 0."""
        return [f"{self.topic}/{self.source}:{self.offsets[line]}" for line in lines]


class FileFeed(Feed):
    """A file log: one source, numbered 0."""

    divisible = True  # log times never go back
    positions_are_records = False

    def __init__(self, folder: Path, clock: Callable[[], int] = now_ms):
        self.log, self._clock = FileLog(folder), clock
        self._watch: FolderWatch | None = None  # of this log and the other one
        self._ahead = 0  # the log's time before the clock's: clocks step back
        self._folder: tuple[int, int] | None = None  # its number, and when files were last made in it

    def clock(self) -> int:
        return self._clock() + self._ahead

    def starts(self) -> Positions:
        return {0: self.log.start()}

    def sync_clock(self) -> None:
        start, end = self.log.start(), self.log.end()
        if start < end:
            _, times = self.log.append_ends_and_times_arrays(end - 1, end)
            self._ahead = max(self._ahead, int(times[-1]) + 1 - self._clock())

    def ends(self) -> Positions:
        return {0: self.log.end_after_running_appends()}

    def wait_for_records_of_either(
        self, starts: Positions, other: Feed, other_starts: Positions, timeout_s: float
    ) -> bool:
        if not isinstance(other, FileFeed):
            return super().wait_for_records_of_either(starts, other, other_starts, timeout_s)
        watch = self._watch = self._watch or FolderWatch([self.log.folder, other.log.folder])
        logs = (self.log, starts[0]), (other.log, other_starts[0])
        watch.begin()
        if any(log.end() > start for log, start in logs):
            return True
        watch.wait(timeout_s)
        return any(log.end() > start for log, start in logs)

    def ends_before(self, log_time: int, starts: Positions, ends: Positions) -> Positions:
        return {0: min(self.log.end(log_time), ends[0])}

    def may_be_replaced(self) -> bool:
        before, self._folder = self._folder, folder_version(self.log.folder)
        return self._folder != before

    def has_read(self, positions: Positions, log_time: int) -> bool:
        at = positions.get(0, 0)
        if at <= self.log.start():
            return True
        return at <= self.log.end(log_time + 1) and self.log.begins_line(at)

    def estimated_records(self, source: int, start: int, end: int) -> int:
        return -(-(end - start) // BYTES_A_RECORD)

    def position_after(self, source: int, start: int, end: int, records: int) -> int:
        at = start + max(records, 1) * BYTES_A_RECORD
        while at < end:
            some = self.log.read_bytes(at, min(at + AT_ONCE, end))
            found = some.find(b"\n")
            if found >= 0:
                return at + found + 1
            at += len(some)
        return end

    def read(self, ranges: Mapping[int, tuple[int, int]], floor: int) -> Iterator[FileRecords | LongRecord]:
        for at, end in ranges.values():
            while at < end:
                upto = self.position_after(0, at, end, AT_ONCE // BYTES_A_RECORD)
                long_line = upto  # where a line begins that is too long to read; another program wrote it, because a FileLog refuses such lines
                if upto - at > AT_ONCE + MAX_LINE_BYTES + len(b"\r\n"):
                    long_line = at + self.log.read_bytes(at, at + AT_ONCE).rfind(b"\n") + 1
                if data := self.log.read_bytes(at, long_line):
                    yield FileRecords(self.log, at, data, self._log_times(at, long_line, data, floor))
                if any(piece.strip() for piece in self._pieces(long_line, upto)):
                    line = self._long_line(long_line, upto)
                    log_time = self._log_times(long_line, upto, line + b"\n", floor)
                    yield LongRecord(self.log, long_line, line, log_time)
                at = upto

    def _pieces(self, start: int, end: int) -> Iterator[bytes]:
        return (self.log.read_bytes(at, min(at + AT_ONCE, end)) for at in range(start, end, AT_ONCE))

    def _long_line(self, start: int, end: int) -> LongLine:
        """The line between two positions; `end` is after its line break."""
        last = self.log.read_bytes(end - 2, end)
        size = end - start - len(last) + len(last.removesuffix(b"\n").removesuffix(b"\r"))
        digest = sha256()
        for piece in self._pieces(start, start + size):
            digest.update(piece)
        return LongLine.of(size, digest.hexdigest(), self.log.read_bytes(start, start + BEGINNING))

    def _log_times(self, start: int, end: int, data: bytes, floor: int) -> np.ndarray:
        """The effective log time of each line that is not blank."""
        text = np.frombuffer(data, np.uint8)
        breaks = np.flatnonzero(text == ord("\n"))
        starts = np.append(0, breaks[:-1] + 1)
        maybe_blank = np.flatnonzero(text[starts] <= ord(" ")).tolist()
        blank = [line for line in maybe_blank if not data[starts[line] : breaks[line]].strip()]
        ends, times = self.log.append_ends_and_times_arrays(start, end)
        log_times = np.maximum(times[np.searchsorted(ends, start + 1 + breaks)], floor)
        return np.delete(log_times, blank) if blank else log_times
