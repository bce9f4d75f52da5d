"""A fast generator for benchmarks: Spark writes payments to a topic, twice a second: `python -m tests.bench.feed WHERE RATE SECONDS FIRST`."""

import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lab.logs import kafka_place
from lab.session import session

TICK_S = 0.5
KEYS = 100_000


def payments(spark: SparkSession, first: int, count: int) -> DataFrame:
    """`count` payments in a column `value` of JSON, numbered from `first`; their time is now."""
    return spark.range(first, first + count, numPartitions=1).select(
        F.to_json(
            F.struct(
                F.col("id").alias("transactionId"),
                F.lit(time.time_ns() // 1_000_000).alias("eventTime"),
                F.floor(F.rand() * KEYS).alias("payeeId"),
                F.floor(F.rand() * KEYS).alias("beneficiaryId"),
                F.when(F.rand() < 0.5, "CSH").otherwise("CRD").alias("paymentType"),
                (F.floor(500 + F.rand() * 1500) / 100).cast("decimal(18,2)").alias("paymentAmount"),
            )
        ).alias("value")
    )


def main() -> None:
    address, topic = kafka_place(sys.argv[1])
    rate, seconds, first = map(int, sys.argv[2:])
    with session("local[1]", app="feed") as spark:
        ticks = int(seconds / TICK_S)
        each = int(rate * TICK_S)
        for warm_up in (True, False):
            began = time.monotonic()
            for tick in range(2 if warm_up else ticks):
                time.sleep(max(0, began + tick * TICK_S - time.monotonic()))
                rows = payments(spark, first + tick * each, 1 if warm_up else each)
                writer = (
                    rows.write.format("kafka")
                    .option("kafka.bootstrap.servers", address)
                    .option("topic", topic)
                )
                writer.save()
            first += 2 * each if warm_up else 0


if __name__ == "__main__":
    main()
