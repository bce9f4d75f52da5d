"""`lab class report`: where a class stumbled, from the logs that learners handed in."""

import argparse
from pathlib import Path

from lab.cli.options import add_command

WORST = 5  # exercises that are listed below the table


def add_commands(commands) -> None:
    """Adds `lab class` to the command line."""

    def run(options: argparse.Namespace) -> None:
        from rich.console import Console
        from rich.table import Table

        from lab.teach import titles
        from lab.teach.report import page, read, table, worst

        learners, named = read(options.folder), titles()
        columns, rows = table(learners)
        shown = Table(*columns, title="Wrong answers and errors by lesson (–: not all solved)")
        for row in rows:
            shown.add_row(*row)
        console = Console(highlight=False)
        console.print(shown, markup=False)
        for name, tries, solved, tried, said in worst(learners)[:WORST]:
            often = f": {said[0][0]}" if said else ""
            told = f"{name} {named.get(name, '')}, {tries} tries, {solved} of {tried} solved it{often}"
            console.print(told, markup=False, soft_wrap=True)
        options.out.write_text(page(learners, named))
        Console(stderr=True, highlight=False).print(f"the whole as a page: {options.out}", markup=False)

    group = commands.add_parser("class", help="for instructors: where did the class stumble?").add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    command = add_command(
        group,
        "report",
        run,
        "make a heat map of a class's logs of stumbles, learners by exercises",
        """\
example:
  lab class report handed-in --out class.html

Learners who want to take part run lab.log_stumbles() in a notebook; it says where their file is. They hand that in.
""",
        schema=False,
    )
    command.add_argument(
        "folder", type=Path, help="with files stumbles-….jsonl, also in folders of their own"
    )
    command.add_argument(
        "--out", type=Path, default=Path("class.html"), metavar="FILE", help="the page (%(default)s)"
    )
