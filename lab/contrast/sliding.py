"""Sliding windows on Spark: the query, and what it costs. Each event is in W / S windows, and each window is a row of state.

events        ·   ·  ·     ·  ·            S     W
windows    ├──────────────┤            ├─────┼──────────────┤
                 ├──────────────┤
                       ├──────────────┤
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lab.contrast.parts import rows_and_seconds, write_in_parts
from lab.engine.spark.pipeline import SHORT_BATCHES

KEYS = ("payeeId", "beneficiaryId")
LIMIT = 20_000_000
BATCHES = 3  # of a finished file
FIELDS = "transactionId long, eventTime long, payeeId long, beneficiaryId long, paymentAmount decimal(18,2)"


def over_limit(
    events: DataFrame,
    window_ms: int,
    slides_ms: Sequence[int],
    limit: float = LIMIT,
    keys: Sequence[str] = KEYS,
) -> DataFrame:
    """A stream of payments -> windows per group whose sum is over the limit: slide_ms, the keys, end_ms, total.

    In append mode a window comes once, when the watermark has passed its end.
    The watermark is the newest event time of earlier batches.
    """
    timed = events.withColumn("at", F.timestamp_millis("eventTime")).withWatermark("at", "0 seconds")

    def of(slide_ms: int) -> DataFrame:
        window = F.window("at", f"{window_ms} milliseconds", f"{slide_ms} milliseconds")
        sums = timed.groupBy(window.alias("window"), *keys).agg(F.sum("paymentAmount").alias("total"))
        end = F.unix_millis("window.end").alias("end_ms")
        return sums.where(F.col("total") > limit).select(
            F.lit(slide_ms).alias("slide_ms"), *keys, end, "total"
        )

    return reduce(DataFrame.union, map(of, slides_ms))


def session_with_short_batches(spark: SparkSession) -> SparkSession:
    """A session beside the given one, with the engine's settings for short micro-batches and one small partition."""
    session = spark.newSession()
    for name, value in (SHORT_BATCHES | {"spark.sql.shuffle.partitions": 1}).items():
        session.conf.set(name, value)
    return session


@dataclass(frozen=True)
class SlidingCost:
    """What a slide costs on a finished log: panes per event, rows of state at most, MB they take, events a second (without the first batch)."""

    panes: int
    state_rows: int
    state_mb: float
    events_per_second: float


def cost_of_sliding(spark: SparkSession, events: Path | str, window_ms: int, slide_ms: int) -> SlidingCost:
    """Evaluates a file of payments (JSON lines) with sliding windows.

    >>> cost_of_sliding(spark, "payments.jsonl", 600_000, 60_000).panes  # doctest: +SKIP
    10
    """
    lines = Path(events).read_bytes().splitlines()
    with tempfile.TemporaryDirectory(prefix="lab-sliding-", ignore_cleanup_errors=True) as name:
        write_in_parts(lines, Path(name, "events"), BATCHES)
        stream = session_with_short_batches(spark).readStream.schema(FIELDS).option("maxFilesPerTrigger", 1)
        over = over_limit(stream.json(f"{name}/events"), window_ms, [slide_ms])
        writer = over.writeStream.format("noop").outputMode("append").trigger(availableNow=True)
        query = writer.option("checkpointLocation", f"{name}/checkpoint").start()
        query.awaitTermination()
    state = [batch.stateOperators[0] for batch in query.recentProgress]
    rows, seconds = rows_and_seconds(query)
    return SlidingCost(
        window_ms // slide_ms,
        max(one.numRowsTotal for one in state),
        max(one.memoryUsedBytes for one in state) / 1e6,
        rows / seconds,
    )
