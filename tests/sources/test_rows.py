"""Rows that a program has in memory are records as their JSON would be, whichever library has them."""

import json
import math
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest

from lab.model.field import Field
from lab.model.schema import PAYMENTS, Schema
from lab.sources.infer import infer
from lab.sources.rows import source_of

AT = datetime(2024, 5, 1, 10, 0, 0, 123_456)
ROWS = [
    {"id": 1, "at": AT, "who": "a", "amount": Decimal("2.50"), "in": {"x": True}},
    {"id": (1 << 63) - 1, "at": AT + timedelta(hours=1), "who": None, "amount": None, "in": None},
]
TABLE = pa.Table.from_pylist(ROWS).set_column(
    2, "who", pa.array([row["who"] for row in ROWS]).dictionary_encode()
)


def schema(unit: str, zone: str = "") -> Schema:
    return Schema("s", (Field("id", "long"), Field("at", "time", unit=unit, zone=zone)), ("id",), "at")


def records(events, of: Schema | None = None) -> list[dict]:
    return [json.loads(line, parse_float=Decimal) for line in source_of(events, of)]


def tables() -> dict:
    frame = TABLE.to_pandas()
    return {
        "pandas": frame,
        "pandas with an index that has a name": frame.set_index("id"),
        "pyarrow": TABLE,
        "a batch": TABLE.to_batches()[0],
        "a data set": pyarrow.dataset.dataset(TABLE),
    }


@pytest.mark.parametrize("kind", tables())
def test_a_table_gives_the_records_of_its_rows(kind):
    table = tables()[kind]
    before = table.copy() if isinstance(table, pd.DataFrame) else None
    found = records(table)
    assert [row["id"] for row in found] == [1, (1 << 63) - 1]
    assert found[0]["at"].startswith("2024-05-01T10:00:00.123456") and found[0]["who"] == "a"
    assert found[0]["amount"] == Decimal("2.50") and found[0]["in"] == {"x": True}
    assert found[1] | {"at": ""} == {"id": (1 << 63) - 1, "at": "", "who": None, "amount": None, "in": None}
    assert before is None or before.equals(table)
    assert source_of(table).place(0) == "row 0" and len(source_of(table)) == 2


def test_polars_gives_the_same_records():
    polars = pytest.importorskip("polars")
    frame = polars.from_arrow(TABLE)
    assert records(frame) == records(TABLE)
    with pytest.raises(TypeError, match=r"collect\(\)"):
        source_of(frame.lazy())


def test_a_list_of_dicts_is_written_as_json_has_it_exactly():
    assert [source_of(ROWS).place(1), len(source_of(iter(ROWS)))] == ["row 1", 2]
    found = records(ROWS)
    assert found == [row | {"at": row["at"].isoformat()} for row in ROWS]
    odd = {
        "large": Decimal("12345678901234567.01"),
        "whole": Decimal(7),
        "day": date(2024, 5, 1),
        "zone": AT.replace(tzinfo=UTC),
        "bytes": b"\xff",
        "word": b"a",
        "uuid": UUID(int=1),
        "int": np.int64(5),
        "ns": np.datetime64("2024-05-01T00:00:00.123456789"),
        "nat": [pd.NaT, pd.NA, np.datetime64("NaT")],
    }
    assert records([odd]) == [
        {
            "large": "12345678901234567.01",
            "whole": 7,
            "day": "2024-05-01",
            "zone": "2024-05-01T10:00:00.123456Z",
            "bytes": "/w==",
            "word": "a",
            "uuid": "00000000-0000-0000-0000-000000000001",
            "int": 5,
            "ns": "2024-05-01T00:00:00.123456789",
            "nat": [None] * 3,
        }
    ]
    assert math.isnan(json.loads(next(iter(source_of([{"x": float("nan")}]))))["x"])
    assert list(source_of(["a\n", b"b"])) == [b"a", b"b"]


@pytest.mark.parametrize("unit", ["utc", "iso", "local", "s", "ms", "us", "ns", "long"])
@pytest.mark.parametrize("kind", ["rows", "table"])
def test_a_time_is_what_its_field_wants(unit, kind):
    of = (
        Schema("s", (Field("id", "long"), Field("at", "long")), ("id",), "at")
        if unit == "long"
        else schema(unit, "Asia/Seoul" if unit == "local" else "")
    )
    at = AT.replace(tzinfo=UTC) if unit not in ("utc", "local") else AT
    rows = [{"id": 1, "at": at}]
    (line,) = source_of(rows if kind == "rows" else pa.Table.from_pylist(rows), of)
    (event,) = of.events(line)
    ms = 1714557600123 - 9 * 3_600_000 * (unit == "local")
    assert event["at"] == ms
    if unit == "utc":  # whose texts have no zone
        (line,) = source_of(
            [{"id": 1, "at": at.replace(tzinfo=UTC)}]
            if kind == "rows"
            else pa.Table.from_pylist([{"id": 1, "at": at.replace(tzinfo=UTC)}]),
            of,
        )
        assert of.events(line)[0]["at"] == ms


def test_what_cannot_be_taken_says_what_would_be_right():
    frame = pd.DataFrame({"id": [1, 2], "at": [AT, AT]})
    for given, kind, said in (
        (5, TypeError, "a int, expected a DataFrame of pandas"),
        ({"id": 1}, TypeError, r"of one event, a list: \[event\]"),
        (frame["id"], TypeError, "a Series, expected a DataFrame"),
        (frame.assign(d=pd.Timedelta("1s")), ValueError, "column d is duration.*total_seconds"),
        (frame.assign(m=[1, "x"]), ValueError, r"column m has values of several types.*astype\(str\)"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, "the same name.*a, a"),
        (frame.assign(long="x" * 2_000_000), ValueError, "column long has a value of about 2,000,000 bytes"),
        ([5], TypeError, "row 0: int, expected a dict"),
        ([{"id": 1}, {"id": 1, "x": {1}}], TypeError, "row 1, column x: set, expected a number"),
    ):
        with pytest.raises(kind, match=said):
            list(source_of(given))
    with pytest.raises(
        ValueError, match="no column eventTime, which schema payments needs; there are: transactionId"
    ):
        source_of(pd.DataFrame({"transactionId": [1]}), PAYMENTS)
    of_schema = frame.assign(d=pd.Timedelta("1s"), m=[1, "x"], amount=[1, "x"])
    assert len(records(of_schema, schema("utc"))) == 2  # which names none of these columns


def test_a_schema_is_proposed_for_rows_as_for_their_lines():
    rows = [
        {"id": n, "at": str(AT + timedelta(minutes=n)), "who": f"w{n % 7}", "amount": n / 4}
        for n in range(50)
    ]
    lines = [json.dumps(row).encode() for row in rows]
    wanted = infer(lines, "rows").schema
    assert infer(rows, "rows").schema == infer(pd.DataFrame(rows), "rows").schema == wanted


def test_rows_need_no_library():
    program = "import sys; from lab.sources.rows import source_of; print(len(source_of([{}]))); print({'pyarrow', 'pandas', 'numpy'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["1", "set()"]
