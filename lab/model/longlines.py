"""Lines of a file, however long they are: of one that is too long, about two lines' worth is ever in memory."""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import IO

from lab.model.deadletters import BEGINNING
from lab.model.jsontext import MAX_LINE_BYTES, LongLine

CHUNK = 1 << 16
BATCH_BYTES = 1 << 26  # of lines that are passed on at once


def bounded_lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file without their ends; a LongLine for each that is too long.

    >>> import io
    >>> lines = list(bounded_lines(io.BytesIO(b"a\\r\\n" + b"x" * 3_000_000 + b"\\nb")))
    >>> lines[0], lines[1].size, lines[2]
    (b'a', 3000000, b'b')
    """
    while line := file.readline(MAX_LINE_BYTES + 3):
        if line.endswith(b"\n") or len(line) < MAX_LINE_BYTES + 3:
            text = line.rstrip(b"\r\n")
            if len(text) <= MAX_LINE_BYTES:
                yield text
                continue
        yield _long(line, file)


def _long(start: bytes, file: IO[bytes]) -> LongLine:
    """The rest of a line is read and hashed, without its end: the last two bytes wait until it is known what they are."""
    digest, size, waiting = sha256(), 0, start
    while not waiting.endswith(b"\n"):
        more = file.readline(CHUNK)
        if not more:
            break
        digest.update(waiting[:-2])
        size += max(len(waiting) - 2, 0)
        waiting = waiting[-2:] + more
    last = waiting.removesuffix(b"\n").removesuffix(b"\r")
    digest.update(last)
    return LongLine.of(size + len(last), digest.hexdigest(), start[:BEGINNING])


def line_batches(lines: Iterable[bytes], max_lines: int) -> Iterator[list[bytes]]:
    """Lines in lists of at most so many, and of 64 MiB and a line."""
    some: list[bytes] = []
    size = 0
    for line in lines:
        some.append(line)
        size += len(line)
        if len(some) == max_lines or size >= BATCH_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
