"""The two stateful operators as Spark sees them: what state they declare, and who does their work.

Spark loads this module in short-lived processes only to ask for that declaration, so it imports nothing heavy itself.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType

from lab.engine.settings import Settings

ROUTED = "key_group int, kind string, payload binary"
OUTPUT = "log string, keys array<string>, values array<string>"


class RouteEvents(StatefulProcessor):
    """`lab.engine.route` for one lane; its state is the rule book, as text."""

    def __init__(self, settings: Settings):
        self.settings = settings

    def init(self, handle) -> None:
        self.state = handle.getValueState("book", StructType([StructField("book", StringType())]))

    def handleInputRows(self, key: tuple[int], rows: Iterable[Row], timerValues) -> Iterator[Row]:
        from lab.engine.route import route_batch

        return route_batch(self.state, key[0], rows, self.settings)

    def close(self) -> None:
        pass


class Evaluate(StatefulProcessor):
    """`lab.engine.evaluate` for one key-group; its state is the chunk log. `windows`: the folder of the shared memory."""

    def __init__(self, settings: Settings, windows: Path):
        self.settings, self.windows = settings, windows

    def init(self, handle) -> None:
        key = StructType([StructField("key", StringType())])
        value = StructType([StructField("value", ArrayType(BinaryType()))])
        self.state = handle.getMapState("log", key, value)

    def handleInputRows(self, key: tuple[int], rows: Iterable[Row], timerValues) -> Iterator[Row]:
        from lab.engine.evaluate import opened

        return opened(key[0], self.settings, self.windows).process(self.state, rows)

    def close(self) -> None:
        pass
