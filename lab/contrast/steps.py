"""From the textbook to the engine, on Spark, one step at a time: each changes one thing, gives the same alerts, and is timed.

    textbook     a state per key, a row per event; each look at the state is a message to the JVM
    key-groups   a state per key-group, read and written whole; a row per event
    envelopes    the same, but the events of a key-group come packed as columns
    …            what changes inside a worker: `lab.contrast.oneprocess`
    engine       all of it, with durable state

One rule, `SUM(…) per … > limit`, on a log in order of event time. Source of the idea: "Advanced Flink Application Patterns" part 3.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from lab.contrast import mapstate
from lab.contrast.oneprocess import (
    CENTS,
    KEY,
    VALUE,
    RecomputedWindowSum,
    StepTiming,
    evaluate_tuples,
    parse_rule,
)
from lab.contrast.parts import FilePerAppend, rows_and_seconds
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.filelogs import FileLogs
from lab.engine.records.columns import pack, unpack
from lab.engine.records.feeds import BYTES_A_RECORD
from lab.engine.spark.pipeline import check_spark_is_running, start
from lab.model.alerts import Alert
from lab.model.field import Id
from lab.model.rules import Rule
from lab.model.schema import PAYMENTS

KEY_GROUPS = 16
FIELDS = "transactionId long, eventTime long, payeeId long, paymentAmount decimal(18,2)"


class KeyGroupProcessor(StatefulProcessor):
    """One state per key-group: a pickled `RecomputedWindowSum`, read before a micro-batch and written after it."""

    def __init__(self, rule: Rule, packed: bool):
        self.rule, self.packed = rule, packed

    def init(self, handle) -> None:
        self.state = handle.getValueState("windows", "pickled binary")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        walk = RecomputedWindowSum(self.rule.aggregation.window_ms)
        if self.state.exists():
            walk.events_by_key.update(pickle.loads(self.state.get()[0]))
        limit = int(self.rule.first.limit * CENTS)
        for event_id, total in evaluate_tuples(walk, self._events(rows), limit).items():
            yield Row(alert=f"{event_id} {total}")
        self.state.update((pickle.dumps(dict(walk.events_by_key)),))

    def _events(self, rows: Iterable[Row]) -> list[tuple]:
        if not self.packed:
            return sorted(
                ((row.key, row.time, row.id, row.cents) for row in rows), key=lambda event: event[1:3]
            )
        columns = [unpack(row.payload)[0] for row in rows]
        return [event for of in columns for event in zip(*(of[name].tolist() for name in of))]

    def close(self) -> None:
        pass


def pack_envelopes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: rows (key_group, key, time, id, cents) -> an envelope for each key-group."""
    for batch in batches:
        groups = batch["key_group"].to_numpy()
        rows = {group: np.flatnonzero(groups == group) for group in np.unique(groups).tolist()}
        names = ("key", "time", "id", "cents")
        payloads = [pack({name: batch[name].to_numpy()[mine] for name in names}) for mine in rows.values()]
        yield pa.record_batch([pa.array(rows, pa.int64()), pa.array(payloads)], ["key_group", "payload"])


def time_on_spark(
    spark: SparkSession, step: str, lines: Sequence[bytes], text: str, events_per_batch: int = 1000
) -> StepTiming:
    """Times `textbook`, `key-groups` or `envelopes`; the first micro-batch is warm-up. Raises RuntimeError if Spark has ended."""
    check_spark_is_running(spark)
    rule = parse_rule(text)
    with TemporaryDirectory(prefix="lab-steps-") as folder:
        parts = FilePerAppend(Path(folder, "events"))
        for first in range(0, len(lines), events_per_batch):
            parts.append(lines[first : first + events_per_batch])
        stream = spark.readStream.schema(FIELDS).option("maxFilesPerTrigger", 1)
        found = _plan(step, stream.json(str(Path(folder, "events"))), rule)
        spark.conf.set("spark.sql.shuffle.partitions", 2)
        writer = found.writeStream.format("memory").queryName("steps")
        query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
        query.awaitTermination()
        _, seconds = rows_and_seconds(query)
        shown = [row.alert for row in spark.table("steps").collect()]
        spark.catalog.dropTempView("steps")
    return StepTiming(step, "Spark", len(lines) - events_per_batch, seconds, dict(map(_read, shown)))


def _plan(name: str, events: DataFrame, rule: Rule) -> DataFrame:
    if name == "textbook":
        return mapstate.alerts(events, rule, PAYMENTS)
    columns = {"key_group": F.col(KEY) % KEY_GROUPS, "key": F.col(KEY), "time": F.col("eventTime")}
    columns |= {"id": F.col("transactionId"), "cents": (F.col(VALUE) * CENTS).cast("long")}
    rows = events.select(*(column.alias(alias) for alias, column in columns.items()))
    if name == "envelopes":
        rows = rows.mapInArrow(pack_envelopes, "key_group long, payload binary")
    processor = KeyGroupProcessor(rule, packed=name == "envelopes")
    return rows.groupBy("key_group").transformWithState(processor, mapstate.OUTPUT, "append", "none")


def _read(alert: str) -> tuple[Id, int]:
    if alert.startswith("{"):
        of = Alert.from_json(alert)
        return of.event_id, int(of.aggregate * CENTS)
    event_id, total = alert.split()
    return int(event_id), int(total)


def time_engine(
    spark: SparkSession, lines: Sequence[bytes], text: str, events_per_batch: int, **settings
) -> StepTiming:
    """Times the engine; the first micro-batch is warm-up. `settings`: others than `lab.Settings` has."""
    with TemporaryDirectory(prefix="lab-steps-") as folder:
        logs = FileLogs(Path(folder))
        logs.log("control").append([text], log_time_ms=0)
        log = logs.log("events")
        log.append(lines, log_time_ms=0)
        records = max(-(-log.end() * events_per_batch // (len(lines) * BYTES_A_RECORD)), 1)
        chosen = Settings(max_batch_records=records, **settings)
        with start(spark, logs, Path(folder, "checkpoint"), chosen, once=True) as running:
            running.query.awaitTermination()
        alerts = dict(map(_read, logs.log("alerts").read()))
        _, seconds = rows_and_seconds(running.query)
        return StepTiming("engine", "Spark", len(lines) - events_per_batch, seconds, alerts)
