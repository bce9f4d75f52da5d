"""A checkpoint's state as Spark stores it, read through its state data source; nothing is changed, nothing locked.

    operator  variable  key            rows
    route     book      lane id        one: the rule book as text
    evaluate  log       key-group id   "head", "book" and the chunks (`lab.engine.chunklog`)

Spark reads the state of a micro-batch that is done, so a running engine is not disturbed; it keeps the last hundred.
"""

import json
from dataclasses import dataclass
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


def variable(spark: SparkSession, checkpoint: Path, name: str, batch_id: int | None = None) -> DataFrame:
    """The rows of `book` or `log` after a micro-batch (the last one that is done, unless told).

    Columns: partition, id (of the lane or key-group), entry (text; of `book` always "book"), values (list of binary).
    """
    operator, _ = operators(spark, checkpoint)[name]
    reader = spark.read.format("statestore").option("operatorId", operator).option("stateVarName", name)
    if batch_id is not None:
        reader = reader.option("batchId", batch_id)
    rows = reader.load(str(checkpoint))
    id = F.col(f"key.{VARIABLES[name]}").alias("id")
    if name == "book":
        values = F.array(F.col("value.book").cast("binary"))
        return rows.select(
            F.col("partition_id").alias("partition"), id, F.lit("book").alias("entry"), values.alias("values")
        )
    return rows.select(
        F.col("partition_id").alias("partition"),
        id,
        F.col("user_map_key.key").alias("entry"),
        F.col("user_map_value.value").alias("values"),
    )


def stored(spark: SparkSession, checkpoint: Path, batch_id: int | None = None) -> Stored:
    """Sums up both variables, in one pass over the state."""
    contents, partition = {}, {}
    for name, key_name in VARIABLES.items():
        size = F.aggregate("values", F.lit(0).cast("long"), lambda total, value: total + F.length(value))
        summed = (
            variable(spark, checkpoint, name, batch_id)
            .groupBy("partition", "id")
            .agg(
                F.count("*").alias("rows"),
                F.sum(size).alias("bytes"),
                F.bit_xor(F.xxhash64("entry", "values")).alias("hash"),
            )
        )
        for row in summed.collect():
            key = name, row.id
            if key in contents:
                raise ValueError(f"checkpoint {checkpoint}: {key_name} {row.id} is on two partitions")
            contents[key], partition[key] = Content(row.rows, row.bytes, row.hash), row.partition
    return Stored(_partitions(checkpoint, batch_id), contents, partition)


def _partitions(checkpoint: Path, batch_id: int | None) -> int:
    batches = Batches.read(checkpoint)
    return batches.partitions(batches.done if batch_id is None else batch_id)
