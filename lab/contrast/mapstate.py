"""The textbook way: one state per key, a map of timestamp -> events, and every event walks the whole window.

    state of {payeeId=25}:   10:00 ─► {e1}   10:07 ─► {e2, e3}   10:19 ─► {e4}   ◄── each event reads all of it, then adds itself

This is `DynamicAlertFunction` of the Flink demo as "Advanced Flink Application Patterns" part 3 prints it, for one rule, in
Spark's row API, with one repair: the timer. The printed code sets it at the event's own time, `(eventTime / 1000) * 1000`. Each
timer removes what is older than its own time less the window, so nothing ever removes the last window of a key that falls silent.
Here the timer fires when the event has left the window.

The textbook is here to be read and to be raced against (`make bench`); its alerts are right, on a log in order of event
time and id. It is slow because Spark calls Python once for each key and batch, because each look at the state and each timer
is a message to the JVM and back, and because the work for an event grows with its window.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from lab.contrast.parts import rows_and_seconds, write_in_parts
from lab.model.alerts import Alert
from lab.model.group import group_for_alert, group_key
from lab.model.referencestate import StoredEvent, compute_aggregate_and_holds
from lab.model.rules import BadRule, Rule
from lab.model.schema import PAYMENTS, Schema
from lab.past.replay import check_rules

OUTPUT = "alert string"
SECOND_MS = 1000
PARTITIONS = "spark.sql.shuffle.partitions"
WATERMARK = "1 minute"  # Spark drops what is older than the newest event of earlier batches less this


class MapStateWindow(StatefulProcessor):
    """One rule (SUM, AVG, MIN, MAX or COUNT) over groups of its key; rows are (key fields…, id, time, value)."""

    def __init__(self, rule: Rule, value_type: str):
        self.rule, self.value_type = rule, value_type

    def init(self, handle) -> None:
        self.handle = handle
        self.window = handle.getMapState(
            "window", "time long", f"events array<struct<id: long, value: {self.value_type}>>"
        )

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        for row in sorted(rows, key=lambda row: (row.time, row.id)):
            # (1) add the event to the state
            same_time = self.window.getValue((row.time,)) or ([],)
            if row.id in [event_id for event_id, _ in same_time[0]]:
                continue  # a duplicate
            self.window.updateValue((row.time,), ([*same_time[0], (row.id, row.value)],))
            # (2) walk the window [t − W, t] and compute the aggregate
            aggregate, holds = compute_aggregate_and_holds(self.rule, self._window(row.time))
            # (3) alert if the rule is violated
            if holds:
                yield Row(alert=self._alert(key, row, aggregate).to_json())
            # (4) have the state cleaned up when no window can reach this event any more
            self.handle.registerTimer(self.cleanup_ms(row.time))

    def cleanup_ms(self, event_ms: int) -> int:
        """When the event has left the window, rounded up to a second: events of one second share a timer."""
        return (event_ms + self.rule.aggregation.window_ms) // SECOND_MS * SECOND_MS + SECOND_MS

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        threshold_ms = expiredTimerInfo.getExpiryTimeInMs() - self.rule.aggregation.window_ms
        for (time,) in list(self.window.keys()):
            if time < threshold_ms:
                self.window.removeKey((time,))
        return iter(())

    def _window(self, end_ms: int) -> list[StoredEvent]:
        return [
            StoredEvent(0, time, event_id, {cast(str, self.rule.aggregation.field): value})
            for (time,), (events,) in self.window.iterator()
            if end_ms - self.rule.aggregation.window_ms <= time <= end_ms
            for event_id, value in events
        ]

    def _alert(self, key: tuple, row: Row, aggregate) -> Alert:
        rule = self.rule
        return Alert(
            rule.rule_id,
            rule.version,
            group_key(rule.keys, key),
            aggregate,
            rule.first.operator,
            rule.first.limit,
            row.id,
            row.time,
            group=group_for_alert(rule.keys, key),
        )

    def close(self) -> None:
        pass


def alerts(events: DataFrame, rule: Rule, schema: Schema) -> DataFrame:
    """A stream of the schema's events -> a stream of the rule's alerts, as the JSON text of `lab.model.alerts.Alert`.

    The rule must have a key: Spark's operator knows no global group. Raises BadRule for a rule with `when`, or with
    a filter that says more than which values fields have.
    """
    if rule.when:
        raise BadRule("when: the textbook evaluates rules without it")
    if rule.route.field_values is None:
        raise BadRule("filter: the textbook knows only which values fields have")
    for name, values in rule.route.field_values:
        events = events.where(F.col(name).isin(*values))
    value = schema.field(rule.aggregation.field or schema.id_fields[0])
    renamed = {"id": schema.id_fields[0], "time": schema.time_field, "value": value.name}
    rows = events.dropna(subset=[*rule.keys, value.name]).select(
        *rule.keys, *(F.col(name).alias(alias) for alias, name in renamed.items())
    )
    rows = rows.withColumn("at", F.timestamp_millis("time")).withWatermark("at", WATERMARK)
    window = MapStateWindow(rule, value.type)
    return rows.groupBy(*rule.keys).transformWithState(window, OUTPUT, "append", "eventTime")


@dataclass(frozen=True)
class TextbookRun:
    """What the textbook gave on a finished file. The rate leaves out the first micro-batch, which starts the Python workers."""

    alert_lines: list[str]  # JSON, in order of event time and id
    events_per_second: float
    state_rows: int  # entries of the maps at the end: the timestamps that are still held


def textbook(spark: SparkSession, events: Path | str, rule: str, batches: int = 3) -> TextbookRun:
    """Evaluates a file of payments (JSON lines, in order of event time) by the textbook, in micro-batches of equal size.

    Raises BadRule if the rule would be rejected.

    >>> rule = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)"
    >>> textbook(spark, "payments.jsonl", rule).events_per_second  # doctest: +SKIP
    1493.0
    """
    book = check_rules([rule], PAYMENTS)
    lines = Path(events).read_bytes().splitlines()
    fields = ", ".join(f"`{field.name}` {field.type}" for field in PAYMENTS.fields)
    with tempfile.TemporaryDirectory(prefix="lab-textbook-") as name:
        write_in_parts(lines, Path(name, "events"), batches)
        stream = spark.readStream.schema(fields).option("maxFilesPerTrigger", 1).json(f"{name}/events")
        found: list[Row] = []
        writer = alerts(stream, book.sorted()[0], PAYMENTS).writeStream.trigger(availableNow=True)
        writer = writer.foreachBatch(lambda rows, _: found.extend(rows.collect()))
        before = spark.conf.get(PARTITIONS)
        spark.conf.set(PARTITIONS, 2)
        try:
            query = writer.option("checkpointLocation", str(Path(name, "checkpoint"))).start()
        finally:
            spark.conf.set(PARTITIONS, before)
        query.awaitTermination()
    rows, seconds = rows_and_seconds(query)
    ordered = sorted(
        map(Alert.from_json, (row.alert for row in found)), key=lambda a: (a.event_time, a.event_id)
    )
    return TextbookRun(
        [alert.to_json() for alert in ordered],
        rows / seconds,
        query.lastProgress.stateOperators[0].numRowsTotal,
    )
