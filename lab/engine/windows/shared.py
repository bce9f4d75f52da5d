"""Arrays in memory that every Python worker of a host shares.

Spark may hand a key-group to another worker from one micro-batch to the next. Windows that lived in one worker's heap would
be behind in the other; in a mapped file they are simply there. One file holds a set of named arrays and how they lie. They
grow where they are, so that no event waits until a million others have been copied.

    /dev/shm/lab-0-…/0-15/1-….windows   ──no room──►   $TMPDIR/lab-0-….disk/0-15/1-….windows

Where memory has no room, a file is made on the disk of the temporary folder, and its name in memory leads there. Such files stay when
the engine ends, for its next start.
"""

import errno
import fcntl
import json
import mmap
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from math import prod
from pathlib import Path
from random import sample
from typing import NamedTuple

import numpy as np

from lab.engine.windows.memoryleft import memory_left_bytes
from lab.logs.access import file_lock, lock_file
from lab.model.formatting import file_named_in_errors

Arrays = dict[str, np.ndarray]
Layout = dict[str, tuple[str, tuple[int, ...]]]  # name -> dtype, shape

HEADER_BYTES = 4096
ALIGNMENT_BYTES = 64
# an array can grow in place to so many times its first size, but to no more than MOST_ROWS; until then that is a range of addresses, not memory
GROWTH, MOST_ROWS = 1 << 14, 1 << 31
ROOM_NEEDED_BYTES = 1 << 30  # containers often give /dev/shm 64 MB: then the temporary folder serves
LEFT_BYTES = 512 << 20  # of the machine's memory, or the container's, arrays leave so much to everything else

YOUNG_S = 60.0  # a folder is made faster
LOOKED_AT = 8  # mapped files, each time one more is mapped: are they still there?

FORGETS = sys.platform == "linux"  # does MADV_DONTNEED undo what was written to a private mapping?
PREFIX, DISK = "lab-", ".disk"
# a file beside arrays that the next start of an engine may take over: the path of its checkpoint; and for how long they are kept
KEPT, KEPT_S = "kept", 86_400.0
_open_locks: dict[Path, int] = {}  # folder -> the open file whose lock says that it is in use


class _Mapped(NamedTuple):
    """A mapped file, and the arrays that its header named when it was last looked at."""

    inode: int
    memory: mmap.mmap
    on_disk: bool
    header: bytes
    arrays: Arrays


class _Private(NamedTuple):
    """The parts of a mapped file that `copy_on_write` has mapped once more, and the file's inode and header then."""

    inode: int
    header: bytes
    memories: list[mmap.mmap]
    arrays: Arrays


_mapped: dict[Path, _Mapped] = {}
_private: dict[Path, _Private] = {}


def memory_folder() -> Path:
    """Where shared arrays are: /dev/shm if that has room, else among the temporary files."""
    shm, temporary = _parents()
    roomy = shm.is_dir() and os.access(shm, os.W_OK) and shutil.disk_usage(shm).free >= ROOM_NEEDED_BYTES
    return shm if roomy else temporary


def _parents() -> tuple[Path, Path]:
    return Path("/dev/shm"), Path(tempfile.gettempdir())


def _folder_name(start_id: str) -> str:
    return f"{PREFIX}{os.getuid()}-{start_id}"


def existing_private_folder(start_id: str) -> Path | None:
    """The folder of `private_folder` if it has been made and not removed; it is not held on to."""
    folders = (parent / _folder_name(start_id) for parent in _parents())
    return next(filter(Path.exists, folders), None)


def private_folder(start_id: str) -> Path:
    """The folder of the shared arrays of one start of an engine, on this host; made when first asked for.

    This process holds on to it until it ends. Folders that nobody holds on to any more, of engines that were killed, are
    swept away. Raises PermissionError if it is somebody else's.
    """
    name = _folder_name(start_id)
    for folder in list(_open_locks):
        if not folder.exists():
            if (file := _open_locks.pop(folder, None)) is not None:
                os.close(file)
        elif folder.name == name:
            return folder
    folder = existing_private_folder(start_id) or memory_folder() / name
    while folder not in _open_locks:
        try:
            _hold(folder)
        except FileNotFoundError:
            for parent in _parents():
                _sweep(parent)
            _make(folder)
    return folder


def remove_private_folder(start_id: str) -> None:
    """Removes the folder of `private_folder`, and what lies on the disk for it."""
    for parent in _parents():
        for ending in ("", DISK):
            shutil.rmtree(parent / f"{_folder_name(start_id)}{ending}", ignore_errors=True)


def leave_private_folder(start_id: str) -> None:
    """Removes the folder of `private_folder` unless its arrays are kept for the next start (`KEPT`); this process no longer holds on to it."""
    if (folder := existing_private_folder(start_id)) and _is_kept(folder):
        _let_go(folder)
    else:
        remove_private_folder(start_id)


def _let_go(folder: Path) -> None:
    if (file := _open_locks.pop(folder, None)) is not None:
        fcntl.flock(file, fcntl.LOCK_UN)  # closing does not, if a process was forked meanwhile
        os.close(file)


def _is_kept(folder: Path) -> bool:
    """Whether a start of the engine whose checkpoint a file KEPT names may still take over what is in the folder."""
    with suppress(FileNotFoundError):  # its engine ends just now
        for kept in folder.glob(f"*/{KEPT}"):
            with suppress(OSError, ValueError):
                if _age_s(kept) < KEPT_S and os.path.isdir(kept.read_text()):
                    return True
    return False


def keep(part: Path, checkpoint: str | None) -> None:
    """Says in a folder of arrays that the next start of the engine with this checkpoint may take them over; None: that nobody may."""
    file = part / KEPT
    if checkpoint is None:
        file.unlink(missing_ok=True)
    elif not file.exists():
        file.write_text(checkpoint)


@contextmanager
def kept_parts(mine: Path, checkpoint: str, patience_s: float) -> Iterator[list[Path]]:
    """The folders of the same name as `mine` that other starts have left with a checkpoint named in KEPT, the newest first.

    While this is open nobody else uses them; those that somebody still uses after `patience_s` are left out.
    """
    found = []
    for parent in _parents():
        for kept in parent.glob(f"{PREFIX}{os.getuid()}-*/{mine.name}/{KEPT}"):
            with suppress(OSError, ValueError):
                if kept.parent != mine and kept.read_text() == checkpoint:
                    found.append((kept.stat().st_mtime, kept.parent))
    deadline, free = time.monotonic() + patience_s, []
    with ExitStack() as locks:
        for _, part in sorted(found, reverse=True):
            with suppress(OSError):
                _check_private(part.parent)
                _let_go(part.parent)  # of an earlier engine in this process
                held = locks.enter_context(open(part.parent / "held", "r+b"))
                if lock_file(held, lambda: time.monotonic() > deadline) and os.fstat(held.fileno()).st_nlink:
                    free.append(part)
        yield free


def move_arrays(path: Path, to: Path) -> None:
    """Moves the arrays at `path`, wherever they lie."""
    if path.is_symlink():
        source, disk = Path(os.readlink(path)), _disk_file(to)
        if disk is None:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        _make_disk_folder(disk)
        os.replace(source, disk)
        to.symlink_to(disk)
        path.unlink()
    else:
        os.replace(path, to)


def wait_until_written(path: Path) -> None:
    """Waits until the disk has the arrays at `path`. Raises OSError if it could not write a part of them."""
    with open(path, "r+b") as file:
        os.fsync(file.fileno())


def _disk_file(path: Path) -> Path | None:
    """Where the arrays of a file in memory lie if memory has no room for them; None for a file that is on a disk anyway."""
    memory, temporary = _parents()
    if not path.is_relative_to(memory):
        return None
    folder, *inside = path.relative_to(memory).parts
    return temporary.joinpath(folder + DISK, *inside)


def lies_on_disk(path: Path) -> bool:
    """Whether the arrays at `path`, which are mapped, are in a file on a disk, of which memory holds what was used last."""
    return _mapped[path].on_disk


def read_in_order(path: Path, name: str, ends: bool = False) -> None:
    """If the arrays at `path` are on a disk, says that one of them is read from its first row on, so that the disk reads ahead; `ends`: no longer."""
    mapped = _mapped.get(path)  # None if somebody has removed the file
    if mapped and mapped.on_disk and hasattr(mmap, "MADV_RANDOM"):
        *_, begin = json.loads(mapped.header)[name]
        start = begin - begin % mmap.PAGESIZE
        advice = mmap.MADV_RANDOM if ends else mmap.MADV_SEQUENTIAL
        mapped.memory.madvise(advice, start, begin + mapped.arrays[name].nbytes - start)


def _check_private(folder: Path) -> None:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(
            f"{folder} must be a folder of user {os.getuid()} that others may not enter: remove it"
        )


def _hold(folder: Path) -> None:
    _check_private(folder)
    file = os.open(folder / "held", os.O_RDWR)
    fcntl.flock(file, fcntl.LOCK_SH)
    if os.fstat(file).st_nlink:  # not swept meanwhile
        _open_locks[folder] = file
    else:
        os.close(file)


def _make(folder: Path) -> None:
    """Creates the folder, locked from its first moment, unless another process is faster."""
    fresh = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getuid()}-", dir=folder.parent))
    with open(fresh / "held", "w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        try:
            fresh.rename(folder)
        except OSError:
            shutil.rmtree(fresh, ignore_errors=True)
        else:
            _hold(folder)


def _sweep(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}{os.getuid()}-*"):
        holder = folder
        if folder.name.endswith(DISK):  # it goes with the folder in memory that leads to it
            holder = _parents()[0] / folder.name.removesuffix(DISK)
        if _is_kept(holder):
            continue
        try:
            file = os.open(holder / "held", os.O_RDWR)
        except OSError:  # just being made, or just being removed; or whoever made it was killed
            if _age_s(folder) > YOUNG_S:
                shutil.rmtree(folder, ignore_errors=True)
            continue
        try:
            if lock_file(file, lambda: True):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(file)


def _age_s(folder: Path) -> float:
    try:
        return time.time() - folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def create_arrays(path: Path, layout: Layout) -> Arrays:
    """New arrays of zeros at `path`; what was there before stays whole for those who have it mapped.

    Takes the memory of all of them, also of what is never used: raises OSError (no space left) here rather than let a later
    write kill the process. What finds no room in memory lies on the disk.
    """
    lies, offset = {}, HEADER_BYTES
    for name, (dtype, shape) in layout.items():
        lies[name] = dtype, shape, offset
        rows = max(shape[0], min(GROWTH * shape[0], MOST_ROWS))
        size = rows * prod(shape[1:]) * np.dtype(dtype).itemsize
        offset += size + -size % ALIGNMENT_BYTES
    fresh, disk = path.with_suffix(".new"), _disk_file(path)
    try:
        _write_arrays(fresh, lies, offset, in_memory=disk is not None)
    except OSError as error:
        if disk is None or error.errno != errno.ENOSPC:
            raise
        _make_disk_folder(disk)
        _write_arrays(disk.with_suffix(".new"), lies, offset, in_memory=False)
        os.replace(disk.with_suffix(".new"), disk)
        fresh.symlink_to(disk)
    else:
        if disk:
            disk.unlink(missing_ok=True)
    os.replace(fresh, path)
    return attach_arrays(path)


def _make_disk_folder(disk: Path) -> None:
    """Creates the folder of a `_disk_file`."""
    root = _parents()[1] / disk.relative_to(_parents()[1]).parts[0]
    root.mkdir(mode=0o700, exist_ok=True)
    _check_private(root)
    disk.parent.mkdir(parents=True, exist_ok=True)


def _write_arrays(file: Path, lies: Mapping[str, tuple], size: int, in_memory: bool) -> None:
    file.unlink(missing_ok=True)  # never through a link
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with file_named_in_errors(file):
            os.ftruncate(descriptor, size)
            _take_memory(descriptor, 0, HEADER_BYTES, in_memory)
            for dtype, shape, begin in lies.values():
                _take_memory(descriptor, begin, prod(shape) * np.dtype(dtype).itemsize, in_memory)
            os.pwrite(descriptor, _header(lies), 0)
    except OSError:
        file.unlink()
        raise
    finally:
        os.close(descriptor)


def grow_arrays(path: Path, rows: Mapping[str, int]) -> Arrays | None:
    """The arrays at `path`, those named with so many rows; the new ones are zeros. None if one would have no addresses left, or memory no room.

    Raises OSError (no space left on the disk), and leaves them as they were.
    """
    in_memory = _disk_file(path) is not None and not path.is_symlink()
    try:
        return _grow_arrays(path, rows, in_memory)
    except OSError as error:
        if in_memory and error.errno == errno.ENOSPC:
            return None
        raise


def _grow_arrays(path: Path, rows: Mapping[str, int], in_memory: bool) -> Arrays | None:
    with open(path, "r+b") as file, file_named_in_errors(path):
        lies = json.loads(os.pread(file.fileno(), HEADER_BYTES, 0))
        ends = [*(begin for *_, begin in lies.values()), os.fstat(file.fileno()).st_size][1:]
        for (name, (dtype, shape, begin)), end in zip(lies.items(), ends, strict=True):
            row_bytes = prod(shape[1:]) * np.dtype(dtype).itemsize
            more = rows.get(name, 0) - shape[0]
            if begin + (shape[0] + more) * row_bytes > end:
                return None
            if more > 0:
                _take_memory(file.fileno(), begin + shape[0] * row_bytes, more * row_bytes, in_memory)
                shape[0] += more
        os.pwrite(file.fileno(), _header(lies), 0)
    return attach_arrays(path)


def _header(lies: Mapping[str, tuple]) -> bytes:
    return json.dumps(lies).encode().ljust(HEADER_BYTES)


def _take_memory(descriptor: int, begin: int, size: int, in_memory: bool) -> None:
    if in_memory and size + LEFT_BYTES > memory_left_bytes():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if size and hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, begin, size)


def attach_arrays(path: Path) -> Arrays:
    """The arrays at `path`, mapped at most once for each file that stood there."""
    with open(path, "r+b") as file:
        inode, header = os.fstat(file.fileno()).st_ino, os.pread(file.fileno(), HEADER_BYTES, 0)
        mapped = _mapped.get(path)
        if not mapped:
            unmap_removed_arrays(LOOKED_AT)
        if not mapped or mapped.inode != inode:
            on_disk = _disk_file(path) is None or path.is_symlink()
            mapped = _Mapped(inode, mmap.mmap(file.fileno(), 0), on_disk, b"", {})
            # else a page that is read from a disk brings its neighbours along, which nobody needs
            if on_disk and hasattr(mmap, "MADV_RANDOM"):
                mapped.memory.madvise(mmap.MADV_RANDOM)
    if mapped.header != header:
        arrays = {
            name: np.frombuffer(mapped.memory, dtype, prod(shape), begin).reshape(shape)
            for name, (dtype, shape, begin) in json.loads(header).items()
        }
        mapped = _mapped[path] = mapped._replace(header=header, arrays=arrays)
    return mapped.arrays


def copy_on_write(path: Path) -> Arrays:
    """The arrays at `path`, which this process has attached, as they are now: what is written to them changes no file, and goes with the next call."""
    mapped, private = _mapped[path], _private.get(path)
    if private and private.inode == mapped.inode and private.header == mapped.header and FORGETS:
        for memory in private.memories:
            memory.madvise(mmap.MADV_DONTNEED)
        return private.arrays
    memories, arrays = [], {}
    with open(path, "rb") as file:
        for name, (dtype, shape, begin) in json.loads(mapped.header).items():
            size, before = prod(shape) * np.dtype(dtype).itemsize, begin % mmap.ALLOCATIONGRANULARITY
            if not size:
                arrays[name] = np.empty(shape, dtype)
                continue
            memory = mmap.mmap(file.fileno(), before + size, access=mmap.ACCESS_COPY, offset=begin - before)
            memories.append(memory)
            arrays[name] = np.frombuffer(memory, dtype, prod(shape), before).reshape(shape)
    _private[path] = _Private(mapped.inode, mapped.header, memories, arrays)
    return arrays


def remove_arrays(path: Path) -> None:
    """Removes the arrays at `path`, if any."""
    if disk := _disk_file(path):
        disk.unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    _forget(path)


def _forget(path: Path) -> None:
    _mapped.pop(path, None)
    _private.pop(path, None)


def unmap_removed_arrays(looked_at: int | None = None) -> None:
    """Lets go of arrays whose files are gone: of all, or of those among some that it looks at."""
    paths = list(_mapped)
    for path in paths if looked_at is None else sample(paths, min(looked_at, len(paths))):
        with suppress(PermissionError):  # it may still be there, in a folder that was closed to us
            if not path.exists():
                _forget(path)


@contextmanager
def locked_note(path: Path) -> Iterator["Note"]:
    """Exclusive use of a small note beside the arrays."""
    with file_lock(path), open(path, "a+b") as file:
        yield Note(file)


class Note:
    """A line of text that says what the arrays hold; empty while somebody changes them.

    Without its end, of a writer that was killed or had no more space, it counts as empty.
    """

    def __init__(self, file) -> None:
        self._file = file

    def read(self) -> str:
        self._file.seek(0)
        line = self._file.read().decode()
        return line[:-1] if line.endswith("\n") else ""

    def write(self, text: str) -> None:
        self._file.truncate(0)
        self._file.write(f"{text}\n".encode())
        self._file.flush()
