"""The engine in a thread of this process: for notebooks and control rooms without Java."""

import tempfile
import time
from collections.abc import Iterator

import pandas  # noqa: F401  (loaded before the engine's thread does it: plotly looks at it half loaded)

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.ends import Logs
from lab.engine.loop.inprocess import compile_kernels
from lab.engine.loop.local import local_loop
from lab.stream.background import BackgroundTask

EPOCH_S = 1.0  # how often state is saved, and with that shown


class LocalEngine(BackgroundTask):
    """The engine's loop in a thread of this process.

    State and checkpoint live as long as the thread.
    """

    def __init__(self, logs: Logs, settings: Settings, every_s: float):
        super().__init__("engine")
        compile_kernels()  # else the first events would wait for it
        self._logs, self._settings, self._every_s = logs, settings, every_s

    def steps(self) -> Iterator[float]:
        """Cuts, endlessly."""
        with (
            tempfile.TemporaryDirectory(prefix="lab-inside-") as checkpoint,
            local_loop(self._logs, self._settings, checkpoint) as loop,
        ):
            while True:
                ends = time.monotonic() + EPOCH_S
                with loop.epoch() as running:
                    while time.monotonic() < ends:
                        took_cut = running.step()
                        running.pause(0)
                        yield 0 if took_cut else self._every_s
