"""The proposal for a file of events: right about what can be known, in doubt about the rest, and readable as a schema."""

import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.apps.infer import infer, unmatched
from lab.model.field import Field
from lab.model.schemafile import from_toml
from tests.orders import orders

ORDERS = [line.encode() for line in orders(500)]


def proposal(records: list, name: str = "events"):
    return infer(
        [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records], name
    )


def field(values: list, name: str = "x"):
    """The field that is proposed for values beside a good id and time; None if it is left out. And the doubts."""
    records = [{"id": number, "time": 1714525200000 + number} for number in range(len(values))]
    lines = [
        (json.dumps(record)[:-1] + f', "{name}": {value}}}').encode()
        for record, value in zip(records, values)
    ]
    made = proposal(lines)
    found = [each for each in made.schema.fields if each.name == name]
    return (found[0] if found else None), " ".join(made.doubts.get(name, []) + made.doubts[""])


def test_nested_orders_are_understood():
    made = infer(ORDERS, "orders")
    assert from_toml(made.toml()) == made.schema
    assert (made.schema.id_field, made.schema.time_field) == ("order_id", "placedAt")
    described = {each.name: (".".join(each.keys), each.type, each.unit) for each in made.schema.fields}
    assert described == {
        "order_id": ("order.id", "string", ""),
        "placedAt": ("order.placedAt", "time", "iso"),
        "amount": ("order.total.amount", "decimal(18,2)", "EUR"),
        "currency": ("order.total.currency", "string", ""),
        "gift": ("order.gift", "boolean", ""),
        "customer_id": ("customer.id", "long", ""),
        "city": ("customer.address.city", "string", ""),
        "zip": ("customer.address.zip", "string", ""),
        "channel": ("channel", "string", ""),
        "percent": ("order.discount.percent", "long", "percent"),
    }
    text = made.toml()
    assert "# doubt: order.items is left out: a list: rules cannot look into it" in text
    assert "# doubt: coupon is left out: it is null in all records" in text
    assert "first in record 2" in text and 'example = "2024-05-01T09:00:' in text
    assert all(made.schema.parse(line)["amount"] for line in ORDERS)


@pytest.mark.parametrize(
    ("values", "type", "doubt"),
    [
        (["1", "-7"], "long", ""),
        (["1", "9223372036854775808"], "long", "too many digits in 1 records"),
        (["9223372036854775808"] * 2, None, "numbers of more than 18 digits"),
        (["12.5", "3"], "decimal(18,2)", ""),
        (["0.125", "3.10"], "decimal(18,3)", ""),
        (["1e2", "5"], "decimal(18,2)", ""),
        (["0.30000000000000004", "0.1"], "decimal(18,17)", "binary floats"),
        (["30.30000000000000004", "0.1"], "decimal(18,16)", "dead letters"),
        (["1e400", "0.1"], "decimal(18,2)", "too many digits in 1 records"),
        (["1e999999999999999999999", "0.1"], "decimal(18,2)", "too many digits in 1 records"),
        (['"12.50"', '"3"'], "decimal(18,2)", "text in 2 records, read as numbers"),
        (['"00123"', '"77"'], "string", ""),
        (['"a"', "7"], "string", "numbers in 1 records, which will be dead letters"),
        (["true", "false"], "boolean", ""),
        (["true", "1"], None, "true or false in 1 records, something else in others"),
        (["null", "null"], None, "it is null in all records"),
        (["[1]", "[]"], None, "a list: rules cannot look into it"),
        (["{}", "7"], None, "an object in some records"),
        (['"2024-05-01T10:00:00+09:00"', "null"], "time", ""),
        (['"2024-05-01 10:00:00"', '"2024-05-01 10:00:01"'], "time", "no zone: they are read as UTC"),
        (['"2024-05-01 10:00:00"', '"2024-05-01T10:00:01Z"'], "string", ""),
    ],
)
def test_the_type_fits_what_is_there(values, type, doubt):
    found, doubts = field(values)
    assert (found and found.type) == type and doubt in doubts and bool(doubt) == bool(doubts), doubts


@pytest.mark.parametrize(
    ("value", "unit"),
    [
        (1714525200, "s"),
        (1714525200.123, "s"),
        (1714525200123, "ms"),
        (1714525200123456, "us"),
        (1714525200123456789, "ns"),
        ("2024-05-01T10:00:00+09:00", "iso"),
        ("2024-05-01T10:00:00", "utc"),
    ],
)
def test_seconds_ms_us_ns_and_iso_are_told_apart_and_said(value, unit):
    made = proposal([{"id": number, "createdAt": value} for number in range(3)])
    assert made.schema.field(made.schema.time_field) == Field("createdAt", "time", unit=unit)
    assert made.schema.parse(json.dumps({"id": 1, "createdAt": value}).encode())[
        "createdAt"
    ] // 1000 * 1000 in (
        1714525200000,
        1714557600000,
    )
    if unit == "s":
        assert f"{value} is 2024-05-01 01:00:00." in made.toml()


def test_of_several_ids_and_times_the_likeliest_is_taken_and_the_others_are_named():
    records = [
        {"customer": {"id": number % 3}, "sessionId": number, "invoice": {"id": f"I-{number}"}}
        | {"updated": 1714525200000 + number, "eventTime": 1714525200000 + number}
        for number in range(9)
    ]
    made = proposal(records, "invoices")
    assert made.schema.id_field == "invoice_id" and made.schema.time_field == "eventTime"
    assert made.doubts["eventTime"] == ["this is the event time; updated could be it as well"]


def test_ids_that_repeat_and_times_that_are_missing_are_doubts():
    records = [{"id": number // 2 * 2, "ts": 1714525200 + number} for number in range(20)] + [{"id": 99}]
    made = proposal(records)
    assert "10 records repeat one" in " ".join(made.doubts["id"])
    assert "1 records have none and will be dead letters" in " ".join(made.doubts["ts"])


def test_a_number_that_is_a_time_although_its_name_does_not_say_so():
    made = proposal([{"id": number, "moment": 1714525200000 + number} for number in range(3)])
    assert made.schema.field("moment").unit == "ms" and "nothing else is a time" in made.toml()


def test_amounts_in_several_currencies_are_a_doubt():
    records = [
        {"id": number, "time": 1714525200000, "price": {"amount": 1.5, "currency": currency}}
        for number, currency in enumerate(["EUR", "USD"])
    ]
    made = proposal(records)
    assert made.schema.field("amount").unit == "" and "amounts in EUR, USD" in made.doubts["amount"][0]


def test_names_are_short_and_different():
    records = [
        {
            "id": 1,
            "time": 1714525200000,
            "a": {"n": 1, "x y": 2},
            "b": {"a": {"n": 3}},
            "c.d": 4,
            "a_n": 5,
            "x/y": 6,
        }
    ]
    made = proposal(records)
    paths = {each.name: each.keys for each in made.schema.fields}
    assert paths["c.d"] == ("c.d",) and ("a", "x y") in paths.values() and ("x/y",) in paths.values()
    assert len(paths) == 8 and from_toml(made.toml()) == made.schema


def test_an_object_whose_names_are_data_is_left_out():
    records = [{"id": n, "time": 1714525200000 + n, "by": {f"user{n}": {"n": 1}}} for n in range(150)]
    made = proposal(records)
    assert len(made.schema.fields) == 2
    assert made.doubts[""] == ["by is left out: an object of 150 names, which look like data"]


def test_lines_that_are_no_objects_are_counted():
    made = proposal([{"id": 1, "time": 1714525200000}, b"{", b"", b"[1]"])
    assert made.records == 1 and made.doubts[""][0].startswith("2 lines are no JSON objects")


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([], "no records, expected JSON lines"),
        (
            [b"id,time", b"1,2"],
            'no line is a JSON object, the first: "id,time" is no JSON object; expected JSON lines',
        ),
        ([b"[", b'{"id": 1},', b"]"], "no line is a JSON object"),
        ([{"time": 1714525200000}], "no field tells the records apart"),
        ([{"id": 1, "n": 5}], "no field says when"),
    ],
)
def test_what_cannot_be_events_is_said(records, text):
    with pytest.raises(ValueError, match=text.replace("(", r"\(")):
        proposal(records)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False).map(str)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=6), values, max_size=5), min_size=1, max_size=6))
def test_whatever_the_records_the_proposal_is_a_schema(records):
    lines = [
        {"id": number, "time": 1714525200000 + number, "more": record}
        for number, record in enumerate(records)
    ]
    made = proposal(lines)
    assert from_toml(made.toml()) == made.schema


def test_a_path_that_no_record_has_is_named_with_the_one_that_was_meant():
    toml = infer(ORDERS, "orders").toml()
    schema = from_toml(toml.replace("order.total.amount", "order.totl.amount"))
    assert unmatched(from_toml(toml), ORDERS) == []
    assert unmatched(schema, ORDERS) == [
        "field amount: none of 500 records has order.totl.amount, did you mean order.total.amount?"
    ]
    assert Decimal(schema.parse(ORDERS[0])["amount"] or 0) == 0
