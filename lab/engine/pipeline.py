"""The pipeline, in the order data flows. One streaming query, one checkpoint.

events log ──┐
             ├─ decode and route ─────► evaluate ───────────────► alerts, acks, dead letters, stats
control log ─┘  mapInArrow              transformWithState
                rules: of the last      keyed by key-group
                commit                  state: rules + windows
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lab.engine import operators, route, shared
from lab.engine.ends import FileLogs, KafkaLogs
from lab.engine.held import Held, held
from lab.engine.settings import Settings

# Spark plans each micro-batch anew. To generate Java code for a plan and to describe it at length costs more than it gives
# where a handful of rows carries all events
SHORT_BATCHES = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.ui.explainMode": "simple",
}


def start(
    spark: SparkSession,
    logs: FileLogs | KafkaLogs,
    checkpoint: Path,
    settings: Settings,
    *,
    once: bool = False,
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
    spark: SparkSession,
    logs: FileLogs | KafkaLogs,
    checkpoint: Path,
    settings: Settings,
    once: bool,
    lock: Held,
) -> "Engine":
    settings.bind(checkpoint)
    windows = shared.private_folder(checkpoint)
    routing = partial(
        route.decode_and_route,
        read=logs.records,
        settings=settings,
        checkpoint=checkpoint,
        batch_id=operators.batch_id,
    )
    routed = (
        logs.source(spark, settings).coalesce(1).mapInArrow(routing, route.ROUTED)
    )  # in one task: the log has one order
    evaluated = routed.groupBy("key_group").transformWithState(
        operators.Evaluate(settings, checkpoint, windows), operators.OUTPUT, "append", "none"
    )
    trigger = {"availableNow": True} if once else {"processingTime": "0 seconds"}
    writer = (
        logs.sink(evaluated, lock.output_begins)
        .option("checkpointLocation", str(checkpoint))
        .trigger(**trigger)
    )
    tuning = SHORT_BATCHES if settings.short_batches else {}
    with _configured(spark, tuning | {"spark.sql.shuffle.partitions": settings.parallelism}):
        return Engine(writer.start(), windows, lock)


@contextmanager
def _configured(spark: SparkSession, settings: dict[str, str | int]) -> Iterator[None]:
    """For queries that are started inside: each has a copy of the session's settings as they are then."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


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
