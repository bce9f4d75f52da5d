"""Files as people have them: each is proposed a schema that reads it right, or with a doubt that says what may be wrong."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from lab.engine.checkpoint.settings import Settings
from lab.model.field import Field
from lab.model.jsontext import BadRecord
from lab.model.schemafile import schema_from_toml, schema_to_toml
from lab.model.times import time_ms
from lab.past.replay import replay
from lab.sources.infer import infer
from lab.sources.sources import Source

TIMES = [f"2024-05-{day:02} 10:00:00" for day in range(1, 29)]
ISO = [f"2024-05-{day:02}T10:00:00Z" for day in range(1, 29)]


@dataclass(frozen=True)
class Shape:
    """A file and what is proposed for it. `values`: what is read under the proposal, times as text in UTC; None: a dead letter.

    `doubt`: words in the comments; "" if there are no doubts but those that the times have no zone.
    """

    text: str
    types: dict[str, str]  # name -> type, and unit if it has one
    values: dict[str, list] = field(default_factory=dict)
    doubt: str = ""
    options: dict[str, Any] = field(default_factory=dict)


def csv(column: list[str], delimiter: str = ",", name: str = "amount", at: list[str] = ISO) -> str:
    """A file with an id, a time and that column."""
    quoted = (f'"{cell}"' if delimiter in cell else cell for cell in column)
    rows = [delimiter.join((f"a{n}", time, cell)) for n, (time, cell) in enumerate(zip(at, quoted))]
    return "\n".join([delimiter.join(("id", "at", name)), *rows])


def jsonl(column: list, name: str = "amount") -> str:
    """As JSON lines."""
    return "\n".join(
        json.dumps({"id": f"a{n}", "at": time, name: value})
        for n, (time, value) in enumerate(zip(ISO, column))
    )


def rows(*records: dict) -> str:
    return "\n".join(map(json.dumps, records))


def amount(text: str, values: list, doubt: str = "", type: str = "decimal(18,2)", **options: Any) -> Shape:
    return Shape(text, {"amount": type}, {"amount": values}, doubt, options)


def timed(
    times: list[str], unit: str, values: list, doubt: str = "", delimiter: str = ",", **options: Any
) -> Shape:
    text = csv(["1"] * len(times), delimiter, at=times)
    return Shape(text, {"at": f"time {unit}"}, {"at": values}, doubt, options)


def change(op: str, row: dict, before: dict | None, at: int) -> dict:
    return {
        "before": before,
        "after": None if op == "d" else row,
        "op": op,
        "ts_ms": 1714525200000 + at,
        "source": {},
    }


PLACED = [{"no": f"o{n}", "placed": 1714525200000 + n, "amount": "100.00"} for n in range(4)]
CHANGES = [change("c", row, None, 5000 + n) for n, row in enumerate(PLACED)]
CHANGES.append(change("d", PLACED[3], PLACED[3], 9000))
GERMAN = '"12,50" and "12.50" contradict each other'
UNCLEAR = "no number of this column tells whether the decimal mark is a point or a comma"
BIG = [str(1234567890123456789 + n) for n in range(3)]

SHAPES = {
    # amounts in CSV
    "whole with cents": amount(csv(["100.00", "50.00"]), ["100.00", "50.00"]),
    "as pandas writes integers with gaps": amount(csv(["1.0", "", "3.0"]), ["1.00", None, "3.00"]),
    "thousands with commas": amount(csv(["1,234.50", "12.00"]), ["1234.50", "12.00"]),
    "German": amount(csv(["1.234,50", "12,5"], ";"), ["1234.50", "12.50"]),
    "German between commas": amount(csv(["1.234,50", "12,5"]), ["1234.50", "12.50"]),
    "German with few thousands": amount(csv(["1.234", "12,5"], ";"), ["1234.00", "12.50"]),
    "Swiss": amount(csv(["1'234.50", "12.00"], ";"), ["1234.50", "12.00"]),
    "French": amount(csv(["1\u202f234,50 €", "12,00 €"], ";"), ["1234.50", "12.00"]),
    "a currency before": amount(csv(["€ 12.50", "€ 3"]), ["12.50", "3.00"]),
    "a currency behind": amount(csv(["12.50 USD", "-3 USD"]), ["12.50", "-3.00"]),
    "dollars": amount(csv(["$1,234.50", "-$3.00"]), ["1234.50", "-3.00"]),
    "minus behind, as SAP writes": amount(csv(["12,50-", "3,00"], ";"), ["-12.50", "3.00"]),
    "minus in brackets": amount(csv(["(12.50)", "3.00"]), ["-12.50", "3.00"]),
    "a long minus": amount(csv(["−12.50", "3.00"]), ["-12.50", "3.00"]),
    "percent": Shape(csv(["12.5%", "3%"], name="share"), {"share": "decimal(18,2) %"}, {"share": ["12.50", "3.00"]}),
    "both decimal marks": amount(csv(["12,50", "12.50"], ";"), ["12,50", "12.50"], GERMAN, "string"),
    "three digits after each point": amount(
        csv(["1.234", "2.500"], ";"), ["1.234", "2.500"], UNCLEAR, "decimal(18,3)"
    ),
    "three digits after each comma": amount(csv(["1,234", "2,500"], ";"), ["1,234", "2,500"], UNCLEAR, "string"),
    "three digits after quoted commas": amount(csv(["1,234", "2,500"]), ["1234", "2500"], UNCLEAR, "long"),
    "two currencies": amount(csv(["€ 12.50", "$ 12.50"]), ["€ 12.50", "$ 12.50"], "amounts in €, $", "string"),
    "exponents": amount(csv(["1e2", "2.5e1"]), ["100.00", "25.00"]),
    "19 digits": amount(csv(BIG), BIG, type="long"),
    "20 digits": amount(csv(["12345678901234567890"] * 2), ["12345678901234567890"] * 2, type="string"),
    "codes with zeros": Shape(csv(["01234", "99999"], name="zip"), {"zip": "string"}, {"zip": ["01234", "99999"]}),
    "phone numbers": Shape(
        csv(["555 123 456", "555 123 457"], name="phone"), {"phone": "string"}, {}, "they may be codes"
    ),
    "versions and addresses": Shape(csv(["10.0.0.1", "10.0.0.2"], name="ip"), {"ip": "string"}),
    "ids with a point": Shape(
        csv(["1.0", "", "3.0"], name="customer_id"), {"customer_id": "string"}, {}, "as pandas writes a column"
    ),
    # amounts in JSON
    "texts of cents": amount(jsonl(["100.00", "50.00"]), ["100.00", "50.00"], "text in 2 records"),
    "texts of whole amounts": amount(jsonl(["100", "50"]), ["100.00", "50.00"], "text in 2 records"),
    "texts with a currency": amount(jsonl(["€ 12", "€ 3"]), ["€ 12", "€ 3"], "Have them written as 1234.50", "string"),
    "texts with a comma": amount(jsonl(["12,50", "3,00"]), ["12,50", "3,00"], "Have them written as", "string"),
    "texts of codes": Shape(jsonl(["123", "456"], "terminal"), {"terminal": "string"}, {"terminal": ["123", "456"]}),
    "numbers": amount(jsonl([1.5, 2]), ["1.50", "2.00"]),
    "19 digits beside fractions": amount(
        jsonl([1.5, 2.5, 3, 4, 5, 6, 7, 8, 9, 10, 1234567890123456789]), ["1.50"], "will be dead letters"
    ),
    # times
    "ns in text": Shape(
        rows(*({"id": n, "timeUnixNano": str(1714525200123456789 + n)} for n in range(3))),
        {"timeUnixNano": "time ns"},
        {"timeUnixNano": ["2024-05-01 01:00:00.123"] * 3},
    ),
    "ms in text": Shape(
        rows(*({"id": n, "event_timestamp_ms": str(1714525200000 + n)} for n in range(3))),
        {"event_timestamp_ms": "time ms"},
        {"event_timestamp_ms": ["2024-05-01 01:00:00", "2024-05-01 01:00:00.001"]},
    ),
    "days": timed(["2024-05-01", "2024-05-02"], "utc", ["2024-05-01", "2024-05-02"], "at the beginning of their days"),
    "German days": timed(["01.05.2024", "31.05.2024"], "utc", ["2024-05-01", "2024-05-31"], "at the beginning of"),
    "day first": timed(["13/05/2024 9:30", "1/6/2024 10:00"], "utc", ["2024-05-13 09:30", "2024-06-01 10:00"]),
    "month first": timed(["5/13/2024 9:30", "6/1/2024 10:00"], "utc", ["2024-05-13 09:30", "2024-06-01 10:00"]),
    "month or day first": Shape(
        csv(["1"], at=["1/2/2024 9:30"]), {"at": "string"}, {}, "MISSING: no event time"
    ),
    "am and pm": Shape(csv(["1"], at=["1/2/2024 9:30 PM"]), {"at": "string"}, {}, "pandas.to_datetime"),
    "local": timed(TIMES[:2], "utc", TIMES[:2]),
    "local in a zone": timed(
        ["2024-05-01 12:00", "2024-12-01 12:00"],
        "local",
        ["2024-05-01 10:00", "2024-12-01 11:00"],
        zone="Europe/Berlin",
    ),
    "local when clocks are turned back": timed(
        ["2024-10-27 02:30", "2024-10-27 03:00"],
        "local",
        ["2024-10-27 00:30", "2024-10-27 02:00"],
        "show 1 of the times twice",
        zone="Europe/Berlin",
    ),
    "local when clocks are turned forward": timed(
        ["2024-03-31 02:30", "2024-03-31 03:00"],
        "local",
        [None, "2024-03-31 01:00"],
        "never show 1 of the times",
        zone="Europe/Berlin",
    ),
    "steps without a word": Shape(
        csv(["1", "2"], name="step", at=["x", "y"]), {"step": "long"}, {}, 'time="step" reads the numbers in step'
    ),
    "steps": Shape(
        csv(["0", "744"], name="step", at=["x", "y"]),
        {"step": "time s"},
        {"step": ["1970-01-01 00:00", "1970-01-01 00:12:24"]},
        'if they are minutes, hours or days, say unit = "m", "h" or "d"',
        {"time": "step"},
    ),
    "hours": Shape(
        csv(["0", "744"], name="hour", at=["x", "y"]),
        {"hour": "time h"},
        {"hour": ["1970-01-01 00:00", "1970-02-01 00:00"]},
        "read as numbers of h since",
        {"time": "hour"},
    ),
    # ids
    "an id that is none": Shape(
        "\n".join(["site_id,at", *(f"s{n % 2},2024-05-01T10:{n // 60:02}:{n % 60:02}Z" for n in range(300))]),
        {"site_id": "string"},
        {},
        "MISSING: no id",
    ),
    "an id that comes twice": Shape(
        csv(["1"] * 20).replace("a19,", "a18,"), {"id": "string"}, {}, "1 records repeat an id"
    ),
    # changes of a table
    "a row with a time of its own": Shape(
        rows(*CHANGES),
        {"placed": "time ms", "no": "string", "amount": "decimal(18,2)"},
        {"amount": ["100.00"] * 4 + [None]},
        'With taken_back = "op = d"',
    ),
    "a row without a time": Shape(
        rows(*(each | {"after": each["after"] and {"no": each["after"]["no"]}} for each in CHANGES)),
        {"ts_ms": "time ms"},
        {},
        "They could take back the row before if",
    ),
    # files
    "a quote that is not closed": amount(
        csv(['"x' if n == 5 else "12.50" for n in range(20)]),
        ["12.50"] * 5 + [None] + ["12.50"] * 14,
        "the first, record 6: ",
    ),
    "lines swallowed by quotes": Shape(
        "\n".join(f"a{n},{at},{city}" for n, (at, city) in enumerate(zip(["at", *ISO], ["city", "x", '"y', *"zzzz", 'y"', *"uvw"]))),
        {"city": "string"},
        {"city": ["x", *[None] * 6, *"uvw"]},
        "6 records will be dead letters",
    ),
    "another delimiter": amount(csv(["1.5", "2.5"], "|"), ["1.50", "2.50"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_a_file_is_read_right_or_with_a_doubt(name, tmp_path):
    shape = SHAPES[name]
    path = tmp_path / "events"
    path.write_text(shape.text)
    source = Source(path)
    made = infer(source, "events", texts=source.texts, styles=source.styles, **shape.options)
    of = {each.name: f"{each.type} {each.unit}".strip() for each in made.fields}
    assert {each: of.get(each) for each in shape.types} == {
        each: type
        if type[-1] == "%" or type.startswith("time")
        else f"{type} {made_unit(made, each)}".strip()
        for each, type in shape.types.items()
    }
    doubts = [each for some in made.doubts.values() for each in some if "read as UTC" not in each]
    assert shape.doubt in made.toml() and bool(doubts or made.missing) == bool(shape.doubt), doubts
    if not made.missing:
        read = list(map(parsed(made.schema), Source(path, made.schema)))
        for each, values in shape.values.items():
            wanted = [as_read(made.schema.field(each), value) for value in values]
            assert [event and event[each] for event in read][: len(wanted)] == wanted


def made_unit(made, name: str) -> str:
    return next((each.unit for each in made.fields if each.name == name), "")


def parsed(schema):
    def parse(line: bytes) -> dict | None:
        try:
            return schema.parse(line)
        except BadRecord:
            return None

    return parse


def as_read(field: Field, value: str | None) -> Any:
    if value is None or field.type == "string":
        return value
    return time_ms(value, "utc") if field.type == "time" else field.parse_csv_cell(value)


def test_under_the_proposal_for_changes_rows_take_back_what_they_were(tmp_path):
    """Also rows whose ids repeat, because they were changed."""
    updated = change("u", PLACED[2] | {"amount": "150.00"}, PLACED[2], 9500)
    path = tmp_path / "changes.jsonl"
    path.write_text(rows(*CHANGES, updated))
    proposed = infer(Source(path), "changes").schema
    assert proposed.id_fields == ("no",)
    toml = schema_to_toml(replace(proposed, taken_back="op = d"))
    found = replay(
        path,
        ["1: SUM(amount) over 10 min > 340"],
        engine="reference",
        settings=Settings(schema_from_toml(toml)),
    )
    assert [str(alert.aggregate) for alert in found.alerts] == ["350.00", "400.00"]
    assert not found.dead_letters and list(found.routes.warnings()) == []


def test_there_are_many_shapes():
    assert len(SHAPES) >= 40
