"""Derived fields of a schema: what each function gives, what is refused with which words, and what is another field."""

import json
import operator
import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.model.derived import (
    FUNCTIONS,
    MAX_BRACKETS,
    MAX_CHARACTERS,
    MAX_DERIVED,
    expression_text,
    markdown_rows,
    read_derivations,
)
from lab.model.field import MAX_TEXT, Field
from lab.model.jsontext import BadRecord
from lab.model.reference import Reference
from lab.model.schema import LOGINS, PAYMENTS, Schema
from lab.model.schemafile import schema_from_toml, schema_to_toml

PAGE = Path(__file__).parents[2] / "docs" / "own-events.md"
TYPES = {
    "long": ("id", "quantity", "branch", "fee", "n"),
    "decimal(9,2)": ("price", "amount"),
    "decimal(18,6)": ("fine",),
    "decimal(9,4)": ("lat", "lon"),
    "string": ("giver", "taker", "email", "country", "a"),
    "boolean": ("flag",),
    "time": ("ts", "created"),
}
FIELDS = tuple(
    Field(name, type, unit="iso" if type == "time" else "") for type, names in TYPES.items() for name in names
)
BASE = Schema("things", FIELDS, ("id",), "ts")
TS = "2024-05-01T22:30:00Z"


def with_derived(**derived: str) -> Schema:
    return replace(BASE, derived=tuple(derived.items()))


def value(expression: str, **record: Any) -> Any:
    """The value of an expression of a record, whose numbers may be written as text."""
    schema = with_derived(x=expression)
    of: dict[str, Any] = {"id": 1, "ts": TS} | record
    exact = {name: int(text) if schema.field(name).type == "long" else text for name, text in of.items()}
    return schema.parse(json.dumps(exact).encode())["x"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_gives_what_its_row_says(name):
    row = FUNCTIONS[name]
    assert str(value(row.example, **row.of)) == row.gives


def test_the_page_has_the_rows_of_the_functions():
    assert "\n".join(markdown_rows()) + "\n\n" in PAGE.read_text(encoding="utf-8")


def test_edges_of_functions():
    assert value("n % 1000", n=-1) == 999 and value("n % 1000", n=-2000) == 0
    assert value("n - 7 * 86400000", n=604_800_001) == 1
    assert value("amount % 0.25", amount="-0.10") == Decimal("0.15")
    assert value("(amount - 1) * 2", amount="3.50") == 5
    assert (
        value("amount - 1 - 1", amount="3.50") == Decimal("1.50") != value("amount - (1 - 1)", amount="3.50")
    )
    assert value('after(email, "@")', email="a@b@c") == "b@c"
    assert value('before(email, "@")', email="@b") == "" and value("length(a)", a="é\U0001f600") == 2
    assert value("lower(a)", a="ÄÉ") == "äé"
    assert value("sorted(giver, taker)", giver='b"', taker="a,") == '["a,","b\\""]'
    assert value("sorted(n, fee, 7)", n=10, fee=-1) == "[-1,7,10]"
    assert value('concat(amount, "/", n, "/", flag)', amount="-0.05", n=3, flag="true") == "-0.05/3/true"
    assert value('coalesce(country, a, "-")', a="KR") == "KR"
    assert value("coalesce(fine, amount, 0)", amount="1.5") == Decimal("1.500000")
    # clocks are turned forward at 01:00 UTC
    assert value('hour(ts, "Europe/Berlin")', ts="2024-03-31T00:59:59Z") == 1
    assert value('hour(ts, "Europe/Berlin")', ts="2024-03-31T01:00:00Z") == 3
    assert value("date(created)", created="1969-12-31T23:59:59.999Z") == "1969-12-31"
    assert value("weekday(created)", created="1969-12-31T23:59:59.999Z") == 3


def test_types_follow_from_those_of_the_fields():
    types = {
        "n + fee": "long",
        "amount - n": "decimal(18,2)",
        "amount + fine": "decimal(18,6)",
        "amount * fine": "decimal(18,8)",
        "n % 0.5": "decimal(18,1)",
        "ts - created": "long",
        "coalesce(created, ts)": "time",
        'coalesce(flag, "true")': "string",
        "coalesce(flag, flag)": "boolean",
        "n * (2 + 3) - 1": "long",
    }
    assert {text: with_derived(x=text).field("x").type for text in types} == types


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "coalesce"])
def test_null_gives_null_except_in_coalesce(name):
    assert value(FUNCTIONS[name].example.replace("ts", "created")) is None
    assert value("coalesce(n, fee)") is None and value("coalesce(n, fee, 3)", fee=2) == 2


def test_nan_is_null_for_derived_fields_too():
    event = with_derived(x="amount + 1").parse(b'{"id": 1, "ts": "2024-05-01T00:00:00Z", "amount": NaN}')
    assert event["amount"] is event["x"] is None


def test_a_text_without_the_part_gives_null():
    assert value('after(email, "@")', email="ann") is None is value('before(email, "@")', email="ann")


def test_a_day_is_a_group_to_which_a_late_event_of_before_midnight_still_belongs():
    reference = Reference(replace(LOGINS, derived=(("day", 'date(eventTime, "Europe/Berlin")'),)))
    reference.control("1: SUM(amount) per userId, day over 25 h > 10")
    hour, midnight = 3_600_000, 1_714_514_400_000  # 2024-05-01 00:00 in Berlin
    times = (midnight - hour, midnight - 3, midnight, midnight + 1, midnight - 2, midnight + 23 * hour)
    for number, (time, amount) in enumerate(zip(times, (6, 4, 5, 5, 1, 1), strict=True)):
        event = {"eventId": number, "eventTime": time, "userId": 1, "amount": amount}
        reference.event(json.dumps(event).encode())
    said = [(alert.event_id, alert.key, alert.aggregate) for alert in reference.alerts]
    assert said == [(4, "{userId=1;day=2024-04-30}", 11), (5, "{userId=1;day=2024-05-01}", 11)]


BIG = 9_223_372_036_854_775_807


@pytest.mark.parametrize(
    ("expression", "record", "reason"),
    [
        ("n + 1", {"n": BIG}, f"x: {BIG + 1}, expected an integer of signed 64 bit as the value of n + 1"),
        ("n - 1 + 1", {"n": -BIG - 1}, f"x: {-BIG - 2}, expected an integer of signed 64 bit as the value of (n - 1) + 1"),
        ("n * n", {"n": 3_037_000_500}, "x: 9223372037000250000, expected an integer of signed 64 bit"),
        ("amount + n", {"amount": 1, "n": BIG}, f"x: {BIG + 1}.00, expected 18 digits as the value of amount + n"),
        ("amount * fine", {"amount": 9_999_999, "fine": 9_999}, "x: 99989990001.00000000, expected 18 digits"),
        ("concat(a, a)", {"a": "x" * 1_001}, "x: a text of 2,002 characters, expected at most 2,000"),
        ('concat(a, "-")', {"a": "x" * MAX_TEXT}, "x: a text of 2,001 characters, expected at most 2,000"),
        ("sorted(a, giver)", {"a": "x" * MAX_TEXT, "giver": ""}, "x: a text of 2,007 characters"),
    ],
)  # fmt: skip
def test_what_does_not_fit_its_type_is_a_dead_letter_that_says_so(expression, record, reason):
    reference = Reference(with_derived(x=expression))
    reference.event(json.dumps({"id": 1, "ts": TS} | record).encode())
    ((letter),) = reference.dead_letters
    assert letter["reason"].startswith(reason)


def test_the_largest_values_fit():
    assert value("n + 1", n=BIG - 1) == BIG and value("n - 1", n=-BIG) == -BIG - 1
    assert value("concat(a, a)", a="x" * 1_000) == "x" * MAX_TEXT
    assert value("fine - 0.000001", fine="-999999999999.999998") == Decimal("-999999999999.999999")


def test_a_day_without_a_date_is_a_dead_letter():
    fields = (*LOGINS.fields, Field("far", "time", unit="d"))
    schema = replace(LOGINS, fields=fields, derived=(("day", "date(far)"),))
    with pytest.raises(
        BadRecord, match="day: a day 999,999,999 days from 1970, expected the years 1 to 9999"
    ):
        schema.parse(b'{"eventId": 1, "eventTime": 5, "far": 999999999}')


def test_a_derived_field_sees_the_record_and_the_derived_fields_above_it():
    schema = with_derived(domain='after(email, "@")', size="length(domain)", double="size + size")
    event = schema.parse(json.dumps({"id": 1, "ts": TS, "email": "a@lab"}).encode())
    assert (event["domain"], event["size"], event["double"]) == ("lab", 3, 6)
    assert schema.names[-3:] == ("domain", "size", "double")
    csv = replace(PAYMENTS, derived=(("two", "paymentAmount * 2"),))
    assert csv.parse(b"1,2013-01-01 00:00:00,1001,1002,CSH,21.5,1")["two"] == 43


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("amount-fee", 'a sign stands between blanks: write amount - fee (at "amount-fee", character 1)'),
        ("n -1", 'a sign stands between blanks: write - 1 (at "-1", character 3)'),
        ("amont - fee", 'unknown field "amont", did you mean amount?'),
        ("n / 2", "there is no division, as it is not exact: compare with a multiple instead"),
        ("n × 2", "write *"),
        ("n % fee", "fee is of type long, expected a number above 0, not a field: amount % 1000"),
        ("n % 0", "0 is of type long, expected a number above 0"),
        ("lower", "write lower(email)"),
        ("lowr(a)", 'unknown function "lowr", did you mean lower?'),
        ("lower(n)", "n is of type long, expected a text: lower(email)"),
        ("lower(a, a)", "lower has 2, expected 1 value in brackets, such as lower(email)"),
        ("sorted(a)", "sorted has 1, expected 2 to 8 values in brackets"),
        ("sorted(n, a)", "expected integers or texts, not both"),
        ("after(email, a)", 'a is of type string, expected a text in quotes, such as "@"'),
        ("after(email, @)", 'unknown field "@"'),
        ('hour(ts, "Europe/Belrin")', 'unknown time zone "Europe/Belrin", did you mean Europe/Berlin?'),
        ("hour(n)", "n is of type long, expected a time"),
        ("ts + created", "ts is of type time, expected a number"),
        ("ts - n", "a time and a number: expected two times, whose difference is in ms, or two numbers"),
        ("coalesce(n, a)", "expected values of one type, not long, string"),
        ("fine * fine * fine * fine", "a product of 24 digits after the point, expected at most 18"),
        ('"KR"', "the same for every record: expected the name of a field"),
        ("2 * 3", "the same for every record: expected the name of a field"),
        ("n + 9223372036854775807", "expected a number of at most 18 digits"),
        ("concat(a, 1,000)", "a number has no commas, and a point before decimals"),
        ("(n + 1", "this bracket is not closed"),
        ("n + 1)", "no bracket is open here"),
        ("n >= 5", "expected one of + - * % between two values"),
        ("n and fee", "a condition belongs into a rule; a derived field is a value"),
        ("", "expected a field, a number, a text in quotes or a function"),
        ("n +", "expected a field, a number, a text in quotes or a function (at the end)"),
        ("x + 1", "x stands below: a derived field sees only those above it"),
        ("later + 1", "later stands below: a derived field sees only those above it"),
        ("n + " * 200 + "n", f"expected at most {MAX_CHARACTERS}"),
        ("(" * 11 + "n" + ")" * 11, f"expected at most {MAX_BRACKETS} brackets in brackets"),
        ("__import__(a)", 'unknown function "__import__"'),
        ('concat(date(ts, "+99:00"), a)', 'unknown time zone "+99:00"'),
    ],
)  # fmt: skip
def test_a_schema_with_a_bad_derived_field_is_refused_with_its_reason(expression, reason):
    with pytest.raises(ValueError, match=f"derived.x: .*{re.escape(reason)}"):
        with_derived(x=expression, later="n + 1")


def test_what_is_wrong_around_the_expressions_is_refused_too():
    with pytest.raises(ValueError, match="derived.email: there is a field of this name already"):
        with_derived(email="lower(a)")
    with pytest.raises(
        ValueError, match=f"derived: {MAX_DERIVED + 1}, expected at most {MAX_DERIVED} derived"
    ):
        with_derived(**{f"x{number}": "n + 1" for number in range(MAX_DERIVED + 1)})
    with pytest.raises(ValueError, match='id: "x", expected a field of the records as id, not a derived one'):
        replace(with_derived(x="n + 1"), id_fields=("x",))
    with pytest.raises(ValueError, match="time: .*not a derived one"):
        replace(with_derived(x="coalesce(created, ts)"), time_field="x")
    with pytest.raises(ValueError, match="field name"):
        with_derived(**{"a b": "n + 1"})


def test_a_file_has_a_table_of_derived_fields():
    schema = with_derived(day='date(ts, "Europe/Berlin")', pair="sorted(giver, taker)")
    text = schema_to_toml(schema)
    assert text.endswith('[derived]\nday = "date(ts, \\"Europe/Berlin\\")"\npair = "sorted(giver, taker)"\n')
    assert schema_from_toml(text) == schema == Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    with pytest.raises(ValueError, match="derived.x: 5, expected a text"):
        schema_from_toml(text + "x = 5")
    with pytest.raises(ValueError, match="derived: 5, expected a table"):
        schema_from_toml("derived = 5\n" + schema_to_toml(BASE))
    assert "date(ts" in schema._repr_html_()


def test_a_derived_field_that_means_something_else_is_another_field():
    before = with_derived(x="n + 1", y="lower(a)")
    assert with_derived(y=" LOWER( a )", x="n  +  1").incompatibility_with(before) is None
    assert before.incompatibility_with(BASE) is None
    for after, reason in (
        (with_derived(x="n + 2", y="lower(a)"), "x is n + 2, before it was n + 1"),
        (with_derived(x="n + 1"), "there is no field y any more"),
        (
            replace(with_derived(y="lower(a)"), fields=(*FIELDS, Field("x", "long"))),
            "x is a field of the records, before it was n + 1",
        ),
    ):
        assert after.incompatibility_with(before) == reason


def two(sign: str, one: tuple, other: tuple) -> tuple:
    of = operator.add if sign == "+" else operator.sub
    return f"({one[0]} {sign} {other[0]})", lambda numbers: of(one[1](numbers), other[1](numbers))


# a text, and what it is of numbers as fractions
LEAVES = st.sampled_from(["n", "amount", "fine", "fee"]).map(
    lambda name: (name, lambda numbers: numbers[name])
)
LEAVES |= st.sampled_from(["3", "0.25", "-7"]).map(lambda text: (text, lambda numbers: Fraction(text)))
NUMBERS = st.recursive(
    LEAVES,
    lambda part: (
        st.builds(two, st.sampled_from("+-"), part, part)
        | LEAVES.map(lambda leaf: (f"{leaf[0]} % 7.5", lambda numbers: leaf[1](numbers) % Fraction("7.5")))
        | part.map(lambda of: (f"coalesce({of[0]}, 1)", of[1]))
    ),
    max_leaves=5,
)


@given(NUMBERS, st.integers(-BIG - 1, BIG), st.integers(-(10**9) + 1, 10**9 - 1))
def test_an_expression_reads_back_from_its_text_and_is_exact(drawn, n, cents):
    text, of_fractions = two("+", ("n", lambda numbers: numbers["n"]), drawn)
    (read,) = read_derivations((("x", text),), FIELDS, "ts")
    (again,) = read_derivations((("x", expression_text(read.expression)),), FIELDS, "ts")
    assert again.expression == read.expression
    numbers = {"n": n, "amount": Decimal(cents).scaleb(-2), "fine": Decimal("0.000001"), "fee": 5}
    exact = of_fractions({name: Fraction(each) for name, each in numbers.items()})
    try:
        assert value(text, **{name: str(each) for name, each in numbers.items()}) == exact
    except BadRecord as error:
        assert "expected an integer of signed 64 bit" in str(error) or "expected 18 digits" in str(error)
        assert max(map(abs, (n, exact))) > 10**10  # nothing small is refused
