"""Reading at once and reading line by line agree."""

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.engine import decode
from lab.engine.decode import decode_records
from lab.logs.files import Segment
from lab.model.jsontext import MAX_LINE_BYTES, BadRecord
from lab.model.schema import LOGINS, PAYMENTS

NUMBERS = [
    "1",
    "-1",
    "0",
    "-0",
    "21.5",
    "21.500",
    "1e2",
    "1E+2",
    "2.15e1",
    "0.005",
    "1e400",
    "9223372036854775808",
]
TEXTS = [
    '"CSH"',
    '""',
    '"\\u00e9"',
    '"\\ud83d\\ude00"',
    '"\\ud800"',
    '"a\\u0000b"',
    '"21.5"',
    '" 1"',
    '"+1"',
    '"."',
    '"1e2"',
    '"5."',
    '"-.5"',
]
OTHERS = ["null", "true", "NaN", "[]", "{}", "Infinity", '{"eventTime":1}', "01", "", "[1,2]"]
values = st.sampled_from(NUMBERS + TEXTS + OTHERS)
GOOD = {"transactionId": "7", "eventTime": "1356998400000", "paymentAmount": "21.5", "paymentType": '"CSH"'}


@st.composite
def lines(draw):
    """A payment, most often with one thing wrong or unusual about it."""
    members = dict(GOOD)
    names = st.sampled_from([*PAYMENTS.names, "other"])
    for name, value in draw(st.lists(st.tuples(names, values), max_size=2)):
        members[name] = value
    text = "{" + ",".join(f'"{name}":{value}' for name, value in members.items()) + "}"
    wrap = draw(
        st.sampled_from(
            ["%s"] * 6 + ["%s%s", " %s", "%s ", "%s\r", "", "  ", "\ufeff%s", "%s,", "x%s", "{%s", "%s}"]
        )
    )
    raw = wrap.replace("%s", text).encode()
    return raw[: draw(st.integers(1, len(raw) + 1))] if draw(st.integers(0, 5)) == 0 else raw


def line_by_line(data: bytes, schema) -> tuple[list[dict], int]:
    good, bad = [], 0
    for _, line in Segment(0, 0, "events/x", data).lines():
        try:
            good.append(schema.parse(line))
        except BadRecord:
            bad += 1
    return good, bad


def as_rows(columns, schema) -> list[dict]:
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    scales = {field.name: field.scale for field in schema.fields if field.scale}
    rows = table.to_pylist()
    for row in rows:
        for name, scale in scales.items():
            if row[name] is not None:
                row[name] = pa.scalar(row[name]).cast(pa.decimal128(38, 0)).as_py().scaleb(-scale)
    return rows


@settings(max_examples=500, deadline=None)
@given(st.lists(lines(), min_size=1, max_size=4), st.sampled_from([b"", b"\n"]))
def test_a_segment_reads_as_its_lines_do(parts, end):
    data = b"\n".join(parts) + end
    columns, _, bad = decode_records(Segment(0, 0, "events/x", data), PAYMENTS)
    good, bad_count = line_by_line(data, PAYMENTS)
    assert as_rows(columns, PAYMENTS) == good
    assert len(bad) == bad_count


@pytest.mark.parametrize("name", PAYMENTS.names)
@pytest.mark.parametrize("value", NUMBERS + TEXTS + OTHERS)
def test_what_is_read_at_once_is_what_the_schema_reads(name, value):
    data = ("{" + ",".join(f'"{n}":{v}' for n, v in (GOOD | {name: value}).items()) + "}").encode()
    if decode._read_at_once(data, PAYMENTS) is not None:
        columns, *_ = decode_records(Segment(0, 0, "events/x", data), PAYMENTS)
        assert as_rows(columns, PAYMENTS) == line_by_line(data, PAYMENTS)[0]


def test_good_json_is_read_at_once():
    line = json.dumps({"eventId": 1, "eventTime": 5, "ip": "10.0.0.1", "amount": 2.5}).encode()
    assert decode._read_at_once(b"\n".join([line] * 3), LOGINS).num_rows == 3


@pytest.mark.parametrize(
    "line, reason",
    [
        (b'{"transactionId": 1, "eventTime": 5', "not one JSON object"),
        (b'{"transactionId": 1}', "eventTime"),
        (b'{"transactionId": 1, "eventTime": -1}', "eventTime"),
        (b'{"transactionId": 1, "eventTime": 99999999999999}', "eventTime"),
        (b'{"transactionId": 1, "eventTime": 5, "paymentAmount": 1e17}', "paymentAmount"),
        (b'{"transactionId": 1, "eventTime": 5, "paymentType": "\xff"}', "UTF-8"),
        (b'{"transactionId": 1, "eventTime": 5, "x": "' + b"y" * MAX_LINE_BYTES + b'"}', "bytes"),
    ],
)
def test_a_bad_record_names_reason_and_place_and_its_neighbours_are_read(line, reason):
    good = b'{"transactionId": 1, "eventTime": 5}'
    columns, _, bad = decode_records(Segment(0, 0, "events/a", b"\n".join([good, b"", line, good])), PAYMENTS)
    assert len(columns["transactionId"]) == 2
    ((why, place, raw),) = bad
    assert reason in why
    assert (place, raw) == ("events/a:3", line)


def test_a_dead_letter_keeps_the_raw_bytes():
    letter = json.loads(decode.dead_letter("why", "events/a:3", b"\xff\xfe"))
    assert letter == {"reason": "why", "place": "events/a:3", "rawBase64": "//4="}
