"""CSV with a header, read by name: each row becomes an object, its cells what the schema's fields of those names take.

    id;at;amount                            {"id": 7, "at": "2024-05-01 10:00:00", "amount": "1234.50"}
    7;2024-05-01 10:00:00;1.234,50    ──►

Decided once, by the beginning of the file: what divides cells (, ; tab or |), and whether numbers have a decimal comma.
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
from hashlib import sha256
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import IO

from lab.apps.records import Format, UnreadableFile
from lab.model.deadletters import BEGINNING
from lab.model.field import Field
from lab.model.jsontext import DECIMAL_TEXT, MAX_LINE_BYTES, BadRecord, LongLine, is_valid_unicode
from lab.model.longlines import CHUNK
from lab.model.schema import CONSTANTS, Schema
from lab.model.times import TEXTS

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SAMPLE = 1_000  # rows that say whether numbers have a decimal comma
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\b.*|[0-9]{1,2}[./][0-9]{1,2}[./][0-9]{2,4}\b.*", re.DOTALL)
COMMA = re.compile(r"[+-]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+),([0-9]{1,2}|[0-9]{4,})")  # 1.234,50; not 1,234
WITH_COMMA = re.compile(r"[+-]?([0-9]+,[0-9]+|[0-9]{1,3}(\.[0-9]{3})+(,[0-9]+)?)")
DOTTED = re.compile(
    r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})[ T]+([0-9]{1,2})(:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)"
)
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
    values = (
        cell
        for cell in cells
        if DECIMAL_TEXT.fullmatch(cell) or COMMA.fullmatch(cell) or DATE.fullmatch(cell)
    )
    return any(cells) and not any(values)


class RowTooLong(csv.Error):
    """A row of more than 1 MiB; `line` stands for it."""

    def __init__(self, line: LongLine):
        super().__init__(line.reason)
        self.line = line


class _Lines:
    """The lines of a CSV file for its reader. A row may have several lines; raises RowTooLong if it has more than 1 MiB."""

    def __init__(self, text: io.TextIOWrapper):
        self._text, self._number = text, 0
        self._row: list[str] = []
        self._size = 0  # characters of the row

    def next_row(self) -> int:
        """The number of the line with which the next row begins."""
        self._row, self._size = [], 0
        return self._number + 1

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self._text.readline(MAX_LINE_BYTES + 1)
        if not line:
            raise StopIteration
        self._number += 1
        self._row.append(line)
        self._size += len(line)
        if self._size > MAX_LINE_BYTES:
            raise RowTooLong(self._long())
        return line

    def _long(self) -> LongLine:
        """The row as far as it was read and the rest of its line, hashed."""
        digest, size, row = sha256(), 0, "".join(self._row)
        part = row
        while part:
            data = part.encode(errors="surrogateescape")
            digest.update(data)
            size += len(data)
            part = "" if part.endswith(("\n", "\r")) else self._text.readline(CHUNK)
        return LongLine.of(
            size, digest.hexdigest(), row[:BEGINNING].encode(errors="surrogateescape")[:BEGINNING]
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
        self._path, self._delimiter, self._opened = path, delimiter, opened
        self._schema, self.texts = schema, schema is None
        rows = _rows(text, delimiter)
        self._names = [cell.strip() for cell in next(rows)]
        self._check()
        cells = (cell.strip() for row in islice(rows, SAMPLE) for cell in row)
        self._comma = delimiter != "," and any(map(COMMA.fullmatch, cells))
        comma = ", numbers with a decimal comma" if self._comma else ""
        self.name = f"CSV with a header, separated by {DELIMITERS[delimiter]}{comma}"
        by_column = {".".join(field.record_path): field for field in schema.fields} if schema else {}
        self._columns = [
            (json.dumps(name, ensure_ascii=False), self._writer(by_column.get(name))) for name in self._names
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
            text = _Lines(io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline=""))
            rows = csv.reader(text, delimiter=self._delimiter, strict=True)
            header, start = False, 1
            while True:
                start, row = text.next_row(), None
                try:
                    row = next(rows)
                    line = self._object(row) if row else ""
                except StopIteration:
                    return
                except RowTooLong as error:
                    self._starts.append(start)
                    yield error.line
                    continue
                except csv.Error as error:
                    line = json.dumps(f"a row that is not CSV: {error}")
                if row == []:
                    continue
                if not header:
                    header = True
                    continue
                self._starts.append(start)
                yield line.encode(errors="surrogateescape")

    def place(self, index: int) -> str:
        return str(self._starts[index])

    def _object(self, cells: list[str]) -> str:
        if len(cells) != len(self._columns):
            row = self._delimiter.join(cells)[:200]
            return json.dumps(
                f"{len(cells)} cells, but the header has {len(self._columns)}: {row}", ensure_ascii=False
            )
        members = (f"{name}: {write(cell)}" for (name, write), cell in zip(self._columns, cells))
        return "{" + ", ".join(members) + "}"

    def _writer(self, field: Field | None) -> Callable[[str], str]:
        """What writes a cell as JSON that the field takes."""
        if field is None:
            return self._number_or_text if self.texts else _text
        if field.type == "string":
            return _text
        if field.type == "time" and field.unit in TEXTS:
            return lambda cell: _text(_iso(cell.strip()))
        if field.type == "boolean":
            return lambda cell: _text(cell.strip().lower())
        return partial(self._number, field)

    def _number(self, field: Field, cell: str) -> str:
        cell = self._with_point(cell.strip())
        if NAN.fullmatch(cell):
            return CONSTANTS[0] if "n" == cell.lstrip("+-")[0].lower() else CONSTANTS[1]
        if cell and field.type == "long":
            try:
                return str(self._schema.parse_cell(field, cell))  # type: ignore[union-attr]
            except BadRecord:
                return _text(cell)
        return _text(cell)

    def _number_or_text(self, cell: str) -> str:
        return _text(_iso(self._with_point(cell)))

    def _with_point(self, cell: str) -> str:
        if self._comma and WITH_COMMA.fullmatch(cell):
            return cell.replace(".", "").replace(",", ".")
        return cell


def _iso(cell: str) -> str:
    """A day with dots before month and year as ISO 8601 has it; anything else stays.

    >>> _iso("1.05.2024 9:30"), _iso("05/01/2024 9:30")
    ('2024-05-01 09:30', '05/01/2024 9:30')
    """
    if not (found := DOTTED.fullmatch(cell)):
        return cell
    day, month, year, hour, rest, *_ = found.groups()
    return f"{year}-{month:0>2}-{day:0>2} {hour:0>2}{rest}"


def _text(cell: str) -> str:
    return json.dumps(cell, ensure_ascii=False) if cell else "null"
