"""Waiting for something that another thread or process does. A busy machine is slow: tests say what comes, not when."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lab.machine.orphans import run_if_killed

# only a test that has failed waits that long; on 2 cores with twenty programs five starts of Java took 300 s
PATIENCE_S = 400


def wait_until(
    true: Callable[[], object],
    seconds: float = PATIENCE_S,
    pause_s: float = 0.05,
    alive: Callable[[], object] = lambda: True,
    said: Callable[[], object] = lambda: "",
) -> None:
    """Asks again and again until something is true. Fails after so many seconds, or once `alive` is false; `said` tells why.

    >>> wait_until(lambda: True)
    >>> wait_until(lambda: False, alive=lambda: False, said=lambda: "the engine ended")
    Traceback (most recent call last):
    AssertionError: it ended before it came: the engine ended
    """
    deadline = time.monotonic() + seconds
    while not true():
        if not alive():
            raise AssertionError(f"it ended before it came: {said()}")
        if time.monotonic() > deadline:
            raise AssertionError(f"it did not come within {seconds:g} s: {said()}")
        time.sleep(pause_s)


@contextmanager
def program(command: list[str], **options) -> Iterator[subprocess.Popen]:
    """A program that runs during a block and is killed at its end: a test that fails, or is killed, leaves nothing behind.

    >>> with program(["sleep", "1000"]) as sleeping:
    ...     sleeping.poll()
    >>> sleeping.returncode
    -9
    """
    with subprocess.Popen(command, **options) as running, run_if_killed("kill", "-9", str(running.pid)):
        try:
            yield running
        finally:
            running.kill()
