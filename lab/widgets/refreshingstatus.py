"""The heartbeat of live widgets: one task on the kernel's own loop refreshes them, so that no thread touches a widget.

engine, player (threads, processes) ──► logs ──► RefreshingStatus.refresh_now: read, refresh, beat ──► browser: all is well
                                                         no beat for some seconds ──► browser: says so by itself
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import anywidget
import traitlets

from lab.model.language import say, translated
from lab.widgets.look import CSS

GOOD, WARNING, BAD = "good", "warning", "bad"
EVERY_S = 0.5
State = tuple[str, str]  # kind, text
SILENT = "No sign of the kernel for {seconds} s: it is busy or has stopped. The page shows its last state."


class RefreshingStatus(anywidget.AnyWidget):
    """Calls `refresh` functions twice a second and shows what `state` says; the browser notices when that ends.

    >>> status = RefreshingStatus([], lambda: (GOOD, "running"))
    >>> status.refresh_now()
    >>> status.text, status.beat
    ('running', 1)
    """

    _esm, _css = Path(__file__).with_name("pulse.js"), CSS
    beat = traitlets.Int(0).tag(sync=True)
    beating = traitlets.Bool(False).tag(sync=True)
    text = traitlets.Unicode().tag(sync=True)
    silent = traitlets.Unicode().tag(sync=True)  # what the browser says of so many {seconds} without a beat
    kind = traitlets.Unicode(WARNING).tag(sync=True)
    patience_s = traitlets.Int(5).tag(sync=True)

    def __init__(self, refresh: Sequence[Callable[[], object]], state: Callable[[], State]):
        super().__init__(text=say("not started"), silent=say(SILENT))
        self._refresh, self._state = refresh, state
        self._task: asyncio.Task | None = None

    def refresh_now(self) -> None:
        """One beat. What a widget raises is shown, and the others go on."""
        failed: State | None = None
        for refresh in self._refresh:
            try:
                refresh()
            except Exception as error:  # noqa: BLE001  (a broker that went away, say)
                failed = _failure(error)
        try:
            self.kind, self.text = failed or self._state()
        except Exception as error:  # noqa: BLE001  (a Java that was killed, say: without a beat nobody would see it)
            self.kind, self.text = _failure(error)
        self.beat += 1

    def start(self) -> None:
        """Beats until `stop`, where there is a loop: in a notebook, not in a plain program."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self.stop()
        self.beating, self._task = True, loop.create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            self.refresh_now()
            await asyncio.sleep(EVERY_S)

    def stop(self) -> None:
        """Stops the beats; the last state stays visible."""
        if self._task:
            self._task.cancel()
        self.beating, self._task = False, None


def _failure(error: Exception) -> State:
    return BAD, f"{type(error).__name__}: {translated(str(error))}"
