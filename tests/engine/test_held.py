"""The lock on a checkpoint."""

import os
import subprocess
import sys

import pytest

from lab.engine.held import CheckpointInUse, held

HOLD = """
import sys, time
from pathlib import Path
from lab.engine.held import held
lock = held(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_a_process_that_is_killed_lets_go(tmp_path):
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    with pytest.raises(CheckpointInUse, match=rf"{tmp_path} is in use by an engine \(process {other.pid}\)"):
        held(tmp_path)
    other.kill()
    other.communicate()
    with (
        held(tmp_path, "a rescale"),
        pytest.raises(CheckpointInUse, match=rf"by a rescale \(process {os.getpid()}\): stop that first"),
    ):
        held(tmp_path)
    held(tmp_path).release()


def test_a_lock_let_go_twice_does_not_free_what_another_took(tmp_path):
    first = held(tmp_path)
    first.release()
    with held(tmp_path):
        first.release()
        with pytest.raises(CheckpointInUse):
            held(tmp_path)
