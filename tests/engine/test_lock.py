"""The lock on a checkpoint."""

import os
import subprocess
import sys

import pytest

from lab.engine.checkpoint.lock import CheckpointInUse, FolderLock

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
