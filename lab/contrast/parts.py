"""Lines as files that Spark's own file source reads: the engine's logs are files that grow, and Spark reads a file once."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from lab.model.times import now_ms


class FilePerAppend:
    """A folder to which each append adds a file, whole; Spark takes them in this order (`maxFilesPerTrigger` 1: one a micro-batch).

    >>> import tempfile
    >>> parts = FilePerAppend(Path(tempfile.mkdtemp(), "parts"))
    >>> parts.append([b"1", "2"]), parts.append([])
    (None, None)
    >>> [(file.name, file.read_text()) for file in sorted(parts.folder.iterdir())]
    [('00000000.jsonl', '1\\n2\\n'), ('00000001.jsonl', '')]
    """

    def __init__(self, folder: Path):
        self.folder, self._number, self._stamp_ms = folder, 0, 0
        folder.mkdir(parents=True)

    def append(self, lines: Iterable[str | bytes]) -> None:
        """Writes a file; its time of modification, by which Spark orders them, is later than that of the one before."""
        aside = self.folder / ".next"
        with aside.open("wb") as file:
            file.writelines((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)
        self._stamp_ms = max(now_ms(), self._stamp_ms + 1)
        os.utime(aside, ns=(self._stamp_ms * 1_000_000,) * 2)
        aside.rename(self.folder / f"{self._number:08d}.jsonl")
        self._number += 1


def write_in_parts(lines: Sequence[bytes], folder: Path, count: int) -> None:
    """Writes lines as `count` files, each with as many lines, for as many micro-batches."""
    parts = FilePerAppend(folder)
    for part in range(count):
        parts.append(lines[part * len(lines) // count : (part + 1) * len(lines) // count])


def rows_and_seconds(query: StreamingQuery) -> tuple[int, float]:
    """The rows that a query's micro-batches read, and how long these took; without the first one, which starts the Python workers."""
    measured = [batch for batch in query.recentProgress if batch.numInputRows][1:]
    seconds = sum(batch.durationMs["triggerExecution"] for batch in measured) / 1_000
    return sum(batch.numInputRows for batch in measured), seconds
