"""The page reads records as the kit does in Python, those that are plain as well as all others."""

import json
from random import Random

import pytest

from lab.model.jsontext import BadRecord
from lab.model.schema import Field, Schema

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
    const columns = new Columns(schemaOf(schema));
    return lines.map((line) => {
        columns.clear();
        const bytes = encoder.encode(line);
        try { columns.read(bytes, 0, bytes.length, {}); } catch (error) { if (error instanceof Bad) return null; throw error; }
        return columns.schema.fields.map((field) => columns.text(field, 0));
    });
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


def test_records_are_read_and_refused_as_in_python(opened):
    rng = Random(11)
    lines = [random_record(rng) for _ in range(6_000)]
    expected = [read(line) for line in lines]
    assert 1_000 < expected.count(None) < 5_000
    assert opened.evaluate(READ, [SCHEMA.to_dict(), lines]) == expected


def read(line: str) -> list[str | None] | None:
    """The values of a record as texts; None if it is refused."""
    try:
        event = SCHEMA.parse(line.encode())
    except BadRecord:
        return None
    return [None if event[name] is None else str(event[name]) for name in SCHEMA.names]


def test_a_name_or_a_number_of_a_million_characters_is_read_in_no_time(opened):
    lines = [
        json.dumps({"x" * 1_000_000: 1, "id": 1, "at": "2024-05-01T09:00:10Z"}),
        '{"id":' + "1" * 1_000_000 + "}",
        '{"id":1,"text":"' + "x" * 1_000_000 + '"}',
    ]
    began = opened.evaluate("performance.now()")
    found = opened.evaluate(READ, [SCHEMA.to_dict(), lines])
    assert [each is None for each in found] == [False, True, True]
    assert opened.evaluate("performance.now()") - began < 5_000
