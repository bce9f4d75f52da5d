"""Logs in folders: append-only files of JSON lines. They need no server.

    events/00000000000000000000.jsonl    the lines; a segment is named after the position of its first byte in the log
    events/00000000000000000000.index    end and time of each append, see `lab.logs.index`
    events/00000000000008388700.jsonl    the next segment, started after 8 MiB or a day

A position is a byte offset in the whole log. One writer at a time holds the lock. Readers read only what the index covers, without the
lock; only an engine takes it for a moment, to wait for an append that is running. So positions and log times are in the same order,
however many writers there are, and the cost of an append or a read depends on its own size only. Appended lines survive the end of the
process, but not a power failure: as with Kafka, nothing waits for the disk.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, TypeVar

from lab.logs import protocol
from lab.logs.access import make_folder
from lab.logs.index import Batch, SegmentIndex, writer_id
from lab.logs.positions import Positions, Record, StartPosition, advance_expired_positions, expired_text
from lab.logs.protocol import Log
from lab.logs.segments import BY_END, LogIdentity, PositionExpired, Segments
from lab.logs.writer import Writer
from lab.model.jsontext import MAX_LINE_BYTES
from lab.model.times import DAY_MS

if TYPE_CHECKING:
    import numpy as np

WEEK_MS = 7 * DAY_MS
COUNTED, CHUNK = 1 << 28, 1 << 24  # bytes that are looked through for their lines, and at once
BYTES_A_RECORD = 128  # so many bytes of lines count as one record
T = TypeVar("T")


class FileLog(Log):
    """A log in a folder, for any number of writers and readers in threads and processes. Reading does not create the folder.

    `retention_ms`: a new segment removes old segments whose lines are all older than the newest line by more than this; None: keeps all.

    >>> import tempfile
    >>> log = FileLog(Path(tempfile.mkdtemp()) / "control")
    >>> log.append(["one", "two"], log_time_ms=5), log.append(["three"], log_time_ms=7)
    (0, 8)
    >>> log.read_bytes(0, log.end(before_ms=7)), log.place(4)
    (b'one\\ntwo\\n', 'control/00000000000000000000.jsonl:2')
    >>> tail = log.tail()
    >>> tail.read(), tail.read()
    (['one', 'two', 'three'], [])
    """

    pause_s = 0.2  # each append is a row of the index

    def __init__(self, folder: Path | str, retention_ms: int | None = None):
        self.folder = Path(folder)
        self._segments = Segments(self.folder)
        self._writer = Writer(self.folder, self._segments, retention_ms)
        self._counted = (0, 0, 1)  # a segment, a position in it, and the number of the line that begins there

    def __repr__(self) -> str:
        return str(self.folder)

    @property
    def absolute_name(self) -> str:
        """The absolute path of the folder, which names the log in whatever folder a command runs."""
        return str(self.folder.absolute())

    def create(self) -> None:
        """Creates the folder unless it exists."""
        make_folder(self.folder)

    def append(self, lines: Iterable[str | bytes], log_time_ms: int | None = None) -> StartPosition:
        """Writes all lines or none; returns the position of the first. The log time is now, or as given, but never decreases."""
        data = join_lines(lines)
        return self._writer.append_lines(data, log_time_ms) if data else self.end()

    def publish(self, lines: Sequence[str | bytes], keys: Sequence[str]) -> list[str]:
        """Appends; returns the place of each line in the form of `place`. Files have no keys."""
        return self.places_of_lines(self.append(lines), len(lines)) if lines else []

    def places_of_lines(self, position: int, count: int) -> list[str]:
        """The places of the lines of an append that begins at a position."""
        name, _, first = self.place(position).rpartition(":")
        return [f"{name}:{number}" for number in range(int(first), int(first) + count)]

    def put_batch_once(
        self,
        writer: str,
        number: int,
        data: bytes,
        fingerprint: int,
        repeated_batches: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:
        """Appends batch `number` (lines as `join_lines` joins them) of a writer that numbers its batches in ascending order, unless the log has the batch.

        `fingerprint`: 31 bits that identify the batch's input; when a batch is put again, times in `data` may differ. Raises
        BatchConflict if the log has a different batch with this number, or a later batch that is not in `repeated_batches`: (number,
        fingerprint) of the batches that the writer puts again.
        """
        if data:
            self._writer.append_lines(
                data, None, Batch(writer_id(writer), number, fingerprint, repeated_batches)
            )

    def last_batch(self, writer: str) -> Batch | None:
        """The last batch of a writer in the log; None if there is none."""
        return self._writer.last_batch(writer_id(writer))

    def expire(self, retention_ms: int) -> None:
        """Removes the oldest segments if all their lines are older than the newest line by more than `retention_ms`."""
        self._writer.expire(retention_ms)

    def bounds(self) -> tuple[Positions, Positions]:
        """Where the log begins and ends now."""
        return {0: self.start()}, {0: self.end()}

    def records_between(self, starts: Positions, ends: Positions) -> int:
        """How many lines lie between two positions, at most of the last 256 MiB."""
        end = ends[0]
        start = max(starts.get(0, 0), self.start(), end - COUNTED)
        return sum(self.read_bytes(at, min(at + CHUNK, end)).count(b"\n") for at in range(start, end, CHUNK))

    def start(self) -> int:
        """The oldest position that has not expired."""
        return self._segments.snapshot_without_expired().bases[0]

    def end(self, before_ms: int | None = None) -> int:
        """The end of the log, or of the lines logged before `before_ms`; `start()` if there are none."""
        last = self._segments.snapshot().last
        return (
            last.end
            if before_ms is None or last.log_time < before_ms
            else self._segments.end_before(before_ms)
        )

    def end_after_running_appends(self) -> int:
        """The end, after running appends have finished: includes every line that got its log time before the call."""
        self._writer.wait_for_append()
        return self.end()

    def append_ends_and_times_arrays(self, start: int, end: int) -> "tuple[np.ndarray, np.ndarray]":
        """End positions and log times of the appends that overlap a range of positions; the last one may end beyond it.

        Raises PositionExpired, or ValueError beyond the end of the log.
        """
        import numpy as np

        tables = [np.empty((0, 4), np.int64), *self._rows(start, end, SegmentIndex.rows_array)]
        ends, log_times = np.concatenate(tables)[:, :2].T
        appends = np.diff(ends, prepend=-1) > 0  # without rows that have no lines
        return ends[appends], log_times[appends]

    def append_ends_and_times(self, start: int, end: int) -> list[tuple[int, int]]:
        """The same as pairs, for readers of a few lines.

        >>> import tempfile
        >>> log = FileLog(Path(tempfile.mkdtemp()))
        >>> log.append(["one", "two"], log_time_ms=5), log.append(["three"], log_time_ms=7)
        (0, 8)
        >>> log.append_ends_and_times(0, 14)
        [(8, 5), (14, 7)]
        """
        found: dict[int, int] = {}  # found by end: a row without lines has the same end as the row before
        for rows in self._rows(start, end, SegmentIndex.rows):
            for row in rows:
                found.setdefault(row.end, row.log_time)
        return list(found.items())

    def _rows(self, start: int, end: int, get: Callable[[SegmentIndex, int, int], T]) -> Iterator[T]:
        """Applies `get` to the index rows of each segment that overlap a range of positions."""
        for base, first, last in self._segments.split_by_segment(start, end):
            with self._segments.missing_file_as_expired(start), self._segments.open_index(base) as index:
                rows = bisect_right(index, first, key=BY_END), bisect_left(index, last, key=BY_END) + 1
                yield get(index, *rows)

    def read_bytes(self, start: int, end: int) -> bytes:
        """The bytes between two positions. Raises PositionExpired, or ValueError beyond the end of the log."""
        parts = []
        for base, first, last in self._segments.split_by_segment(start, end):
            with (
                self._segments.missing_file_as_expired(start),
                open(self._segments.segment_path(base, "jsonl"), "rb") as file,
            ):
                file.seek(first - base)
                parts.append(file.read(last - first))
            if len(parts[-1]) < last - first:
                raise ValueError(
                    f"{file.name} is shorter than its index says: only a FileLog may write there"
                )
        return b"".join(parts)

    def unread_bytes(self, append: str) -> Iterator[str]:
        """Sentences about what other programs have put into the folder. An append that is running looks like it, too, for a moment."""

        def command(file: str) -> str:
            # whoever may write to the folder chooses the name of a file there
            return append.format(file=quote(file), log=quote(str(self)))

        for file in self._segments.foreign_files():
            yield f"{file} is not part of the log {self}, so it is not read: {command(file)} appends what it has"
        segment, size = self._segments.bytes_without_row()
        if size:
            yield (
                f"the last {size:,} bytes of {segment} are not read, and the next append removes them: they do not come from a "
                f"complete append; {command('FILE')} appends what a file has"
            )

    def begins_line(self, position: int) -> bool:
        """Whether a line begins at a position after the start, or will."""
        return position <= self.end() and self.read_bytes(position - 1, position) == b"\n"

    def identity(self) -> LogIdentity:
        """Tells this log from another one that takes its place."""
        return LogIdentity(self._segments)

    def place(self, position: int) -> str:
        """The place of the line that begins at a position, for people: `events/00000000000000000000.jsonl:17`. Raises PositionExpired."""
        base = self._segments.snapshot().base_of(position)
        of, at, number = self._counted
        if of != base or at > position:
            at, number = base, 1
        with (
            self._segments.missing_file_as_expired(position),
            open(self._segments.segment_path(base, "jsonl"), "rb") as file,
        ):
            file.seek(at - base)
            while chunk := file.read(min(1 << 20, position - at)):
                number += chunk.count(b"\n")
                at += len(chunk)
        self._counted = (base, at, number)
        return f"{self.folder.name}/{Path(file.name).name}:{number}"

    def newest_records(self, max_kib: int) -> list[Record]:
        """The lines that are completely within the last `max_kib` KiB, with the log time and the place of each."""
        return self._newest(max_kib).records()

    def newest(self, max_kib: int) -> list[str]:
        """The same lines alone."""
        return self._newest(max_kib).read()

    def _newest(self, max_kib: int) -> "Tail":
        return Tail(self, self.earlier({0: self.end()}, max_kib * 1024 // BYTES_A_RECORD)[0])

    def earlier(self, positions: Positions, records: int) -> Positions:
        """The position of a line about `records` records before a position."""
        begins, end = self.start(), positions[0]
        start = max(begins, end - records * BYTES_A_RECORD)
        if begins < start < end:
            start += self.read_bytes(start - 1, end).find(b"\n")
        return {0: start}

    def tail(self, new: bool = False, at: Positions | None = None) -> "Tail":
        """A reader that starts at the oldest line; with `new` at the end; with `at` at that position (ValueError if there is none)."""
        position = self.end() if new else self.start()
        if at is not None:
            position = advance_expired_positions(self, at, {0: self.start()}, {0: self.end()})[0]
            if position > self.start() and not self.begins_line(position):
                raise ValueError(f"{self}: no line begins at position {position}")
        tail = Tail(self, position)
        tail.expired = expired_text(self, at or {}, {0: self.start()})
        return tail


class Tail(protocol.Tail):
    """Reads a growing log, each line once. If lines expire before they are read, it continues with the oldest line that is kept.
    If the folder is removed and another log takes its place, it reads that one from its beginning, as a topic's reader does.

    """

    def __init__(self, log: FileLog, position: int):
        self._log, self._position, self.expired = log, position, ""
        self._identity = log.identity()

    @property
    def positions(self) -> Positions:
        """Where the next call starts to read."""
        return {0: self._position}

    def records(self, at_most: int | None = None, upto: Positions | None = None) -> list[Record]:
        """Like `read`, with the log time and the place of each line; `upto`: only lines before this position."""
        return [record for records in self._new(self._appends, at_most, upto) for record in records]

    def _appends(self, start: int, end: int) -> list[Record]:
        data, found, first = self._log.read_bytes(start, end), [], start
        for last, log_time in self._log.append_ends_and_times(start, end):
            lines = _lines(data[first - start : last - start])
            places = self._log.places_of_lines(first, len(lines))
            found += [Record(log_time, "", line, place) for line, place in zip(lines, places)]
            first = last
        return found

    def read(self, at_most: int | None = None) -> list[str]:
        """The lines appended since the last call; if there are many, about `at_most`, in whole appends."""
        return [line for data in self._new(self._log.read_bytes, at_most) for line in _lines(data)]

    def _new(
        self, get: Callable[[int, int], T], at_most: int | None = None, upto: Positions | None = None
    ) -> list[T]:
        """Calls `get` with the new range, if there is one."""
        if self._is_replaced():
            self._position = self._log.start()
        while (end := upto[0] if upto else self._log.end()) > self._position:
            try:
                if at_most:
                    last = min(end, self._position + at_most * BYTES_A_RECORD)
                    end = min(end, self._log.append_ends_and_times(self._position, last)[-1][0])
                found = get(self._position, end)
            except PositionExpired:
                start = self._log.start()
                self.expired = expired_text(self._log, self.positions, {0: start})
                self._position = start
            else:
                self._position = end
                self._identity.note()
                return [found]
        return []

    def _is_replaced(self) -> bool:
        """Whether another log has taken the place of the one that was read."""
        if not self._identity.may_have_changed() or self._position <= self._log.start():
            return False
        try:
            return not (self._identity.is_kept() and self._log.begins_line(self._position))
        except PositionExpired:
            return False


def join_lines(lines: Iterable[str | bytes]) -> bytes:
    r"""Joins lines to the bytes of a segment. Raises TypeError for one text in place of a list, ValueError for a line that
    contains a line break, or is longer than the engine takes.

    >>> join_lines(["one", b"two\n"])
    b'one\ntwo\n'
    """
    if isinstance(lines, str | bytes):
        raise TypeError("one text, expected a list of lines")
    found = [(line.encode() if isinstance(line, str) else line).rstrip(b"\r\n") for line in lines]
    data = b"\n".join([*found, b""])
    if data.count(b"\n") != len(found):
        broken = next(line for line in found if b"\n" in line)
        raise ValueError(f"a record of several lines: {broken[:80]!r}, expected one line each")
    if len(data) > MAX_LINE_BYTES and (size := max(map(len, found))) > MAX_LINE_BYTES:
        raise ValueError(
            f"a record of {size} bytes, at most {MAX_LINE_BYTES} are allowed: store large values elsewhere, and their address in the record"
        )
    return data


def _lines(data: bytes) -> list[str]:
    return data.decode(errors="replace").split("\n")[:-1]
