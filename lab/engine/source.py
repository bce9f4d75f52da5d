"""The engine's source as Spark sees it: marks on the driver, work for tasks, Arrow batches out of them.

Spark starts a process for each step that leads to a query, and each imports this. So what only tasks need, half a second of
Numba and pandas, is imported where they begin.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType

from lab.engine import cuts
from lab.engine.checkpoint import Batches
from lab.engine.cut import Ends, Mark, Planner, Work, positions
from lab.engine.ends import READ
from lab.engine.job import Job

if TYPE_CHECKING:
    from lab.engine.windows import TaskOutput

OUTPUT = StructType().add("topic", StringType()).add("key", StringType()).add("value", BinaryType())
SENT = StructType().add("task", IntegerType()).add("payload", BinaryType())
ARROW_OUTPUT = pa.schema([("topic", pa.string()), ("key", pa.string()), ("value", pa.binary())])
ARROW_SENT = pa.schema([("task", pa.int32()), ("payload", pa.binary())])


def batch_id() -> int:
    """The number of the micro-batch that this task is a part of."""
    return int(TaskContext.get().getLocalProperty("streaming.sql.batchId"))


def source_of(job: Job) -> type[DataSource]:
    """The data source of one engine; `job` travels with the class, not among the options, which Spark shows."""
    return type("EngineSource", (EngineSource,), {"job": job})


class EngineSource(DataSource):
    """Reads the logs; with one task it evaluates them, too."""

    job: Job

    @classmethod
    def name(cls) -> str:
        return f"lab-{cls.job.start}"

    def schema(self) -> StructType:
        return OUTPUT if self.job.settings.parallelism == 1 else SENT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return EpochReader(self.job) if self.job.loops else Reader(self.job)


class Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Marks and work by `lab.engine.cut`, the work done by `lab.engine.task`."""

    def __init__(self, job: Job):
        self.job = job
        self._upto: Ends | None = None

    @cached_property
    def _planner(self) -> Planner:
        job = self.job
        events, control = map(job.logs.feed, READ)
        return Planner(events, control, job.folder, job.settings, job.lease)

    def initialOffset(self) -> Mark:
        return self._planner.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.job.settings.max_batch_records)

    def prepareForTriggerAvailableNow(self) -> None:
        self._upto = self._planner.target()

    def latestOffset(self, start: Mark, limit: ReadLimit) -> Mark:
        begin = self._mark(start)
        self.job.logs.reached(positions(begin["events"]))  # batches up to `start` are done
        at_most = None if isinstance(limit, ReadAllAvailable) else self.job.settings.max_batch_records
        end = self._planner.latest(begin, at_most, self._upto)
        if end != begin:
            return end
        # Spark compares texts, and runs a first batch also of nothing
        return start | {"number": 0} if Batches.read(self.job.checkpoint).planned is None else start

    def _mark(self, offset: dict) -> Mark:
        """The mark that an offset means."""
        if "epoch" not in offset:  # an older version gave no numbers
            planned = Batches.read(self.job.checkpoint).planned
            return {"number": -1 if planned is None else planned} | offset
        return cuts.end_of(self.job.folder / cuts.FOLDER, offset["epoch"])[0]

    def partitions(self, start: Mark, end: Mark) -> Sequence[InputPartition]:
        if "epoch" in end:  # of an engine that ran the loop, and was stopped or killed
            return [InputPartition(end["epoch"])]
        works = self._planner.works(self._mark(start), self._mark(end))
        return [Share(number, work) for number, work in enumerate(works)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from lab.engine.task import alone, sent

        if not isinstance(partition, Share):
            from lab.engine.runner import finish_epoch

            return finish_epoch(self.job, partition.value)
        if self.job.settings.parallelism == 1:
            yield output(self.job, alone(self.job, batch_id(), partition.work))
            return
        for task, payload in sent(self.job, partition.number, partition.work):
            yield pa.record_batch([pa.array([task], pa.int32()), pa.array([payload])], schema=ARROW_SENT)


class EpochReader(DataSourceStreamReader):
    """Names epochs; a task runs each with `lab.engine.runner`, delivers, and gives Spark no rows."""

    def __init__(self, job: Job):
        self.job = job

    def initialOffset(self) -> dict:
        return {"epoch": -1}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict, limit: ReadLimit) -> dict:
        from lab.engine.runner import stopping

        planned = Batches.read(self.job.checkpoint).planned
        return start if stopping(self.job) else {"epoch": 0 if planned is None else planned + 1}

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        return [InputPartition((start, end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from lab.engine.runner import run_cut, run_epoch

        start, end = partition.value
        if "epoch" in end:
            run_epoch(self.job, end["epoch"])
        else:  # planned by an engine that chose its cuts on the driver, and died
            run_cut(self.job, batch_id(), self._begin(start, end), {"number": batch_id()} | end)
        yield from ()

    def _begin(self, start: dict, end: Mark) -> Mark:
        """The mark at which a cut that the driver chose begins; `start` is no mark if this source named it."""
        if "epoch" not in start:
            return start
        if start["epoch"] < 0:
            return end.get("begin", end)
        return cuts.end_of(self.job.folder / cuts.FOLDER, start["epoch"])[0]


class Share(InputPartition):
    """The work of one reading task."""

    def __init__(self, number: int, work: Work):
        self.number, self.work = number, work


def evaluate(batches: Iterator[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """`mapInArrow` runs it: rows of SENT → rows of OUTPUT."""
    from lab.engine.task import received

    payloads: dict[int, list[bytes]] = {}
    for batch in batches:
        for task, payload in zip(batch["task"].to_pylist(), batch["payload"].to_pylist()):
            payloads.setdefault(task, []).append(payload)
    for task, sent_to_it in payloads.items():
        yield output(job, received(job, task, batch_id(), sent_to_it))


def output(job: Job, lines: "TaskOutput") -> pa.RecordBatch:
    """A task's lines as rows."""
    topics, keys, values = [], [], []
    for log, of_log in lines.items():
        of_keys, of_values = job.logs.rows(*of_log)
        topics += [job.logs.topic(log)] * len(of_values)
        keys += of_keys
        values += of_values
    return pa.record_batch([topics, keys, values], schema=ARROW_OUTPUT)
