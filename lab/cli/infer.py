"""`lab infer`: a proposal for the schema of a file of events. `lab spec`: the logs for other programs."""

import argparse
from importlib import metadata
from pathlib import Path

from lab.cli import replay
from lab.cli.options import Subparsers, add_command, add_config_option, parse_log_place
from lab.model.schema import PAYMENTS


def add_commands(commands: Subparsers) -> None:
    """Adds `lab infer` and `lab spec` to the command line."""
    _infer(commands)
    _spec(commands)


def _spec(commands: Subparsers) -> None:
    def run(options: argparse.Namespace) -> None:
        import yaml

        from lab.model.spec import asyncapi_document

        page = asyncapi_document(options.schema or PAYMENTS, metadata.version("rules-lab"))
        print(yaml.safe_dump(page, sort_keys=False, allow_unicode=True, width=110), end="")

    add_command(
        commands,
        "spec",
        run,
        "print an AsyncAPI document that describes the logs, with a JSON Schema for each",
        """\
example:
  lab spec --schema orders.toml > orders-asyncapi.yaml
""",
    )


def _infer(commands: Subparsers) -> None:
    command = add_command(
        commands,
        "infer",
        run,
        "propose a schema for a file of events",
        """\
example:
  lab infer orders.jsonl --out orders.toml
  lab infer orders.csv --id receipt --time sold_at --out orders.toml
  lab replay orders.jsonl --schema orders.toml --rules rules.txt

The proposal names the id and the event time, and for each field its path in the records, type, unit and an example. Read it:
comments that begin with "doubt" mark what may be wrong. Then pass the file to any command as --schema.

The beginning of a file decides its format: JSON lines, a list of objects (also inside an object: {"Records": [...]}), objects
over several lines, CSV with a header (separated by , ; tab or |) or Parquet. Each may also be compressed with gzip.
""",
        schema=False,
    )
    command.add_argument("events", type=parse_log_place, help=replay.EVENTS)
    add_config_option(command)
    command.add_argument(
        "--id",
        default="",
        metavar="NAMES",
        help="the field that is the id, or several separated by commas (a guess)",
    )
    command.add_argument(
        "--time", default="", metavar="NAME", help="the field that is the event time (a guess)"
    )
    command.add_argument(
        "--zone", default="", metavar="ZONE", help="zone of times that have none, such as Europe/Berlin (UTC)"
    )
    command.add_argument(
        "--out", type=Path, metavar="FILE", help="file to write; it must not exist yet (the screen)"
    )


def run(options: argparse.Namespace) -> None:
    """Proposes a schema for the events that the options name."""
    from lab.running.schemaproposal import propose_schema

    propose_schema(
        options.events,
        options.out,
        id_fields=[name for name in options.id.split(",") if name],
        time_field=options.time,
        zone=options.zone,
        config_file=options.config,
    )
