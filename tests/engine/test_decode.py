"""Reading at once and reading line by line agree."""

import json
from base64 import b64decode
from collections import Counter
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.engine.records import decode
from lab.engine.records.columns import LOG_TIME
from lab.engine.records.decode import decode_records
from lab.engine.records.feeds import FileFeed, LooseLines, PartitionRecords
from lab.logs.files import FileLog
from lab.model.deadletters import reason_without_value
from lab.model.field import Field
from lab.model.jsontext import MAX_DEPTH, MAX_LINE_BYTES, BadRecord
from lab.model.reference import Reference
from lab.model.schema import NAN, PAYMENTS, Schema
from tests.examples import examples

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
    "1e17",
    "12345678901234567",
    "-1e16",
    "9999999999999999.99",
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
    for _, line in LooseLines(data).lines():
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


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(lines(), min_size=1, max_size=4), st.sampled_from([b"", b"\n"]))
def test_a_segment_reads_as_its_lines_do(parts, end):
    data = b"\n".join(parts) + end
    columns, _, bad = decode_records(LooseLines(data), PAYMENTS)
    good, bad_count = line_by_line(data, PAYMENTS)
    assert as_rows(columns, PAYMENTS) == good
    assert len(bad) == bad_count


CELLS = [
    *(
        *NUMBERS,
        "",
        "+7",
        "007",
        ".5",
        "5.",
        " 5",
        "5 ",
        "1e",
        "-",
        "NaN",
        "-Infinity",
        "null",
        "true",
        "false",
        "True",
    ),
    *(
        "CSH",
        "é",
        "😀",
        "\u00a0",
        "a\tb",
        "a\u2028b",
        "a\x85b",
        "a\0b",
        '"CSH"',
        '"a,b"',
        'a"b',
        '"',
        "{",
        "x" * 2001,
        "é" * 1001,
    ),
    *("2013-01-01 00:00:00", "2013-01-01 00:00:00.5", "2013-02-29 00:00:00", "2012-02-29 23:59:59.999"),
    *(
        "2013-01-01",
        "2013-01-01T00:00",
        "2013-01-01T00:00:00Z",
        "2013-01-01T00:00+0130",
        "1999-12-31 24:00:00",
    ),
    *("1356998400", "1356998400000", "1356998400.123456", "0999-01-01 00:00:00"),
]
TYPES = [("long", ""), ("long", ""), ("decimal(8,2)", ""), ("string", ""), ("boolean", "")]
TYPES += [("time", unit) for unit in ("iso", "utc", "s", "ns")]
FIELDS = tuple(Field(f"f{number}", type_, unit=unit) for number, (type_, unit) in enumerate(TYPES))
OF_CSV = Schema("cells", FIELDS, ("f0",), "f1")
GOOD_CELLS = [*("7", "1356998400000", "21.5", "CSH", "true"), "2013-01-01T00:00Z", "2013-01-01", "12.5", "12"]


@st.composite
def csv_lines(draw):
    """A line of cells, most often with one or two that are wrong or unusual."""
    cells, places = [*GOOD_CELLS], st.integers(0, len(GOOD_CELLS) - 1)
    for place, cell in draw(st.lists(st.tuples(places, st.sampled_from(CELLS)), max_size=2)):
        cells[place] = cell
    raw = ",".join(cells[: draw(st.integers(1, len(cells)))]).encode()
    raw = (
        draw(st.sampled_from([b"%s"] * 6 + [b"%s,", b" %s", b"%s ", b"%s\r", b"\xef\xbb\xbf%s", b"%s\xff"]))
        % raw
    )
    return raw[: draw(st.integers(0, len(raw)))] if draw(st.integers(0, 5)) == 0 else raw


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(csv_lines() | lines(), min_size=1, max_size=4), st.sampled_from(["csv", "either"]))
def test_lines_of_csv_read_as_one_by_one(parts, records):
    schema = replace(OF_CSV, records=records)
    data = b"\n".join(parts)
    columns, _, bad = decode_records(LooseLines(data), schema)
    good, bad_count = line_by_line(data, schema)
    assert as_rows(columns, schema) == good
    assert len(bad) == bad_count


@pytest.mark.parametrize("place", range(len(GOOD_CELLS)))
@pytest.mark.parametrize("cell", CELLS)
def test_each_cell_reads_as_the_schema_reads_it(place, cell):
    data = ",".join([*GOOD_CELLS[:place], cell, *GOOD_CELLS[place + 1 :]]).encode()
    columns, *_ = decode_records(LooseLines(data), replace(OF_CSV, records="csv"))
    assert as_rows(columns, OF_CSV) == line_by_line(data, replace(OF_CSV, records="csv"))[0]


def test_plain_lines_of_csv_are_read_at_once(monkeypatch):
    monkeypatch.setattr(Schema, "events", lambda *of: pytest.fail("one by one"))
    schema = replace(OF_CSV, records="csv")
    lines = b"\n".join([",".join(GOOD_CELLS).encode(), b"8,2013-01-01 00:00:00.500,,,,,,,", b"9,5"])
    columns, *_ = decode_records(LooseLines(lines), schema)
    assert columns["f0"].to_pylist() == [7, 8, 9] and columns["f1"].to_pylist()[1] == 1356998400500


@pytest.mark.parametrize("nan", NAN)
@pytest.mark.parametrize(("records", "good"), [("json", [1, 4]), ("csv", [2, 3]), ("either", [1, 2, 3, 4])])
def test_what_a_record_is_and_what_nan_is_the_schema_says(records, good, nan):
    schema = replace(PAYMENTS, records=records, nan=nan)
    data = b"""{"transactionId": 1, "eventTime": 5}
2,2013-01-01 00:00:00,25,12,CSH,0.50
3,2013-01-01 00:00:00,25,12,CSH,NaN
{"transactionId": 4, "eventTime": 5, "paymentAmount": -Infinity, "payeeId": NaN}"""
    nan_as_null = Counter()
    columns, _, bad = decode_records(LooseLines(data), schema, nan_as_null=nan_as_null)
    good = good if nan == "null" else [number for number in good if number < 3]
    read, bad_count = line_by_line(data, schema)
    assert [event["transactionId"] for event in read] == good and len(bad) == bad_count == 4 - len(good)
    assert as_rows(columns, schema) == read
    assert nan_as_null.total() == (3 in good) + 2 * (4 in good)


@pytest.mark.parametrize("name", PAYMENTS.names)
@pytest.mark.parametrize("value", NUMBERS + TEXTS + OTHERS)
def test_what_is_read_at_once_is_what_the_schema_reads(name, value):
    data = ("{" + ",".join(f'"{n}":{v}' for n, v in (GOOD | {name: value}).items()) + "}").encode()
    columns, *_ = decode_records(LooseLines(data), PAYMENTS)
    assert as_rows(columns, PAYMENTS) == line_by_line(data, PAYMENTS)[0]


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
    columns, _, bad = decode_records(LooseLines(b"\n".join([good, b"", line, good])), PAYMENTS)
    assert len(columns["transactionId"]) == 2
    ((why, place, raw, *_),) = bad
    assert reason in why
    assert (place, raw) == ("3", line)


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH, 5_000])
@pytest.mark.parametrize("inside", ["[%s]", '{"a":%s}'])
def test_deep_json_in_a_skipped_field_is_bad_at_one_depth_for_all(depth, inside):
    before, _, after = inside.partition("%s")
    line = (
        '{"transactionId": 1, "eventTime": 5, "x": ' + before * depth + "1" + after * depth + "}"
    ).encode()
    good = b'{"transactionId": 2, "eventTime": 5, "x": "' + b"[" * 5000 + b'"}'
    columns, _, bad = decode_records(LooseLines(b"\n".join([good, line])), PAYMENTS)
    reference = Reference(PAYMENTS)
    reference.event(line)
    assert len(columns["transactionId"]) == 2 - len(bad) and len(bad) == (depth >= MAX_DEPTH)
    assert [reason for reason, *_ in bad] == [letter["reason"] for letter in reference.dead_letters]


BAD_LINES = {
    "no JSON": b"{oops}",
    "a long that is none": b'{"transactionId": 1, "eventTime": 5, "payeeId": 1.5}',
    "a decimal that does not fit": b'{"transactionId": 1, "eventTime": 5, "paymentAmount": 0.005}',
    "no time": b'{"transactionId": 1, "eventTime": -4}',
    "no UTF-8": b'{"transactionId": 1, "eventTime": 5, "paymentType": "\xff"}',
    "two in a line": b'{"transactionId": 1, "eventTime": 5}{"transactionId": 1, "eventTime": 5}',
    "CSV": b"1,2013-01-01 00:00:00,25,12,CSH,0.005",
}


@pytest.mark.parametrize("bad", BAD_LINES.values(), ids=BAD_LINES)
def test_only_the_neighbourhood_of_a_bad_line_is_read_line_by_line(bad, monkeypatch):
    """At most 63 lines, where the whole run of 10,000 would take ten times as long as it does."""
    read = []
    monkeypatch.setattr(
        Schema, "parse", lambda self, *line, parse=Schema.parse: read.append(1) or parse(self, *line)
    )
    lines = [b'{"transactionId": %d, "eventTime": 5}' % n for n in range(10_000)]
    lines[7_777] = bad
    columns, kept, ((_, place, raw, *_),) = decode_records(LooseLines(b"\n".join(lines)), PAYMENTS)
    assert (place, raw) == ("7778", bad) and len(read) < 64
    assert columns["transactionId"].to_pylist() == kept.tolist() == [n for n in range(10_000) if n != 7_777]


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        lines()
        | lines().map(lambda line: line + b"\n")
        | st.sampled_from(
            [
                b"",
                b"\n",
                b'{"transactionId": 1,\n"eventTime": 5}',
                b'{"transactionId": 1, "eventTime": 5}\r\n\n',
            ]
        ),
        min_size=1,
        max_size=5,
    )
)
def test_each_value_of_a_topic_is_a_record_with_its_own_log_time(values):
    """Empty ones, and those with line ends inside, too."""

    class Records:
        keys = ()
        data = b"\n".join(values) if not any(b"\n" in value for value in values) else b""
        log_time, source = np.arange(len(values)) + 1_000, 0

        def lines(self):
            return zip(self.places(range(len(values))), values, strict=True)

        def places(self, numbers):
            return [f"topic/0:{number}" for number in numbers]

    batch = decode.decode([Records()], PAYMENTS, 10**15)
    good, bad = [], []
    for number, value in enumerate(values):
        try:
            good.append((number + 1_000, PAYMENTS.parse(value)["transactionId"]))
        except BadRecord:
            bad.append(f"topic/0:{number}")
    columns = batch.events[0] if batch.events else {LOG_TIME: np.empty(0), "transactionId": pa.array([])}
    assert list(zip(columns[LOG_TIME].tolist(), columns["transactionId"].to_pylist(), strict=True)) == good
    assert [json.loads(letter)["place"] for letter in batch.dead_letters] == bad
    assert batch.records == len(values)


def test_values_of_a_topic_that_end_in_a_line_end_are_read_at_once(monkeypatch):
    """As producers send them that read a file: one by one they would take ten times as long."""
    monkeypatch.setattr(Schema, "parse", None)
    values = [b'{"transactionId": %d, "eventTime": 5}\n' % number for number in range(1_000)]

    class Records:
        keys = ()
        data, log_time, source = b"", np.full(len(values), 1_000), 0

        def lines(self):
            return zip(map(str, range(len(values))), values, strict=True)

        def places(self, numbers):
            return [str(number) for number in numbers]

    (columns,) = decode.decode([Records()], PAYMENTS, 10**15).events
    assert columns["transactionId"].to_pylist() == list(range(1_000))


DAY = 86_400_000


@pytest.mark.parametrize("log_time", [1_000, np.array([1_000] * 3)], ids=["of the segment", "of each record"])
def test_a_time_more_than_max_future_after_the_log_time_is_bad_for_engine_and_reference(log_time):
    lines = [b'{"transactionId": %d, "eventTime": %d}' % (n, 1_000 + DAY + n) for n in range(3)]
    records = LooseLines(b"\n".join(lines), log_time)
    columns, _, bad = decode_records(records, PAYMENTS)
    assert columns["transactionId"].to_pylist() == [0]
    allowed = f"at most {DAY} ms after the log time of its record, which is 1000"
    assert [reason for reason, *_ in bad] == [
        f"eventTime: {1_000 + DAY + n}, expected {allowed}" for n in (1, 2)
    ]
    reference = Reference(PAYMENTS)
    for line in lines:
        reference.event(line, log_time=1_000)
    assert [letter["reason"] for letter in reference.dead_letters] == [reason for reason, *_ in bad]
    assert len(decode_records(records, PAYMENTS, max_future_ms=DAY + 1)[2]) == 1
    assert not decode_records(records, PAYMENTS, max_future_ms=10**20)[2]
    tolerant = Reference(PAYMENTS, max_future_ms=DAY + 2)
    tolerant.event(lines[2], log_time=1_000)
    assert not tolerant.dead_letters


def test_a_log_that_is_not_live_has_no_future():
    line = b'{"transactionId": 1, "eventTime": 7226582400000}'  # 2199
    assert not decode_records(LooseLines(line), PAYMENTS)[2]


def test_a_dead_letter_keeps_the_raw_bytes():
    letter = json.loads(decode.dead_letter("why", "3", b"\xff\xfe"))
    assert letter == {"reason": "why", "place": "3", "rawBase64": "//4="}


@pytest.mark.parametrize("unit", [b'"', b"\x01", "😀".encode(), b"\xff", b"a"])
def test_a_dead_letter_of_a_long_record_stays_small_and_tells_which_one_it_was(unit):
    """A broker takes 1 MiB; 900 kB of quotes are twice that in JSON, of control characters six times."""
    raw = unit * (900_000 // len(unit))
    line = decode.dead_letter("why", "3", raw)
    letter = json.loads(line)
    assert len(line) < 64_000
    assert letter["bytes"] == len(raw) and letter["sha256"] == sha256(raw).hexdigest()
    beginning = letter["raw"].encode() if "raw" in letter else b64decode(letter["rawBase64"])
    assert len(beginning) > 1990 and raw.startswith(beginning)


@pytest.mark.parametrize(
    "line",
    [
        b"{" + b'"' * 900_000,
        b'{"transactionId": "' + b"\\u0001" * 150_000 + b'", "eventTime": 5}',
        b'{"transactionId": 1, "eventTime": 5, "x": ' + b"9" * 1_100_000,
        b'"' * 900_000,
    ],
)
def test_the_dead_letter_of_any_record_stays_small(line):
    *_, bad = decode_records(LooseLines(line), PAYMENTS)
    assert max(len(decode.dead_letter(*record)) for record in bad) < 64_000


@pytest.mark.parametrize("records", ["json", "csv", "either"])
def test_tombstones_and_records_of_a_schema_registry_are_dead_letters_of_a_kind_of_their_own(records):
    """Also where a run has nothing else."""
    schema = replace(PAYMENTS, records=records)
    for values, kinds in (
        ([b""], {"no value": 1}),
        ([b"", b""], {"no value": 2}),
        ([b"\0\0\0\0\x07{}", b"", b"\0\0\0\0\x08\n\xff"], {"no value": 1, "Schema Registry": 2}),
    ):
        offsets = range(5, 5 + len(values))
        run = PartitionRecords("t", 3, offsets, values, np.full(len(values), 9))
        batch = decode.decode([run], schema, 0)
        assert batch.dead_letters_by_kind == kinds and batch.records == len(values)
        places = [json.loads(letter)["place"] for letter in batch.dead_letters]
        assert places == [f"t/3:{offset}" for offset in offsets]
        reasons = [reason_without_value(json.loads(letter)["reason"]) for letter in batch.dead_letters]
        assert ["tombstone" in reason for reason in reasons] == [value == b"" for value in values]


@pytest.mark.parametrize("joined", [True, False])
def test_the_dead_letter_of_a_record_of_a_topic_has_its_key_and_log_time(joined):
    values = [b'{"transactionId": 1, "eventTime": 5}', b"{", b"" if joined else b"{\n", b"{"]
    keys = [b"a", b"order-7", None, b"b"]
    run = PartitionRecords("t", 3, range(4), values, np.arange(60, 64), keys)
    letters = [json.loads(line) for line in decode.decode([run], PAYMENTS, 10**15).dead_letters]
    assert [(each["place"], each["logTime"], each.get("key")) for each in letters] == [
        ("t/3:1", 61, "order-7"),
        ("t/3:2", 62, None),
        ("t/3:3", 63, "b"),
    ]


@given(st.binary(max_size=300) | st.integers(0, 1 << 20).map(lambda size: "é\x1b\n".encode() * (size // 4)))
def test_a_key_of_a_dead_letter_is_bounded_and_escaped_whatever_it_is(key):
    line = decode.dead_letter("why", "t/0:1", b"\xff" * 5_000, 7, key)
    letter = json.loads(line)
    assert len(line) < 10_000 and line.isascii() and line.isprintable()
    shown = letter["key"].encode() if "key" in letter else b64decode(letter["keyBase64"])
    assert key.startswith(shown)
    assert letter.get("keyBytes") == (len(key) if len(key) > 200 else None)
    assert shown == key or len(key) > 200 >= len(shown) > 195


def test_the_dead_letter_of_a_file_log_has_its_log_time(tmp_path):
    log = FileLog(tmp_path / "events")
    log.append(["{", '{"transactionId": 1, "eventTime": 5}'], log_time_ms=60)
    log.append(["}"], log_time_ms=61)
    runs = FileFeed(log.folder).read({0: (0, log.end())}, 0)
    letters = [json.loads(line) for line in decode.decode(runs, PAYMENTS, 10**15).dead_letters]
    assert [(each["logTime"], each["raw"]) for each in letters] == [(60, "{"), (61, "}")]
    assert not any("key" in each for each in letters)
