"""`lab infer`: a proposal for the schema of a file of events. `lab spec`: the logs for other programs."""

import argparse
import sys
from importlib import metadata
from pathlib import Path

from lab.apps.target import Usage
from lab.cli import replay
from lab.cli.options import Subparsers, add_command, add_config_option, parse_log_place, write_output
from lab.logs.places import KAFKA
from lab.model.schema import PAYMENTS
from lab.model.schemafile import MAX_BYTES


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
        "--out", type=Path, metavar="FILE", help="file to write; it must not exist yet (the screen)"
    )


def lacks_id_or_time(schema_file: Path) -> bool:
    """Whether a file is a proposed schema that still lacks its id or time."""
    if not schema_file.is_file():
        return False
    with schema_file.open("rb") as opened:
        lines = opened.read(MAX_BYTES).decode(errors="replace").splitlines()
    return any(line.startswith("# MISSING: ") for line in lines) and (
        'id = ""' in lines or 'time = ""' in lines
    )


def run(options: argparse.Namespace) -> None:
    """Writes the proposal and summarises it."""
    from lab.apps.infer import infer
    from lab.apps.sources import source_at
    from lab.logs.config import load_config

    if options.out and options.out.exists() and not lacks_id_or_time(options.out):
        raise Usage(
            f"{options.out} already exists and may have been edited by hand: remove it, or name another file"
        )
    name = options.events.rstrip("/").rpartition("/")[2]
    if not options.events.startswith(KAFKA):
        name = name.removesuffix(".gz").rpartition(".")[0] or name
    source = source_at(options.events, load_config(options.config))
    try:
        proposal = infer(
            source,
            name,
            texts=source.texts,
            format=source.format,
            id=[name for name in options.id.split(",") if name],
            time=options.time,
        )
    except ValueError as error:
        raise ValueError(f"{options.events}: {error}") from None
    if options.out:
        write_output(options.out, [proposal.toml()])
    else:
        print(proposal.toml(), end="")
    if proposal.missing:
        where = f"{options.out} is written, but incomplete" if options.out else "the schema is incomplete"
        raise ValueError(f"{where}: {'; '.join(proposal.missing)}")
    schema = proposal.schema
    time = schema.field(schema.time_field)
    skipped = f", {proposal.tombstones} skipped" if proposal.tombstones else ""
    print(
        f"{len(schema.fields)} fields from {proposal.record_count:,} records{skipped}; id {', '.join(schema.id_fields)}, time {time.name} ({time.unit}), "
        f"{proposal.doubt_count} doubt{'s' * (proposal.doubt_count != 1)}{f': read {options.out}' if options.out else ''}",
        file=sys.stderr,
    )
