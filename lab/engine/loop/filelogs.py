"""The logs of an engine as folders of files, the embedded default."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from lab.engine.checkpoint.cuts import Cut, CutId
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.lock import FolderLock, is_locked
from lab.engine.checkpoint.record import batch_fingerprint, planned_end, runs_loop
from lab.engine.loop.ends import Logs, Outlet
from lab.logs.access import make_folder
from lab.logs.files import WEEK_MS, FileLog
from lab.logs.index import Batch
from lab.model.enginelogs import ALL_LOGS, LOGS, READ, WRITTEN

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from lab.engine.records.feeds import FileFeed
    from lab.engine.records.keyedlines import JoinedLines
    from lab.engine.windows.evaluate import TaskOutput
    from lab.logs.config import Config

ROW_BYTES = 1 << 18  # of lines, before compression
EXPECTED = "expected the folder of `lab run --logs FOLDER`, or kafka://HOST:PORT"


@dataclass(frozen=True)
class FileLogs(Logs):
    """Logs on the embedded default: one folder for each log, in `folder` or elsewhere."""

    on_this_machine = excludes_others = True

    folder: Path
    elsewhere: Mapping[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))  # a text will do, as everywhere

    @classmethod
    def at(cls, where: str | None, places: Mapping[str, str], config: "Config") -> Self:
        """The folder `where`; without it, the one around the alerts or the rules; without these, `logs`."""
        beside = places.get("alerts", places.get("control"))
        folder = where or (Path(beside).absolute().parent if beside else "logs")
        return cls(Path(folder), {log: Path(place) for log, place in places.items()})

    @classmethod
    def existing_at(cls, where: str) -> Self:
        """The logs of a running engine. Raises FileNotFoundError, ValueError."""
        if not where:
            raise ValueError(f"logs is empty, {EXPECTED}")
        folder = Path(where).expanduser()
        if not folder.is_dir():
            raise FileNotFoundError(f"{where}: no such folder; {EXPECTED}")
        logs = cls(folder.absolute())
        if missing := [name for name in READ if not logs.log_folder(name).is_dir()]:
            holds = ", ".join(sorted(path.name for path in folder.iterdir())[:6]) or "nothing"
            raise ValueError(
                f"{where} has no logs: it lacks the folder {' and the folder '.join(missing)} (it contains {holds}); {EXPECTED}"
            )
        return logs

    @classmethod
    def beside(cls, events: str, config: "Config") -> Self | None:
        """Those in the folder around the events log."""
        place = Path(events)
        return cls(place.absolute().parent, {"events": place}) if place.is_dir() else None

    @classmethod
    def open_log(cls, place: str, config: "Config") -> FileLog:
        """The log in a folder; appended lines are kept for a week."""
        return FileLog(Path(place), retention_ms=WEEK_MS)

    @property
    def name(self) -> str:
        """The folder."""
        return str(self.folder)

    @property
    def default_checkpoint(self) -> Path:
        """Beside the logs."""
        return self.folder / "checkpoint"

    def log(self, name: str) -> FileLog:
        """The log of a name in `enginelogs.LOGS`."""
        return FileLog(self.log_folder(name), retention_ms=None if ALL_LOGS[name].is_kept else WEEK_MS)

    def log_folder(self, name: str) -> Path:
        """The folder of a log."""
        return self.elsewhere.get(name, self.folder / name)

    def log_name(self, name: str) -> str:
        """The name of the log's folder."""
        return self.log_folder(name).name

    def create(self, *, named_events: bool = True) -> bool:
        """Creates the folders that are missing, whatever `named_events` is. Returns False: only a new events topic needs a notice."""
        for name in LOGS:
            self.create_log(name)
        return False

    def create_log(self, name: str) -> None:
        """Creates the folder of a log unless it exists."""
        make_folder(self.log_folder(name))

    def create_for_commands(self) -> None:
        """Creates the folders that are missing."""
        self.create()

    def existing(self, name: str) -> FileLog:
        """A log whose folder exists; an engine that has no restrictions yet has an empty log. Raises FileNotFoundError."""
        if (path := self.log_folder(name)).is_dir() or (
            name == "restrictions" and self.log_folder("control").is_dir()
        ):
            return self.log(name)
        here, known = path.absolute().parent, (*LOGS, "restrictions")
        if there := [each for each in known if (here / each).is_dir()]:
            raise FileNotFoundError(f"{path}: no such log; {path.parent} has {', '.join(there)}")
        beside = here.parent if here.parent.is_dir() else Path.cwd()
        # os.path: folders of other users may be beside it
        places = [
            each for each in sorted(beside.iterdir()) if any(os.path.isdir(each / log) for log in known)
        ]
        found = f"logs are in {', '.join(map(str, places[:5]))}" if places else "`lab run` creates logs"
        raise FileNotFoundError(f"{path}: no such log; {found}")

    def feed(self, name: str) -> "FileFeed":
        """A log as the engine reads it."""
        from lab.engine.records.feeds import FileFeed

        return FileFeed(self.log_folder(name))

    def outlet(self, writer: str) -> "FileOutlet":
        """Where a task delivers its cuts."""
        return FileOutlet(self, writer)

    def lock(self) -> ExitStack:
        """Locks the folders that an engine writes. Raises CheckpointInUse."""
        with ExitStack() as locks:
            for name in WRITTEN:
                locks.enter_context(FolderLock(self.log_folder(name), what="log"))
            return locks.pop_all()

    def are_written(self) -> bool:
        """Whether an engine holds the lock, which is only looked at."""
        return is_locked(self.log_folder("stats"))

    def sink(self, output: "DataFrame", checkpoint: CheckpointFolder, writer: str) -> "DataStreamWriter":
        """A query that appends the output of each micro-batch once, however often the batch runs; `writer`: the checkpoint's id."""
        return output.writeStream.foreachBatch(partial(self._write, checkpoint=checkpoint, writer=writer))

    def _write(self, output: "DataFrame", batch_id: int, checkpoint: CheckpointFolder, writer: str) -> None:
        rows, end = output.toArrow(), planned_end(checkpoint.where, batch_id)
        if not runs_loop(end):
            self.write(rows, end["number"], writer, batch_fingerprint(end))

    def to_sink_rows(self, keys: list[str], lines: "JoinedLines") -> tuple[list[str], list[bytes]]:
        """Keys and values of the rows that carry lines to `write`: many lines in a row, compressed, because Spark copies each row a dozen times."""
        data = memoryview(lines.data)
        values = [_compressed(data[at : at + ROW_BYTES]) for at in range(0, len(data), ROW_BYTES)]
        return [""] * len(values), values

    def write(self, rows: "pa.Table", cut_number: int, writer: str, fingerprint: int) -> None:
        """Appends the rows of a cut (`source.OUTPUT`) unless the logs have them; `fingerprint`: that of the cut."""
        import pyarrow.compute as pc

        for name in rows["topic"].unique().to_pylist():
            values = rows.filter(pc.field("topic") == name)["value"].to_pylist()
            self.log(name).put_batch_once(
                writer, cut_number, b"".join(map(_decompressed, values)), fingerprint
            )

    def last_batches(self, writer: str, since_ms: int) -> Iterator[tuple[FileLog, Batch]]:
        """Each log that has micro-batches of a checkpoint, and the last of these, however old it is."""
        for log in map(self.log, WRITTEN):
            if last := log.last_batch(writer):
                yield log, last


def _compressed(data: memoryview) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def _decompressed(data: bytes) -> bytes:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(data), "lz4") as stream:
        return stream.read()


@dataclass(frozen=True)
class FileOutlet(Outlet):
    """Delivers cuts to folders, each once."""

    logs: FileLogs
    writer: str

    def put(self, cut: Cut, output: "TaskOutput", redelivered: frozenset[CutId]) -> None:
        """Appends the results of a cut to the logs that do not have them yet; `redelivered`: all cuts that are put again.

        Raises BatchConflict if a log has another cut with this number.
        """
        for name, (_, lines) in output.items():
            log, fingerprint = self.logs.log(name), batch_fingerprint(cut.end)
            log.put_batch_once(self.writer, cut.number, lines.data, fingerprint, redelivered)

    def flush(self) -> None:
        """Does nothing: `put` has written everything."""
