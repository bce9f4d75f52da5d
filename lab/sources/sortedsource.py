"""Finished events in the order of their times, whatever the order they are stored in: sorted on the disk, in pieces that fit into memory."""

import heapq
import pickle
from array import array
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from tempfile import TemporaryFile
from typing import IO, Any

from lab.model.schema import Schema
from lab.sources.order import TimeOrder, line_time
from lab.sources.sources import EventSource

IN_MEMORY = 1 << 26  # bytes of lines that are sorted at once
MOST_LINES = 200_000  # of them

Placed = tuple[int, int, bytes]  # time, place among equal times, line


class SortedSource(EventSource):
    """The records of a source in the order of their event times; equal times stay in their order, of a file that runs backwards in the reverse.

    A record that is no event stays behind the one before it. Each reading reads the source once and sorts it.

    >>> from lab.model.schema import PAYMENTS
    >>> from lab.sources.rows import RowSource
    >>> rows = RowSource([{"transactionId": n, "eventTime": 9 - n} for n in range(3)], PAYMENTS)
    >>> source = SortedSource(rows, PAYMENTS)
    >>> [line_time(line, PAYMENTS) for line in source], source.place(0)
    ([7, 8, 9], 'row 2')
    """

    def __init__(self, source: EventSource, schema: Schema):
        self._source, self._by = source, schema
        self.format, self.record_format, self.texts = source.format, source.record_format, source.texts
        self.schema = source.schema
        self._order = array("q")

    def __len__(self) -> int:
        return len(self._source)

    def __iter__(self) -> Iterator[bytes]:
        self._order = array("q")
        with ExitStack() as until_read:
            runs: list[Iterator[Placed]] = []
            sign = 0
            for lines in self._pieces():
                sign = sign or (-1 if TimeOrder().add_all(time for time, _, _ in lines).backwards else 1)
                placed = sorted((time, sign * index, line) for time, index, line in lines)
                runs.append(_read(_written(placed, until_read.enter_context(TemporaryFile()))))
            for _, index, line in heapq.merge(*runs):
                self._order.append(abs(index))
                yield line

    def place(self, index: int) -> str:
        return self._source.place(self._order[index])

    def typed(self, record: dict[str, Any]) -> dict[str, Any]:
        return self._source.typed(record)

    def _pieces(self) -> Iterator[list[Placed]]:
        """The lines with their times and places in the source, as many at once as fit into memory."""
        piece: list[Placed] = []
        time = size = 0
        for index, line in zip(count(), self._source):
            own = line_time(line, self._by)
            time = time if own is None else own
            piece.append((time, index, line))
            size += len(line)
            if size >= IN_MEMORY or len(piece) >= MOST_LINES:
                yield piece
                piece, size = [], 0
        if piece:
            yield piece


def _written(placed: list[Placed], file: IO[bytes]) -> IO[bytes]:
    for each in placed:
        pickle.dump(each, file)
    file.seek(0)
    return file


def _read(file: IO[bytes]) -> Iterator[Placed]:
    while True:
        try:
            yield pickle.load(file)
        except EOFError:
            return
