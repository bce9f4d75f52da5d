"""Which format a file of events has, decided once by its beginning, and its records as lines that a schema reads.

    PAR1                ──► Parquet: rows, columns by name
    [{   {"Records": [{ ──► the elements of a JSON list
    {⏎ …}               ──► JSON objects over several lines
    {…}⏎                ──► JSON lines
    id;at⏎1;…           ──► CSV, columns by the names of its header
    1,2013-…⏎           ──► CSV without a header, in the order of the schema's fields

What another format would read differently is then a bad record: a line of text in JSON lines, an object in CSV.
"""

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from shlex import quote
from typing import IO, cast

from lab.model.deadletters import bounded_lines
from lab.model.formatting import file_named_in_errors
from lab.model.schema import Schema
from lab.sources.csvfile import CsvTable, delimiter_and_first_row, looks_like_header
from lab.sources.jsonfile import JsonValues, detect_json_layout
from lab.sources.records import Format, UnreadableFile

HEAD = 1 << 20  # bytes that decide
GZIP, BOM = b"\x1f\x8b", b"\xef\xbb\xbf"
PANDAS = ".venv/bin/python -c 'import sys, pandas"
OTHERS = {  # how files begin that are of no format we read -> what they are, and what makes one of them
    b"PK\x03\x04": ("a ZIP archive, such as an Excel file", "unzip it, or save the sheet as CSV (UTF-8)"),
    b"\xd0\xcf\x11\xe0": ("an old Excel file", "save the sheet as CSV (UTF-8)"),
    b"\xff\xfe": ("UTF-16 text", "iconv -f UTF-16 -t UTF-8 {file} > events.csv"),
    b"\xfe\xff": ("UTF-16 text", "iconv -f UTF-16 -t UTF-8 {file} > events.csv"),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "zstd -d -c {file} > events"),
    b"BZh": ("compressed with bzip2", "bzip2 -d -c {file} > events"),
    b"\xfd7zXZ\x00": ("compressed with xz", "xz -d -c {file} > events"),
    b"ORC": ("ORC", f'{PANDAS}; pandas.read_orc(sys.argv[1]).to_parquet("events.parquet")\' {{file}}'),
    b"Obj\x01": (
        "Avro",
        "DuckDB converts it to Parquet: COPY (FROM read_avro('{file}')) TO 'events.parquet'",
    ),
}


class LineFormat(Format):
    """Records of a line each: JSON, or CSV without a header."""

    def __init__(self, path: Path, record_format: str | None, name: str):
        self._path, self.record_format, self.name = path, record_format, name

    def lines(self) -> Iterator[bytes]:
        with open_decompressed(self._path) as file:
            yield from bounded_lines(file)

    def place(self, index: int) -> str:
        return str(index + 1)


@contextmanager
def open_decompressed(path: Path) -> Iterator[BufferedReader]:
    """The bytes of a file, unpacked if it is gzip. Raises OSError, also while it is read."""
    try:
        with file_named_in_errors(path), path.open("rb") as plain:
            packed = plain.peek(2)[:2] == GZIP
            with gzip.open(plain) if packed else plain as file:  # type: ignore[call-overload]
                yield cast(BufferedReader, file)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise OSError(f"{path} is not a complete gzip file: {error}") from None


def detect_format(path: Path, schema: Schema | None = None) -> Format:
    """The format of a file, for records of a schema; without one, the cells of CSV are texts. Raises ValueError, OSError."""
    with open_decompressed(path) as file:
        head = cast(IO[bytes], file).read(HEAD)
    for magic, (what, way) in OTHERS.items():
        if head.startswith(magic):
            raise UnreadableFile(
                f"{path} is {what}, expected JSON, CSV or Parquet: {way.format(file=quote(str(path)))}"
            )
    if head.startswith(b"PAR1"):
        with path.open("rb") as file:
            if file.read(2) == GZIP:
                raise UnreadableFile(
                    f"{path} is Parquet inside gzip: gzip -d -c {quote(str(path))} > events.parquet"
                )
        from lab.sources.parquet import ParquetTable  # which loads pyarrow

        return ParquetTable(path, schema)
    text = head.removeprefix(BOM).decode(errors="surrogateescape")
    begins = text.lstrip()[:1]
    if begins in ("{", "[", ""):
        if layout := detect_json_layout(text.lstrip(), len(head) < HEAD) if begins else None:
            return JsonValues(path, layout, open_decompressed)
        return LineFormat(path, "json", "JSON lines")
    delimiter, cells = delimiter_and_first_row(text)
    if looks_like_header(cells):
        return CsvTable(path, text, delimiter, schema, open_decompressed)
    if schema and schema.records != "json" and delimiter == ",":
        return LineFormat(path, "csv", "CSV without a header")
    shown = re.sub(r"[^\x20-\x7e]", "?", text.lstrip().splitlines()[0][:60])
    names = delimiter.join(
        ["id", "time", *(f"c{number}" for number in range(3, len(cells) + 1))][: len(cells)]
    )
    raise UnreadableFile(
        f"{path} is CSV without column names in its first line: {shown}; put a line of names before it: "
        f"(echo '{names}'; cat {quote(str(path))}) > events.csv"
    )
