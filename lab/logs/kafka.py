"""Logs as Kafka topics: kafka-python for people's tools and tests; the pipeline itself reads and writes through Spark.

    events        transactions/0  ─────●──●───●●──►      append time by the broker, kept for a week
    control       control/0       ──●────────●────►      one partition (its order counts), compacted by rule id

The order of evaluation is the topics' append time, then partition, then offset.
"""

from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import cached_property
from itertools import repeat

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError, TopicAlreadyExistsError

from lab.logs import KAFKA, Record

DAY_MS = 86_400_000
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
KEPT = APPEND_TIME | {"cleanup.policy": "delete", "retention.ms": str(7 * DAY_MS)}
# an engine that was down for less than the lag still sees each change of a rule at its place among the events
COMPACTED = APPEND_TIME | {
    "cleanup.policy": "compact",
    "retention.ms": "-1",
    "min.compaction.lag.ms": str(7 * DAY_MS),
}
ANSWER_MS = 10_000  # how long a broker may take to answer at first


class NoBroker(ConnectionError):
    """No Kafka broker answers at an address; the message says what to do."""


class BadTopic(ValueError):
    """A topic does not fit its use; the message says how."""


class KafkaLog:
    """A topic as a log, for any number of writers and readers. `address`: host:port."""

    def __init__(self, address: str, topic: str):
        self.address, self.topic = address, topic
        self._sent: list = []  # what the broker may not have yet

    def __repr__(self) -> str:
        return f"{KAFKA}{self.address}/{self.topic}"

    def create(self, partitions: int = 1, config: dict[str, str] = KEPT) -> None:
        """Makes the topic unless it is there. Raises BadTopic if it is and does not give records their append time."""
        with _connected(KafkaAdminClient, self.address) as admin:
            try:
                admin.create_topics(
                    {self.topic: {"num_partitions": partitions, "replication_factor": 1, "configs": config}}
                )
                admin.wait_for_topics([self.topic])
            except TopicAlreadyExistsError:
                self._check(admin, config)

    def _check(self, admin: KafkaAdminClient, config: dict[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, self.topic, list(config))
        (found,) = admin.describe_configs([resource], config_filter="all")["topic"].values()
        # who sends rules without keys (the Flink demo) needs a topic that is not compacted: one that keeps everything will do
        keeps_all = config is COMPACTED and found["retention.ms"]["value"] == "-1"
        for name in ("message.timestamp.type", *["cleanup.policy"] * (not keeps_all)):
            if name in config and found[name]["value"] != config[name]:
                raise BadTopic(
                    f"topic {self.topic}: {name} is {found[name]['value']}, expected {config[name]}; "
                    f"change it (kafka-configs.sh) or name another topic"
                )
        if config is COMPACTED and len(self._partitions(admin)) > 1:
            raise BadTopic(f"topic {self.topic}: has several partitions, expected one: rules have one order")

    def _partitions(self, admin: KafkaAdminClient) -> list[dict]:
        return admin.describe_topics([self.topic])[0]["partitions"]

    def append(self, lines: Iterable[str | bytes], keys: Iterable[str] | None = None) -> list:
        """Sends records without waiting; `flush` does. Raises KafkaError for one sent earlier that was lost."""
        self._raise_lost()
        sent = [
            self._producer.send(
                self.topic, line.encode() if isinstance(line, str) else line, key and key.encode()
            )
            for line, key in zip(lines, keys or repeat(None))
        ]
        self._sent += sent
        return sent

    def publish(self, lines: Sequence[str | bytes], keys: Sequence[str]) -> list[str]:
        """Sends records and waits for the broker; returns the place of each: `control/0:17` (partition, offset)."""
        futures = self.append(lines, keys)
        self.flush()
        done = [future.get() for future in futures]
        return [f"{self.topic}/{record.partition}:{record.offset}" for record in done]

    def flush(self) -> None:
        """Waits until the broker has all that was sent. Raises KafkaError if it lost any."""
        self._producer.flush()
        self._raise_lost()

    def _raise_lost(self) -> None:
        for future in self._sent:
            if future.failed():
                raise future.exception
        self._sent = [future for future in self._sent if not future.is_done]

    @cached_property
    def _producer(self) -> KafkaProducer:
        return _connected(
            KafkaProducer, self.address, linger_ms=5, batch_size=1 << 18, allow_auto_create_topics=False
        )

    def read(self) -> list[str]:
        """All lines of the log up to now."""
        with closing(self.tail()) as tail:
            return tail.read()

    def tail(self, new: bool = False) -> "Tail":
        """A reader that starts at the oldest record; `new`: at the next one to come."""
        return Tail(self, new)

    def close(self) -> None:
        """Sends what is still waiting and lets go of the connection."""
        if "_producer" in self.__dict__:
            self.__dict__.pop("_producer").close()


class Tail:
    """Reads a topic as it grows; each record once."""

    def __init__(self, log: KafkaLog, new: bool):
        self._consumer = _connected(
            KafkaConsumer, log.address, enable_auto_commit=False, fetch_max_wait_ms=100
        )
        numbers = self._consumer.partitions_for_topic(log.topic)
        if not numbers:
            self._consumer.close()
            raise BadTopic(f"there is no topic {log.topic} on {log.address}; `lab run` makes those it needs")
        self._partitions = [TopicPartition(log.topic, number) for number in sorted(numbers)]
        self._consumer.assign(self._partitions)
        for partition, offset in self._ends().items() if new else self._starts().items():
            self._consumer.seek(partition, offset)

    def records(self) -> list[Record]:
        """The records up to now that came since the last call, in order of append time."""
        ends, found = self._ends(), []
        while any(self._consumer.position(partition) < end for partition, end in ends.items()):
            for records in self._consumer.poll(timeout_ms=100).values():
                found += [
                    Record(
                        record.timestamp,
                        (record.key or b"").decode(errors="replace"),
                        (record.value or b"").decode(errors="replace"),
                        f"{record.topic}/{record.partition}:{record.offset}",
                    )
                    for record in records
                ]
        return sorted(found, key=lambda record: record.append_ms)

    def read(self) -> list[str]:
        """The lines that came since the last call."""
        return [record.line for record in self.records()]

    def end(self) -> int:
        """How many records have been appended in all, read or not."""
        return sum(self._ends().values())

    def close(self) -> None:
        self._consumer.close()

    def _starts(self) -> dict[TopicPartition, int]:
        return self._consumer.beginning_offsets(self._partitions)

    def _ends(self) -> dict[TopicPartition, int]:
        return self._consumer.end_offsets(self._partitions)


def _connected(client, address: str, **settings):
    try:
        return client(bootstrap_servers=address, bootstrap_timeout_ms=ANSWER_MS, **settings)
    except KafkaError as error:
        raise NoBroker(
            f"no Kafka broker answers at {address} ({error}); `lab broker start` starts one"
        ) from None
