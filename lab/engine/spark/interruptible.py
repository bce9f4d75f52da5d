"""Waits for brokers that end early: a client of Kafka waits for an answer for ten seconds, and whoever stops an engine does not."""

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import TypeVar

T = TypeVar("T")
LOOK_S = 0.02


class Interrupted(RuntimeError):
    """A wait was to end before what it waited for came."""


def wait_unless(over: Callable[[], bool], work: Callable[[], T], at_least_s: float = 0) -> T:
    """The result of `work`, or the error that it raises. Raises Interrupted once `over()`, but not before `at_least_s`.

    A thread then waits on. It ends with the process.

    >>> wait_unless(lambda: False, lambda: 7)
    7
    >>> wait_unless(lambda: True, lambda: time.sleep(60), at_least_s=0.1)
    Traceback (most recent call last):
    lab.engine.spark.interruptible.Interrupted
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001 # the caller's
            result.set_exception(error)

    began = time.monotonic()
    Thread(target=run, daemon=True).start()
    while not wait([result], LOOK_S).done:
        if over() and time.monotonic() > began + at_least_s:
            raise Interrupted
    return result.result()
