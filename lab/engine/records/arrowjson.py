"""Lines as typed Arrow columns: what `lab.engine.compiled.scan` reads, in a form that everything behind it takes."""

import json
from collections import Counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.engine.compiled import scan
from lab.engine.records.expected import expected_members
from lab.model.jsontext import MAX_DEPTH
from lab.model.schema import MAX_TIME, Schema
from lab.model.times import HOUR_MS, local_to_utc_ms, offset_of_local_hour

ESCAPED = r"[^ !#-\[\]-~]"  # what a JSON string in ASCII cannot hold as it is


class ScannedLines(NamedTuple):
    """The lines that were read, as a column for each field."""

    read: np.ndarray  # which lines were
    columns: dict[str, pa.Array]
    nan: Counter[str]  # field -> its values that were NaN or the like


def scan_lines(
    text: np.ndarray, starts: np.ndarray, ends: np.ndarray, latest: np.ndarray, schema: Schema
) -> ScannedLines:
    """Reads lines of a text, a record each; those that have anything unusual are left to be read one by one.

    `latest`: for each line the latest event time that it may have.
    """
    expected = expected_members(schema)
    shape = len(schema.fields), len(starts)
    values = scan.Values(
        np.zeros(shape, np.int64),
        np.zeros(shape, np.int64),
        np.zeros(shape, np.int32),
        np.zeros(shape, np.uint8),
    )
    read = np.zeros(len(starts), bool)
    seen, around = np.zeros(len(expected.members), np.int64), np.zeros(len(expected.objects), np.int64)
    scan.scan_lines(text, starts, ends, expected, values, read, seen, around, np.zeros(MAX_DEPTH, np.uint8))
    for number, field in enumerate(schema.fields):
        if field.zone:
            values.numbers[number], is_shown = _local_to_utc(values.numbers[number], field.zone)
            read &= is_shown | (values.states[number] != scan.PRESENT)
    read &= _is_one_event(text, values, latest, schema)
    if not read.all():
        values = scan.Values(*(each.compress(read, axis=1) for each in values))
    columns, nan = {}, Counter[str]()
    is_present, is_nan = values.states == scan.PRESENT, values.states == scan.NOT_A_NUMBER
    for number, field in enumerate(schema.fields):
        present = is_present[number]
        columns[field.name] = (
            _numbers(values.numbers[number], present)
            if field.is_number_or_time
            else _texts(text, values.starts[number], values.sizes[number], present)
        )
        if count := np.count_nonzero(is_nan[number]):
            nan[field.name] = int(count)
    return ScannedLines(read, columns, nan)


def _is_one_event(text: np.ndarray, values: scan.Values, latest: np.ndarray, schema: Schema) -> np.ndarray:
    """Which rows have an id and a time that is allowed, and are not two events, or the row before, as updates and deletes are."""
    time, *ids = (schema.names.index(name) for name in (schema.time_field, *schema.id_fields))
    times = values.numbers[time]
    fit = (values.states[time] == scan.PRESENT) & (0 <= times) & (times < MAX_TIME) & (times <= latest)
    for number in ids:
        fit &= values.states[number] == scan.PRESENT
        if schema.fields[number].type == "string":
            fit &= values.sizes[number] != 0
    if schema.operation_field:
        number = schema.fields.index(schema.operation_field)
        letters = text.take(values.starts[number], mode="clip")
        is_letter = (values.states[number] == scan.PRESENT) & (values.sizes[number] == 1)
        # an escaped letter has more than one byte, and is a size below 0
        fit &= ~(is_letter & ((letters == ord("u")) | (letters == ord("d")))) & (values.sizes[number] >= 0)
    return fit


def _numbers(values: np.ndarray, present: np.ndarray) -> pa.Array:
    return pa.array(values, mask=None if present.all() else ~present)


def _texts(text: np.ndarray, starts: np.ndarray, sizes: np.ndarray, present: np.ndarray) -> pa.Array:
    """Texts copied from where they stand."""
    ends = np.zeros(len(starts) + 1, np.int32)
    copied = np.empty(int(np.abs(sizes[present]).sum()), np.uint8)
    scan.copy_texts(text, starts, sizes, present, ends, copied)
    nulls = len(present) - np.count_nonzero(present)
    bits = pa.py_buffer(np.packbits(present, bitorder="little")) if nulls else None
    buffers = [bits, pa.py_buffer(ends), pa.py_buffer(copied)]
    return pa.Array.from_buffers(pa.string(), len(present), buffers, nulls)


def _local_to_utc(local: np.ndarray, zone: str) -> tuple[np.ndarray, np.ndarray]:
    """Local times as ms since the epoch, and which of them clocks ever show. The offset is looked up once for an hour."""
    hours, which = np.unique(local // HOUR_MS, return_inverse=True)
    of_hours = [offset_of_local_hour(hour, zone) for hour in hours.tolist()]
    utc = local - np.array([offset or 0 for offset in of_hours], np.int64)[which]
    is_shown = np.ones(len(local), bool)
    for row in np.flatnonzero(np.array([offset is None for offset in of_hours], bool)[which]).tolist():
        found = local_to_utc_ms(int(local[row]), zone)
        utc[row], is_shown[row] = found or 0, found is not None
    return utc, is_shown


def quote_json(texts: pa.Array) -> pa.Array:
    """Texts as JSON strings in ASCII.

    >>> quote_json(pa.array(["ip", 'a"b'])).to_pylist()
    ['"ip"', '"a\\\\"b"']
    """
    quote = pa.scalar('"', texts.type)
    found = pc.binary_join_element_wise(quote, texts, quote, pa.scalar("", texts.type))
    others = pc.match_substring_regex(texts, ESCAPED)
    if pc.any(others).as_py():
        escaped = [json.dumps(text) for text in texts.filter(others).to_pylist()]
        found = pc.replace_with_mask(found, others, pa.array(escaped, texts.type))
    return found
