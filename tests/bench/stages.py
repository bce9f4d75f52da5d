"""The engine's stages in this process, without Spark: the Python CPU of each."""

import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from lab.engine.settings import Settings
from lab.engine.stages import Stages
from lab.logs.files import FileLog
from tests.bench.data import Payments

STAGES = ("decode and route", "evaluate")


class TimedStages(Stages):
    """`lab.engine.stages.Stages` over prepared segments, with a timer round each stage."""

    def __init__(self, settings: Settings):
        super().__init__(settings)
        self.seconds: dict[str, float] = defaultdict(float)

    def segments(self, kind: str, paths: Sequence[str]) -> None:
        """Runs one micro-batch that takes these segments."""
        rows = pa.record_batch({"kind": [kind] * len(paths), "path": list(paths)})
        self._run(rows)

    def _route(self, rows: pa.RecordBatch) -> list[dict]:
        with self._timed("decode and route"):
            return super()._route(rows)

    def _evaluate(self, rows: list[dict]) -> list[dict]:
        with self._timed("evaluate"):
            return super()._evaluate(rows)

    def stats(self, name: str) -> int:
        """A number of the stats log, over all key-groups, in the micro-batches since `out` was cleared."""
        return sum(json.loads(line).get(name, 0) for line in self.out["stats"])

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        started = time.process_time()
        yield
        self.seconds[stage] += time.process_time() - started


def stage_seconds(payments: Payments, rules: Sequence[str], settings: Settings) -> dict[str, float]:
    """CPU seconds of each stage for all payments, with the micro-batches that Spark would make; the first is warm-up."""
    at_once = settings.max_segments_per_batch
    paths = [str(path) for path in payments.segments]
    with tempfile.TemporaryDirectory(prefix="lab-bench-") as folder, TimedStages(settings) as stages:
        stages.segments("control", [str(FileLog(folder).append(rules, 0))])
        for first in range(0, len(paths), at_once):
            if first == at_once:
                stages.seconds.clear()
            stages.segments("events", paths[first : first + at_once])
        warm = len(paths) - at_once
        return {stage: stages.seconds[stage] * len(paths) / warm for stage in STAGES}
