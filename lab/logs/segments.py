"""The segments in a log's folder: which there are, and what the newest one holds by now.

    bases    0           8388700          16777301 ── last.end
             ├───────────┼────────────────┼─────────┤
    files    000….index  00…8388700.index  …  and .jsonl

A segment is there when its index is. It begins where the one before ends, so whoever knows one finds the next by its name.
"""

import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from lab.logs.index import Index, Row

SEGMENT = re.compile(r"(\d{20})\.(jsonl|index)")
OLD_SEGMENT = re.compile(r"\d{13}-\d{8}\.jsonl")
BY_END, BY_LOG_TIME = attrgetter("end"), attrgetter("log_time")


class LogExpired(ValueError):
    """A position is older than what a log still keeps; the message says where it begins."""


class Seen(NamedTuple):
    """A log at one moment: where its segments begin, and of the newest one the bytes of its index, its first and last row."""

    bases: tuple[int, ...]
    size: int
    first: Row
    last: Row

    def base_of(self, position: int) -> int:
        """The segment that a position lies in."""
        return self.bases[bisect_right(self.bases, position) - 1]


EMPTY = Seen((0,), 0, Row(0, 0), Row(0, 0))


class Segments:
    """The segments of a folder. Any thread may ask: what was seen last only saves work.

    Raises ValueError for a log of an older layout.
    """

    def __init__(self, folder: Path):
        self._folder, self._prefix = folder, str(folder / "_")[:-1]
        self._forget()

    def _forget(self) -> None:
        self._seen = EMPTY._replace(bases=self.listed() or EMPTY.bases)

    def file(self, base: int, kind: str) -> str:
        """The path of a segment's `jsonl` or `index`."""
        return f"{self._prefix}{base:020d}.{kind}"

    def index(self, base: int, writing: bool = False) -> Index:
        """A segment's index, open. Raises FileNotFoundError."""
        return Index(self.file(base, "index"), writing)

    def look(self) -> Seen:
        """The log as it is now: a glance if nothing happened, and else the work of what is new."""
        bases, size, first, last = self._seen
        while True:
            try:
                if os.stat(self.file(bases[-1], "index")).st_size != size:
                    with self.index(bases[-1]) as index:
                        size, first, last = index.size, index[0], index[-1]
            except FileNotFoundError:  # expired, or there is none yet
                bases, size = self.listed(), 0
                if not bases:
                    return EMPTY
                continue
            if last.end == bases[-1] or not os.path.exists(self.file(last.end, "index")):
                self._seen = Seen(bases, size, first, last)
                return self._seen
            bases, size = (*bases, last.end), 0

    def kept(self) -> Seen:
        """The same, without segments that have expired."""
        while (seen := self.look()).size and not os.path.exists(self.file(seen.bases[0], "index")):
            self._forget()
        return seen

    def end(self, before_ms: int) -> int:
        """Where the log ends if one leaves out what was logged at `before_ms` and later."""
        while (seen := self.kept()).size:
            try:
                after = bisect_left(seen.bases, before_ms, key=self._first_log_time)
                if after == 0:
                    return seen.bases[0]
                with self.index(seen.bases[after - 1]) as index:
                    return index[bisect_left(index, before_ms, key=BY_LOG_TIME) - 1].end
            except FileNotFoundError:  # expired meanwhile
                self._forget()
        return 0

    def _first_log_time(self, base: int) -> int:
        with self.index(base) as index:
            return index[0].log_time

    def parts(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """(segment, position, position) of each segment's part of what lies between two positions. Raises ValueError."""
        if start >= end:
            return
        seen = self.look()
        if end > seen.last.end:
            raise ValueError(f"{self._folder} ends at {seen.last.end}: there is no position {end} yet")
        with self.or_expired(start):
            cuts = seen.bases[bisect_right(seen.bases, start) : bisect_left(seen.bases, end)]
        for first, last in zip([start, *cuts], [*cuts, end]):
            yield seen.base_of(first), first, last

    @contextmanager
    def or_expired(self, position: int) -> Iterator[None]:
        """What is done in it may find that the segment of a position is gone: raises LogExpired."""
        try:
            if position < self._seen.bases[0]:
                raise FileNotFoundError
            yield
        except FileNotFoundError:
            begins = self.kept().bases[0]
            raise LogExpired(
                f"{self._folder} no longer has position {position}: it begins at {begins}"
            ) from None

    def listed(self) -> tuple[int, ...]:
        """Where the segments begin. A folder that changes is listed again: of several new files one might lack."""
        if not os.path.isdir(self._folder):
            return ()
        before, names = None, os.listdir(self._folder)
        while names != before:
            before, names = names, os.listdir(self._folder)
        if old := next(filter(OLD_SEGMENT.fullmatch, names), None):
            raise ValueError(f"{self._folder} is a log of an older layout ({old}): name an empty folder")
        matches = filter(None, map(SEGMENT.fullmatch, names))
        return tuple(sorted(int(match[1]) for match in matches if match[2] == "index"))
