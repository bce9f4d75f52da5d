"""Delivers cuts to topics, from the task that evaluates them: a record for each line, at least once."""

from functools import lru_cache

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from lab.engine.cuts import Cut
from lab.engine.windows import TaskOutput
from lab.logs.cluster import Cluster
from lab.logs.kafka import ROOM_S, WRITING


class Outlet:
    """The producer of a task."""

    def __init__(self, cluster: Cluster, topics: dict[str, str]):
        self._producer = Producer(cluster.librdkafka | WRITING | {"linger.ms": 0})
        self._topics = topics
        self._lost: KafkaError | None = None

    def put(self, cut: Cut, output: TaskOutput, again: frozenset[tuple[int, int]]) -> None:
        """Sends what comes of a cut; readers know alerts by their alertId."""
        for name, (keys, lines) in output.items():
            topic = self._topics[name]
            for key, line in zip(keys, lines, strict=True):
                self._send(topic, line, key)
        self._producer.poll(0)
        self._raise_lost()

    def _send(self, topic: str, line: str, key: str) -> None:
        while True:
            try:
                return self._producer.produce(topic, line, key, on_delivery=self._heard)
            except BufferError:
                self._producer.poll(ROOM_S)

    def _heard(self, error: KafkaError | None, message: Message) -> None:
        self._lost = self._lost or error

    def _raise_lost(self) -> None:
        if self._lost:
            lost, self._lost = self._lost, None
            raise KafkaException(lost)

    def flush(self) -> None:
        """Waits until the brokers have all that was sent. Raises KafkaException if they lost any."""
        self._producer.flush()
        self._raise_lost()


@lru_cache(maxsize=2)
def outlet(cluster: Cluster, topics: tuple[tuple[str, str], ...]) -> Outlet:
    """The one of this process."""
    return Outlet(cluster, dict(topics))
