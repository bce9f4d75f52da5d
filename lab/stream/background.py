"""Work that goes on beside everything else: in a thread, or where there are none, in a page, as a task of its loop."""

import asyncio
import sys
from collections.abc import Iterator
from threading import Event, Thread

HAS_THREADS = sys.platform != "emscripten"


class Background:
    """Does its `steps` until they end, or until `stop`; `error` is what a step raised, which ends it, too.

    >>> class Count(Background):
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
        """Does a step and gives the seconds until the next one, again and again."""
        raise NotImplementedError

    def start(self) -> None:
        """Begins. Where there are no threads, it needs a running loop."""
        if HAS_THREADS:
            self._thread.start()
        else:
            self._task = asyncio.get_running_loop().create_task(self._run_in_loop())

    def run(self) -> None:
        """All steps, here and now."""
        try:
            for wait_s in self.steps():
                if self._stopping.wait(wait_s):
                    break
        except Exception as error:  # noqa: BLE001  (a full disk, say: whoever watches must know)
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
        """Whether it has begun and not ended."""
        return self._thread.is_alive() if HAS_THREADS else self._task is not None and not self._task.done()

    def join(self, timeout_s: float | None = None) -> None:
        """Waits until it has ended, so long at most; without threads it ends by itself, after its step."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def stop(self) -> None:
        """Ends it after its step, if it has begun."""
        self._stopping.set()
        self.join()
