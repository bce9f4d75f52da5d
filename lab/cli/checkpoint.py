"""`lab rescale`, `lab reprocess` and `lab state`: a checkpoint from the command line."""

import argparse
import json
import sys

from lab.cli.options import Subparsers, add_command, at_least, parse_name_and_value
from lab.model.formatting import text_table


def add_commands(commands: Subparsers) -> None:
    """Adds `lab rescale`, `lab reprocess` and `lab state` to the command line."""
    _rescale(commands)
    _reprocess(commands)
    _state(commands)


def _rescale(commands: Subparsers) -> None:
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

No data is moved: from now on, other tasks read the files. The last line of the output is one JSON object.
""",
        schema=False,
    )
    command.add_argument("checkpoint", help="the engine's checkpoint, as in `lab run --checkpoint`")
    command.add_argument(
        "--to",
        type=at_least(1),
        required=True,
        metavar="N",
        help="the new parallelism, at most the number of key-groups",
    )
    command.add_argument("--dry-run", action="store_true", help="only show what would move")


def _reprocess(commands: Subparsers) -> None:
    def run(options: argparse.Namespace) -> None:
        from lab.state.reprocess import reprocess

        done = reprocess(options.checkpoint)
        print(done.summary(), file=sys.stderr)
        print(json.dumps(done.to_dict()))

    command = add_command(
        commands,
        "reprocess",
        run,
        "let a restored copy of a checkpoint continue from where it was copied",
        """\
example, with the engine stopped:
  rm -r logs/checkpoint
  cp -a logs/checkpoint.copy logs/checkpoint
  lab reprocess logs/checkpoint
  lab run --logs logs

`lab run` refuses a restored copy that does not know what its engine has delivered since. After this command, the engine reads and
evaluates everything since the copy again: it repeats alerts, with the same alertId unless another version gave them.
""",
        schema=False,
    )
    command.add_argument("checkpoint", help="the engine's checkpoint, as in `lab run --checkpoint`")


def _state(commands: Subparsers) -> None:
    def run(options: argparse.Namespace) -> None:
        from lab.state import read as state

        key = dict(options.key or ())
        if key:
            events = state.stored_events_of_key(options.checkpoint, key, epoch=options.epoch)
            for event in events:
                print(json.dumps(event))
            if names := state.fields_shown_as_digests(events[-1], options.checkpoint) if events else ():
                print(
                    f"{', '.join(names)}: state files have only digests of texts, which are shown; the texts are in the events log "
                    "(docs/state-files.md)",
                    file=sys.stderr,
                )
            return
        found = state.read_state(options.checkpoint, epoch=options.epoch)
        if options.json:
            print(json.dumps(found.to_dict()))
            return
        for rule in found.rules:
            print(f"{rule.rule_id:6}  v{rule.version:<3} {rule.state:7} {rule.describe()}")
        print(text_table(state.COLUMNS, found.table()))
        print(found.summary())
        print(found.cost())

    command = add_command(
        commands,
        "state",
        run,
        "show an engine's state: rules, key-groups, or one key's events",
        """\
example:
  lab state logs/checkpoint
  lab state logs/checkpoint --key payeeId=25 --key beneficiaryId=12       one event per line, as JSON

The command changes nothing and also works while the engine runs.
""",
        schema=False,
    )
    command.add_argument("checkpoint", help="the engine's checkpoint, as in `lab run --checkpoint`")
    command.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    command.add_argument(
        "--key",
        action="append",
        type=parse_name_and_value,
        metavar="FIELD=VALUE",
        help="show the events of this key",
    )
    command.add_argument(
        "--epoch",
        type=at_least(0),
        metavar="N",
        help="the state after this epoch (the last one that is saved)",
    )
