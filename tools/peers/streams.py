"""The peers on Spark: the engine, the textbook's state per key, sliding windows. In a warm session, without a query's start."""

import json
import tempfile
from datetime import datetime
from pathlib import Path

from pyspark.sql import Row, SparkSession

from lab.contrast import sliding as panes
from lab.contrast.mapstate import textbook as by_textbook
from lab.contrast.parts import FilePerAppend
from lab.engine.checkpoint.settings import Settings
from lab.engine.spark import pipeline
from lab.model.group import group_key
from tools.bench.data import Payments, logs_of, three_rules
from tools.peers.data import RULES, Answer, Case, Window

ENGINE = Settings(max_batch_records=400_000, short_batches=False)
BATCHES = 3
SLIDES = 10  # of a window: so many windows an event is in
CLOSING_MS = 2 * max(window_ms for _, _, window_ms, _ in RULES)


def engine(spark: SparkSession, payments: Payments) -> Answer:
    """From the start of the first micro-batch to the end of the last, state files and alerts written."""
    with tempfile.TemporaryDirectory(prefix="lab-peers-") as name:
        logs = logs_of(Path(name, "logs"), payments, three_rules())
        with pipeline.start(spark, logs, Path(name, "checkpoint"), ENGINE, once=True) as running:
            running.query.awaitTermination()
        batches = [batch for batch in running.query.recentProgress if batch.numInputRows]
        alerts = {Case(of["ruleId"], of["eventId"]) for of in map(json.loads, logs.log("alerts").read())}
    begin, end = (datetime.fromisoformat(batches[at].timestamp).timestamp() for at in (0, -1))
    return Answer(alerts, end + batches[-1].durationMs["triggerExecution"] / 1000 - begin, payments.events)


def textbook(spark: SparkSession, payments: Payments) -> Answer:
    """A query for each rule, one after the other; the first micro-batch of each is left out of its rate."""
    alerts: set[Case | Window] = set()
    seconds = 0.0
    for text in three_rules():
        run = by_textbook(spark, payments.file, text, batches=BATCHES)
        alerts |= {Case(of["ruleId"], of["eventId"]) for of in map(json.loads, run.alert_lines)}
        seconds += payments.events / run.events_per_second
    return Answer(alerts, seconds, payments.events)


def sliding(spark: SparkSession, payments: Payments) -> Answer:
    """A query for each rule; duplicates go first. An event long after the last one closes the windows that are open then."""
    lines = payments.file.read_bytes().splitlines()
    closing = json.dumps(json.loads(lines[-1]) | {"transactionId": 0, "paymentAmount": None})
    last_ms = json.loads(closing)["eventTime"]
    closing = closing.replace(str(last_ms), str(last_ms + CLOSING_MS))
    reports: set[Case | Window] = set()
    seconds = 0.0
    with tempfile.TemporaryDirectory(prefix="lab-peers-") as name:
        parts = FilePerAppend(Path(name, "events"))
        for part in range(BATCHES):
            parts.append(lines[part * len(lines) // BATCHES : (part + 1) * len(lines) // BATCHES])
        parts.append([closing])
        for number, keys, window_ms, limit in RULES:
            stream = (
                panes.session_with_short_batches(spark)
                .readStream.schema(panes.FIELDS)
                .option("maxFilesPerTrigger", 1)
            )
            events = stream.json(str(parts.folder)).dropDuplicates(["transactionId", "eventTime"])
            over = panes.over_limit(events, window_ms, [window_ms // SLIDES], limit, keys)
            found: list[Row] = []
            writer = over.writeStream.outputMode("append").trigger(availableNow=True)
            writer = writer.foreachBatch(lambda rows, _, found=found: found.extend(rows.collect()))
            query = writer.option("checkpointLocation", f"{name}/checkpoint-{number}").start()
            query.awaitTermination()
            reports |= {
                Window(
                    number,
                    group_key(tuple(keys), (row[key] for key in keys)),
                    row.end_ms - window_ms,
                    row.end_ms,
                )
                for row in found
            }
            measured = [batch for batch in query.recentProgress if batch.numInputRows > 1][1:]
            spent = sum(batch.durationMs["triggerExecution"] for batch in measured) / 1000
            seconds += spent * len(lines) / sum(batch.numInputRows for batch in measured)
    return Answer(reports, seconds, payments.events)
