"""The rows of a CSV file, each with its line. A quote that is not closed costs its own line, not those after it.

10  7,"Köln,5.00      ──►  10: why it is no row
11  8,Bonn,3.00            11: 8  Bonn  3.00
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256

from lab.model.deadletters import BEGINNING, CHUNK
from lab.model.jsontext import DECIMAL_TEXT, MAX_LINE_BYTES, LongLine

DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\b.*|[0-9]{1,2}[./][0-9]{1,2}[./][0-9]{2,4}\b.*", re.DOTALL)
MANY = 3  # lines like rows inside a row, where nothing but their number of cells says so


class LineTooLong(csv.Error):
    """A line of more than 1 MiB; `line` stands for it."""

    def __init__(self, line: LongLine):
        super().__init__(line.reason)
        self.line = line


class _Lines:
    """The lines of a CSV file for its reader: those of one row are kept. Raises csv.Error if a row has more than 1 MiB."""

    def __init__(self, text: io.TextIOWrapper):
        self._text, self._ahead, self._number = text, "", 0
        self.row: list[str] = []
        self._size = 0  # characters of the row

    def next_row(self) -> int:
        """The number of the line with which the next row begins."""
        self.row, self._size = [], 0
        return self._number + 1

    def put_back(self, line: str) -> None:
        """The line that was read last is the next one again."""
        self._ahead = line
        self._number -= 1

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line, self._ahead = self._ahead or self._text.readline(MAX_LINE_BYTES + 1), ""
        if not line:
            raise StopIteration
        self._number += 1
        self.row.append(line)
        self._size += len(line)
        if self._size > MAX_LINE_BYTES:
            if len(self.row) == 1:
                raise LineTooLong(self._long(line))
            raise csv.Error
        return line

    def _long(self, beginning: str) -> LongLine:
        """The line as far as it was read and the rest of it, hashed."""
        digest, size, part = sha256(), 0, beginning
        while part:
            data = part.encode(errors="surrogateescape")
            digest.update(data)
            size += len(data)
            part = "" if part.endswith(("\n", "\r")) else self._text.readline(CHUNK)
        return LongLine.of(
            size, digest.hexdigest(), beginning[:BEGINNING].encode(errors="surrogateescape")[:BEGINNING]
        )


def read_rows(text: io.TextIOWrapper, delimiter: str) -> Iterator[tuple[int, list[str] | str | LongLine]]:
    """Each row that is not blank, the header too, with the number of its first line: its cells, or why it has none.

    The lines of a row that is not CSV are read one by one: a row then lies within a line. Each line is read at most three times.
    """
    lines, columns = _Lines(text), 0
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        start = lines.next_row()
        try:
            cells = next(rows)
        except StopIteration:
            return
        except LineTooLong as error:
            yield start, error.line
            continue
        except csv.Error as error:
            of_row, last = lines.row, start + len(lines.row) - 1
            if last == start:
                yield start, f"a row that is not CSV: {error}"
                continue
            yield start, _swallowing(start, last)
            for number, line in enumerate(of_row[1:-1], start + 1):
                if (alone := read_row(line, delimiter)) != []:
                    yield number, alone
            lines.put_back(of_row[-1])
            continue
        if not cells:
            continue
        columns = columns or len(cells)
        if _has_swallowed(lines.row, cells, columns, delimiter):
            yield start, _swallowing(start, start + len(lines.row) - 1)
            for number, line in enumerate(lines.row[1:], start + 1):
                if beginning := line.strip()[:BEGINNING]:
                    yield number, f"inside the quotes of line {start}: {beginning}"
        else:
            yield start, cells


def _swallowing(start: int, last: int) -> str:
    return f"lines {start} to {last} in one row: is a quote not closed?"


def read_row(line: str, delimiter: str) -> list[str] | str:
    """A line as a row; a text that says why it is none."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        return f"a row that is not CSV: {error}"


def _has_swallowed(lines: Sequence[str], cells: list[str], columns: int, delimiter: str) -> bool:
    """Whether lines inside the quotes of a row look like rows: they have all cells, and like it numbers or dates before the quotes.

    Without a number or a date before the quotes, many lines must look so. They are no events: quoted text may be a stranger's.
    """
    if len(lines) < 2 or columns < 2:
        return False
    opening = next((n for n, cell in enumerate(cells) if "\n" in cell or "\r" in cell), 0)
    known = [n for n, cell in enumerate(cells[:opening]) if _is_number_or_date(cell)]
    inside = lines[1:] if opening else lines[1:-1]  # the last one has the other cells of a row that is right

    def is_like_a_row(line: str) -> bool:
        alone = read_row(line, delimiter)
        return (
            isinstance(alone, list)
            and len(alone) == columns
            and all(_is_number_or_date(alone[n]) for n in known)
        )

    count = sum(map(is_like_a_row, inside))
    return 2 * count > len(inside) and count >= (1 if known else MANY)


def _is_number_or_date(cell: str) -> bool:
    cell = cell.strip()
    return bool(len(cell) <= 100 and (DECIMAL_TEXT.fullmatch(cell) or DATE.fullmatch(cell)))
