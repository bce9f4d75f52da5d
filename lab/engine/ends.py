"""The two ends of the pipeline: the logs that an engine reads and writes, as files or as Kafka topics.

Both give the same to the stages between: `source`, a stream of rows; `records`, which a Python worker calls to make runs of
log records out of them; and `sink`, a stream that writes what the engine gives (rows of `operators.OUTPUT`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from lab.engine.held import NO_BATCH
from lab.engine.settings import Settings
from lab.logs.files import SEGMENTS, FileLog, Segment

if TYPE_CHECKING:
    from lab.logs.kafka import KafkaLog

LOGS = (
    "events",
    "control",
    "alerts",
    "acks",
    "deadLetters",
    "stats",
)  # the first two are read, the others written


RECORDS_AT_ONCE = 20_000  # Kafka's own 500 make forty times as many round trips when there is much to read


@dataclass(frozen=True)
class FileLogs:
    """Logs on the embedded default: one folder for each log, in `folder` or elsewhere."""

    folder: Path
    elsewhere: Mapping[str, Path] = field(default_factory=dict)

    def log(self, name: str) -> FileLog:
        """The log `events`, `control`, `alerts`, `acks`, `deadLetters` or `stats`."""
        return FileLog(self.path(name))

    def path(self, name: str) -> Path:
        """The folder of a log."""
        return self.elsewhere.get(name, self.folder / name)

    def create(self) -> None:
        """Makes the folders that are not there."""
        for name in LOGS:
            self.path(name).mkdir(parents=True, exist_ok=True)

    def source(self, spark: SparkSession, settings: Settings) -> DataFrame:
        """The segments of events and control; the workers read them, Spark only lists them."""
        # events are listed first: a control message logged before one of them is then never seen later than it
        events, control = (self._segments(spark, name, settings.max_segments_per_batch) for name in LOGS[:2])
        return events.union(control)

    def _segments(self, spark: SparkSession, name: str, at_most: int) -> DataFrame:
        return (
            spark.readStream.format("binaryFile")
            .schema("path string, modificationTime timestamp, length long, content binary")
            .option("maxFilesPerTrigger", at_most)
            .option("maxFileAge", "36500d")
            .option("pathGlobFilter", SEGMENTS)
            .load(str(self.log(name).folder))
            .select(F.lit(name).alias("kind"), "path")
        )

    def records(self, rows: pa.RecordBatch) -> Iterator[tuple[str, Segment]]:
        """(kind, segment) for each row of the source."""
        for kind, path in zip(*(rows.column(name).to_pylist() for name in ("kind", "path")), strict=True):
            yield kind, Segment.read(path)

    def sink(self, output: DataFrame, begins: Callable[[int], None]) -> DataStreamWriter:
        """Each log gets one segment a micro-batch: written again after a crash, it is the same one.

        `begins` is told the number of a micro-batch before any of its output is written.
        """
        return output.writeStream.foreachBatch(partial(self._write, begins=begins))

    def _write(self, output: DataFrame, batch_id: int, begins: Callable[[int], None]) -> None:
        begins(batch_id)
        lines: dict[str, list[str]] = {}
        for row in output.toArrow().to_pylist():
            lines.setdefault(row["log"], []).extend(row["values"])
        for name, values in lines.items():
            self.log(name).put(batch_id, values)


@dataclass(frozen=True)
class Polled:
    """Records of one partition of a topic, as `decode` takes them: like a segment, but each has a log time of its own."""

    topic: str
    rows: pa.RecordBatch

    @property
    def source(self) -> int:
        return self.rows["partition"][0].as_py()

    @property
    def log_time(self) -> np.ndarray:
        return np.maximum.accumulate(self.rows["logTime"].to_numpy())

    @property
    def data(self) -> bytes:
        """One record a line, as far as that is possible; else nothing."""
        values = self.rows["value"]
        joined = pc.binary_join(pa.ListArray.from_arrays([0, len(values)], values), b"\n")[0].as_py() or b""
        return joined if joined.count(b"\n") == len(values) - 1 else b""

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """(place, value) of each record."""
        for offset, value in zip(
            self.rows["offset"].to_pylist(), self.rows["value"].to_pylist(), strict=True
        ):
            yield f"{self.topic}/{self.source}:{offset}", value or b""

    def places(self, lines: Sequence[int]) -> list[str]:
        """Where records stand that are counted from 0."""
        return [f"{self.topic}/{self.source}:{self.rows['offset'][line]}" for line in lines]


@dataclass(frozen=True)
class KafkaLogs:
    """Logs as topics of one broker at `address` (host:port), called as the logs are or as `topics` says."""

    address: str
    topics: Mapping[str, str] = field(default_factory=dict)

    def log(self, name: str) -> "KafkaLog":
        """The log `events`, `control`, `alerts`, `acks`, `deadLetters` or `stats`."""
        from lab.logs.kafka import KafkaLog  # a tenth of a second that files need not wait for

        return KafkaLog(self.address, self._topic(name))

    def _topic(self, name: str) -> str:
        return self.topics.get(name, name)

    def create(self, partitions: int = 1) -> None:
        """Makes the topics that are not there. Raises NoBroker, BadTopic."""
        from lab.logs.kafka import COMPACTED

        for name in LOGS:
            log = self.log(name)
            log.create(1, COMPACTED) if name == "control" else log.create(
                partitions if name == "events" else 1
            )

    def source(self, spark: SparkSession, settings: Settings) -> DataFrame:
        """Events and control as one source: Spark then asks for the ends of both at one moment."""
        return (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.address)
            .option("subscribe", f"{self._topic('events')},{self._topic('control')}")
            .option("startingOffsets", "earliest")
            .option("kafka.max.poll.records", RECORDS_AT_ONCE)
            .option("kafka.max.partition.fetch.bytes", 200 * RECORDS_AT_ONCE)
            .load()
            .select(
                (F.col("topic") == self._topic("control")).alias("control"),
                "partition",
                "offset",
                F.unix_millis("timestamp").alias("logTime"),
                "value",
            )
        )

    def records(self, rows: pa.RecordBatch) -> Iterator[tuple[str, Polled]]:
        """(kind, records) for each run of the source's rows that is of one partition."""
        control = rows["control"].to_numpy(zero_copy_only=False)
        starts = np.flatnonzero(np.diff(2 * rows["partition"].to_numpy() + control)) + 1
        for first, end in pairwise([0, *starts.tolist(), len(rows)]):
            kind = LOGS[int(control[first])]
            yield kind, Polled(self._topic(kind), rows.slice(first, end - first))

    def sink(self, output: DataFrame, begins: Callable[[int], None]) -> DataStreamWriter:
        """A record for each line, keyed; delivered at least once, so no micro-batch has to come to its end."""
        begins(NO_BATCH)
        topics = F.create_map(*(F.lit(text) for name in LOGS[2:] for text in (name, self._topic(name))))
        lines = output.select(
            topics[F.col("log")].alias("topic"), F.explode(F.arrays_zip("keys", "values")).alias("line")
        )
        lines = lines.select("topic", F.col("line.keys").alias("key"), F.col("line.values").alias("value"))
        return lines.writeStream.format("kafka").option("kafka.bootstrap.servers", self.address)
