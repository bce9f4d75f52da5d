"""The engine in a thread of this process: for notebooks and rooms that have no Java."""

from collections.abc import Iterator

import pandas  # noqa: F401  (loaded before the engine's thread does it: plotly looks at it half loaded)

from lab.engine.ends import FileLogs
from lab.engine.settings import Settings
from lab.engine.stages import Stages, compile_kernels
from lab.stream.background import Background


class Inside(Background):
    """The engine's own stages on file logs in a thread of this process: micro-batches without Spark, hence without Java.

    Nothing is durable: state lives as long as the thread.
    """

    def __init__(self, logs: FileLogs, settings: Settings, every_s: float):
        super().__init__("engine")
        compile_kernels()  # else the first events would wait for it
        self._logs, self._settings, self._every_s = logs, settings, every_s

    def steps(self) -> Iterator[float]:
        """Micro-batches, endlessly."""
        with Stages(self._settings, self._logs) as stages:
            while True:
                yield self._every_s
                while stages.step():
                    for name, lines in stages.out.items():
                        self._logs.log(name).append(lines)
                    stages.out.clear()
