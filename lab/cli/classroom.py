"""`lab class report`: what a class solved and where it stumbled, from the logs that learners handed in."""

import argparse
from pathlib import Path

from lab.cli.options import Subparsers, add_command, add_group, write_output

WORST = 5  # exercises that are listed below the table


def add_commands(commands: Subparsers) -> None:
    """Adds `lab class` to the command line."""

    def run(options: argparse.Namespace) -> None:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        from lab.model.words import escape_control_characters
        from lab.teach import lesson_and_exercise_titles
        from lab.teach.report import class_page, class_table, hardest_exercises, read_class_report

        found, named = read_class_report(options.folder), lesson_and_exercise_titles()
        learners = found.learners
        columns, rows = class_table(learners)
        shown = Table(title="Wrong answers and errors by lesson (–: not all solved)")
        for name in columns:
            shown.add_column(Text(escape_control_characters(name)))
        for row in rows:
            shown.add_row(*map(Text, map(escape_control_characters, row)))
        console = Console(highlight=False)
        console.print(shown, markup=False)
        for hard in hardest_exercises(learners)[:WORST]:
            title = f"{hard.exercise} {named.get(hard.exercise, '')}"
            often = f": {hard.frequent_messages[0][0]}" if hard.frequent_messages else ""
            told = f"{title}, {hard.failed_tries} tries, {hard.solved_by} of {hard.tried_by} solved it{often}"
            console.print(escape_control_characters(told), markup=False, soft_wrap=True)
        for sentence in found.problems:
            console.print(escape_control_characters(sentence), markup=False, soft_wrap=True)
        write_output(options.out, [class_page(found, named)])
        Console(stderr=True, highlight=False).print(f"the full report is in {options.out}", markup=False)

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
