"""The engine's source as Spark sees it: marks on the driver, work for tasks, Arrow batches out of them.

Spark starts a process for each step that leads to a query, and each imports this. So what only tasks need, half a second of
Numba and pandas, is imported where they begin.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType

from lab.engine.checkpoint import cuts, lease
from lab.engine.checkpoint.record import BatchProgress, last_saved_mark, runs_loop
from lab.engine.loop.cut import Ends, Mark, Planner, ReadingWork
from lab.engine.loop.job import Job
from lab.model.enginelogs import READ
from lab.model.statuslines import mark_positions

if TYPE_CHECKING:
    from lab.engine.windows.evaluate import TaskOutput

OUTPUT = StructType().add("topic", StringType()).add("key", StringType()).add("value", BinaryType())
SENT = StructType().add("task", IntegerType()).add("payload", BinaryType())
ARROW_OUTPUT = pa.schema([("topic", pa.string()), ("key", pa.string()), ("value", pa.binary())])
ARROW_SENT = pa.schema([("task", pa.int32()), ("payload", pa.binary())])


def engine_source_class(job: Job) -> type[DataSource]:
    """The data source of one engine; `job` travels with the class, not among the options, which Spark shows."""
    return type("EngineSource", (EngineSource,), {"job": job})


class EngineSource(DataSource):
    """Reads the logs; with one task it evaluates them, too."""

    job: Job

    @classmethod
    def name(cls) -> str:
        return f"lab-{cls.job.start_id}"

    def schema(self) -> StructType:
        return OUTPUT if self.job.settings.parallelism == 1 else SENT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return LoopReader(self.job) if self.job.runs_loop else MicroBatchReader(self.job)


class MicroBatchReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Marks and work by `lab.engine.loop.cut`, the work done by `lab.engine.loop.task`."""

    def __init__(self, job: Job):
        self.job = job
        self._upto: Ends | None = None

    @cached_property
    def _planner(self) -> Planner:
        job = self.job
        events, control = map(job.logs.feed, READ)
        return Planner(events, control, job.folder, job.settings, job.lease)

    def initialOffset(self) -> Mark:
        return self._planner.initial_mark()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.job.settings.max_batch_records)

    def prepareForTriggerAvailableNow(self) -> None:
        self._upto = self._planner.current_ends()

    def latestOffset(self, start: Mark, limit: ReadLimit) -> Mark:
        begin, planned = self._mark(start), BatchProgress.read(self.job.checkpoint).planned
        after = -1 if runs_loop(start) else begin["epoch"]
        if cuts.may_have_cuts_after_epoch(self.job.folder / cuts.FOLDER, after, self.job.lease):
            return {"batch": 0 if planned is None else planned + 1}
        self.job.logs.report_progress(mark_positions(begin["events"]))  # batches before `start` are done
        at_most = None if isinstance(limit, ReadAllAvailable) else self.job.settings.max_batch_records
        due_ms = None if self._upto else self._planner.next_absence_check_ms(begin)
        end = self._planner.advance_mark(begin, at_most, self._upto, due_ms)
        if end != begin:
            return end
        # Spark compares texts, and runs a first batch also of nothing
        first = {"number": 0, "epoch": 0}
        return start | first if planned is None else start

    def _mark(self, offset: dict) -> Mark:
        """The mark that the end of a micro-batch means."""
        if runs_loop(offset):
            return last_saved_mark(self.job.checkpoint) or self._planner.mark_at_start_of_logs()
        return offset

    def partitions(self, start: Mark, end: Mark) -> Sequence[InputPartition]:
        if runs_loop(end):  # an earlier start ran the loop
            return [InputPartition(end["batch"])]
        works = self._planner.plan_reading(self._mark(start), self._mark(end))
        return [ReadingShare(number, work) for number, work in enumerate(works)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from lab.engine.loop.task import route_to_payloads, run_single_task
        from lab.engine.spark.runner import end_loop_of_another_start, finish_epoch_and_close_loop

        end_loop_of_another_start(self.job)
        if not isinstance(partition, ReadingShare):
            return finish_epoch_and_close_loop(self.job, partition.value)
        if self.job.settings.parallelism == 1:
            yield output_rows(self.job, run_single_task(self.job, partition.work))
            return
        for task, payload in route_to_payloads(self.job, partition.number, partition.work):
            yield pa.record_batch([pa.array([task], pa.int32()), pa.array([payload])], schema=ARROW_SENT)


class LoopReader(DataSourceStreamReader):
    """Numbers the micro-batches; in each a task runs the loop with `lab.engine.spark.runner`, delivers, and gives Spark no rows.

    `latestOffset` raises Fenced if another engine has taken the checkpoint over.
    """

    def __init__(self, job: Job):
        self.job, self._is_stopping = job, False

    def initialOffset(self) -> dict:
        return {"batch": -1}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict, limit: ReadLimit) -> dict:
        from lab.engine.spark.runner import is_told_to_stop
        from lab.engine.windows import shared

        lease.check_lease(self.job.folder, self.job.lease)
        if not self._is_stopping:
            # somebody else may have removed it, as systemd does when a user logs out: tasks would take the engine for stopped
            shared.private_folder(self.job.start_id)
            self._is_stopping = is_told_to_stop(self.job)
        planned = BatchProgress.read(self.job.checkpoint).planned
        return start if self._is_stopping else {"batch": 0 if planned is None else planned + 1}

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        return [InputPartition((start, end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from lab.engine.spark.runner import end_loop_of_another_start, rerun_planned_cut, run_loop

        end_loop_of_another_start(self.job)
        start, end = partition.value
        if runs_loop(end):
            run_loop(self.job, end["batch"])
        else:  # planned by an engine that chose its cuts on the driver, and died
            number = BatchProgress.read(self.job.checkpoint).planned
            rerun_planned_cut(self.job, self._begin(start, end), {"number": number, "epoch": number} | end)
        yield from ()

    def _begin(self, start: dict, end: Mark) -> Mark:
        """The mark at which a cut that the driver chose begins; `start` is no mark if this source named it."""
        if not runs_loop(start):
            return start
        return (start["batch"] >= 0 and last_saved_mark(self.job.checkpoint)) or end.get("begin", end)


class ReadingShare(InputPartition):
    """The work of one reading task."""

    def __init__(self, number: int, work: ReadingWork):
        self.number, self.work = number, work


def evaluate(batches: Iterator[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """`mapInArrow` runs it: rows of SENT → rows of OUTPUT."""
    from lab.engine.loop.task import evaluate_payloads
    from lab.engine.spark.runner import end_loop_of_another_start

    end_loop_of_another_start(job)
    payloads: dict[int, list[bytes]] = {}
    for batch in batches:
        for task, payload in zip(batch["task"].to_pylist(), batch["payload"].to_pylist()):
            payloads.setdefault(task, []).append(payload)
    for task, sent_to_it in payloads.items():
        yield output_rows(job, evaluate_payloads(job, task, sent_to_it))


def output_rows(job: Job, lines: "TaskOutput") -> pa.RecordBatch:
    """A task's lines as rows."""
    topics, keys, values = [], [], []
    for log, of_log in lines.items():
        of_keys, of_values = job.logs.to_sink_rows(*of_log)
        topics += [job.logs.topic(log)] * len(of_values)
        keys += of_keys
        values += of_values
    return pa.record_batch([topics, keys, values], schema=ARROW_OUTPUT)
