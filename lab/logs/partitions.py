"""The partitions of a topic: reading ranges of offsets, and waiting for records, with confluent-kafka (librdkafka)."""

import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import filterfalse, groupby
from typing import cast

from confluent_kafka import OFFSET_END, Consumer, KafkaError, Message, TopicPartition

from lab.logs import cluster as clusters
from lab.logs.cluster import Cluster
from lab.logs.positions import log_time_of

AT_ONCE = 250  # messages taken at once. Their memory is reused from the CPU cache for the next ones: a third of the time of 20,000
# rather than asking the broker about so many records that it has, a reader waits for them, but no longer than this for the next
SOON, SOON_S = 20_000, 0.005
LOOK_S = 0.1  # how long a reader waits at once for records, or for where they are
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"  # what is read of transactions
READING = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,  # after compaction or aborted transactions the last offset may not exist
    "auto.offset.reset": "error",  # expired records must not be skipped
    "fetch.message.max.bytes": 8 << 20,  # a longer record is fetched alone
    "fetch.queue.backoff.ms": 5,  # when its queue was full; the default of a second would stop a backlog for that long
    "receive.message.max.bytes": 1 << 30,
    "check.crcs": False,
    "log_level": 0,
}


class PartitionReader:
    """Reads ranges of a topic's partitions. Between reads it keeps fetching, at most `queue_kb`, so that the next read finds its records here.

    The last offsets of a range may have no records: they are markers of transactions, or aborted records. A consumer that waits for the
    record after them learns this half a second late, when its request ends. So a second consumer, which does not wait, looks for that record.
    """

    def __init__(self, cluster: Cluster, topic: str, queue_kb: int = 1 << 16, isolation: str = COMMITTED):
        self.cluster, self.topic = cluster, topic
        self._settings = cluster.librdkafka_properties | READING
        self._settings |= {"queued.max.messages.kbytes": queue_kb, "isolation.level": isolation}
        self._settings["group.id"] = cluster.consumer_group
        self._consumer, self._is_closed = Consumer(self._settings), False
        # partition -> the offset that comes next, of `_waiting` or the consumer
        self._next: dict[int, int] = {}
        self._waiting: dict[int, list[Message]] = {}
        self._ended: dict[int, int] = {}  # partition -> the end that the consumer has reached
        # partitions of another topic, whose new records end a wait and are not read; whether one came in this wait
        self._wakes: tuple[tuple[str, int], ...] = ()
        self._woken = False

    def read(
        self, ranges: Mapping[int, tuple[int, int]], patience_s: float = float("inf")
    ) -> Iterator[tuple[int, list[Message]]]:
        """Yields (partition, records), in offset order within each partition.

        Raises KafkaException, also for records that have expired, and NoBroker if no record arrives for `patience_s`.
        """
        self._expect({number: start for number, (start, _) in ranges.items()})
        open_, came, anew_s = dict(ranges), time.monotonic(), clusters.ANSWER_S
        gap_s = SOON_S
        while open_:
            for number, (_, end) in list(open_.items()):
                if self._waiting[number]:
                    taken = self._take(number, end)
                    if taken:
                        came, anew_s = time.monotonic(), clusters.ANSWER_S
                        yield number, taken
                if self._next[number] >= end or self._ended.get(number, -1) >= end or self._waiting[number]:
                    self._next[number] = end
                    del open_[number]
            if open_:
                missing = sum(end - self._next[number] for number, (_, end) in open_.items())
                filled = self._fill(missing, min(gap_s, LOOK_S))
                waited = time.monotonic() - came
                if not filled and waited > gap_s:
                    gap_s *= 2
                    self._skip_gaps(open_)
                if waited > min(anew_s, patience_s):
                    # a consumer may wait for ever for a broker that has restarted. Long records are slow, so it is replaced less and less often
                    anew_s *= 2
                    self._seek({number: self._next[number] for number in open_})
                if waited > patience_s:
                    raise self.cluster.no_broker_error(f"no record of {self.topic} for {patience_s:g} s")

    def wait_for_records(
        self, starts: Mapping[int, int], timeout_s: float, wakes: tuple[tuple[str, int], ...] = ()
    ) -> bool:
        """Waits for a record at one of the offsets or after it, or a new one in a partition of `wakes`; False if none comes."""
        if wakes != self._wakes:
            self._wakes = wakes
            self._seek(starts)
        self._expect(starts)
        self._woken = False
        if not any(self._waiting.values()):
            self._fill(1, timeout_s)
        return self._woken or any(self._waiting.values())

    def fetched_ends_before(
        self, log_time_ms: int, starts: Mapping[int, int], ends: Mapping[int, int]
    ) -> dict[int, int] | None:
        """The offset of the first record from `starts` on that was logged at a time (ms) or later, `ends` where there is none.

        None if the broker has to be asked: not all of these records are here, nor come soon.
        """
        found = dict(ends)
        for number, end in ends.items():
            if end <= starts.get(number, 0):
                continue
            if self._next.get(number) != starts.get(number, 0) or not self._fetch(number, end):
                return None
            for message in self._waiting[number]:
                if log_time_of(message) >= log_time_ms:
                    found[number] = min(end, message.offset() or 0)
                    break
        return found

    def _fetch(self, number: int, end: int) -> bool:
        """Whether all records of a partition up to an offset are here, or come soon and are not many."""
        if end - self._next[number] > SOON:
            return False
        while self._ended.get(number, -1) < end:
            waiting = self._waiting[number]
            next_ = (waiting[-1].offset() or 0) + 1 if waiting else self._next[number]
            if next_ < end and not self._fill(end - next_, SOON_S):
                return False
            if next_ >= end:
                break
        return True

    def _take(self, number: int, end: int) -> list[Message]:
        waiting = self._waiting[number]
        count = len(waiting)
        if (waiting[-1].offset() or 0) >= end:
            count = next(i for i, message in enumerate(waiting) if (message.offset() or 0) >= end)
        taken, self._waiting[number] = waiting[:count], waiting[count:]
        if taken:
            self._next[number] = (taken[-1].offset() or 0) + 1
        return taken

    def _fill(self, missing: int, timeout_s: float) -> bool:
        """Takes the records that have arrived, at most `missing`: the consumer waits until it has that many. False if it has none."""
        came = self._consumer.consume(min(missing, AT_ONCE), timeout=timeout_s)
        if self._wakes and (
            others := [message for message in came if message.topic() not in (self.topic, None)]
        ):
            self._woken |= not all(map(Message.error, others))
            came = [message for message in came if message not in others]
        for message in filter(Message.error, came):
            error = cast(KafkaError, message.error())
            if error.code() == KafkaError._PARTITION_EOF:
                self._ended[cast(int, message.partition())] = message.offset() or 0
            elif not error.retriable() and error.code() not in clusters.AWAY:
                raise self.cluster.reading_error(self.topic, error)
        for number, messages in groupby(filterfalse(Message.error, came), Message.partition):
            self._waiting[cast(int, number)] += messages
        return bool(came)

    def _skip_gaps(self, numbers: Iterable[int]) -> None:
        """Asks for the position of the next record of some partitions, and skips the offsets before it, which have no records."""
        unknown, deadline = set(numbers), time.monotonic() + LOOK_S
        self._looking.assign([TopicPartition(self.topic, number, self._next[number]) for number in unknown])
        while unknown and time.monotonic() < deadline:
            for message in self._looking.consume(1, timeout=SOON_S):
                error, number = message.error(), message.partition()
                if number in unknown and (error is None or error.code() == KafkaError._PARTITION_EOF):
                    self._ended[number] = message.offset() or 0
                    unknown.remove(number)
        self._looking.unassign()

    @cached_property
    def _looking(self) -> Consumer:
        at_once = {"fetch.wait.max.ms": 1, "fetch.message.max.bytes": 1 << 16}
        return Consumer({**self._settings, **at_once})

    def _expect(self, starts: Mapping[int, int]) -> None:
        """The next records are those at the offsets."""
        if any(self._next.get(number) != start for number, start in starts.items()):
            self._seek(starts)

    def _seek(self, starts: Mapping[int, int]) -> None:
        self._next = {**self._next, **starts}
        for number in self._waiting.keys() - starts.keys():
            if self._waiting[number]:
                self._next[number] = self._waiting[number][0].offset() or 0
        if self._waiting:
            # it may be waiting for the records after the end, and would send no other request for half a second
            self._consumer.close()
        if self._waiting or self._is_closed:
            self._consumer, self._is_closed = Consumer(self._settings), False
        self._waiting = {number: [] for number in self._next}
        self._ended = {}
        mine = [TopicPartition(self.topic, number, start) for number, start in self._next.items()]
        self._consumer.assign(mine + [TopicPartition(*place, OFFSET_END) for place in self._wakes])

    def close(self) -> None:
        """Closes the connections, and frees the records that it holds; the next call begins anew."""
        if not self._is_closed:
            self._consumer.close()
        self._is_closed = True
        self._next, self._waiting, self._ended = {}, {}, {}
        if "_looking" in self.__dict__:
            self._looking.close()
            del self._looking
