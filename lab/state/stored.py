"""A checkpoint's state as Spark stores it, read through its state data source; nothing is changed, nothing locked.

Under each key-group's id, in the map state `log`: "head", "book" and the chunks (`lab.engine.chunklog`).

Spark reads the state of a micro-batch that is done, so a running engine is not disturbed; it keeps the last hundred.
"""

import json
from dataclasses import dataclass
from functools import reduce
from operator import xor
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lab.engine.checkpoint import Batches

VARIABLE = "log"


@dataclass(frozen=True)
class Content:
    """Everything under one key: rows, bytes of their values, and a hash over all of them in any order."""

    rows: int
    bytes: int
    hash: int


@dataclass(frozen=True)
class Stored:
    """What is under each key, and the partition that has it."""

    parallelism: int
    contents: dict[int, Content]  # by key-group id
    partition: dict[int, int]


def log(spark: SparkSession, checkpoint: Path, batch_id: int | None = None) -> DataFrame:
    """The rows of all chunk logs after a micro-batch (the last one that is done, unless told).

    Columns: partition, id (of the key-group), entry (text), values (list of binary). Raises ValueError for a checkpoint
    of something else.
    """
    spark.streams  # noqa: B018  makes the coordinator of state stores, without which a new session reads no state
    found = [
        variable["stateName"]
        for row in spark.read.format("state-metadata").load(str(checkpoint)).collect()
        for variable in json.loads(row.operatorProperties).get("stateVariables", [])
    ]
    if set(found) != {VARIABLE}:
        raise ValueError(
            f"checkpoint {checkpoint} has the state variables {', '.join(sorted(set(found))) or 'none'}, "
            f"expected {VARIABLE}: it is of another engine or version"
        )
    reader = spark.read.format("statestore").option("stateVarName", VARIABLE)
    if batch_id is not None:
        reader = reader.option("batchId", batch_id)
    return reader.load(str(checkpoint)).selectExpr(
        "partition_id AS partition",
        "key.key_group AS id",
        "user_map_key.key AS entry",
        "user_map_value.value AS values",
    )


def stored(spark: SparkSession, checkpoint: Path, batch_id: int | None = None) -> Stored:
    """Sums it up in one pass over the state; only sizes and hashes leave the executors."""
    rows: dict[int, list] = {}
    size = F.aggregate("values", F.lit(0).cast("long"), lambda total, value: total + F.length(value))
    summed = log(spark, checkpoint, batch_id).select(
        "partition", "id", size.alias("bytes"), F.xxhash64("entry", "values").alias("hash")
    )
    for row in summed.collect():
        rows.setdefault(row.id, []).append(row)
    contents, partition = {}, {}
    for id, of in rows.items():
        on = {row.partition for row in of}
        if len(on) > 1:
            raise ValueError(f"checkpoint {checkpoint}: key-group {id} is on partitions {sorted(on)}")
        contents[id] = Content(len(of), sum(row.bytes for row in of), reduce(xor, (row.hash for row in of)))
        partition[id] = on.pop()
    batches = Batches.read(checkpoint)
    return Stored(batches.partitions(batches.done if batch_id is None else batch_id), contents, partition)
