"""The lock on a checkpoint, and the other locks of the engine."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from threading import Timer
from unittest.mock import patch

import pytest

from lab.engine.checkpoint import durable
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.lock import FILE, CheckpointInUse, FolderLock
from lab.engine.windows import shared

FORK = get_context("fork")

HOLD = """
import sys
from pathlib import Path
from lab.engine.checkpoint.lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_process_that_is_killed_lets_go(tmp_path):
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout.readline() == "held\n"
    with pytest.raises(CheckpointInUse, match=rf"{tmp_path} is in use by an engine \(process {other.pid}\)"):
        FolderLock(tmp_path)
    other.kill()
    other.communicate()
    with (
        FolderLock(tmp_path, "a rescale"),
        pytest.raises(CheckpointInUse, match=rf"by a rescale \(process {os.getpid()}\): stop that first"),
    ):
        FolderLock(tmp_path)
    FolderLock(tmp_path).release()


def test_a_lock_let_go_twice_does_not_free_what_another_took(tmp_path):
    first = FolderLock(tmp_path)
    first.release()
    with FolderLock(tmp_path):
        first.release()
        with pytest.raises(CheckpointInUse):
            FolderLock(tmp_path)


def test_a_process_that_only_checks_the_lock_keeps_nobody_out(tmp_path):
    """`is_locked` shares the lock for a moment."""
    FolderLock(tmp_path).release()
    with open(tmp_path / FILE, "rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        Timer(0.01, fcntl.flock, (looking, fcntl.LOCK_UN)).start()
        FolderLock(tmp_path).release()


def test_a_full_disk_leaves_nothing_locked(tmp_path):
    """Even while somebody keeps the error, as a notebook does."""
    full = patch.object(os, "pwrite", side_effect=OSError(28, "No space left on device"))
    with full, pytest.raises(OSError, match="No space left on device") as error:
        FolderLock(tmp_path)
    FolderLock(tmp_path).release()
    assert error


def nothing() -> None:
    pass


def folder_lock(folder: Path, meanwhile: Callable[[], None]) -> None:
    with FolderLock(folder):
        meanwhile()


def note(folder: Path, meanwhile: Callable[[], None]) -> None:
    with shared.locked_note(folder / "note"):
        meanwhile()


def append(folder: Path, meanwhile: Callable[[], None]) -> None:
    looks = durable._has_size_and_ending

    def looks_meanwhile(*found) -> bool:
        meanwhile()
        return looks(*found)

    with patch.object(durable, "_has_size_and_ending", looks_meanwhile):
        CheckpointFolder(folder).append_if_unchanged("cuts", 0, 0, b"one")


@pytest.mark.parametrize("use", [folder_lock, note, append])
def test_a_fork_while_something_is_locked_does_not_keep_the_lock(tmp_path, use):
    child = FORK.Process(target=time.sleep, args=(60,))
    use(tmp_path, child.start)
    try:
        other = FORK.Process(target=use, args=(tmp_path, nothing))
        other.start()
        other.join(10)
        assert other.exitcode == 0
    finally:
        for process in (child, other):
            process.kill()
            process.join()
