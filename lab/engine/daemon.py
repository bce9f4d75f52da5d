"""The parent of Spark's Python workers: it imports what they need before it forks them, so that each starts at once."""

import pyspark.testing.utils  # noqa: F401  (the state client imports it at its first write; it takes longest)
from pyspark.daemon import manager

import lab.engine.decode
import lab.engine.evaluate
import lab.engine.route  # noqa: F401

if __name__ == "__main__":
    manager()
