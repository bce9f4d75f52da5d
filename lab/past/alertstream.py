"""`lab.alerts` inside one's own job of Structured Streaming: a streaming DataFrame in, a streaming DataFrame of alerts out.

    events ──foreachBatch──► log of events ──► engine ──► log of alerts ──► streaming DataFrame
    rules  ────────────────► control log ────────┘

Spark numbers its micro-batches, and the log takes each number once, so a batch that Spark repeats counts once.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import BooleanType, DecimalType, LongType, StringType, StructType, TimestampType

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.inprocess import compile_kernels
from lab.engine.spark.pipeline import Engine, check_spark_is_running, start
from lab.logs.files import FileLog, join_lines
from lab.logs.reading import SkippedLines, new_answers, parse_records
from lab.machine.leftovers import check_worker_python
from lab.model.aggregates import PLACES
from lab.model.alerts import Alert, Withdrawal, event_id_text, parse_alert_line
from lab.model.rules import BadRule, parse_message
from lab.model.schema import Schema
from lab.model.times import EPOCH
from lab.past.replay import check_rules
from lab.past.rulemessages import messages_of, rule_messages
from lab.sources.tables import LARGEST_DECIMAL, TableSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WRITER = "batches"  # in the log of events
GIVEN = "rules.json"  # what the last start was given
ANSWER_S = 60.0  # how long a change waits for its answer: Spark may still start the engine
TASKS = 2  # that run at once at least: the engine's loop is one of them
EXACT = Context(prec=LARGEST_DECIMAL, traps=[Inexact, InvalidOperation])


class AlertStream:
    """A streaming DataFrame's rows through an engine. At the end of a `with` both stop; a later start with the same checkpoint continues.

    `feed`: Spark's query that hands the rows over. `engine`: the engine. `logs`: their logs, for commands such as
    `lab rules list --logs CHECKPOINT/logs`; rows that are no events are in its `deadLetters`, with the reason.
    """

    def __init__(
        self, spark: "SparkSession", feed: "StreamingQuery", engine: Engine, logs: FileLogs, schema: Schema
    ):
        self.feed, self.engine, self.logs = feed, engine, logs
        self._spark, self._schema = spark, schema

    @property
    def alerts(self) -> "DataFrame":
        """A streaming DataFrame with a row for each alert, from the oldest one that is kept; several queries may read it.

        alertId, ruleId, ruleVersion, key, aggregate, operator, limit, eventId, eventTime (UTC), withdrawn, and alert: the JSON with
        all members. `withdrawn`: the event was taken back, and with it all alerts above that have this key and eventId; such a row has
        no rule. A decimal with more digits than Spark's have is null; the JSON has it.
        """
        source = _source_class(self.logs.log_folder("alerts"), self._schema)
        self._spark.dataSource.register(source)
        return self._spark.readStream.format(source.name()).load()

    def publish(self, rules: Any, timeout_s: float = ANSWER_S) -> list[dict]:
        """Adds, replaces, pauses or deletes rules while the stream runs, and returns the engine's answers. Each rule needs an id.

        `rules`: as `lab.alerts` takes them. Raises BadRule if one is refused, TimeoutError without an answer, and what has ended the engine.
        """
        messages = messages_of(rules)
        for message in messages:
            parse_message(message, self._schema)
        with closing(self.logs.log("acks").tail(new=True)) as acks:
            places = self.logs.log("control").publish(messages, [""] * len(messages))
            coming = new_answers(acks, places, timeout_s, SkippedLines(), self.check)
            answers = {ack["place"]: ack for ack in coming}
        if len(answers) < len(places):
            raise TimeoutError(
                f"no answer within {timeout_s:g} s; the rules are queued, and the engine takes them when it reads on"
            )
        given = [answers[place] for place in places]
        if refused := [ack["reason"] for ack in given if ack["status"] == "rejected"]:
            raise BadRule(refused[0])
        return given

    def check(self) -> None:
        """Raises the error that has ended the feed or the engine, if one has."""
        for query in (self.feed, self.engine.query):
            if not query.isActive:
                raise query.exception() or RuntimeError(
                    "the stream has stopped: lab.alerts with the same checkpoint continues it"
                )

    def stop(self) -> None:
        """Stops the feed and the engine; what the engine has not read yet waits for the next start. Queries on `alerts` go on."""
        try:
            self.feed.stop()
        finally:
            self.engine.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.stop()


def alert_stream(events: "DataFrame", rules: Any, schema: Schema, checkpoint: str | Path) -> AlertStream:
    """Starts an engine on the rows of a streaming DataFrame, or lets it continue. See `lab.alerts`."""
    spark, folder = events.sparkSession, Path(checkpoint).absolute()
    check_spark_is_running(spark)
    if spark.sparkContext.defaultParallelism < TASKS:
        raise ValueError(
            f"Spark runs one task at a time ({spark.sparkContext.master}), and the engine's loop is always one: expected local[3], or more"
        )
    if spark.sparkContext.master.startswith("local"):
        check_workers(spark.sparkContext.pythonExec)
    TableSource(spark.createDataFrame([], events.schema), schema)  # refuses columns that no event can have
    messages = rule_messages(rules, schema)
    check_rules(messages, schema)
    logs = FileLogs(folder / "logs")
    logs.create()
    compile_kernels()  # else the first events would wait for it
    engine = start(spark, logs, folder / "engine", Settings(schema))
    try:
        publish_new(messages, logs, CheckpointFolder(folder))
        log = logs.log("events")

        def put(rows: "DataFrame", number: int) -> None:
            log.put_batch_once(WRITER, number, join_lines(TableSource(rows, schema)), 0)

        feed = events.writeStream.foreachBatch(put).option("checkpointLocation", str(folder / "feed")).start()
    except BaseException:
        engine.stop()
        raise
    return AlertStream(spark, feed, engine, logs, schema)


def check_workers(python: str) -> None:
    """Raises RuntimeError if Spark's workers run a Python that lacks the engine, as those of a session of one's own may."""
    try:
        check_worker_python(python)
    except RuntimeError:
        raise RuntimeError(
            f"Spark's workers run {python}, which cannot run the engine: open Spark with lab.session(), or set PYSPARK_PYTHON to "
            f"{sys.executable} before Spark starts"
        ) from None


def publish_new(messages: Sequence[str], logs: FileLogs, folder: CheckpointFolder) -> None:
    """Publishes what the last start was not given: a rule that was changed while the stream ran stays as it was changed."""
    before = json.loads(folder.read(GIVEN) or b"[]")
    logs.log("control").append([message for message in messages if message not in before])
    folder.write(GIVEN, json.dumps(messages).encode())


# -- the log of alerts as Spark's source -------------------------------------------------------------------------------


def _source_class(folder: Path, schema: Schema) -> type[DataSource]:
    """The data source of one log of alerts; a process may have several."""
    scales = [field.scale for field in schema.fields if field.is_decimal]
    return type("AlertSource", (AlertSource,), {"log": FileLog(folder), "places": max([PLACES, *scales])})


class AlertSource(DataSource):
    """Reads a log of alerts as far as it has been written."""

    log: FileLog
    places: int  # after the point

    @classmethod
    def name(cls) -> str:
        return f"lab-alerts-{cls.log}"

    def schema(self) -> StructType:
        columns = StructType().add("alertId", StringType())
        for name in ("ruleId", "ruleVersion"):
            columns.add(name, LongType())
        amount = DecimalType(LARGEST_DECIMAL, self.places)
        columns.add("key", StringType()).add("aggregate", amount)
        columns.add("operator", StringType()).add("limit", amount)
        columns.add("eventId", StringType()).add("eventTime", TimestampType())
        return columns.add("withdrawn", BooleanType()).add("alert", StringType())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return AlertReader(self.log, Decimal(1).scaleb(-self.places))


class AlertReader(DataSourceStreamReader):
    """Offsets are positions in the log. Lines that no engine wrote are left out, and told on stderr."""

    def __init__(self, log: FileLog, unit: Decimal):
        self._log, self._unit = log, unit

    def initialOffset(self) -> dict:
        return {"position": self._log.start()}

    def latestOffset(self, start: dict, limit: ReadLimit) -> dict:
        return {"position": self._log.end()}

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        return [InputPartition((start["position"], end["position"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple]:
        start, end = partition.value
        with closing(self._log.tail(at={0: start})) as tail:
            for record, said in parse_records(tail.records(upto={0: end}), parse_alert_line, SkippedLines()):
                yield self._row(said, record.line)

    def _row(self, said: Alert | Withdrawal, line: str) -> tuple:
        at = EPOCH + timedelta(milliseconds=said.event_time)
        event = (event_id_text(said.event_id), at)
        if not isinstance(said, Alert):
            return None, None, None, said.key, None, None, None, *event, True, line
        rule = (said.alert_id, said.rule_id, said.rule_version, said.key)
        return (
            *rule,
            self._amount(said.aggregate),
            said.operator,
            self._amount(said.limit),
            *event,
            False,
            line,
        )

    def _amount(self, value: Decimal) -> Decimal | None:
        try:
            return value.quantize(self._unit, context=EXACT)
        except (Inexact, InvalidOperation):
            return None
