"""`lab infer`: a proposal for the schema of a file of events. `lab spec`: the logs for other programs."""

import argparse
import sys
from importlib import metadata
from pathlib import Path

from lab.apps.run import Usage
from lab.cli import replay
from lab.cli.options import add_command, add_config_option, place
from lab.logs.places import KAFKA
from lab.model.schema import PAYMENTS


def add_commands(commands) -> None:
    """Adds `lab infer` and `lab spec` to the command line."""
    _infer(commands)
    _spec(commands)


def _spec(commands) -> None:
    def run(options: argparse.Namespace) -> None:
        import yaml

        from lab.model.spec import asyncapi

        page = asyncapi(options.schema or PAYMENTS, metadata.version("lab"))
        print(yaml.safe_dump(page, sort_keys=False, allow_unicode=True, width=110), end="")

    add_command(
        commands,
        "spec",
        run,
        "print what is in the logs: an AsyncAPI page with a JSON Schema for each",
        """\
example:
  lab spec --schema orders.toml > orders-asyncapi.yaml
""",
    )


def _infer(commands) -> None:
    command = add_command(
        commands,
        "infer",
        run,
        "propose a schema for a file of events",
        """\
example:
  lab infer orders.jsonl --out orders.toml
  lab replay orders.jsonl --schema orders.toml --rules rules.txt

The proposal names id and event time, and for each field its path in the records, type, unit and an example. Read it:
what may be wrong is a comment that begins with "doubt". Then give it to any command as --schema.
""",
        schema=False,
    )
    command.add_argument("events", type=place, help=replay.EVENTS.replace(" or CSV", ""))
    add_config_option(command)
    command.add_argument("--out", type=Path, metavar="FILE", help="written, unless it is there (the screen)")


def run(options: argparse.Namespace) -> None:
    """Writes the proposal, and says what it is."""
    from lab.apps.infer import infer
    from lab.apps.sources import source_at
    from lab.logs.config import found

    if options.out and options.out.exists():
        raise Usage(f"{options.out} is there and may have been mended by hand: remove it, or name another")
    name = options.events.rstrip("/").rpartition("/")[2]
    if not options.events.startswith(KAFKA):
        name = name.removesuffix(".gz").rpartition(".")[0] or name
    source = source_at(options.events, found(options.config))
    try:
        proposal = infer(source, name)
    except ValueError as error:
        raise ValueError(f"{options.events}: {error}") from None
    schema = proposal.schema
    if options.out:
        options.out.write_text(proposal.toml(), "utf-8")
    else:
        print(proposal.toml(), end="")
    time = schema.field(schema.time_field)
    print(
        f"{len(schema.fields)} fields from {proposal.records:,} records; id {schema.id_field}, time {time.name} ({time.unit}), "
        f"{proposal.doubt_count} doubts{f': read {options.out}' if options.out else ''}",
        file=sys.stderr,
    )
