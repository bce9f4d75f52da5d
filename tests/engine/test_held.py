"""The lock on a checkpoint."""

import os
import subprocess
import sys

import pytest

from lab.engine.held import CheckpointInUse, Held

HOLD = """
import sys
from pathlib import Path
from lab.engine.held import Held
lock = Held(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_process_that_is_killed_lets_go(tmp_path):
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout.readline() == "held\n"
    with pytest.raises(CheckpointInUse, match=rf"{tmp_path} is in use by an engine \(process {other.pid}\)"):
        Held(tmp_path)
    other.kill()
    other.communicate()
    with (
        Held(tmp_path, "a rescale"),
        pytest.raises(CheckpointInUse, match=rf"by a rescale \(process {os.getpid()}\): stop that first"),
    ):
        Held(tmp_path)
    Held(tmp_path).release()


def test_a_lock_let_go_twice_does_not_free_what_another_took(tmp_path):
    first = Held(tmp_path)
    first.release()
    with Held(tmp_path):
        first.release()
        with pytest.raises(CheckpointInUse):
            Held(tmp_path)
