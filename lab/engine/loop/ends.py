"""The logs that an engine reads and writes: as folders of files, or as topics of Kafka."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lab.engine.checkpoint.cuts import Cut, CutId
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.record import (
    batch_fingerprint,
    planned_end,
    read_record,
    runs_loop,
    write_record,
)
from lab.logs.access import make_folder
from lab.logs.files import WEEK_MS, FileLog
from lab.logs.index import Batch, writer_id
from lab.logs.positions import Positions
from lab.model.answers import parse_stats

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from lab.engine.loop.kafkaoutlet import KafkaOutlet, TransactionalOutlet
    from lab.engine.records.feeds import Feed
    from lab.engine.records.kafkafeed import KafkaFeed
    from lab.engine.records.keyedlines import JoinedLines
    from lab.engine.windows.evaluate import TaskOutput
    from lab.logs.cluster import Cluster
    from lab.logs.kafka import KafkaLog

READ = ("events", "control")
WRITTEN = ("alerts", "acks", "deadLetters", "stats")
LOGS = (*READ, *WRITTEN)
COMPACTED_LOGS = ("control", "restrictions")  # as topics, they keep the last record of each key
KEPT_LOGS = (*COMPACTED_LOGS, "acks")  # no record expires: acks say which rule a version is
ROW_BYTES = 1 << 18  # of lines, before compression
LINES_AT_FIRST = 100  # of the stats topic
CLOCKS_MS = 60_000  # those of two hosts may differ by so much


@dataclass(frozen=True)
class FileLogs:
    """Logs on the embedded default: one folder for each log, in `folder` or elsewhere."""

    folder: Path
    elsewhere: Mapping[str, Path] = field(default_factory=dict)

    def log(self, name: str) -> FileLog:
        """The log `events`, `control`, `alerts`, `acks`, `deadLetters` or `stats`."""
        return FileLog(self.log_folder(name), retention_ms=None if name in KEPT_LOGS else WEEK_MS)

    def log_folder(self, name: str) -> Path:
        """The folder of a log."""
        return self.elsewhere.get(name, self.folder / name)

    def create(self, named_events: bool = True) -> bool:
        """Creates the folders that are missing, whatever `named_events` is. Returns False: only a new events topic needs a notice."""
        for name in LOGS:
            self.create_log(name)
        return False

    def create_log(self, name: str) -> None:
        """Creates the folder of a log unless it exists."""
        make_folder(self.log_folder(name))

    def topic(self, name: str) -> str:
        """The topic that rows for the log name."""
        return name

    def feed(self, name: str) -> "Feed":
        """A log as the engine reads it."""
        from lab.engine.records.feeds import FileFeed

        return FileFeed(self.log_folder(name))

    def report_progress(self, events: Positions) -> None:
        """Does nothing: only topics have a consumer group that shows progress."""

    def sink(self, output: "DataFrame", checkpoint: CheckpointFolder, writer: str) -> "DataStreamWriter":
        """A query that appends the output of each micro-batch once, however often the batch runs; `writer`: the checkpoint's id."""
        return output.writeStream.foreachBatch(partial(self._write, checkpoint=checkpoint, writer=writer))

    def _write(self, output: "DataFrame", batch_id: int, checkpoint: CheckpointFolder, writer: str) -> None:
        rows, end = output.toArrow(), planned_end(checkpoint.where, batch_id)
        if not runs_loop(end):
            self.write(rows, end["number"], writer, batch_fingerprint(end))

    def to_sink_rows(self, keys: list[str], lines: "JoinedLines") -> tuple[list[str], list[bytes]]:
        """Keys and values of the rows that carry lines to `write`: many lines in a row, compressed, because Spark copies each row a dozen times."""
        data = memoryview(lines.data)
        values = [_compressed(data[at : at + ROW_BYTES]) for at in range(0, len(data), ROW_BYTES)]
        return [""] * len(values), values

    def write(self, rows: "pa.Table", cut_number: int, writer: str, fingerprint: int) -> None:
        """Appends the rows of a cut (`source.OUTPUT`) unless the logs have them; `fingerprint`: that of the cut."""
        import pyarrow.compute as pc

        for name in rows["topic"].unique().to_pylist():
            values = rows.filter(pc.field("topic") == name)["value"].to_pylist()
            self.log(name).put_batch_once(
                writer, cut_number, b"".join(map(_decompressed, values)), fingerprint
            )

    def outlet(self, writer: str) -> "FileOutlet":
        """Where a task delivers its cuts."""
        return FileOutlet(self, writer)

    def last_batches(self, writer: str, since_ms: int) -> Iterator[tuple[FileLog, Batch]]:
        """Each log that has micro-batches of a checkpoint, and the last of these, however old it is."""
        for log in map(self.log, WRITTEN):
            if last := log.last_batch(writer):
                yield log, last


def _compressed(data: memoryview) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def _decompressed(data: bytes) -> bytes:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(data), "lz4") as stream:
        return stream.read()


@dataclass(frozen=True)
class FileOutlet:
    """Delivers cuts to folders, each once."""

    logs: FileLogs
    writer: str

    def put(self, cut: Cut, output: "TaskOutput", redelivered: frozenset[CutId]) -> None:
        """Appends the results of a cut to the logs that do not have them yet; `redelivered`: all cuts that are put again.

        Raises BatchConflict if a log has another cut with this number.
        """
        for name, (_, lines) in output.items():
            log, fingerprint = self.logs.log(name), batch_fingerprint(cut.end)
            log.put_batch_once(self.writer, cut.number, lines.data, fingerprint, redelivered)

    def flush(self) -> None:
        """Does nothing: `put` has written everything."""


@dataclass(frozen=True)
class KafkaLogs:
    """Logs as topics of a cluster (or of a broker at host:port), named like the logs or as `topics` says.

    `topic_ids`: log -> id of the topic that an engine's checkpoint has read; a feed of another topic raises TopicMadeAnew.
    """

    where: "str | Cluster"
    topics: Mapping[str, str] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def cluster(self) -> "Cluster":
        """How the brokers are reached."""
        from lab.logs.cluster import to_cluster  # a tenth of a second that files need not wait for

        return to_cluster(self.where)

    @property
    def address(self) -> str:
        """host:port of a broker, or of several."""
        return self.cluster.address

    def log(self, name: str) -> "KafkaLog":
        """The log `events`, `control`, `alerts`, `acks`, `deadLetters` or `stats`."""
        from lab.logs.kafka import KafkaLog

        return KafkaLog(self.cluster, self.topic(name))

    def topic(self, name: str) -> str:
        """The name of the log's topic."""
        return self.topics.get(name, name)

    def create(self, event_partitions: int = 1, named_events: bool = True) -> bool:
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
            events.create(event_partitions)
            created = True
        for name in ("control", *WRITTEN):
            self.create_log(name)
        return created

    def create_log(self, name: str) -> None:
        """Creates the topic of a log, with one partition, unless it exists. Raises NoBroker, UnusableTopic."""
        from lab.logs.kafka import COMPACTED, KEPT

        config = KEPT | {"retention.ms": "-1"} if name in KEPT_LOGS else KEPT
        self.log(name).create(1, COMPACTED if name in COMPACTED_LOGS else config)

    def feed(self, name: str) -> "KafkaFeed":
        """A log as the engine reads it: events by tasks, which can wait for brokers, control by the driver, which cannot."""
        from lab.engine.records.kafkafeed import KafkaFeed
        from lab.logs.cluster import ANSWER_S

        patience_s = ANSWER_S if name == "control" else float("inf")
        return KafkaFeed(self.cluster, self.topic(name), patience_s, self.topic_ids.get(name, ""))

    def with_topics_of(self, checkpoint: Path | str) -> "KafkaLogs":
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


def check_tasks_can_reach(logs: FileLogs | KafkaLogs, checkpoint: CheckpointFolder, master: str) -> None:
    """Raises ValueError if Spark's tasks run where they cannot reach the logs or the checkpoint."""
    others = not master.startswith("local")
    if others and isinstance(logs, FileLogs):
        raise ValueError(
            f"logs in folders are on this machine, Spark's tasks on {master} are on others: use topics, "
            "kafka://HOST:PORT, or Spark on this machine"
        )
    if others and checkpoint.is_on_this_machine:
        raise ValueError(
            f"checkpoint {checkpoint} is on this machine, Spark's tasks on {master} are on others: use "
            f"file://{checkpoint.path} if all hosts share that folder, or s3a://BUCKET/…"
        )


def check_transactions_possible(
    logs: FileLogs | KafkaLogs, checkpoint: CheckpointFolder, stops_at_end: bool = False
) -> None:
    """Raises ValueError if an engine with one task cannot deliver its cuts in transactions; `stops_at_end`: when it has read all."""
    folders = isinstance(logs, FileLogs)
    if folders:
        raise ValueError(
            "--exactly-once is for topics, these logs are folders: they get each alert once without it, so leave it out"
        )
    if stops_at_end or not checkpoint.is_on_this_machine:
        other = "an engine that stops when it has read all" if stops_at_end else f"checkpoint {checkpoint}"
        raise ValueError(
            f"--exactly-once with {other}: there Spark's sink delivers, at least once; use a running engine with Spark and "
            "the checkpoint's folder on this machine, or leave it out and drop repeated alerts by alertId"
        )
