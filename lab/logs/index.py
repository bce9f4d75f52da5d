"""The index of a log's segment: a row for each append, and the row is what commits it.

    end position │ log time, ms │ writer │ number        four little-endian int64; writer 0: one that does not number

The first rows tell how things stood where the segment begins: the log time of its first append, then the last number of each
writer that numbers what it puts. So the newest segment tells all that a writer has to know.
`numpy.fromfile("events/00000000000000000000.index", "<i8").reshape(-1, 4)` shows one.
"""

import os
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import NamedTuple, Self

import numpy as np

NOBODY = 0
ROW = Struct("<4q")


class Row(NamedTuple):
    """The log ends at `end` with log time `log_time` (ms); the append was `number` of `writer`."""

    end: int
    log_time: int
    writer: int = NOBODY
    number: int = 0


class Index:
    """The whole rows of an index as a sequence: each is read from the file when asked for, so `bisect` reads few.

    Not mapped into memory: a writer that mends a log may cut the file, and a map would then end the process.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/0.index"
    >>> Index.create(path, [Row(0, 5), Row(8, 5)])
    >>> with Index(path) as index:
    ...     len(index), index[-1]
    (2, Row(end=8, log_time=5, writer=0, number=0))
    """

    def __init__(self, path: str, writing: bool = False):
        self._file = os.open(path, os.O_RDWR if writing else os.O_RDONLY)
        self.size = os.fstat(self._file).st_size
        self._rows = self.size // ROW.size

    @staticmethod
    def create(path: str, rows: Iterable[Row]) -> None:
        """Makes an index with its first rows; it appears whole. One writer at a time."""
        aside = Path(path).with_name(".next")
        aside.write_bytes(b"".join(ROW.pack(*row) for row in rows))
        os.rename(aside, path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        os.close(self._file)

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, number: int) -> Row:
        at = range(self._rows)[number] * ROW.size
        return Row._make(ROW.unpack(os.pread(self._file, ROW.size, at)))

    def table(self, first: int, end: int) -> np.ndarray:
        """The rows from one to before another, as an array of four columns."""
        raw = os.pread(self._file, (end - first) * ROW.size, first * ROW.size)
        return np.frombuffer(raw, "<i8").reshape(-1, 4)

    def numbers(self, first: int = 0) -> dict[int, int]:
        """The last number of each writer that has one in the rows from `first` on."""
        rows = self.table(first, self._rows)
        rows = rows[rows[:, 2] != NOBODY]
        return dict(zip(rows[:, 2].tolist(), rows[:, 3].tolist()))

    def append(self, row: Row) -> None:
        """Writes a row behind the last whole one. It lies in one page of memory, so readers see it whole or not at all."""
        write_at(self._file, ROW.pack(*row), self._rows * ROW.size)

    def cut(self, rows: int) -> None:
        """Leaves so many rows, and nothing behind them."""
        os.ftruncate(self._file, rows * ROW.size)


def writer_id(name: str) -> int:
    """The number that stands for a writer in an index."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little", signed=True) or 1


def write_at(file: int, data: bytes, at: int) -> None:
    """Writes all of the data at a place of an open file; in one go below 2 GiB."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(file, rest, at)
        rest, at = rest[written:], at + written
