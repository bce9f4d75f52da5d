"""The stateful operator as Spark sees it: what state it declares, and who does its work.

Spark loads this module in short-lived processes only to ask for that declaration, so it imports nothing heavy itself.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType

from lab.engine.settings import Settings

OUTPUT = "log string, keys array<string>, values array<string>"


def batch_id() -> int:
    """The number of the micro-batch that this task is a part of."""
    return int(TaskContext.get().getLocalProperty("streaming.sql.batchId"))


class Evaluate(StatefulProcessor):
    """`lab.engine.evaluate` for one key-group; its state is the chunk log. `windows`: the folder of the shared memory."""

    def __init__(
        self, settings: Settings, checkpoint: Path, windows: Path, batch_id: Callable[[], int] = batch_id
    ):
        self.settings, self.checkpoint, self.windows, self.batch_id = settings, checkpoint, windows, batch_id

    def init(self, handle) -> None:
        key = StructType([StructField("key", StringType())])
        value = StructType([StructField("value", ArrayType(BinaryType()))])
        self.state = handle.getMapState("log", key, value)

    def handleInputRows(self, key: tuple[int], rows: Iterable[Row], timerValues) -> Iterator[Row]:
        from lab.engine.evaluate import opened

        key_group = opened(key[0], self.settings, self.checkpoint, self.windows)
        return key_group.process(self.state, rows, self.batch_id())

    def close(self) -> None:
        pass
