"""The engine in a thread of this process: for notebooks and control rooms without Java."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from shutil import rmtree
from uuid import uuid4

import pandas  # noqa: F401  (loaded before the engine's thread does it: plotly looks at it half loaded)

from lab.engine.checkpoint.cuts import CutLog
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.cut import Planner
from lab.engine.loop.ends import READ, Logs
from lab.engine.loop.epochs import running_epoch
from lab.engine.loop.inprocess import compile_kernels
from lab.engine.loop.job import Job
from lab.engine.windows import shared
from lab.stream.background import BackgroundTask

EPOCH_S = 1.0  # how often state is saved, and with that shown


class LocalEngine(BackgroundTask):
    """The engine's loop in a thread of this process: without Spark, hence without Java.

    State and checkpoint live as long as the thread.
    """

    def __init__(self, logs: Logs, settings: Settings, every_s: float):
        super().__init__("engine")
        compile_kernels()  # else the first events would wait for it
        self._logs, self._settings, self._every_s = logs, settings, every_s

    def steps(self) -> Iterator[float]:
        """Cuts, endlessly."""
        start_id = f"{os.getpid()}-{uuid4().hex[:8]}"
        with tempfile.TemporaryDirectory(prefix="lab-inside-") as checkpoint, ExitStack() as until_stopped:
            job = Job(self._settings, self._logs, checkpoint, start_id)
            until_stopped.callback(rmtree, shared.private_folder(start_id), ignore_errors=True)
            events, control = map(self._logs.feed, READ)
            planner = Planner(events, control, job.folder, self._settings)
            cuts, outlet = CutLog(job.folder, planner.mark_at_start_of_logs()), self._logs.outlet(start_id)
            while True:
                ends = time.monotonic() + EPOCH_S
                with running_epoch(job, planner, cuts, outlet.put) as running:
                    while time.monotonic() < ends:
                        took_cut = running.step()
                        running.pause(0)
                        yield 0 if took_cut else self._every_s
