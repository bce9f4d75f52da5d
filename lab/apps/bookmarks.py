"""How far a person has read a log: a small file for each log in the user's own folder."""

import os
from hashlib import blake2b
from pathlib import Path

from lab.logs.access import make_folder
from lab.logs.places import absolute_log_name
from lab.logs.positions import Positions, parse_positions, position_text


def bookmark_file(log: object, reader: str = "") -> Path:
    """The file that stores a reader's position in a log; "" is the person who runs the commands."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return (
        state
        / "lab"
        / "read"
        / blake2b(f"{absolute_log_name(log)}{reader and chr(10)}{reader}".encode(), digest_size=8).hexdigest()
    )


def load_bookmark(log: object, reader: str = "") -> Positions | None:
    """The saved position in a log; None if there is none. Raises ValueError if the file is not one of ours."""
    try:
        return parse_positions(bookmark_file(log, reader).read_text().splitlines()[-1])
    except FileNotFoundError:
        return None
    except (ValueError, IndexError):
        raise ValueError(
            f"{bookmark_file(log, reader)} does not say how far {log} was read: delete it"
        ) from None


def save_bookmark(log: object, positions: Positions, reader: str = "") -> None:
    """Saves the position at which the next read starts."""
    file = bookmark_file(log, reader)
    make_folder(file.parent)
    aside = file.with_suffix(f".{os.getpid()}")
    aside.write_text(f"{absolute_log_name(log)}\n{position_text(positions)}\n")
    aside.replace(file)
