"""For those who extend the engine: its stages in this process, without Spark.

The stages are the engine's own; Spark's `TwsTester` gives them state. A micro-batch takes milliseconds, so that thousands of
random logs can be compared with `lab.model.reference`.
"""

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from typing import Self

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from lab.engine.ends import FileLogs
from lab.engine.operators import Evaluate
from lab.engine.route import decode_and_route
from lab.engine.settings import Settings
from lab.logs.files import FileLog
from lab.model.schema import MAX_TIME

Entry = tuple[str, bytes]  # ("event", line) or ("control", message)


class Stages:
    """Decode, route and evaluate, one micro-batch at a time.

    >>> from lab.model.schema import PAYMENTS
    >>> with Stages(Settings(PAYMENTS)) as stages:
    ...     stages.batch([("control", b"1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)")])
    ...     stages.batch([("event", b"1,2013-01-01 00:00:00,25,12,CSH,50.01")])
    ...     [line.split(",")[3] for line in stages.out["alerts"]]
    ['"key":"{payeeId=25}"']
    """

    def __init__(self, settings: Settings):
        self.folder = Path(tempfile.mkdtemp(prefix="lab-stages-"))
        self.settings = settings
        self.logs = {"event": FileLog(self.folder / "events"), "control": FileLog(self.folder / "control")}
        self._log_time = MAX_TIME  # after any event
        self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        rmtree(self.folder)

    def batch(self, entries: Sequence[Entry]) -> None:
        """Runs one micro-batch; the entries are in log order."""
        segments = []
        for log, lines in runs(entries):
            self._log_time += 1
            name = "events" if log == "event" else log
            segments.append((name, self.logs[log].append(lines, self._log_time)))
        self.run(segments)

    def run(self, segments: Sequence[tuple[str, Path]]) -> None:
        """Runs one micro-batch of segments of file logs: ("events" or "control", path)."""
        self._batch_id += 1
        kinds, paths = zip(*segments) if segments else ((), ())
        rows = pa.record_batch(
            {"kind": pa.array(kinds, pa.string()), "path": pa.array(map(str, paths), pa.string())}
        )
        for row in self._evaluate(self._route(rows)):
            self.out[row["log"]] += row["values"]

    def _route(self, rows: pa.RecordBatch) -> list[dict]:
        read = FileLogs(self.folder).records
        routed = decode_and_route(iter([rows]), read, self.settings, self.folder, lambda: self._batch_id)
        return [row for batch in routed for row in batch.to_pylist()]

    def _evaluate(self, rows: list[dict]) -> list[dict]:
        keyed = defaultdict(list)
        for row in rows:
            keyed[row["key_group"]].append(Row(**row))
        return [row.asDict() for key, values in keyed.items() for row in self.evaluate.test(key, values)]

    def lose_memory(self) -> None:
        """As if all workers had died: the next micro-batch finds only what is in state."""
        for note in self.folder.glob("windows/*/lock"):
            note.write_text("")

    def abort_all(self) -> None:
        """As if no micro-batch had been committed and the last one had died half way: only shared memory remains."""
        self.lose_memory()
        self._begin()

    def _begin(self) -> None:
        windows = self.folder / "windows"
        self._batch_id = -1
        self.evaluate = TwsTester(Evaluate(self.settings, self.folder, windows, lambda: self._batch_id))
        self.out: dict[str, list[str]] = defaultdict(list)


def runs(entries: Sequence[Entry]) -> list[tuple[str, list[bytes]]]:
    """Entries as segments: events between two control messages, and each control message."""
    segments: list[tuple[str, list[bytes]]] = []
    for log, line in entries:
        if segments and segments[-1][0] == log == "event":
            segments[-1][1].append(line)
        else:
            segments.append((log, [line]))
    return segments
