"""Shared memory: what a killed engine left is swept by the next start, what is in use stays."""

import os
import shutil
import subprocess
import sys

from lab.engine import shared

HOLD = """
import sys, time
from lab.engine import shared
folder = shared.private_folder(sys.argv[1])
(folder / "0-15").mkdir()
(folder / "0-15" / "1.windows").write_bytes(bytes(1 << 16))
print(folder, flush=True)
time.sleep(60)
"""


def test_what_a_killed_engine_left_is_swept_by_the_next_start_and_what_is_in_use_stays():
    def hold(start: str) -> tuple[subprocess.Popen, str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, start], stdout=subprocess.PIPE, text=True, env=os.environ
        )
        return process, process.stdout.readline().strip()

    (killed, gone), (alive, stays) = hold(f"{os.getpid()}-killed"), hold(f"{os.getpid()}-alive")
    try:
        killed.kill()
        killed.communicate()
        assert os.path.isdir(gone)
        mine = shared.private_folder(f"{os.getpid()}-next")
        assert not os.path.exists(gone) and os.path.isdir(stays)
    finally:
        alive.kill()
        alive.communicate()
    shutil.rmtree(mine)
    shutil.rmtree(stays)
