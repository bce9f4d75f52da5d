"""Workers that are killed at any moment, and engines that start again, on windows that lie on a disk and outlive both."""

import random
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import numpy as np
from numba import config

from lab.engine.compiled import layout, window
from lab.engine.loop.inprocess import InProcessEngine
from lab.engine.loop.job import new_start_id
from lab.engine.windows import kept, shared, statefiles, undo, windowstate
from lab.engine.windows.store import RouteStore
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
    """No process lives that had an epoch open: this one plays several. What is undone must then be what was there, byte for byte."""
    before: dict[int, shared.Arrays] = {}
    begin_undo, undo_epoch = undo.begin_undo, undo.undo_epoch

    def begin(folder: Path, note: str, stores: Mapping[int, RouteStore]) -> None:
        before.clear()
        before.update({number: copied(store) for number, store in stores.items()})
        begin_undo(folder, note, stores)

    def undone(folder: Path, number: int, store: RouteStore) -> bool:
        if not undo_epoch(folder, number, store):
            return False
        is_now = copied(store)
        for name, values in before[number].items():
            # of another shape: planted
            assert is_now[name].shape != values.shape or np.array_equal(is_now[name], values), name
        return True

    with (
        patch.object(undo, "is_alive", lambda _process: False),
        patch.object(kept, "PATIENCE_S", 0.0),
        patch.object(undo, "begin_undo", begin),
        patch.object(undo, "undo_epoch", undone),
    ):
        yield


def copied(store: RouteStore) -> shared.Arrays:
    """What is in a store's arrays, but for what is computed again when it is needed."""
    events, groups = store.event_count, store.group_count
    of = store.arrays
    columns = [column for column in range(2 * of["groups"].shape[1]) if column != layout.BLOCK]
    kept_whole = ("newest", "group_table", "same_time_table", "reset_table")
    scalars = [layout.EVENTS, layout.GROUPS, layout.RESETS, layout.SALT, layout.TWINS, layout.RETURNS]
    return {name: of[name].copy() for name in kept_whole} | {
        "events": of["events"][:events].copy(),
        "groups": of["groups"].view(np.int32)[:groups, columns],
        "scalars": of["scalars"][scalars],
    }
