"""Parquet, a batch of rows at a time: each row becomes an object with its columns' names.

Integers and decimals stay exact; a double is the shortest text that gives the same double; a timestamp is ISO 8601 with all its
digits, with Z if the column has a zone, or a number of the unit in which the schema wants it. Bytes are text if they are UTF-8.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from itertools import islice, repeat
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lab.model.field import Field
from lab.model.jsontext import MAX_LINE_BYTES
from lab.model.schema import Schema
from lab.model.times import NUMBERS
from lab.sources.records import Format, UnreadableFile

ROWS, AT_ONCE = 10_000, 1 << 26  # rows, and about bytes, in memory
DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}  # of a second


class ParquetTable(Format):
    """A Parquet file. Raises UnreadableFile if it is broken."""

    name = "Parquet"

    def __init__(self, path: Path, schema: Schema | None):
        self._path = path
        self._fields = {field.record_path: field for field in schema.fields} if schema else {}
        # an event time in whole ms, as the kit's own schemas have it
        time = schema.field(schema.time_field) if schema else None
        self._long_time = time if time and time.type == "long" else None
        with self._open() as file:
            names = file.schema_arrow.names
        if len(set(names)) < len(names):
            raise UnreadableFile(
                f"{path} is Parquet with several columns of the same name: {', '.join(names)}"
            )

    def _open(self) -> pq.ParquetFile:
        try:
            file = pq.ParquetFile(self._path)
            # of a text that comes again and again, also in lists, one copy is in memory
            columns = map(file.schema.column, range(len(file.schema)))
            again = [each.path for each in columns if _is_text(each)]
            return pq.ParquetFile(self._path, read_dictionary=again) if again else file
        except (pa.ArrowException, OSError) as error:
            raise UnreadableFile(
                f"{self._path} is Parquet that cannot be read; is the file complete? {error}"
            ) from None

    def count(self) -> int:
        with self._open() as file:
            return file.metadata.num_rows

    def lines(self) -> Iterator[bytes]:
        with self._open() as file:
            try:
                for number in range(file.num_row_groups):
                    group = file.metadata.row_group(number)
                    for column in (group.column(each) for each in range(group.num_columns)):
                        texts = column.physical_type == "BYTE_ARRAY"
                        size = max(column.total_uncompressed_size * texts, _list_bytes(column.num_values))
                        self._refuse_long(size // max(group.num_rows, 1), column.path_in_schema)
                    for batch in file.iter_batches(_rows(group), [number]):
                        columns = zip(batch.schema.names, batch.columns)
                        yield from map(str.encode, self._objects(list(columns), len(batch), ()))
            except (pa.ArrowException, OSError) as error:
                raise UnreadableFile(
                    f"{self._path} is Parquet that cannot be read; is the file complete? {error}"
                ) from None

    def _refuse_long(self, size: int, column: str) -> None:
        """Raises UnreadableFile for a value of so many bytes if no record may be that long: as text it would take several times that."""
        if size > MAX_LINE_BYTES:
            raise UnreadableFile(
                f"{self._path} has a value of about {size:,} bytes in column {column}, at most {MAX_LINE_BYTES:,} are allowed; "
                "write the file again without that column, or with shorter values"
            )

    def place(self, index: int) -> str:
        return f"row {index + 1}"

    def _objects(
        self, columns: list[tuple[str, pa.Array]], count: int, around: tuple[str, ...]
    ) -> Iterator[str]:
        if not columns:
            return repeat("{}", count)
        names = [json.dumps(name, ensure_ascii=False) for name, _ in columns]
        texts = [self._texts(values, (*around, name)) for name, values in columns]
        return (
            "{" + ", ".join(f"{name}: {text}" for name, text in zip(names, row)) + "}" for row in zip(*texts)
        )

    def _texts(self, values: pa.Array, path: tuple[str, ...]) -> Iterable[str]:
        """A column as JSON values."""
        kind = values.type
        if pa.types.is_dictionary(kind):
            used = values.indices.drop_null().unique()
            texts = dict(zip(used.to_pylist(), self._texts(values.dictionary.take(used), path)))
            return (texts.get(number, "null") for number in values.indices.to_pylist())
        if pa.types.is_struct(kind):
            inside = [(kind.field(number).name, each) for number, each in enumerate(values.flatten())]
            objects = self._objects(inside, len(values), path)
            return (text if valid else "null" for text, valid in zip(objects, values.is_valid().to_pylist()))
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            lengths = pc.list_value_length(values)
            self._refuse_long(_list_bytes(pc.max(lengths).as_py() or 0), ".".join(path))
            inner = iter(self._texts(values.flatten(), (*path, "")))
            return (
                "null" if length is None else self._list(islice(inner, length), path)
                for length in lengths.to_pylist()
            )
        if pa.types.is_timestamp(kind):
            return self._times(values, self._fields.get(path))
        if pa.types.is_floating(kind) and not pa.types.is_float64(kind):
            numbers = values.to_numpy(zero_copy_only=False)
            nulls = values.is_null().to_pylist()
            return ["null" if null else _float(number) for null, number in zip(nulls, numbers)]
        if isinstance(values, pa.StringArray | pa.BinaryArray | pa.LargeStringArray | pa.LargeBinaryArray):
            self._refuse_long(pc.max(pc.binary_length(values)).as_py() or 0, ".".join(path))
        if pa.types.is_nested(kind):  # maps and the like: one of them at a time
            return (_text(value.as_py()) for value in values)
        return [_text(value) for value in values.to_pylist()]

    def _list(self, texts: Iterator[str], path: tuple[str, ...]) -> str:
        """A list of JSON values, as far as a record may be long."""
        parts, size = [], 0
        for text in texts:
            parts.append(text)
            size += len(text) + 2
            if size > MAX_LINE_BYTES:
                self._refuse_long(size, ".".join(path))
        return f"[{', '.join(parts)}]"

    def _times(self, values: pa.Array, field: Field | None) -> list[str]:
        unit, zone = values.type.unit, values.type.tz
        if field and (field is self._long_time or (field.type == "time" and field.unit in NUMBERS)):
            number = _number_of(unit, "ms" if field.type == "long" else field.unit, field.type == "long")
            numbers = values.cast(pa.int64()).to_pylist()
            return ["null" if value is None else number(value) for value in numbers]
        ending = "Z" if zone and not (field and field.unit == "utc") else ""
        texts = pc.strftime(values.cast(pa.timestamp(unit)), "%Y-%m-%dT%H:%M:%S").to_pylist()
        return ["null" if text is None else f'"{text}{ending}"' for text in texts]


def _list_bytes(values: int) -> int:
    """How many bytes a list of so many values has as text at least: a character and a comma for each."""
    return 2 * values


def _is_text(column: pq.ColumnSchema) -> bool:
    """Whether a column has texts or bytes."""
    numbers = column.logical_type.type == "DECIMAL" or column.converted_type == "DECIMAL"
    return column.physical_type == "BYTE_ARRAY" and not numbers


def _rows(group: pq.RowGroupMetaData) -> int:
    """How many rows of a group are read at once: fewer if they are large, or have long lists."""
    columns = [group.column(number) for number in range(group.num_columns)]
    size = max(group.total_byte_size, 16 * max((column.num_values for column in columns), default=0))
    return max(1, min(ROWS, AT_ONCE * group.num_rows // max(size, 1)))


def _number_of(unit: str, wanted: str, whole: bool) -> Callable[[int], str]:
    """What writes a time, so many of a unit, as a number of another one.

    >>> _number_of("us", "ms", False)(1_714_525_200_123_456)
    '1714525200123.456'
    """
    more = DIGITS[wanted] - DIGITS[unit]
    if more >= 0 or whole:
        return lambda value: str(value * 10**more if more >= 0 else value // 10**-more)
    return lambda value: f"{Decimal(value).scaleb(more):f}"


def _float(value: np.floating | float) -> str:
    """The shortest text that gives the same float.

    >>> _float(0.1), _float(np.float32(0.1)), _float(float("-inf"))
    ('0.1', '0.1', '-Infinity')
    """
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value) if isinstance(value, float) and type(value) is float else str(value)


def _text(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool() | str():
            return json.dumps(value, ensure_ascii=False)
        case float():
            return _float(value)
        case Decimal():
            return f"{value:f}"
        case bytes():
            try:
                return json.dumps(value.decode(), ensure_ascii=False)
            except UnicodeDecodeError:
                return json.dumps(b64encode(value).decode())
        case int():
            return str(value)
    return json.dumps(value, default=str, ensure_ascii=False)
