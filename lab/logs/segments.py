"""The segments in a log's folder, and the current contents of the newest one.

    bases    0           8388700          16777301 ── last.end
             ├───────────┼────────────────┼─────────┤
    files    000….index  00…8388700.index  …  and .jsonl

A segment exists once its index exists. It begins where the previous one ends, so its name follows from the previous segment.
"""

import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from lab.logs.index import AppendRow, SegmentIndex

SEGMENT = re.compile(r"(\d{20})\.(jsonl|index)")
DATA = re.compile(r"(?i)\.(jsonl?|ndjson|csv|tsv|parquet|txt)(\.gz)?$")
BY_END, BY_LOG_TIME = attrgetter("end"), attrgetter("log_time")


class PositionExpired(ValueError):
    """The record at a position has expired. The message says where the log begins."""


class SegmentsSnapshot(NamedTuple):
    """A snapshot of a log: where its segments begin, and the newest segment's index: size, first and last row, and time of change."""

    bases: tuple[int, ...]
    size: int
    first: AppendRow
    last: AppendRow
    changed_ns: int = 0

    def base_of(self, position: int) -> int:
        """The segment that contains a position."""
        return self.bases[bisect_right(self.bases, position) - 1]


EMPTY = SegmentsSnapshot((0,), 0, AppendRow(0, 0), AppendRow(0, 0))


class Segments:
    """The segments of a folder, for any thread. The last snapshot is only a cache."""

    def __init__(self, folder: Path):
        self.folder, self._prefix = folder, str(folder / "_")[:-1]
        self._forget()

    def _forget(self) -> None:
        self._seen = EMPTY._replace(bases=self.list_bases() or EMPTY.bases)

    def segment_path(self, base: int, kind: str) -> str:
        """The path of a segment's `jsonl` or `index`."""
        return f"{self._prefix}{base:020d}.{kind}"

    def open_index(self, base: int, writing: bool = False) -> SegmentIndex:
        """A segment's index, open. Raises FileNotFoundError."""
        return SegmentIndex(self.segment_path(base, "index"), writing)

    def snapshot(self) -> SegmentsSnapshot:
        """A snapshot of the log. The cost depends on what has been appended since the last one."""
        bases, size, first, last, changed_ns = self._seen
        while True:
            try:
                found = os.stat(self.segment_path(bases[-1], "index"))
                if not size or (found.st_size, found.st_mtime_ns) != (size, changed_ns):
                    with self.open_index(bases[-1]) as index:
                        size, first, last = index.size, index[0], index[-1]
                    changed_ns = found.st_mtime_ns
            except FileNotFoundError:  # expired, or not created yet
                bases, size = self.list_bases(), 0
                if not bases:
                    return EMPTY
                continue
            if last.end == bases[-1] or not os.path.exists(self.segment_path(last.end, "index")):
                self._seen = SegmentsSnapshot(bases, size, first, last, changed_ns)
                return self._seen
            bases, size = (*bases, last.end), 0

    def snapshot_without_expired(self) -> SegmentsSnapshot:
        """The same, without expired segments."""
        while (seen := self.snapshot()).size and not os.path.exists(
            self.segment_path(seen.bases[0], "index")
        ):
            self._forget()
        return seen

    def end_before(self, before_ms: int) -> int:
        """The end of the lines logged before `before_ms`."""
        while (seen := self.snapshot_without_expired()).size:
            try:
                after = bisect_left(seen.bases, before_ms, key=self._first_log_time)
                if after == 0:
                    return seen.bases[0]
                with self.open_index(seen.bases[after - 1]) as index:
                    return index[bisect_left(index, before_ms, key=BY_LOG_TIME) - 1].end
            except FileNotFoundError:  # it has expired meanwhile
                self._forget()
        return 0

    def _first_log_time(self, base: int) -> int:
        with self.open_index(base) as index:
            return index[0].log_time

    def split_by_segment(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Splits a range of positions by segment: (segment, first position, end position). Raises ValueError."""
        if start >= end:
            return
        seen = self.snapshot()
        if end > seen.last.end:
            raise ValueError(f"{self.folder} ends at {seen.last.end}: there is no position {end} yet")
        with self.missing_file_as_expired(start):
            cuts = seen.bases[bisect_right(seen.bases, start) : bisect_left(seen.bases, end)]
        for first, last in zip([start, *cuts], [*cuts, end]):
            yield seen.base_of(first), first, last

    @contextmanager
    def missing_file_as_expired(self, position: int) -> Iterator[None]:
        """Turns a missing segment file into PositionExpired for the given position."""
        try:
            if position < self._seen.bases[0]:
                raise FileNotFoundError
            yield
        except FileNotFoundError:
            begins = self.snapshot_without_expired().bases[0]
            raise PositionExpired(
                f"{self.folder} no longer has position {position}: it begins at {begins}"
            ) from None

    def foreign_files(self) -> list[str]:
        """The paths of files of data in the folder that are not the log's, sorted."""
        names = os.listdir(self.folder) if os.path.isdir(self.folder) else []
        return sorted(
            os.path.join(self.folder, name)
            for name in names
            if DATA.search(name) and not SEGMENT.fullmatch(name)
        )

    def bytes_without_row(self) -> tuple[str, int]:
        """The newest segment's path, and how many bytes it has after the last append: more than 0 while one runs."""
        base, last = (seen := self.snapshot()).bases[-1], seen.last
        path = self.segment_path(base, "jsonl")
        return path, max(os.path.getsize(path) - (last.end - base), 0) if os.path.exists(path) else 0

    def list_bases(self) -> tuple[int, ...]:
        """Where the segments begin. Lists a folder again if it changed meanwhile: a listing may miss one of several new files."""
        if not os.path.isdir(self.folder):
            return ()
        before, names = None, os.listdir(self.folder)
        while names != before:
            before, names = names, os.listdir(self.folder)
        matches = filter(None, map(SEGMENT.fullmatch, names))
        return tuple(sorted(int(match[1]) for match in matches if match[2] == "index"))


def folder_version(folder: Path) -> tuple[int, int] | None:
    """Changes if another folder takes the place of a log's, and if files are made in it; None if there is none."""
    try:
        found = os.stat(folder)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_ctime_ns


class LogIdentity:
    """Tells a log from another one that takes its place in the folder: no other has a segment that begins at the same position and time."""

    def __init__(self, segments: Segments):
        self._segments, self._version = segments, folder_version(segments.folder)
        self.note()

    def note(self) -> None:
        """Notes the newest segment."""
        seen = self._segments.snapshot()
        self._newest = seen.bases[-1], seen.first.log_time

    def may_have_changed(self) -> bool:
        """Whether the folder is there and is another one since the last call, or has other files."""
        before, self._version = self._version, folder_version(self._segments.folder)
        return self._version not in (before, None)

    def is_kept(self) -> bool:
        """Whether the log has the segment that was noted."""
        base, log_time = self._newest
        try:
            with self._segments.open_index(base) as index:
                return index[0].log_time == log_time
        except FileNotFoundError:
            return False
