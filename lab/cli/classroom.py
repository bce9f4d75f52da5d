"""`lab class report`: what a class solved and where it stumbled, from the logs that learners handed in."""

import argparse
from pathlib import Path

from lab.cli.options import Subparsers, add_command, add_group


def add_commands(commands: Subparsers) -> None:
    """Adds `lab class` to the command line."""

    def run(options: argparse.Namespace) -> None:
        from lab.teach.report import print_class_report

        print_class_report(options.folder, options.out)

    group = add_group(commands, "class", "for instructors: report where a class had trouble")
    command = add_command(
        group,
        "report",
        run,
        "check a class's hand-ins again, and make one page of who solved what",
        """\
example:
  lab class report handed-in --out class.html

Learners who want to take part run lab.log_stumbles() in a notebook before their first check, and lab.hand_in() at the end:
that writes the file that they give to you. Right answers in it are checked again; nothing in it is run as code.
""",
        schema=False,
    )
    command.add_argument(
        "folder", type=Path, help="folder with the files hand-in-….jsonl, also in subfolders"
    )
    command.add_argument(
        "--out", type=Path, default=Path("class.html"), metavar="FILE", help="the page to write (%(default)s)"
    )
