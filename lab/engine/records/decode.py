"""Decode: raw bytes → typed columns, a whole run of records at a time; bad records become dead letters."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.engine.records.arrowjson import ScannedLines, quote_json, scan_lines
from lab.engine.records.columns import ID, ID_TEXT, LOG_TIME, SOURCE, Columns
from lab.engine.records.derived import derived_columns
from lab.engine.records.feeds import Records
from lab.engine.records.parallel import parallel_map
from lab.model.deadletters import dead_letter, error_kind
from lab.model.derived import stored_form
from lab.model.field import Value
from lab.model.jsontext import BadRecord
from lab.model.schema import MAX_FUTURE_MS, MAX_TIME, Schema

LIKE_SECONDS = 10**11  # ms: March 1973; as seconds, the year 5138


@dataclass
class DecodedBatch:
    """What a micro-batch brought: events as columns (for each run of records), and what was bad."""

    events: list[Columns] = field(default_factory=list)
    dead_letters: list[str] = field(default_factory=list)
    dead_letters_by_kind: Counter[str] = field(default_factory=Counter)
    records: int = 0
    # field -> its values that were NaN or the like
    nan_as_null: Counter[str] = field(default_factory=Counter)
    # events logged today whose event time looks like seconds that were read as ms
    dated_like_seconds: int = 0


class BadLine(NamedTuple):
    """A record that is not an event."""

    reason: str
    place: str
    data: bytes
    log_time_ms: int  # 0: not known
    key: bytes | None  # of a topic's record


def decode(runs: Iterable[Records], schema: Schema, max_future_ms: int) -> DecodedBatch:
    """Decodes runs of records of the events' log."""
    batch = DecodedBatch()
    for columns, bad, nan_as_null in parallel_map(
        lambda records: _decode_run(records, schema, max_future_ms), runs
    ):
        events = len(columns[LOG_TIME])
        batch.records += events + len(bad)
        batch.dead_letters += [dead_letter(*record) for record in bad]
        batch.nan_as_null += nan_as_null
        batch.dead_letters_by_kind.update(error_kind(record.reason) for record in bad)
        if events:
            batch.dated_like_seconds += _like_seconds(columns[schema.time_field], columns[LOG_TIME])
            batch.events.append(columns)
    return batch


def _decode_run(
    records: Records, schema: Schema, max_future_ms: int
) -> tuple[Columns, list[BadLine], Counter[str]]:
    """The good records of a run with log time and source, the bad ones, NaN by field; the run itself may go."""
    nan_as_null: Counter[str] = Counter()
    columns, kept, bad = decode_records(records, schema, max_future_ms, nan_as_null)
    columns |= {LOG_TIME: records.log_time[kept], SOURCE: np.full(len(kept), records.source)}
    return columns, bad, nan_as_null


def _like_seconds(times: pa.Array, log_times: np.ndarray) -> int:
    return int(np.count_nonzero((times.to_numpy() < LIKE_SECONDS) & (log_times > 10 * LIKE_SECONDS)))


class DecodedRecords(NamedTuple):
    """The events of a run of records as columns, decimals scaled to int64; an update in a change log is two events, and a record with legs as many as these."""

    columns: Columns
    record_of_event: np.ndarray  # the number of each event's record in the run, from 0
    bad: list[BadLine]


def decode_records(
    records: Records,
    schema: Schema,
    max_future_ms: int = MAX_FUTURE_MS,
    nan_as_null: Counter[str] | None = None,
) -> DecodedRecords:
    """Decodes a run of records: what the compiled reader leaves is read line by line.

    `records` has `data`, one record per line; `log_time`, one int for all or one per record; `places`, the places of given lines.
    `nan_as_null` counts, by field, the values that were NaN or infinite.
    """
    lines = RecordLines(records)
    log_times = np.broadcast_to(records.log_time, len(lines.records))
    latest = np.where(log_times != 0, log_times + min(max_future_ms, MAX_TIME), MAX_TIME)
    starts, ends = lines.starts[lines.records], lines.ends[lines.records]
    read, columns, nans = scan_lines(lines.text, starts, ends, latest, schema)
    if schema.derived or schema.legs:
        read, columns, nans = _with_derived(ScannedLines(read, columns, nans), lines, schema)
    numbers, others = np.repeat(np.flatnonzero(read), max(len(schema.legs), 1)), list[int]()
    events: list[dict] = []
    bad: list[tuple[str, int, int]] = []  # reason, row, log time
    for number in np.flatnonzero(~read).tolist():
        row, more_nans = lines.records[number], Counter[str]()
        try:
            found = schema.events(lines[row], more_nans)
            for event in found:
                schema.check_future(event, int(log_times[number]), max_future_ms)
        except BadRecord as error:
            bad.append((str(error), row, int(log_times[number])))
            continue
        events += found
        others += [number] * len(found)
        nans += more_nans
    if events:
        numbers = np.append(numbers, others)
        order = np.argsort(numbers, kind="stable")
        numbers, columns = numbers[order], _merged(columns, events, order)
    if nan_as_null is not None:
        nan_as_null.update(nans)
    _add_ids(columns, schema)
    places, keys = records.places([row for _, row, _ in bad]), records.keys
    bad_lines = [
        BadLine(reason, place, lines[row], log_time, keys[row] if keys else None)
        for (reason, row, log_time), place in zip(bad, places, strict=True)
    ]
    return DecodedRecords(columns, numbers, bad_lines)


def decode_events(runs: Sequence[Sequence[dict[str, Value]]], schema: Schema, log_time: int) -> DecodedBatch:
    """Events that have been read one by one, as columns; SOURCE is the number of their run."""
    events = [event for run in runs for event in run]
    columns: Columns = {
        name: pa.array(
            [stored_form(event[name]) for event in events],
            pa.int64() if schema.field(name).is_number_or_time else pa.string(),
        )
        for name in schema.names
    }
    _add_ids(columns, schema)
    sources = np.repeat(np.arange(len(runs)), [len(run) for run in runs])
    of_log = {LOG_TIME: np.full(len(events), log_time), SOURCE: sources}
    return DecodedBatch([columns | of_log], records=len(events))


def _add_ids(columns: Columns, schema: Schema) -> None:
    """Adds ids in the forms that windows and alerts take, where they are not numbers."""
    if not schema.has_numeric_id:
        columns[ID_TEXT] = _id_texts([columns[name] for name in schema.event_id_fields])
        columns[ID] = pa.array(_digests(columns[ID_TEXT]))


def _with_derived(scanned: ScannedLines, lines: "RecordLines", schema: Schema) -> ScannedLines:
    """Lines with their derived fields; those that have one that cannot be computed are left to be read one by one, for the reason."""
    read, columns, nans = scanned
    columns, computed = derived_columns(columns, schema)
    recorded = replace(schema, derived=(), legs=())
    for number in np.flatnonzero(read)[~computed].tolist():
        uncounted = Counter[str]()
        recorded.events(lines[lines.records[number]], uncounted)
        nans -= uncounted
        read[number] = False
    return ScannedLines(read, columns, nans)


def _merged(
    columns: dict[str, pa.Array], events: list[dict[str, Value]], order: np.ndarray
) -> dict[str, pa.Array]:
    """Columns and more events behind them, all in another order."""
    taken = pa.array(order)
    return {
        name: pa.concat_arrays(
            [column, pa.array([stored_form(event[name]) for event in events], column.type)]
        ).take(taken)
        for name, column in columns.items()
    }


def _id_texts(columns: list[pa.Array]) -> pa.Array:
    """Ids as texts, each another: a text as it is, several fields as a JSON array."""
    if len(columns) == 1:
        return columns[0]
    parts = [
        quote_json(column) if pa.types.is_string(column.type) else column.cast(pa.string())
        for column in columns
    ]
    inside = pc.binary_join_element_wise(*parts, ",")
    return pc.binary_join_element_wise("[", inside, "]", "")


def _digests(texts: pa.Array) -> np.ndarray:
    """Texts as numbers of 64 bit, the form in which text ids enter windows."""
    raw = b"".join([blake2b(text, digest_size=8).digest() for text in texts.cast(pa.binary()).to_pylist()])
    return np.frombuffer(raw, "<i8")


class RecordLines:
    """A run of records as lines. `records`: which lines are records; blank ones are not, unless the log counts them."""

    def __init__(self, records):
        self._data, self._values = records.data, None
        if not self._data and np.ndim(records.log_time):
            self._values = [value for _, value in records.lines()]
            without_end = (value.rstrip(b"\n") for value in self._values)
            self._data = b"\n".join(b"" if b"\n" in value else value for value in without_end)
        self.text = np.frombuffer(self._data or b" ", np.uint8)
        breaks = np.flatnonzero(self.text == ord("\n"))
        self.starts = np.append(0, breaks + 1)
        self.ends = np.append(breaks, len(self._data))
        self.ends -= (self.text[self.ends - 1] == ord("\r")) & (self.ends > self.starts)
        self.records = np.arange(len(self.starts))
        if np.size(records.log_time) != len(self.starts) or not np.ndim(records.log_time):
            maybe_blank = np.flatnonzero(self.text.take(self.starts, mode="clip") <= ord(" "))
            blank = [row for row in maybe_blank.tolist() if not self[row].strip()]
            self.records = np.delete(self.records, blank)

    def __getitem__(self, row: int) -> bytes:
        return self._values[row] if self._values else self._data[self.starts[row] : self.ends[row]]
