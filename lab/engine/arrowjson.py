"""JSON lines into typed Arrow columns by Arrow's own reader: ten times as quick as one line at a time.

Whatever is read here, `Schema.parse` reads with the same values. Arrow's reader is as strict about types; what else
`decode` has to look after is that a record neither spans lines nor shares one, and our limits.
"""

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from lab.model.field import Field
from lab.model.schema import Schema
from lab.model.times import DIGITS, FINER_THAN_MS, NS_PER_MS, NUMBERS, PATTERNS, expected_time


@cache
def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow types of an event's fields: text, or int64, which holds a decimal in minor units and a time in ms."""
    return pa.schema([(field.name, pa.int64() if field.numeric else pa.string()) for field in schema.fields])


@cache
def record_schema(schema: Schema) -> pa.Schema:
    """The Arrow types of a record: objects inside each other, as the paths of the fields say, with what is written there."""
    tree: dict = {}
    for field in schema.fields:
        *around, last = field.keys
        inside = tree
        for key in around:
            inside = inside.setdefault(key, {})
        inside[last] = _written(field)
    return pa.schema(_members(tree))


def _members(tree: dict) -> list[pa.Field]:
    return [
        pa.field(key, pa.struct(_members(inside)) if isinstance(inside, dict) else inside)
        for key, inside in tree.items()
    ]


def _written(field: Field) -> pa.DataType:
    match field.type:
        case "long":
            return pa.int64()
        case "boolean":
            return pa.bool_()
        case "time" if field.unit in NUMBERS:
            return pa.decimal128(DIGITS, NUMBERS[field.unit])
        case "string" | "time":
            return pa.string()
    return pa.decimal128(field.precision, field.scale)


def read_lines(lines: pa.Buffer, count: int, schema: Schema) -> pa.Table | None:
    """So many records, one JSON object a line, with a column for each field; None if any of them is not readable."""
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(lines),
            pyarrow.json.ReadOptions(use_threads=False, block_size=lines.size + 1),
            pyarrow.json.ParseOptions(record_schema(schema), unexpected_field_behavior="ignore"),
        )
        if table.num_rows != count:
            return None
        columns = [_read(_column(table, field.keys), field) for field in schema.fields]
    except pa.ArrowInvalid:
        return None
    return pa.table(columns, arrow_schema(schema))


def _column(table: pa.Table, path: tuple[str, ...]) -> pa.Array:
    top, *below = path
    column = table[top].combine_chunks()
    return pc.struct_field(column, below) if below else column


def _read(column: pa.Array, field: Field) -> pa.Array:
    """What is written as the field has it. Raises ArrowInvalid."""
    if pa.types.is_decimal(column.type):
        column = _minor_units(column)
        return _floor(column, NS_PER_MS) if field.type == "time" else column
    if field.type == "time":
        if pc.all(pc.match_substring_regex(column, PATTERNS[field.unit])).as_py() is False:
            raise pa.ArrowInvalid(f"{field.name}: not {expected_time(field.unit)}")
        text = pc.replace_substring_regex(column, FINER_THAN_MS, r"\1")
        if field.unit == "utc":
            text = pc.binary_join_element_wise(text, "Z", "")
        return text.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    return column.cast(pa.string()) if field.type == "boolean" else column


def _minor_units(column: pa.Array) -> pa.Array:
    """A decimal column as int64. Raises ArrowInvalid for more digits than it may have: Arrow itself counts those written."""
    first, end = column.offset, column.offset + len(column)
    halves = np.frombuffer(column.buffers()[1], np.int64)[2 * first : 2 * end]
    low, high = halves[::2], halves[1::2]
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    most = 10**column.type.precision
    if not (nulls | (-most < low) & (low < most) & (low >> 63 == high)).all():
        raise pa.ArrowInvalid(f"more than {column.type.precision} digits")
    return pa.array(low, mask=nulls if column.null_count else None)


def _floor(column: pa.Array, by: int) -> pa.Array:
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    return pa.array(column.fill_null(0).to_numpy() // by, mask=nulls)
