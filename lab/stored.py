"""A checkpoint's state as Spark stores it, read through its state data source; nothing is changed, nothing locked.

    operator  variable  key            rows
    route     book      lane id        one: the rule book as text
    evaluate  log       key-group id   "head", "book" and the chunks (`lab.engine.chunklog`)

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

VARIABLES = {"book": "lane", "log": "key_group"}  # state variable -> the name of its operator's key
Key = tuple[str, int]  # variable, id of a lane or key-group


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
    contents: dict[Key, Content]
    partition: dict[Key, int]


def operators(spark: SparkSession, checkpoint: Path) -> dict[str, tuple[int, int]]:
    """State variable -> number of its operator, partitions. Raises ValueError for a checkpoint of something else."""
    spark.streams  # noqa: B018  makes the coordinator of state stores, without which a new session reads no state
    found = {}
    for row in spark.read.format("state-metadata").load(str(checkpoint)).collect():
        for variable in json.loads(row.operatorProperties).get("stateVariables", []):
            found[variable["stateName"]] = row.operatorId, row.numPartitions
    if set(found) != set(VARIABLES):
        raise ValueError(
            f"checkpoint {checkpoint} has the state variables {', '.join(sorted(found)) or 'none'}, "
            f"expected {', '.join(VARIABLES)}: it is of another engine or version"
        )
    return found


def variable(
    spark: SparkSession, checkpoint: Path, name: str, operator: int, batch_id: int | None = None
) -> DataFrame:
    """The rows of `book` or `log` after a micro-batch (the last one that is done, unless told).

    Columns: partition, id (of the lane or key-group), entry (text; of `book` always "book"), values (list of binary).
    """
    reader = spark.read.format("statestore").option("operatorId", operator).option("stateVarName", name)
    if batch_id is not None:
        reader = reader.option("batchId", batch_id)
    columns = {
        "book": ("'book'", "array(cast(value.book AS binary))"),
        "log": ("user_map_key.key", "user_map_value.value"),
    }
    entry, values = columns[name]
    return reader.load(str(checkpoint)).selectExpr(
        "partition_id AS partition",
        f"key.{VARIABLES[name]} AS id",
        f"{entry} AS entry",
        f"{values} AS values",
    )


def stored(spark: SparkSession, checkpoint: Path, batch_id: int | None = None) -> Stored:
    """Sums up both variables, each in one pass over the state; only sizes and hashes leave the executors."""
    rows: dict[Key, list] = {}
    for name, (operator, _) in operators(spark, checkpoint).items():
        size = F.aggregate("values", F.lit(0).cast("long"), lambda total, value: total + F.length(value))
        summed = variable(spark, checkpoint, name, operator, batch_id).select(
            "partition", "id", size.alias("bytes"), F.xxhash64("entry", "values").alias("hash")
        )
        for row in summed.collect():
            rows.setdefault((name, row.id), []).append(row)
    contents, partition = {}, {}
    for key, of in rows.items():
        on = {row.partition for row in of}
        if len(on) > 1:
            raise ValueError(
                f"checkpoint {checkpoint}: {VARIABLES[key[0]]} {key[1]} is on partitions {sorted(on)}"
            )
        contents[key] = Content(len(of), sum(row.bytes for row in of), reduce(xor, (row.hash for row in of)))
        partition[key] = on.pop()
    batches = Batches.read(checkpoint)
    return Stored(batches.partitions(batches.done if batch_id is None else batch_id), contents, partition)
