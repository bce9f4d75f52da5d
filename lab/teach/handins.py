"""Reads the logs of stumbles that learners handed in, as untrusted input.

FOLDER/*.jsonl ──► lines that are what `lab.log_stumbles()` writes ──► by learner
              └──► hand-ins with others: named, with the first thing that is wrong; their good lines count
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from lab.model.jsontext import BadRecord, is_text, read_object
from lab.model.words import expected, visible

LONGEST = 64 << 10  # bytes of a line
LARGEST = 16 << 20  # bytes of a hand-in
LAST = 1 << 33  # s since the epoch: 2242
TEXTS = ("learner", "name", "exercise", "state", "said", "answer")


def read_hand_ins(folder: Path) -> tuple[dict[str, list[dict]], list[str]]:
    """The lines of each learner, and a sentence for each hand-in that has others."""
    learners: dict[str, list[dict]] = {}
    bad = []
    for file in sorted(folder.rglob("*.jsonl")):
        wrong, first = 0, ""  # not a sentence for each: a small file may have millions of bad lines
        if not (opened := _opened(file)):
            bad.append(
                f"{visible(str(file.relative_to(folder)))} is left out: it is no file that can be read"
            )
            continue
        for number, line in _lines(opened):
            try:
                stumble = _stumble(line)
            except BadRecord as error:
                wrong, first = wrong + 1, first or f"line {number}: {error}"
            else:
                learners.setdefault(stumble["learner"], []).append(stumble)
        if wrong:
            name = visible(str(file.relative_to(folder)))
            bad.append(
                f"{name}: {wrong:,} {'line' if wrong == 1 else 'lines'} left out, the first is {first}"
            )
    return learners, bad


def _opened(path: Path) -> IO[bytes] | None:
    """A file of its own, opened: nobody waits for what a pipe will bring, or follows a link out of the folder."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return os.fdopen(descriptor, "rb")
        os.close(descriptor)
    return None


def _lines(lines: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, as far as they are looked at; no more than one in memory."""
    left = LARGEST
    with suppress(OSError), lines:
        number = 0
        while left > 0 and (line := lines.readline(min(left, LONGEST + 1))):
            number, left = number + 1, left - len(line)
            if left <= 0 and not line.endswith(b"\n"):  # the rest of it is not read
                break
            if line.strip():
                yield number, line
            while left > 0 and not line.endswith(b"\n") and (line := lines.readline(min(left, LONGEST))):
                left -= len(line)
        if left <= 0:
            yield number, b" " * (LONGEST + 1)


def _stumble(line: bytes) -> dict[str, Any]:
    """A line as `lab.log_stumbles()` writes it. Raises BadRecord."""
    if len(line) > LONGEST:
        raise BadRecord(f"a line longer than {LONGEST:,} bytes, or a file larger than {LARGEST:,}")
    found = read_object(line.decode(errors="replace"))
    if not isinstance(found, dict):
        raise BadRecord(expected("line", found, "an object"))
    if type(at := found.get("at")) is not int or not 0 <= at < LAST:
        raise BadRecord(expected("at", at, "seconds since the epoch"))
    for name in TEXTS:
        value = found.get(name, "")
        if not isinstance(value, str) or not is_text(value):
            raise BadRecord(expected(name, value, "a text"))
    for name in ("learner", "state"):
        if not found.get(name):
            raise BadRecord(expected(name, found.get(name), "a text"))
    return found
