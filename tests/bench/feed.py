"""A generator that leaves the cores to the engine: sends lines of a file to a topic at a rate.

`python -m tests.bench.feed WHERE FILE FIRST COUNT RATE`, lines and lines a second.
"""

import sys
import time
from itertools import islice

from confluent_kafka import Producer

from lab.logs import kafka_place

AT_ONCE = 1000  # lines


def main() -> None:
    address, topic = kafka_place(sys.argv[1])
    first, count, rate = map(int, sys.argv[3:])
    producer = Producer(
        {"bootstrap.servers": address, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}
    )
    with open(sys.argv[2], "rb") as file:
        lines = islice(file, first, first + count)
        sent, began = 0, time.monotonic()
        while some := list(islice(lines, AT_ONCE)):
            for line in some:
                producer.produce(topic, line)
            sent += len(some)
            producer.poll(max(0, began + sent / rate - time.monotonic()))
            time.sleep(max(0, began + sent / rate - time.monotonic()))
    producer.flush()


if __name__ == "__main__":
    main()
