"""Logs of several partitions in memory, as a broker keeps them; the fault room delays and reorders their records and sets their clocks wrong.

partition 0   ──●──●───●──►     each record has the time of its partition's clock, which may step
partition 1   ────●┄┄┄┄○──►     records may be on their way: they have their time, and nobody sees them yet
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from lab.engine.records.feeds import Feed, PartitionRecords, Positions


@dataclass(frozen=True)
class Record:
    """A record and the log time that its partition gave it, in ms."""

    log_time: int
    value: bytes


@dataclass
class Partition:
    """Records in order; `under_way`: those that are delayed, if any are, and how far its clock is off, in ms."""

    records: list[Record] = field(default_factory=list)
    under_way: list[Record] | None = None
    off_ms: int = 0


class Partitions(Feed):
    """A log of partitions, and the feed by which the engine reads it; records hold no line ends.

    >>> log = Partitions("events", 2)
    >>> log.append(0, b"first", now=1_000)
    >>> log.append(1, b"second", now=2_000)
    >>> log.ends_before(2_000, log.starts(), log.ends())
    {0: 1, 1: 0}
    """

    def __init__(self, name: str, count: int):
        self.name, self.partitions = name, [Partition() for _ in range(count)]
        self.now = self._ahead = 0

    def append(self, number: int, value: bytes, now: int) -> None:
        """Logs a record at `now`, ms, as the partition's clock has it."""
        partition = self.partitions[number]
        self.now = max(self.now, now)
        record = Record(now + partition.off_ms, value)
        (partition.records if partition.under_way is None else partition.under_way).append(record)

    def delay(self, number: int) -> None:
        """Delays the partition's new records until `arrive`."""
        self.partitions[number].under_way = []

    def arrive(self, number: int) -> None:
        """Delivers the delayed records."""
        partition = self.partitions[number]
        partition.records += partition.under_way or []
        partition.under_way = None

    # -- as `lab.engine.records.feeds.Feed`

    def clock(self) -> int:
        return self.now + 1 + self._ahead

    def sync_clock(self) -> None:
        newest = max((r.log_time for p in self.partitions for r in p.records), default=0)
        self._ahead = max(self._ahead, newest - self.now)

    def starts(self) -> Positions:
        return dict.fromkeys(range(len(self.partitions)), 0)

    def ends(self) -> Positions:
        return {number: len(partition.records) for number, partition in enumerate(self.partitions)}

    def ends_before(self, log_time: int, starts: Positions, ends: Positions) -> Positions:
        def before(number: int, end: int) -> int:
            records = self.partitions[number].records[:end]
            return next((n for n, record in enumerate(records) if record.log_time >= log_time), end)

        return {number: before(number, end) for number, end in ends.items()}

    def read(self, ranges: Mapping[int, tuple[int, int]], floor: int) -> Iterator[PartitionRecords]:
        for number, (start, end) in ranges.items():
            if records := self.partitions[number].records[start:end]:
                earlier = [record.log_time for record in self.partitions[number].records[:start]]
                times = np.array([record.log_time for record in records], np.int64)
                times = np.maximum.accumulate(np.maximum(times, max([floor, *earlier])))
                values = [record.value for record in records]
                yield PartitionRecords(self.name, number, range(start, end), values, times)
