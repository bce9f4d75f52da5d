"""The partitions of a topic: first and last offsets, and reading ranges of offsets, with confluent-kafka (librdkafka)."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import filterfalse, groupby
from typing import TypeVar, cast

from confluent_kafka import (
    OFFSET_END,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from lab.logs import cluster as clusters
from lab.logs.cluster import Cluster, NoBroker, TopicMadeAnew, UnusableTopic
from lab.logs.positions import LATEST_LOG_TIME, log_time_of

T = TypeVar("T")
AGAIN_S = 0.2
AT_ONCE = 250  # messages taken at once. Their memory is reused from the CPU cache for the next ones: a third of the time of 20,000
# rather than asking the broker about so many records that it has, a reader waits for them, but no longer than this for the next
SOON, SOON_S = 20_000, 0.005
LOOK_S = 0.1  # how long a reader waits at once for records, or for where they are
LISTED_S = 30.0  # how often new partitions are looked for
NO_ID = "A" * 22  # the id of every topic on brokers before 2.8: zeros in base 64
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


class PartitionOffsets:
    """The offsets of a topic's partitions. All methods raise NoBroker, UnusableTopic if the topic does not exist, and TopicMadeAnew.

    `topic_id`: the id that the brokers gave the topic; "": that of the topic at the first call.
    """

    def __init__(self, cluster: Cluster, topic: str, topic_id: str = ""):
        self.cluster, self.topic, self._topic_id = cluster, topic, topic_id
        self._listed, self._numbers = 0.0, []
        self._seen: dict[int, int] = {}  # the last ends

    def numbers(self) -> list[int]:
        """The numbers of the partitions."""
        if time.monotonic() > self._listed + LISTED_S or not self._numbers:
            try:
                self._numbers = _answer([self], self._list)
            except UnusableTopic as error:
                if not self._numbers or isinstance(error, TopicMadeAnew):
                    raise
                raise UnusableTopic(
                    f"topic {self.topic} is no longer on {self.cluster.address}: it was deleted while it was read"
                ) from None
            self._listed = time.monotonic()
        return self._numbers

    def list_again(self) -> None:
        """Lists the partitions now. Raises UnusableTopic if the topic is gone, or another topic has its name."""
        self._listed = 0.0
        self.numbers()

    def topic_id(self) -> str:
        """The topic's id, which differs from that of any other topic with its name; "" from brokers before 2.8."""
        self.numbers()
        return self._topic_id

    def _list(self) -> list[int]:
        wanted = TopicCollection([self.topic])
        asked = self.cluster.admin_client.describe_topics(wanted, request_timeout=clusters.ANSWER_S)
        found = asked[self.topic].result()
        topic_id = str(found.topic_id or "").replace(NO_ID, "")
        if self._topic_id and topic_id and topic_id != self._topic_id:
            raise self.cluster.made_anew_error(self.topic, "start with a new checkpoint")
        self._topic_id = self._topic_id or topic_id
        return sorted(partition.id for partition in found.partitions)

    def compare_with_seen(self, ends: dict[int, int]) -> None:
        """If the topic has become shorter, checks at once whether it is still the same topic."""
        if any(ends.get(number, -1) < seen for number, seen in self._seen.items()):
            self.list_again()
        self._seen = ends

    def _offsets(self, spec: OffsetSpec, committed: bool = True) -> dict:
        wanted = {TopicPartition(self.topic, number): spec for number in self.numbers()}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

        def ask() -> dict:
            answers = self.cluster.admin_client.list_offsets(
                wanted, isolation_level=level, request_timeout=clusters.ANSWER_S
            )
            return {partition.partition: future.result() for partition, future in answers.items()}

        return _answer([self], ask)

    def _known(self, spec: OffsetSpec, committed: bool = True) -> dict[int, int]:
        offsets = {number: found.offset for number, found in self._offsets(spec, committed).items()}
        if min(offsets.values()) < 0:  # a broker that has just restarted does not know yet
            raise self.cluster.no_broker_error(f"nobody knows the offsets of {self.topic}")
        return offsets

    def start_offsets(self) -> dict[int, int]:
        """The offset of the oldest record of each partition."""
        return _answer([self], lambda: self._known(OffsetSpec.earliest()))

    def end_offsets(self, committed: bool = True) -> dict[int, int]:
        """The offset of the next record of each partition; with `committed` only up to the oldest open transaction."""
        if committed:
            return topic_end_offsets([self])[0]
        return _answer([self], lambda: self._known(OffsetSpec.latest(), committed))

    def offsets_since(self, log_time_ms: int) -> dict[int, int]:
        """The offset of the first record logged at that time (ms) or later; -1 if there is none."""
        return _answer([self], lambda: _asked([self], log_time_ms))[0]

    def newest_log_time_ms(self) -> int:
        """The newest log time of all partitions, ms; -1 without records."""
        newest = max(found.timestamp for found in self._offsets(OffsetSpec.max_timestamp()).values())
        return min(newest, LATEST_LOG_TIME)


def _answer(topics: Sequence[PartitionOffsets], ask: Callable[[], T]) -> T:
    """The result of a request about topics. Retries it for ANSWER_S if the brokers do not answer, or if a partition has no leader yet."""
    deadline, first = time.monotonic() + clusters.ANSWER_S, topics[0]
    while True:
        try:
            with first.cluster.translate_errors(first.topic):
                return ask()
        except KafkaException as failure:
            raise first.cluster.reading_error(first.topic, failure.args[0]) from None
        except NoBroker:
            for (
                each
            ) in topics:  # also before giving up: with a leader that is gone, a request lasts until its end
                _leaders_anew(each)
            if time.monotonic() > deadline:
                raise
            time.sleep(AGAIN_S)


def _leaders_anew(topic: PartitionOffsets) -> None:
    """Refreshes the clients' metadata. Requests for offsets use cached leader epochs for 15 minutes, even after a broker has rejected them."""
    for client in (topic.cluster.admin_client, topic.cluster.non_fetching_consumer):
        with suppress(KafkaException):
            client.list_topics(topic.topic, timeout=1.0)


def topic_end_offsets(topics: Sequence[PartitionOffsets]) -> list[dict[int, int]]:
    """`PartitionOffsets.end_offsets` of some topics of one cluster, with one request to each broker."""
    first = topics[0]

    def ask() -> list[dict[int, int]]:
        ends = _asked(topics, OFFSET_END)
        if min(min(of.values()) for of in ends) < 0:
            raise first.cluster.no_broker_error(f"nobody knows the offsets of {first.topic}")
        return ends

    try:
        found = _answer(topics, ask)
    except UnusableTopic:
        for topic in topics:  # raises a better error for the topic in question
            topic.list_again()
        raise
    for topic, ends in zip(topics, found, strict=True):
        topic.compare_with_seen(ends)
    return found


def _asked(topics: Sequence[PartitionOffsets], log_time: int) -> list[dict[int, int]]:
    wanted = [TopicPartition(each.topic, number, log_time) for each in topics for number in each.numbers()]
    found = topics[0].cluster.non_fetching_consumer.offsets_for_times(wanted, clusters.ANSWER_S)
    for error in filter(None, (partition.error for partition in found)):
        raise KafkaException(error)
    return [
        {partition.partition: partition.offset for partition in found if partition.topic == each.topic}
        for each in topics
    ]


class PartitionReader:
    """Reads ranges of a topic's partitions. Between reads it keeps fetching, at most `queue_kb`, so that the next read finds its records here.

    The last offsets of a range may have no records: they are markers of transactions, or aborted records. A consumer that waits for the
    record after them learns this half a second late, when its request ends. So a second consumer, which does not wait, looks for that record.
    """

    def __init__(self, cluster: Cluster, topic: str, queue_kb: int = 1 << 18, isolation: str = COMMITTED):
        self.cluster, self.topic = cluster, topic
        self._settings = cluster.librdkafka_properties | READING
        self._settings |= {"queued.max.messages.kbytes": queue_kb, "isolation.level": isolation}
        self._settings["group.id"] = cluster.consumer_group
        self._consumer = Consumer(self._settings)
        # partition -> the offset that comes next, of `_waiting` or the consumer
        self._next: dict[int, int] = {}
        self._waiting: dict[int, list[Message]] = {}
        self._ended: dict[int, int] = {}  # partition -> the end that the consumer has reached

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

    def wait_for_records(self, starts: Mapping[int, int], timeout_s: float) -> bool:
        """Waits for a record at one of the offsets or after it; False if none comes."""
        self._expect(starts)
        if not any(self._waiting.values()):
            self._fill(1, timeout_s)
        return any(self._waiting.values())

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
            self._consumer = Consumer(self._settings)
        self._waiting = {number: [] for number in self._next}
        self._ended = {}
        self._consumer.assign(
            [TopicPartition(self.topic, number, start) for number, start in self._next.items()]
        )

    def close(self) -> None:
        """Closes the connections."""
        self._consumer.close()
        if "_looking" in self.__dict__:
            self._looking.close()
