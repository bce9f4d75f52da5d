"""The partitions of a topic: their first and last offsets, and where a log time begins, with confluent-kafka (librdkafka)."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from confluent_kafka import OFFSET_END, IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from lab.logs import cluster as clusters
from lab.logs.cluster import ClientRefused, Cluster, NoBroker, TopicMadeAnew, UnusableTopic
from lab.logs.positions import LATEST_LOG_TIME

T = TypeVar("T")
AGAIN_S = 0.2
LISTED_S = 30.0  # how often new partitions are looked for
NO_ID = "A" * 22  # the id of every topic on brokers before 2.8: zeros in base 64


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
        found = self.cluster.result_of(asked[self.topic])
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
        except NoBroker as error:
            if isinstance(error, ClientRefused) and not first.cluster.was_accepted:
                raise
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
