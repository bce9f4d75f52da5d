"""`lab rescale` and `lab state`: a checkpoint from the command line."""

import argparse
import json
from collections.abc import Sequence

from lab.cli.options import add_command, at_least, name_and_value


def add_commands(commands) -> None:
    """Adds `lab rescale` and `lab state` to the command line."""
    _rescale(commands)
    _state(commands)


def _rescale(commands) -> None:
    def run(options: argparse.Namespace) -> None:
        from rich.console import Console

        from lab.state.rescale import COLUMNS, rescale

        console = Console(stderr=True, highlight=False)
        done = rescale(options.checkpoint, options.to, dry_run=options.dry_run)
        console.print(text_table(COLUMNS, done.table()), markup=False, soft_wrap=True)
        console.print(done.summary(), markup=False, soft_wrap=True)
        print(json.dumps(done.to_dict()))

    command = add_command(
        commands,
        "rescale",
        run,
        "change the parallelism of a stopped engine",
        """\
example:
  lab rescale logs/checkpoint --to 4 --dry-run
  lab rescale logs/checkpoint --to 4

Nothing is moved: other tasks read the files from now on. The last line of the output is one JSON object.
""",
        schema=False,
    )
    command.add_argument("checkpoint", help="the engine's folder, as in `lab run --checkpoint`")
    command.add_argument(
        "--to", type=at_least(1), required=True, metavar="N", help="partitions, at most key-groups"
    )
    command.add_argument("--dry-run", action="store_true", help="only tell what would move")


def _state(commands) -> None:
    def run(options: argparse.Namespace) -> None:
        from lab.state import read as state

        key = dict(options.key or ())
        if key:
            for event in state.events_of(options.checkpoint, key, batch=options.batch):
                print(json.dumps(event))
            return
        found = state.read_state(options.checkpoint, batch=options.batch)
        if options.json:
            print(json.dumps(found.to_dict()))
            return
        for rule in found.rules:
            print(f"{rule.rule_id:6}  v{rule.version:<3} {rule.state:7} {rule.describe()}")
        print(text_table(state.COLUMNS, found.table()))
        print(found.summary())

    command = add_command(
        commands,
        "state",
        run,
        "show what an engine remembers: rules, key-groups, one key's events",
        """\
example:
  lab state logs/checkpoint
  lab state logs/checkpoint --key payeeId=25 --key beneficiaryId=12       an event a line, as JSON

Nothing is changed: it works while the engine runs, too.
""",
        schema=False,
    )
    command.add_argument("checkpoint", help="the engine's folder, as in `lab run --checkpoint`")
    command.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    command.add_argument(
        "--key", action="append", type=name_and_value, metavar="FIELD=VALUE", help="show its events"
    )
    command.add_argument(
        "--batch", type=at_least(0), metavar="N", help="after this micro-batch (the last one)"
    )


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for terminals, columns to the right.

    >>> print(text_table(("name", "bytes"), [("a", "1,000")]))
    name  bytes
       a  1,000
    """
    widths = [max(map(len, column)) for column in zip(header, *rows)]
    return "\n".join("  ".join(map(str.rjust, row, widths)) for row in (header, *rows))
