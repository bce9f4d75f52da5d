"""What writers do in a log's folder, one at a time: lines first, then the row of the index that makes them count.

    lock ──► mend what a dead writer left ──► numbered, and there already? ──► roll, expire ──► lines ──► row ──► unlock

A writer may die between any two of these: the next one finds whole appends and, behind them, what to cut off.
"""

import fcntl
import os
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lab.logs.index import NOBODY, Index, Row, write_at
from lab.logs.segments import BY_END, SEGMENT, Seen, Segments

SEGMENT_BYTES = 8 << 20
DAY_MS = 86_400_000


class Writer:
    """Appends to the segments of a folder; see `FileLog` for `keep_ms`."""

    def __init__(self, folder: Path, segments: Segments, keep_ms: int | None):
        self._folder, self._segments, self._keep_ms = folder, segments, keep_ms
        # segment, rows read of it, writer -> number
        self._numbers: tuple[int, int, dict[int, int]] = (
            0,
            0,
            {},
        )

    def write(self, data: bytes, log_time_ms: int | None, writer: int = NOBODY, number: int = 0) -> int:
        """Appends lines, all or none, unless the log has this or a later number of the writer; returns where they begin."""
        if not os.path.isdir(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            seen = self._mended()
            if writer != NOBODY and self._has(seen, writer, number):
                return seen.last.end
            seen = self._rolled(seen, _log_time(log_time_ms))
            base, start = seen.bases[-1], seen.last.end
            with self._segments.index(base, writing=True) as index:
                self._write_lines(base, start, data)
                # now and not before: writing takes a while, and who asks for a log time's end meanwhile must not miss this
                log_time = max(seen.last.log_time, _log_time(log_time_ms))
                index.append(Row(start + len(data), log_time, writer, number))
            return start

    def expire(self, keep_ms: int) -> None:
        """Removes the oldest segments, as far as all of each is older than the newest line by more than `keep_ms`."""
        with suppress(FileNotFoundError), self._locked():
            self._expire(keep_ms)

    def wait(self) -> None:
        """Comes back when whatever was being written is there."""
        with suppress(FileNotFoundError), self._locked():
            pass

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self._folder / "lock", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                yield
            finally:  # closing is not enough if a process was forked meanwhile
                fcntl.flock(lock, fcntl.LOCK_UN)

    def _mended(self) -> Seen:
        """The log, without the lines that no row commits; and, after a power cut, without rows whose lines are lost."""
        seen = self._segments.look()
        base, lines = seen.bases[-1], self._segments.file(seen.bases[-1], "jsonl")
        if not seen.size:
            return seen
        held = base + os.path.getsize(lines)
        if held == seen.last.end:
            return seen
        with self._segments.index(base, writing=True) as index:
            rows = bisect_right(index, held, key=BY_END)
            os.truncate(lines, index[rows - 1].end - base)
            index.cut(rows)
        return self._segments.look()

    def _has(self, seen: Seen, writer: int, number: int) -> bool:
        if not seen.size:
            return False
        of, rows, numbers = self._numbers
        if of != seen.bases[-1]:
            rows, numbers = 0, {}
        with self._segments.index(seen.bases[-1]) as index:
            numbers |= index.numbers(rows)
            self._numbers = seen.bases[-1], len(index), numbers
        return writer in numbers and numbers[writer] >= number

    def _rolled(self, seen: Seen, log_time: int) -> Seen:
        """The log, with a new segment if it is time for one."""
        held = seen.last.end - seen.bases[-1]
        due = held >= SEGMENT_BYTES or log_time - seen.first.log_time > DAY_MS
        if seen.size and not (held and due):
            return seen
        numbers: dict[int, int] = {}
        if seen.size:
            with self._segments.index(seen.bases[-1]) as index:
                numbers = index.numbers()
        begins = Row(seen.last.end, max(seen.last.log_time, log_time))
        Path(self._segments.file(begins.end, "jsonl")).touch()
        rows = [begins, *(begins._replace(writer=of, number=last) for of, last in numbers.items())]
        Index.create(self._segments.file(begins.end, "index"), rows)  # from here on the segment is there
        if self._keep_ms is not None:
            self._expire(self._keep_ms)
        return self._segments.look()

    def _write_lines(self, base: int, position: int, data: bytes) -> None:
        file = os.open(self._segments.file(base, "jsonl"), os.O_WRONLY)
        try:
            write_at(file, data, position - base)
        finally:
            os.close(file)

    def _expire(self, keep_ms: int) -> None:
        seen = self._segments.kept()
        *old, newest = seen.bases
        oldest_ms = seen.last.log_time - keep_ms
        kept = next((base for base in old if self._newest_log_time(base) >= oldest_ms), newest)
        # an index before its lines, so that a segment that has one can be read
        for name in sorted(os.listdir(self._folder)):
            if SEGMENT.fullmatch(name) and int(name[:20]) < kept:
                os.unlink(self._folder / name)

    def _newest_log_time(self, base: int) -> int:
        with self._segments.index(base) as index:
            return index[-1].log_time


def _log_time(told_ms: int | None) -> int:
    return time.time_ns() // 1_000_000 if told_ms is None else told_ms
