"""The parent of Spark's Python workers: it imports what they need before it forks them, so that each starts at once.

Spark has a worker collect garbage after each task. To walk all imported objects each time took three quarters of a worker's CPU at a
few hundred events a second, so they are frozen first. So is what a worker's first tasks add, above all compiled kernels.

SIGTERM, which a service manager sends to every process of a service, and SIGHUP do not reach it or its workers: Java ends them, by
closing their pipes, when the engine has stopped in order.
"""

import gc
import os
import signal
import time

from pyspark import TaskContext
from pyspark.daemon import manager

LONG_S = 0.002
_began = 0.0


def freeze_what_stays(phase: str, _info: dict[str, int]) -> None:
    """`gc` calls this when a collection starts and ends. What survives a long one between two tasks is frozen: later ones skip it."""
    global _began
    if phase == "start":
        _began = time.thread_time()
    elif time.thread_time() - _began > LONG_S and TaskContext.get() is None:
        gc.freeze()


if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    gc.callbacks.append(freeze_what_stays)
    os.umask(0o077)  # also for compiled code; logs set their own permissions (lab.logs.access)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGHUP})
    manager()
