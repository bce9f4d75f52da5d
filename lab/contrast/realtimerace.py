"""Sliding windows in Spark's real-time mode beside the engine, on Kafka: how soon, how completely and how often each reports a fraud.

    a payment crosses the limit ──► its window is updated ──► a line     for each window that holds the fraud; none may
                                ──► the engine ──► an alert              for each payment that is judged so

Then the limit changes. For the engine this is a record on a log; for Spark it is another query, which starts with empty windows.
"""

import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from lab.contrast.delays import plant_bursts
from lab.contrast.sliding import FIELDS, KEYS, LIMIT, over_limit, session_with_short_batches
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.kafkalogs import KafkaLogs
from lab.engine.spark.pipeline import start
from lab.logs.positions import Record
from lab.machine import broker
from lab.model.alerts import Alert
from lab.model.enginelogs import LOGS
from lab.model.language import say
from lab.model.rules import rule_message
from lab.model.times import now_ms
from lab.running.run import raise_if_ended
from lab.stream.player import Player
from lab.stream.simulate import PlantedBurst

WINDOW_MS = 2_000
FRAUD = PlantedBurst("pair", 0, 1_300, 3, 21_000_000)  # over the limit with its third payment
FRAUD_EVERY_S = (0.4, 0.8)  # at random, so that windows do not always begin at the same payment
LOWER_LIMIT = LIMIT // 2  # a fraud is over it with its second payment
WARM_S = 5  # frauds are not counted for so long after the first line
PATIENCE_S = 60  # how long to wait for a line
# some payments come late on purpose: a fraud with one of them is not counted
ON_TIME_MS = 500
DRAIN_S = 3
RATE = 20
TOO_BUSY = "nothing came out: this machine is too busy; shut down other kernels and run the cell again"
Group = tuple[int, int]


class OutputLine(NamedTuple):
    """A line of output, as a topic has it."""

    append_ms: int
    group: Group
    limit: int


class LimitChange(NamedTuple):
    """A change of the limit: seconds to the first line under the new one, and the frauds that were over it meanwhile and are in no line."""

    seconds: float
    missed: int


@dataclass(frozen=True)
class DetectionResult:
    """How frauds were reported. `delays_ms`: from the append of the payment that crossed the limit to the append of the first line about it.

    `missed`: frauds in no line; `repeated`: lines about a fraud after its first.
    """

    delays_ms: list[int]
    missed: int
    repeated: int
    change: LimitChange


def race_real_time(
    spark: SparkSession, slides_ms: Sequence[int] = (1_000, 500), seconds: float = 12
) -> dict[str, DetectionResult]:
    """Plays payments with planted pairs to topics: for a query in real-time mode with each slide, then for the engine, for some seconds each.

    Raises TimeoutError if nothing comes out. Needs Spark 4.3, whose real-time mode takes aggregations.

    >>> race_real_time(spark)["engine"].missed  # doctest: +SKIP
    0
    """
    runners: dict[str, Callable[..., RealTimeWindows | EngineOnKafka]] = {
        say("real time, slides of {slide} ms", slide=f"{slide:,}"): partial(RealTimeWindows, slide)
        for slide in slides_ms
    }
    results = {}
    with (
        broker.running_broker() as kafka,
        tempfile.TemporaryDirectory(prefix="lab-realtime-", ignore_cleanup_errors=True) as folder,
    ):
        for number, (name, runner) in enumerate((runners | {say("engine"): EngineOnKafka}).items()):
            logs = KafkaLogs(kafka.address, {log: f"{log}-{number}" for log in LOGS})
            logs.create()
            with closing(runner(spark, logs, Path(folder, str(number)))) as running:
                results[name] = _detection_result(running, logs, seconds)
    return results


class RealTimeWindows:
    """Sums in sliding windows in real-time mode, each written again when it changes."""

    def __init__(self, slide_ms: int, spark: SparkSession, logs: KafkaLogs, folder: Path):
        self._slide_ms, self._spark, self._logs, self._folder = slide_ms, spark, logs, folder
        self._query: StreamingQuery | None = None

    def set_limit(self, limit: int) -> None:
        """Starts the query with this limit, in place of the one before."""
        self.close()
        kafka = {"kafka.bootstrap.servers": self._logs.address}
        reader = session_with_short_batches(self._spark).readStream.format("kafka").options(**kafka)
        values = reader.option("subscribe", self._logs.log("events").topic).load()
        events = values.select(F.from_json(F.col("value").cast("string"), FIELDS).alias("event")).select(
            "event.*"
        )
        over = over_limit(events, WINDOW_MS, [self._slide_ms], limit)
        lines = over.select(F.to_json(F.struct(*KEYS, F.lit(limit).alias("limit"))).alias("value"))
        writer = (
            lines.writeStream.format("kafka").options(**kafka).option("topic", self._logs.log("alerts").topic)
        )
        writer = writer.option("checkpointLocation", str(self._folder / str(limit))).outputMode("update")
        self._query = writer.trigger(realTime="5 seconds").start()

    def lines(self) -> list[OutputLine]:
        """All that was written. Raises what ended the query."""
        if self._query:
            raise_if_ended(self._query)
        found = []
        for record in _records(self._logs, "alerts"):
            row = json.loads(record.line)
            found.append(OutputLine(record.log_time_ms, (row[KEYS[0]], row[KEYS[1]]), row["limit"]))
        return found

    def close(self) -> None:
        """Stops the query."""
        if self._query:
            self._query.stop()


class EngineOnKafka:
    """The engine with one rule."""

    def __init__(self, spark: SparkSession, logs: KafkaLogs, folder: Path):
        self._logs = logs
        self._engine = start(spark, logs, folder, Settings(key_groups=4))

    def set_limit(self, limit: int) -> None:
        """Publishes the rule with this limit."""
        rule = rule_message(1, KEYS, "paymentAmount", "SUM", "GREATER", limit, f"{WINDOW_MS // 1_000}s")
        with closing(self._logs.log("control")) as control:
            control.publish([json.dumps(rule)], ["1"])

    def lines(self) -> list[OutputLine]:
        """All alerts."""
        found = []
        for record in _records(self._logs, "alerts"):
            alert = Alert.from_json(record.line)
            group = dict(alert.group)
            found.append(
                OutputLine(record.log_time_ms, (int(group[KEYS[0]]), int(group[KEYS[1]])), int(alert.limit))
            )
        return found

    def close(self) -> None:
        """Stops the engine."""
        self._engine.stop()


def _detection_result(
    running: RealTimeWindows | EngineOnKafka, logs: KafkaLogs, seconds: float
) -> DetectionResult:
    running.set_limit(LIMIT)
    with closing(logs.log("events")) as events, Player("payments", events, RATE, burst_every_s=0) as player:
        plant = partial(plant_bursts, player, FRAUD, FRAUD_EVERY_S)
        plant(PATIENCE_S, until=running.lines)
        if not running.lines():
            raise TimeoutError(say(TOO_BUSY))
        plant(WARM_S)
        counted_from = now_ms()
        plant(seconds)
        time.sleep(DRAIN_S)
        changed = now_ms()
        running.set_limit(LOWER_LIMIT)
        plant(PATIENCE_S, until=lambda: _under(LOWER_LIMIT, running))
        time.sleep(DRAIN_S)
    in_force = min(_under(LOWER_LIMIT, running), default=0)
    if not in_force:
        raise TimeoutError(say(TOO_BUSY))
    lines, frauds = defaultdict(list), _frauds(logs)
    for line in running.lines():
        lines[line.group].append(line.append_ms)
    counted = {group: at[2] for group, at in frauds.items() if counted_from <= at[2] < changed}
    detected = [group for group in counted if lines[group]]
    meanwhile = [group for group, at in frauds.items() if changed <= at[1] < in_force]
    return DetectionResult(
        [min(lines[group]) - counted[group] for group in detected],
        len(counted) - len(detected),
        sum(len(lines[group]) - 1 for group in detected),
        LimitChange((in_force - changed) / 1_000, sum(not lines[group] for group in meanwhile)),
    )


def _records(logs: KafkaLogs, name: str) -> list[Record]:
    with closing(logs.log(name).tail()) as tail:
        return tail.records()


def _under(limit: int, running: RealTimeWindows | EngineOnKafka) -> list[int]:
    """When the lines with a limit were appended."""
    return [line.append_ms for line in running.lines() if line.limit == limit]


def _frauds(logs: KafkaLogs) -> dict[Group, list[int]]:
    """The planted pairs that are complete and came on time, with the times at which their payments were appended, ms."""
    found: dict[Group, list[int]] = defaultdict(list)
    for record in _records(logs, "events"):
        event = json.loads(record.line)
        if event["paymentAmount"] > 1_000 and record.log_time_ms - event["eventTime"] < ON_TIME_MS:
            found[event[KEYS[0]], event[KEYS[1]]].append(record.log_time_ms)
    return {group: at for group, at in found.items() if len(at) == FRAUD.payments}
