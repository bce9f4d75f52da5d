"""The index of a log segment: one row for each append. Writing the row commits the append.

    end position │ log time, ms │ writer │ number        four little-endian int64; writer 0 does not number its appends

The row of a numbered append follows a row without lines, whose writer is the complement: it has the same number and, above its
32 bits, a fingerprint of the append's input. Logs of earlier versions do not have these rows.

The first rows hold the state at the beginning of the segment: the log time of its first append, then the last number of each
numbering writer. So a writer needs the newest segment only.
`numpy.fromfile("events/00000000000000000000.index", "<i8").reshape(-1, 4)` shows one.
"""

import os
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, Self

from lab.logs.access import private_file_opener

if TYPE_CHECKING:
    import numpy as np

NOBODY = 0
ROW = Struct("<4q")
NUMBER_BITS = 32
ROWS_AT_ONCE = 64  # that are looked through for a writer's last ones


class BatchConflict(ValueError):
    """A log has a different batch with this number, or a later batch."""


class AppendRow(NamedTuple):
    """An append: the log then ends at `end`, at log time `log_time` (ms); it was append `number` of `writer`."""

    end: int
    log_time: int
    writer: int = NOBODY
    number: int = 0


class Batch(NamedTuple):
    """A numbered append. `fingerprint`: 31 bits that identify its input; None: unknown.

    `repeated_batches`: (number, fingerprint) of the appends that the writer puts again. It may have put all of them before, so a log that
    has a later one of them also has this one.
    """

    writer: int
    number: int
    fingerprint: int | None = None
    repeated_batches: frozenset[tuple[int, int]] = frozenset()

    def is_in(self, last: "Batch | None") -> bool:
        """Whether a log contains this append, given the writer's last one in the log. Raises BatchConflict.

        >>> Batch(1, 7, 99).is_in(None), Batch(1, 7, 99).is_in(Batch(1, 6, 99)), Batch(1, 7, 99).is_in(Batch(1, 7, 99))
        (False, False, True)
        >>> Batch(1, 7, 99).is_in(Batch(1, 7))  # as an earlier version wrote it
        True
        >>> Batch(1, 7, 99, repeated_batches=frozenset({(8, 11)})).is_in(Batch(1, 8, 11))
        True
        >>> Batch(1, 7, 99).is_in(Batch(1, 8, 99))
        Traceback (most recent call last):
        lab.logs.index.BatchConflict: has batch 8 of this writer already, so it does not take batch 7
        """
        if last is None or last.number < self.number:
            return False
        if last.number > self.number and (last.number, last.fingerprint) in self.repeated_batches:
            return True
        if last.number > self.number:
            raise BatchConflict(
                f"has batch {last.number} of this writer already, so it does not take batch {self.number}"
            )
        if last.fingerprint not in (None, self.fingerprint):
            raise BatchConflict(f"has another batch {self.number} of this writer already")
        return True

    def rows(self, start: int, end: int, log_time: int) -> list[AppendRow]:
        """The index rows of this append.

        >>> [row.number for row in Batch(5, 7, fingerprint=3).rows(0, 9, log_time=100)] == [3 * 2**32 + 7, 7]
        True
        """
        row = AppendRow(end, log_time, self.writer, self.number)
        if self.fingerprint is None:
            return [row]
        return [AppendRow(start, log_time, ~self.writer, self.fingerprint << NUMBER_BITS | self.number), row]


class SegmentIndex:
    """The complete rows of an index, as a sequence. A row is read from the file when it is accessed, so `bisect` reads few.

    It is not memory-mapped: a writer that repairs a log may truncate the file, and accessing a map would then kill the process.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/0.index"
    >>> SegmentIndex.create(path, [AppendRow(0, 5), AppendRow(8, 5)])
    >>> with SegmentIndex(path) as index:
    ...     len(index), index[-1]
    (2, AppendRow(end=8, log_time=5, writer=0, number=0))
    """

    def __init__(self, path: str, writing: bool = False):
        self._file = os.open(path, os.O_RDWR if writing else os.O_RDONLY)
        self.size = os.fstat(self._file).st_size
        self._rows = self.size // ROW.size
        if not self._rows:
            os.close(self._file)
            raise ValueError(
                f"{path}: {self.size} bytes, an index has at least {ROW.size}: the file is damaged"
            )

    @staticmethod
    def create(path: str, rows: Iterable[AppendRow]) -> None:
        """Creates an index with its first rows, atomically. One writer at a time."""
        aside = Path(path).with_name(".next")
        with open(aside, "wb", opener=private_file_opener) as file:
            file.write(b"".join(ROW.pack(*row) for row in rows))
        os.rename(aside, path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        os.close(self._file)

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, number: int) -> AppendRow:
        at = range(self._rows)[number] * ROW.size
        return AppendRow._make(ROW.unpack(os.pread(self._file, ROW.size, at)))

    def rows_array(self, first: int, end: int) -> "np.ndarray":
        """Rows `first` up to, but not including, `end`, as an array with four columns."""
        import numpy as np

        return np.frombuffer(self._raw(first, end), "<i8").reshape(-1, 4)

    def rows(self, first: int, end: int) -> list[AppendRow]:
        """The rows from one to before another."""
        return [AppendRow._make(row) for row in ROW.iter_unpack(self._raw(first, end))]

    def _raw(self, first: int, end: int) -> bytes:
        return os.pread(self._file, (end - first) * ROW.size, first * ROW.size)

    def last_number_by_writer(self) -> dict[int, int]:
        """The last number of each numbering writer.

        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/0.index"
        >>> SegmentIndex.create(path, [AppendRow(0, 5, 8, 1), AppendRow(4, 5), AppendRow(8, 5, 7, 3), AppendRow(9, 6, 7, 4)])
        >>> with SegmentIndex(path) as index:
        ...     index.last_number_by_writer()
        {8: 1, 7: 4}
        """
        rows = ROW.iter_unpack(self._raw(0, self._rows))
        return {writer: number for _, _, writer, number in rows if writer != NOBODY}

    def last_batch(self, writer: int) -> Batch | None:
        """The last batch of a writer. Searches the newest rows first, where it usually is."""
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

    def append(self, rows: Iterable[AppendRow]) -> None:
        """Writes rows after the last complete one. Each row lies in one memory page, so readers see all of it or nothing."""
        write_at(self._file, b"".join(ROW.pack(*row) for row in rows), self._rows * ROW.size)

    def truncate(self, rows: int) -> None:
        """Truncates the index to so many rows."""
        os.ftruncate(self._file, rows * ROW.size)


def writer_id(name: str) -> int:
    """The number that identifies a writer in an index."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little", signed=True) or 1


def write_at(file: int, data: bytes, at: int) -> None:
    """Writes all data at an offset of an open file, below 2 GiB in one call."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(file, rest, at)
        rest, at = rest[written:], at + written
