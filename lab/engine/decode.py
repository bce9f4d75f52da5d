"""Decode: raw bytes → typed columns, a whole segment at a time; bad records become dead letters. No state.

Out come envelopes: one row per segment for the lane that takes it, and a copy of each control message for every lane.
"""

import base64
import json
from collections.abc import Iterator
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from lab.engine.columns import Columns, pack
from lab.engine.settings import Settings
from lab.keygroups import placed_ids
from lab.logs.files import Segment
from lab.schema import MAX_LINE_BYTES, MAX_TIME, BadRecord, Schema

ENVELOPES = "lane int, kind string, payload binary"


def decode(batches: Iterator[pa.RecordBatch], settings: Settings) -> Iterator[pa.RecordBatch]:
    """Rows (kind, path) of log segments → ENVELOPES; `mapInArrow` runs it."""
    lanes = placed_ids(settings.lanes)
    for batch in batches:
        for kind, path in zip(*(batch.column(name).to_pylist() for name in ("kind", "path")), strict=True):
            segment = Segment.read(path)
            if kind == "control":
                messages = [
                    {
                        "logTime": segment.log_time,
                        "source": segment.source,
                        "place": place,
                        "message": line.hex(),
                    }
                    for place, line in segment.lines()
                ]
                yield _rows([(lane, kind, json.dumps(messages).encode()) for lane in lanes])
            else:
                lane = lanes[segment.source % settings.lanes]
                yield _rows(
                    (lane, kind, payload) for kind, payload in _decode_events(segment, settings.schema)
                )


def _rows(rows) -> pa.RecordBatch:
    lanes, kinds, payloads = zip(*rows, strict=True)
    return pa.record_batch(
        [pa.array(lanes, pa.int32()), pa.array(kinds), pa.array(payloads, pa.binary())],
        names=["lane", "kind", "payload"],
    )


def _decode_events(segment: Segment, schema: Schema) -> Iterator[tuple[str, bytes]]:
    columns, bad = decode_records(segment, schema)
    rows = len(columns[schema.id_field])
    if rows:
        columns["logTime"] = np.full(rows, segment.log_time)
        columns["source"] = np.full(rows, segment.source)
        yield "events", pack(columns)
    if bad:
        yield "deadLetters", json.dumps([dead_letter(*record) for record in bad]).encode()
    yield "counts", json.dumps({"records": rows + len(bad), "deadLetters": len(bad)}).encode()


def decode_records(segment: Segment, schema: Schema) -> tuple[Columns, list[tuple[str, str, bytes]]]:
    """The segment's good records as columns (decimals scaled to int64), the bad ones as (reason, place, raw bytes)."""
    table = _read_at_once(segment.data, schema)
    if table is not None:
        return {name: _scaled(table[name].combine_chunks()) for name in schema.names}, []
    good, bad = [], []
    for place, line in segment.lines():
        try:
            good.append(schema.parse(line))
        except BadRecord as error:
            bad.append((str(error), place, line))
    table = pa.Table.from_pylist(good, arrow_schema(schema))
    return {name: _scaled(table[name].combine_chunks()) for name in schema.names}, bad


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
