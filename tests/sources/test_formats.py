"""Files of events in any format: decided by their beginning, read by name, exactly, and a record at a time."""

import csv
import gzip
import io
import json
import shlex
import subprocess
import sys
import tracemalloc
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.model.field import Field
from lab.model.jsontext import BadRecord
from lab.model.rules import parse_message
from lab.model.schema import PAYMENTS, Schema
from lab.past.backtest import Past
from lab.past.replay import replay
from lab.sources import csvrows, jsonfile
from lab.sources.infer import infer
from lab.sources.inferwords import COMMAND
from lab.sources.jsonfile import JsonReader, JsonValues, detect_json_layout
from lab.sources.parquet import ParquetTable
from lab.sources.records import UnreadableFile
from lab.sources.sources import Source
from tests.examples import examples

RULES = ["1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)"]
ORDERS = Schema(
    "orders",
    (
        Field("id", "long"),
        Field("at", "time", unit="utc"),
        Field("city", "string"),
        Field("amount", "decimal(18,2)"),
        Field("gift", "boolean"),
    ),
    ("id",),
    "at",
)


def written(folder: Path, data: str | bytes, name: str = "events") -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def events(path: Path, schema: Schema = ORDERS) -> list[dict]:
    return [schema.parse(line) for line in Source(path, schema)]


def letters(path: Path, schema: Schema = ORDERS) -> list[tuple[str, str]]:
    from lab.engine.checkpoint.settings import Settings

    found = replay(path, ["1,(active),,,(COUNT),,(>),(5),(1)"], engine="reference", settings=Settings(schema))
    return [(letter["place"], letter["reason"]) for letter in found.dead_letters]


# -- CSV ---------------------------------------------------------------------------------------------------------------

ROWS = [
    ["7", "2024-05-01 10:00:00", 'Köln; "am", Rhein\nDeutz', "1234.50", "TRUE"],
    ["8", "2024-05-01 10:00:01", "", "0.10", "false"],
]
READ = [
    {"id": 7, "at": 1714557600000, "city": ROWS[0][2], "amount": Decimal("1234.50"), "gift": "true"},
    {"id": 8, "at": 1714557601000, "city": None, "amount": Decimal("0.10"), "gift": "false"},
]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (3, 2, 4, 1, 0)])
@pytest.mark.parametrize("start", ["", "\ufeff", "\r\n"])
def test_csv_with_a_header_is_read_by_name(delimiter, order, start, tmp_path):
    text = io.StringIO(start, newline="")
    text.seek(0, io.SEEK_END)
    rows = csv.writer(text, delimiter=delimiter)
    for row in [list(ORDERS.names), *ROWS]:
        rows.writerow([row[number] for number in order] + ["more"])
    assert events(written(tmp_path, text.getvalue().replace("more", "other", 1))) == READ


def test_numbers_with_a_decimal_comma_are_exact_if_something_else_divides_cells(tmp_path):
    cells = ["1.234.567,89", "12,5", "1.234", "1,234", "0,1", "7", "-3,00"]
    rows = [f"{number};2024-05-01 10:00:00;{cell}" for number, cell in enumerate(cells)]
    path = written(tmp_path, "\n".join(["id;at;amount", *rows]))
    exact = Schema("x", (*ORDERS.fields[:2], Field("amount", "decimal(18,3)")), ("id",), "at")
    read = [str(event["amount"]) for event in events(path, exact)]
    assert read == ["1234567.890", "12.500", "1234.000", "1.234", "0.100", "7.000", "-3.000"]
    assert Source(path).format == "CSV with a header, separated by semicolons, numbers with a decimal comma"
    english = written(tmp_path, "id\tat\tamount\n1\t2024-05-01 10:00:00\t1,234\n", "english")
    ((place, reason),) = letters(english)
    assert place == "english:2" and 'amount: "1,234", expected a number' in reason


def test_each_column_has_a_decimal_mark_of_its_own(tmp_path):
    rows = ["1;2024-05-01;12.34;1,2", "2;2024-05-01;12.345;0,5", "3;2024-05-01;7.5;1"]
    path = written(tmp_path, "\n".join(["id;at;amount;share", *rows]))
    fields = Field("amount", "decimal(18,3)"), Field("share", "decimal(18,1)")
    read = events(path, Schema("x", (*ORDERS.fields[:2], *fields), ("id",), "at"))
    assert [str(event["amount"]) for event in read] == ["12.340", "12.345", "7.500"]
    assert [str(event["share"]) for event in read] == ["1.2", "0.5", "1.0"]


@pytest.mark.parametrize("cells", [["12,5", "12.5"], ["€ 12,50", "$ 12,50"], ["1,234", "2,500"]])
def test_amounts_that_contradict_each_other_or_are_unclear_are_not_read(cells, tmp_path):
    rows = [f"{number};2024-05-01;{cell}" for number, cell in enumerate(cells)]
    path = written(tmp_path, "\n".join(["id;at;amount", *rows]))
    with pytest.raises(BadRecord, match="expected a number"):
        events(path, Schema("x", (*ORDERS.fields[:2], ORDERS.field("amount")), ("id",), "at"))


def test_a_few_cells_with_another_decimal_mark_are_dead_letters_and_do_not_decide_for_the_column(tmp_path):
    cells = [f"{n},5{n % 10}" for n in range(40)]
    cells[17], cells[30], cells[31] = "22.56", "8.90", "1.234"
    rows = [f"{number};2024-05-01;{cell}" for number, cell in enumerate(cells)]
    path = written(tmp_path, "\n".join(["id;at;amount", *rows]), "dots.csv")
    schema = Schema("x", (*ORDERS.fields[:2], ORDERS.field("amount")), ("id",), "at")
    source = Source(path)
    proposal = infer(source, "x", texts=True, styles=source.styles)
    assert proposal.schema.field("amount").type == "decimal(18,2)"
    assert '"22.56" has another decimal mark than nearly all numbers of this column, such as "0,50"' in str(
        proposal.doubts["amount"]
    )
    assert "2 records will be dead letters; the first, record 18: " in proposal.doubts[""][0]
    bad = letters(path, schema)
    assert [place for place, _ in bad] == ["dots.csv:19", "dots.csv:32"]
    assert "22.56 in amount, expected a decimal comma: 17;2024" in bad[0][1]
    few = written(
        tmp_path, "\n".join(["id;at;amount", *(row.replace(".", ",") for row in rows[:20])]) + "\n", "x"
    )
    assert len(events(few, schema)) == 20


def test_days_with_dots_are_dates_and_those_with_slashes_are_named_as_what_is_missing(tmp_path):
    path = written(tmp_path, "id;at\n1;01.05.2024 10:00:00.5\n2;1.5.2024 9:07\n3;31.02.2024 9:07\n")
    assert [event["at"] for event in events_or_none(path)] == [1714557600500, 1714554420000, None]
    made = infer(list(Source(path))[:2], "x", texts=True)
    assert made.schema.field("at").unit == "utc"
    slashes = written(tmp_path, "id;at\n1;01/05/2024 10:00\n", "slashes")
    (missing,) = infer(Source(slashes), "x", texts=True).missing
    assert 'in at 0 of 1 are times, and one value is "01/05/2024 10:00"' in missing


def test_the_way_for_days_with_slashes_works_on_the_file_itself(tmp_path):
    path = written(
        tmp_path, "id;booked at;card;amt\n1;01/02/2024 10:00;a;1,5\n2;03/02/2024 11:00;a;12,25\n", "slash.csv"
    )
    source = Source(path)
    (missing,) = infer(source, "x", texts=True, delimiter=source.delimiter, words=COMMAND).missing
    command = missing.partition(".venv/bin/python ")[2].rpartition(" FILE")[0]
    subprocess.run(f"{shlex.quote(sys.executable)} {command} slash.csv", shell=True, check=True, cwd=tmp_path)
    again = Source(tmp_path / "events.csv")
    made = infer(again, "x", texts=True, styles=again.styles)
    assert made.schema.time_field == "booked_at" and made.schema.field("amt").is_decimal
    assert "2024-02-03 11:00:00" in (tmp_path / "events.csv").read_text()


def events_or_none(path: Path) -> list[dict]:
    found = []
    for line in Source(path, ORDERS):
        try:
            found.append(ORDERS.parse(line))
        except BadRecord:
            found.append({"at": None})
    return found


def test_a_row_that_cannot_be_read_is_a_dead_letter_with_its_line_and_the_next_is_read(tmp_path):
    rows = [
        b"id,at,city,amount,gift",
        b'1,2024-05-01 10:00:00,"a\nb",1,true',
        b"2,2024-05-01 10:00:00,too,few",
        b"",
        b"3,2024-05-01 10:00:00,x,1,true,more",
        b"x,2024-05-01 10:00:00,x,1,true",
        b"5,2024-05-01 10:00:00,\xe4,1,true",
        b'6,2024-05-01 10:00:00,"a"b,1,true',
        b"7,2024-05-01 10:00:00,x,1.005,true",
        b"8,2024-05-01 10:00:00,x,nan,true",
        b'{"id": 9, "at": "2024-05-01 10:00:00"}',
    ]
    bad = letters(written(tmp_path, b"\r\n".join(rows)))
    assert [place for place, _ in bad] == [f"events:{line}" for line in (4, 6, 7, 8, 9, 10, 12)]
    for (_, reason), part in zip(
        bad,
        ["4 cells, but the header has 5", "6 cells", 'id: "x"', "not UTF-8", "not CSV", '"1.005"', "2 cells"],
    ):
        assert part in reason


def quoted_rows(count: int, cells: dict[int, str]) -> str:
    rows = [f"{number},2024-05-01 10:00:00,{cells.get(number, 'x')},1,true" for number in range(1, count)]
    return "\n".join(["id,at,city,amount,gift", *rows])


def test_a_quote_that_is_not_closed_costs_its_own_line(tmp_path):
    path = written(tmp_path, quoted_rows(200, {10: '"Köln'}))
    ((place, reason),) = letters(path)
    assert place == "events:11" and "lines 11 to 200 in one row: is a quote not closed?" in reason
    assert [json.loads(line)["id"] for line in Source(path, ORDERS) if line[:1] == b"{"] == [
        number for number in range(1, 200) if number != 10
    ]


def test_lines_that_a_row_has_swallowed_are_dead_letters_each_with_its_place(tmp_path):
    path = written(tmp_path, quoted_rows(60, {10: '"Köln', 50: 'Bonn"'}))
    found = letters(path)
    assert [place for place, _ in found] == [f"events:{line}" for line in range(11, 52)]
    assert "lines 11 to 51 in one row: is a quote not closed?" in found[0][1]
    assert "inside the quotes of line 11: 11,2024-05-01" in found[1][1]


@pytest.mark.parametrize("text", ["a\nb", "Main St, 5\nBerlin, 10115", "1, 2\n3, 4\n5, 6\n7", "1,2,3,4,5\nx"])
def test_a_cell_of_several_lines_is_read(text, tmp_path):
    (event,) = events(written(tmp_path, f'id,at,city,amount,gift\n7,2024-05-01,"{text}",1,true\n'))
    assert event["city"] == text


def test_lines_of_quotes_are_read_in_linear_time(tmp_path, monkeypatch):
    """From each line on, all that follow could be one row."""
    read = []
    monkeypatch.setattr(
        csvrows._Lines, "__next__", lambda self, old=csvrows._Lines.__next__: read.append(1) or old(self)
    )
    lines = list(Source(written(tmp_path, "a,b\n" + 'x","y\n' * 60_000), None))
    assert len(lines) == 60_000 and len(read) < 3 * 2 * 60_000


def test_columns_of_another_order_are_not_swapped(tmp_path):
    """The first two columns were read as id and time, whatever they were called."""
    text = "beneficiaryId,payeeId,paymentAmount,transactionId,eventTime\n12,25,60.01,1,2013-01-01 00:00:00\n"
    (alert,) = replay(written(tmp_path, text), RULES, engine="reference").alerts
    assert (alert.event_id, alert.key, alert.aggregate) == (1, "{payeeId=25}", Decimal("60.01"))


def test_the_line_of_the_flink_demo_stays_an_event_and_json_beside_it_a_dead_letter(tmp_path):
    demo = "1,2013-01-01 00:00:00,1001,1002,CSH,21.5,1\n"
    path = written(tmp_path, demo + '{"transactionId": 2, "eventTime": 5}\n')
    assert replay(path, RULES, engine="reference").counts["evaluated"] == 1
    ((place, reason),) = letters(path, PAYMENTS)
    assert place == "events:2" and reason.startswith("not a CSV line: ")
    assert_dead_when_played(path)


def test_text_in_json_lines_is_a_dead_letter_never_a_csv_event(tmp_path):
    path = written(
        tmp_path, '{"transactionId": 2, "eventTime": 5}\n1,2013-01-01 00:00:00,1001,1002,CSH,21.5,1\n'
    )
    ((place, reason),) = letters(path, PAYMENTS)
    assert place == "events:2" and reason.startswith('not one JSON object: "1,2013')
    assert_dead_when_played(path)


def assert_dead_when_played(path: Path) -> None:
    """The first line is an event and the second none, on a log that takes either format, too."""
    first, second = Source(path, PAYMENTS).live_log_lines()
    assert PAYMENTS.parse(first) and first == path.read_bytes().splitlines()[0]
    with pytest.raises(BadRecord):
        PAYMENTS.parse(second)


# -- JSON --------------------------------------------------------------------------------------------------------------

GIVEN = [{"id": number, "x": [{"é": '[{\\"'}], "a": None} for number in range(9)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (json.dumps(GIVEN), "a JSON list"),
        (json.dumps(GIVEN, indent=1, ensure_ascii=False), "a JSON list"),
        (json.dumps({"Records": GIVEN}), 'a JSON list, "Records"'),
        (
            "\n".join(json.dumps({"Records": part}) for part in (GIVEN[:4], GIVEN[4:])),
            'a JSON list, "Records"',
        ),
        (json.dumps({"count": 9, "data": GIVEN, "next": {"page": 2}}, indent=2), 'a JSON list, "data"'),
        ("\n".join(json.dumps(each, indent=2) for each in GIVEN), "JSON objects over several lines"),
        ("".join(map(json.dumps, GIVEN)), "JSON objects over several lines"),
        ("\n".join(map(json.dumps, GIVEN)), "JSON lines"),
    ],
)
@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_json_of_any_layout_is_read_a_record_at_a_time(text, name, chunk, pack, tmp_path, monkeypatch):
    monkeypatch.setattr(jsonfile, "CHUNK", chunk)
    source = Source(written(tmp_path, pack(b"\xef\xbb\xbf" + text.encode() + b"\n")))
    lines = [json.loads(line.removeprefix(b"\xef\xbb\xbf")) for line in source]
    assert (source.format, lines, len(source)) == (name, GIVEN, 9)
    assert source.place(3) == ("events:4" if name == "JSON lines" else "events:record 4")


@pytest.mark.parametrize(
    "text",
    [
        '{"id": 1, "items": [{"n": 1}]}',
        '{"id": 1,\n{"id": 2}',
        '{"id": 1}\n[{"id": 2}]',
        '[1]\n{"a": 1}',
        "{}",
    ],
)
def test_other_json_is_lines(text, tmp_path):
    assert Source(written(tmp_path, text)).format == "JSON lines"


def test_a_long_list_inside_an_object_is_known_by_its_beginning():
    text = json.dumps({"Records": GIVEN * 2000})
    assert str(detect_json_layout(text[:100_000], False)) == 'a JSON list, "Records"'
    paged = json.dumps({"page": 1, "data": GIVEN * 2000}, indent=1)
    assert str(detect_json_layout(paged[:100_000], False)) == 'a JSON list, "data"'
    assert detect_json_layout(json.dumps({"id": 1, "items": GIVEN * 2000})[:100_000], False) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[{"a": 1}\n', "broken after record 1: expected , at the end"),
        ('[{"a": 1}, {"a": }]', "broken after record 1: Expecting value"),
        ('[{"a": 1}]\n[{"a": 2}]', "more than one list (`jq -c '.[]'`"),
        ('[{"a": ' + "[" * 100_000, "nested too deeply"),
        ('{"Records": [{"a": 1}]}\n{' + "7" * 5000 + ": [{}]}", 'broken after record 1: expected " at "7777'),
    ],
)
def test_a_list_that_is_broken_is_refused_with_the_place(text, reason, tmp_path):
    with pytest.raises(UnreadableFile) as error:
        Source(written(tmp_path, text))
    assert reason in str(error.value)


class Counted(io.BytesIO):
    """Counts what is read at once."""

    most = 0

    def read(self, size=-1):
        assert size > 0
        self.most = max(self.most, size)
        return super().read(size)


def test_a_list_of_any_length_is_read_in_pieces():
    file = Counted(b"[" + b",".join(b'{"a": "%s"}' % (b"x" * 1000) for _ in range(5_000)) + b"]")
    values = JsonReader(file)
    values.expect("[")
    for _ in range(4_999):
        values.read_value()
        values.expect(",")
    assert file.most == 1 << 20


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(float("inf")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=3), json_values, max_size=3), max_size=5), st.integers(0, 3))
def test_whatever_the_records_of_a_list_each_stands_on_a_line_of_its_own(records, indent):
    class Opened(io.BytesIO):
        def __exit__(self, *_):
            pass

    text = json.dumps(records, indent=indent or None).encode()
    lines = list(JsonValues(Path("x"), jsonfile.JsonLayout("list"), lambda _: Opened(text)).lines())
    assert list(map(json.loads, lines)) == records and not any(b"\n" in line for line in lines)


# -- Parquet -----------------------------------------------------------------------------------------------------------

AT = datetime(2024, 5, 1, 10, 0, 0, 123456, UTC)
COLUMNS = {
    "id": pa.array([2**63 - 1, -5], pa.int64()),
    "u": pa.array([2**64 - 1, None], pa.uint64()),
    "exact": pa.array([Decimal("12345678901234567890.10"), Decimal("-0.01")], pa.decimal128(38, 2)),
    "double": pa.array([0.1, 1e22], pa.float64()),
    "single": pa.array([0.1, None], pa.float32()),
    "nan": pa.array([float("nan"), float("-inf")], pa.float64()),
    "zone": pa.array([AT, None], pa.timestamp("us", "Asia/Seoul")),
    "naive": pa.array([AT.replace(tzinfo=None)] * 2, pa.timestamp("us")),
    "nanos": pa.array([1_714_557_600_123_456_789, -1], pa.timestamp("ns", "UTC")),
    "seconds": pa.array([1_714_557_600, 0], pa.timestamp("s")),
    "date": pa.array([date(2024, 5, 1), None]),
    "word": pa.array(["é\n", None]).dictionary_encode(),
    "gift": pa.array([True, None]),
    "raw": pa.array([b"text", b"\xff"], pa.binary()),
    "inside": pa.array([{"a": {"b": 1}, "c": [1, 2]}, None]),
    "items": pa.array([[{"n": 1.5}], []], pa.list_(pa.struct([("n", pa.float64())]))),
}
AS_JSON = {
    "id": ["9223372036854775807", "-5"],
    "u": ["18446744073709551615", "null"],
    "exact": ["12345678901234567890.10", "-0.01"],
    "double": ["0.1", "1e+22"],
    "single": ["0.1", "null"],
    "nan": ["NaN", "-Infinity"],
    "zone": ['"2024-05-01T10:00:00.123456Z"', "null"],
    "naive": ['"2024-05-01T10:00:00.123456"'] * 2,
    "nanos": ['"2024-05-01T10:00:00.123456789Z"', '"1969-12-31T23:59:59.999999999Z"'],
    "seconds": ['"2024-05-01T10:00:00.000"', '"1970-01-01T00:00:00.000"'],  # Parquet has no seconds
    "date": ['"2024-05-01"', "null"],
    "word": ['"é\\n"', "null"],
    "gift": ["true", "null"],
    "raw": ['"text"', '"/w=="'],
    "inside": ['{"a": {"b": 1}, "c": [1, 2]}', "null"],
    "items": ['[{"n": 1.5}]', "[]"],
}


@pytest.mark.parametrize("name", COLUMNS)
def test_parquet_of_any_type_is_exact(name, tmp_path):
    pq.write_table(pa.table({name: COLUMNS[name]}), tmp_path / "events.parquet")
    source = Source(tmp_path / "events.parquet")
    assert [line.decode() for line in source] == [f'{{"{name}": {text}}}' for text in AS_JSON[name]]
    assert (len(source), source.format, source.place(1)) == (2, "Parquet", "events.parquet:row 2")


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.floats(width=32) | st.floats(), min_size=1))
def test_a_double_is_the_shortest_text_that_gives_it_back(numbers):
    from lab.sources.arrowrows import _float

    for number in numbers:
        assert np.array_equal(float(_float(number)), number, equal_nan=True)
        single = np.float32(np.clip(number, -3e38, 3e38))
        assert np.array_equal(np.float32(_float(single)), single, equal_nan=True)


@pytest.mark.parametrize(
    ("column", "unit", "ms"),
    [
        ("zone", "iso", 1714557600123),
        ("zone", "utc", 1714557600123),
        ("naive", "utc", 1714557600123),
        *(("zone", unit, 1714557600123) for unit in ("s", "ms", "us", "ns")),
        *(("naive", unit, 1714557600123) for unit in ("s", "ms", "us", "ns")),
        *(("nanos", unit, 1714557600123) for unit in ("s", "ms", "us", "ns", "iso")),
        *(("seconds", unit, 1714557600000) for unit in ("s", "ms", "us", "ns", "utc")),
    ],
)
def test_a_timestamp_is_read_in_its_unit_whatever_the_unit_of_the_schema(column, unit, ms, tmp_path):
    schema = Schema("x", (Field("id", "long"), Field("at", "time", unit=unit)), ("id",), "at")
    table = pa.table({"at": COLUMNS[column].slice(0, 1), "id": COLUMNS["id"].slice(0, 1)})
    pq.write_table(table, tmp_path / "events.parquet")
    (event,) = events(tmp_path / "events.parquet", schema)
    assert event == {"id": 2**63 - 1, "at": ms}


def test_parquet_with_the_kits_own_names_and_timestamps_gives_alerts(tmp_path):
    """It was a dead letter for each line end in its bytes."""
    table = pa.table(
        {
            "paymentAmount": pa.array([Decimal("30.00"), Decimal("20.01")]),
            "payeeId": [25, 25],
            "eventTime": pa.array([AT, AT + timedelta(minutes=20)], pa.timestamp("ns")),
            "transactionId": [1, 2],
        }
    )
    pq.write_table(table, tmp_path / "events.parquet", row_group_size=1)
    (alert,) = replay(tmp_path / "events.parquet", RULES, engine="reference").alerts
    assert (alert.event_id, alert.aggregate, alert.event_time) == (2, Decimal("50.01"), 1714558800123)


@pytest.mark.slow
def test_parquet_is_read_a_batch_of_rows_at_a_time(tmp_path, monkeypatch):
    asked = []
    batches = pq.ParquetFile.iter_batches
    monkeypatch.setattr(
        pq.ParquetFile,
        "iter_batches",
        lambda self, size, groups: asked.append(size) or batches(self, size, groups),
    )
    pq.write_table(pa.table({"id": range(25_000)}), tmp_path / "events.parquet")
    lines = list(Source(tmp_path / "events.parquet"))
    assert asked == [10_000] and len(lines) == 25_000 and lines[-1] == b'{"id": 24999}'
    # a few bytes say how long a list is that has one value again and again
    pq.write_table(pa.table({"x": [[0] * 200_000] * 40}), tmp_path / "events.parquet")
    assert len(list(ParquetTable(tmp_path / "events.parquet", None).lines())) == 40 and asked[1] < 30


def test_a_text_that_comes_again_and_again_in_parquet_is_in_memory_once(tmp_path):
    """3 kB that would be 300 MB."""
    one = pa.DictionaryArray.from_arrays(pa.array([0] * 300, pa.int32()), pa.array(["a" * 1_000_000]))
    pq.write_table(pa.table({"x": one}), tmp_path / "events.parquet", compression="zstd")
    assert (tmp_path / "events.parquet").stat().st_size < 10_000
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        lengths = []
        for line in ParquetTable(tmp_path / "events.parquet", None).lines():
            assert pa.total_allocated_bytes() - before < 20e6
            lengths.append(len(line))
        assert lengths == [1_000_009] * 300 and tracemalloc.get_traced_memory()[1] < 30e6
    finally:
        tracemalloc.stop()


def test_a_text_that_comes_again_in_lists_and_maps_of_parquet_is_in_memory_once(tmp_path):
    """4 kB that would be 400 MB, of which a row is in memory at a time."""
    again, ends = pa.array([0] * 100, pa.int32()), pa.array(range(101), pa.int32())
    one = pa.DictionaryArray.from_arrays(again, pa.array(["a" * 1_000_000]))
    number = pa.array(range(100))
    columns = {
        "list": pa.ListArray.from_arrays(ends, one),
        "objects": pa.ListArray.from_arrays(ends, pa.StructArray.from_arrays([one, number], ["t", "n"])),
        "lists": pa.ListArray.from_arrays(ends, pa.ListArray.from_arrays(ends, one)),
        "map": pa.MapArray.from_arrays(ends, number, one),
    }
    pq.write_table(pa.table(columns), tmp_path / "events.parquet", compression="zstd")
    assert (tmp_path / "events.parquet").stat().st_size < 20_000
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        count = 0
        for count, line in enumerate(ParquetTable(tmp_path / "events.parquet", None).lines(), 1):
            assert pa.total_allocated_bytes() - before < 60e6
            given = json.loads(line)
            text, row = given["list"][0], count - 1
            assert given["objects"] == [{"t": text, "n": row}] and given["lists"] == [[text]]
            assert given["map"] == [[row, text]] and len(text) == 1_000_000
        assert count == 100 and tracemalloc.get_traced_memory()[1] < 60e6
    finally:
        tracemalloc.stop()


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "batches_read"),
    [
        pytest.param([[0] * 3_000_000], 0, id="on average"),
        pytest.param([[]] * 100 + [[0] * 3_000_000], 1, id="one of many"),
        pytest.param([["a" * 100_000] * 100], 1, id="one text again and again"),
        pytest.param([[["a" * 100_000] * 5] * 20], 1, id="in lists inside each other"),
    ],
)
def test_a_list_longer_than_a_line_is_refused_before_it_is_text(tmp_path, monkeypatch, rows, batches_read):
    """A kilobyte of Parquet says that a list has one value millions of times."""
    asked = []
    batches = pq.ParquetFile.iter_batches
    monkeypatch.setattr(
        pq.ParquetFile, "iter_batches", lambda self, *about: asked.append(about) or batches(self, *about)
    )
    pq.write_table(pa.table({"x": rows}), tmp_path / "events.parquet", compression="zstd")
    del rows
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableFile, match=r"a value of about [0-9,]+ bytes in column x.*, at most"):
            list(ParquetTable(tmp_path / "events.parquet", None).lines())
        assert len(asked) == batches_read and tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("values", "pages_read"), [(["0" * 30_000_000] * 2, 0), (["a"] * 100 + ["0" * 3_000_000], 1)]
)
def test_parquet_with_a_value_longer_than_a_line_is_refused_if_possible_before_it_is_read(
    tmp_path, monkeypatch, values, pages_read
):
    asked = []
    batches = pq.ParquetFile.iter_batches
    monkeypatch.setattr(
        pq.ParquetFile, "iter_batches", lambda self, *about: asked.append(about) or batches(self, *about)
    )
    pq.write_table(
        pa.table({"x": values}), tmp_path / "events.parquet", compression="zstd", use_dictionary=False
    )
    with pytest.raises(
        UnreadableFile, match=r"a value of about [0-9,]+ bytes in column x, at most 1,048,576"
    ):
        list(ParquetTable(tmp_path / "events.parquet", None).lines())
    assert len(asked) == pages_read


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"PK\x03\x04...", "a ZIP archive, such as an Excel file"),
        ("id;at\n".encode("utf-16"), "iconv -f UTF-16 -t UTF-8 "),
        (b"\x28\xb5\x2f\xfd..", "zstd -d -c "),
        (b"Obj\x01...", "Avro"),
        (b"ORC...", "pandas.read_orc"),
        (b"PAR1...", "is Parquet that cannot be read; is the file complete?"),
        (gzip.compress(b"PAR1...", mtime=0), "gzip -d -c "),
        (gzip.compress(b"x" * 10**6, mtime=0)[:500], "is not a complete gzip file"),
        ("id;Käufer\n1;2\n".encode("latin-1"), "iconv -f WINDOWS-1252 -t UTF-8 "),
        (b"id,id,at\n1,1,2024-05-01 10:00:00\n", "several columns named id"),
        (b"ID,at\n1,2024-05-01 10:00:00\n", "lacks column id, which schema orders needs; it has ID, at"),
        (
            b"1,2024-05-01 10:00:00,x\n",
            "without column names in its first line: 1,2024-05-01 10:00:00,x; put a line of names",
        ),
    ],
)
def test_what_is_not_read_is_refused_with_a_way_that_works(data, text, tmp_path):
    with pytest.raises((UnreadableFile, OSError)) as error:
        Source(written(tmp_path, data), ORDERS)
    assert text in str(error.value) and str(tmp_path / "events") in str(error.value)


def test_the_way_for_csv_without_names_works(tmp_path):
    path = written(tmp_path, "1,2024-05-01 10:00:00,x\n", "old")
    with pytest.raises(UnreadableFile) as error:
        Source(path)
    command = str(error.value).rpartition("before it: ")[2]
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    made = infer(Source(tmp_path / "events.csv"), "x", texts=True).schema
    assert (made.names, made.id_fields, made.time_field) == (("id", "time", "c3"), ("id",), "time")
    assert [event["c3"] for event in events(tmp_path / "events.csv", made)] == ["x"]


def test_past_events_are_those_of_any_format(tmp_path):
    pq.write_table(pa.table({"id": [1, 2], "at": [AT] * 2, "amount": [1.5, 2.25]}), tmp_path / "events")
    schema = Schema(
        "x", (Field("id", "long"), Field("at", "time", unit="iso"), *ORDERS.fields[3:4]), ("id",), "at"
    )
    past = Past(schema)
    past.add(Source(tmp_path / "events", schema))
    rule = parse_message("1,(active),,,(amount),(SUM),(>),(0),(1)", schema).rule
    assert past.aggregates(rule).values.tolist() == [1.5, 3.75]


def test_a_folder_of_files_as_spark_writes_it_is_read_in_the_order_of_names(tmp_path):
    folder = tmp_path / "orders"
    folder.mkdir()
    for number in (1, 0):
        table = pa.table({"id": [2 * number, 2 * number + 1]})
        pq.write_table(table, folder / f"part-{number}.parquet")
    written(folder, "", "_SUCCESS")
    written(folder, "x", ".part-0.parquet.crc")
    source = Source(folder)
    assert [json.loads(line)["id"] for line in source] == [0, 1, 2, 3]
    assert source.place(2) == "orders/part-1.parquet:row 1" and source.format == "Parquet"
    written(folder, "{}", "more.json")
    with pytest.raises(UnreadableFile, match="files of several formats: JSON lines, Parquet"):
        Source(folder)
