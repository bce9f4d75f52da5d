"""Workers that are killed at any moment, and engines that start again, on windows that lie on a disk and outlive both."""

import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

from numba import config

from lab.engine.compiled import window
from lab.engine.loop.inprocess import InProcessEngine
from lab.engine.loop.job import new_start_id
from lab.engine.windows import kept, shared, statefiles, undo, windowstate
from lab.engine.windows.undo import UndoLog

COMPILED = str(Path(window.__file__).parent)


class Killed(BaseException):
    """The worker is gone."""


@contextmanager
def killed(rng: random.Random) -> Iterator[None]:
    """The worker is killed at some moment of an epoch, or not: where Numba does not compile, between any two lines of the window loop."""
    left = count(
        rng.choice([1, 3, 10, 100])
        if not config.DISABLE_JIT
        else rng.randint(0, rng.choice([30, 300, 3000])),
        -1,
    )

    def dies() -> None:
        if next(left) == 0:
            raise Killed

    with (
        patch.object(window, "evaluate_batch", dying(window.evaluate_batch, dies)),
        patch.object(UndoLog, "note", dying(UndoLog.note, dies)),
        traced(dies),
    ):
        yield


def dying(function: Callable, dies: Callable[[], None]) -> Callable:
    def runs(*arguments: Any) -> Any:
        dies()
        result = function(*arguments)
        dies()
        return result

    return runs


@contextmanager
def traced(dies: Callable[[], None]) -> Iterator[None]:
    """Asks at each line of the window loop, if it is not compiled."""
    if not config.DISABLE_JIT:
        yield
        return

    def at_line(frame: FrameType, event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(COMPILED):
            return None
        if event == "line":
            dies()
        return at_line

    before = sys.gettrace()
    threading.settrace(at_line)
    sys.settrace(at_line)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(None)  # type: ignore[arg-type]


def die(stages: InProcessEngine, starts_again: bool) -> None:
    """Nothing is left of the worker but its files; `starts_again`: nor of the engine."""
    windowstate._open.clear()
    shared._mapped.clear()
    for cached in (kept._checksum, statefiles._meta):
        cached.cache_clear()
    if starts_again:
        start_again(stages)


def start_again(stages: InProcessEngine) -> None:
    """As an engine that was stopped."""
    windowstate._open.clear()
    shared.leave_private_folder(stages.job.start_id)
    object.__setattr__(stages.job, "start_id", new_start_id())


@contextmanager
def dead_processes() -> Iterator[None]:
    """No process lives that had an epoch open: this one plays several."""
    with patch.object(undo, "is_alive", lambda _process: False), patch.object(kept, "PATIENCE_S", 0.0):
        yield
