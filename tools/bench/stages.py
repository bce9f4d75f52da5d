"""The engine's stages in this process, without Spark: the CPU of each."""

import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.cut import Mark
from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.inprocess import InProcessEngine
from lab.engine.loop.task import evaluate_and_save_share, read_and_route
from lab.engine.windows.evaluate import TaskOutput
from tools.bench.data import Payments, logs_of

STAGES = ("read, decode, route", "evaluate, store")


class TimedStages(InProcessEngine):
    """`lab.engine.loop.inprocess.InProcessEngine` with a timer round each half of a task."""

    def __init__(self, settings: Settings, logs: FileLogs):
        super().__init__(settings, logs)
        self.seconds: dict[str, float] = defaultdict(float)

    def run_tasks(self, start: Mark, end: Mark) -> list[TaskOutput]:
        (work,) = self.planner.plan_reading(start, end)
        with self._timed(STAGES[0]):
            envelopes, report = read_and_route(self.job, work, self.job.logs.feed("events"))
        with self._timed(STAGES[1]):
            return [evaluate_and_save_share(self.job, 0, work, envelopes, report)]

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        started = time.process_time()
        yield
        self.seconds[stage] += time.process_time() - started


def stage_seconds(payments: Payments, rules: Sequence[str], settings: Settings) -> dict[str, float]:
    """CPU seconds of each stage for all payments, with the micro-batches that Spark would make; the first is warm-up."""
    with (
        tempfile.TemporaryDirectory(prefix="lab-bench-") as folder,
        TimedStages(settings, logs_of(Path(folder), payments, rules)) as stages,
    ):
        read, spent = [0], []  # bytes of the log, and seconds, after and of each micro-batch
        while stages.step():
            read.append(stages.mark["events"]["0"])
            spent.append(dict(stages.seconds))
            stages.seconds.clear()
        first = min(1, len(spent) - 1)
        scale = read[-1] / (read[-1] - read[first])
        return {stage: scale * sum(of[stage] for of in spent[first:]) for stage in STAGES}
