"""Logs as folders of files that grow: readable JSON lines, no server needed.

    events/00000000000000000000.jsonl    the lines; a segment is named by the position of its first byte in the whole log
    events/00000000000000000000.index    how far the log went with each append, and when, see `lab.logs.index`
    events/00000000000008388700.jsonl    the next segment, begun after 8 MiB or a day

A position is a byte of the whole log. Writers come one at a time; readers take no lock and look no further than the index says. So
positions and log times are one order, whatever the number of writers, and what is appended, tailed or asked for costs only itself.
What was appended outlives its process, not a power cut: as with Kafka, nothing waits for the disk.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lab.logs.access import make_folder
from lab.logs.index import Batch, Index, writer_id
from lab.logs.positions import Positions, Record, checked_positions
from lab.logs.segments import BY_END, LogExpired, Segments
from lab.logs.writer import DAY_MS, Writer

if TYPE_CHECKING:
    import numpy as np

WEEK_MS = 7 * DAY_MS
BYTES_A_RECORD = 128  # of lines count as one record
T = TypeVar("T")


class FileLog:
    """A log in a folder, for any number of writers and readers, in threads and processes. Reading makes no folder.

    `keep_ms`: when a segment begins, those go whose lines are all older than the newest line by more than that; None: none goes.
    Raises ValueError for a folder of an older layout.

    >>> import tempfile
    >>> log = FileLog(Path(tempfile.mkdtemp()) / "control")
    >>> log.append(["one", "two"], log_time_ms=5), log.append(["three"], log_time_ms=7)
    (0, 8)
    >>> log.data(0, log.end(before_ms=7)), log.place(4)
    (b'one\\ntwo\\n', 'control/00000000000000000000.jsonl:2')
    >>> tail = log.tail()
    >>> tail.read(), tail.read()
    (['one', 'two', 'three'], [])
    """

    def __init__(self, folder: Path | str, keep_ms: int | None = None):
        self.folder = Path(folder)
        self._segments = Segments(self.folder)
        self._writer = Writer(self.folder, self._segments, keep_ms)
        self._counted = (0, 0, 1)  # segment, a position in it, the number of the line that begins there

    def __repr__(self) -> str:
        return str(self.folder)

    def create(self) -> None:
        """Makes the folder unless it is there."""
        make_folder(self.folder)

    def close(self) -> None:
        """Nothing is open."""

    def append(self, lines: Iterable[str | bytes], log_time_ms: int | None = None) -> int:
        """Writes lines, all or none; returns the position of the first. Log time is now, or as told, but never goes back."""
        data = joined(lines)
        return self._writer.write(data, log_time_ms) if data else self.end()

    def publish(self, lines: Sequence[str | bytes], keys: Sequence[str]) -> list[str]:
        """Appends; returns the place of each line, as `place` gives it. Files have no keys."""
        return self.places(self.append(lines), len(lines)) if lines else []

    def places(self, position: int, count: int) -> list[str]:
        """The places of the lines of one append, which begins at a position."""
        name, _, first = self.place(position).rpartition(":")
        return [f"{name}:{number}" for number in range(int(first), int(first) + count)]

    def put(
        self,
        writer: str,
        number: int,
        data: bytes,
        fingerprint: int,
        since: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:
        """Appends batch `number`, `joined` lines, of a writer that counts upwards; nothing if the log has it.

        `fingerprint`: of what the batch was made of, 31 bits; `data` may have other times when it is put again. Raises
        OtherBatch if the log has another batch of this number, or a later one that is not in `since`: (number, fingerprint)
        of those that the writer puts again.
        """
        if data:
            self._writer.write(data, None, Batch(writer_id(writer), number, fingerprint, since))

    def last_batch(self, writer: str) -> Batch | None:
        """The last batch of a writer that the log has; None if it has none."""
        return self._writer.last_batch(writer_id(writer))

    def expire(self, keep_ms: int) -> None:
        """Removes the oldest segments, as far as all of each is older than the newest line by more than `keep_ms`."""
        self._writer.expire(keep_ms)

    def start(self) -> int:
        """The oldest position that is kept."""
        return self._segments.kept().bases[0]

    def end(self, before_ms: int | None = None) -> int:
        """The position up to which all was logged before `before_ms`, or all; `start()` if nothing that is kept was."""
        last = self._segments.look().last
        return last.end if before_ms is None or last.log_time < before_ms else self._segments.end(before_ms)

    def settled_end(self) -> int:
        """The end, once what is being written is there: all that was given its log time before the call."""
        self._writer.wait()
        return self.end()

    def spans(self, start: int, end: int) -> "tuple[np.ndarray, np.ndarray]":
        """End positions and log times of the appends that lie between two positions, if only in part, so the last may go further.

        Raises LogExpired, or ValueError beyond the end of the log.
        """
        import numpy as np

        tables = [np.empty((0, 4), np.int64), *self._rows(start, end, Index.table)]
        ends, log_times = np.concatenate(tables)[:, :2].T
        appends = np.diff(ends, prepend=-1) > 0  # but no rows without lines
        return ends[appends], log_times[appends]

    def appends(self, start: int, end: int) -> list[tuple[int, int]]:
        """The same as pairs of numbers, for readers of a few lines.

        >>> import tempfile
        >>> log = FileLog(Path(tempfile.mkdtemp()))
        >>> log.append(["one", "two"], log_time_ms=5), log.append(["three"], log_time_ms=7)
        (0, 8)
        >>> log.appends(0, 14)
        [(8, 5), (14, 7)]
        """
        found: dict[int, int] = {}  # by end: a row without lines ends where the one before does
        for rows in self._rows(start, end, Index.rows):
            for row in rows:
                found.setdefault(row.end, row.log_time)
        return list(found.items())

    def _rows(self, start: int, end: int, get: Callable[[Index, int, int], T]) -> Iterator[T]:
        """What `get` gives of the rows of each segment's index that lie between two positions."""
        for base, first, last in self._segments.parts(start, end):
            with self._segments.or_expired(start), self._segments.index(base) as index:
                rows = bisect_right(index, first, key=BY_END), bisect_left(index, last, key=BY_END) + 1
                yield get(index, *rows)

    def data(self, start: int, end: int) -> bytes:
        """The bytes between two positions. Raises LogExpired, or ValueError beyond the end."""
        parts = []
        for base, first, last in self._segments.parts(start, end):
            with self._segments.or_expired(start), open(self._segments.file(base, "jsonl"), "rb") as file:
                file.seek(first - base)
                parts.append(file.read(last - first))
            if len(parts[-1]) < last - first:
                raise ValueError(
                    f"{file.name} is shorter than its index says: only a FileLog may write there"
                )
        return b"".join(parts)

    def place(self, position: int) -> str:
        """The line that begins at a position, for people: `events/00000000000000000000.jsonl:17`. Raises LogExpired."""
        base = self._segments.look().base_of(position)
        of, at, number = self._counted
        if of != base or at > position:
            at, number = base, 1
        with self._segments.or_expired(position), open(self._segments.file(base, "jsonl"), "rb") as file:
            file.seek(at - base)
            while chunk := file.read(min(1 << 20, position - at)):
                number += chunk.count(b"\n")
                at += len(chunk)
        self._counted = (base, at, number)
        return f"{self.folder.name}/{Path(file.name).name}:{number}"

    def read(self) -> list[str]:
        """All lines of the log."""
        return self.tail().read()

    def newest(self, at_most: int) -> list[str]:
        """Some of the newest lines: what the last `at_most` KiB hold whole."""
        begins, end = self.start(), self.end()
        start = max(begins, end - at_most * 1024)
        return _lines(self.data(start, end))[start > begins :]

    def tail(self, new: bool = False, at: Positions | None = None) -> "Tail":
        """A reader that starts at the oldest line; `new`: at the next one to come; `at`: at a position, else raises ValueError."""
        position = self.end() if new else self.start()
        if at is not None:
            position = checked_positions(self, at, {0: self.start()}, {0: self.end()})[0]
            if position > self.start() and self.data(position - 1, position) != b"\n":
                raise ValueError(f"{self}: no line begins at position {position}")
        return Tail(self, position)


class Tail:
    """Reads a log as it grows, each line once. Where lines expire before they are read, it goes on with those that are kept."""

    def __init__(self, log: FileLog, position: int):
        self._log, self._position = log, position

    @property
    def positions(self) -> Positions:
        """Where the next call begins."""
        return {0: self._position}

    def records(self, at_most: int | None = None) -> list[Record]:
        """As `read`, with the log time of each line's append and its place."""
        return [record for records in self._new(self._appends, at_most) for record in records]

    def _appends(self, start: int, end: int) -> list[Record]:
        data, found, first = self._log.data(start, end), [], start
        for last, log_time in self._log.appends(start, end):
            lines = _lines(data[first - start : last - start])
            places = self._log.places(first, len(lines))
            found += [Record(log_time, "", line, place) for line, place in zip(lines, places)]
            first = last
        return found

    def read(self, at_most: int | None = None) -> list[str]:
        """The lines that came since the last call; about `at_most`, if there are more: whole appends."""
        return [line for data in self._new(self._log.data, at_most) for line in _lines(data)]

    def _new(self, get: Callable[[int, int], T], at_most: int | None = None) -> list[T]:
        """What there is to get of what is new, if anything is."""
        while (end := self._log.end()) > self._position:
            try:
                if at_most:
                    upto = min(end, self._position + at_most * BYTES_A_RECORD)
                    end = self._log.appends(self._position, upto)[-1][0]
                found = get(self._position, end)
            except LogExpired:
                self._position = self._log.start()
            else:
                self._position = end
                return [found]
        return []

    def close(self) -> None:
        """Nothing is open."""


def joined(lines: Iterable[str | bytes]) -> bytes:
    r"""Lines as they stand in a segment. Raises ValueError for one that is several.

    >>> joined(["one", b"two\n"])
    b'one\ntwo\n'
    """
    found = [(line.encode() if isinstance(line, str) else line).rstrip(b"\r\n") for line in lines]
    data = b"\n".join([*found, b""])
    if data.count(b"\n") != len(found):
        broken = next(line for line in found if b"\n" in line)
        raise ValueError(f"a record of several lines: {broken[:80]!r}, expected one line each")
    return data


def _lines(data: bytes) -> list[str]:
    return data.decode(errors="replace").split("\n")[:-1]
