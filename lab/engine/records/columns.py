"""Columns in bytes: what travels between tasks is Arrow IPC with narrowed integers."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Columns = dict[str, np.ndarray | pa.Array]

# beside an event's fields, none of which can be called so; ID, a number, and ID_TEXT are there unless the id is one number
LOG_TIME, SOURCE, ID, ID_TEXT = ":logTime", ":source", ":id", ":idText"
# where a rule says `absence` or events can be taken back: the log time, or in a log that is not live (log time 0) the newest event time up to this event
HEARD = ":heard"
# of a record that took an event back, the seq of the event; of an event dropped late, the row of the newest event beside it in the store
RELATED = ":related"
PLACE = ":place"  # where events can be taken back: increases with the rows of a source, whichever route they are on
BEFORE_ALL = -1  # an event time before all others, which are not before 1970
WORTH_NARROWING = 256  # rows; below, the saved bytes do not pay for the work


def narrow_integers(values: np.ndarray | pa.Array) -> tuple[pa.Array, int]:
    """An integer column in the fewest whole bytes: (values − base) as unsigned, and the base.

    >>> narrow_integers(np.arange(1_700_000_000_000, 1_700_000_000_300))[0].type
    DataType(uint16)
    """
    array = pa.array(values)
    if not pa.types.is_int64(array.type) or len(array) < WORTH_NARROWING:
        return array, 0
    low, high = pc.min_max(array).values()
    if not low.is_valid:
        return array, 0
    base, spread = low.as_py(), high.as_py() - low.as_py()
    for width in (pa.uint8(), pa.uint16(), pa.uint32()):
        if spread >> width.bit_width == 0:
            return pc.subtract(array, base).cast(width), base
    return array, 0


def to_narrowed_batch(columns: Columns, meta: dict[str, Any] | None = None) -> pa.RecordBatch:
    """Columns as one Arrow record batch, integers narrowed; `meta` is any JSON."""
    arrays, bases = [], {}
    for name, values in columns.items():
        array, base = narrow_integers(values)
        arrays.append(array)
        if base:
            bases[name] = base
    metadata = {"bases": json.dumps(bases), "meta": json.dumps(meta)}
    return pa.record_batch(
        arrays, schema=pa.schema(map(pa.field, columns, (a.type for a in arrays)), metadata)
    )


def to_bytes(batch: pa.RecordBatch) -> bytes:
    """A record batch (or a slice of one: only its rows) as Arrow IPC."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def pack(columns: Columns, meta: Any = None) -> bytes:
    """`unpack(pack(columns, meta))` gives them back.

    >>> columns, meta = unpack(pack({"time": np.array([5, 7])}, {"route": "payeeId"}))
    >>> columns["time"].tolist(), meta
    ([5, 7], {'route': 'payeeId'})
    """
    return to_bytes(to_narrowed_batch(columns, meta))


def unpack(data: bytes) -> tuple[Columns, Any]:
    """Integer columns without nulls come back as int64 arrays, all others as Arrow arrays (integers as int64)."""
    batch = pa.ipc.open_stream(data).read_next_batch()
    bases = json.loads(batch.schema.metadata[b"bases"])
    columns: Columns = {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_integer(array.type):
            if array.null_count:
                array = pc.add(array.cast(pa.int64()), bases.get(name, 0))
            else:
                array = array.to_numpy().astype(np.int64)
                array += bases.get(name, 0)
        columns[name] = array
    return columns, json.loads(batch.schema.metadata[b"meta"])


def in_log_order(parts: list[Columns]) -> Columns:
    """One set of columns out of several, by log time, then source, then the order in which the rows came. A single part is in that order already.

    >>> early = {LOG_TIME: np.array([1, 3]), SOURCE: np.array([0, 0]), "id": np.array([10, 11])}
    >>> late = {LOG_TIME: np.array([2]), SOURCE: np.array([1]), "id": np.array([20])}
    >>> in_log_order([late, early])["id"].tolist()
    [10, 20, 11]
    """
    if len(parts) == 1:
        return dict(parts[0])
    columns = {name: concat_columns([part[name] for part in parts]) for name in parts[0]}
    log_time, source = columns[LOG_TIME], columns[SOURCE]
    is_later = log_time[1:] > log_time[:-1]
    is_same = log_time[1:] == log_time[:-1]
    if (is_later | is_same & (source[1:] >= source[:-1])).all():
        return columns
    starts = np.flatnonzero(~is_same | (source[1:] != source[:-1])) + 1  # of the runs that stay together
    starts = np.concatenate(([0], starts))
    order = np.lexsort((source[starts], log_time[starts]))
    ends = np.append(starts[1:], len(log_time))
    rows = np.concatenate([np.arange(starts[run], ends[run]) for run in order])
    return {name: take_rows(values, rows) for name, values in columns.items()}


def concat_columns(arrays: list[np.ndarray | pa.Array]) -> np.ndarray | pa.Array:
    """Columns one behind the other; with nulls in any of them it is an Arrow array."""
    if len(arrays) == 1:
        return arrays[0]
    if all(isinstance(array, np.ndarray) for array in arrays):
        return np.concatenate(arrays)
    return pa.concat_arrays([pa.array(array) for array in arrays])


def take_rows(values: np.ndarray | pa.Array, rows: np.ndarray) -> np.ndarray | pa.Array:
    """The given rows of a column."""
    return values[rows] if isinstance(values, np.ndarray) else values.take(pa.array(rows))


def take_rows_in_order(values: np.ndarray | pa.Array, rows: np.ndarray) -> np.ndarray | pa.Array:
    """As `take_rows`, for different rows in ascending order; if they are all rows, the column itself without a copy, as on a route without a filter.

    >>> column = np.array([5, 7])
    >>> take_rows_in_order(column, np.array([0, 1])) is column, take_rows_in_order(column, np.array([1])).tolist()
    (True, [7])
    """
    return values if len(rows) == len(values) else take_rows(values, rows)


def log_time_or_event_time(log_time: np.ndarray, newest_event_time: np.ndarray | int) -> np.ndarray:
    """The column HEARD, when each record arrived: its log time, or an event time if the log is not live (log time 0).

    >>> log_time_or_event_time(np.array([5, 0]), 7).tolist()
    [5, 7]
    """
    return np.where(log_time > 0, log_time, newest_event_time)


def writable_int64(values: np.ndarray) -> np.ndarray:
    """int64 numbers as compiled loops take them: contiguous and writable; a column of Arrow's is not."""
    return np.require(values, np.int64, ["C", "W"])
