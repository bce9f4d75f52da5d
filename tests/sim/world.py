"""The simulated world: disk, shared memory, workers, logs and clocks, all in this process, and a fuse that can blow at any step.

Every step that a crash could come before or after asks the world first (`World.step`): a write to disk, the removal of a file,
a note, a window file, an evaluation, a message to the driver. A fuse counts steps; when it is burnt down, whoever runs is killed,
fails with an error, or is suspended in a thread of its own and goes on later, as a twin or an old driver does that was thought dead.
"""

import _thread
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from errno import ENOENT
from functools import lru_cache
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from lab.engine.checkpoint import cuts
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.records import parallel
from lab.engine.windows import arrays, shared, statefiles, windowstate
from lab.engine.windows.statemerge import Merge
from lab.engine.windows.store import RouteStore
from lab.model import rules

if TYPE_CHECKING:
    from tests.sim.machines import Machines

GROWTH = 4  # an array can grow to so many times its first size


class Killed(BaseException):
    """The process that runs is no more."""


class Failed(Exception):
    """The task fails, its process lives on."""


@dataclass
class Worker:
    """A process: `windowstate._open` and `shared._open_locks` of it."""

    windows: dict = field(default_factory=dict)
    locks: dict[Path, int] = field(default_factory=dict)
    id: int = field(default_factory=count(1).__next__)

    def go_on(self) -> None:
        """This process is the one that runs."""
        windowstate._open, shared._open_locks = self.windows, self.locks
        World.current.processes[self.id] = self

    def end(self) -> None:
        """Nothing is left of it but its files."""
        World.current.processes.pop(self.id, None)
        self.windows.clear()
        while self.locks:
            os.close(self.locks.popitem()[1])


@dataclass
class Context:
    """Who runs: on which host, in which process, and after how many more steps what happens to it."""

    host: int = 0
    worker: Worker = field(default_factory=Worker)
    fuse: int | None = None
    blows: Callable[[], None] | None = None
    suspended: "Suspended | None" = None  # the run that stops where the fuse blows
    had: dict = field(default_factory=dict)  # how many records each source had when it last chose a cut


class World:
    """What outlives a step: `disk` durably, `memory` and `notes` as long as their host and start.

    `machines`: have the windows in place of `memory` and `notes`, if these lie on disks.
    """

    current: "World"

    def __init__(self) -> None:
        self.machines: Machines | None = None
        self.processes: dict[int, Worker] = {}  # those that live, by their ids
        self.disk: dict[str, dict[str, bytes]] = {}
        self.memory: dict[str, dict[str, np.ndarray]] = {}
        self.rows_at_first: dict[str, dict[str, int]] = {}  # of each array in memory
        self.notes: dict[str, str] = {}
        self.locked: dict[str, Any] = {}  # who has a lock
        self.folders: set[str] = set()
        self.context = Context()
        self.had: list[dict] = []  # of each cut: how many records each source had when it was chosen

    def tears(self) -> bool:
        """Whether who runs is killed in the middle of what it writes; who is suspended there has the file's lock."""
        context = self.context
        if isinstance(getattr(context.blows, "__self__", None), Suspended) or context.fuse is None:
            return False
        context.fuse -= 1
        return context.fuse < 0

    def step(self, what: str) -> None:
        """Something may happen here."""
        context = self.context
        if context.fuse is not None:
            context.fuse -= 1
            if context.fuse < 0:
                context.fuse = None
                context.blows()

    @contextmanager
    def running(self, context: Context) -> Iterator[None]:
        """As this context."""
        before, self.context = self.context, context
        context.worker.go_on()
        try:
            yield
        finally:
            self.context = before
            before.worker.go_on()

    def forget_memory(self, folder: str) -> None:
        """Empties a folder of shared memory."""
        for of in (self.memory, self.notes):
            for path in [path for path in of if path.startswith(folder)]:
                del of[path]

    def snapshot(self, folder: str) -> tuple[dict, dict]:
        """A folder of shared memory as it is now."""
        mine = [
            {path: of[path] for path in of if path.startswith(folder)} for of in (self.memory, self.notes)
        ]
        return deepcopy(mine[0]), mine[1]

    def restore(self, snapshot: tuple[dict, dict]) -> None:
        self.memory |= deepcopy(snapshot[0])
        self.notes |= snapshot[1]


class Suspended:
    """A run in a thread of its own that stops where its fuse blows, and goes on when it is told to; `ends`: is called when it has."""

    def __init__(self, world: World, context: Context, run: Callable[[], object], ends: Callable[[], None]):
        self.world, self.context, self.run, self.ends = world, context, run, ends
        self.mine, self.others = _taken_lock(), _taken_lock()
        self.done, self.killed = False, False
        self.error: BaseException | None = None
        context.blows, context.suspended = self._pause, self
        _thread.start_new_thread(self._main, ())  # takes half the CPU time of a `threading.Thread`
        self.others.acquire()
        if isinstance(self.error, Exception) and not isinstance(self.error, Failed):
            raise self.error

    def _main(self) -> None:
        try:
            with self.world.running(self.context):
                self.run()
        except BaseException as error:  # noqa: BLE001  (raised again by who waits for it)
            self.error = error
        self.done = True
        self.others.release()

    def _pause(self) -> None:
        before = self.world.context
        self.others.release()
        self.mine.acquire()
        self.world.context = before
        before.worker.go_on()
        if self.killed:
            raise Killed

    def resume(self, kill: bool = False) -> None:
        """Goes on to its end, or dies where it is. That it fails is no harm: nobody waits for it any more."""
        if self.done:
            return
        outer, self.killed = self.world.context, kill
        self.mine.release()
        self.others.acquire()
        self.world.context = outer
        outer.worker.go_on()
        self.ends()


def _taken_lock() -> _thread.LockType:
    lock = _thread.allocate_lock()
    lock.acquire()
    return lock


# -- what the engine finds in place of a disk and of shared memory -----------------------------------------------------


class SimPath(type(Path())):  # type: ignore[misc]  # what Path() is of on this system
    """A path in the simulated memory."""

    def stat(self, **_):
        world, name = World.current, str(self)
        if name not in world.memory and name not in world.folders:
            raise FileNotFoundError(ENOENT, "not in the simulated memory", name)

    def glob(self, pattern: str):
        suffix = pattern.removeprefix("*")
        prefix = f"{self}/"
        return [SimPath(p) for p in World.current.memory if p.startswith(prefix) and p.endswith(suffix)]

    def mkdir(self, *_, **__) -> None:
        pass

    def unlink(self, *_, **__) -> None:
        World.current.memory.pop(str(self), None)


class SimNote:
    """`shared.Note`."""

    def __init__(self, path: str):
        self.path = path

    def read(self) -> str:
        return World.current.notes.get(self.path, "")

    def write(self, text: str) -> None:
        world = World.current
        world.step("before the note")
        world.notes[self.path] = text
        world.step("after the note")


class NoteOnDisk(shared.Note):
    """A real one."""

    def write(self, text: str) -> None:
        World.current.step("before the note")
        super().write(text)
        World.current.step("after the note")


_locked_note = shared.locked_note


@contextmanager
def _locked(path: Path) -> Iterator[SimNote | NoteOnDisk]:
    world, name = World.current, str(path)
    if name in world.locked:
        raise Failed(f"{name} is locked by a suspended task")  # real ones wait
    world.locked[name] = world.context
    try:
        if world.machines:
            with _locked_note(path) as note:
                yield NoteOnDisk(note._file)
        else:
            yield SimNote(name)
    finally:
        world.locked.pop(name, None)


def _create(path: Path, layout: shared.Layout) -> shared.Arrays:
    arrays = {name: np.zeros(shape, dtype) for name, (dtype, shape) in layout.items()}
    World.current.memory[str(path)] = arrays
    World.current.rows_at_first[str(path)] = {name: len(array) for name, array in arrays.items()}
    World.current.step("a window file was made")
    return arrays


def _grow(path: Path, rows: Mapping[str, int]) -> shared.Arrays | None:
    world, arrays = World.current, {}
    at_first = world.rows_at_first[str(path)]
    if any(rows.get(name, 0) > GROWTH * at_first[name] for name in at_first):
        return None
    for name, old in world.memory[str(path)].items():
        arrays[name] = np.zeros((max(rows.get(name, 0), len(old)), *old.shape[1:]), old.dtype)
        arrays[name][: len(old)] = old
    world.memory[str(path)] = arrays
    world.step("a window file grew")
    return arrays


def _private_folder(start: str) -> Path:
    world = World.current
    name = f"/host{world.context.host}/{start}"
    world.folders.add(name)
    return SimPath(name)


def _read(folder: CheckpointFolder, name: str) -> bytes | None:
    return World.current.disk.get(folder.where, {}).get(name)


def _write(folder: CheckpointFolder, name: str, data) -> None:
    world = World.current
    world.step("before a file")
    world.disk.setdefault(folder.where, {})[name] = bytes(data)
    world.step("after a file")


def _remove(folder: CheckpointFolder, name: str) -> None:
    world = World.current
    world.step("before a removal")
    removed = world.disk.get(folder.where, {}).pop(name, None)
    if removed is not None and folder.where.endswith(f"/{cuts.FOLDER}"):  # the oracle reads them all
        world.disk.setdefault(f"{folder.where} removed", {}).setdefault(name, removed)


def _append(
    folder: CheckpointFolder,
    name: str,
    size: int,
    whole: int,
    data: bytes,
    ending: bytes = b"",
    kept: bool = False,
) -> bool:
    world = World.current
    world.step("before an append")
    files = world.disk.setdefault(folder.where, {})
    if not _is_as(folder, name, size, ending):
        return False
    before = files.get(name, b"")[:whole]
    if world.tears():
        files[name] = before + data[: len(data) // 2]
        world.context.blows()
    files[name] = before + data
    if data[9:].startswith(b'{"cut"'):
        world.had.append(world.context.had)
    world.step("after an append")
    return True


def _is_as(folder: CheckpointFolder, name: str, size: int, ending: bytes) -> bool:
    data = World.current.disk.get(folder.where, {}).get(name, b"")
    return len(data) == size and data.endswith(ending)


def _names(folder: CheckpointFolder) -> list[str]:
    return sorted(World.current.disk.get(folder.where, ()))


def _in_memory(simulated: Callable, real: Callable) -> Callable:
    """What serves both a world in memory and one whose windows lie on disks."""
    return lambda *given, **named: (real if World.current.machines else simulated)(*given, **named)


def _stepped(method: Callable) -> Callable:
    def stepped(*args, **kwargs):
        World.current.step(f"before {method.__name__}")
        return method(*args, **kwargs)

    return stepped


def _remembered(numbers: Callable) -> Callable:
    of = lru_cache(lambda rules, fields, schema, kept: numbers(rules, list(fields), schema, kept))
    return lambda rules, fields, schema, kept: of(rules, tuple(fields), schema, kept)


@contextmanager
def installed() -> Iterator[None]:
    """The engine's code in the simulated world: `World.current`, to be set."""
    from tests.sim import filelogs, machines  # which are in this world

    with ExitStack() as stack:
        for place, name, by in (
            (CheckpointFolder, "read", _read),
            (CheckpointFolder, "write", _write),
            (CheckpointFolder, "remove", _remove),
            (CheckpointFolder, "names", _names),
            (CheckpointFolder, "keep_names", lambda _: None),  # this disk forgets nothing
            (CheckpointFolder, "append_if_unchanged", _append),
            (CheckpointFolder, "has_size_and_ending", _is_as),
            *(
                (shared, name, _in_memory(simulated, getattr(shared, name)))
                for name, simulated in (
                    ("create_arrays", _create),
                    ("grow_arrays", _grow),
                    ("attach_arrays", lambda path: World.current.memory[str(path)]),
                    ("remove_arrays", lambda path: path.unlink()),
                    ("private_folder", _private_folder),
                    ("lies_on_disk", lambda path: False),
                    ("read_in_order", lambda path, name, ends=False: None),
                )
            ),
            (shared, "locked_note", _locked),
            (shared, "_open_locks", {}),
            (windowstate, "_open", {}),
            # a worker of another process has not looked into the files that this one has
            (statefiles, "_meta", statefiles._meta.__wrapped__),
            (RouteStore, "load", _stepped(RouteStore.load)),
            (RouteStore, "evaluate", _stepped(RouteStore.evaluate)),
            (Merge, "slice", _stepped(Merge.slice)),
            *filelogs.PLACES,
            *machines.PLACES,
            # all work is short here, so threads would only cost time
            (parallel, "ThreadPoolExecutor", lambda _: nullcontext(SimpleNamespace(map=map))),
            # the same again and again, in a world of few rules
            (cuts, "_record", lru_cache(4096)(cuts._record)),
            (cuts, "_records", lru_cache(512)(cuts._records)),
            (rules, "parse_message", lru_cache(rules.parse_message)),
            (arrays, "rules_to_arrays", _remembered(arrays.rules_to_arrays)),
        ):
            stack.enter_context(patch.object(place, name, by))
        yield
