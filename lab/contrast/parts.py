"""Lines as files that Spark's own file source reads: the engine's logs are files that grow, and Spark reads a file once."""

import os
from collections.abc import Iterable
from pathlib import Path

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
