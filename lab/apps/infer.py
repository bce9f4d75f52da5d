"""What are these events? Looks at records and proposes a schema, with its doubts in words.

orders.jsonl ──► what is found at each path ──► fields, id, time ──► orders.toml, for people to mend
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import islice

from lab.apps.found import TIME_WORDS, Found, Path, is_about, look_at, type_of, words_of
from lab.model.alerts import utc
from lab.model.field import Field
from lab.model.jsontext import MAX_LINE_BYTES, BadRecord, is_object, read_object, read_text
from lab.model.schema import ID_TYPES, MAX_ID, Schema
from lab.model.schemafile import to_toml
from lab.model.times import NUMBERS, time_ms
from lab.model.words import plain, shown

SAMPLE = 50_000  # records
FEW_VALUES = 20
MANY_NAMES = 100  # in one object: they are data, not names
COVERED = 0.9  # the least share of records that have the id and the time
ID_WORDS = ("id", "uuid", "guid", "key", "number", "nr", "no")
UNIT_WORDS = ("ms", "seconds", "minutes", "hours", "cents", "percent", "kg", "km")


@dataclass
class Proposal:
    """A schema, and why it may be wrong. `doubts`: of the whole, or of a field under its name."""

    schema: Schema
    records: int
    doubts: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def doubt_count(self) -> int:
        return sum(map(len, self.doubts.values()))

    def toml(self) -> str:
        """The file, for `lab.schema`."""
        head = [
            f"Proposed by `lab infer` from {self.records:,} records. Mend it: names are what rules say, paths where records have it.",
            *(f"doubt: {doubt}" for doubt in self.doubts.get("", ())),
        ]
        notes = {name: [f"doubt: {doubt}" for doubt in doubts] for name, doubts in self.doubts.items()}
        notes = {name: notes[name] + [note] * bool(note) for name, note in self.notes.items()}
        return to_toml(self.schema, head, notes)


def infer(lines: Iterable[bytes], name: str) -> Proposal:
    """Proposes a schema for JSON lines, from the first 50,000. Raises ValueError if no record can have an id and a time."""
    found, records, bad = _found(lines)
    if not records:
        raise ValueError(_no_records(bad))
    proposal = Proposal(None, records)
    whole = proposal.doubts.setdefault("", [])
    if bad:
        whole.append(f"{len(bad):,} lines are no JSON objects and will be dead letters; the first: {bad[0]}")
    typed: list[tuple[Found, str, str, list[str]]] = []
    for one in _worth_a_field(found, whole):
        type, unit, doubts = type_of(one)
        if not type:
            whole.append(f"{'.'.join(one.path)} is left out: {doubts[0]}")
            continue
        typed.append((one, type, unit or _unit_of(one, type, found, doubts), doubts))
    names = _names([one.path for one, *_ in typed])
    fields = {
        names[one.path]: Field(
            names[one.path],
            type,
            "",
            () if one.path == (names[one.path],) else one.path,
            unit,
            _examples(one, type, unit),
        )
        for one, type, unit, _ in typed
    }
    for one, *_, doubts in typed:
        proposal.doubts[names[one.path]] = doubts
        proposal.notes[names[one.path]] = (
            f"in {one.values:,} of {records:,} records, first in record {one.first:,}; null elsewhere"
            if one.values < records
            else ""
        )
    by_name = {names[one.path]: one for one, *_ in typed}
    id = _id_of(by_name, fields, records, name, proposal.doubts)
    time = _time_of(by_name, fields, records, proposal.doubts)
    ordered = {id: fields[id], time: fields[time]} | fields
    proposal.schema = Schema(re.sub(r"[^\w.-]+", "_", name) or "events", tuple(ordered.values()), id, time)
    return proposal


def unmatched(schema: Schema, lines: Iterable[bytes]) -> list[str]:
    """A warning for each field whose path none of 1,000 JSON records has."""
    found, records, _ = _found(islice(lines, 1000))
    known = {".".join(path) for path in found}
    warnings = []
    for each in schema.fields if records else ():
        path = ".".join(each.keys)
        if each.keys not in found:
            close = get_close_matches(path, known, n=1)
            guess = f", did you mean {close[0]}?" if close else ""
            warnings.append(f"field {each.name}: none of {records:,} records has {path}{guess}")
    return warnings


def _found(lines: Iterable[bytes]) -> tuple[dict[Path, Found], int, list[str]]:
    """What is at each path, how many records are objects, and why the others are none."""
    found: dict[Path, Found] = {}
    records, bad = 0, []
    for line in islice((line for line in lines if line.strip()), SAMPLE):
        try:
            text = read_text(line, "line", MAX_LINE_BYTES)
            if not is_object(text):
                raise BadRecord(f"{shown(text.strip())} is no JSON object")
            record = read_object(text)
        except BadRecord as error:
            bad.append(str(error))
            continue
        records += 1
        look_at(record, records, found)
    return found, records, bad


def _no_records(bad: list[str]) -> str:
    if not bad:
        return "no records, expected JSON lines: one object a line"
    hint = "objects over several lines become that with `jq -c .`, CSV with a header with pandas; a JSON list is read as it is"
    return f"no line is a JSON object, the first: {bad[0]}; expected JSON lines: one object a line ({hint})"


def _worth_a_field(found: dict[Path, Found], doubts: list[str]) -> list[Found]:
    """What is no object, and not in an object of countless names."""
    below = Counter(path[:-1] for path in found)
    crowded = {path for path, count in below.items() if count > MANY_NAMES and path}
    for path in crowded:
        doubts.append(
            f"{'.'.join(path)} is left out: an object of {below[path]:,} names, which look like data"
        )
    return [
        one
        for path, one in found.items()
        if not one.kinds["object"] or one.values > one.kinds["object"]
        if not any(path[: len(outer)] == outer for outer in crowded)
    ]


def _unit_of(one: Found, type: str, found: dict[Path, Found], doubts: list[str]) -> str:
    """The unit that a name ends with, or the currency beside an amount."""
    last = (words_of(one.path[-1]) or [""])[-1]
    if last in UNIT_WORDS and type != "string":
        return last
    currency = found.get((*one.path[:-1], "currency"))
    if not currency or not currency.different or not type.startswith("decimal"):
        return ""
    several = sorted(map(str, currency.different))
    if len(several) == 1:
        return several[0]
    doubts.append(
        f"amounts in {', '.join(several[:5])}: group or filter by the currency, else a sum mixes them"
    )
    return ""


def _names(paths: list[Path]) -> dict[Path, str]:
    """Short names: the last of each path, and as much before it as tells it from others."""

    def joined(path: Path, parts: int) -> str:
        return re.sub(r"[^\w.-]+", "_", "_".join(path[-parts:])) or "_"

    names = {path: joined(path, 1) for path in paths}
    for parts in range(2, max(map(len, paths), default=0) + 1):
        taken = Counter(names.values())
        names = {path: joined(path, parts) if taken[name] > 1 else name for path, name in names.items()}
    taken = Counter()
    for path, name in names.items():
        taken[name] += 1
        names[path] = f"{name}_{taken[name]}" if taken[name] > 1 else name
    return names


def _examples(one: Found, type: str, unit: str) -> tuple[str, ...]:
    """All values of a text or a number that has few, else the first one."""
    few = one.different if type in ("string", "long") else None
    if few and 1 < len(few) <= FEW_VALUES and one.values >= 5 * len(few):
        return tuple(_example(value, type, unit) for value in sorted(few, key=str))
    return (_example(one.example, type, unit),)


def _example(value: object, type: str, unit: str) -> str:
    text = (
        value if isinstance(value, str) else plain(value).lower() if isinstance(value, bool) else plain(value)
    )
    text = text if len(text) <= 60 else text[:59] + "…"
    if type == "time" and unit in NUMBERS:
        return f"{text} is {utc(time_ms(value, unit))} UTC"
    return text


def _id_of(found: dict[str, Found], fields: dict[str, Field], records: int, events: str, doubts: dict) -> str:
    """The field that tells events apart; of several the one that sounds most like it."""
    singular = events.lower().rstrip("s")

    def rank(name: str) -> tuple:
        one = found[name]
        own = singular in "".join(one.path).lower()
        return one.values < records, repeated(name) > 0, not is_about(one, ID_WORDS), not own, len(one.path)

    def repeated(name: str) -> int:
        one = found[name]
        return one.values - len(one.different) if one.different else one.values

    possible = [
        name
        for name, one in found.items()
        if fields[name].type in ID_TYPES and one.values >= COVERED * records and one.longest <= MAX_ID
        if repeated(name) <= (1 - COVERED) * records or is_about(one, ID_WORDS)
    ]
    if not possible:
        raise ValueError(
            "no field tells the records apart: an id is an integer or a text that all records have"
        )
    id = min(possible, key=rank)
    if repeated(id):
        doubts[id].insert(
            0,
            f"this is the id, but {repeated(id):,} records repeat one: with the same time they are duplicates",
        )
    if missing := records - found[id].values:
        doubts[id].insert(0, f"this is the id, but {missing:,} records have none and will be dead letters")
    return id


def _time_of(found: dict[str, Found], fields: dict[str, Field], records: int, doubts: dict) -> str:
    """The field that says when; of several the one that sounds most like it."""
    possible = [
        name for name, one in found.items() if fields[name].type == "time" and one.values >= COVERED * records
    ]
    if not possible:
        for name, one in found.items():  # numbers that are times although their name does not say so
            if fields[name].type == "long" and one.unit in NUMBERS and one.values >= COVERED * records:
                fields[name] = replace(fields[name], type="time", unit=one.unit)
                doubts[name].append(
                    f"taken as times in {one.unit} since the epoch because nothing else is a time"
                )
                possible.append(name)
    if not possible:
        raise ValueError(
            "no field says when: an event time is ISO 8601 text, or a number of s, ms, us or ns since the epoch, that all records have"
        )

    def rank(name: str) -> tuple:
        one = found[name]
        return (
            one.values < records,
            not is_about(one, TIME_WORDS[:4]),
            not is_about(one, TIME_WORDS),
            len(one.path),
        )

    time = min(possible, key=rank)
    if others := [name for name in possible if name != time]:
        doubts[time].insert(0, f"this is the event time; {', '.join(others[:5])} could be it as well")
    if missing := records - found[time].values:
        doubts[time].insert(
            0, f"this is the event time, but {missing:,} records have none and will be dead letters"
        )
    return time
