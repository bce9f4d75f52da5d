"""The page reads records as the kit does in Python, those that are plain as well as all others."""

import json
from random import Random

import pytest

from lab.model.jsontext import BadRecord
from lab.model.schema import Field, Schema
from lab.page.reader import described

pytestmark = pytest.mark.browser
SCHEMA = Schema(
    "readings",
    (
        Field("id", "long"),
        Field("at", "time", unit="iso"),
        Field("ms", "time", unit="ms"),
        Field("seconds", "time", unit="s"),
        Field("flag", "boolean"),
        Field("amount", "decimal(18,2)"),
        Field("text", "string"),
        Field("named", "string", path=('a "name"',)),
        Field("é", "long"),
    ),
    ("id",),
    "at",
)
WHOLE = [sign * (1 << bits) + more for bits in (0, 31, 32, 53, 62) for sign in (1, -1) for more in (-1, 0, 1)]
NUMBERS = (
    *map(str, WHOLE),
    *(
        "123456789012345",
        "1234567890123456",
        "-12345678901234567",
        "999999999999999999",
        "-999999999999999999",
    ),
    *(
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "007",
        "-0",
        "1.0",
        "1e3",
        "5.",
        "-",
    ),
)
AMOUNTS = (
    *(
        "12.5",
        "-0.01",
        "7.50",
        "0.001",
        "1234567890123456.78",
        "12345678901234.5",
        "90071992547409.93",
        "00.1",
    ),
    *('"4.5"', "9007199254740992", "9999999999999999.99", "99999999999999999", ".5"),
)
TIMES = (
    *(
        '"2024-05-01T09:00:10.811+09:00"',
        '"2024-05-01T09:00Z"',
        '"1969-12-31T23:59:59.999Z"',
        '"2024-05-01 09:00:10Z"',
    ),
    *('"2024-02-30T00:00:00Z"', '"2024-05-01T09:00:10"', '"1001-01-01T00:00:00Z"', "5", '"x"'),
)
MS = ("1700000000000", "-4294967296", "12345678901234", "123456789012345678", '"17"', "1.5", "1e3")
TEXTS = (
    '"CSH"',
    '""',
    '"é"',
    '"a\\"b"',
    '"\\u0041"',
    '"\\ud800"',
    "5",
    '"tab\there"',
    f'"{"x" * 2_001}"',
    '"a\\/b"',
)
READ = """([schema, lines]) => {
    const engine = new Engine(state.wasm, schemaOf(schema)), { columns, counts } = engine, read = [], reasons = [];
    const rows = () => { for (let row = 0; row < columns.rows; row++) read.push(columns.schema.fields.map((field) => columns.text(field, row))); };
    engine.lines.take(encoder.encode(lines.join("\\n")), rows, ({ reason }) => reasons.push(reason));
    return [read, reasons, counts.nanAsNull];
}"""


def random_record(rng: Random) -> str:
    """Mostly good values; in the schema's order, or in any; with blanks, and with fields that nobody knows."""

    def value(good: str, others: tuple[str, ...]) -> str:
        return good if rng.random() < 0.6 else rng.choice(["null", *others])

    fields = {
        "id": value(rng.choice([str(rng.randint(1, 10**17)), "7"]), NUMBERS),
        "at": value('"2024-05-01T09:00:10Z"', TIMES),
        "ms": value("1700000000000", MS),
        "seconds": value("null", ("1700000000", "5", "1.5")),
        "flag": value(rng.choice(["true", "false"]), ('"true"', "tru", "truee", "0")),
        "amount": value("12.25", AMOUNTS),
        "text": value('"login"', TEXTS),
        'a \\"name\\"': value('"x"', TEXTS),
        "é": value("1", NUMBERS),
        "more": rng.choice(
            ["1234567890123456789", "true", "nul", "[1]", '{"a": 1}', "-1.5", '"\\n"', "false"]
        ),
    }
    names = list(fields)
    if rng.random() < 0.3:
        rng.shuffle(names)
    chosen = [name for name in names if name in ("id", "at") or rng.random() < 0.7]
    comma, colon = rng.choice([(",", ":"), (", ", ": "), (" ,  ", " : "), (",\t", ":")])
    line = "{" + comma.join(f'"{name}"{colon}{fields[name]}' for name in chosen) + "}"
    if rng.random() < 0.1:
        line = line.replace("\\", "")
    cut = rng.randrange(len(line)) if rng.random() < 0.05 else len(line)
    return line[:cut] + rng.choice(["", "", "", " ", "x"])


def test_records_are_read_and_refused_as_in_python(engine):
    rng = Random(11)
    lines = [line for _ in range(6_000) if (line := random_record(rng)).strip()]
    read, reasons, nan = engine.evaluate(READ, [described(SCHEMA.to_dict()), lines])
    assert [read, reasons] == read_in_python(SCHEMA, lines)
    assert 1_000 < len(reasons) < 5_000 and nan == 0


def read_in_python(schema: Schema, lines: list[str]) -> list[list]:
    """The values of the events in records, as texts; why the others are none."""
    read, reasons = [], []
    for line in lines:
        try:
            event = schema.parse(line.encode())
        except BadRecord as error:
            reasons.append(str(error))
        else:
            read.append([None if event[name] is None else str(event[name]) for name in schema.names])
    return [read, reasons]


def test_objects_in_objects_and_csv_of_the_schema_are_read_as_in_python(engine):
    fields = (
        Field("id", "string", path=("meta", "id")),
        Field("at", "long", path=("meta", "at")),
        Field("sum", "decimal(9,2)", path=("of", "what", "sum")),
    )
    schema = Schema("orders", fields, ("id",), "at", records="either")
    meta = ('{"id":"a","at":5}', '{"id":"","at":5}', '{"id":"a\\u0062","at":7}', '{"at":5}', "null", "[]")
    of = ('{"what":{"sum":1.5}}', '{"what":null}', '{"what":5}', "null", '{"what":{"sum":NaN}}', '{"x":{}}')
    cells = (
        "a,2013-01-01 00:00:00,1.5",
        '"a,b",5,',
        "a,5",
        "a,5,1,2",
        ",5,1",
        '"a,5,1',
        "a,x,1",
        "a,5,Infinity",
    )
    lines = [f'{{"meta":{one},"of":{other}}}' for one in meta for other in of] + [*cells]
    read, reasons, nan = engine.evaluate(READ, [described(schema.to_dict()), lines])
    assert [read, reasons] == read_in_python(schema, lines)
    assert read[0] == ["a", "5", "1.50"] and nan == 3


def test_rows_of_a_file_with_a_header_have_all_cells(engine):
    fields = [
        {"name": name, "type": type} for name, type in (("id", "long"), ("at", "long"), ("a", "string"))
    ]
    schema = {"name": "x", "fields": fields, "id_fields": ["id"], "time_field": "at", "records": "csv"}
    lines = [
        "1;5;x",
        "2;5;",
        "3;5",
        "4;5;",
        '5;5;"a;""b"',
        "6;5;x;",
        '7;5;"a',
        ";5;x",
        "8;;x",
        "9;5;\u00e9 \U0001f600",
    ]
    read, reasons, _ = engine.evaluate(READ, [described(schema | {"nan": "null", "delimiter": ";"}), lines])
    assert read == [
        *(["1", "5", "x"], ["2", "5", None], ["4", "5", None], ["5", "5", 'a;"b']),
        ["9", "5", "\u00e9 \U0001f600"],
    ]
    assert reasons[:3] == [
        "2 cells, but the header has 3: 3;5",
        "4 cells, but the header has 3: 6;5;x;",
        "a row that is not CSV: unexpected end of data",
    ]
    assert len(reasons) == 5


def test_records_without_an_id_have_their_number(engine):
    fields = [
        {"name": "at", "type": "time", "unit": "iso"},
        {"name": "line", "type": "long", "virtual": True},
    ]
    schema = {"name": "x", "fields": fields, "id_fields": ["line"], "time_field": "at"}
    lines = ['{"at":"2024-05-01T09:00:10Z"}', "x", '{"line":"x","at":"2024-05-01T09:00:10Z","\\u0000":"x"}']
    read, reasons, _ = engine.evaluate(READ, [described(schema), lines])
    assert read == [["1714554010000", "1"]] and len(reasons) == 2


def test_a_name_or_a_number_of_a_million_characters_is_read_in_no_time(engine):
    lines = [
        json.dumps({"x" * 1_000_000: 1, "id": 1, "at": "2024-05-01T09:00:10Z"}),
        '{"id":' + "1" * 1_000_000 + "}",
        '{"id":1,"text":"' + "x" * 1_000_000 + '"}',
    ]
    began = engine.evaluate("performance.now()")
    read, reasons, _ = engine.evaluate(READ, [described(SCHEMA.to_dict()), lines])
    assert len(read) == 1 and len(reasons) == 2
    assert engine.evaluate("performance.now()") - began < 5_000
