"""The tokens of the enforcement service's clients, from the environment or a file, never from the command line.

A file contains one token per line, one for each client. Without a file or a variable, the service or its first client creates a file
with one token for the user: programs that can read the user's files can ask.
"""

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from lab.logs.access import read_trusted
from lab.model.datafolder import data_folder

VARIABLE = "LAB_RESTRICT_TOKEN"
SHORTEST = 32  # characters


def new_token() -> str:
    """A new random token."""
    return secrets.token_urlsafe(32)


def read_tokens(file: Path | None = None) -> list[str]:
    """The tokens in a file, in the environment, or in the user's own file, which is created if it is missing.

    Raises ValueError for a file without a token, or a token that is too short; NotTrusted for a file that others can write or read;
    OSError if the file cannot be read.
    """
    if file is None and (token := os.environ.get(VARIABLE)):
        return _checked([token], f"${VARIABLE}")
    own = file or data_folder() / "restrict-token"
    if file is None and not own.exists():
        own.parent.mkdir(parents=True, exist_ok=True)
        aside = own.with_suffix(f".{os.getpid()}")
        with open(aside, "w", opener=_for_the_user) as made:
            made.write(new_token() + "\n")
        with suppress(FileExistsError):  # another process created it first
            os.link(aside, own)
        aside.unlink()
    return _checked(read_trusted(own, is_secret=True).split(), str(own))


def _for_the_user(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _checked(tokens: Iterable[str], where: str) -> list[str]:
    found = list(tokens)
    if not found or min(map(len, found)) < SHORTEST or not all(map(str.isascii, found)):
        raise ValueError(
            f"{where}: expected one token a line, each of at least {SHORTEST} characters of ASCII, such as of `openssl rand -hex 32`"
        )
    return found
