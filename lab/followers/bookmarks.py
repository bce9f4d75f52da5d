"""How far a person has read a log: a small file for each log in the user's own folder."""

import os
from hashlib import blake2b
from pathlib import Path

from lab.logs.access import make_folder, private_file_opener
from lab.logs.positions import Positions, parse_positions, position_text
from lab.logs.protocol import Log, Tail


def bookmark_file(log: Log, reader: str = "") -> Path:
    """The file that stores a reader's position in a log; "" is the person who runs the commands."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return (
        state
        / "lab"
        / "read"
        / blake2b(f"{log.absolute_name}{reader and chr(10)}{reader}".encode(), digest_size=8).hexdigest()
    )


def load_bookmark(log: Log, reader: str = "") -> Positions | None:
    """The saved position in a log; None if there is none. Raises ValueError if the file is not one of ours, and TopicMadeAnew."""
    file = bookmark_file(log, reader)
    try:
        lines = file.read_text().splitlines()
        positions = parse_positions(lines[-1])
    except FileNotFoundError:
        return None
    except (ValueError, IndexError):
        raise ValueError(f"{file} does not say how far {log} was read: delete it") from None
    if len(lines) > 2:  # of a topic
        log.check_topic_id(lines[1], f"delete {file}, which says how far the other one was read")
    return positions


def save_bookmark(log: Log, tail: Tail, reader: str = "") -> None:
    """Saves the position at which the next read starts: that of a reader of the log."""
    file = bookmark_file(log, reader)
    make_folder(file.parent)
    aside = file.with_suffix(f".{os.getpid()}")
    lines = log.absolute_name, *([tail.topic_id] if tail.topic_id else []), position_text(tail.positions)
    with open(aside, "w", opener=private_file_opener) as made:
        made.writelines(f"{line}\n" for line in lines)
    aside.replace(file)
