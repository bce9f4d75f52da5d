"""A generator that leaves the cores to the engine: sends lines of a file to a topic at a rate.

`python -m tools.bench.feed WHERE FILE FIRST COUNT RATE`, lines and lines a second.
"""

import sys
import time
from itertools import islice
from pathlib import Path

from confluent_kafka import Producer

from lab.logs.places import split_kafka_place

AT_ONCE, MOST_WAITING = 1000, 500_000  # lines


def main() -> None:
    address, topic = split_kafka_place(sys.argv[1])
    first, count, rate = map(int, sys.argv[3:])
    feed(address, topic, Path(sys.argv[2]), first, count, rate)


def feed(address: str, topic: str, file: Path, first: int, count: int, rate: float = float("inf")) -> None:
    """Sends `count` lines from the line `first` on, `rate` a second."""
    producer = Producer(
        {"bootstrap.servers": address, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}
    )
    with file.open("rb") as opened:
        lines = islice(opened, first, first + count)
        sent, began = 0, time.monotonic()
        while some := list(islice(lines, AT_ONCE)):
            for line in some:
                producer.produce(topic, line.rstrip(b"\n"))
            sent += len(some)
            producer.poll(max(0, began + sent / rate - time.monotonic()))
            time.sleep(max(0, began + sent / rate - time.monotonic()))
            while len(producer) > MOST_WAITING:
                producer.poll(0.01)
    producer.flush()


if __name__ == "__main__":
    main()
