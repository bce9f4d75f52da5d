"""Arrow's columns as JSON: each row becomes an object with its columns' names. Parquet files and DataFrames come in this way.

Integers and decimals stay exact; a double is the shortest text that gives the same double; a timestamp is ISO 8601 with all its
digits, with Z if the column has a zone, or a number of the unit in which the schema wants it. Bytes are text if they are UTF-8.
Columns of numbers, texts and times are written by Arrow's own functions, all rows at once; what is rarer, one value at a time.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from itertools import islice, repeat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.model.field import Field
from lab.model.jsontext import MAX_LINE_BYTES, text_of_bytes
from lab.model.schema import Schema
from lab.model.times import NUMBERS

ROWS, AT_ONCE = 10_000, 1 << 26  # rows, and about bytes, in memory
REPEATED = 1 << 22  # bytes of texts that a dictionary has once, written out for all rows
DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}  # of a second
ESCAPED = r'["\\\x00-\x1f]'  # what a JSON string has an escape for
TEXT = pa.large_string()


class ArrowRows:
    """Writes rows as JSON, for the fields of a schema.

    `refuse_long`: is told the bytes and the column of a value that no record may have, and raises: as text it would take several
    times that.
    """

    def __init__(self, schema: Schema | None, refuse_long: Callable[[int, str], None]):
        self._fields = {field.record_path: field for field in schema.fields} if schema else {}
        # an event time in whole ms, as the kit's own schemas have it
        time = schema.field(schema.time_field) if schema else None
        self._long_time = time if time and time.type == "long" else None
        self._refuse_long = refuse_long

    def lines(self, batch: pa.RecordBatch) -> Iterable[bytes]:
        """A line for each row of a batch of at most `ROWS` rows and about `AT_ONCE` bytes."""
        columns = list(zip(batch.schema.names, batch.columns))
        objects = self._joined(columns, len(batch), ())
        if objects is not None:
            return objects.cast(pa.large_binary()).to_pylist()
        return map(str.encode, self._objects(columns, len(batch), ()))

    def refuse_if_long(self, size: int, column: str) -> None:
        """Refuses a value of so many bytes if no record may be that long."""
        if size > MAX_LINE_BYTES:
            self._refuse_long(size, column)

    # -- all rows at once ----------------------------------------------------------------------------------------------

    def _joined(
        self, columns: list[tuple[str, pa.Array]], count: int, around: tuple[str, ...]
    ) -> pa.Array | None:
        """Columns as objects; None if one of them has to be written a value at a time."""
        parts: list[pa.Array | pa.Scalar] = []
        for name, values in columns:
            if (text := self._text_column(values, (*around, name))) is None:
                return None
            before = "{" if not parts else ", "
            parts += [pa.scalar(f"{before}{json.dumps(name, ensure_ascii=False)}: ", TEXT), text]
        if not parts:
            return pa.array(["{}"] * count, TEXT)
        return pc.binary_join_element_wise(*parts, pa.scalar("}", TEXT), pa.scalar("", TEXT))

    def _text_column(self, values: pa.Array, path: tuple[str, ...]) -> pa.Array | None:
        """A column as JSON values; None if it has to be written a value at a time."""
        kind, field, types = values.type, self._fields.get(path), pa.types
        text = None
        if types.is_null(kind):
            text = pa.nulls(len(values), TEXT)
        elif types.is_integer(kind) or types.is_boolean(kind) or types.is_date(kind):
            text = values.cast(TEXT)
            text = _quoted(text) if types.is_date(kind) else text
        elif types.is_decimal(kind):
            text = values.cast(TEXT)
            if pc.any(pc.match_substring(text, "E")).as_py():
                text = pa.array([None if each is None else f"{each:f}" for each in values.to_pylist()], TEXT)
        elif types.is_float64(kind):
            text = _float_column(values, bool(field and field.type == "long"))
        elif types.is_timestamp(kind):
            text = self._time_column(values, field)
        elif types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
            text = self._string_column(values.cast(TEXT), path)
        elif types.is_dictionary(kind):
            return self._dictionary_column(values, path)
        elif types.is_struct(kind):
            inside = [(kind.field(number).name, each) for number, each in enumerate(values.flatten())]
            if (objects := self._joined(inside, len(values), path)) is None:
                return None
            text = pc.if_else(values.is_valid(), objects, pa.scalar("null", TEXT))
        return None if text is None else text.fill_null("null")

    def _string_column(self, values: pa.Array, path: tuple[str, ...]) -> pa.Array:
        self.refuse_if_long(pc.max(pc.binary_length(values)).as_py() or 0, ".".join(path))
        escaped = pc.match_substring_regex(values, ESCAPED).fill_null(False)
        quoted = _quoted(values)
        if pc.any(escaped).as_py():
            texts = [json.dumps(each, ensure_ascii=False) for each in values.filter(escaped).to_pylist()]
            quoted = pc.replace_with_mask(quoted, escaped, pa.array(texts, TEXT))
        return quoted

    def _dictionary_column(self, values: pa.DictionaryArray, path: tuple[str, ...]) -> pa.Array | None:
        used = values.indices.drop_null().unique()
        texts = self._text_column(_taken(values, used), path)
        if texts is None or len(values) * (pc.max(pc.binary_length(texts)).as_py() or 0) > REPEATED:
            return None  # a text is in memory once, however often it comes
        return texts.take(pc.index_in(values.indices, used)).fill_null("null")

    def _time_column(self, values: pa.Array, field: Field | None) -> pa.Array:
        unit, zone = values.type.unit, values.type.tz
        if field and (field is self._long_time or (field.type == "time" and field.unit in NUMBERS)):
            number = _number_of(unit, "ms" if field.type == "long" else field.unit, field.type == "long")
            numbers = values.cast(pa.int64()).to_pylist()
            return pa.array([None if value is None else number(value) for value in numbers], TEXT)
        ending = "Z" if zone and not (field and field.unit == "utc") else ""
        text = values.cast(pa.timestamp(unit)).cast(TEXT)
        return _quoted(pc.replace_substring(text, " ", "T", max_replacements=1), ending)

    # -- a value at a time ---------------------------------------------------------------------------------------------

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
        if (column := self._text_column(values, path)) is not None:
            return column.to_pylist()
        if pa.types.is_dictionary(kind):
            used = values.indices.drop_null().unique()
            texts = dict(zip(used.to_pylist(), self._texts(_taken(values, used), path)))
            return (texts.get(number, "null") for number in values.indices.to_pylist())
        if pa.types.is_struct(kind):
            inside = [(kind.field(number).name, each) for number, each in enumerate(values.flatten())]
            objects = self._objects(inside, len(values), path)
            return (text if valid else "null" for text, valid in zip(objects, values.is_valid().to_pylist()))
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            lengths = pc.list_value_length(values)
            self.refuse_if_long(list_bytes(pc.max(lengths).as_py() or 0), ".".join(path))
            inner = iter(self._texts(values.flatten(), (*path, "")))
            return (
                "null" if length is None else self._list(islice(inner, length), path)
                for length in lengths.to_pylist()
            )
        if pa.types.is_floating(kind):
            numbers = values.to_numpy(zero_copy_only=False)
            nulls = values.is_null().to_pylist()
            return ["null" if null else _float(number) for null, number in zip(nulls, numbers)]
        if isinstance(values, pa.BinaryArray | pa.LargeBinaryArray):
            self.refuse_if_long(pc.max(pc.binary_length(values)).as_py() or 0, ".".join(path))
        if pa.types.is_nested(kind):  # maps and the like: one of them at a time
            return (_text(value.as_py()) for value in values)
        return [_text(value) for value in values.to_pylist()]

    def _list(self, texts: Iterator[str], path: tuple[str, ...]) -> str:
        """A list of JSON values, as far as a record may be long."""
        parts, size = [], 0
        for text in texts:
            parts.append(text)
            size += len(text) + 2
            self.refuse_if_long(size, ".".join(path))
        return f"[{', '.join(parts)}]"


def list_bytes(values: int) -> int:
    """How many bytes a list of so many values has as text at least: a character and a comma for each."""
    return 2 * values


def _taken(values: pa.DictionaryArray, used: pa.Array) -> pa.Array:
    """The values of a dictionary with these numbers."""
    words = values.dictionary
    return (words.cast(TEXT) if pa.types.is_string_view(words.type) else words).take(used)


def _quoted(texts: pa.Array, ending: str = "") -> pa.Array:
    """Texts in quotes, with an ending; a null stays null."""
    before, after = pa.scalar('"', TEXT), pa.scalar(f'{ending}"', TEXT)
    return pc.binary_join_element_wise(before, texts, after, pa.scalar("", TEXT))


def _float_column(values: pa.Array, whole: bool) -> pa.Array:
    """Doubles as JSON; `whole`: those without a fraction as integers, which a column of integers with gaps has become in pandas.

    >>> _float_column(pa.array([0.1, 7.0, 1e22, -0.0, None, float("nan")]), False).to_pylist()
    ['0.1', '7.0', '1e+22', '-0.0', None, 'NaN']
    >>> _float_column(pa.array([0.5, 7.0, None, float("-inf")]), True).to_pylist()
    ['0.5', '7', None, '-Infinity']
    """
    text = values.cast(TEXT)
    if not whole:
        pointed = pc.match_substring_regex(text, "[.e]")
        with_point = pc.binary_join_element_wise(text, pa.scalar(".0", TEXT), pa.scalar("", TEXT))
        text = pc.if_else(pointed, text, with_point)
    if pc.all(pc.is_finite(values)).as_py() is False:
        infinite = pc.if_else(
            pc.greater(values, 0), pa.scalar("Infinity", TEXT), pa.scalar("-Infinity", TEXT)
        )
        text = pc.if_else(pc.is_inf(values), infinite, text)
        text = pc.if_else(pc.is_nan(values), pa.scalar("NaN", TEXT), text)
    return text


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
            return json.dumps(text_of_bytes(value), ensure_ascii=False)
        case int():
            return str(value)
    return json.dumps(value, default=str, ensure_ascii=False)
