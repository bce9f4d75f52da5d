"""CSV with a header, read by name: each row becomes an object, its cells what the schema's fields of those names take.

    id;at;amount                            {"id": 7, "at": "2024-05-01 10:00:00", "amount": "1234.50"}
    7;2024-05-01 10:00:00;1.234,50    ──►

Decided once, by the beginning of the file: what divides cells (, ; tab or |), and how numbers and dates of each column are written.
"""

import csv
import io
import json
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import IO, Any

from lab.model.field import Field
from lab.model.jsontext import DECIMAL_TEXT, BadRecord, LongLine, is_valid_unicode
from lab.model.schema import CONSTANTS, Schema
from lab.model.times import TEXTS
from lab.sources.csvcolumns import ColumnStyle, column_styles, take_apart
from lab.sources.csvrows import DATE, read_rows
from lab.sources.records import Format, UnreadableFile

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SAMPLE = 1_000  # rows that say how numbers and dates are written
NAN = re.compile(r"[+-]?(nan|inf(inity)?)", re.IGNORECASE)


def delimiter_and_first_row(text: str) -> tuple[str, list[str]]:
    """What divides the cells of a text, and those of its first row that is not blank.

    >>> delimiter_and_first_row("id;amount\\n1;2,5")
    (';', ['id', 'amount'])
    """
    rows = {delimiter: next(_rows(text, delimiter), []) for delimiter in DELIMITERS}
    delimiter = max(rows, key=lambda each: len(rows[each]))
    return delimiter, [cell.strip() for cell in rows[delimiter]]


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    """The rows of a text, as far as they can be read."""
    try:
        yield from filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error:
        return


def looks_like_header(cells: Sequence[str]) -> bool:
    """Whether cells are names of columns: none is a number or a date.

    >>> looks_like_header(["id", "at"]), looks_like_header(["1", "CSH"])
    (True, False)
    """
    return any(cells) and not any(
        DECIMAL_TEXT.fullmatch(cell) or take_apart(cell) or DATE.fullmatch(cell) for cell in cells
    )


class CsvTable(Format):
    """A CSV file with a header, whose beginning is `text`. Without a schema its cells stay texts. Raises UnreadableFile."""

    def __init__(
        self,
        path: Path,
        text: str,
        delimiter: str,
        schema: Schema | None,
        opened: Callable[[Path], AbstractContextManager[IO[bytes]]],
    ):
        self._path, self.delimiter, self._opened = path, delimiter, opened
        self._schema, self.texts = schema, schema is None
        rows = _rows(text, delimiter)
        self._names = [cell.strip() for cell in next(rows)]
        self._check()
        styles = column_styles(self._names, islice(rows, SAMPLE), delimiter)
        self.styles = dict(zip(self._names, styles))
        with_comma = any(style.mark == "," and style.is_number for style in styles)
        comma = ", numbers with a decimal comma" if with_comma else ""
        self.name = f"CSV with a header, separated by {DELIMITERS[delimiter]}{comma}"
        by_column = {".".join(field.record_path): field for field in schema.fields} if schema else {}
        self._columns = [
            (json.dumps(name, ensure_ascii=False), self._writer(name, by_column.get(name), style))
            for name, style in zip(self._names, styles)
        ]
        self._starts = array("q")  # of each record, its line

    def _check(self) -> None:
        """Raises UnreadableFile if the header is not UTF-8, names a column twice, or lacks the id or the time."""
        if not all(map(is_valid_unicode, self._names)):
            way = f"iconv -f WINDOWS-1252 -t UTF-8 {quote(str(self._path))} > events.csv"
            raise UnreadableFile(f"{self._path} is CSV, but its header is not UTF-8: {way}")
        names = ", ".join(self._names)
        names = names if len(names) <= 300 else names[:299] + "…"
        if twice := [name for name, count in Counter(filter(None, self._names)).items() if count > 1]:
            raise UnreadableFile(
                f"{self._path} is CSV with several columns named {twice[0]}: give them different names: {names}"
            )
        schema = self._schema
        for name in (*schema.id_fields, schema.time_field) if schema else ():
            if (column := ".".join(schema.field(name).record_path)) not in self._names:  # type: ignore[union-attr]
                raise UnreadableFile(
                    f"{self._path} is CSV whose first line lacks column {column}, which schema {schema.name} needs; "  # type: ignore[union-attr]
                    f"it has {names}; `lab infer {quote(str(self._path))} --out schema.toml` proposes a schema"
                )

    def lines(self) -> Iterator[bytes]:
        """An object for each row; a text that says what is wrong for one that cannot be read."""
        self._starts = array("q")
        with self._opened(self._path) as file:
            text = io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")
            for number, row in islice(read_rows(text, self.delimiter), 1, None):
                self._starts.append(number)
                match row:
                    case LongLine():
                        yield row
                    case str():
                        yield json.dumps(row).encode()
                    case _:
                        yield self._object(row).encode(errors="surrogateescape")

    def place(self, index: int) -> str:
        return str(self._starts[index])

    def typed(self, record: dict[str, Any]) -> dict[str, Any]:
        """Such as {"amount": "1234.50"} for {"amount": "1.234,50"}, where the column has decimal commas. Raises BadRecord."""
        writers = {name: write for name, (_, write) in zip(self._names, self._columns)}
        return {
            name: json.loads(writers[name](value)) if name in writers and isinstance(value, str) else value
            for name, value in record.items()
        }

    def _object(self, cells: list[str]) -> str:
        if len(cells) != len(self._columns):
            row = self.delimiter.join(cells)[:200]
            return json.dumps(
                f"{len(cells)} cells, but the header has {len(self._columns)}: {row}", ensure_ascii=False
            )
        try:
            members = [f"{name}: {write(cell)}" for (name, write), cell in zip(self._columns, cells)]
        except BadRecord as error:
            return json.dumps(f"{error}: {self.delimiter.join(cells)[:200]}", ensure_ascii=False)
        return "{" + ", ".join(members) + "}"

    def _writer(self, name: str, field: Field | None, style: ColumnStyle) -> Callable[[str], str]:
        """What writes a cell as JSON that the field takes. It raises BadRecord for a number with another decimal mark than the column's."""
        if field is None:
            return partial(_number_or_text, name, style) if self.texts else _text
        if field.type == "string":
            return _text
        if field.type == "time" and field.unit in TEXTS:
            return lambda cell: _text(style.date(cell.strip()))
        if field.type == "boolean":
            return lambda cell: _text(cell.strip().lower())
        return partial(self._number, name, field, style)

    def _number(self, name: str, field: Field, style: ColumnStyle, cell: str) -> str:
        cell = _plain_number(name, style, cell.strip())
        if NAN.fullmatch(cell):
            return CONSTANTS[0] if "n" == cell.lstrip("+-")[0].lower() else CONSTANTS[1]
        if cell and field.type == "long":
            try:
                return str(self._schema.parse_cell(field, cell))  # type: ignore[union-attr]
            except BadRecord:
                return _text(cell)
        return _text(cell)


def _number_or_text(name: str, style: ColumnStyle, cell: str) -> str:
    return _text(_plain_number(name, style, cell.strip()) if style.is_number else style.date(cell))


def _plain_number(name: str, style: ColumnStyle, cell: str) -> str:
    if style.has_other_mark(cell):
        raise BadRecord(f"{cell} in {name}, expected a decimal comma")
    return style.number(cell)


def _text(cell: str) -> str:
    return json.dumps(cell, ensure_ascii=False) if cell else "null"
