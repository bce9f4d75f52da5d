"""The floors of a latency: what only copies a topic's append times to another topic, nothing in between.

`python -m tools.bench.floor spark|loop ADDRESS FROM TO`: a query, with session and plans tuned as the engine's are, or a bare loop
that consumes and produces, with the engine's settings for both.
"""

import sys
import tempfile

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

from lab.logs.cluster import to_cluster
from lab.logs.kafka import WRITING
from lab.logs.partitions import READING


def query(address: str, source: str, sink: str) -> None:
    from pyspark.sql import functions as F

    from lab.engine.spark.pipeline import SHORT_BATCHES
    from lab.machine.session import session

    server = "kafka.bootstrap.servers"
    with session("local[1]", conf=SHORT_BATCHES) as spark, tempfile.TemporaryDirectory() as checkpoint:
        records = spark.readStream.format("kafka").option(server, address).option("subscribe", source).load()
        times = records.select(F.unix_millis("timestamp").cast("string").alias("value"))
        writer = times.writeStream.format("kafka").option(server, address).option("topic", sink)
        writer.option("checkpointLocation", checkpoint).start().awaitTermination()


def loop(address: str, source: str, sink: str) -> None:
    cluster = to_cluster(address)
    consumer = Consumer(cluster.librdkafka_properties | READING | {"group.id": "floor"})
    consumer.assign([TopicPartition(source, 0, OFFSET_END)])
    producer = Producer(cluster.librdkafka_properties | WRITING | {"linger.ms": 0})
    while True:
        message = consumer.poll(0.1)
        if message and not message.error():
            producer.produce(sink, str(message.timestamp()[1]))
        producer.poll(0)


if __name__ == "__main__":
    {"spark": query, "loop": loop}[sys.argv[1]](*sys.argv[2:])
