"""Cleaning up after a process that was killed, also with SIGKILL: nothing in it runs any more, so another one waits for its end."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# the end of its input without a word means that the process at the other end of the pipe is gone
WAIT = 'read -r word || exec "$@"'


@contextmanager
def run_if_killed(*command: str) -> Iterator[None]:
    """Runs a command if this process ends within the block without leaving it. Signals of its terminal do not reach the command.

    >>> with run_if_killed("rm", "-r", "/tmp/a-folder-of-this-process"):
    ...     pass
    """
    with subprocess.Popen(
        ["sh", "-c", WAIT, "sh", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        bufsize=0,
    ) as waiting:
        try:
            yield
        finally:
            assert waiting.stdin
            with suppress(BrokenPipeError):  # somebody killed it
                waiting.stdin.write(b"done\n")
