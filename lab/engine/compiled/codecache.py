"""Where Numba keeps the compiled window loop. A worker that finds no such folder dies at its start, and Java says EOFException."""

import os
import sys
import tempfile
from pathlib import Path

COMPILING = "compiling the window loop, once after an installation: about a minute"


class CodeCacheNotWritable(RuntimeError):
    """Numba has no writable folder for its compiled code; the message names the folders it tried, and the remedy."""


def writable_code_cache() -> Path:
    """The folder for compiled code: the first writable one. Raises CodeCacheNotWritable; called before Spark starts workers."""
    tried = []
    for place in _places():
        try:
            place.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=place).close()
            return place
        except OSError as error:
            tried.append(f"{place} ({error.strerror})")
    raise CodeCacheNotWritable(
        f"no folder for compiled code can be written to: {', '.join(tried)}; "
        "set NUMBA_CACHE_DIR to a folder of this user's own"
    )


def is_window_loop_cached() -> bool:
    """Whether the window loop has been compiled for this Python, as far as the names of files tell. Raises CodeCacheNotWritable."""
    index = f"**/window.*.py{sys.version_info.major}{sys.version_info.minor}.nbi"
    return any(writable_code_cache().glob(index))


def _places() -> list[Path]:
    """In Numba's order: as the environment says, beside the modules, in the user's cache."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    users = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return [*([Path(named)] if named else []), Path(__file__).parent / "__pycache__", Path(users, "numba")]
