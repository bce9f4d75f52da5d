"""The logs that an engine reads and writes: as folders of files, or as topics of Kafka."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lab.engine.feeds import Feed, FileFeed, Positions
from lab.logs.files import WEEK_MS, FileLog, joined

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from lab.engine.kafkafeed import KafkaFeed
    from lab.logs.cluster import Cluster
    from lab.logs.kafka import KafkaLog

READ = ("events", "control")
WRITTEN = ("alerts", "acks", "deadLetters", "stats")
LOGS = (*READ, *WRITTEN)
LINES_A_ROW = 1_000


@dataclass(frozen=True)
class FileLogs:
    """Logs on the embedded default: one folder for each log, in `folder` or elsewhere."""

    folder: Path
    elsewhere: Mapping[str, Path] = field(default_factory=dict)

    def log(self, name: str) -> FileLog:
        """The log `events`, `control`, `alerts`, `acks`, `deadLetters` or `stats`."""
        return FileLog(self.path(name), keep_ms=None if name == "control" else WEEK_MS)

    def path(self, name: str) -> Path:
        """The folder of a log."""
        return self.elsewhere.get(name, self.folder / name)

    def create(self) -> None:
        """Makes the folders that are not there."""
        for name in LOGS:
            self.path(name).mkdir(parents=True, exist_ok=True)

    def topic(self, name: str) -> str:
        """What rows for the log are marked with."""
        return name

    def feed(self, name: str) -> Feed:
        """A log as the engine reads it."""
        return FileFeed(self.path(name))

    def reached(self, events: Positions) -> None:
        """Micro-batches up to here are done; a folder need not know."""

    def sink(self, output: "DataFrame", writer: str) -> "DataStreamWriter":
        """What `writer`, a checkpoint, gives is appended once for each micro-batch, however often the batch runs."""
        return output.writeStream.foreachBatch(partial(self._write, writer=writer))

    def _write(self, output: "DataFrame", batch_id: int, writer: str) -> None:
        self.write(output.toArrow(), batch_id, writer)

    def rows(self, keys: list[str], lines: list[str]) -> tuple[list[str], list[bytes]]:
        """Keys and values of the rows that carry lines to `write`: many in one, pressed, as Spark copies each a dozen times."""
        parts = (lines[at : at + LINES_A_ROW] for at in range(0, len(lines), LINES_A_ROW))
        values = [_pressed(joined(part)) for part in parts]
        return [""] * len(values), values

    def write(self, rows: pa.Table, batch_id: int, writer: str) -> None:
        """Appends a micro-batch's rows of `source.OUTPUT` unless the logs have them."""
        for name in rows["topic"].unique().to_pylist():
            values = rows.filter(pc.field("topic") == name)["value"].to_pylist()
            self.log(name).put(writer, batch_id, b"".join(map(_unpressed, values)))


def _pressed(data: bytes) -> bytes:
    pressed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(pressed, "lz4") as stream:
        stream.write(data)
    return pressed.getvalue().to_pybytes()


def _unpressed(data: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "lz4") as stream:
        return stream.read()


@dataclass(frozen=True)
class KafkaLogs:
    """Logs as topics of a cluster (or one that is no more than its host:port), called as the logs are or as `topics` says."""

    where: "str | Cluster"
    topics: Mapping[str, str] = field(default_factory=dict)

    @property
    def cluster(self) -> "Cluster":
        """How the brokers are reached."""
        from lab.logs.cluster import cluster_of  # a tenth of a second that files need not wait for

        return cluster_of(self.where)

    @property
    def address(self) -> str:
        """host:port of a broker, or of several."""
        return self.cluster.address

    def log(self, name: str) -> "KafkaLog":
        """The log `events`, `control`, `alerts`, `acks`, `deadLetters` or `stats`."""
        from lab.logs.kafka import KafkaLog

        return KafkaLog(self.cluster, self.topic(name))

    def topic(self, name: str) -> str:
        """What the log is called there."""
        return self.topics.get(name, name)

    def create(self, partitions: int = 1) -> None:
        """Makes the topics that are not there. Raises NoBroker, BadTopic."""
        from lab.logs.kafka import COMPACTED

        for name in LOGS:
            log = self.log(name)
            log.create(1, COMPACTED) if name == "control" else log.create(
                partitions if name == "events" else 1
            )

    def feed(self, name: str) -> "KafkaFeed":
        """A log as the engine reads it: events by tasks, which can wait for brokers, control by the driver, which cannot."""
        from lab.engine.kafkafeed import KafkaFeed
        from lab.logs.cluster import ANSWER_S

        patience_s = ANSWER_S if name == "control" else float("inf")
        return KafkaFeed(self.cluster, self.topic(name), patience_s)

    def reached(self, events: Positions) -> None:
        """The consumer group follows."""
        from lab.engine.kafkafeed import follower

        follower(self.cluster, self.topic("events")).reached(events)

    def rows(self, keys: list[str], lines: list[str]) -> tuple[list[str], list[str]]:
        """Keys and values of the rows that carry lines to the sink: a record each."""
        return keys, lines

    def sink(self, output: "DataFrame", writer: str) -> "DataStreamWriter":
        """A record for each line, keyed; delivered at least once, so `writer` is of no use here."""
        properties = {f"kafka.{name}": value for name, value in self.cluster.java.items()}
        return output.writeStream.format("kafka").options(**properties)


def check_reach(logs: FileLogs | KafkaLogs, master: str) -> None:
    """Raises ValueError if Spark's tasks are where they do not reach the logs."""
    if isinstance(logs, FileLogs) and not master.startswith("local"):
        raise ValueError(
            f"logs in folders are on this machine, Spark's tasks on {master} are on others: use topics, "
            "kafka://HOST:PORT, or Spark on this machine"
        )
