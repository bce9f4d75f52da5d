"""Logs in Kafka topics, for tools and tests. The engine reads topics through `lab.engine.records.kafkafeed`.

    events        transactions/0  ─────●──●───●●──►      log append time, kept for a week
    control       control/0       ──●────────●────►      one partition, because the order matters; kept for ever

Events are evaluated in the order of log time, then partition, then offset.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from difflib import get_close_matches
from functools import cached_property, partial
from itertools import repeat

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType

from lab.logs import cluster as clusters
from lab.logs import protocol
from lab.logs.cluster import GONE, Cluster, NoTopic, TopicMadeAnew, UnusableTopic, to_cluster
from lab.logs.offsets import PartitionOffsets
from lab.logs.partitions import PartitionReader
from lab.logs.places import KAFKA
from lab.logs.positions import Positions, Record, advance_expired_positions, expired_text, log_time_of
from lab.logs.protocol import Log
from lab.model.times import DAY_MS

APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
KEPT = APPEND_TIME | {"cleanup.policy": "delete"}  # retention is set by the cluster's settings
KEPT_FOR_EVER = KEPT | {"retention.ms": "-1"}
CONTROL = dict(
    KEPT_FOR_EVER
)  # its order matters, and one that is compacted will do: `_check` knows it by identity
# a reader that was down for less than this lag still sees every message at its place
COMPACTED = APPEND_TIME | {
    "cleanup.policy": "compact",
    "retention.ms": "-1",
    "min.compaction.lag.ms": str(7 * DAY_MS),
}
DeliveryCallback = Callable[[KafkaError | None, Message], None]  # what brokers say of a record
NOT_ALLOWED = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
WRITING = {
    "enable.idempotence": True,
    "partitioner": "murmur2_random",  # like Java's clients
    "linger.ms": 5,
    "queue.buffering.max.messages": 500_000,
    "message.timeout.ms": 120_000,
    "log_level": 0,
}
MAX_COMPARED = 10_000  # topics whose names are compared with one that does not exist
NAMED = 10  # topics that an error names
QUEUE_KB = 8 << 10  # of each partition's records wait at most where they are read one by one
ROOM_S = 0.1  # how often a full queue is checked


class RecordProducer:
    """Sends records to topics, and raises the error of the first one that the brokers did not take. `settings`: in addition to WRITING."""

    def __init__(self, cluster: Cluster, topics: Iterable[str], settings: Mapping[str, object] = {}):
        self._producer = Producer({**cluster.librdkafka_properties, **WRITING, **settings})
        self._cluster, self._topics = cluster, ", ".join(topics)
        self._lost: tuple[Message, KafkaError] | None = None

    def fatal_errors(self) -> AbstractContextManager[None]:
        """Raises the error that ended the producer, and names all topics, because the producer does not say which one it is about."""
        return self._cluster.translate_fatal_errors(self._topics)

    def send(
        self, topic: str, line: str | bytes, key: str | None, on_delivery: DeliveryCallback | None = None
    ) -> None:
        """Queues a record; waits only while the queue is full. `on_delivery`: is called in place of `note_delivery`."""
        while True:
            try:
                return self._producer.produce(topic, line, key, on_delivery=on_delivery or self.note_delivery)
            except BufferError:
                self._producer.poll(ROOM_S)

    def note_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Notes whether the brokers took a record. Calls nothing: a producer that ends calls this while its error is being raised."""
        if error is not None and self._lost is None:
            self._lost = message, error

    def run_delivery_callbacks(self) -> None:
        """Runs the delivery callbacks for the answers of the brokers so far."""
        self._producer.poll(0)

    def raise_lost(self) -> None:
        """Raises UnusableTopic, NoBroker or KafkaException if a record is known to be lost, once."""
        lost, self._lost = self._lost, None
        if lost:
            message, error = lost
            raise self._cluster.delivery_error(message.topic() or "", error)

    def flush(self) -> None:
        """Waits until the brokers have all that was sent. Raises as `raise_lost` does."""
        with self.fatal_errors():
            self._producer.flush()
        self.raise_lost()


class KafkaLog(Log):
    """A topic as a log, for any number of writers and readers. `where`: host:port or a cluster."""

    def __init__(self, where: str | Cluster, topic: str):
        self.cluster, self.topic = to_cluster(where), topic

    def __repr__(self) -> str:
        return f"{KAFKA}{self.cluster.address}/{self.topic}"

    @property
    def absolute_name(self) -> str:
        """Cluster and topic, which name the log in whatever folder a command runs."""
        return repr(self)

    def create(self, partitions: int = 1, config: dict[str, str] = KEPT) -> None:
        """Creates the topic unless it exists. Raises NoBroker, and UnusableTopic if its settings do not fit or this user may not create it."""
        try:
            found = len(PartitionOffsets(self.cluster, self.topic).numbers())
        except NoTopic:
            self._make(partitions, {"retention.ms": str(self.cluster.retention_ms), **config})
        else:
            self._check(found, config)

    def existing_partitions(self, maker: str = "", config: dict[str, str] | None = None) -> PartitionOffsets:
        """The partitions of a topic that others make: the command `maker`, or what writes events.

        Raises NoBroker, UnusableTopic, also if its settings do not fit `config`, and NoTopic, which names topics of similar names.
        """
        partitions = PartitionOffsets(self.cluster, self.topic)
        try:
            found = len(partitions.numbers())
        except NoTopic:
            create = f"kafka-topics.sh --bootstrap-server {self.cluster.address} --create --topic {self.topic} --partitions 6"
            others = f"what writes to it (`lab simulate … --to` makes its topic), or: {create}"
            raise NoTopic(
                f"there is no topic {self.topic} on {self.cluster.address} ({self._similar_topics()}). If the name is right, "
                f"start first {f'`{maker}`, which makes this topic' if maker else others}"
            ) from None
        if config:
            self._check(found, config)
        return partitions

    def _similar_topics(self) -> str:
        """Topics that the user may have meant: those with similar names, or else some of all."""
        with self.cluster.translate_errors(self.topic):
            found = self.cluster.admin_client.list_topics(timeout=clusters.ANSWER_S).topics
        names = sorted(name for name in found if not name.startswith("__"))  # those are Kafka's own
        if similar := get_close_matches(self.topic, names[:MAX_COMPARED]):
            return f"did you mean {' or '.join(similar)}?"
        more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
        return f"topics there: {', '.join(names[:NAMED])}{more}" if names else "there are no topics"

    def _make(self, partitions: int, config: dict[str, str]) -> None:
        new = NewTopic(self.topic, partitions, self.cluster.replication, config=config)
        try:
            with self.cluster.translate_errors(self.topic):
                self.cluster.admin_client.create_topics([new], request_timeout=clusters.ANSWER_S)[
                    self.topic
                ].result()
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                wanted = ", ".join(f"{name}={value}" for name, value in config.items())
                raise UnusableTopic(
                    f"topic {self.topic} is not on {self.cluster.address} and cannot be made ({failure.args[0].str()}): "
                    f"have it made, with {partitions} partition{'s' * (partitions > 1)} and {wanted}"
                ) from None
        deadline = time.monotonic() + clusters.ANSWER_S
        while time.monotonic() < deadline:  # until all brokers know it
            with suppress(UnusableTopic):
                PartitionOffsets(self.cluster, self.topic).numbers()
                return
            time.sleep(ROOM_S)

    def _check(self, partitions: int, config: dict[str, str]) -> None:
        ordered = config is COMPACTED or config is CONTROL
        if ordered and partitions > 1:
            raise UnusableTopic(
                f"topic {self.topic}: has several partitions, expected one: rules have one order"
            )
        found = self.topic_config()
        policy, wanted = found.get("cleanup.policy"), config.get("cleanup.policy")
        if ordered and policy:
            fits, wanted = (
                policy == "compact" or found.get("retention.ms") == "-1",
                "compact, or retention.ms=-1",
            )
        else:
            fits = not wanted or not policy or policy == wanted
        if not fits:
            raise UnusableTopic(
                f"topic {self.topic}: cleanup.policy is {policy}, expected {wanted}; "
                f"change it (kafka-configs.sh) or name another topic"
            )

    def topic_config(self) -> dict[str, str]:
        """The topic's configuration; empty if this user is not allowed to read it. Raises NoBroker, UnusableTopic."""
        resource = ConfigResource(ResourceType.TOPIC, self.topic)
        try:
            with self.cluster.translate_errors(self.topic):
                asked = self.cluster.admin_client.describe_configs(
                    [resource], request_timeout=clusters.ANSWER_S
                )
                return {name: entry.value for name, entry in asked[resource].result().items()}
        except KafkaException as failure:
            if failure.args[0].code() in NOT_ALLOWED:
                return {}
            raise

    def append(self, lines: Iterable[str | bytes], keys: Iterable[str] | None = None) -> None:
        """Sends records without waiting for the broker, unless the queue is full; `flush` waits. Raises if an earlier record was lost."""
        self._producer.raise_lost()
        each_key: Iterable[str | None] = keys or repeat(None)
        with self._producer.fatal_errors():
            for line, key in zip(lines, each_key):
                self._producer.send(self.topic, line, key)
            self._producer.run_delivery_callbacks()

    def publish(self, lines: Sequence[str | bytes], keys: Sequence[str]) -> list[str]:
        """Sends records and waits for the broker; returns the place of each: `control/0:17` (partition, offset)."""
        sent: dict[int, Message] = {}

        def note_delivery(number: int, error: KafkaError | None, message: Message) -> None:
            sent[number] = message
            self._producer.note_delivery(error, message)

        with self._producer.fatal_errors():
            for number, (line, key) in enumerate(zip(lines, keys)):
                self._producer.send(self.topic, line, key, partial(note_delivery, number))
        self.flush()
        messages = (sent[number] for number in range(len(lines)))
        return [self.place_of(each.partition() or 0, each.offset() or 0) for each in messages]

    def flush(self) -> None:
        """Waits until the brokers have acknowledged all records. Raises NoBroker, UnusableTopic or KafkaException if any was lost."""
        self._producer.flush()

    @cached_property
    def _producer(self) -> RecordProducer:
        # raises with the reason: a producer would retry for ever
        PartitionOffsets(self.cluster, self.topic).numbers()
        return RecordProducer(self.cluster, [self.topic])

    def newest_records(self, max_records: int) -> list[Record]:
        """The newest records: at most `max_records`, an equal share from each partition."""
        partitions = PartitionOffsets(self.cluster, self.topic)
        starts, ends = partitions.start_offsets(), partitions.end_offsets()
        share = max(max_records // len(ends), 1)
        with closing(self.tail(at={n: max(starts[n], end - share) for n, end in ends.items()})) as tail:
            return tail.records()

    def bounds(self) -> tuple[Positions, Positions]:
        """The first and next offsets of the partitions. Raises as `existing_partitions` does."""
        partitions = self.existing_partitions()
        return partitions.start_offsets(), partitions.end_offsets()

    def place_of(self, source: int, position: int) -> str:
        """`events/3:17`."""
        return f"{self.topic}/{source}:{position}"

    def values(self, source: int, start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
        """(log time, offset, value) of the records between two offsets of a partition."""
        with closing(PartitionReader(self.cluster, self.topic, QUEUE_KB)) as reader:
            for _, messages in reader.read({source: (start, end)}, clusters.ANSWER_S):
                for message in messages:
                    yield log_time_of(message), message.offset() or 0, message.value() or b""

    def time_notice(self) -> str:
        """A notice if records have their producers' times; "" if the broker says when a record was logged."""
        if self.topic_config().get("message.timestamp.type") != "CreateTime":
            return ""
        return (
            f"topic {self.topic}: records have their producers' times (CreateTime) and are read in the order of these times; "
            "see docs/kafka.md"
        )

    def check_topic_id(self, topic_id: str, remedy: str) -> None:
        """Raises TopicMadeAnew, with a remedy, if the topic is not the one that had this id; "" is any. Raises NoBroker, UnusableTopic."""
        found = topic_id and PartitionOffsets(self.cluster, self.topic).topic_id()
        if found and found != topic_id:
            raise self.cluster.made_anew_error(self.topic, remedy)

    def newest_returns_all(self, max_records: int) -> bool:
        """Whether `newest` with this `max_records` returns all records of the log."""
        partitions = PartitionOffsets(self.cluster, self.topic)
        starts, ends = partitions.start_offsets(), partitions.end_offsets()
        return max(end - starts[number] for number, end in ends.items()) <= max_records // len(ends)

    def tail(self, new: bool = False, at: Positions | None = None) -> "Tail":
        """A reader that starts at the oldest record; with `new` at the end; with `at` at those offsets (ValueError if there are none)."""
        return Tail(self, new, at)

    def close(self) -> None:
        """Sends the waiting records and closes the connection."""
        if "_producer" in self.__dict__:
            self.flush()
            del self._producer


class Tail(protocol.Tail):
    """Reads a growing topic, each record once; if the topic is deleted and created again, all its new records. All methods raise NoBroker and UnusableTopic.

    If records expire before they are read, it continues with the oldest ones that are kept. `expired`: a sentence about the records that it
    missed in this way; it remains until a caller empties it.
    `topic_id`: of the topic whose positions it has, as `KafkaLog.check_topic_id` takes it.
    """

    def __init__(self, log: KafkaLog, new: bool, at: Positions | None):
        self._log, self.expired = log, ""
        self._partitions = PartitionOffsets(log.cluster, log.topic)
        self._next = self._partitions.end_offsets() if new else self._partitions.start_offsets()
        if at is not None:
            starts = self._partitions.start_offsets()
            self._next = advance_expired_positions(log, at, starts, self._partitions.end_offsets())
            self.expired = expired_text(log, at, starts)
        self.topic_id = self._partitions.topic_id()
        self._reader = PartitionReader(log.cluster, log.topic)

    @property
    def positions(self) -> Positions:
        """Where the next call starts to read."""
        return dict(self._next)

    def records(self, at_most: int | None = None, upto: Positions | None = None) -> list[Record]:
        """The records appended since the last call, in order of log time; at most `at_most` of each partition; `upto`: only before these positions.

        Empty only at the end, however many offsets before it have no records, as those of transactions that were aborted."""
        try:
            ends = upto or self._partitions.end_offsets()
        except TopicMadeAnew:
            self._partitions = PartitionOffsets(self._log.cluster, self._log.topic)
            self._next, ends = self._partitions.start_offsets(), self._partitions.end_offsets()
            self.topic_id = self._partitions.topic_id()
        while True:
            some = {n: min(end, self._next.get(n, 0) + (at_most or end)) for n, end in ends.items()}
            try:
                found = self._up_to(some)
            except KafkaException as failure:
                starts = self._partitions.start_offsets()
                self.expired = expired_text(self._log, self._next, starts)
                if failure.args[0].code() not in GONE or not self.expired:
                    raise
                self._next = {n: max(start, self._next.get(n, 0)) for n, start in starts.items()}
                return self.records(at_most, upto)
            self._next = some
            if found or some == ends:
                return sorted(found, key=lambda record: record.log_time_ms)

    def _up_to(self, ends: Positions) -> list[Record]:
        ranges = {n: (at, end) for n, end in ends.items() if end > (at := self._next.get(n, 0))}
        return [
            Record(
                log_time_of(message),
                (message.key() or b"").decode(errors="replace"),
                (message.value() or b"").decode(errors="replace"),
                f"{message.topic()}/{number}:{message.offset()}",
            )
            for number, messages in self._reader.read(ranges, clusters.ANSWER_S)
            for message in messages
        ]

    def close(self) -> None:
        self._reader.close()
