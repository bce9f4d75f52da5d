"""Shows under a slow cell that it is running, and for how long.

cell begins ──3 s──► "Running for 4 s …" ──every 2 s──► "Running for 12 s …" ──end──► "This cell took 13 s."
"""

import sys
import threading
import time
from typing import Any

from lab.model.language import say

QUIET_S, EVERY_S = 3.0, 2.0


class CellTimer:
    """Shows below a cell how long it has been running; IPython calls `before_cell` and `after_cell` around each cell."""

    def __init__(self, show: Any):
        self._show = show  # as IPython.display.display: text and display_id give a handle with `update`
        self._ended, self._telling = threading.Event(), threading.Thread()

    def before_cell(self, *_: object) -> None:
        """A cell begins."""
        self._ended = threading.Event()
        self._telling = threading.Thread(
            target=self._show_time, args=(self._ended,), name="clock", daemon=True
        )
        self._telling.start()

    def after_cell(self, *_: object) -> None:
        """Notes that the cell has ended, and shows its time before the next cell begins."""
        self._ended.set()
        if self._telling.is_alive():
            self._telling.join(EVERY_S)

    def _show_time(self, ended: threading.Event) -> None:
        began = time.monotonic()
        if ended.wait(QUIET_S):
            return

        def passed() -> str:
            return f"{time.monotonic() - began:.0f}"

        handle = self._show(SmallText(say("Running for {seconds} s …", seconds=passed())), display_id=True)
        while not ended.wait(EVERY_S):
            handle.update(SmallText(say("Running for {seconds} s …", seconds=passed())))
        handle.update(SmallTextReadAloud(say("This cell took {seconds} s.", seconds=passed())))


class SmallText(str):
    """A line of text that a notebook shows in small print."""

    aria_attributes = ""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f'<small{self.aria_attributes} style="opacity:.75">{self}</small>'


class SmallTextReadAloud(SmallText):
    """One that is also read aloud, unlike those that change every two seconds."""

    aria_attributes = ' role="status" aria-live="polite"'


_clock: CellTimer | None = None


def running_time() -> None:
    """From the next cell on, each that takes longer than three seconds says so while it runs. In a notebook only."""
    global _clock
    from IPython import get_ipython
    from IPython.display import display

    shell = get_ipython()
    if shell is None or _clock is not None or sys.platform == "emscripten":  # a browser has no threads
        return
    _clock = CellTimer(display)
    shell.events.register("pre_run_cell", _clock.before_cell)
    shell.events.register("post_run_cell", _clock.after_cell)
