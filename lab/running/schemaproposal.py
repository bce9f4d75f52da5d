"""A proposed schema as a file, with a summary for people at a terminal. Used by `lab infer`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from lab.logs.config import load_config
from lab.model.schemafile import MAX_BYTES
from lab.running.outputfile import write_output
from lab.running.target import Usage
from lab.sources.infer import infer
from lab.sources.inferwords import COMMAND
from lab.sources.sources import source_at


def propose_schema(
    events_place: str,
    schema_file: Path | None = None,
    *,
    id_fields: Sequence[str] = (),
    time_field: str = "",
    zone: str = "",
    config_file: Path | None = None,
) -> None:
    """Writes or prints the proposal, and summarises it on stderr. `id_fields`, `time_field`: guessed if they are left out.
    `zone`: of the clocks that times without a zone are on; UTC if it is left out.

    Raises Usage if the file exists, and ValueError if the proposal lacks an id or a time.
    """
    if schema_file and schema_file.exists() and not lacks_id_or_time(schema_file):
        raise Usage(
            f"{schema_file} already exists and may have been edited by hand: remove it, or name another file"
        )
    name = events_place.rstrip("/").rpartition("/")[2]
    if "://" not in events_place:
        name = name.removesuffix(".gz").rpartition(".")[0] or name
    source = source_at(events_place, load_config(config_file))
    try:
        proposal = infer(
            source,
            name,
            texts=source.texts,
            format=source.format,
            id=list(id_fields),
            time=time_field,
            zone=zone,
            styles=source.styles,
            delimiter=source.delimiter,
            words=COMMAND,
        )
    except ValueError as error:
        raise ValueError(f"{events_place}: {error}") from None
    if schema_file:
        write_output(schema_file, [proposal.toml()])
    else:
        print(proposal.toml(), end="")
    if proposal.missing:
        where = f"{schema_file} is written, but incomplete" if schema_file else "the schema is incomplete"
        raise ValueError(f"{where}: {'; '.join(proposal.missing)}")
    schema = proposal.schema
    time = schema.field(schema.time_field)
    skipped = f", {proposal.tombstones} skipped" if proposal.tombstones else ""
    print(
        f"{len(schema.fields)} fields from {proposal.record_count:,} records{skipped}; id {', '.join(schema.id_fields)}, time {time.name} ({time.unit}), "
        f"{proposal.doubt_count} doubt{'s' * (proposal.doubt_count != 1)}{f': read {schema_file}' if schema_file else ''}",
        file=sys.stderr,
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
