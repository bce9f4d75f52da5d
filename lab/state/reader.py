"""Opens a checkpoint's state for reading: rule book and heads first, then the events in chunks that are still held."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from json import loads
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lab.engine.checkpoint import Batches, read_record
from lab.engine.columns import unpack
from lab.model.keygroups import mixed
from lab.model.rules import RuleBook
from lab.model.schema import Schema
from lab.state.stored import log

ROWS_AT_ONCE, RECORDS_PER_BATCH = 8, "spark.sql.execution.arrow.maxRecordsPerBatch"


@dataclass(frozen=True)
class Reader:
    """What is read first: the rule book and the heads of all key-groups, by id."""

    spark: SparkSession
    checkpoint: Path
    schema: Schema
    key_groups: int
    batch: int
    book: RuleBook
    heads: dict[int, dict]
    partition: dict[int, int]
    log: DataFrame

    def horizons(self, late_ms: int) -> dict[tuple[int, str], int]:
        """(id, store) -> the time from which its events are held; older ones wait in their chunk to be removed."""
        widest = {route.id: max(rule.window_ms for rule in of) for route, of in self.book.routes().items()}
        return {
            (id, name): store["newest"] - widest[store["route"]] - late_ms
            for id, head in self.heads.items()
            for name, store in head["stores"].items()
        }


def opened(spark: SparkSession, checkpoint: Path, batch: int | None) -> Reader:
    """Reads the rule book and the heads after a micro-batch. Raises ValueError if there is nothing to read."""
    record = read_record(checkpoint)
    if record is None:
        raise ValueError(f"{checkpoint} is no checkpoint of the engine: it has no lab.json")
    batch = Batches.read(checkpoint).done if batch is None else batch
    if batch is None:
        raise ValueError(f"checkpoint {checkpoint}: no micro-batch was completed yet, there is no state")
    schema = Schema.from_dict(record["schema"])
    rows, book, heads, partition = log(spark, checkpoint, batch), RuleBook(schema), {}, {}
    for row in rows.where("entry in ('head', 'book')").collect():
        text = bytes(row["values"][0]).decode()
        if row.entry == "book":  # every key-group has the same
            book = RuleBook.from_json(text, schema)
        else:
            heads[row.id], partition[row.id] = loads(text), row.partition
    return Reader(spark, checkpoint, schema, record["key_groups"], batch, book, heads, partition, rows)


def held(batches: Iterable[pa.RecordBatch], horizons: Mapping) -> Iterator[tuple[int, str, dict, np.ndarray]]:
    """(id, store, columns, rows that are held) of each table of events in the chunks."""
    for batch in batches:
        for id, tables in zip(batch["id"].to_pylist(), batch["values"]):
            for table in tables.values[::2]:  # every second one: resets
                columns, store = unpack(table.as_py())
                if (id, store) in horizons:
                    yield id, store, columns, np.flatnonzero(columns["time"] >= horizons[id, store])


@contextmanager
def few_rows_at_once(spark: SparkSession) -> Iterator[None]:
    """Rows travel to Python a few at a time: a chunk may have tens of MB."""
    before = spark.conf.get(RECORDS_PER_BATCH)
    spark.conf.set(RECORDS_PER_BATCH, ROWS_AT_ONCE)
    try:
        yield
    finally:
        spark.conf.set(RECORDS_PER_BATCH, before)


def group_sizes(batches: Iterable[pa.RecordBatch], horizons: Mapping) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow` on chunks: rows of (hash of a group with its store, bytes that its held events take unpacked)."""
    for id, store, columns, rows in held(batches, horizons):
        keys = [values[rows] for name, values in columns.items() if name.startswith("key:")]
        place = np.full(len(rows), id * 1000 + int(store), np.int64)
        hashes, counts = np.unique(mixed([place, *keys], len(rows)), return_counts=True)
        yield pa.record_batch([hashes.view(np.int64), counts * 8 * len(columns)], ["hash", "bytes"])
