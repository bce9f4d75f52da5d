"""Lines that a task gives, as the files of a log have them: on their way to a folder, no line is an object of its own."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa


class JoinedLines:
    """Lines in buffers, each ended by a line break. Whoever needs them one by one iterates over them.

    >>> lines = JoinedLines(["one", "two"])
    >>> lines.extend(JoinedLines(["three"]))
    >>> list(lines), lines.data
    (['one', 'two', 'three'], b'one\\ntwo\\nthree\\n')
    """

    def __init__(self, lines: Iterable[str] | pa.Buffer = ()):
        if not isinstance(lines, pa.Buffer):
            lines = pa.py_buffer("".join(f"{line}\n" for line in lines).encode())
        self._buffers = [lines]

    def extend(self, others: "JoinedLines") -> None:
        """Has the others come after these."""
        self._buffers += others._buffers

    def __iter__(self) -> Iterator[str]:
        for buffer in self._buffers:
            yield from buffer.to_pybytes().decode().split("\n")[:-1]

    @property
    def data(self) -> bytes:
        return b"".join(self._buffers)


class KeyedLines(NamedTuple):
    """Lines for a log, and the key of each."""

    keys: list[str]
    lines: JoinedLines

    def extend(self, others: "KeyedLines") -> None:
        """Has the others come after these."""
        self.keys.extend(others.keys)
        self.lines.extend(others.lines)
