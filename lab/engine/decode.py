"""Decode: raw bytes → typed columns, a whole run of records at a time; bad records become dead letters."""

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from lab.engine.columns import Columns
from lab.model.jsontext import MAX_LINE_BYTES, BadRecord
from lab.model.schema import MAX_TIME, Schema


@dataclass
class MicroBatch:
    """What a micro-batch brought: events as columns (for each run of records), control messages, and what was bad."""

    events: list[Columns] = field(default_factory=list)
    messages: list[dict] = field(default_factory=list)
    dead_letters: list[str] = field(default_factory=list)
    records: int = 0


def decode(rows: Iterator[pa.RecordBatch], read: Callable, schema: Schema) -> MicroBatch:
    """Decodes the rows of a source; `read` makes (kind, records) out of them (`ends`)."""
    batch = MicroBatch()
    for some in rows:
        if some.num_rows:
            for kind, records in read(some):
                _take(batch, kind, records, schema)
    return batch


def _take(batch: MicroBatch, kind: str, records, schema: Schema) -> None:
    if kind == "control":
        lines = list(records.lines())
        for (place, line), log_time in zip(lines, _log_times(records, len(lines)).tolist(), strict=True):
            message = {"logTime": log_time, "source": records.source, "place": place, "message": line.hex()}
            batch.messages.append(message)
        return
    columns, kept, bad = decode_records(records, schema)
    batch.records += len(kept) + len(bad)
    batch.dead_letters += [dead_letter(*record) for record in bad]
    if len(kept):
        columns["logTime"] = _log_times(records, len(kept) + len(bad))[kept]
        columns["source"] = np.full(len(kept), records.source)
        batch.events.append(columns)


def _log_times(records, lines: int) -> np.ndarray:
    return np.broadcast_to(records.log_time, lines)


def decode_records(records, schema: Schema) -> tuple[Columns, np.ndarray, list[tuple[str, str, bytes]]]:
    """The good records as columns (decimals scaled to int64), which they are, and the bad ones: (reason, place, raw bytes)."""
    table, bad = _read_at_once(records.data, schema), []
    if table is None:
        kept, good = [], []
        for number, (place, line) in enumerate(records.lines()):
            try:
                good.append(schema.parse(line))
                kept.append(number)
            except BadRecord as error:
                bad.append((str(error), place, line))
        table = pa.Table.from_pylist(good, arrow_schema(schema))
    else:
        kept = range(table.num_rows)
    columns = {name: _scaled(table[name].combine_chunks()) for name in schema.names}
    return columns, np.array(kept, np.int64), bad


def dead_letter(reason: str, place: str, raw: bytes) -> str:
    """One line of the dead-letter log; bytes that are not UTF-8 travel in base 64."""
    try:
        shown = {"raw": raw.decode()}
    except UnicodeDecodeError:
        shown = {"rawBase64": base64.b64encode(raw).decode()}
    return json.dumps({"reason": reason, "place": place, **shown})


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


def _read_at_once(data: bytes, schema: Schema) -> pa.Table | None:
    """The records by Arrow's JSON reader, or None if any of them needs the line-by-line reader to say what is wrong.

    Whatever this accepts, `Schema.parse` accepts with the same values. Arrow's reader is as strict about types, but it
    lets a record span lines or share one, does not look into fields it skips, and does not know our limits.
    """
    if not data.startswith(b"{") or (b"N" in data and b"NaN" in data) or b"Infinity" in data:
        return None
    text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    if not len(ends) or ends[-1] != len(text) - 1:
        ends = np.append(ends, len(text))
    starts = np.append(0, ends[:-1] + 1)
    one_record_a_line = (text[starts] == ord("{")).all() and (text[ends - 1] == ord("}")).all()
    if not one_record_a_line or (ends - starts).max() > MAX_LINE_BYTES:
        return None
    try:
        data.decode()
        table = pyarrow.json.read_json(
            pa.BufferReader(data),
            pyarrow.json.ReadOptions(use_threads=False, block_size=4 * MAX_LINE_BYTES),
            pyarrow.json.ParseOptions(arrow_schema(schema), unexpected_field_behavior="ignore"),
        )
    except (UnicodeDecodeError, pa.ArrowInvalid):
        return None
    times = table[schema.time_field]
    complete = table.num_rows == len(ends) and not times.null_count and not table[schema.id_field].null_count
    if not complete or pc.min(times).as_py() < 0 or pc.max(times).as_py() >= MAX_TIME:
        return None
    return table


def _scaled(array: pa.Array) -> pa.Array:
    """A decimal column as int64 minor units; any other as it is."""
    if not pa.types.is_decimal(array.type):
        return array
    halves = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    return pa.array(
        halves[::2], mask=array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    )
