"""Waiting until something changes in folders: with Linux's inotify, elsewhere by looking now and then."""

import ctypes
import os
import select
import sys
import time
from collections.abc import Sequence
from io import FileIO
from pathlib import Path

LOOK_S = 0.01  # how long a wait is where the system does not tell of changes
CHANGES = 0x2 | 0x80 | 0x100  # IN_MODIFY, IN_MOVED_TO, IN_CREATE
READ_BYTES = 1 << 16

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


class FolderWatch:
    """Waits for changes in some folders; what has changed, and whether anything has, is for the caller to see.

    It does not hear of what other hosts write into a shared folder, so no wait should be long.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> watch = FolderWatch([folder])
    >>> watch.begin()
    >>> (folder / "log").write_bytes(b"line")
    4
    >>> watch.wait(60)
    """

    def __init__(self, folders: Sequence[Path]):
        self._folders = [os.fsencode(folder) for folder in folders]
        descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC) if _libc else -1
        self._changes = FileIO(descriptor, "r") if descriptor >= 0 else None  # a user may have only so many
        self._hears = False

    def begin(self) -> None:
        """A change after this ends the next wait, at once if it came before that."""
        self._hears = self._changes is not None and all(map(self._watch, self._folders))

    def _watch(self, folder: bytes) -> bool:
        """Watches a folder, also one that has taken another's place; if it is watched already, that goes on."""
        assert _libc and self._changes
        return _libc.inotify_add_watch(self._changes.fileno(), folder, CHANGES) >= 0

    def wait(self, timeout_s: float) -> None:
        """Waits until a file may have changed, for `timeout_s` at most."""
        if not self._hears or not self._changes:
            time.sleep(min(LOOK_S, timeout_s))
            return
        poll = select.poll()
        poll.register(self._changes, select.POLLIN)
        if poll.poll(1000 * timeout_s):
            self._changes.read(READ_BYTES)
