"""Delivers cuts to topics, from the task that evaluates them: a record for each line, at least once or in transactions."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import lru_cache

from confluent_kafka import KafkaError, KafkaException

from lab.engine.checkpoint.cuts import Cut, CutId, TakenOver
from lab.engine.checkpoint.record import batch_fingerprint
from lab.engine.loop.ends import Outlet
from lab.engine.windows.evaluate import TaskOutput
from lab.logs import cluster as clusters
from lab.logs.cluster import Cluster, NotAllowed
from lab.logs.kafka import WRITING, KafkaLog, RecordProducer
from lab.logs.offsets import PartitionOffsets
from lab.logs.partitions import UNCOMMITTED, PartitionReader

MARKED_S = 5.0  # brokers take less to mark the end of a transaction in its topics
LOOK_S = 0.01
FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)


class KafkaOutlet(RecordProducer, Outlet):
    """The producer of a task. `topics`: log -> topic."""

    def __init__(self, cluster: Cluster, topics: dict[str, str], settings: Mapping[str, object] = {}):
        super().__init__(cluster, topics.values(), {"linger.ms": 0, **settings})
        self._topic_by_log = topics

    def put(self, cut: Cut, output: TaskOutput, redelivered: frozenset[CutId]) -> None:
        """Sends the results of a cut; readers recognise repeated alerts by their alertId."""
        with self.fatal_errors():
            for name, (keys, lines) in output.items():
                topic = self._topic_by_log[name]
                for key, line in zip(keys, lines, strict=True):
                    self.send(topic, line, key)
            self.run_delivery_callbacks()
        self.raise_lost()


class TransactionalOutlet(KafkaOutlet):
    """The producer of an attempt, which delivers each cut in one transaction: readers of committed records see it whole, and once.

        attempt 1   7 ─► commit   8 ─► ┊ killed ┊
        attempt 2                                  init: 8 is aborted, attempt 1 fenced   7 is committed   8 ─► commit   9 ─► …

    `committed`: cuts that earlier attempts have committed; they are not delivered again. `check`
    raises an error if another attempt has taken over. The broker accepts the producer that was initialized last, even
    if it belongs to an older attempt; so `check` runs before and after the initialization. What was committed before is final.
    """

    def __init__(self, cluster: Cluster, topics: dict[str, str], name: str, check: Callable[[], None]):
        limit = {"transactional.id": name, "transaction.timeout.ms": WRITING["message.timeout.ms"]}
        super().__init__(cluster, topics, limit)
        self.committed: frozenset[CutId] = frozenset()
        with self._fenced():
            self._initialize(name, check)

    def _initialize(self, name: str, check: Callable[[], None]) -> None:
        while True:
            check()
            try:
                self._producer.init_transactions(clusters.ANSWER_S)
                return check()
            except KafkaException as failure:
                if failure.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                    raise NotAllowed(
                        f"transactional id {name} on {self._cluster.address}: this user needs Write and Describe on it"
                    ) from None
                if not failure.args[0].retriable():
                    raise

    def put(self, cut: Cut, output: TaskOutput, redelivered: frozenset[CutId]) -> None:
        """Sends and commits the results of a cut. Raises TakenOver if the broker has fenced this producer."""
        if (cut.number, batch_fingerprint(cut.end)) in self.committed:
            return
        with self._fenced(), self.fatal_errors():
            self._producer.begin_transaction()
            super().put(cut, output, redelivered)
            self._producer.commit_transaction()

    @contextmanager
    def _fenced(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as failure:
            if failure.args[0].code() in FENCED:
                raise TakenOver(
                    "the broker has fenced this attempt: another one has begun to deliver, or its transaction was open for longer "
                    f"than {WRITING['message.timeout.ms']} ms, and was aborted"
                ) from None
            raise


def wait_for_transactions(log: KafkaLog, has_ended: Callable[[str], bool]) -> list[str]:
    """Waits until the transactions that are open in a topic have ended: each hides all records after its first.

    A broker that restarts may forget to mark the end of a transaction that it has decided to commit. Its records stay hidden until
    a later transaction of the same producer ends. So this does not wait for a transaction if `has_ended` says of its first line that
    it has; returns these lines.
    """
    partitions, looked = PartitionOffsets(log.cluster, log.topic), time.monotonic()
    written = partitions.end_offsets(committed=False)
    while hidden := {
        n: (end, end + 1) for n, end in partitions.end_offsets().items() if end < written.get(n, 0)
    }:
        time.sleep(LOOK_S)
        if time.monotonic() < looked + MARKED_S:
            continue
        with closing(PartitionReader(log.cluster, log.topic, isolation=UNCOMMITTED)) as reader:
            read = reader.read(hidden, clusters.ANSWER_S)
            messages = [message for _, some in read for message in some]
        lines = [(message.value() or b"").decode(errors="replace") for message in messages]
        if len(lines) == len(hidden) and all(map(has_ended, lines)):
            return lines
        looked = time.monotonic()
    return []


@lru_cache(maxsize=2)
def process_outlet(cluster: Cluster, topics: tuple[tuple[str, str], ...]) -> KafkaOutlet:
    """The one of this process."""
    return KafkaOutlet(cluster, dict(topics))
