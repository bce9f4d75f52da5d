"""Signals: Ctrl-C, SIGTERM or SIGHUP asks a program to stop, and it stops when nothing is half done."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

ENDING = [signal.SIGINT, signal.SIGTERM]
if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # not under nohup
    ENDING.append(signal.SIGHUP)
IMPATIENT_S = 1.0
STOPPED = 130


@contextmanager
def stop_signals() -> Iterator[Event]:
    """Ctrl-C, SIGTERM and SIGHUP set the event. Another one, at least a second later, ends the process at once, as a kill would.

    >>> with stop_signals() as stopped:
    ...     os.kill(os.getpid(), signal.SIGTERM)
    ...     stopped.wait(5)
    True
    """
    stopped, first = Event(), []

    def stop(number: int, frame: object) -> None:
        if not stopped.is_set():
            first.append(time.monotonic())
            stopped.set()
        elif time.monotonic() - first[0] >= IMPATIENT_S:
            os.write(2, b"\nlab: stopped at once\n")
            os._exit(STOPPED)

    before = {number: signal.signal(number, stop) for number in ENDING}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
