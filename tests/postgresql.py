"""A PostgreSQL of their own for tests."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.machine.database import Database, start, status
from lab.machine.orphans import run_if_killed


@contextmanager
def running_database() -> Iterator[Database]:
    """A database that runs during the `with`, on a free port and in a folder that is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="lab-db-"))
    folder.chmod(0o755)
    clean_up = '"$0" -m lab db stop --folder "$1"; rm -rf "$1"'
    with run_if_killed("sh", "-c", clean_up, sys.executable, str(folder)):
        try:
            yield start(folder, 0)
        finally:
            if still := status(folder):  # also one that was restarted
                still.kill()
            shutil.rmtree(folder, ignore_errors=True)
