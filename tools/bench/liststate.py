"""Payments held in a ListState or in a MapState of Spark's RocksDB store: `python -m tools.bench.liststate [--repeats N]`.

One group holds N timestamps, a payment each. Each further payment adds itself and sums up those of its window, ten of them: a
list is decoded whole for that; of a map all keys are, and ten values.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor
from rich.console import Console
from rich.table import Table

from lab.contrast.parts import FilePerAppend
from lab.machine.session import session

HELD = (10, 100, 1_000)
WITHIN, ASKED = 10, 50
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FIELDS = "key long, time long, value double, asks boolean"


class OfList(StatefulProcessor):
    """Keeps payments as a list."""

    def init(self, handle) -> None:
        self.held = handle.getListState("held", "time long, value double")

    def add(self, row: Row) -> None:
        self.held.appendValue((row.time, row.value))

    def total(self, since: int) -> float:
        return sum(value for time, value in self.held.get() if time > since)

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        for row in rows:
            started = perf_counter()
            self.add(row)
            if row.asks:
                total = self.total(row.time - WITHIN)
                yield Row(total=total, ms=1000 * (perf_counter() - started))

    def close(self) -> None:
        pass


class OfMap(OfList):
    """Keeps payments as a map of time to value."""

    def init(self, handle) -> None:
        self.held = handle.getMapState("held", "time long", "value double")

    def add(self, row: Row) -> None:
        self.held.updateValue((row.time,), (row.value,))

    def total(self, since: int) -> float:
        times: Iterator[tuple[int]] = self.held.keys()
        within = [time for (time,) in times if time > since]
        return sum(self.held.getValue((time,))[0] for time in within)


def ms_per_payment(spark: SparkSession, kind: type[OfList], held: int) -> float:
    """The median of a micro-batch, after one that filled the state."""
    with tempfile.TemporaryDirectory(prefix="lab-liststate-") as folder:
        parts = FilePerAppend(Path(folder, "events"))
        for first, last in ((0, held), (held, held + ASKED)):
            lines = [{"key": 1, "time": n, "value": 1.5, "asks": first > 0} for n in range(first, last)]
            parts.append([json.dumps(line).encode() for line in lines])
        stream = spark.readStream.schema(FIELDS).option("maxFilesPerTrigger", 1)
        rows = stream.json(str(parts.folder)).groupBy("key")
        found: list[Row] = []
        made = rows.transformWithState(kind(), "total double, ms double", "append", "none")
        writer = made.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
        assert [row.total for row in found] == [1.5 * WITHIN] * ASKED
        return median(row.ms for row in found)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench.liststate", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="after a warm-up (3)")
    repeats = parser.parse_args().repeats
    table = Table("payments held", "list, ms a payment", "map, ms a payment", title="RocksDB state store")
    conf = {"spark.sql.streaming.stateStore.providerClass": ROCKSDB, "spark.sql.shuffle.partitions": "1"}
    with session(conf=conf) as spark:
        for kind in (OfList, OfMap):
            ms_per_payment(spark, kind, 10)
        for held in HELD:
            turns = [[ms_per_payment(spark, kind, held) for kind in (OfList, OfMap)] for _ in range(repeats)]
            table.add_row(f"{held:,}", *(f"{median(times):.2f}" for times in zip(*turns)))
    Console().print(table)


if __name__ == "__main__":
    main()
