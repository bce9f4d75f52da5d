"""Rows of Arrow's columns as JSON: all at once they are what each value is by itself, exactly."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.model.field import Field
from lab.model.schema import Schema
from lab.sources.arrowrows import TEXT, ArrowRows, _text
from tests.examples import examples

DECIMALS = st.decimals(-(10**25), 10**25, places=12)
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1))
WHOLE = st.integers(-(1 << 63), (1 << 63) - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
COLUMNS = {
    pa.int64(): WHOLE,
    pa.uint64(): st.integers(0, (1 << 64) - 1),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(),
    pa.decimal128(38, 12): DECIMALS,
    pa.string(): TEXTS,
    pa.string_view(): TEXTS,
    pa.dictionary(pa.int8(), pa.string()): TEXTS,
    pa.dictionary(pa.int8(), pa.int64()): WHOLE,
    pa.date32(): st.dates(date(1970, 1, 1), date(2200, 1, 1)),
    pa.binary(): st.binary(max_size=4),
    pa.list_(pa.int64()): st.lists(WHOLE, max_size=3),
    pa.struct([("a b", pa.int64()), ('"', pa.string())]): st.fixed_dictionaries({"a b": WHOLE, '"': TEXTS}),
    pa.struct([("a", pa.list_(pa.string()))]): st.fixed_dictionaries({"a": st.lists(TEXTS, max_size=3)}),
}


def no_long_value(size: int, column: str) -> None:
    pytest.fail(f"{column} has a value of {size} bytes")


NO_ROWS_ARE_LONG = ArrowRows(None, no_long_value)


@st.composite
def batches(draw) -> pa.RecordBatch:
    kinds = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=4))
    count = draw(st.integers(0, 6))
    columns = [
        pa.array(draw(st.lists(st.none() | COLUMNS[kind], min_size=count, max_size=count)), kind)
        for kind in kinds
    ]
    cut = draw(st.integers(0, count))
    return pa.record_batch(columns, [f"c{number}" for number in range(len(kinds))]).slice(cut)


def exact(text: str | bytes) -> object:
    """JSON with its numbers exactly as they are written, but for the way to write them."""
    return json.loads(text, parse_float=Decimal, parse_constant=str)


def by_itself(value: object) -> object:
    """A value as JSON has it, written without Arrow."""
    match value:
        case dict():
            return {name: by_itself(each) for name, each in value.items()}
        case list():
            return [by_itself(each) for each in value]
    return exact(_text(value))


@settings(max_examples=examples(300), deadline=None)
@given(batches())
def test_rows_are_what_each_value_is_by_itself(batch):
    lines = list(NO_ROWS_ARE_LONG.lines(batch))
    assert all(type(line) is bytes for line in lines)
    for line, row in zip(lines, batch.to_pylist(), strict=True):
        assert exact(line) == by_itself(row)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Seoul"])
def test_a_timestamp_is_a_text_with_all_its_digits_or_a_number_of_the_unit_that_is_wanted(unit, zone):
    at = datetime(2024, 5, 1, 10, 0, 0, 123_000 * (unit != "s"), UTC)
    times = pa.array([at, None], pa.timestamp(unit, zone))
    digits = {"s": "", "ms": ".123", "us": ".123000", "ns": ".123000000"}[unit]
    ms = int(at.timestamp() * 1000)
    for field, wanted in (
        (None, f'"2024-05-01T10:00:00{digits}{"Z" if zone else ""}"'),
        (Field("at", "time", unit="utc"), f'"2024-05-01T10:00:00{digits}"'),
        (Field("at", "time", unit="ms"), f"{ms}"),
        (Field("at", "long"), f"{ms}"),
    ):
        schema = field and Schema("s", (Field("id", "long"), field), ("id",), "at")
        batch = pa.record_batch([times], ["at"])
        first, second = ArrowRows(schema, no_long_value).lines(batch)
        assert second == b'{"at": null}'
        assert exact(first) == exact(f'{{"at": {wanted}}}')


def test_a_column_of_integers_that_has_become_one_of_doubles_is_integers_where_the_schema_wants_them():
    schema = Schema("s", (Field("id", "long"), Field("at", "long")), ("id",), "at")
    batch = pa.record_batch([pa.array([7.0, None, 0.5])] * 2, ["id", "other"])
    lines = list(ArrowRows(schema, no_long_value).lines(batch))
    assert lines == [b'{"id": 7, "other": 7.0}', b'{"id": null, "other": null}', b'{"id": 0.5, "other": 0.5}']


def test_a_long_text_that_comes_often_is_not_in_memory_once_for_each_row():
    long = "x" * (1 << 19)
    batch = pa.record_batch([pa.array([long] * 1000).dictionary_encode()], ["a"])
    assert ArrowRows(None, no_long_value)._joined([("a", batch.column(0))], 1000, ()) is None
    assert next(iter(NO_ROWS_ARE_LONG.lines(batch))) == f'{{"a": "{long}"}}'.encode()
    few = pa.record_batch([pa.array(["x", None] * 500).dictionary_encode()], ["a"])
    joined = NO_ROWS_ARE_LONG._joined([("a", few.column(0))], 1000, ())
    assert joined is not None and joined.type == TEXT


def test_the_column_of_a_value_that_no_record_may_have_is_told():
    told = []
    batch = pa.record_batch([pa.array(["x" * 1_048_577])], ["a"])
    list(ArrowRows(None, lambda size, column: told.append((size, column))).lines(batch))
    assert told == [(1_048_577, "a")]
