"""`lab.alerts`: rules over the events of a table, and their alerts as a table of the same library.

DataFrame ──► schema, proposed if there is none ──► replay in this process ──► a row for each alert ──► DataFrame
"""

import json
import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.engine.checkpoint.settings import Settings
from lab.model import schemafile
from lab.model.alerts import WITHDRAWN_LINE, Alert, Withdrawal, event_and_group_hash, parse_alert_line
from lab.model.rules import Rule
from lab.model.schema import Schema
from lab.past.badrows import check_bad_rows, tell_bad_rows
from lab.past.eventwarnings import event_warnings
from lab.past.replay import NothingRead, check_rules, replay
from lab.past.rulemessages import rule_messages, warn_of_hints
from lab.sources.infer import SchemaProposal, infer
from lab.sources.inferredfields import NO_ZONE
from lab.sources.order import rows_advice
from lab.sources.rows import is_table, source_of
from lab.sources.sources import EventSource

if TYPE_CHECKING:
    import pyarrow as pa

AnySchema = (
    Schema | SchemaProposal | str | Path | None
)  # one, a proposal, a name, a path; None: one is proposed


def alerts(
    events: Any,
    rules: Any,
    schema: AnySchema = None,
    *,
    bad_rows: str = "raise",
    checkpoint: str | Path | None = None,
) -> Any:
    """The alerts that rules raise at the events of a table, as a table of the same library: a row for each.

    They are those of `lab.replay`, in the order of event time, event id and rule id. It needs no Java, unless the DataFrame is Spark's.

    `events`: a DataFrame of pandas, polars or Spark (batch; its rows come to this process), a table of pyarrow or whatever else gives
    Arrow's C stream, a list or iterator of dicts, or a path as `lab.replay` takes it. The order of the rows is the order in which they
    arrived: an event that comes after newer ones of its group is late, so sort by time what is not sorted. The table is not changed.
    `rules`: a sentence, a message of JSON, a dict, a `Rule`, a path to a file of rules, or a list of them. A sentence without an id
    gets its place in the list as its id.
    `schema`: a Schema, what `lab.infer` gives, the name of one ("payments"), or a path; None: as `lab infer` proposes it for the first
    50,000 rows, with a warning if the id, the time or a field that the rules name is doubtful.
    `bad_rows`: "raise": a row that is no event is a ValueError; "warn": it is left out, with a warning (`BadRows`).
    `checkpoint`: a folder, for a streaming DataFrame of Spark only, which also needs a schema. The result is then a running
    `lab.past.alertstream.AlertStream`: its `alerts` is a streaming DataFrame, and `publish` changes rules while it runs.

    The columns have the names of an alert's JSON: alertId, ruleId, ruleVersion, key, `group.NAME` for each grouping field, aggregate,
    operator, limit, what the rules' alerts carry (severity, title, `labels.NAME`, conditions, `event.NAME`), eventId (of several
    fields `eventId.NAME`), eventTime and, if events can be taken back, withdrawn. Amounts are exact decimals; times are in UTC.
    A list of dicts gives a list of dicts, which are the JSON; a path gives a pandas DataFrame.

    >>> events = [{"id": n, "at": 1714557600000 + n, "card": "a", "amount": 30 * n} for n in range(1, 4)]
    >>> [(alert["eventId"], alert["aggregate"]) for alert in alerts(events, "SUM(amount) per card over 1 h > 80")]
    [(2, '90'), (3, '180')]
    """
    check_bad_rows(bad_rows)
    if getattr(events, "isStreaming", False) is True:
        return _of_stream(events, rules, schema, checkpoint)
    if checkpoint is not None:
        raise ValueError(
            "a checkpoint is for a streaming DataFrame of Spark; finished events are read from their beginning each time: leave it out"
        )
    source, known = with_schema(events, schema)
    if known is None:
        return _as_given(events, [], (), None)
    messages = rule_messages(rules, known)
    book = check_rules(messages, known)
    in_force = book.sorted()
    warn_of_hints(book, in_force)
    warn_of_fields(source, in_force)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingRead)  # `tell_bad_rows` says it
        result = replay(source, messages, engine="local", settings=Settings(known))
    tell_bad_rows(
        bad_rows,
        [(each["place"], each["reason"]) for each in result.dead_letters],
        result.events,
        source,
        known,
    )
    for warning in event_warnings(source, in_force, known, rows_advice, missing_paths=False):
        warnings.warn(warning, stacklevel=2)
    for warning in result.routes.warnings():
        warnings.warn(
            f"{warning}; the order of the rows counts: sort them by {known.time_field}", stacklevel=2
        )
    return _as_given(events, result.alert_lines, in_force, known)


def _of_stream(events: Any, rules: Any, schema: AnySchema, checkpoint: Any) -> Any:
    """What `alerts` gives for a streaming DataFrame."""
    if checkpoint is None:
        raise ValueError(
            "a streaming DataFrame, expected also the folder where its engine keeps its state: checkpoint=…"
        )
    if schema is None:
        raise ValueError(
            "a streaming DataFrame, expected also its schema, which cannot be proposed before events have come: schema=…; "
            'of earlier events in a file: lab.infer(path, "NAME").schema'
        )
    from lab.past.alertstream import alert_stream  # which loads Spark

    return alert_stream(events, rules, _schema_of(schema), checkpoint)


# -- what is given -----------------------------------------------------------------------------------------------------


def with_schema(events: Any, given: AnySchema) -> tuple[EventSource, Schema | None]:
    """The events as those of a schema: the given one, or one that is proposed; None if there are no events to propose one for."""
    if given is not None:
        schema = _schema_of(given)
        return source_of(events, schema), schema
    source = source_of(events)
    if source.schema or not len(source):
        return source, source.schema
    name = re.sub(r"(\.[A-Za-z]+)*$", "", Path(events).name) if isinstance(events, str | Path) else "events"
    proposal = infer(
        source,
        name,
        texts=source.texts,
        format=source.format,
        styles=source.styles,
        delimiter=source.delimiter,
    )
    if proposal.missing:
        raise ValueError(
            f"no schema was given, and none can be proposed: {'; '.join(proposal.missing)}. Name them in "
            'schema=lab.infer(events, "events", id="NAME", time="NAME").schema'
        )
    schema = proposal.schema
    chosen = ("", *schema.id_fields, schema.time_field)
    if doubts := [doubt for name in chosen for doubt in proposal.doubts.get(name, ()) if doubt != NO_ZONE]:
        warnings.warn(
            f"the schema is proposed (id {', '.join(schema.id_fields)}, time {schema.time_field}), with doubts: {'; '.join(doubts)}. "
            "schema=… says what is right",
            stacklevel=3,
        )
    source = source.for_schema(schema)
    source.doubts = {name: doubts for name, doubts in proposal.doubts.items() if name not in chosen}
    return source, schema


def _schema_of(given: Schema | SchemaProposal | str | Path) -> Schema:
    """A schema as callers give it: itself, a proposal, the name of one, or a path. Raises ValueError, OSError."""
    match given:
        case Schema():
            return given
        case SchemaProposal():
            return given.schema
    return schemafile.schema(given)


def warn_of_fields(source: EventSource, rules: Iterable[Rule]) -> None:
    """Warns of fields that rules name: those that the table lacks, which are null, and those that a proposed schema doubts."""
    if source.schema is None:
        return
    columns = getattr(source, "columns", None)
    in_records = {field.name for field in source.schema.fields}
    for name in dict.fromkeys(
        name for rule in rules for name in (*rule.field_names, *rule.event_fields) if name in in_records
    ):
        if columns is not None and (column := source.schema.field(name).record_path[0]) not in columns:
            warnings.warn(
                f"no column {column}, which rules name: it counts as null in each row", stacklevel=3
            )
        if doubts := [doubt for doubt in source.doubts.get(name, ()) if doubt != NO_ZONE]:
            warnings.warn(
                f"the schema is proposed, with doubts about {name}, which rules name: {'; '.join(doubts)}. schema=… says what is right",
                stacklevel=3,
            )


def is_list_of_rows(events: Any) -> bool:
    """Whether events are dicts or lines in memory, and no table, path or source."""
    return not is_table(events) and not isinstance(events, str | Path | EventSource)


# -- what comes out ----------------------------------------------------------------------------------------------------


def _as_given(events: Any, lines: Sequence[str], rules: Sequence[Rule], schema: Schema | None) -> Any:
    """Alerts as whatever the events came in."""
    if is_list_of_rows(events):
        withdrawn = _withdrawn(lines, schema)
        rows = [json.loads(line) for line in _standing(lines)]
        return (
            [row | {"withdrawn": was} for row, was in zip(rows, withdrawn)] if withdrawn is not None else rows
        )
    from lab.sources.tables import table_like  # which loads pyarrow

    ids = [f"eventId.{name}" for name in schema.event_id_fields] if schema else []
    found = alert_table(lines, rules, schema)
    return table_like(events, found, ("ruleId", "ruleVersion", "eventId", *ids))


def alert_table(lines: Sequence[str], rules: Sequence[Rule], schema: Schema | None) -> "pa.Table":
    """A table of Arrow with a row for each alert among the lines of a log, of these rules; `schema`: None: of no events."""
    from lab.past.alertcolumns import alert_columns  # which loads pyarrow

    return alert_columns(_standing(lines), rules, schema, _withdrawn(lines, schema))


def _standing(lines: Iterable[str]) -> list[str]:
    """The lines that are alerts."""
    return [line for line in lines if not line.startswith(WITHDRAWN_LINE)]


def _withdrawn(lines: Iterable[str], schema: Schema | None) -> list[bool] | None:
    """Of each alert, whether its event was taken back afterwards; None if none can be."""
    return withdrawn_flags(map(parse_alert_line, lines)) if schema and schema.taken_back else None


def withdrawn_flags(lines: Iterable[Alert | Withdrawal]) -> list[bool]:
    """Of each alert among the lines of a log, whether its event was taken back afterwards."""
    withdrawn: list[bool] = []
    before: dict[bytes, list[int]] = {}
    for line in lines:
        at = event_and_group_hash(line)
        if isinstance(line, Alert):
            before.setdefault(at, []).append(len(withdrawn))
            withdrawn.append(False)
            continue
        for number in before.pop(at, ()):
            withdrawn[number] = True
    return withdrawn
