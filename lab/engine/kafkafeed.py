"""A topic as the engine reads it: its partitions are the sources, read by confluent-kafka (librdkafka) as fast as it can."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from lab.engine.feeds import Positions

ANSWER_S = 10.0
OUTAGE_S, AGAIN_S = 60.0, 0.2
AWAY = (  # the last one: it is back, and nobody leads the partitions yet
    *(KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT),
    *(KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE),
    KafkaError._NOENT,
)
GRACE_MS = 3  # what a broker is appending right now has until then to show
AT_ONCE = 20_000  # records that are decoded at once
PARTITIONS_S = 30.0  # new partitions are looked for this often
READING = {
    "group.id": "lab",
    "enable.auto.commit": False,
    "enable.partition.eof": True,  # after compaction or aborted transactions the last offset may never come
    "auto.offset.reset": "error",  # what is no longer there must not be passed over
    "fetch.message.max.bytes": 8 << 20,
    "queued.max.messages.kbytes": 1 << 18,
    "check.crcs": False,
    "log_level": 0,
}


@dataclass(frozen=True)
class Polled:
    """Records of one partition, in order."""

    topic: str
    source: int
    messages: list[Message]
    log_time: np.ndarray

    @property
    def data(self) -> bytes:
        """One record a line, as far as that is possible; else nothing."""
        values = [message.value() or b"" for message in self.messages]
        joined = b"\n".join(values)
        return joined if joined.count(b"\n") == len(values) - 1 else b""

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """(place, value) of each record."""
        for message in self.messages:
            yield f"{self.topic}/{self.source}:{message.offset()}", message.value() or b""

    def places(self, lines: Sequence[int]) -> list[str]:
        """Topic, partition and offset of some records, counted from 0."""
        return [f"{self.topic}/{self.source}:{self.messages[line].offset()}" for line in lines]


class KafkaFeed:
    """A topic of the brokers that `client` names (librdkafka's properties)."""

    divisible = False  # an effective log time depends on the records before it

    def __init__(self, client: Mapping[str, str], topic: str):
        self.client, self.topic = dict(client), topic
        self._ahead: int | None = None  # of the newest log time seen before this computer's clock, ms
        self._listed = 0.0
        self._partitions: list[int] = []

    @property
    def _admin(self) -> AdminClient:
        return _admin(tuple(sorted(self.client.items())))

    def _reader(self) -> "Reader":
        return _reader(tuple(sorted(self.client.items())), self.topic)

    def sources(self) -> list[int]:
        """The partitions there are."""
        if time.monotonic() > self._listed + PARTITIONS_S or not self._partitions:
            found = self._admin.list_topics(self.topic, timeout=ANSWER_S).topics[self.topic]
            if found.error:
                raise KafkaException(found.error)
            self._partitions, self._listed = sorted(found.partitions), time.monotonic()
        return self._partitions

    def _ask(self, spec: OffsetSpec):
        """What the broker says of each partition. One that is away, or is just coming back, is waited for."""
        give_up = time.monotonic() + OUTAGE_S
        while True:
            try:
                wanted = {TopicPartition(self.topic, number): spec for number in self.sources()}
                answers = self._admin.list_offsets(wanted, request_timeout=ANSWER_S)
                return {partition.partition: future.result() for partition, future in answers.items()}
            except KafkaException as error:
                if error.args[0].code() not in AWAY or time.monotonic() > give_up:
                    raise
                time.sleep(AGAIN_S)

    def starts(self) -> Positions:
        return {number: found.offset for number, found in self._ask(OffsetSpec.earliest()).items()}

    def ends(self) -> Positions:
        return {number: found.offset for number, found in self._ask(OffsetSpec.latest()).items()}

    def ends_before(self, log_time: int, ends: Positions) -> Positions:
        first = self._ask(OffsetSpec.for_timestamp(log_time))  # none: -1
        return {
            n: first[n].offset if n in first and 0 <= first[n].offset < end else end
            for n, end in ends.items()
        }

    def clock(self) -> int:
        """The newest log time there is, and what has passed since it was seen: brokers' clocks are not this computer's."""
        if self._ahead is None:
            self.look()
        return _now_ms() + self._ahead - GRACE_MS

    def look(self) -> None:
        now = _now_ms()
        newest = max(found.timestamp for found in self._ask(OffsetSpec.max_timestamp()).values())
        self._ahead = max(newest + 1 - now, -now if self._ahead is None else self._ahead)

    def size(self, source: int, start: int, end: int) -> int:
        return end - start

    def cut(self, source: int, start: int, end: int, records: int) -> int:
        return min(end, start + max(records, 1))

    def read(self, ranges: Mapping[int, tuple[int, int]], floor: int) -> Iterator[Polled]:
        newest = dict.fromkeys(ranges, floor)
        for source, messages in self._reader().read(ranges):
            times = np.fromiter((message.timestamp()[1] for message in messages), np.int64, len(messages))
            times = np.maximum.accumulate(np.maximum(times, newest[source]))
            newest[source] = int(times[-1])
            yield Polled(self.topic, source, messages, times)


class Reader:
    """Reads ranges of a topic's partitions. Between micro-batches it goes on fetching, so that the next finds its records here."""

    def __init__(self, client: Mapping[str, str], topic: str):
        self.topic = topic
        self._consumer = Consumer({**client, **READING})
        self._next: dict[
            int, int
        ] = {}  # partition -> the offset that comes next, out of `_waiting` or the consumer
        self._waiting: dict[int, list[Message]] = {}
        self._ended: dict[int, int] = {}  # partition -> the end that the consumer has reached

    def read(self, ranges: Mapping[int, tuple[int, int]]) -> Iterator[tuple[int, list[Message]]]:
        """(partition, records) in order within each partition. Raises KafkaException, also for records that are gone."""
        if any(self._next.get(number) != start for number, (start, _) in ranges.items()):
            self._seek({number: start for number, (start, _) in ranges.items()})
        open_ = dict(ranges)
        while open_:
            for number, (_, end) in list(open_.items()):
                if self._waiting[number]:
                    taken = self._take(number, end)
                    if taken:
                        yield number, taken
                if self._next[number] >= end or self._ended.get(number, -1) >= end or self._waiting[number]:
                    self._next[number] = end
                    del open_[number]
            if open_:
                self._fill(sum(end - self._next[number] for number, (_, end) in open_.items()))

    def _take(self, number: int, end: int) -> list[Message]:
        waiting = self._waiting[number]
        count = len(waiting)
        if waiting[-1].offset() >= end:
            count = next(i for i, message in enumerate(waiting) if message.offset() >= end)
        taken, self._waiting[number] = waiting[:count], waiting[count:]
        if taken:
            self._next[number] = taken[-1].offset() + 1
        return taken

    def _fill(self, missing: int) -> None:
        """Takes what has come; `missing` at most, as the consumer waits until it has so many."""
        for message in self._consumer.consume(min(missing, AT_ONCE), timeout=0.1):
            error, number = message.error(), message.partition()
            if not error:
                self._waiting[number].append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ended[number] = message.offset()
            elif not error.retriable() and error.code() not in (
                KafkaError._ALL_BROKERS_DOWN,
                KafkaError._TRANSPORT,
            ):
                raise KafkaException(error)

    def _seek(self, starts: Mapping[int, int]) -> None:
        self._next = {**self._next, **starts}
        for number in self._waiting.keys() - starts.keys():
            if self._waiting[number]:
                self._next[number] = self._waiting[number][0].offset()
        self._waiting = {number: [] for number in self._next}
        self._ended = {}
        self._consumer.assign(
            [TopicPartition(self.topic, number, start) for number, start in self._next.items()]
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@lru_cache(maxsize=8)
def _admin(client: tuple[tuple[str, str], ...]) -> AdminClient:
    return AdminClient({**dict(client), "log_level": 0})


@lru_cache(maxsize=8)
def _reader(client: tuple[tuple[str, str], ...], topic: str) -> Reader:
    return Reader(dict(client), topic)
