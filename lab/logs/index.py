"""The index of a log's segment: a row for each append, and the row is what commits it.

    end position │ log time, ms │ writer │ number        four little-endian int64; writer 0: one that does not number

Before the row of a numbered append stands one without lines, of the writer's complement: the same number, and above its 32 bits
a fingerprint of what the append was made of. Logs of earlier versions have no such rows.

The first rows tell how things stood where the segment begins: the log time of its first append, then the last number of each
writer that numbers what it puts. So the newest segment tells all that a writer has to know.
`numpy.fromfile("events/00000000000000000000.index", "<i8").reshape(-1, 4)` shows one.
"""

import os
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, Self

from lab.logs.access import opener

if TYPE_CHECKING:
    import numpy as np

NOBODY = 0
ROW = Struct("<4q")
NUMBER_BITS = 32
ROWS_AT_ONCE = 64  # that are looked through for a writer's last ones


class OtherBatch(ValueError):
    """A log has another batch of this number, or a later one."""


class Row(NamedTuple):
    """The log ends at `end` with log time `log_time` (ms); the append was `number` of `writer`."""

    end: int
    log_time: int
    writer: int = NOBODY
    number: int = 0


class Batch(NamedTuple):
    """An append that its writer has numbered. `fingerprint`: of what it was made of, 31 bits; None: nobody knows.

    `since`: (number, fingerprint) of appends that its writer puts again, as it may have put them all before: a log that has a
    later one of them has this one.
    """

    writer: int
    number: int
    fingerprint: int | None = None
    since: frozenset[tuple[int, int]] = frozenset()

    def is_in(self, last: "Batch | None") -> bool:
        """Whether a log has it whose last batch of the writer is `last`. Raises OtherBatch: writers count upwards.

        >>> Batch(1, 7, 99).is_in(None), Batch(1, 7, 99).is_in(Batch(1, 6, 99)), Batch(1, 7, 99).is_in(Batch(1, 7, 99))
        (False, False, True)
        >>> Batch(1, 7, 99).is_in(Batch(1, 7))  # as an earlier version wrote it
        True
        >>> Batch(1, 7, 99, since=frozenset({(8, 11)})).is_in(Batch(1, 8, 11))
        True
        >>> Batch(1, 7, 99).is_in(Batch(1, 8, 99))
        Traceback (most recent call last):
        lab.logs.index.OtherBatch: has batch 8 of this writer already, so it does not take batch 7
        """
        if last is None or last.number < self.number:
            return False
        if last.number > self.number and (last.number, last.fingerprint) in self.since:
            return True
        if last.number > self.number:
            raise OtherBatch(
                f"has batch {last.number} of this writer already, so it does not take batch {self.number}"
            )
        if last.fingerprint not in (None, self.fingerprint):
            raise OtherBatch(f"has another batch {self.number} of this writer already")
        return True

    def rows(self, start: int, end: int, log_time: int) -> list[Row]:
        """The rows of its append.

        >>> [row.number for row in Batch(5, 7, fingerprint=3).rows(0, 9, log_time=100)] == [3 * 2**32 + 7, 7]
        True
        """
        row = Row(end, log_time, self.writer, self.number)
        if self.fingerprint is None:
            return [row]
        return [Row(start, log_time, ~self.writer, self.fingerprint << NUMBER_BITS | self.number), row]


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
        with open(aside, "wb", opener=opener) as file:
            file.write(b"".join(ROW.pack(*row) for row in rows))
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

    def table(self, first: int, end: int) -> "np.ndarray":
        """The rows from one to before another, as an array of four columns."""
        import numpy as np

        return np.frombuffer(self._raw(first, end), "<i8").reshape(-1, 4)

    def rows(self, first: int, end: int) -> list[Row]:
        """The rows from one to before another."""
        return [Row._make(row) for row in ROW.iter_unpack(self._raw(first, end))]

    def _raw(self, first: int, end: int) -> bytes:
        return os.pread(self._file, (end - first) * ROW.size, first * ROW.size)

    def numbers(self) -> dict[int, int]:
        """The last number of each writer.

        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/0.index"
        >>> Index.create(path, [Row(0, 5, 8, 1), Row(4, 5), Row(8, 5, 7, 3), Row(9, 6, 7, 4)])
        >>> with Index(path) as index:
        ...     index.numbers()
        {8: 1, 7: 4}
        """
        rows = ROW.iter_unpack(self._raw(0, self._rows))
        return {writer: number for _, _, writer, number in rows if writer != NOBODY}

    def last_batch(self, writer: int) -> Batch | None:
        """The last batch of a writer; looks through the newest rows first, as it mostly is there."""
        batch, end = None, self._rows
        while end:
            first = max(end - ROWS_AT_ONCE, 0)
            rows = self.rows(first, end)[::-1]
            if batch is None:
                batch = next((Batch(writer, row.number) for row in rows if row.writer == writer), None)
            if batch:
                for row in rows:
                    if row.writer == ~writer and row.number % (1 << NUMBER_BITS) == batch.number:
                        return batch._replace(fingerprint=row.number >> NUMBER_BITS)
            end = first
        return batch

    def append(self, rows: Iterable[Row]) -> None:
        """Writes rows behind the last whole one. Each lies in one page of memory, so readers see it whole or not at all."""
        write_at(self._file, b"".join(ROW.pack(*row) for row in rows), self._rows * ROW.size)

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
