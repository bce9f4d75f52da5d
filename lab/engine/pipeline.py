"""The pipeline, in the order data flows. One streaming query, one checkpoint.

events log ──┐
             ├─ decode ──────► route ─────────────────► evaluate ───────────────► alerts, acks, dead letters, stats
control log ─┘  mapInArrow     transformWithState       transformWithState
                               keyed by lane            keyed by key-group
                               state: rules             state: rules + windows
"""

import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from json import dumps, loads
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from lab.engine import decode, operators, shared
from lab.engine.held import Held, held
from lab.engine.settings import Settings
from lab.logs.files import SEGMENTS, FileLog

LOGS = ("alerts", "acks", "deadLetters", "stats")


@dataclass(frozen=True)
class FileLogs:
    """Where an engine on the embedded default reads and writes: one folder for each log, in `folder` or elsewhere."""

    folder: Path
    elsewhere: Mapping[str, Path] = field(default_factory=dict)

    def log(self, name: str) -> FileLog:
        """The log `events`, `control`, `alerts`, `acks`, `deadLetters` or `stats`."""
        return FileLog(self.elsewhere.get(name, self.folder / name))


def start(
    spark: SparkSession, logs: FileLogs, checkpoint: Path, settings: Settings, *, once: bool = False
) -> "Engine":
    """Starts the engine; started again with the same checkpoint it continues. `once`: stops when it has read all.

    Raises CheckpointInUse while another engine runs on that checkpoint, ValueError if it was made with other settings.
    """
    lock = held(checkpoint)
    try:
        return _start(spark, logs, checkpoint, settings, once, lock)
    except BaseException:
        lock.release()
        raise


def _start(
    spark: SparkSession, logs: FileLogs, checkpoint: Path, settings: Settings, once: bool, lock: Held
) -> "Engine":
    settings.bind(checkpoint)
    windows = shared.private_folder(checkpoint)
    # events are listed first: a control message logged before one of them is then never seen later than it
    events = segments(spark, logs, "events", settings.max_segments_per_batch)
    control = segments(spark, logs, "control", settings.max_segments_per_batch)
    spark.conf.set("spark.sql.shuffle.partitions", settings.parallelism)
    decoded = events.union(control).mapInArrow(partial(decode.decode, settings=settings), decode.ENVELOPES)
    routed = decoded.groupBy("lane").transformWithState(
        operators.RouteEvents(settings), operators.ROUTED, "append", "none"
    )
    evaluated = routed.groupBy("key_group").transformWithState(
        operators.Evaluate(settings, windows), operators.OUTPUT, "append", "none"
    )
    writer = evaluated.writeStream.foreachBatch(partial(write, logs=logs, lock=lock))
    trigger = {"availableNow": True} if once else {"processingTime": "0 seconds"}
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()
    return Engine(query, windows, lock)


def segments(spark: SparkSession, logs: FileLogs, name: str, at_most: int) -> DataFrame:
    """A log as a stream of its segments; the workers read them, Spark does not."""
    return (
        spark.readStream.format("binaryFile")
        .schema("path string, modificationTime timestamp, length long, content binary")
        .option("maxFilesPerTrigger", at_most)
        .option("maxFileAge", "36500d")
        .option("pathGlobFilter", SEGMENTS)
        .load(str(logs.log(name).folder))
        .select(F.lit(name).alias("kind"), "path")
    )


def write(output: DataFrame, batch_id: int, logs: FileLogs, lock: Held) -> None:
    """Writes a micro-batch's output as segment `batch_id` of each log: written again after a crash, it is the same one."""
    lines: dict[str, list[str]] = {name: [] for name in LOGS}
    for row in output.toArrow().to_pylist():
        lines[row["log"]] += row["values"]
    if lines["stats"]:
        total: Counter[str] = Counter()
        for line in lines["stats"]:
            total.update(loads(line))
        del total["keyGroup"]
        lines["stats"] = [dumps({"batch": batch_id, **total})]
    lock.output_begins(batch_id)
    for name, values in lines.items():
        if values:
            logs.log(name).put(batch_id, values)


@dataclass(frozen=True)
class Engine:
    """A running engine."""

    query: StreamingQuery
    windows: Path
    lock: Held

    def stop(self) -> None:
        """Stops the query, waits for its end, gives the shared memory back and lets go of the checkpoint."""
        self.query.stop()
        shutil.rmtree(self.windows, ignore_errors=True)
        self.lock.release()
