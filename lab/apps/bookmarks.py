"""How far a person has read a log: a small file for each log in the user's own folder."""

import os
from hashlib import blake2b
from pathlib import Path

from lab.logs.positions import Positions, position_text, positions_of


def _file(log: object) -> Path:
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "lab" / "read" / blake2b(place_of(log).encode(), digest_size=8).hexdigest()


def place_of(log: object) -> str:
    """What tells a log from others on this machine: the whole path of its folder, or cluster and topic."""
    folder = getattr(log, "folder", None)
    return str(folder.absolute()) if folder else repr(log)


def bookmark(log: object) -> Positions | None:
    """Where the reading of a log was left; None if it never was. Raises ValueError if the file is not one of ours."""
    try:
        return positions_of(_file(log).read_text().splitlines()[-1])
    except FileNotFoundError:
        return None
    except (ValueError, IndexError):
        raise ValueError(f"{_file(log)} does not say how far {log} was read: remove it") from None


def set_bookmark(log: object, positions: Positions) -> None:
    """Notes where the next reading begins."""
    file = _file(log)
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_suffix(f".{os.getpid()}")
    aside.write_text(f"{place_of(log)}\n{position_text(positions)}\n")
    aside.replace(file)
