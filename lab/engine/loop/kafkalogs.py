"""The logs of an engine as topics of a Kafka cluster."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from lab.engine.checkpoint.cuts import Cut, CutId
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.record import batch_fingerprint, read_record, write_record
from lab.engine.loop.ends import CLOCKS_MS, MAKERS, Logs
from lab.logs.config import load_config
from lab.logs.index import Batch, writer_id
from lab.logs.places import KAFKA, split_kafka_place
from lab.logs.positions import Positions
from lab.model.enginelogs import ALL_LOGS, READ, WRITTEN
from lab.model.statuslines import parse_stats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from lab.engine.loop.kafkaoutlet import KafkaOutlet, TransactionalOutlet
    from lab.engine.records.kafkafeed import KafkaFeed
    from lab.engine.records.keyedlines import JoinedLines
    from lab.logs.cluster import Cluster
    from lab.logs.config import Config
    from lab.logs.kafka import KafkaLog

LINES_AT_FIRST = 100  # of the stats topic


@dataclass(frozen=True)
class KafkaLogs(Logs):
    """Logs as topics of a cluster (or of a broker at host:port), named like the logs or as `topics` says.

    `topic_ids`: log -> id of the topic that an engine's checkpoint has read; a feed of another topic raises TopicMadeAnew.
    """

    has_transactions = True

    where: "str | Cluster"
    topics: Mapping[str, str] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def check_place(cls, place: str) -> None:
        """Raises ValueError unless it is kafka://HOST:PORT, perhaps with a topic."""
        split_kafka_place(place)

    @classmethod
    def server_of(cls, place: str, config: "Config") -> "Cluster":
        """The cluster of a topic."""
        return config.cluster(split_kafka_place(place)[0])

    @classmethod
    def at(cls, where: str | None, places: Mapping[str, str], config: "Config") -> Self:
        """Topics with the names of the logs, of lab.toml if it is of the same cluster, or of `places`."""
        cluster = cls.server_of(where or next(iter(places.values())), config)
        topics = dict(config.topics) if cluster == config.kafka else {}
        return cls(cluster, topics | {log: split_kafka_place(place)[1] for log, place in places.items()})

    @classmethod
    def existing_at(cls, where: str) -> Self:
        """The topics of a running engine on a broker. Raises ValueError, NoBroker, UnusableTopic."""
        topic = split_kafka_place(where)[1]
        if topic:
            raise ValueError(
                f"{where} names a topic, expected only the broker: {where.removesuffix('/' + topic)}"
            )
        logs = cls.at(where, {}, load_config(None))
        for name in READ:
            logs.log(name).tail(new=True).close()  # asks the broker
        return logs

    @classmethod
    def beside(cls, events: str, config: "Config") -> Self:
        """Those on the cluster of the events topic."""
        return cls.at(None, {"events": events}, config)

    @classmethod
    def open_log(cls, place: str, config: "Config") -> "KafkaLog":
        """The topic at `kafka://host:port/topic`."""
        from lab.logs.kafka import KafkaLog

        address, topic = split_kafka_place(place)
        if not topic:
            raise ValueError(f"{place!r} names no topic, expected one, such as {KAFKA}{address}/events")
        return KafkaLog(config.cluster(address), topic)

    @property
    def cluster(self) -> "Cluster":
        """How the brokers are reached."""
        from lab.logs.cluster import to_cluster  # a tenth of a second that files need not wait for

        return to_cluster(self.where)

    @property
    def address(self) -> str:
        """host:port of a broker, or of several."""
        return self.cluster.address

    @property
    def name(self) -> str:
        """The address of the brokers."""
        return self.address

    def log(self, name: str) -> "KafkaLog":
        """The log of a name in `enginelogs.LOGS`."""
        from lab.logs.kafka import KafkaLog

        return KafkaLog(self.cluster, self.topic(name))

    def topic(self, name: str) -> str:
        """The name of the log's topic."""
        return self.topics.get(name, name)

    def log_name(self, name: str) -> str:
        """The name of the log's topic."""
        return self.topic(name)

    def create(self, event_partitions: int = 1, *, named_events: bool = True) -> bool:
        """Creates the topics that are missing, and returns whether the events topic was. An existing one may have any settings.

        Raises NoBroker, UnusableTopic; without `named_events` also NoTopic for a missing events topic that `topics` names.
        """
        from lab.logs.cluster import NoTopic

        events, created = self.log("events"), False
        try:
            events.existing_partitions()
        except NoTopic:
            if "events" in self.topics and not named_events:
                raise
            events.create(event_partitions, self._kept("events"))
            created = True
        for name in ("control", *WRITTEN):
            self.create_log(name)
        return created

    def create_log(self, name: str) -> None:
        """Creates the topic of a log, with one partition, unless it exists. Raises NoBroker, UnusableTopic."""
        from lab.logs.kafka import COMPACTED, CONTROL, KEPT_FOR_EVER

        kind = ALL_LOGS[name]
        if name == "control":
            config = CONTROL
        elif kind.is_compacted:
            config = COMPACTED
        else:
            config = KEPT_FOR_EVER if kind.is_kept else self._kept(name)
        self.log(name).create(1, config)

    def _kept(self, name: str) -> dict[str, str]:
        """The settings of a new topic whose records expire."""
        from lab.logs.kafka import KEPT

        return KEPT | {"retention.ms": str(self.cluster.retention_ms_of(name))}

    def create_for_commands(self) -> None:
        """Does nothing: a topic may be mistyped."""

    def existing(self, name: str) -> "KafkaLog":
        """A log whose topic exists. Raises NoTopic, which names topics of similar names, NoBroker, UnusableTopic."""
        log = self.log(name)
        log.existing_partitions(MAKERS.get(name, "lab run"))
        return log

    def control_to_write(self) -> "KafkaLog":
        """The control topic, to write to. Raises as `existing` does."""
        from lab.logs.kafka import CONTROL

        log = self.log("control")
        log.existing_partitions("lab run", CONTROL)
        return log

    def feed(self, name: str) -> "KafkaFeed":
        """A log as the engine reads it: events by tasks, which can wait for brokers, control by the driver, which cannot."""
        from lab.engine.records.kafkafeed import KafkaFeed
        from lab.logs.cluster import ANSWER_S

        patience_s = ANSWER_S if name == "control" else float("inf")
        return KafkaFeed(self.cluster, self.topic(name), patience_s, self.topic_ids.get(name, ""))

    def bound_to(self, checkpoint: Path | str) -> Self:
        """These logs with the ids of the topics that a checkpoint has read; a new checkpoint stores the current ids. Raises TopicMadeAnew."""
        from lab.logs.offsets import PartitionOffsets

        record = read_record(checkpoint) or {}
        known = record.get("topicIds", {})
        topics = {
            name: PartitionOffsets(self.cluster, self.topic(name), known.get(name, "")) for name in READ
        }
        found = {name: topic.topic_id() for name, topic in topics.items()}
        if found != known:
            write_record(checkpoint, record | {"topicIds": found})
        return replace(self, topic_ids=found)

    def report_progress(self, events: Positions) -> None:
        """Commits the progress to the consumer group."""
        from lab.engine.records.kafkafeed import process_follower

        process_follower(self.cluster, self.topic("events")).commit_progress(events)

    def progress_notice(self) -> str:
        """A notice if the consumer group cannot follow the engine because other programs have joined it."""
        group = self.cluster.consumer_group
        if not self.cluster.group_has_members():
            return ""
        return (
            f"consumer group {group} has active members, so the brokers refuse the engine's commits, and "
            "the group's lag is not the engine's; results are not affected. Set a group of its own in lab.toml (group = …)"
        )

    def outlet(self, writer: str) -> "KafkaOutlet":
        """Where a task delivers its cuts."""
        from lab.engine.loop.kafkaoutlet import process_outlet

        return process_outlet(self.cluster, tuple((name, self.topic(name)) for name in WRITTEN))

    def transactional_outlet(
        self, writer: str, key_groups: int, earlier_cuts: Sequence[Cut], check: Callable[[], None]
    ) -> "TransactionalOutlet":
        """Where an attempt that owns all key-groups of a checkpoint delivers its cuts, and those `earlier_cuts` that are not committed.

        `check` raises an error if another attempt has taken over.
        """
        from lab.engine.loop.kafkaoutlet import TransactionalOutlet, wait_for_transactions

        name = f"lab-{writer}-0-{key_groups - 1}"
        outlet = TransactionalOutlet(self.cluster, {log: self.topic(log) for log in WRITTEN}, name, check)
        if earlier_cuts:  # their transactions have ended: the outlet ends them first
            hidden = wait_for_transactions(self.log("stats"), lambda line: bool(_cuts_of(writer, [line])))
            outlet.committed = self._committed(writer, earlier_cuts[0], _cuts_of(writer, hidden))
        return outlet

    def _committed(self, writer: str, first: Cut, hidden: list[dict]) -> frozenset[CutId]:
        """The newest committed cuts of a checkpoint, including all committed ones from `first` on, and those `hidden`."""
        lines = hidden + self._newest_cuts(
            writer,
            first.end["at"] - CLOCKS_MS,
            lambda found: any(line["batch"] < first.number for line in found),
        )
        once = [line for line in lines if line["engine"].get("exactlyOnce")]
        return frozenset(CutId(line["batch"], _fingerprint(line)) for line in once)

    def to_sink_rows(self, keys: list[str], lines: "JoinedLines") -> tuple[list[str], list[str]]:
        """Keys and values of the rows that carry lines to the sink, one record each."""
        return keys, list(lines)

    def last_batches(self, writer: str, since_ms: int) -> Iterator[tuple["KafkaLog", Batch]]:
        """The stats log and its last micro-batch of a checkpoint, if that was after `since_ms`."""
        if mine := self._newest_cuts(writer, since_ms, bool):
            last = mine[-1]
            yield self.log("stats"), Batch(writer_id(writer), last["batch"], _fingerprint(last))

    def _newest_cuts(self, writer: str, since_ms: int, enough: Callable[[list[dict]], bool]) -> list[dict]:
        """The newest lines of the stats log about cuts of a checkpoint: as many as are `enough`, or all since a time."""
        log, asked = self.log("stats"), LINES_AT_FIRST
        while True:
            lines = log.newest(asked)
            mine = _cuts_of(writer, lines)
            ends = [line["times"]["end"] for line in _readable(lines) if "end" in line["times"]]
            if enough(mine) or log.newest_returns_all(asked) or min(ends, default=since_ms) < since_ms:
                return mine
            asked *= 10

    def sink(self, output: "DataFrame", checkpoint: CheckpointFolder, writer: str) -> "DataStreamWriter":
        """A query that writes a keyed record for each line, at least once, so it needs no id of the batch or the checkpoint."""
        properties = {f"kafka.{name}": value for name, value in self.cluster.java_properties.items()}
        return output.writeStream.format("kafka").options(**properties)


def _fingerprint(line: dict) -> int:
    """The fingerprint of the cut that a line of the stats log describes."""
    return batch_fingerprint(line["cut"] | {"cut": line["cut"]["to"]})


def _cuts_of(writer: str, lines: list[str]) -> list[dict]:
    """The lines of a stats log about cuts of a checkpoint."""
    return [line for line in _readable(lines) if line.get("engine", {}).get("id") == writer and "cut" in line]


def _readable(lines: list[str]) -> Iterator[dict]:
    """The lines of a stats log that an engine can have written."""
    for line in lines:
        with suppress(ValueError):
            yield parse_stats(line)
