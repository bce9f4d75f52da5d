"""Appends to a log's folder, one writer at a time: first the lines, then the index row that commits them.

    lock ──► repair after a dead writer ──► a batch that is there? ──► roll, expire ──► lines ──► row ──► unlock

A writer may die between any two steps. The next one finds complete appends, followed by bytes that it truncates.
"""

import os
from bisect import bisect_right
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from lab.logs.access import file_lock, make_folder, private_file_opener
from lab.logs.index import AppendRow, Batch, BatchConflict, SegmentIndex, write_at
from lab.logs.positions import StartPosition
from lab.logs.segments import BY_END, SEGMENT, Segments, SegmentsSnapshot
from lab.model.formatting import file_named_in_errors
from lab.model.times import DAY_MS, now_ms

SEGMENT_BYTES = 8 << 20


class Writer:
    """Appends to the segments of a folder; see `FileLog` for `retention_ms`."""

    def __init__(self, folder: Path, segments: Segments, retention_ms: int | None):
        self._folder, self._segments, self._retention_ms = folder, segments, retention_ms

    def append_lines(
        self, lines: bytes, log_time_ms: int | None, batch: Batch | None = None
    ) -> StartPosition:
        """Appends all lines or none, and skips a batch that the log has; returns the first line's position. Raises BatchConflict.

        `lines`: each with its line end, as `join_lines` gives them.
        """
        if not os.path.isdir(self._folder):
            make_folder(self._folder)
        with file_named_in_errors(self._folder), self._locked():
            seen = self._mended()
            if batch and self._has(batch):
                return seen.last.end
            seen = self._rolled(seen, _log_time(log_time_ms))
            base, start = seen.bases[-1], seen.last.end
            with self._segments.open_index(base, writing=True) as index:
                self._write_lines(base, start, lines)
                # taken after writing, which takes a while: a reader that meanwhile asks for the end at a log time must not miss these lines
                log_time = max(seen.last.log_time, _log_time(log_time_ms))
                end = start + len(lines)
                index.append(batch.rows(start, end, log_time) if batch else [AppendRow(end, log_time)])
            return start

    def last_batch(self, writer: int) -> Batch | None:
        """The last batch of a writer in the log, from the newest segment."""
        seen = self._segments.snapshot()
        if not seen.size:
            return None
        with self._segments.open_index(seen.bases[-1]) as index:
            return index.last_batch(writer)

    def expire(self, retention_ms: int) -> None:
        """Removes the oldest segments if all their lines are older than the newest line by more than `retention_ms`."""
        with suppress(FileNotFoundError), self._locked():
            self._expire(retention_ms)

    def wait_for_append(self) -> None:
        """Waits until a running append has finished."""
        with suppress(FileNotFoundError), self._locked():
            pass

    def _locked(self) -> AbstractContextManager[bool]:
        return file_lock(self._folder / "lock")

    def _mended(self) -> SegmentsSnapshot:
        """Removes lines without a row and, after a power failure, rows without lines; returns the log."""
        seen = self._segments.snapshot()
        base, lines = seen.bases[-1], self._segments.segment_path(seen.bases[-1], "jsonl")
        if not seen.size:
            return seen
        end = base + os.path.getsize(lines)
        if end == seen.last.end:
            return seen
        with self._segments.open_index(base, writing=True) as index:
            rows = bisect_right(index, end, key=BY_END)
            os.truncate(lines, index[rows - 1].end - base)
            index.truncate(rows)
        return self._segments.snapshot()

    def _has(self, batch: Batch) -> bool:
        try:
            return batch.is_in(self.last_batch(batch.writer))
        except BatchConflict as error:
            raise BatchConflict(
                f"{self._folder} {error}: its checkpoint was put back, see Upgrades in docs/operations.md"
            ) from None

    def _rolled(self, seen: SegmentsSnapshot, log_time: int) -> SegmentsSnapshot:
        """Starts a new segment if one is due; returns the log."""
        segment_bytes = seen.last.end - seen.bases[-1]
        due = segment_bytes >= SEGMENT_BYTES or log_time - seen.first.log_time > DAY_MS
        if seen.size and not (segment_bytes and due):
            return seen
        numbers: dict[int, int] = {}
        if seen.size:
            with self._segments.open_index(seen.bases[-1]) as index:
                numbers = index.last_number_by_writer()
        begins = AppendRow(seen.last.end, max(seen.last.log_time, log_time))
        open(self._segments.segment_path(begins.end, "jsonl"), "ab", opener=private_file_opener).close()
        rows = [begins, *(begins._replace(writer=of, number=last) for of, last in numbers.items())]
        SegmentIndex.create(
            self._segments.segment_path(begins.end, "index"), rows
        )  # from here on the segment exists
        if self._retention_ms is not None:
            self._expire(self._retention_ms)
        return self._segments.snapshot()

    def _write_lines(self, base: int, position: int, lines: bytes) -> None:
        file = os.open(self._segments.segment_path(base, "jsonl"), os.O_WRONLY)
        try:
            write_at(file, lines, position - base)
        finally:
            os.close(file)

    def _expire(self, retention_ms: int) -> None:
        seen = self._segments.snapshot_without_expired()
        *old, newest = seen.bases
        oldest_ms = seen.last.log_time - retention_ms
        kept = next((base for base in old if self._newest_log_time(base) >= oldest_ms), newest)
        # the index before the lines, so that a segment with an index can be read
        for name in sorted(os.listdir(self._folder)):
            if SEGMENT.fullmatch(name) and int(name[:20]) < kept:
                os.unlink(self._folder / name)

    def _newest_log_time(self, base: int) -> int:
        with self._segments.open_index(base) as index:
            return index[-1].log_time


def _log_time(told_ms: int | None) -> int:
    return now_ms() if told_ms is None else told_ms
