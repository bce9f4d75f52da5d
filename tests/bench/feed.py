"""A generator that leaves the cores to the engine: Spark copies files of events to a topic at a rate.

`python -m tests.bench.feed WHERE RATE SEGMENT FILES…`; each file has SEGMENT lines.
"""

import sys
import time

from lab.logs import kafka_place
from lab.machine.session import session


def main() -> None:
    address, topic = kafka_place(sys.argv[1])
    interval_s, files = int(sys.argv[3]) / int(sys.argv[2]), sys.argv[4:]
    with session("local[1]", app="feed") as spark:
        for number, file in enumerate(files):
            if number <= 2:  # the first two warm it up
                began = time.monotonic()
            time.sleep(max(0, began + (number - 2) * interval_s - time.monotonic()))
            rows = spark.read.text(file)
            rows.write.format("kafka").option("kafka.bootstrap.servers", address).option(
                "topic", topic
            ).save()


if __name__ == "__main__":
    main()
