"""What a process would have cleaned up is cleaned up also if it is killed, and only then."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from lab.machine import broker
from lab.machine.orphans import run_if_killed
from tests.waiting import program, wait_until

WAITING = """
import signal, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may have it ignored
from lab.machine.orphans import run_if_killed
with run_if_killed("touch", "killed"):
    open("begun", "w").close()
    {then}
"""


def children_with(argument: str) -> list[psutil.Process]:
    """Descendants of this process with an argument in their command line; those that ended have none."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # a ZombieProcess is one
            found += [child] if argument in child.cmdline() else []
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_a_command_runs_if_the_process_is_killed_within_the_block(tmp_path, number):
    with program([sys.executable, "-c", WAITING.format(then="time.sleep(1000)")], cwd=tmp_path) as process:
        wait_until(Path(tmp_path, "begun").exists, alive=lambda: process.poll() is None)
        process.send_signal(number)
        wait_until(Path(tmp_path, "killed").exists)


@pytest.mark.parametrize("then", ["pass", "raise KeyboardInterrupt", "raise SystemExit(3)"])
def test_a_command_does_not_run_if_the_block_is_left(tmp_path, then):
    subprocess.run(
        [sys.executable, "-c", WAITING.format(then=then)], cwd=tmp_path, check=False, capture_output=True
    )
    assert [path.name for path in tmp_path.iterdir()] == ["begun"]
    assert not children_with("touch")


def test_a_block_ends_also_if_somebody_killed_the_one_who_waits(tmp_path):
    with run_if_killed("touch", str(tmp_path / "killed")):
        (waiting,) = children_with(str(tmp_path / "killed"))
        waiting.kill()
        waiting.wait()
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_temporary_broker_does_not_outlive_the_process_that_started_it(number):
    code = (
        "import time\nfrom lab.machine.broker import running_broker\n"
        "with running_broker() as broker:\n    print(broker.pid, broker.folder, flush=True)\n    time.sleep(1000)"
    )
    with program([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        pid, folder = process.stdout.readline().split()
        assert broker.Broker(Path(folder), 0, int(pid)).is_alive
        os.kill(process.pid, number)
        wait_until(lambda: not psutil.pid_exists(int(pid)) and not Path(folder).exists())
