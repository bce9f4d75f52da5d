"""Keeps the output of Java and Spark's Python workers in a log file of limited size."""

import os
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Self

from lab.logs.access import make_folder, private_file_opener

MOST_BYTES = 10 << 20  # then the file becomes FILE.1, and the one before is gone


class JavaLog:
    """`file`, for a process's stdout and stderr, ends in the file at `path`; in a `with`, at whose end all is written.

    >>> import subprocess, tempfile
    >>> with JavaLog(Path(tempfile.mkdtemp(), "spark.log")) as log:
    ...     _ = subprocess.run(["echo", "hello"], stdout=log.file)
    >>> log.text()
    'hello'
    """

    def __init__(self, path: Path):
        self.path = path
        make_folder(path.parent)
        open(path, "ab", opener=private_file_opener).close()

    def __enter__(self) -> Self:
        read, write = os.pipe()
        self.file = os.fdopen(write, "wb")
        self._thread = Thread(target=self._copy, args=(read,), daemon=True, name="java-log")
        self._thread.start()
        return self

    def _copy(self, pipe: int) -> None:
        with os.fdopen(pipe, "rb", buffering=0) as said:
            while data := said.read(1 << 16):
                with suppress(OSError):  # the writing process must not block because a disk is full
                    self._keep(data)

    def _keep(self, data: bytes) -> None:
        if self.path.exists() and self.path.stat().st_size > MOST_BYTES:
            os.replace(self.path, f"{self.path}.1")
        with open(self.path, "ab", opener=private_file_opener) as file:
            file.write(data)

    def __exit__(self, *_) -> None:
        self.file.close()
        self._thread.join(1)

    def text(self) -> str:
        """What the newest file holds; of a process that has ended, soon all of it."""
        self._thread.join(0.2)
        return self.path.read_text(errors="replace").strip()
