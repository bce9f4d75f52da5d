"""Nested records read at once and one by one agree: times, booleans, text ids, paths, whatever is odd about them."""

import json
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.engine.records.decode import decode_records
from lab.engine.records.feeds import LooseLines
from lab.model.field import Field
from lab.model.jsontext import BadRecord
from lab.model.schema import Schema
from lab.model.times import UNITS
from tests.examples import examples

ORDERS = Schema(
    "orders",
    (
        Field("id", "string", path=("order", "id")),
        Field("at", "time", path=("order", "placed"), unit="iso"),
        Field("amount", "decimal(9,3)", path=("order", "total", "amount")),
        Field("whole", "decimal(5,0)", path=("order", "total", "whole")),
        Field("gift", "boolean", path=("order", "gift")),
        Field("city", "string", path=("customer", "address", "city.name")),
        Field("customerId", "long", path=("customer", "id")),
        *(
            Field(
                f"in_{unit}",
                "time",
                path=("times", unit),
                unit=unit,
                zone="Europe/Berlin" * (unit == "local"),
            )
            for unit in UNITS
        ),
    ),
    id_fields=("id",),
    time_field="at",
)
NUMBERS = [
    *("1", "-1", "0", "-0", "1.5", "0.0005", "1e2", "1E-3", "1e17", "1e400", "12345678901234567", "1e-400"),
    *("99999", "100000", "999999.999", "1000000", "-999999.9990", "1714525200", "1714525200.123456789"),
    *(
        "1714525200.1234567891",
        "1714525200123",
        "1714525200123.5",
        "1714525200123456",
        "-1714525200123456789",
    ),
    *(
        "1714525200123456789",
        "9223372036854775807",
        "9223372036854775808",
        "9999999999.5",
        "-9223372036.854775808",
    ),
    *("9223372036.854775807", "18446744073709551616", "-0.0000001", "99999999999999999999999999999999999999"),
]
DATES = [
    "2024-05-01",
    "2024-02-29",
    "2023-02-29",
    "1969-12-31",
    "9999-12-31",
    "1000-01-01",
    "0999-12-31",
    "2024-13-01",
]
DATES += ["2024-03-31", "2024-10-27"]  # on which clocks in Berlin are set
DATES += ["2300-01-01", "2200-12-31", "2024-5-1", "2024-04-31"]
CLOCKS = [
    "10:00:00",
    "10:00",
    "23:59:59.999",
    "23:59:59.9999999",
    "02:30",
    "03:00:00",
    "",
    "00:00:60",
    "24:00:00",
    "10:00:00.",
    "10:00:00,5",
]
CLOCKS += ["10:00:00.123456789", "10:00:00.1234567891", "10", "1:00:00", "10:00:00.5"]
ZONES = [
    "Z",
    "z",
    "",
    "+09:00",
    "+0900",
    "-09",
    "+23:59",
    "+24:00",
    "-00:00",
    "+09:60",
    " +09:00",
    "Z ",
    "[UTC]",
]
times = st.builds(
    lambda *parts: json.dumps("".join(parts)),
    st.sampled_from(DATES),
    st.sampled_from(["T", " ", "t", ""]),
    st.sampled_from(CLOCKS),
    st.sampled_from(ZONES),
)
TEXTS = [
    '""',
    '"A-1"',
    '"\\u00e9"',
    '"\\ud800"',
    '"1.5"',
    '"true"',
    '"1714525200"',
    '"%s"' % ("x" * 200),
    '"%s"' % ("é" * 201),
]
TEXTS += [
    '"%s"' % ("é" * 200),
    '"2024-05-01\\u0054 10:00Z"',
    '"2024-05-01T10:00:00\\u005a"',
    '"2024-05-01T10:00:00Z\\n"',
]
OTHERS = [
    "null",
    "true",
    "false",
    "[]",
    "{}",
    "[1]",
    '{"id":"A"}',
    '{"amount":1,"amount":2}',
    '{"x":[{"y":{}}]}',
    "tru",
    "01",
    "",
]
values = st.one_of(st.sampled_from(NUMBERS), times, st.sampled_from(TEXTS), st.sampled_from(OTHERS))
GOOD = {
    ("order", "id"): '"A-1"',
    ("order", "placed"): '"2024-05-01T10:00:00+09:00"',
    ("order", "total", "amount"): "21.5",
}
PATHS = [field.record_path for field in ORDERS.fields]
PATHS += [
    ("order",),
    ("order", "total"),
    ("customer",),
    ("customer", "address"),
    ("times",),
    ("other",),
    ("order", "other"),
]


def text_of(members: dict) -> str:
    """Values at paths as one object; a value that stands where an object should be wins or comes twice."""
    parts, inside = [], {}
    for path, value in members.items():
        if len(path) == 1:
            parts.append(f"{json.dumps(path[0])}:{value}")
        else:
            inside.setdefault(path[0], {})[path[1:]] = value
    parts += [f"{json.dumps(key)}:{text_of(below)}" for key, below in inside.items()]
    return "{" + ",".join(parts) + "}"


@st.composite
def records(draw):
    """An order, most often with something unusual about it."""
    members = dict(GOOD)
    for path, value in draw(st.lists(st.tuples(st.sampled_from(PATHS), values), max_size=3)):
        members[path] = value
    if draw(st.integers(0, 3)) == 0:  # instead of an object, not beside it
        path = draw(st.sampled_from(PATHS))
        members = {other: value for other, value in members.items() if other[: len(path)] != path}
        members[path] = draw(values)
    return text_of(members).encode()


def agree(data: bytes, schema: Schema) -> None:
    columns, _, bad = decode_records(LooseLines(data), schema)
    good, reasons = [], []
    for _, line in LooseLines(data).lines():
        try:
            good.append(schema.parse(line))
        except BadRecord as error:
            reasons.append(str(error))
    for field in schema.fields:
        expected = [event[field.name] for event in good]
        if field.scale:
            expected = [None if value is None else int(value.scaleb(field.scale)) for value in expected]
        assert columns[field.name].to_pylist() == expected, field.name
    assert [reason for reason, *_ in bad] == reasons


@settings(max_examples=examples(1500), deadline=None)
@given(st.lists(records(), min_size=1, max_size=4))
def test_nested_records_read_as_their_lines_do(lines):
    agree(b"\n".join(lines), ORDERS)


@pytest.mark.parametrize("path", PATHS, ids=".".join)
def test_any_value_at_a_path_reads_alike(path):
    members = {other: good for other, good in GOOD.items() if other[: len(path)] != path}
    for value in (*NUMBERS, *TEXTS, *OTHERS):
        agree(text_of(members | {path: value}).encode(), ORDERS)


@pytest.mark.parametrize("unit", ["iso", "utc", "local"])
def test_each_time_that_can_be_written_reads_alike(unit):
    dates = product(DATES, ["T", ""], ["10:00:00", "02:30", ""], ["", "Z"])
    for date, gap, clock, zone in [*dates, *product(["2024-05-01"], ["T", " ", ""], CLOCKS, ZONES)]:
        agree(text_of(GOOD | {("times", unit): f'"{date}{gap}{clock}{zone}"'}).encode(), ORDERS)


def test_nested_records_are_read_at_once(monkeypatch):
    monkeypatch.setattr(Schema, "parse", None)
    times = {
        "s": 1.5,
        "ms": 7,
        "us": "8000",
        "ns": None,
        "m": 1,
        "h": 1.5,
        "d": "2",
        "iso": "2024-05-01 10:00Z",
        "utc": "2024-05-01T10:00:00.1239",
        "local": "2024-05-01 12:00",
    }
    order = {
        "id": "A-1",
        "placed": "2024-05-01T10:00:00Z",
        "gift": True,
        "total": {"amount": 1.5, "whole": 3},
    }
    record = {
        "order": order,
        "times": times,
        "customer": {"id": 5, "address": {"city.name": "Seoul"}},
        "items": [1],
    }
    lines = [json.dumps(record).encode()] * 1000
    columns, kept, bad = decode_records(LooseLines(b"\n".join(lines)), ORDERS)
    assert len(kept) == 1000 and not bad
    first = {name: columns[name][0].as_py() for name in ORDERS.names}
    expected = [
        "A-1",
        1714557600000,
        1500,
        3,
        "true",
        "Seoul",
        5,
        1500,
        7,
        8,
        None,
        60_000,
        5_400_000,
        172_800_000,
        1714557600000,
        1714557600123,
        1714557600000,
    ]
    assert list(first.values()) == expected
