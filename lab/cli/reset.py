"""`lab reset`: returns the clone to its initial state, for the next class."""

import argparse
import sys

from lab.cli.options import Subparsers, add_command
from lab.running.target import Usage


def add_command_to(commands: Subparsers) -> None:
    """Adds `lab reset` to the command line."""

    def run(options: argparse.Namespace) -> None:
        from lab.teach import reset

        plan = reset.plan_reset()
        print(plan or "Lessons, logs and checkpoints are in their initial state.")
        print("forget the solved exercises")
        if not options.yes and not _agreed():
            raise Usage("nothing was changed: answer y, or use --yes")
        print(reset.carry_out_reset(plan))

    command = add_command(
        commands,
        "reset",
        run,
        "reset the lessons, logs, checkpoints and progress of this clone; lists the changes and asks first",
        """\
It keeps your own files: notebooks, files in a log's folder that lab did not write, and stumble logs.
""",
        schema=False,
    )
    command.add_argument("--yes", action="store_true", help="do not ask")


def _agreed() -> bool:
    print("Make these changes? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
