"""The partitions of a topic: where they begin and end, and what is in ranges of them, by confluent-kafka (librdkafka)."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import filterfalse, groupby
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from lab.logs import cluster as clusters
from lab.logs.cluster import Cluster, NoBroker

T = TypeVar("T")
AGAIN_S = 0.2
AT_ONCE = 250  # messages that are taken at once; by the next, their memory is free and still near: a third of the time of 20,000
LISTED_S = 30.0  # new partitions are looked for this often
READING = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,  # after compaction or aborted transactions the last offset may never come
    "auto.offset.reset": "error",  # what is no longer there must not be passed over
    "fetch.message.max.bytes": 8 << 20,  # a longer record comes alone
    "fetch.queue.backoff.ms": 5,  # after its queue was full; else a second, in which a backlog stands still
    "receive.message.max.bytes": 1 << 30,
    "check.crcs": False,
    "log_level": 0,
}


class Partitions:
    """How far the partitions of a topic are. All it does raises NoBroker where nobody answers, BadTopic without the topic."""

    def __init__(self, cluster: Cluster, topic: str):
        self.cluster, self.topic = cluster, topic
        self._listed, self._numbers = 0.0, []

    def numbers(self) -> list[int]:
        """The partitions there are."""
        if time.monotonic() > self._listed + LISTED_S or not self._numbers:
            self._numbers = self._answer(self._list)
            self._listed = time.monotonic()
        return self._numbers

    def _list(self) -> list[int]:
        wanted = TopicCollection([self.topic])
        asked = self.cluster.admin.describe_topics(wanted, request_timeout=clusters.ANSWER_S)
        return sorted(partition.id for partition in asked[self.topic].result().partitions)

    def _answer(self, ask: Callable[[], T]) -> T:
        """What brokers say. They have a while for it, also if one says at once that nobody leads a partition."""
        deadline = time.monotonic() + clusters.ANSWER_S
        while True:
            try:
                with self.cluster.answering(self.topic):
                    return ask()
            except NoBroker:
                if time.monotonic() > deadline:
                    raise
                time.sleep(AGAIN_S)
                self._leaders_anew()

    def _leaders_anew(self) -> None:
        """Asks who leads the partitions. A client that asks for offsets takes what it knew, for 15 minutes, whatever it is told."""
        with suppress(KafkaException):
            self.cluster.admin.list_topics(self.topic, timeout=1.0)

    def _offsets(self, spec: OffsetSpec) -> dict:
        wanted = {TopicPartition(self.topic, number): spec for number in self.numbers()}

        def ask() -> dict:
            answers = self.cluster.admin.list_offsets(wanted, request_timeout=clusters.ANSWER_S)
            return {partition.partition: future.result() for partition, future in answers.items()}

        return self._answer(ask)

    def _known(self, spec: OffsetSpec) -> dict[int, int]:
        offsets = {number: found.offset for number, found in self._offsets(spec).items()}
        if min(offsets.values()) < 0:  # a broker that has just come back does not know yet
            raise self.cluster.away(f"nobody knows the offsets of {self.topic}")
        return offsets

    def starts(self) -> dict[int, int]:
        """The offset of the oldest record of each."""
        return self._answer(lambda: self._known(OffsetSpec.earliest()))

    def ends(self) -> dict[int, int]:
        """The offset that comes next in each."""
        return self._answer(lambda: self._known(OffsetSpec.latest()))

    def since(self, log_time: int) -> dict[int, int]:
        """The offset of the first record logged then (ms) or later; -1: there is none."""
        return {
            number: found.offset
            for number, found in self._offsets(OffsetSpec.for_timestamp(log_time)).items()
        }

    def newest(self) -> int:
        """The newest log time of all, ms; -1 where there are no records."""
        return max(found.timestamp for found in self._offsets(OffsetSpec.max_timestamp()).values())


class Reader:
    """Reads ranges of a topic's partitions. Between readings it goes on fetching, `queue_kb` at most, so that the next finds its records here."""

    def __init__(self, cluster: Cluster, topic: str, queue_kb: int = 1 << 18):
        self.cluster, self.topic = cluster, topic
        settings = {**READING, "queued.max.messages.kbytes": queue_kb, "group.id": cluster.group}
        self._settings = {**cluster.librdkafka, **settings}
        self._consumer = Consumer(self._settings)
        self._next: dict[
            int, int
        ] = {}  # partition -> the offset that comes next, of `_waiting` or the consumer
        self._waiting: dict[int, list[Message]] = {}
        self._ended: dict[int, int] = {}  # partition -> the end that the consumer has reached

    def read(
        self, ranges: Mapping[int, tuple[int, int]], patience_s: float = float("inf")
    ) -> Iterator[tuple[int, list[Message]]]:
        """(partition, records) in order within each partition.

        Raises KafkaException, also for records that are gone; NoBroker when nothing has come for `patience_s`.
        """
        if any(self._next.get(number) != start for number, (start, _) in ranges.items()):
            self._seek({number: start for number, (start, _) in ranges.items()})
        open_, came, anew_s = dict(ranges), time.monotonic(), clusters.ANSWER_S
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
                self._fill(sum(end - self._next[number] for number, (_, end) in open_.items()))
                waited = time.monotonic() - came
                if waited > min(anew_s, patience_s):
                    # a consumer may wait for ever for a broker that is back; a long record takes its time, so not too often
                    anew_s *= 2
                    self._seek({number: self._next[number] for number in open_})
                if waited > patience_s:
                    raise self.cluster.away(f"no record of {self.topic} for {patience_s:g} s")

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
        came = self._consumer.consume(min(missing, AT_ONCE), timeout=0.1)
        for message in filter(Message.error, came):
            error = message.error()
            if error.code() == KafkaError._PARTITION_EOF:
                self._ended[message.partition()] = message.offset()
            elif not error.retriable() and error.code() not in clusters.AWAY:
                raise KafkaException(error)
        for number, messages in groupby(filterfalse(Message.error, came), Message.partition):
            self._waiting[number] += messages

    def _seek(self, starts: Mapping[int, int]) -> None:
        self._next = {**self._next, **starts}
        for number in self._waiting.keys() - starts.keys():
            if self._waiting[number]:
                self._next[number] = self._waiting[number][0].offset()
        if self._waiting:
            # it may have asked for what comes after the end, and asks for nothing else until it has the answer: half a second
            self._consumer.close()
            self._consumer = Consumer(self._settings)
        self._waiting = {number: [] for number in self._next}
        self._ended = {}
        self._consumer.assign(
            [TopicPartition(self.topic, number, start) for number, start in self._next.items()]
        )

    def close(self) -> None:
        """Lets go of the connection."""
        self._consumer.close()
