import json
from collections import Counter
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.model.field import Field
from lab.model.jsontext import MAX_LINE_BYTES, BadRecord, parse_integer
from lab.model.schema import FLIGHTS, LOGINS, PAYMENTS, SCHEMAS, Schema

LONG = Field("n", "long")
TEXT = Field("s", "string")
AMOUNT = Field("amount", "decimal(18,2)")

longs = st.integers(-(1 << 63), (1 << 63) - 1)
times = st.integers(0, 7_289_654_399_999)
amounts = st.integers(1 - 10**18, 10**18 - 1).map(lambda minor: Decimal(minor).scaleb(-2))
texts = st.text(st.characters(exclude_categories=["Cs"]))


def payment(**values: str) -> bytes:
    """A payment whose values are given as JSON text."""
    given = {"transactionId": "1", "eventTime": "0"} | values
    return ("{" + ",".join(f'"{name}":{value}' for name, value in given.items()) + "}").encode()


def reason(line: bytes, schema: Schema = PAYMENTS) -> str:
    with pytest.raises(BadRecord) as error:
        schema.parse(line)
    return str(error.value)


def test_the_demos_csv_line_is_read():
    assert PAYMENTS.parse(b"1,2013-01-01 00:00:00,1001,1002,CSH,21.5,1\n") == {
        "transactionId": 1,
        "eventTime": 1356998400000,
        "payeeId": 1001,
        "beneficiaryId": 1002,
        "paymentType": "CSH",
        "paymentAmount": Decimal("21.50"),
        "ingestionTimestamp": 1,
    }


def test_every_field_is_present_and_none_when_absent_or_null():
    event = PAYMENTS.parse(payment(payeeId="null"))
    assert tuple(event) == PAYMENTS.names
    assert {name for name, value in event.items() if value is None} == {*PAYMENTS.names[2:]}


def test_other_names_are_ignored_and_the_last_of_two_equal_names_wins():
    line = b'{"transactionId": 1, "eventTime": 5, "eventTime": 6, "color": [1, {}], "huge": 1e99999999999999999999}'
    assert PAYMENTS.parse(line)["eventTime"] == 6


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b" \t\r\n", b"\xef\xbb\xbf "])
def test_a_byte_order_mark_and_blanks_before_the_object_are_fine(start):
    assert PAYMENTS.parse(start + payment())["transactionId"] == 1


@given(
    st.fixed_dictionaries(
        {"eventId": longs, "eventTime": times}, optional={"userId": longs, "action": texts, "amount": amounts}
    )
)
def test_json_keeps_every_value_exactly(event):
    raw = json.dumps(event | {"amount": str(event.get("amount", "0"))}).encode()
    read = LOGINS.parse(raw)
    assert {name: read[name] for name in event} == event
    assert all(type(read[name]) is type(value) for name, value in event.items())


@given(longs, times, amounts)
def test_csv_and_json_of_the_same_event_are_read_alike(number, time, amount):
    csv_line = f'{number},{time},,-7,"a,""b""",{amount}'.encode()
    json_line = payment(
        transactionId=str(number),
        eventTime=str(time),
        beneficiaryId="-7",
        paymentType='"a,\\"b\\""',
        paymentAmount=str(amount),
    )
    assert PAYMENTS.parse(csv_line) == PAYMENTS.parse(json_line)


@given(amounts)
def test_a_decimal_has_exactly_its_scale_and_never_minus_zero(amount):
    for written in (amount, str(amount), amount.normalize()):
        read = AMOUNT.parse(written)
        assert read == amount and read.as_tuple().exponent == -2
        assert not (read == 0 and read.is_signed())


@pytest.mark.parametrize(
    ("literal", "value"),
    [("2e1", "20.00"), ("1.2300", "1.23"), ("-0.00", "0.00"), ("0e999", "0.00"), ('"+7.5"', "7.50")],
)
def test_a_decimal_is_read_in_any_json_notation_and_from_plain_text(literal, value):
    assert str(PAYMENTS.parse(payment(paymentAmount=literal))["paymentAmount"]) == value


@pytest.mark.parametrize(
    "literal",
    [
        *("0.001", "1e16", "-1e16", "1e999999999", "1e-999999999", "1e99999999999999999999", "9" * 5000),
        *('""', '" 1"', '"NaN"', '"١"', '"1_0"', "true", "[]", "{}"),
    ],
)
def test_what_is_no_decimal_or_does_not_fit_is_rejected(literal):
    text = reason(payment(paymentAmount=literal))
    assert text.startswith("paymentAmount: ")
    assert "expected a number with at most 16 digits before the point and 2 after it" in text
    assert len(text) < 160


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("-Infinity"), Decimal("sNaN"), 0.5, b"1", True])
def test_python_values_that_json_never_gives_are_rejected_too(value):
    for field in (AMOUNT, LONG, TEXT):
        with pytest.raises(BadRecord):
            field.parse(value)


@pytest.mark.parametrize(
    "literal", ["1.0", "1e3", "true", '"1"', "9223372036854775808", "-9223372036854775809", "9" * 5000, "[]"]
)
def test_a_long_is_only_an_integer_literal_of_64_bits(literal):
    text = reason(payment(payeeId=literal))
    assert text.startswith("payeeId: ") and text.endswith("expected an integer of signed 64 bit")
    assert len(text) < 120


def test_a_million_digits_are_rejected_at_once():
    for name in ("payeeId", "paymentAmount", "paymentType"):
        assert reason(payment(**{name: "9" * 1_000_000})).startswith(f"{name}: 999")
    # int() would take half a minute, where Python allows it
    assert type(parse_integer("9" * 1_000_000)) is Decimal


def test_an_integer_too_long_for_python_to_print_is_still_named():
    with pytest.raises(BadRecord, match="n: 1000.*…, expected an integer"):
        LONG.parse(10**5000)


@pytest.mark.parametrize("literal", ["1", "false", "[]", "{}", '"\\ud800"', '"a\\udfff"'])
def test_a_string_is_only_a_json_string_that_utf8_can_hold(literal):
    text = reason(payment(paymentType=literal))
    assert text.startswith("paymentType: ") and "expected a string" in text
    text.encode()


@pytest.mark.parametrize("name", ["transactionId", "eventTime"])
def test_id_and_time_are_required(name):
    assert reason(payment(**{name: "null"})).startswith(f"{name}: nothing, expected")


@pytest.mark.parametrize("time", ["-1", "7289654400000"])
def test_times_outside_1970_to_2200_are_rejected(time):
    assert reason(payment(eventTime=time)).startswith(
        f"eventTime: {time}, expected the event time, 0 to 7289654399999"
    )


@pytest.mark.parametrize(
    ("cell", "time"),
    [
        ("1970-01-01 00:00:00", 0),
        ("2200-12-31 23:59:59.999", 7289654399999),
        ("2024-02-29 12:00:00.5", None),
        ("2023-02-29 12:00:00", None),
        ("2024-02-29T12:00:00", None),
        ("1969-12-31 23:59:59", None),
        ("+12", 12),
        ("1e3", None),
        ("yesterday", None),
    ],
)
def test_a_csv_time_is_utc_text_or_an_integer_of_ms(cell, time):
    line = f"1,{cell}".encode()
    if time is None:
        assert reason(line).startswith("eventTime: ")
    else:
        assert PAYMENTS.parse(line)["eventTime"] == time


def test_csv_cells_may_be_empty_or_missing_at_the_end_but_not_too_many():
    assert PAYMENTS.parse(b"1,0,,,,,") == PAYMENTS.parse(b"1,0")
    assert reason(b"1,0,,,,,,").startswith("8 cells, at most 7: transactionId,eventTime,")


def test_csv_leading_zeros_do_not_change_an_integer():
    assert LONG.parse_csv_cell("-" + "0" * 5000 + "12") == -12


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"a": "\xff"}', "not UTF-8: byte 0xff at offset 7"),
        (b"\xef\xbb\xbf\xff", "not UTF-8: byte 0xff at offset 3"),
        (b"{} {}", "not one JSON object"),
        (b'{"transactionId": 1', "not one JSON object"),
        (payment(transactionId="NaN"), "transactionId: nothing, expected the id"),
        (payment(eventTime="-Infinity"), "eventTime: nothing, expected the event time"),
        (payment(payeeId="[NaN]"), "payeeId: a list, expected an integer"),
        (b'{"a":' + b"[" * 100_000, "nested too deeply"),
        (b"", "no value (a tombstone, as compacted topics have them), expected an event"),
        (b" null", "no value (a tombstone, as compacted topics have them), expected an event"),
        (b'\0\0\0\x01\x07{"transactionId": 1}', "Schema Registry format (schema 263), expected plain JSON"),
        (b"\0\0\0\0\x07\x02\xff", "Schema Registry format (schema 7), expected plain JSON"),
        (b"[1]", 'transactionId: "[1]"'),
        (b"1,0\n2,0", "not a CSV line"),
    ],
)
def test_what_is_no_record_is_rejected_with_the_reason(line, text):
    assert text in reason(line)


NANS = [
    (payment(payeeId="NaN", color="-Infinity", paymentType="Infinity"), {"payeeId": 1, "paymentType": 1}),
    (b"1,0,NaN,-Infinity,NaN,Infinity", {"payeeId": 1, "beneficiaryId": 1, "paymentAmount": 1}),
    (payment(color="NaN"), {}),
]


@pytest.mark.parametrize(("line", "nulls"), NANS)
def test_nan_and_infinity_are_null_for_their_field_and_counted(line, nulls):
    counted = Counter()
    event = PAYMENTS.parse(line, counted)
    assert counted == nulls and [event[name] for name in nulls] == [None] * len(nulls)
    assert event["transactionId"] == 1


@pytest.mark.parametrize("line", [line for line, _ in NANS])
def test_a_schema_may_refuse_nan(line):
    with pytest.raises(BadRecord, match="NaN|Infinity"):
        replace(PAYMENTS, nan="dead letter").parse(line)


def test_what_is_not_in_the_format_of_the_schemas_records_is_refused():
    csv, json_line = b"1,2013-01-01 00:00:00,25,12,CSH,0.005", payment()
    with pytest.raises(BadRecord, match='^not one JSON object: "1,2013'):
        replace(PAYMENTS, records="json").parse(csv)
    with pytest.raises(BadRecord, match="^not a CSV line: "):
        replace(PAYMENTS, records="csv").parse(json_line)
    with pytest.raises(ValueError, match='records: "xml", expected "json" or "csv" or "either"'):
        replace(PAYMENTS, records="xml")


def test_a_line_of_one_mebibyte_is_read_and_one_byte_more_is_rejected():
    line = payment()
    assert PAYMENTS.parse(line.ljust(MAX_LINE_BYTES))["transactionId"] == 1
    assert reason(line.ljust(MAX_LINE_BYTES + 1)) == "line of 1048577 bytes, at most 1048576 are allowed"


@given(
    st.binary(max_size=60)
    | st.text(max_size=60).map(lambda text: ("{" + text).encode(errors="surrogatepass"))
)
def test_any_bytes_are_read_or_rejected_and_never_fail_otherwise(line):
    try:
        FLIGHTS.parse(line)
    except BadRecord as error:
        str(error).encode()


def test_a_field_knows_whether_it_is_numeric_and_its_scale():
    assert [(field.is_number_or_time, field.scale) for field in (LONG, TEXT, AMOUNT)] == [
        (True, 0),
        (False, 0),
        (True, 2),
    ]


@pytest.mark.parametrize(
    "type_", ["int", "decimal", "decimal(19,2)", "decimal(2,3)", "decimal(0,0)", "decimal(5, 2)"]
)
def test_a_type_that_is_none_is_refused(type_):
    with pytest.raises(
        ValueError, match=r"type of x: .*, expected long, string, boolean, time or decimal\(P,S\)"
    ):
        Field("x", type_)


@pytest.mark.parametrize("name", ["", "a b", "a|b", "a,b", "a" * 101])
def test_a_field_name_has_no_separators(name):
    with pytest.raises(ValueError, match="field name"):
        Field(name, "long")


def test_a_schema_refuses_equal_names_paths_inside_each_other_and_an_id_or_time_that_is_none():
    with pytest.raises(ValueError, match="two fields have the same name"):
        Schema("x", (LONG, LONG), ("n",), "n")
    with pytest.raises(
        ValueError, match=r'type of amount: "decimal\(18,2\)", expected long or string: it is the id'
    ):
        Schema("x", (LONG, AMOUNT), ("amount",), "n")
    with pytest.raises(ValueError, match='type of s: "string", expected long or time: it is the time'):
        Schema("x", (LONG, TEXT), ("n",), "s")
    inside = Field("total", "long", path=("n", "total"))
    with pytest.raises(ValueError, match="schema x: n and total cannot both be at n"):
        Schema("x", (LONG, inside), ("n",), "n")


def test_a_time_needs_a_unit():
    with pytest.raises(
        ValueError, match="unit of t: nothing, expected one of s, ms, us, ns, m, h, d, iso, utc, local"
    ):
        Field("t", "time")


@pytest.mark.parametrize(
    ("unit", "value", "ms"),
    [
        ("s", 1714525200, 1714525200000),
        ("s", Decimal("1714525200.1239"), 1714525200123),
        ("s", Decimal("-0.0001"), -1),
        ("s", "1714525200", 1714525200000),
        ("ms", 1714525200123, 1714525200123),
        ("ms", Decimal("1.7e12"), 1_700_000_000_000),
        ("us", 1714525200123999, 1714525200123),
        ("ns", 1714525200123999999, 1714525200123),
        ("s", 1714525200123, None),
        ("ms", True, None),
        ("iso", "2024-05-01T10:00:00+09:00", 1714525200000),
        ("iso", "2024-05-01 01:00Z", 1714525200000),
        ("iso", "2024-04-30T19:30:00.1239-0530", 1714525200123),
        ("iso", "1969-12-31T23:59:59.9999Z", -1),
        ("iso", "2024-05-01T10:00:00", None),
        ("iso", "2024-02-30T10:00:00Z", None),
        ("iso", "2024-05-01T24:00:00Z", None),
        ("iso", 1714525200, None),
        ("utc", "2024-05-01T01:00:00", 1714525200000),
        ("utc", "2024-05-01T01:00:00Z", None),
        ("utc", "2024-05-01", 1714521600000),
        ("iso", "2024-05-01", None),
        ("utc", "2024-05-01Z", None),
        ("m", 1, 60_000),
        ("h", 744, 2_678_400_000),
        ("h", Decimal("1.5"), 5_400_000),
        ("h", Decimal("0.0001"), None),
        ("h", "744", 2_678_400_000),
        ("d", 19844, 1714521600000),
    ],
)
def test_a_time_is_read_in_the_unit_of_its_field_and_no_other(unit, value, ms):
    field = Field("t", "time", unit=unit)
    if ms is None:
        with pytest.raises(BadRecord, match="t: .*, expected a time"):
            field.parse(value)
    else:
        assert field.parse(value) == ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2024-05-01 12:00", 1714557600000),
        ("2024-05-01", 1714514400000),
        ("2024-10-27 02:30:00.5", 1729989000500),  # the first of two
        ("2024-10-27 03:00", 1729994400000),
        ("2024-03-31 02:30:00", None),  # clocks go from 2:00 to 3:00
        ("2024-05-01 12:00Z", None),
    ],
)
def test_a_local_time_is_on_the_clocks_of_its_zone(text, ms):
    field = Field("t", "time", unit="local", zone="Europe/Berlin")
    if ms is None:
        with pytest.raises(BadRecord, match="t: .*, expected a time of ISO 8601 without a zone"):
            field.parse(text)
    else:
        assert field.parse(text) == ms


@pytest.mark.parametrize(
    ("unit", "zone", "reason"),
    [
        ("local", "", "zone of t: nothing, expected a time zone with unit"),
        ("utc", "Europe/Berlin", 'zone of t: "Europe/Berlin", expected a time zone with unit = "local"'),
        ("local", "Berlin", 'unknown time zone "Berlin"'),
    ],
)
def test_a_zone_belongs_to_local_times(unit, zone, reason):
    with pytest.raises(ValueError, match=reason):
        Field("t", "time", unit=unit, zone=zone)


def test_a_boolean_is_its_text_so_that_filters_and_groups_name_it():
    paid = Field("paid", "boolean")
    assert [paid.parse(value) for value in (True, False, "true", None)] == ["true", "false", "true", None]
    for value in (1, 0, "yes", Decimal(1), []):
        with pytest.raises(BadRecord, match="paid: .*, expected true or false"):
            paid.parse(value)


ORDERS = Schema(
    "orders",
    (
        Field("id", "string", path=("order", "id")),
        Field("at", "time", path=("order", "placed"), unit="iso"),
        Field("amount", "decimal(18,2)", path=("order", "total", "amount"), unit="EUR"),
        Field("gift", "boolean"),
    ),
    id_fields=("id",),
    time_field="at",
)


def test_a_path_leads_into_objects_and_what_is_not_there_is_null():
    line = b'{"gift": false, "order": {"id": "A-1", "placed": "2024-05-01T10:00:00+09:00", "total": null}}'
    assert ORDERS.parse(line) == {"id": "A-1", "at": 1714525200000, "amount": None, "gift": "false"}


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"order": 7}, "id (order.id): order: 7, expected an object"),
        ({"order": {"id": 7}}, "id (order.id): 7, expected a string"),
        ({}, "id (order.id): nothing, expected the id of the event"),
        ({"order": {"id": ""}}, 'id (order.id): "", expected the id of the event, 1 to 200 characters'),
        ({"order": {"id": "x" * 201}}, "expected the id of the event, 1 to 200 characters"),
        ({"order": {"id": "x"}}, "at (order.placed): nothing, expected the event time"),
        (
            {"order": {"id": "x", "total": []}},
            "amount (order.total.amount): order.total: an empty list, expected",
        ),
        (
            {"order": {"id": "x", "total": {"amount": "x"}}},
            'amount (order.total.amount): "x", expected a number',
        ),
    ],
)
def test_the_reason_names_the_path(record, text):
    assert text in reason(json.dumps(record).encode(), ORDERS)


def test_a_schema_survives_a_turn_through_json():
    for schema in (ORDERS, *SCHEMAS.values()):
        assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


def test_an_id_of_other_fields_is_another_id():
    pair = replace(LOGINS, id_fields=("userId", "eventId"))
    assert pair.incompatibility_with(LOGINS) == "the id is userId, eventId, before it was eventId"
    assert pair.id_of({"userId": 7, "eventId": 1, "ip": "a"}) == (7, 1)
    assert Schema.from_dict(json.loads(json.dumps(pair.to_dict()))) == pair


def changed(number: int, **attributes) -> Schema:
    fields = list(ORDERS.fields)
    fields[number] = replace(fields[number], **attributes)
    return replace(ORDERS, fields=tuple(fields))


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (replace(ORDERS, name="orders2", fields=(*ORDERS.fields[::-1], LONG)), None),
        (changed(2, unit="KRW", doc="all of it"), None),
        (
            changed(2, type="decimal(18,3)"),
            "the type of amount is decimal(18,3), before it was decimal(18,2)",
        ),
        (changed(2, path=("total",)), "the path of amount is total, before it was order.total.amount"),
        (changed(1, unit="utc"), "the unit of at is utc, before it was iso"),
        (
            changed(1, unit="local", zone="Asia/Seoul"),
            "the unit of at is local Asia/Seoul, before it was iso",
        ),
        (replace(ORDERS, fields=ORDERS.fields[:3]), "there is no field gift any more"),
        (PAYMENTS, "the id is transactionId, before it was id"),
        (replace(ORDERS, records="either", nan="dead letter", taken_back="amount < 0"), None),
    ],
)
def test_a_change_of_schema_is_compatible_or_the_field_that_differs_is_named(new, why):
    assert new.incompatibility_with(ORDERS) == why


def test_taken_back_may_be_new_or_different_but_not_removed():
    """State has the records that took events back. Without `taken_back`, they would count as events."""
    returned, cancelled = (
        replace(LOGINS, taken_back="action = returned"),
        replace(LOGINS, taken_back="ip = x"),
    )
    assert returned.incompatibility_with(LOGINS) is cancelled.incompatibility_with(returned) is None
    assert (
        LOGINS.incompatibility_with(returned) == "there is no taken_back any more, it was action = returned"
    )


def test_an_unknown_field_is_answered_with_the_closest_one_and_all_names():
    assert PAYMENTS.field("payeeId").type == "long"
    with pytest.raises(
        ValueError, match="did you mean paymentAmount.*known: transactionId, .*ingestionTimestamp"
    ):
        PAYMENTS.field("PAYMENTAMOUT")


def test_the_schemas_are_found_by_name_and_show_as_a_table():
    assert SCHEMAS == {"payments": PAYMENTS, "logins": LOGINS, "flights": FLIGHTS}
    assert ">eventTime</td>" in FLIGHTS._repr_html_() and ">event time</td>" in FLIGHTS._repr_html_()
