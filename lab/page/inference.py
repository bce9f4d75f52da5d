"""A schema for somebody's own events in the page, by the beginning of their file: what `lab infer` proposes, and what else could be the id or the time."""

import io
import json
import re
from codecs import BOM_UTF8
from collections import Counter
from dataclasses import asdict
from itertools import islice
from typing import Any

from lab.model.field import MAX_NAME, Field
from lab.model.schema import ID_TYPES, MAX_ID, Schema
from lab.page.reader import Reader
from lab.sources.csvfile import delimiter_and_first_row
from lab.sources.csvrows import read_rows
from lab.sources.idandtime import ID_WORDS
from lab.sources.infer import SchemaProposal, infer
from lab.sources.inferredfields import NEARLY_ALL, TIME_WORDS, InferredField, name_begins_or_ends_with

SAMPLE = 5_000  # records
MOST_MISFITS = 0.01  # of the records of a file of a known schema

ONE_LIST = "The file is one JSON list; expected one record per line: jq -c '.[]' makes lines of it."
NO_RECORD = "No record could be read; expected JSON, one object per line, or CSV with a header."
NO_TIME = "No event time: no field of all records is a time, as ISO 8601 text or as a number of s, ms, us or ns since the epoch."
MISSING = "no record has {fields}"
NO_ID = "No id: no column has a different value in each row."


def inferred(name: str, beginning: Any, is_whole: bool, known: str) -> str:
    """What the beginning of a file says of its events: JSON of `{schema, known, ids, times, skip, texts}`, or of `{error}`.

    `beginning`: JavaScript's bytes; `known`: JSON of the schemas that the page knows, of which it names one that fits. `ids`, `times`:
    names of fields that can be each, the best first; `skip`: bytes of the header; `texts`: fields that are numbers only to people.
    """
    data = beginning.to_bytes()
    lines = data.removeprefix(BOM_UTF8).split(b"\n")
    if not is_whole:
        lines.pop()
    first = next(filter(bytes.strip, lines), b"")
    try:
        match first.lstrip()[:1]:
            case b"[":
                raise ValueError(ONE_LIST)
            case b"{":
                return json.dumps(_of_json(name, lines[:SAMPLE], json.loads(known)))
        skip = data.index(first) + len(first) + 1
        return json.dumps(_of_csv(name, lines[lines.index(first) :]) | {"skip": skip})
    except ValueError as error:
        return json.dumps({"error": str(error)})


def _of_json(name: str, lines: list[bytes], known: list[dict]) -> dict[str, Any]:
    proposal = _proposal(name, lines)
    found = _found(proposal)
    line = "line.number" if "line" in proposal.found else "line"  # each record has a number
    found["schema"] |= {"records": "json"}
    found["schema"]["fields"].append(asdict(Field(line, "long")) | {"virtual": True})
    found["ids"].append(line)
    objects = [each for each in lines if each.strip()]
    misfits = {each["name"]: _misfit(each, proposal, objects) for each in known}
    fits = (name for name, reason in misfits.items() if reason is None)
    return found | {"known": next(fits, None), "misfits": misfits, "skip": 0}


def _of_csv(name: str, lines: list[bytes]) -> dict[str, Any]:
    text = io.TextIOWrapper(io.BytesIO(b"\n".join(lines)), "utf-8", errors="surrogateescape", newline="")
    delimiter, header = delimiter_and_first_row(lines[0].decode(errors="surrogateescape"))
    columns = [
        cell if cell and header.count(cell) == 1 else f"column {number}"
        for number, cell in enumerate(header, 1)
    ]
    rows = (cells for _, cells in islice(read_rows(text, delimiter), 1, SAMPLE))
    records = (
        json.dumps({column: cell or None for column, cell in zip(columns, cells)}).encode()
        for cells in rows
        if isinstance(cells, list) and len(cells) == len(columns)
    )
    proposal = _proposal(name, [*records], texts=True)
    found = _found(proposal)
    if not found["ids"]:
        raise ValueError(NO_ID)
    by_column = {field.record_path: field for field in proposal.fields}
    fields = {column: by_column.get((column,)) for column in columns}
    for column in columns:  # those about which nothing is known are texts
        other = re.sub(r"[^\w.-]+", "_", column)[: MAX_NAME // 2]
        while not fields[column] and other in {field.name for field in fields.values() if field}:
            other += "_"
        fields[column] = fields[column] or Field(other, "string", path=(column,))
    found["schema"] |= {"records": "csv", "delimiter": delimiter}
    found["schema"]["fields"] = [asdict(field) for field in fields.values() if field]
    return found


def _proposal(name: str, lines: list[bytes], texts: bool = False) -> SchemaProposal:
    try:
        return infer(lines, name, texts=texts)
    except ValueError:
        raise ValueError(NO_RECORD) from None


def _found(proposal: SchemaProposal) -> dict[str, Any]:
    """The fields, and what of them can be the id or the time: those that all records have, of the id with different values."""
    fields, count = {field.name: field for field in proposal.fields}, proposal.record_count
    complete = {name: one for name, one in proposal.found.items() if one.non_null_count == count}
    times = [name for name in complete if fields[name].type == "time"] or [proposal.time_field]
    if times == [""]:
        raise ValueError(NO_TIME)
    ids = [
        name
        for name, one in complete.items()
        if fields[name].type in ID_TYPES and one.max_text_length <= MAX_ID
        if len(one.distinct_values or ()) == count
    ]
    if len(proposal.id_fields) > 1:
        ids.append(", ".join(proposal.id_fields))

    def best_first(names: list[str], chosen: str, words: tuple[str, ...]) -> list[str]:
        return sorted(
            names,
            key=lambda name: (
                name != chosen,
                name in complete and not name_begins_or_ends_with(complete[name], words),
            ),
        )

    return {
        "schema": {
            "name": proposal.name,
            "fields": [asdict(field) for field in proposal.fields],
            "nan": Schema.nan,
        },
        "ids": best_first(ids, ", ".join(proposal.id_fields), ID_WORDS),
        "times": best_first(times, proposal.time_field, TIME_WORDS),
        "texts": [
            name
            for name, one in proposal.found.items()
            if fields[name].type == "string" and _are_numbers(one)
        ],
    }


def _are_numbers(one: InferredField) -> bool:
    """Whether texts are numbers as people write them, such as 12,50 or € 3."""
    numbers = one.fitting_counts["decimal"] + one.written_number_count
    return one.written_number_count > 0 and numbers >= NEARLY_ALL * one.non_null_count


def _misfit(known: dict, proposal: SchemaProposal, lines: list[bytes]) -> str | None:
    """Why records are no events of a known schema: None if they have its fields where it says, and nearly all of them are read under it."""
    reader, paths = Reader(json.dumps(known)), {one.path for one in proposal.found.values()}
    needed = [field for field in reader.schema.fields if field.name not in known["optional"]]
    if missing := [field.label for field in needed if field.record_path not in paths]:
        return MISSING.format(fields=", ".join(missing))
    read = (reader.values(line, Counter()) for line in lines)
    reasons = [each for each in read if isinstance(each, str)]
    no_objects = len(lines) - proposal.record_count
    return reasons[-1] if len(reasons) - no_objects > MOST_MISFITS * proposal.record_count else None
