"""JSON lines into typed Arrow columns by Arrow's own reader: ten times as quick as one line at a time.

Whatever is read here, `Schema.parse` reads with the same values. Arrow's reader is as strict about types; what else
`decode` has to look after is that a record neither spans lines nor shares one, and our limits.
"""

from functools import cache

import pyarrow as pa
import pyarrow.json

from lab.model.schema import Schema


@cache
def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow types of an event schema's fields."""
    types = {"long": pa.int64(), "string": pa.string()}
    return pa.schema(
        [
            (field.name, types.get(field.type) or pa.decimal128(field.precision, field.scale))
            for field in schema.fields
        ]
    )


def read_lines(lines: pa.Buffer, count: int, schema: Schema) -> pa.Table | None:
    """So many records, one JSON object a line, with a column for each field; None if any of them is not readable."""
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(lines),
            pyarrow.json.ReadOptions(use_threads=False, block_size=lines.size + 1),
            pyarrow.json.ParseOptions(arrow_schema(schema), unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None
    return table if table.num_rows == count else None
