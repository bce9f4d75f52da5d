"""Background work: in a thread or, in a web page without threads, as a task of the event loop."""

import asyncio
import sys
from collections.abc import Iterator
from threading import Event, Thread
from typing import Self

HAS_THREADS = sys.platform != "emscripten"


class BackgroundTask:
    """Runs its `steps` until they end or `stop` is called. An exception in a step also ends it; `error` keeps it.

    >>> class Count(BackgroundTask):
    ...     def steps(self):
    ...         for self.number in (1, 2, 3):
    ...             yield 0
    >>> count = Count("count")
    >>> count.start()
    >>> count.join()
    >>> count.number, count.is_alive()
    (3, False)
    """

    def __init__(self, name: str):
        self.error: Exception | None = None
        self._stopping = Event()
        self._task: asyncio.Task | None = None
        self._thread = Thread(target=self.run, daemon=True, name=name)

    def steps(self) -> Iterator[float]:
        """A generator: each iteration does a step and yields the seconds until the next one."""
        raise NotImplementedError

    def start(self) -> None:
        """Starts. Without threads it needs a running event loop."""
        if HAS_THREADS:
            self._thread.start()
        else:
            self._task = asyncio.get_running_loop().create_task(self._run_in_loop())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run(self) -> None:
        """Runs all steps in the calling thread."""
        try:
            for wait_s in self.steps():
                if self._stopping.wait(wait_s):
                    break
        except Exception as error:  # noqa: BLE001  (for example a full disk: observers must see it)
            self.error = error

    async def _run_in_loop(self) -> None:
        try:
            for wait_s in self.steps():
                await asyncio.sleep(wait_s)
                if self._stopping.is_set():
                    break
        except Exception as error:  # noqa: BLE001
            self.error = error

    def is_alive(self) -> bool:
        """Whether it has started and not ended."""
        return self._thread.is_alive() if HAS_THREADS else self._task is not None and not self._task.done()

    def join(self, timeout_s: float | None = None) -> None:
        """Waits for its end, at most `timeout_s`. Without threads it returns at once; the task ends after its step."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def stop(self) -> None:
        """Ends it after the current step, if it has started."""
        self._stopping.set()
        self.join()
