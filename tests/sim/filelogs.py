"""File logs in the simulated world: the real ones, in a folder of this machine's memory, whose writers may die or wait at any step.

    writer 0   ──lines──row──►                    writers take turns by the log's lock; readers take none
    writer 1               lock ──roll──lines─┊   stopped here: whoever needs the lock waits until it has gone on

What is in the log is noted when the row that makes an append count is written, apart from what the log says of itself.
"""

import shutil
import tempfile
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lab.engine.records import feeds
from lab.logs import index, segments, writer
from lab.logs.files import FileLog
from lab.logs.index import SegmentIndex
from lab.model.enginelogs import READ
from tests.sim.topics import Logged
from tests.sim.world import Context, Killed, Suspended, World


@dataclass
class Appending(Context):
    """A writer at work. `late`: it is stopped for a while, and then looks at the clock again."""

    logs: "FileLogsInMemory | None" = None
    log: str = ""
    value: bytes = b""
    at: int = 0
    late: bool = False
    looked: int = 0  # at its clock, the last time


class FileLogsInMemory:
    """`ends.FileLogs` as far as the engine reads it; in place of `tests.sim.topics.SimLogs`."""

    divisible = True

    def __init__(self, writers: int):
        self.folder = Path(
            tempfile.mkdtemp(prefix="lab-sim-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        )
        self.clock, self.now = 0, 0
        self.sources: dict[str, list[list[Logged]]] = {name: [[]] for name in READ}
        self.begins: dict[str, list[int]] = {name: [] for name in READ}  # position of each record
        self.lines: dict[str, list[str]] = {name: [] for name in READ}  # place of each record
        self.newest = dict.fromkeys(READ, 0)  # log time
        self.writers = {name: [self.log(name) for _ in range(writers)] for name in READ}
        self.errors: list[Exception] = []  # of writers that went on later

    def close(self) -> None:
        shutil.rmtree(self.folder)

    def log(self, name: str) -> FileLog:
        return FileLog(self.folder / name)

    def feed(self, name: str) -> feeds.FileFeed:
        return feeds.FileFeed(self.folder / name, clock=lambda: self.clock)

    def append(self, name: str, number: int, log_time: int, value: bytes) -> None:
        self._append(Appending(logs=self, log=name, value=value, at=log_time), number)

    def _append(self, context: Appending, number: int) -> None:
        log = self.writers[context.log][number % len(self.writers[context.log])]
        with World.current.running(context):
            log.append([context.value])

    def killed(self, name: str, number: int, log_time: int, value: bytes, step: int) -> None:
        """An append whose process is killed at a step."""
        context = Appending(fuse=step, blows=_kill, logs=self, log=name, value=value, at=log_time)
        with suppress(Killed):
            self._append(context, number)

    def stopped(self, name: str, number: int, log_time: int, value: bytes, step: int) -> Suspended:
        """An append that stops at a step."""
        context = Appending(fuse=step, logs=self, log=name, value=value, at=log_time, late=True)

        def run() -> None:
            try:
                self._append(context, number)
            except Exception as error:  # noqa: BLE001 - nobody waits for it: told at the end
                self.errors.append(error)

        return Suspended(World.current, context, run, context.worker.end)

    def reached(self, context: Appending) -> int:
        """The log has come to the time at which a writer has looked at its clock: a row or a segment says so."""
        self.newest[context.log] = max(self.newest[context.log], context.looked)
        return self.newest[context.log]

    def noted(self, context: Appending, file: str) -> None:
        """The row is written."""
        (records,), lines, base = self.sources[context.log], self.lines[context.log], int(Path(file).stem)
        self.begins[context.log].append(sum(len(record.value) + 1 for record in records))
        records.append(Logged(self.reached(context), context.value))
        name = f"{context.log}/{base:020d}.jsonl"
        lines.append(f"{name}:{sum(line.startswith(name) for line in lines) + 1}")

    def expire(self, name: str, _: int, much: int) -> None:
        self.writers[name][0].expire(0 if much > 1 else 60_000)

    def starts(self, name: str) -> list[int]:
        """How many records of each source have expired."""
        return [self.before(name, 0, self.log(name).start())]

    def before(self, name: str, _: int, position: int) -> int:
        """How many records are before a position."""
        return bisect_left(self.begins[name], position)

    def place(self, name: str, _: int, number: int) -> str:
        return self.lines[name][number]


def _kill() -> None:
    raise Killed


# -- what the log's code finds in place of clock, lock and disk --------------------------------------------------------


def appending() -> Appending:
    context = World.current.context
    assert isinstance(context, Appending)
    return context


def log_time(_: int | None) -> int:
    """`writer._log_time`: a writer looks at its clock."""
    context = appending()
    context.looked = max(context.at, context.logs.now) if context.late else context.at
    return context.looked


@contextmanager
def locked(self: writer.Writer) -> Iterator[None]:
    """`Writer._locked`: whoever has the lock goes on first."""
    world, name = World.current, str(self._folder)
    if holder := world.locked.get(name):
        holder.suspended.resume()
    world.locked[name] = world.context
    try:
        yield
    finally:
        del world.locked[name]


def write_at(file: int, data: bytes, at: int) -> None:
    """`write_at` of lines, which takes a while."""
    world, half = World.current, len(data) // 2
    world.step("before lines")
    index.write_at(file, data[:half], at)
    world.step("within lines")
    index.write_at(file, data[half:], at + half)
    world.step("after lines")


class NotedIndex(SegmentIndex):
    """`SegmentIndex` that tells what it makes count."""

    def __init__(self, path: str, writing: bool = False):
        super().__init__(path, writing)
        self.path = path

    @staticmethod
    def create(path: str, rows) -> None:
        World.current.step("before a segment")
        SegmentIndex.create(path, rows)
        context = appending()
        context.logs.reached(context)
        World.current.step("after a segment")

    def append(self, row) -> None:
        world = World.current
        world.step("before a row")
        super().append(row)
        context = appending()
        context.logs.noted(context, self.path)
        world.step("after a row")


PLACES = (
    (writer, "_log_time", log_time),
    (writer, "write_at", write_at),
    (writer, "SegmentIndex", NotedIndex),
    (segments, "SegmentIndex", NotedIndex),
    (writer.Writer, "_locked", locked),
)
