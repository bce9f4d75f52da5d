"""The floor that Spark sets: a query that copies a topic's append times to another topic, nothing in between.

`python -m tests.bench.floor ADDRESS FROM TO CHECKPOINT`; session and plans are tuned as the engine's are.
"""

import sys

from pyspark.sql import functions as F

from lab.engine.spark.pipeline import SHORT_BATCHES
from lab.machine.session import session


def main() -> None:
    address, source, sink, checkpoint = sys.argv[1:]
    server = "kafka.bootstrap.servers"
    with session("local[1]", conf=SHORT_BATCHES) as spark:
        records = spark.readStream.format("kafka").option(server, address).option("subscribe", source).load()
        times = records.select(F.unix_millis("timestamp").cast("string").alias("value"))
        writer = times.writeStream.format("kafka").option(server, address).option("topic", sink)
        writer.option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main()
