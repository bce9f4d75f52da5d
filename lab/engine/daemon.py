"""The parent of Spark's Python workers: it imports what they need before it forks them, so that each starts at once.

Spark has a worker collect garbage after each task. What is imported here is frozen first: to walk all of it again
each time took three quarters of a worker's CPU at a few hundred events a second.

SIGTERM, which a service manager sends to every process of a service, does not reach it or its workers: Java ends them, by
closing their pipes, when the engine has stopped in order.
"""

import gc
import signal

from pyspark.daemon import manager

import lab.engine.source  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    manager()
