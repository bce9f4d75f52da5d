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
        return Reader(self.job)


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
        self.job.logs.reached(positions(start["events"]))  # batches up to `start` are done
        at_most = None if isinstance(limit, ReadAllAvailable) else self.job.settings.max_batch_records
        return self._planner.latest(start, at_most, self._upto)

    def partitions(self, start: Mark, end: Mark) -> Sequence[InputPartition]:
        return [Share(number, work) for number, work in enumerate(self._planner.works(start, end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from lab.engine.task import alone, sent

        if self.job.settings.parallelism == 1:
            yield output(self.job, alone(self.job, batch_id(), partition.work))
            return
        for task, payload in sent(self.job, partition.number, partition.work):
            yield pa.record_batch([pa.array([task], pa.int32()), pa.array([payload])], schema=ARROW_SENT)


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
