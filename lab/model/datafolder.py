"""Where the kit keeps what belongs to the user who runs it."""

import os
from pathlib import Path


def data_folder() -> Path:
    """`$LAB_DATA`, else `lab` in `$XDG_DATA_HOME` or `~/.local/share`."""
    if own := os.environ.get("LAB_DATA"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "lab"
