"""The pipeline, in the order data flows. One streaming query, one checkpoint.

             driver                           a task for a share of the log             a task for each range of key-groups
events  ──┐  cut by log time,       read ─► decode ─► route ───────────────► evaluate ───────► alerts, acks, dead letters, stats
control ──┘  ledger folded, marks   a pure function of its work              state: Arrow files

With parallelism 1 all tasks are one, in the source's `read`; else envelopes travel from one stage to the other.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Self

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.lease import Lease
from lab.engine.checkpoint.record import BatchProgress, check_spark_logs_are_whole
from lab.engine.checkpoint.settings import Settings
from lab.engine.compiled.codecache import writable_code_cache
from lab.engine.loop.announcement import announce_schema
from lab.engine.loop.ends import (
    Logs,
    check_power_safe_possible,
    check_tasks_can_reach,
    check_transactions_possible,
)
from lab.engine.loop.job import EngineId, Job, new_start_id
from lab.engine.loop.restored import check_not_restored
from lab.engine.spark import source
from lab.engine.spark.runner import tell_to_stop, wait_for_end_of_loop
from lab.engine.windows import shared
from lab.model.times import now_ms

STOP_S = 30.0  # the loop ends at its next cut; a stop waits no longer for it
HIDDEN = "(?i)url|sasl|ssl|password"  # options whose values Spark does not show
# Spark gives workers with shorter tracebacks to SQL only; with the same for all, those that are there already do
TRACEBACK = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
# Spark plans each micro-batch anew. To generate Java code for a plan, to describe it at length and to look at it again between
# its stages costs more than it gives where a handful of rows carries all events
SHORT_BATCHES = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.ui.explainMode": "simple",
}


def start(
    spark: SparkSession, logs: Logs, checkpoint: Path | str, settings: Settings, *, once: bool = False
) -> "Engine":
    """Starts the engine; started again with the same checkpoint it continues. `once`: stops when it has read all.

    `checkpoint`: a folder, or the URI of one (`lab.engine.checkpoint.durable`). Raises CheckpointInUse while another engine runs on
    it or writes one of the logs, ValueError if it was made with other settings, or if it or the logs are out of Spark's reach,
    RuntimeError if Spark has ended.
    """
    check_spark_is_running(spark)
    folder, master = CheckpointFolder(checkpoint), spark.sparkContext.master
    check_tasks_can_reach(logs, folder, master)
    if settings.exactly_once:
        check_transactions_possible(logs, folder, once)
    if settings.power_safe:
        check_power_safe_possible(logs, folder, once)
    writable_code_cache()
    with ExitStack() as until_stopped:
        lease = until_stopped.enter_context(Lease(folder))
        until_stopped.enter_context(logs.lock())
        writer_id = settings.bind(checkpoint)
        check_spark_logs_are_whole(checkpoint)
        logs = logs.bound_to(checkpoint)
        check_not_restored(logs, folder, writer_id)
        if not once:  # of finished files nobody asks
            announce_schema(logs, settings.schema)
        start_id = new_start_id()
        job = Job(settings, logs, folder.where, start_id, lease.name, EngineId(writer_id, now_ms()), once)
        shared.private_folder(job.start_id)  # its own from now on
        until_stopped.callback(_leave_memory, job)
        Thread(target=_start_workers, args=(spark, settings.parallelism), daemon=True).start()
        spark.dataSource.register(source.engine_source_class(job))
        rows = spark.readStream.format(f"lab-{job.start_id}").load()
        if settings.parallelism > 1:
            rows = rows.repartitionById(settings.parallelism, "task")
            rows = rows.mapInArrow(partial(source.evaluate, job=job), source.OUTPUT)
        trigger = {"availableNow": True} if once else {"processingTime": "0 seconds"}
        sink = rows.writeStream.format("noop") if job.runs_loop else logs.sink(rows, folder, writer_id)
        writer = sink.option("checkpointLocation", folder.spark_uri).trigger(**trigger)
        conf = {"spark.sql.redaction.options.regex": HIDDEN, TRACEBACK: "false"}
        with _configured(spark, conf | SHORT_BATCHES if settings.short_batches else conf):
            return Engine(writer.start(), until_stopped.pop_all(), job)


def _leave_memory(job: Job) -> None:
    tell_to_stop(job)  # where the folder stays, it does not say so by its absence
    shared.leave_private_folder(job.start_id)


def check_spark_is_running(spark: SparkSession) -> None:
    """Raises RuntimeError if Spark has ended; PySpark's own error would say nothing."""
    if spark.sparkContext._jsc is None:
        raise RuntimeError("this Spark session has ended: open another one with lab.session()")


def _start_workers(spark: SparkSession, tasks: int) -> None:
    """Has Spark start Python workers while it plans the first micro-batch: half a second of imports."""
    with suppress(Exception):  # nobody needs them if Spark stops meanwhile
        spark.sparkContext.parallelize(range(tasks), tasks).foreach(lambda _: None)


@contextmanager
def _configured(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
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
    """A running engine; at the end of a `with` it is stopped."""

    query: StreamingQuery
    until_stopped: ExitStack  # gives back the lease, the locks and the shared memory
    job: Job

    def stop(self) -> None:
        """Stops the query, waits for its end, frees the shared memory and releases the checkpoint."""
        with self.until_stopped:
            try:
                if self.job.runs_loop:
                    self._end_loop()
            finally:
                self.query.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def _end_loop(self) -> None:
        """Has the loop end at its next cut, and waits for that."""
        tell_to_stop(self.job)
        deadline = time.monotonic() + STOP_S
        while self.query.isActive and time.monotonic() < deadline:
            batches = BatchProgress.read(self.job.checkpoint)
            if batches.planned == batches.done:
                break
            time.sleep(0.01)
        wait_for_end_of_loop(self.job, deadline - time.monotonic())
