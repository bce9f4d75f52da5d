"""`lab reset`: the clone as on the first day, for the next class."""

import argparse
import sys

from lab.apps.run import Usage
from lab.cli.options import add_command


def add_command_to(commands) -> None:
    """Adds `lab reset` to the command line."""

    def run(options: argparse.Namespace) -> None:
        from lab.teach import reset

        plan = reset.plan()
        print(plan or "Lessons, logs and checkpoints are as on the first day.")
        print("forget which exercises are solved")
        if not options.yes and not _agreed():
            raise Usage("nothing was changed: answer y, or say --yes")
        print(reset.reset(plan))

    command = add_command(
        commands,
        "reset",
        run,
        "put lessons, logs, checkpoints and progress of this clone back; says what goes, and asks",
        """\
What is yours stays: notebooks of your own, files in a log's folder that lab did not write, logs of stumbles.
""",
        schema=False,
    )
    command.add_argument("--yes", action="store_true", help="do not ask")


def _agreed() -> bool:
    print("All this? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
