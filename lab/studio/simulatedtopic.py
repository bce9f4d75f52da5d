"""Logs of several partitions in memory, as a broker keeps them; the fault room delays and reorders their records and sets their clocks wrong.

partition 0   ──●──●───●──►     each record has the time of its partition's clock, which may step
partition 1   ────●┄┄┄┄○──►     records may be on their way: they have their time, and nobody sees them yet
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from lab.engine.records.feeds import Feed, PartitionRecords, Positions


@dataclass(frozen=True)
class SimulatedRecord:
    """A record and the log time that its partition gave it, in ms."""

    log_time: int
    value: bytes


@dataclass
class SimulatedPartition:
    """A partition's records in order. `delayed_records`: None if none are delayed. `clock_offset_ms`: how far its clock is off."""

    records: list[SimulatedRecord] = field(default_factory=list)
    delayed_records: list[SimulatedRecord] | None = None
    clock_offset_ms: int = 0


class SimulatedTopic(Feed):
    """A topic in memory, and the feed with which the engine reads it; records contain no line breaks.

    >>> log = SimulatedTopic("events", 2)
    >>> log.append(0, b"first", now_ms=1_000)
    >>> log.append(1, b"second", now_ms=2_000)
    >>> log.ends_before(2_000, log.starts(), log.ends())
    {0: 1, 1: 0}
    """

    def __init__(self, name: str, partition_count: int):
        self.name, self.partitions = name, [SimulatedPartition() for _ in range(partition_count)]
        self.now_ms = self._ahead = 0

    def append(self, partition: int, value: bytes, now_ms: int) -> None:
        """Appends a record; its log time is `now_ms` on the partition's clock."""
        to = self.partitions[partition]
        self.now_ms = max(self.now_ms, now_ms)
        record = SimulatedRecord(now_ms + to.clock_offset_ms, value)
        (to.records if to.delayed_records is None else to.delayed_records).append(record)

    def delay_new_records(self, partition: int) -> None:
        """Delays the partition's new records until `deliver_delayed_records` is called."""
        self.partitions[partition].delayed_records = []

    def deliver_delayed_records(self, partition: int) -> None:
        """Delivers the delayed records."""
        to = self.partitions[partition]
        to.records += to.delayed_records or []
        to.delayed_records = None

    # -- as `lab.engine.records.feeds.Feed`

    def clock(self) -> int:
        return self.now_ms + 1 + self._ahead

    def sync_clock(self) -> None:
        newest = max((r.log_time for p in self.partitions for r in p.records), default=0)
        self._ahead = max(self._ahead, newest - self.now_ms)

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
