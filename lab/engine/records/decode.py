"""Decode: raw bytes → typed columns, a whole run of records at a time; bad records become dead letters."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.engine.records.arrowjson import arrow_types, quote_json, read_lines, typed_columns
from lab.engine.records.columns import ID, ID_TEXT, LOG_TIME, SOURCE, Columns
from lab.engine.records.feeds import Records
from lab.engine.records.parallel import parallel_map
from lab.model.deadletters import dead_letter, error_kind
from lab.model.field import MAX_TEXT, Value
from lab.model.jsontext import MAX_DEPTH, MAX_LINE_BYTES, BadRecord
from lab.model.schema import MAX_FUTURE_MS, MAX_ID, MAX_TIME, Schema

LIKE_SECONDS = 10**11  # ms: March 1973; as seconds, the year 5138
MANY, FEW = 10_000, 64  # lines read at once, and lines next to a bad one that are read one by one
NOT_WORTH_ARROW = 10  # records: one by one they take less time than Arrow needs to begin


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
        batch.dead_letters_by_kind.update(error_kind(reason) for reason, _, _ in bad)
        if events:
            batch.dated_like_seconds += _like_seconds(columns[schema.time_field], columns[LOG_TIME])
            batch.events.append(columns)
    return batch


def _decode_run(records: Records, schema: Schema, max_future_ms: int) -> tuple[Columns, list, Counter[str]]:
    """The good records of a run with log time and source, the bad ones, NaN by field; the run itself may go."""
    nan_as_null: Counter[str] = Counter()
    columns, kept, bad = decode_records(records, schema, max_future_ms, nan_as_null)
    columns |= {LOG_TIME: records.log_time[kept], SOURCE: np.full(len(kept), records.source)}
    return columns, bad, nan_as_null


def _like_seconds(times: pa.Array, log_times: np.ndarray) -> int:
    return int(np.count_nonzero((times.to_numpy() < LIKE_SECONDS) & (log_times > 10 * LIKE_SECONDS)))


class BadLine(NamedTuple):
    """A record that is not an event."""

    reason: str
    place: str
    data: bytes


class DecodedRecords(NamedTuple):
    """The events of a run of records as columns, decimals scaled to int64; an update in a change log is two events."""

    columns: Columns
    record_of_event: np.ndarray  # the number of each event's record in the run, from 0
    bad: list[BadLine]


def decode_records(
    records: Records,
    schema: Schema,
    max_future_ms: int = MAX_FUTURE_MS,
    nan_as_null: Counter[str] | None = None,
) -> DecodedRecords:
    """Decodes a run of records.

    `records` has `data`, one record per line; `log_time`, one int for all or one per record; `places`, the places of given lines.
    `nan_as_null` counts, by field, the values that were NaN or infinite.
    """
    lines = RecordLines(records)
    log_times = np.zeros(len(lines.starts), np.int64)
    log_times[lines.records] = records.log_time
    at_once = np.empty(0, np.int64)
    if read := list(_read_at_once(lines, schema)):
        at_once = np.concatenate([rows for rows, _ in read])
        table, right = typed_columns(pa.concat_tables(table for _, table in read), schema)
        if schema.operation_field:  # an update may be two events, and the event of a delete is the row before
            right &= ~pc.is_in(table[schema.operation_field.name], pa.array(["u", "d"])).to_numpy()
        fit = right & _fit(table, log_times[at_once], schema, max_future_ms)
        if not fit.all():
            at_once, table = at_once[fit], table.filter(pa.array(fit))
    one_by_one, good, bad = [], [], []
    others = np.setdiff1d(lines.records, at_once, assume_unique=True) if len(at_once) else lines.records
    for row in others.tolist():
        nans: Counter[str] = Counter()
        try:
            events = schema.events(lines[row], nans)
            for event in events:
                schema.check_future(event, int(log_times[row]), max_future_ms)
            good += [{name: _stored(value) for name, value in event.items()} for event in events]
            one_by_one += [row] * len(events)
            if nans and nan_as_null is not None:
                nan_as_null.update(nans)
        except BadRecord as error:
            bad.append((str(error), row))
    rows, types = np.array(one_by_one, np.int64), arrow_types(schema)
    columns = {name: pa.array([event[name] for event in good], type) for name, type in types.items()}
    if len(at_once):
        rows = np.append(at_once, rows)
        if good:
            order = np.argsort(rows, kind="stable")
            both = pa.concat_tables([table, pa.table(columns)])
            rows, table = rows[order], both.take(pa.array(order))
        columns = {name: table[name].combine_chunks() for name in schema.names}
    if not schema.has_numeric_id:
        columns[ID_TEXT] = _id_texts([columns[name] for name in schema.id_fields])
        columns[ID] = pa.array(_digests(columns[ID_TEXT]))
    places = records.places([row for _, row in bad])
    bad_lines = [BadLine(reason, place, lines[row]) for (reason, row), place in zip(bad, places, strict=True)]
    return DecodedRecords(columns, np.searchsorted(lines.records, rows), bad_lines)


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
            maybe_blank = np.flatnonzero(self._first() != ord("{"))
            blank = [row for row in maybe_blank.tolist() if not self[row].strip()]
            self.records = np.delete(self.records, blank)

    def __getitem__(self, row: int) -> bytes:
        return self._values[row] if self._values else self._data[self.starts[row] : self.ends[row]]

    def _first(self) -> np.ndarray:
        return self.text.take(self.starts, mode="clip")

    def arrow_readable(self) -> np.ndarray:
        """Which lines hold one JSON object as far as can be seen from outside, and nothing that Arrow reads otherwise than we do."""
        data, text, lengths = self._data, self.text, self.ends - self.starts
        plain = (self._first() == ord("{")) & (text[self.ends - 1] == ord("}")) & (lengths <= MAX_LINE_BYTES)
        if b"N" in data and b"NaN" in data or b"Infinity" in data:
            found = [match.start() for match in re.finditer(b"NaN|Infinity", data)]
            plain[np.searchsorted(self.ends, found)] = False
        for row in np.flatnonzero(lengths > 2 * MAX_DEPTH).tolist():  # shorter ones cannot be as deep
            plain[row] &= self[row].count(b"{") + self[row].count(b"[") <= MAX_DEPTH
        if not data.isascii() and not is_utf8(data):
            for row in np.unique(np.searchsorted(self.ends, np.flatnonzero(text >= 0x80))).tolist():
                plain[row] &= is_utf8(self[row])
        return plain


def is_utf8(line: bytes) -> bool:
    """Whether the bytes are text in UTF-8."""
    try:
        return line.decode() is not None
    except UnicodeDecodeError:
        return False


def _read_at_once(lines: RecordLines, schema: Schema) -> Iterator[tuple[np.ndarray, pa.Table]]:
    """Rows and their values, of all lines but those that have a bad one nearby and those that are not plain."""
    if schema.records == "csv" or len(lines.records) <= NOT_WORTH_ARROW:
        return
    plain = lines.arrow_readable()
    text, rows = lines.text, np.flatnonzero(plain)
    if not plain.all():
        text = text.copy()
        for row in np.flatnonzero(~plain).tolist():
            text[lines.starts[row] : lines.ends[row]] = ord(" ")
    text = pa.py_buffer(text)

    def read(rows: np.ndarray) -> Iterator[tuple[np.ndarray, pa.Table]]:
        start, end = int(lines.starts[rows[0]]), int(lines.ends[rows[-1]])
        table = read_lines(text.slice(start, end - start), len(rows), schema)
        if table is not None:
            yield rows, table
        elif len(rows) >= FEW:
            yield from (found for part in np.array_split(rows, 4) for found in read(part))

    for part in np.array_split(rows, -(-len(rows) // MANY)) if len(rows) else ():
        yield from read(part)


def _stored(value: Value) -> int | str | None:
    """As columns hold it: a decimal in minor units."""
    return int(value.scaleb(-int(value.as_tuple().exponent))) if isinstance(value, Decimal) else value


def _fit(table: pa.Table, log_times: np.ndarray, schema: Schema, max_future_ms: int) -> np.ndarray:
    """Which rows have an id, a time and texts that are allowed."""
    times = table[schema.time_field].fill_null(-1).to_numpy()
    latest = np.where(log_times != 0, log_times + min(max_future_ms, MAX_TIME), MAX_TIME)
    fit = (0 <= times) & (times < MAX_TIME) & (times <= latest)
    for name in schema.id_fields:
        fit &= table[name].is_valid().to_numpy()
    for name in schema.names:
        if not schema.field(name).is_number_or_time:
            least, most = (1, MAX_ID) if name in schema.id_fields else (0, MAX_TEXT)
            fit &= _lengths_fit(table[name], least, most)
    return fit


def _lengths_fit(texts: pa.ChunkedArray, least: int, most: int) -> np.ndarray | bool:
    """Which texts have that many characters; nulls have none."""
    if not least and (pc.max(pc.binary_length(texts)).as_py() or 0) <= most:
        return True
    lengths = pc.utf8_length(texts).fill_null(0).to_numpy()
    return (least <= lengths) & (lengths <= most)
