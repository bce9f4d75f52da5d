"""The machines of a simulated world whose windows lie on disks, and outlive the engine: real files, and all that proves what they are.

    host0/shm   what its memory holds, if it has a folder for that     host0/tmp   its disk     checkpoint   of which only the name is used

Each machine has a boot of its own. A power failure empties its memory, and leaves of its disk what it likes. Processes are played by this
one: the locks that each holds, and whether it lives, are in `world.Worker`.
"""

import errno
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from lab.engine.compiled import window
from lab.engine.windows import kept, shared, undo, windowstate
from lab.engine.windows.statefiles import CHECKSUM_DIGITS, CHECKSUM_PLACE
from tests.sim.world import World

PREFIX = "lab-sim-"
FILES, NOWHERE = shared.memory_folder(), Path("/nowhere")
SECTOR = 64  # bytes that a disk writes or not; the rows of a history's arrays are few
KINDS = "no memory", "some memory", "no folder in memory"


class Machines:
    """All of one world. `kind`: one of KINDS."""

    def __init__(self, kind: str, seed: str):
        self.kind, self.rng = kind, Random(seed)
        self.root = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=FILES))
        self.checkpoint = self.root / "checkpoint"
        self.checkpoint.mkdir()
        self.boots: dict[int, int] = {}  # host -> how often the power has failed
        self.code = 0  # the version of the engine
        self.unwritten: set[int] = set()  # inodes of files of which the disk could not write a part
        self.reused = Counter()  # how often windows were found again, and an epoch undone

    def parents(self, host: int) -> tuple[Path, Path]:
        """`shared._parents` of a host."""
        memory, disk = (self.root / f"host{host}" / name for name in ("shm", "tmp"))
        disk.mkdir(parents=True, exist_ok=True)
        if self.kind != "no folder in memory":
            memory.mkdir(exist_ok=True)
        return memory, disk

    def left_bytes(self) -> int:
        """How much memory is left."""
        return self.rng.choice([0, 1 << 40]) if self.kind == "some memory" else 0

    def proof_of_file(self, path: Path) -> list:
        """`kept._file_proof`: the state files are in the simulated world."""
        data = World.current.disk.get(str(path.parent), {}).get(path.name)
        if data is None:
            raise FileNotFoundError(path)
        _, _, after = data.partition(CHECKSUM_PLACE)
        return [path.name, len(data), after[:CHECKSUM_DIGITS].decode()]

    # -- what happens to a machine -------------------------------------------------------------------------------------

    def arrays(self, host: int) -> list[Path]:
        """The files of arrays on a host, wherever they lie."""
        return sorted(
            path for path in (self.root / f"host{host}").rglob("*.windows") if not path.is_symlink()
        )

    def power_fails(self, host: int) -> None:
        """Memory is empty, and of the disk each sector may be as it was before it was written."""
        self.boots[host] = self.boots.get(host, 0) + 1
        memory, _ = self.parents(host)
        shutil.rmtree(memory, ignore_errors=True)
        for path in self.arrays(host):
            self._rewrite(path, self._forgotten)

    def _forgotten(self, data: bytes) -> bytes:
        sectors = [data[at : at + SECTOR] for at in range(0, len(data), SECTOR)]
        return b"".join(
            each if at * SECTOR < shared.HEADER_BYTES or self.rng.random() < 0.5 else bytes(len(each))
            for at, each in enumerate(sectors)
        )

    def cut_short(self, host: int, which: int) -> None:
        """A file of arrays that nobody uses lacks its end."""
        if paths := self.arrays(host):
            self._rewrite(paths[which % len(paths)], lambda data: data[: self.rng.randrange(len(data))])

    def disk_fails(self, host: int) -> None:
        """The disk cannot write some of what was left to be written, which goes from the page cache."""
        _, disk = self.parents(host)
        for path in self.arrays(host):
            if path.is_relative_to(disk):
                self._rewrite(path, self._forgotten)
                self.unwritten.add(path.stat().st_ino)

    def wait_until_written(self, path: Path) -> None:
        """`shared.wait_until_written`."""
        if path.stat().st_ino in self.unwritten:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    def upgrade(self) -> None:
        """The next start is of another version, whose arrays look otherwise."""
        self.code += 1
        for host in range(len(list(self.root.glob("host*")))):
            for path in self.arrays(host):
                self._rewrite(path, _backwards)

    def _rewrite(self, path: Path, changed: Callable[[bytes], bytes]) -> None:
        """As a file of its own: whoever has the old one mapped keeps that."""
        other = path.with_suffix(".other")
        other.write_bytes(changed(path.read_bytes()))
        other.replace(path)

    def copy(self, host: int) -> Path:
        """A snapshot of a machine's memory and disk."""
        self.parents(host)
        to = Path(tempfile.mkdtemp(dir=self.root, prefix="snapshot-"))
        return Path(shutil.copytree(self.root / f"host{host}", to / "host", symlinks=True))

    def go_back(self, host: int, copy: Path) -> None:
        """The machine goes on from a snapshot."""
        shutil.rmtree(self.root / f"host{host}")
        shutil.copytree(copy, self.root / f"host{host}", symlinks=True)

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        for path in [path for path in shared._mapped if path.is_relative_to(self.root)]:
            shared._forget(path)


def _backwards(data: bytes) -> bytes:
    return data[: shared.HEADER_BYTES] + data[: shared.HEADER_BYTES - 1 : -1]


def remove_of_process(process: int | None) -> None:
    """Removes what a process has left that was killed."""
    for folder in FILES.glob(f"{PREFIX}{process}-*"):
        shutil.rmtree(folder, ignore_errors=True)


# -- what the engine asks of its machine -------------------------------------------------------------------------------


def _machines() -> Machines:
    found = World.current.machines
    assert found is not None, "only windows on disks are asked for it"
    return found


def _parents_of_host() -> tuple[Path, Path]:
    world = World.current
    return world.machines.parents(world.context.host) if world.machines else (NOWHERE, NOWHERE)


def _boot() -> str:
    world = World.current
    host = world.context.host
    return f"{host} {world.machines.boots.get(host, 0) if world.machines else 0}"


def _kill(process: int, _signal: int) -> None:
    if process not in World.current.processes:
        raise ProcessLookupError


def _stepped(place: Any, name: str, afterwards: bool = False) -> tuple[Any, str, Callable]:
    """A step of windows on disks, of which crashes may come before, or `afterwards`."""
    real = getattr(place, name)

    def stepped(*given: Any, **named: Any) -> Any:
        world = World.current
        if world.machines and not afterwards:
            world.step(f"before {name}")
        result = real(*given, **named)
        if world.machines and afterwards:
            world.step(f"after {name}")
        return result

    return place, name, stepped


def _counted(place: Any, name: str, what: str) -> tuple[Any, str, Callable]:
    real = getattr(place, name)

    def counted(*given: Any) -> bool:
        found = real(*given)
        if found:
            _machines().reused[what] += 1
        return found

    return place, name, counted


def _written(path: Path) -> None:
    World.current.step("before wait_until_written")
    _machines().wait_until_written(path)


PLACES = (
    (shared, "_parents", _parents_of_host),
    (shared, "memory_left_bytes", lambda: _machines().left_bytes()),
    (shared, "LEFT_BYTES", 0),
    (shared, "ROOM_NEEDED_BYTES", 0),
    (shared, "GROWTH", 4),
    (shared, "wait_until_written", _written),
    (kept, "PATIENCE_S", 0.0),
    (kept, "BOOT", SimpleNamespace(read_text=_boot)),
    (kept, "code_of_arrays", lambda: f"version {_machines().code}"),
    (kept, "_file_proof", lambda path: _machines().proof_of_file(path)),
    (undo, "os", SimpleNamespace(getpid=lambda: World.current.context.worker.id, kill=_kill)),
    _counted(undo, "undo_epoch", "undone"),
    _counted(windowstate.WindowState, "_open_what_was_left", "found again"),
    _stepped(shared, "move_arrays"),
    _stepped(shared, "keep"),
    _stepped(undo, "begin_undo"),
    _stepped(undo, "end_undo"),
    _stepped(undo, "_remove_groups"),
    _stepped(undo.UndoLog, "__init__"),
    _stepped(undo.UndoLog, "_append"),
    _stepped(window, "evaluate_batch", afterwards=True),
)
