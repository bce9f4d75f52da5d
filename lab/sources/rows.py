"""Events that a program has in memory: rows as dicts, lines of a log, or a table (`lab.sources.tables`).

[{"id": 1, "at": datetime(…)}, …]  ──► an object a line ──┐
pandas, polars, pyarrow, Spark     ──► Arrow's columns ───┴──► EventSource
"""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import IOBase
from pathlib import Path
from typing import Any
from uuid import UUID

from lab.model.field import Field
from lab.model.jsontext import text_of_bytes
from lab.model.schema import Schema
from lab.model.times import EPOCH, NUMBERS
from lab.sources.records import TAKEN
from lab.sources.sources import EventSource, source_at

TABLES = ("pandas", "polars", "pyarrow", "pyspark")  # libraries


def source_of(events: Any, schema: Schema | None = None) -> EventSource:
    """The events of whatever has them, for a schema. Raises TypeError for what has none, ValueError for what cannot be read.

    >>> list(source_of([{"id": 1, "amount": Decimal("2.50")}]))
    [b'{"id": 1, "amount": 2.5}']
    """
    if isinstance(events, EventSource):
        return events
    if isinstance(events, str | Path):
        return source_at(events, schema=schema)
    if is_table(events):
        from lab.sources.tables import TableSource  # which loads pyarrow

        return TableSource(events, schema)
    check_rows(events)
    return RowSource(events, schema)


def is_table(events: Any) -> bool:
    """Whether it is a table of a library, or gives its columns as Arrow's C stream."""
    return hasattr(events, "__arrow_c_stream__") or type(events).__module__.partition(".")[0] in TABLES


def are_rows(events: Any) -> bool:
    """Whether it is a table or a list of dicts, not a list of lines."""
    return is_table(events) or (isinstance(events, list) and any(isinstance(row, dict) for row in events[:1]))


def check_rows(events: Any) -> None:
    """Raises TypeError, which says what to pass, for what would give no rows: an open file, one text, one dict, an unknown table."""
    if isinstance(events, IOBase):
        raise TypeError(
            "an open file, expected its path: the beginning of a file decides its format: Path(name) or lab.source_at(path, schema=…)"
        )
    if isinstance(events, bytes):
        raise TypeError("one text, expected a list of lines, as in a log: text.splitlines()")
    name = type(events).__name__
    if hasattr(events, "columns"):
        raise TypeError(
            f"a {name}, which lab does not know, expected {TAKEN}; if it has to_pandas(), pass that"
        )
    if isinstance(events, dict) or not isinstance(events, Iterable):
        raise TypeError(f"a {name}, expected {TAKEN}; of one event, a list: [event]")


class RowSource(EventSource):
    """Rows as dicts, or as lines of JSON; of an iterator all rows are taken at once. The rows stay as they are.

    A datetime is written as its field in the schema wants it: without a schema as ISO 8601, with Z if it has a zone.
    """

    format = "rows"

    def __init__(self, rows: Iterable[Any], schema: Schema | None = None):
        self._rows, self.schema = rows if isinstance(rows, list) else list(rows), schema
        self.record_format = "json" if any(isinstance(row, dict) for row in self._rows[:1]) else None
        fields = schema.fields if schema else ()
        self._times = {
            field.record_path[0]: field
            for field in fields
            if field.type == "time" or (schema and field.name == schema.time_field)
            if len(field.record_path) == 1
        }

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[bytes]:
        for number, row in enumerate(self._rows):
            if isinstance(row, dict):
                yield self._line(row, number)
            elif isinstance(row, str | bytes):
                yield (row if isinstance(row, bytes) else row.encode()).rstrip(b"\r\n").replace(b"\n", b"\r")
            else:
                raise TypeError(f"row {number}: {type(row).__name__}, expected a dict or a line of JSON")

    def place(self, index: int) -> str:
        """`row 0`, as in Python."""
        return f"row {index}"

    def for_schema(self, schema: Schema) -> EventSource:
        return RowSource(self._rows, schema)

    def _line(self, row: dict, number: int) -> bytes:
        for name, field in self._times.items():
            if isinstance(value := row.get(name), datetime):
                row = row | {name: time_value(value, field)}
        try:
            return json.dumps(row, default=plain_value).encode()
        except (TypeError, ValueError, RecursionError) as error:
            column = next((name for name, value in row.items() if not _is_json(value)), "")
            raise TypeError(f"row {number}{f', column {column}' if column else ''}: {error}") from None


def time_value(value: datetime, field: Field) -> Any:
    """A time as the field wants it: a number of its unit, or ISO 8601 without the zone that the unit already says.

    >>> time_value(datetime(2024, 5, 1, 10, tzinfo=UTC), Field("at", "time", unit="utc"))
    '2024-05-01T10:00:00'
    >>> time_value(datetime(2024, 5, 1, 10, 0, 0, 1500), Field("at", "long")), time_value(datetime(1970, 1, 1, 0, 0, 0, 1500), Field("at", "time", unit="s"))
    (1714557600001, Decimal('0.001500'))
    """
    if _is_gap(value):
        return None
    if field.type != "long" and field.unit not in NUMBERS:
        text = plain_value(value)
        return text.removesuffix("Z") if field.unit == "utc" else text
    since = value.replace(tzinfo=value.tzinfo or UTC) - EPOCH
    us = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    if field.type == "long":
        return us // 1_000
    number = Decimal(us).scaleb(3 - NUMBERS[field.unit])
    return int(number) if number == number.to_integral_value() else number


def plain_value(value: Any) -> Any:
    """What JSON has in place of a value that it does not have. Raises TypeError if it has none.

    >>> plain_value(Decimal("2.50")), plain_value(Decimal("12345678901234567.01")), plain_value(date(2024, 5, 1))
    (2.5, '12345678901234567.01', '2024-05-01')
    >>> plain_value({1})
    Traceback (most recent call last):
    TypeError: set, expected a number, a text, a time, None, or dicts and lists of them
    """
    match value:
        case Decimal():
            return _number(value)
        case datetime():
            if _is_gap(value):
                return None
            return value.isoformat() if value.tzinfo is None else _utc_text(value)
        case date() | time():
            return value.isoformat()
        case UUID():
            return str(value)
        case bytes():
            return text_of_bytes(value)
    library, name = type(value).__module__.partition(".")[0], type(value).__name__
    if _is_gap(value):
        return None
    if library == "numpy" and name == "datetime64":
        return str(value)
    if library == "numpy" and name != "timedelta64" and getattr(value, "shape", None) == ():
        return value.item()
    raise TypeError(f"{name}, expected a number, a text, a time, None, or dicts and lists of them")


def _is_gap(value: Any) -> bool:
    """Whether it is what pandas and NumPy have in place of a value: NaT, NA."""
    return type(value).__name__ in ("NaTType", "NAType") or str(value) == "NaT"


def _utc_text(value: datetime) -> str:
    return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"


def _number(value: Decimal) -> float | int | str:
    """An exact number: JSON's if it is one, otherwise its text, which a decimal field reads as well."""
    if not value.is_finite():
        return float(value)
    if value == value.to_integral_value() and value.as_tuple().exponent == 0:
        return int(value)
    near = float(value)
    return near if Decimal(repr(near)) == value else f"{value:f}"


def _is_json(value: Any) -> bool:
    try:
        return bool(json.dumps(value, default=plain_value))
    except (TypeError, ValueError, RecursionError):
        return False
