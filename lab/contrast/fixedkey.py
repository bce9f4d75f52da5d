"""The textbook way to group a stream: a `groupBy` whose columns are written into the query, and into its state.

payments ──► groupBy("payeeId").sum("paymentAmount") ──► totals so far
                      └── a column of the plan: a query for each set of keys; new keys need a new query
"""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

SCHEMA = "transactionId long, payeeId long, beneficiaryId long, paymentType string, paymentAmount long"


def totals_by_key(spark: SparkSession, folder: Path, keys: list[str]) -> DataFrame:
    """A stream of the payments in a folder of JSON files -> what each group of `keys` has paid so far."""
    return spark.readStream.schema(SCHEMA).json(str(folder)).groupBy(*keys).sum("paymentAmount")


def plan_steps_with_keys(totals: DataFrame) -> list[str]:
    """The steps of the query's plan that are built around its keys: the shuffle and the state, innermost last."""
    described = StringIO()
    with redirect_stdout(described):
        totals.explain()
    steps = [line.strip(" +-:") for line in described.getvalue().splitlines()]
    steps = [step for step in steps if step.startswith(("Exchange", "StateStore"))]
    return [re.split(", (?:state info|REQUIRED)", step)[0] for step in steps]


def run_and_list_changes(totals: DataFrame, checkpoint: Path) -> list[str]:
    """Runs the query over what is new since the checkpoint, and stops it; returns the totals that changed.

    `payeeId=25: 70`, sorted. Raises what ends the query, such as a state that does not fit it.
    """
    changed: list[str] = []

    def take(batch: DataFrame, batch_id: int) -> None:
        for row in batch.collect():
            *keys, total = row.asDict().items()
            changed.append(", ".join(f"{name}={value}" for name, value in keys) + f": {total[1]}")

    writer = totals.writeStream.outputMode("update").foreachBatch(take).trigger(availableNow=True)
    writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
    return sorted(changed)
