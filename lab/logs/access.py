"""Permissions and locks of the files that the kit writes, and checks of the files that it trusts.

New files are readable by their owner only, whatever the umask. A folder with the set-group-ID bit (`chmod g+s`) belongs to a
team: new files in it get the permissions that its group has on the folder.
"""

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import IO

LOOK_S = 0.005  # how often it looks whether a lock is free
GROUP, SET_GROUP_ID = 0o070, stat.S_ISGID


def make_folder(folder: Path | str) -> None:
    """Creates a folder and its missing parents. Existing folders keep their permissions.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> make_folder(place / "logs" / "events")
    >>> oct((place / "logs").stat().st_mode & 0o777)
    '0o700'
    """
    folder = Path(folder)
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_folder(folder.parent)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise
    else:
        if group := _group_permissions(str(folder.parent)):  # the umask may have removed these
            folder.chmod(stat.S_IMODE(folder.stat().st_mode) | group)


def private_file_opener(path: str, flags: int) -> int:
    """An `opener` for `open`: only the user, or the team, can read and write a new file."""
    group = _group_permissions(os.path.dirname(path)) & 0o060
    if not group or not flags & os.O_CREAT:
        return os.open(path, flags, 0o600)
    try:
        file = os.open(path, flags | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, flags, 0o600)
    os.fchmod(file, 0o600 | group)  # the umask may have removed these
    return file


def lock_file(file: IO | int, gives_up: Callable[[], bool] | None = None) -> bool:
    """Locks an open file, for this process alone, until `unlock_file` or its death. Waits, or returns False once `gives_up` says so."""
    while hasattr(fcntl, "flock"):  # not in a browser, which has one process
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if gives_up else 0))
            break
        except BlockingIOError:
            if gives_up and gives_up():
                return False
            time.sleep(LOOK_S)
    return True


def unlock_file(file: IO | int) -> None:
    """Unlocks a file. Closing does not, if a process was forked meanwhile."""
    if hasattr(fcntl, "flock"):
        fcntl.flock(file, fcntl.LOCK_UN)


@contextmanager
def file_lock(
    path: Path, error_if_busy: Exception | None = None, gives_up: Callable[[], bool] | None = None
) -> Iterator[bool]:
    """Holds the lock of a file, which is created if it is missing: waits for it, or raises `error_if_busy` if another process has it.

    Gives whether it has the lock: False if `gives_up` said so before that.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "lock")
    >>> with file_lock(path), file_lock(path, ValueError("taken")):
    ...     pass
    Traceback (most recent call last):
    ValueError: taken
    """
    with open(path, "ab", opener=private_file_opener) as file:
        is_mine = lock_file(file, (lambda: True) if error_if_busy else gives_up)
        if error_if_busy and not is_mine:
            raise error_if_busy
        try:
            yield is_mine
        finally:
            unlock_file(file)


class NotTrusted(PermissionError):
    """A file that another user wrote, or could write or read. The message says how to fix that."""


def read_trusted(file: Path, is_secret: bool = False) -> str:
    """Reads a configuration file. Raises NotTrusted if anybody but this user and root can write it.

    `is_secret`: also if everybody may read it, as after `echo … > FILE`. Only of root's files another user's program cannot
    say this: a container's secrets are such files.
    """
    with open(file, encoding="utf-8", opener=_nonblocking_opener) as opened:
        for found in (os.fstat(opened.fileno()), os.lstat(file)):
            if found.st_uid not in (0, os.geteuid()):
                raise NotTrusted(
                    f"{file}: belongs to user {found.st_uid}, and is not obeyed: if it says what you want, "
                    "make it yours: cp FILE NEW && mv NEW FILE"
                )
            if found.st_mode & stat.S_IWOTH and not stat.S_ISLNK(found.st_mode):
                raise NotTrusted(f"{file}: everybody may change it: chmod o-w {quote(str(file))}")
            if is_secret and may_others_read(found) and found.st_uid == os.geteuid():
                raise NotTrusted(
                    f"{file}: has a secret, and everybody may read it: chmod o-r {quote(str(file))}"
                )
        os.set_blocking(opened.fileno(), True)
        return opened.read()


def may_others_read(found: os.stat_result) -> bool:
    """Whether users who are neither the owner nor in the group may read a file."""
    return bool(found.st_mode & stat.S_IROTH) and stat.S_ISREG(found.st_mode)


def _nonblocking_opener(path: str, flags: int) -> int:
    """An `opener` for `open` that does not block on a pipe: its creator might never write to it."""
    return os.open(path, flags | os.O_NONBLOCK)


def _group_permissions(folder: str) -> int:
    """The group's permissions on a team's folder; 0 for any other folder."""
    mode = os.stat(folder or ".").st_mode
    return mode & GROUP if mode & SET_GROUP_ID else 0


def holds_password(name: str, value: str) -> bool:
    """Whether a setting in the URL of a database is a password, or hands one over to the server.

    >>> [holds_password(*of) for of in (("sslpassword", "x"), ("options", "-c password=x"), ("passfile", "passwords/ann"))]
    [True, True, False]
    """
    return name.lower().endswith("password") or (name == "options" and "password" in value.lower())
