"""Proposes a schema for records, and says what may be wrong with it.

orders.jsonl ──► the values at each path ──► fields, id, time ──► orders.toml, for people to correct
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from types import SimpleNamespace
from typing import Any, cast

from lab.model.alerts import utc_text
from lab.model.field import MAX_NAME, MAX_TEXT, Field
from lab.model.formatting import plain_text
from lab.model.jsontext import is_valid_unicode
from lab.model.schema import Schema
from lab.model.schemafile import schema_to_toml
from lab.model.times import NUMBERS, check_zone, is_shown_twice, local_to_utc_ms, time_ms
from lab.sources.csvcolumns import ColumnStyle
from lab.sources.idandtime import IdAndTimeChooser
from lab.sources.inferredfields import (
    FEW_VALUES,
    NO_ZONE,
    InferredField,
    Path,
    infer_type_and_unit,
    split_name,
)
from lab.sources.inferwords import PYTHON, InferWords
from lab.sources.order import TimeOrder
from lab.sources.sampledrecords import SampledRecords, read_sample, sampled_values

MANY_NAMES = 100  # in one object: they are data, not names
# names of fields that say nothing without that of the object around them
SAYING_NOTHING = [["id"], ["value"], ["name"], ["type"], ["code"], ["key"], ["number"]]
MAX_PARTS = 10  # of a path in its short name; beyond that, numbers make names unique
UNIT_WORDS = ("ms", "seconds", "minutes", "hours", "cents", "percent", "kg", "km")


@dataclass
class SchemaProposal:
    """A schema, and why it may be wrong; `id_fields` and `time_field` are empty if no field of the records can be the id or the time.

    `doubts`: about the whole schema, or about a field under its name; `found`: what the records have in each field.
    """

    name: str
    record_count: int
    format: str  # a name for people
    tombstones: str = ""  # how many records without a value were skipped, in words
    fields: tuple[Field, ...] = ()
    id_fields: tuple[str, ...] = ()
    time_field: str = ""
    doubts: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)  # why there is no id or no time
    found: dict[str, InferredField] = field(default_factory=dict)

    @property
    def doubt_count(self) -> int:
        return sum(map(len, self.doubts.values()))

    @cached_property
    def schema(self) -> Schema:
        """Raises ValueError if it lacks the id or the time."""
        if self.missing:
            raise ValueError("; ".join(self.missing))
        return Schema(self.name, self.fields, self.id_fields, self.time_field)

    def toml(self) -> str:
        """The file, for `lab.schema`, which refuses it as long as the id or the time is missing."""
        head = [
            f"Proposed by `lab infer` from {self.record_count:,} records ({self.format}). Rules use the names; paths say where records have the values. Correct both.",
            *(f"MISSING: {missing}" for missing in self.missing),
            *(f"doubt: {doubt}" for doubt in self.doubts.get("", ())),
        ]
        notes = {name: [f"doubt: {doubt}" for doubt in doubts] for name, doubts in self.doubts.items()}
        notes = {name: notes[name] + [note] * bool(note) for name, note in self.notes.items()}
        if self.missing:
            unfinished = SimpleNamespace(
                name=self.name,
                id_fields=self.id_fields or ("",),
                time_field=self.time_field,
                fields=self.fields,
                records=Schema.records,
                nan=Schema.nan,
                taken_back=Schema.taken_back,
                derived=Schema.derived,
                legs=Schema.legs,
            )
            return schema_to_toml(cast(Schema, unfinished), head, notes)
        return schema_to_toml(self.schema, head, notes)


def infer(
    lines: Any,
    name: str,
    *,
    texts: bool = False,
    format: str = "JSON lines",
    id: str | Sequence[str] = (),
    time: str = "",
    zone: str = "",
    styles: Mapping[str, ColumnStyle] = {},
    delimiter: str = ",",
    words: InferWords = PYTHON,
) -> SchemaProposal:
    """Proposes a schema for JSON lines, or the rows of a DataFrame or a list of dicts, from the first 50,000. Raises ValueError if none is a record.
    `texts`: all values are texts, as the cells of CSV are; `styles`: how its columns are written, by name; `delimiter`: what divides them; `id`, `time`: the field or fields of
    the id and that of the event time, by name or path; `zone`: of the clocks that times without a zone are on; `words`: in which messages
    say how to name them.
    """
    if zone:
        check_zone(zone)
    lines = _lines_of(lines)
    read = read_sample(lines, texts)
    found, records = read.fields, read.record_count
    if not records:
        raise ValueError(_no_records(read))
    proposal = SchemaProposal(re.sub(r"[^\w.-]+", "_", name) or "events", records, format, read.tombstones)
    whole = proposal.doubts.setdefault("", _doubts_about_records(read))
    typed = _typed(found, whole, styles)
    names = _names([one.path for one, *_ in typed], read.event_path or ())
    fields = {names[one.path]: _field(names[one.path], one, type, unit) for one, type, unit, _ in typed}
    for one, *_, doubts in typed:
        proposal.doubts[names[one.path]] = doubts
        proposal.notes[names[one.path]] = _note_about_nulls(one, records)
    by_name = {names[one.path]: one for one, *_ in typed}
    proposal.found = by_name
    chooser = IdAndTimeChooser(
        by_name,
        fields,
        records,
        proposal.doubts,
        lambda paths: sampled_values(lines, paths),
        words,
        delimiter,
    )
    proposal.id_fields = (
        chooser.resolve_id_fields([id] if isinstance(id, str) else id)
        if id
        else chooser.choose_id_fields(name, read.event_path or ())
    )
    proposal.time_field = (
        chooser.use_as_time_field(time)
        if time
        else chooser.choose_time_field(read.event_path, proposal.id_fields)
    )
    if read.event_path:
        at = fields[proposal.time_field].record_path if proposal.time_field else ()
        whole += read.envelope_doubts(at, words)
    proposal.missing = chooser.missing
    if zone:
        _use_zone(zone, fields, proposal)
    if proposal.time_field:
        _doubt_times(fields[proposal.time_field], proposal, lines, words)
    first = {role: fields[role] for role in (*proposal.id_fields, proposal.time_field) if role}
    proposal.fields = tuple((first | fields).values())
    return proposal


def _typed(
    found: dict[Path, InferredField], whole: list[str], styles: Mapping[str, ColumnStyle]
) -> list[tuple[InferredField, str, str, list[str]]]:
    """Each field with its type, unit and doubts; why others are left out is added to the doubts about the `whole`."""
    typed = []
    for one in _worth_a_field(found, whole):
        type, unit, doubts = infer_type_and_unit(one)
        if not type:
            whole.append(f"{'.'.join(one.path)} is left out: {doubts[0]}")
            continue
        style = styles.get(one.path[0]) or ColumnStyle()
        unit = unit or _unit_of(one, type, found, doubts) or (style.currency if type != "string" else "")
        typed.append((one, type, unit, [*style.doubts, *doubts]))
    return typed


def _lines_of(events: Any) -> Any:
    """Lines as they are; the rows of a table as lines."""
    if isinstance(events, list) and all(isinstance(line, bytes) for line in events[:1]):
        return events
    from lab.sources.rows import are_rows, source_of  # what they need, a page does not have

    return source_of(events) if are_rows(events) else events


def _field(name: str, one: InferredField, type: str, unit: str) -> Field:
    return Field(name, type, "", () if one.path == (name,) else one.path, unit, _examples(one, type, unit))


def _note_about_nulls(one: InferredField, records: int) -> str:
    if one.non_null_count == records:
        return ""
    return f"in {one.non_null_count:,} of {records:,} records, first in record {one.first_record:,}; null in the others"


def _doubts_about_records(read: SampledRecords) -> list[str]:
    doubts = []
    if reasons := read.bad_record_reasons:
        doubts.append(
            f"{len(reasons):,} records will be dead letters; the first, record {read.first_bad_record:,}: {reasons[0]}"
        )
    if read.tombstones:
        doubts.append(
            f"{read.tombstones} (records without a value) are skipped here; an engine makes dead letters of them"
        )
    return doubts


def _use_zone(zone: str, fields: dict[str, Field], proposal: SchemaProposal) -> None:
    """Makes times without a zone local ones."""
    for name, of in fields.items():
        if of.unit == "utc" and of.type == "time":
            fields[name] = replace(of, unit="local", zone=zone)
            proposal.doubts[name] = [doubt for doubt in proposal.doubts[name] if doubt != NO_ZONE]


def _doubt_times(time: Field, proposal: SchemaProposal, lines: Any, words: InferWords) -> None:
    """Counts the event times that clocks show twice or never, and doubts their order."""
    (values,) = sampled_values(lines, [time.record_path])
    shown = [ms for value in values if (ms := time_ms(value, time.unit)) is not None]
    doubts, zone = proposal.doubts[time.name], time.zone
    if zone:
        twice = sum(is_shown_twice(ms, zone) for ms in shown)
        never = sum(local_to_utc_ms(ms, zone) is None for ms in shown)
        if twice:
            doubts.append(
                f"clocks in {zone} show {twice:,} of the times twice, because they are turned back: they are read as the first of the two, "
                "so events of the second hour may be late"
            )
        if never:
            doubts.append(
                f"clocks in {zone} never show {never:,} of the times, because they are turned forward: these records will be dead letters"
            )
    if problem := TimeOrder().add_all(shown).problem():
        doubts.append(
            f"{problem}: rules need the order of time, so sort by {time.name} first, {words.sort.format(time.name)}"
        )


def unmatched_field_warnings(schema: Schema, lines: Iterable[bytes]) -> list[str]:
    """A warning for each field whose path none of 1,000 JSON records has."""
    read = read_sample(islice(lines, 1000), envelopes=False)
    known = {".".join(path) for path in read.fields}
    warnings = []
    for each in schema.fields if read.record_count else ():
        path = ".".join(each.record_path)
        if each.record_path not in read.fields:
            close = get_close_matches(path, known, n=1)
            guess = f", did you mean {close[0]}?" if close else ""
            warnings.append(f"field {each.name}: none of {read.record_count:,} records has {path}{guess}")
    return warnings


def _no_records(read: SampledRecords) -> str:
    wanted = "expected events as JSON, CSV with a header, or Parquet"
    if read.bad_record_reasons:
        return f"no record is an object; the first: {read.bad_record_reasons[0]}; {wanted}"
    only = f", only {read.tombstones} (records without a value)" if read.tombstones else ""
    return f"no records{only}; {wanted}"


def _worth_a_field(found: dict[Path, InferredField], doubts: list[str]) -> list[InferredField]:
    """The fields that a schema can have: no objects, nothing in an object with very many names, no texts that are too long."""
    below = Counter(path[:-1] for path in found)
    crowded = {path for path, count in below.items() if count > MANY_NAMES and path}
    for path in crowded:
        doubts.append(
            f"{'.'.join(path)} is left out: an object with {below[path]:,} names, which look like data"
        )
    fields = [
        one
        for path, one in found.items()
        if not one.kind_counts["object"] or one.non_null_count > one.kind_counts["object"]
        if not any(path[:length] in crowded for length in range(1, len(path)))
    ]
    for one in fields:
        if one.max_text_length > MAX_TEXT:
            doubts.append(
                f"{'.'.join(one.path)} is left out: it has strings of up to {one.max_text_length:,} characters; records with more "
                f"than {MAX_TEXT:,} in a field of the schema become dead letters"
            )
    return [one for one in fields if one.max_text_length <= MAX_TEXT]


def _unit_of(one: InferredField, type: str, found: dict[Path, InferredField], doubts: list[str]) -> str:
    """The unit that a name ends with, or an amount's currency, from a field in the same object."""
    last = (split_name(one.path[-1]) or [""])[-1]
    if last in UNIT_WORDS and type != "string":
        return last
    currency = found.get((*one.path[:-1], "currency"))
    if not currency or not currency.distinct_values or not type.startswith("decimal"):
        return ""
    several = sorted(filter(is_valid_unicode, map(str, currency.distinct_values)))
    if len(several) <= 1:
        return "".join(several)
    doubts.append(
        f"amounts in {', '.join(several[:5])}: group or filter by the currency, or sums will mix them"
    )
    return ""


def _names(paths: list[Path], event_path: Path) -> dict[Path, str]:
    """Short names: the last part of each path, with the object around it if it says nothing alone, and as many parts as make it unique.

    `event_path`: the object that is the event itself, which tells nothing more.

    >>> list(_names([("at",), ("payer", "id"), ("total", "value"), ("total", "currency")], ()).values())
    ['at', 'payer_id', 'total_value', 'currency']
    """

    def says_nothing(path: Path) -> bool:
        return path[:-1] != event_path and split_name(path[-1]) in SAYING_NOTHING

    def joined(path: Path, parts: int) -> str:
        return re.sub(r"[^\w.-]+", "_", "_".join(path[-parts:]))[:MAX_NAME] or "_"

    names = {path: joined(path, 1 + says_nothing(path)) for path in paths}
    for parts in range(2, min(max(map(len, paths), default=0), MAX_PARTS) + 1):
        taken = Counter(names.values())
        names = {path: joined(path, parts) if taken[name] > 1 else name for path, name in names.items()}
    taken, used = Counter(), set()
    for path, name in names.items():
        own = name
        while own in used:
            taken[name] += 1
            number = f"_{taken[name] + 1}"
            own = name[: MAX_NAME - len(number)] + number
        used.add(own)
        names[path] = own
    return names


def _examples(one: InferredField, type: str, unit: str) -> tuple[str, ...]:
    """Examples of a field's values: all values if a text or an integer has few, otherwise the first one."""
    few = one.distinct_values if type in ("string", "long") else None
    if few and 1 < len(few) <= FEW_VALUES and one.non_null_count >= 5 * len(few):
        return tuple(_example(value, type, unit) for value in sorted(few, key=str))
    wanted = unit if type == "time" else type.partition("(")[0]
    return (_example(one.examples.get(wanted, one.example), type, unit),)


def _example(value: object, type: str, unit: str) -> str:
    text = (
        value
        if isinstance(value, str)
        else plain_text(value).lower()
        if isinstance(value, bool)
        else plain_text(value)
    )
    text = text if len(text) <= 60 else text[:59] + "…"
    if type == "time" and unit in NUMBERS and (ms := time_ms(value, unit)) is not None:
        return f"{text} is {utc_text(ms)} UTC"
    return text
