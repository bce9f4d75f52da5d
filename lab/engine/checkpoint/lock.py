"""Locks a local folder, a checkpoint or a log, so that only one engine, or one command that changes it, works on it at a time.

An advisory lock of the operating system on `lab.lock` in the folder. If the process dies, the system releases
the lock, whatever killed the process. The file names the process: {"pid": 4711, "work": "an engine"}.
"""

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Self

from lab.logs.access import lock_file, make_folder, private_file_opener, unlock_file
from lab.model.formatting import file_named_in_errors

FILE = "lab.lock"
LOOK_S = 0.1  # how long a start waits for the lock: a process that only checks it has it for far less


class CheckpointInUse(RuntimeError):
    """Somebody else works on the checkpoint, or writes the log; the text says who."""


class FolderLock:
    """The lock on a folder, taken when the object is made; `release` it, or use it in a `with`.

    `work` and `what` are for messages: who has the lock, and what the folder is. Raises CheckpointInUse.

    >>> import tempfile
    >>> checkpoint = Path(tempfile.mkdtemp())
    >>> with FolderLock(checkpoint):
    ...     FolderLock(checkpoint)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    lab.engine.checkpoint.lock.CheckpointInUse: checkpoint ... is in use by an engine (process ...): stop that first
    """

    def __init__(self, folder: Path, work: str = "an engine", what: str = "checkpoint"):
        make_folder(folder)
        descriptor = private_file_opener(str(folder / FILE), os.O_RDWR | os.O_CREAT)
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        deadline = time.monotonic() + LOOK_S
        try:
            if not lock_file(self._file, lambda: time.monotonic() > deadline):
                holder = _read(self._file)
                self._file.close()
                raise CheckpointInUse(
                    f"{what} {folder} is in use by {holder.get('work', 'an engine')} "
                    f"(process {holder.get('pid', 'unknown')}): stop that first"
                )
            note = json.dumps({"pid": os.getpid(), "work": work})
            # one call overwrites the old note, so that nobody reads half a note
            with file_named_in_errors(folder / FILE):
                os.pwrite(descriptor, note.encode().ljust(128), 0)
        except OSError:  # such as a full disk
            self.release()
            raise

    def release(self) -> None:
        """Releases the lock. A second call does nothing."""
        if not self._file.closed:
            unlock_file(self._file)
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.release()


def is_locked(folder: Path) -> bool:
    """Whether a process of this machine holds the lock on a folder. The check disturbs nobody.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with FolderLock(folder):
    ...     print(is_locked(folder))
    True
    >>> is_locked(folder), is_locked(folder / "none")
    (False, False)
    """
    try:
        with open(folder / FILE, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(file, fcntl.LOCK_UN)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _read(file) -> dict:
    text = os.pread(file.fileno(), 4096, 0)
    return json.loads(text) if text.strip() else {}
