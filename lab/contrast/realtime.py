"""Spark's real-time mode beside micro-batches, on one SQL-only query from topic to topic; and what it refuses.

    events ──► where paymentAmount > 15 ──► large      trigger(processingTime="0 seconds"): plan, run, commit, again
                                                       trigger(realTime="5 seconds"): one long batch; rows flow through it

Real-time mode came with Spark 4.1. It takes Kafka as a source, and operators that call no Python; aggregations since Spark 4.3.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lab.contrast.sliding import session_with_short_batches
from lab.engine.loop.kafkalogs import KafkaLogs
from lab.logs.kafka import KafkaLog
from lab.machine import broker
from lab.model.language import say
from lab.stream.player import Player

TRIGGERS = {"micro-batches": {"processingTime": "0 seconds"}, "real time": {"realTime": "5 seconds"}}
WARM_UP_SHARE = 1 / 3  # of the events of each run that are not counted
REFUSED_WITHIN_S = 30
RATE = 50  # events per second
ENOUGH, PATIENCE_S = 30, 30  # outputs of each run, and the seconds to wait for them


@dataclass(frozen=True)
class RealTimeResult:
    """The measured latencies, and why real-time mode refuses some operators."""

    # trigger -> ms from the append of each event to the append of its output
    latencies_ms_by_trigger: dict[str, list[int]]
    refusals_by_operator: dict[str, str]  # operator -> Spark's message


def large_payments(events: DataFrame) -> DataFrame:
    """Payments over 15; all that is kept of one is the time at which it was appended, in ms."""
    amount = F.get_json_object(F.col("value").cast("string"), "$.paymentAmount").cast("decimal(18,2)")
    return events.where(amount > 15).select(F.unix_millis("timestamp").cast("string").alias("value"))


def in_python(events: DataFrame) -> DataFrame:
    """The same rows, through a Python function."""
    return events.select("value").mapInArrow(lambda batches: batches, "value binary")


def count_in_windows(events: DataFrame) -> DataFrame:
    """A count in sliding windows."""
    windows = events.withWatermark("timestamp", "0 seconds").groupBy(
        F.window("timestamp", "10 seconds", "1 second")
    )
    return windows.count().select(F.col("count").cast("string").alias("value"))


def without_duplicates(events: DataFrame) -> DataFrame:
    """Each event once."""
    return (
        events.withWatermark("timestamp", "0 seconds").dropDuplicates(["value", "timestamp"]).select("value")
    )


def deduplicated_windows(events: DataFrame) -> DataFrame:
    """Sliding windows that have events, each once: a second operator with state behind the first."""
    return count_in_windows(events).dropDuplicates(["value"])


TRIED = {
    "Python": in_python,
    "sliding windows": count_in_windows,
    "dropDuplicates": without_duplicates,
    "sliding windows, then dropDuplicates": deduplicated_windows,
}


def try_real_time(spark: SparkSession, seconds: float = 8) -> RealTimeResult:
    """Starts a broker and a player, runs `large_payments` with each trigger for some seconds, then tries the others.

    >>> try_real_time(spark).latencies_ms_by_trigger["real time"][:3]  # doctest: +SKIP
    [11, 9, 10]
    """
    latencies, refused = {}, {}
    with (
        broker.running_broker() as kafka,
        tempfile.TemporaryDirectory(prefix="lab-realtime-", ignore_cleanup_errors=True) as folder,
    ):
        logs = KafkaLogs(kafka.address)
        logs.log("events").create()
        with Player("payments", logs.log("events"), RATE, burst_every_s=0):
            for name, trigger in TRIGGERS.items():
                out = KafkaLog(kafka.address, name.replace(" ", "-"))
                out.create()
                writer = _writer(spark, out, large_payments, f"{folder}/{out.topic}")
                query = writer.trigger(**trigger).start()
                time.sleep(seconds)
                give_up = time.monotonic() + PATIENCE_S  # a busy machine takes longer to start
                while len(out.tail().records()) < ENOUGH and time.monotonic() < give_up:
                    time.sleep(1)
                query.stop()
                took = [record.log_time_ms - int(record.line) for record in out.tail().records()]
                latencies[say("real time" if "realTime" in trigger else "micro-batches")] = took[
                    int(WARM_UP_SHARE * len(took)) :
                ]
            for name, operator in TRIED.items():
                refused[say(name)] = _refusal(_writer(spark, out, operator, f"{folder}/{operator.__name__}"))
    return RealTimeResult(latencies, refused)


def _writer(spark: SparkSession, out: KafkaLog, operator: Callable[[DataFrame], DataFrame], checkpoint: str):
    """A query from the events to a topic; only its trigger is missing."""
    events = session_with_short_batches(spark).readStream.format("kafka").option("subscribe", "events")
    rows = operator(events.option("kafka.bootstrap.servers", out.cluster.address).load())
    writer = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", out.cluster.address)
    return writer.option("topic", out.topic).option("checkpointLocation", checkpoint).outputMode("update")


def _refusal(writer) -> str:
    """Why real-time mode does not take a query; empty if it does."""
    query = None
    try:
        query = writer.trigger(**TRIGGERS["real time"]).start()
        give_up = time.monotonic() + REFUSED_WITHIN_S
        while not query.awaitTermination(1) and not query.lastProgress and time.monotonic() < give_up:
            pass  # neither refused nor through its first batch
    except PySparkException as error:
        return str(error).partition("with exception: ")[2].partition(" To bypass")[0] or str(error)
    finally:
        if query:
            query.stop()
    return ""
