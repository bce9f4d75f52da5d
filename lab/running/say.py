"""The messages of a service: sentences on a terminal, or one JSON object per line on stdout."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime

from rich.console import Console

from lab.model.formatting import escape_control_characters


def compile_window_loop(say: Callable[[str], None]) -> None:
    """Compiles the window loop unless it is compiled, and says so: after an installation this takes a minute."""
    from lab.engine.compiled.codecache import COMPILING, is_window_loop_cached

    if not is_window_loop_cached():
        from lab.engine.loop.inprocess import compile_kernels

        say(COMPILING)
        compile_kernels()


def print_warning(text: str) -> None:
    """Prints a warning of a command, whatever characters it has, to stderr."""
    print(f"lab: warning: {escape_control_characters(text)}", file=sys.stderr)


class OutputLost(RuntimeError):
    """The messages of a service cannot be written any more, because a disk is full or their reader has ended."""


class MessagePrinter:
    """Prints each message once, as text or as JSON.

    >>> MessagePrinter(as_json=True)("stopped", "stopped after 3 s", seconds=3)  # doctest: +ELLIPSIS
    {"time": "...Z", "event": "stopped", "message": "stopped after 3 s", "seconds": 3}
    """

    def __init__(self, as_json: bool = False):
        self._console = None if as_json else Console(stderr=True, highlight=False, soft_wrap=True)

    def __call__(self, event: str, message: str, **fields: object) -> None:
        """`event` is one of a few words; `fields` are numbers and texts beside it, for machines."""
        if self._console:
            self._console.print(escape_control_characters(message, "\n"), markup=False)
            return
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = json.dumps({"time": time, "event": event, "message": message, **fields})
        try:
            print(line, file=sys.stdout, flush=True)
        except OSError as error:
            sys.stdout = None  # nobody flushes it again
            raise OutputLost(
                f"standard output: {error.strerror}, so nobody would read what the engine says; started again, it continues"
            ) from None
