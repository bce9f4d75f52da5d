"""Who may read what the kit writes: its user alone, whatever the umask, or a team whose folder says so. And whose files it obeys.

A folder with the set-group-ID bit (`chmod g+s`) is a team's: what is made in it gets the permissions that its group has there.
"""

import os
import stat
from pathlib import Path

GROUP, SET_GROUP_ID = 0o070, stat.S_ISGID


def make_folder(folder: Path | str) -> None:
    """Makes a folder and those above it, as far as they are not there; what is there keeps its permissions.

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
    folder.mkdir(mode=0o700 | _of_group(str(folder.parent)), exist_ok=True)


def opener(path: str, flags: int) -> int:
    """For `open`: a file that it makes is for its user, or the team, to read and to write."""
    return os.open(path, flags, 0o600 | _of_group(os.path.dirname(path)) & 0o060)


class NotTrusted(PermissionError):
    """A file that is not obeyed, as somebody else wrote it, or may; the text says what helps."""


def read_trusted(file: Path) -> str:
    """The text of a file that says what to do, or has a password. Raises NotTrusted unless it is this user's, or root's, alone."""
    with open(file, encoding="utf-8", opener=_at_once) as opened:
        for found in (os.fstat(opened.fileno()), os.lstat(file)):
            if found.st_uid not in (0, os.geteuid()):
                raise NotTrusted(
                    f"{file}: belongs to user {found.st_uid}, and is not obeyed: if it says what you want, "
                    "make it yours: cp FILE NEW && mv NEW FILE"
                )
            if found.st_mode & stat.S_IWOTH and not stat.S_ISLNK(found.st_mode):
                raise NotTrusted(f"{file}: everybody may change it: chmod o-w {file}")
        os.set_blocking(opened.fileno(), True)
        return opened.read()


def _at_once(path: str, flags: int) -> int:
    """For `open`: does not wait for somebody who writes into what is a pipe, as whoever made it might never."""
    return os.open(path, flags | os.O_NONBLOCK)


def _of_group(folder: str) -> int:
    """The permissions that the group of a team's folder has there; none if it is not a team's."""
    mode = os.stat(folder or ".").st_mode
    return mode & GROUP if mode & SET_GROUP_ID else 0
