"""Logs as folders of append-only segments: readable JSON lines, no server needed.

    events/1356998400000-00000000.jsonl      log time in ms - number of the segment
    events/1356998400200-00000001.jsonl

A segment appears whole (written aside, then linked under its name) and never changes. File name, then line, is the log order.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.logs import Record

SUFFIX = ".jsonl"
SEGMENTS = f"[0-9]*-[0-9]*{SUFFIX}"  # other files in a log's folder are none of its own


@dataclass(frozen=True)
class Segment:
    """One segment: its log time in ms (0: the log is not live), its number, its name for people, and its bytes."""

    log_time: int
    source: int
    name: str
    data: bytes

    @classmethod
    def read(cls, path: str) -> "Segment":
        """Reads the segment that Spark names by `path`."""
        file = Path(path.removeprefix("file:"))
        log_time, source = _parts(file)
        data = file.read_bytes()
        return cls(log_time, source, f"{file.parent.name}/{file.name}", data)

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """(place, line) of each line that is not blank, without its line end; places count lines from 1."""
        for number, line in enumerate(self.data.split(b"\n"), 1):
            line = line.removesuffix(b"\r")
            if line.strip():
                yield f"{self.name}:{number}", line


class FileLog:
    """A log in a folder, for one or more writers and any number of readers.

    >>> import tempfile
    >>> log = FileLog(Path(tempfile.mkdtemp()) / "control")
    >>> log.append(["one", "two"], log_time_ms=5).name
    '0000000000005-00000000.jsonl'
    >>> tail = log.tail()
    >>> tail.read(), tail.read()
    (['one', 'two'], [])
    """

    def __init__(self, folder: Path | str):
        self.folder = Path(folder)
        self.create()
        self._newest = next(reversed(self.segments()), None)

    def __repr__(self) -> str:
        return str(self.folder)

    def create(self) -> None:
        """Makes the folder unless it is there."""
        self.folder.mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        """Nothing is open."""

    def append(self, lines: Iterable[str | bytes], log_time_ms: int | None = None) -> Path:
        """Writes a segment; its log time is now, or as told, and never earlier than that of the segment before it."""
        while True:
            number, log_time, stamp_ms = 0, 0, 0
            if self._newest:
                log_time, number = _parts(self._newest)
                number, stamp_ms = number + 1, self._newest.stat().st_mtime_ns // 1_000_000 + 1
            now = time.time_ns() // 1_000_000
            path = self._path(max(log_time, now if log_time_ms is None else log_time_ms), number)
            aside = self._write_aside(lines)
            os.utime(aside, ns=(max(now, stamp_ms) * 1_000_000,) * 2)  # Spark takes files in order of these
            try:
                os.link(aside, path)
                self._newest = path
                return path
            except FileExistsError:  # another writer was first
                self._newest = self.segments()[-1]
            finally:
                aside.unlink()

    def publish(self, lines: Sequence[str | bytes], keys: Sequence[str]) -> list[str]:
        """Appends a segment; returns the place of each line: `control/0000000000005-00000000.jsonl:1`. Files have no keys."""
        path = self.append(lines)
        return [f"{path.parent.name}/{path.name}:{number}" for number in range(1, len(lines) + 1)]

    def put(self, number: int, lines: Iterable[str | bytes]) -> None:
        """Writes segment `number` of a log that is not live, in place of any before: the same twice is as once."""
        os.replace(self._write_aside(lines), self._path(0, number))

    def segments(self) -> list[Path]:
        """The segments in log order."""
        return sorted(self.folder.glob(SEGMENTS))

    def read(self) -> list[str]:
        """All lines of the log."""
        return self.tail().read()

    def tail(self, new: bool = False) -> "Tail":
        """A reader that starts at the oldest segment; `new`: at the next one to come."""
        return Tail(self, self.segments()[-1].name if new and self.segments() else "")

    def _path(self, log_time_ms: int, number: int) -> Path:
        return self.folder / f"{log_time_ms:013d}-{number:08d}{SUFFIX}"

    def _write_aside(self, lines: Iterable[str | bytes]) -> Path:
        aside = self.folder / f".{os.getpid()}-{time.monotonic_ns()}"
        with open(aside, "wb") as file:
            file.writelines(
                (line.encode() if isinstance(line, str) else line).rstrip(b"\r\n") + b"\n" for line in lines
            )
        return aside


class Tail:
    """Reads a log as it grows; each line once."""

    def __init__(self, log: FileLog, read_up_to: str):
        self._log, self._read_up_to = log, read_up_to

    def records(self) -> list[Record]:
        """The lines that came since the last call, with the log time of their segment."""
        found: list[Record] = []
        for path in self._log.segments():
            if path.name > self._read_up_to:
                log_time, _ = _parts(path)
                found += [
                    Record(log_time, "", line.decode(errors="replace"), place)
                    for place, line in Segment.read(str(path)).lines()
                ]
                self._read_up_to = path.name
        return found

    def read(self) -> list[str]:
        """The lines that came since the last call."""
        return [record.line for record in self.records()]

    def close(self) -> None:
        """Nothing is open."""


def _parts(path: Path) -> tuple[int, int]:
    """Log time and number of a segment. Raises ValueError for a file that is none."""
    try:
        log_time, number = path.name.removesuffix(SUFFIX).split("-")
        return int(log_time), int(number)
    except ValueError:
        raise ValueError(f"{path.name} is not a segment: expected <log time, ms>-<number>{SUFFIX}") from None
