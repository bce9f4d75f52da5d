"""Records that the compiled reader leaves, read by the kit's own Python; and what that reader has to know of a schema.

lines ──► scan_lines of lab.page.loop ──► columns
               └── what it leaves ──► Reader ──► values, or a reason
"""

import base64
import csv
import io
import json
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields
from fractions import Fraction
from functools import cached_property
from typing import Any

import lab.page.withoutnumpy  # noqa: F401  # the compiled reader's module comes after it
from lab.engine.compiled.scan import FAILED
from lab.engine.records.expected import expected_members
from lab.model.derived import Derivation, read_derivations
from lab.model.field import Field, Value
from lab.model.jsontext import MAX_LINE_BYTES, BadRecord, decode_text
from lab.model.schema import Schema
from lab.sources.csvrows import read_row

NO_RETURNS = "taken_back: the page takes no events back; lab run and lab replay do"
LINE = ("\0",)  # where records have their own number: no text in JSON that is read fast has this name


class NumberedSchema(Schema):
    """Of records that have no id: the number of a record is it, which only the page knows, so that nothing is derived from it."""

    @cached_property
    def derivations(self) -> tuple[Derivation, ...]:
        recorded = tuple(field for field in self.fields if field.record_path != LINE)
        return read_derivations(self.derived, recorded, self.time_field)

    def _check_id(self, field: Field, value: Value) -> None:
        if field.record_path != LINE:
            super()._check_id(field, value)


def schema_of_page(given: dict[str, Any]) -> Schema:
    """The schema without what only the page knows of it, such as the separator of its CSV."""

    def known(of: type, values: dict[str, Any]) -> dict[str, Any]:
        return {each.name: values[each.name] for each in fields(of) if each.name in values}

    members = [
        known(Field, each) | ({"path": LINE} if each.get("virtual") else {}) for each in given["fields"]
    ]
    is_numbered = any(each.get("virtual") for each in given["fields"])
    return (NumberedSchema if is_numbered else Schema).from_dict(known(Schema, given) | {"fields": members})


def described(given: dict[str, Any]) -> dict[str, Any]:
    """A schema as JavaScript takes it: `more` are the fields that it derives. Raises ValueError.

    >>> from lab.model.schema import LOGINS
    >>> [field["name"] for field in described(LOGINS.to_dict() | {"derived": [["day", "date(eventTime)"]]})["more"]]
    ['day']
    """
    schema = schema_of_page(given)
    if schema.taken_back:
        raise ValueError(NO_RETURNS)
    more = [asdict(schema.field(name)) for name in schema.names[len(schema.fields) :]]
    return given | {"more": more}


def exact(number: Value | Fraction, places: int = 0) -> dict[str, str]:
    """A number in units of its last of so many digits after the point."""
    return {"$": str(int(Fraction(number or 0) * 10**places))}


def pack_int64s(numbers: Sequence[int]) -> str:
    return pack(struct.pack(f"<{len(numbers)}q", *map(int, numbers)))


def pack(data: bytes) -> str:
    """Bytes as JavaScript unpacks them: `bytesOf`."""
    return base64.b64encode(data).decode()


class Reader:
    """Reads records of a schema, given as JSON."""

    def __init__(self, schema: str):
        given = json.loads(schema)
        self.schema, self.delimiter = schema_of_page(given), given.get("delimiter")

    def tables(self) -> str:
        """What the compiled reader has to know, as the arrays of `lab.page.loop.Lines`, in base64."""
        schema, expected = self.schema, expected_members(self.schema)
        # zones, and rows before they changed, are for the kit's own Python
        is_left = schema.operation_field is not None or any(field.zone for field in schema.fields)
        separator = ord(self.delimiter) if self.delimiter else expected.separator
        about = [
            expected.take_nan,
            expected.take_objects and not is_left,
            FAILED if is_left else separator,
            expected.long_time,
            schema.names.index(schema.time_field),
            len(schema.fields) if self.delimiter else 0,
        ]
        ids = [schema.names.index(name) for name in schema.id_fields]
        names = ("names", "members", "objects", "fields")
        tables = {name: pack(getattr(expected, name).tobytes()) for name in names}
        ids = [n for n in ids if schema.fields[n].record_path != LINE]
        return json.dumps(tables | {"about": pack_int64s(about), "ids": pack_int64s(ids)})

    def read(self, lines: Any) -> str:
        """Of each of some lines the values of its events, or why it has none; and how many values were NaN or the like. `lines`: JavaScript's bytes."""
        nan: Counter[str] = Counter()
        read = [self.values(line, nan) for line in lines.to_bytes().split(b"\n")]
        return json.dumps({"read": read, "nan": nan.total()})

    def values(self, line: bytes, nan: Counter[str]) -> list[list] | str:
        """The values of the events of a line, numbers in units of their last digit; or why it has none."""
        try:
            events = self.schema.events(self._as_record(line), nan)
        except BadRecord as error:
            return str(error)
        return [[self._exact(name, event[name]) for name in self.schema.names] for event in events]

    def _exact(self, name: str, value: Value) -> Any:
        field = self.schema.field(name)
        return exact(value, field.scale) if field.is_number_or_time and value is not None else value

    def _as_record(self, line: bytes) -> bytes:
        """A row of a file with a header as one that a schema reads. Raises BadRecord."""
        if not self.delimiter:
            return line
        text, wanted = decode_text(line, "line", MAX_LINE_BYTES), len(self.schema.fields)
        cells = read_row(text, self.delimiter)
        if isinstance(cells, str):
            raise BadRecord(cells)
        if len(cells) != wanted:
            raise BadRecord(f"{len(cells)} cells, but the header has {wanted}: {text[:200]}")
        row = io.StringIO()
        csv.writer(row, lineterminator="").writerow(cells)
        return row.getvalue().encode()
