"""A topic as the engine reads it: its partitions are the sources, read by confluent-kafka (librdkafka) as fast as it can."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import cast

import numpy as np
from confluent_kafka import KafkaException, Message, TopicPartition

from lab.engine.records.feeds import Feed, LogLost, PartitionRecords, Positions
from lab.logs.cluster import GONE, Cluster
from lab.logs.offsets import PartitionOffsets, topic_end_offsets
from lab.logs.partitions import PartitionReader
from lab.logs.positions import LATEST_LOG_TIME
from lab.model.times import now_ms

GRACE_MS = 3  # what a broker is appending right now has until then to show
COMMIT_S, COMMIT_AGAIN_S = 1.0, 10.0
AT_ONCE, AT_ONCE_BYTES = 20_000, 1 << 26  # records that are decoded at once; fewer if they have so many bytes
CHECKED_EVERY = 250  # records


class KafkaFeed(Feed):
    """Reads a topic of a cluster. Raises NoBroker if no broker answers; `read` raises it after `patience_s`.

    `topic_id`: as in PartitionOffsets, which raises TopicMadeAnew.
    """

    def __init__(self, cluster: Cluster, topic: str, patience_s: float = float("inf"), topic_id: str = ""):
        self.cluster, self.topic, self._patience_s = cluster, topic, patience_s
        self._partitions = PartitionOffsets(cluster, topic, topic_id)
        self._ahead: int | None = None  # of the newest log time seen before this computer's clock, ms

    def starts(self) -> Positions:
        return self._partitions.start_offsets()

    def ends(self) -> Positions:
        return self._partitions.end_offsets()

    def ends_of_both(self, other: Feed) -> tuple[Positions, Positions]:
        if not isinstance(other, KafkaFeed) or other.cluster != self.cluster:
            return super().ends_of_both(other)
        mine, its = topic_end_offsets([self._partitions, other._partitions])
        return mine, its

    def wait_for_records_of_either(
        self, starts: Positions, other: Feed, other_starts: Positions, timeout_s: float
    ) -> bool:
        if not isinstance(other, KafkaFeed) or other.cluster != self.cluster:
            return super().wait_for_records_of_either(starts, other, other_starts, timeout_s)
        with other._named(other_starts):
            if _reader(other.cluster, other.topic).wait_for_records(other_starts, 0):
                return True
        wakes = tuple((other.topic, number) for number in other_starts)
        with self._named(starts):
            return _reader(self.cluster, self.topic).wait_for_records(starts, timeout_s, wakes)

    def ends_before(self, log_time: int, starts: Positions, ends: Positions) -> Positions:
        with self._named(starts):
            known = _reader(self.cluster, self.topic).fetched_ends_before(log_time, starts, ends)
        if known is not None:
            return known
        if log_time > LATEST_LOG_TIME:  # the broker would compare it with times that count as earlier here
            return ends
        first = self._partitions.offsets_since(log_time)
        return {n: first[n] if 0 <= first.get(n, -1) < end else end for n, end in ends.items()}

    def clock(self) -> int:
        """The newest log time there is, and what has passed since it was seen: brokers' clocks are not this computer's."""
        if self._ahead is None:
            self.sync_clock()
        return now_ms() + cast(int, self._ahead) - GRACE_MS

    def sync_clock(self) -> None:
        newest, now = self._partitions.newest_log_time_ms(), now_ms()
        self._ahead = max(newest + 1 - now, -now if self._ahead is None else self._ahead)

    def read(self, ranges: Mapping[int, tuple[int, int]], floor: int) -> Iterator[PartitionRecords]:
        newest = dict.fromkeys(ranges, floor)
        came: defaultdict[int, tuple[list, list, list, list]] = defaultdict(lambda: ([], [], [], []))
        sizes: Counter[int] = Counter()  # bytes

        def polled(source: int) -> PartitionRecords:
            offsets, values, keys, logged = came.pop(source)
            del sizes[source]
            times = np.minimum(np.concatenate(logged), LATEST_LOG_TIME)
            times = np.maximum.accumulate(np.maximum(times, newest[source]))
            newest[source] = int(times[-1])
            if None in values:  # as deletes in compacted topics
                values = [value or b"" for value in values]
            return PartitionRecords(self.topic, source, np.concatenate(offsets), values, times, keys)

        for source, messages in self._messages(ranges):
            offsets, values, keys, logged = came[source]
            # in arrays at once: millions of Python's numbers that live for a while take longer than all else here
            offsets.append(_offsets(messages))
            some, named = list(map(Message.value, messages)), list(map(Message.key, messages))
            values += some
            keys += named
            sizes[source] += sum(map(len, filter(None, some))) + sum(map(len, filter(None, named)))
            logged.append(np.array([time for _, time in map(Message.timestamp, messages)], np.int64))
            if len(values) >= AT_ONCE or sizes[source] >= AT_ONCE_BYTES:
                yield polled(source)
        yield from map(polled, list(came))

    def close(self) -> None:
        _reader(self.cluster, self.topic).close()

    def _messages(self, ranges: Mapping[int, tuple[int, int]]) -> Iterator[tuple[int, list[Message]]]:
        with self._named({number: start for number, (start, _) in ranges.items()}):
            for number, messages in _reader(self.cluster, self.topic).read(ranges, self._patience_s):
                for first in range(0, len(messages), CHECKED_EVERY):
                    yield number, messages[first : first + CHECKED_EVERY]

    @contextmanager
    def _named(self, at: Positions) -> Iterator[None]:
        """Raises LogLost with the partitions in which a position has expired, or lies beyond the end."""
        try:
            yield
        except KafkaException as failure:
            if failure.args[0].code() not in GONE:
                raise
            starts, ends = self.starts(), self.ends()
            lost = [number for number, start in at.items() if start < starts.get(number, 0)]
            short = [number for number, start in at.items() if start > ends.get(number, start)]
            if not lost and not short:
                raise
            names = ", ".join(f"{self.topic}/{number}" for number in lost or short)
            raise LogLost(
                f"{names}: records have expired before the engine read them; start with a new checkpoint, and keep the topic "
                "longer"
                if lost
                else f"{names}: the brokers have lost records that the engine has read, and would number others like them; "
                "start with a new checkpoint"
            ) from None


def _offsets(messages: list[Message]) -> np.ndarray:
    """The offsets of records of one partition, in order."""
    first, last = cast(int, messages[0].offset()), cast(int, messages[-1].offset())
    if last - first == len(messages) - 1:  # none is missing
        return np.arange(first, last + 1)
    return np.array([message.offset() for message in messages], np.int64)


class ConsumerGroupFollower:
    """Lets the cluster's consumer group follow an engine, so that any tool for Kafka sees its lag. It never fails: it may lag."""

    def __init__(self, cluster: Cluster, topic: str):
        self.topic, self._committed, self._at = topic, {}, 0.0
        self._consumer = cluster.non_fetching_consumer

    def commit_progress(self, events: Positions) -> None:
        """Commits the engine's positions, once a second while they change, and repeats this later, because a restarting broker may lose commits."""
        pause_s = COMMIT_S if events != self._committed else COMMIT_AGAIN_S
        if time.monotonic() > self._at + pause_s:
            offsets = [TopicPartition(self.topic, number, offset) for number, offset in events.items()]
            with suppress(KafkaException):
                self._consumer.poll(0)
                self._consumer.commit(offsets=offsets, asynchronous=True)
            self._committed, self._at = events, time.monotonic()


@lru_cache(maxsize=8)
def _reader(cluster: Cluster, topic: str) -> PartitionReader:
    return PartitionReader(cluster, topic)


@lru_cache(maxsize=8)
def process_follower(cluster: Cluster, topic: str) -> ConsumerGroupFollower:
    """The one of this process."""
    return ConsumerGroupFollower(cluster, topic)
