"""The proposal for a file of events: right about what can be known, in doubt about the rest, and readable as a schema."""

import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.model.field import Field
from lab.model.jsontext import BadRecord
from lab.model.schemafile import schema_from_toml
from lab.sources.infer import infer, unmatched_field_warnings
from lab.sources.inferredfields import fits_long
from tests.examples import examples
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
    assert schema_from_toml(made.toml()) == made.schema
    assert (made.schema.id_fields, made.schema.time_field) == (("order_id",), "placedAt")
    described = {each.name: (".".join(each.record_path), each.type, each.unit) for each in made.schema.fields}
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
    assert "# doubt: order.items is left out: a list, which rules cannot look into" in text
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
        (['"a"', "7"], "string", "another type in 1 records, which will be dead letters; the first: 7"),
        (["true", "false"], "boolean", ""),
        (["true", "1"], None, "true or false in 1 records, another type in others"),
        (["null", "null"], None, "it is null in all records"),
        (["[1]", "[]"], None, "a list, which rules cannot look into"),
        ([f'"{"x" * 2001}"', '"a"'], None, "strings of up to 2,001 characters"),
        ([f'"{"x" * 2000}"', '"a"'], "string", ""),
        (["{}", "7"], None, "an object in some records"),
        (['"2024-05-01T10:00:00+09:00"', "null"], "time", ""),
        (
            ['"2024-05-01 10:00:00"', '"2024-05-01 10:00:01"'],
            "time",
            "the times have no zone and are read as UTC",
        ),
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
    ] // 1000 * 1000 in (1714525200000, 1714557600000)
    if unit == "s":
        assert f"{value} is 2024-05-01 01:00:00." in made.toml()


def test_of_several_ids_and_times_the_likeliest_is_taken_and_the_others_are_named():
    records = [
        {"customer": {"id": number % 3}, "sessionId": number, "invoice": {"id": f"I-{number}"}}
        | {"updated": 1714525200000 + number, "eventTime": 1714525200000 + number}
        for number in range(9)
    ]
    made = proposal(records, "invoices")
    assert made.schema.id_fields == ("invoice_id",) and made.schema.time_field == "eventTime"
    assert made.doubts["eventTime"] == ["this is the event time; updated could be it, too"]


def test_ids_that_repeat_and_times_that_are_missing_are_doubts():
    records = [{"id": number // 2 * 2, "ts": 1714525200 + number} for number in range(20)] + [{"id": 99}]
    made = proposal(records)
    assert "10 records repeat an id" in " ".join(made.doubts["id"])
    assert "1 records lack it and will be dead letters" in " ".join(made.doubts["ts"])


def test_a_number_that_is_a_time_although_its_name_does_not_say_so():
    made = proposal([{"id": number, "moment": 1714525200000 + number} for number in range(3)])
    assert made.schema.field("moment").unit == "ms" and "no other field is a time" in made.toml()


def test_amounts_in_several_currencies_are_a_doubt():
    records = [
        {"id": number, "time": 1714525200000, "price": {"amount": 1.5, "currency": currency}}
        for number, currency in enumerate(["EUR", "USD"])
    ]
    made = proposal(records)
    assert made.schema.field("amount").unit == "" and "amounts in EUR, USD" in made.doubts["amount"][0]


def test_a_name_that_says_nothing_alone_has_the_object_around_it():
    made = proposal(
        [
            {
                "tx": {"id": number, "at": 1714557600000 + number},
                "payer": {"account": {"id": number % 7}, "country": "KR"},
                "total": {"value": "1.50", "currency": "EUR"},
                "type": "card",
            }
            for number in range(60)
        ]
    )
    assert {each.name: ".".join(each.record_path) for each in made.schema.fields} == {
        "tx_id": "tx.id",
        "at": "tx.at",
        "account_id": "payer.account.id",
        "country": "payer.country",
        "total_value": "total.value",
        "currency": "total.currency",
        "type": "type",
    }
    assert made.schema.id_fields == ("tx_id",)


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
    paths = {each.name: each.record_path for each in made.schema.fields}
    assert paths["c.d"] == ("c.d",) and ("a", "x y") in paths.values() and ("x/y",) in paths.values()
    assert len(paths) == 8 and schema_from_toml(made.toml()) == made.schema


def test_an_object_whose_names_are_data_is_left_out():
    records = [{"id": n, "time": 1714525200000 + n, "by": {f"user{n}": {"n": 1}}} for n in range(150)]
    made = proposal(records)
    assert len(made.schema.fields) == 2
    assert made.doubts[""] == ["by is left out: an object with 150 names, which look like data"]


def test_lines_that_are_no_objects_are_counted():
    made = proposal([{"id": 1, "time": 1714525200000}, b"{", b"", b"[1]"])
    assert made.record_count == 1 and made.doubts[""][0].startswith(
        "2 records will be dead letters; the first, record 2: not one JSON object"
    )


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([], "no records; expected events as JSON, CSV with a header, or Parquet"),
        (
            [b"id,time", b"1,2"],
            'no record is an object; the first: "id,time" is not a JSON object; expected events as JSON',
        ),
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


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=6), values, max_size=5), min_size=1, max_size=6))
def test_whatever_the_records_the_proposal_is_a_schema(records):
    lines = [
        {"id": number, "time": 1714525200000 + number, "more": record}
        for number, record in enumerate(records)
    ]
    made = proposal(lines)
    assert schema_from_toml(made.toml()) == made.schema


def test_a_path_that_no_record_has_is_named_with_the_one_that_was_meant():
    toml = infer(ORDERS, "orders").toml()
    schema = schema_from_toml(toml.replace("order.total.amount", "order.totl.amount"))
    assert unmatched_field_warnings(schema_from_toml(toml), ORDERS) == []
    assert unmatched_field_warnings(schema, ORDERS) == [
        "field amount: none of 500 records has order.totl.amount, did you mean order.total.amount?"
    ]
    assert Decimal(schema.parse(ORDERS[0])["amount"] or 0) == 0


MOST = [f"{number}.50" for number in range(30)]


@pytest.mark.parametrize(
    ("values", "type", "unit", "example"),
    [
        ([*MOST, '"12,50"'], "decimal(18,2)", "", '"12,50"'),
        ([*(f'"{value}"' for value in MOST), '"12,50"'], "decimal(18,2)", "", '"12,50"'),
        ([*map(str, range(30)), '"n/a"'], "long", "", '"n/a"'),
        ([*map(str, range(30)), "{}"], "long", "", "an object"),
        ([*["true", "false"] * 15, "7"], "boolean", "", "7"),
        ([*['"2024-05-01T10:00:00Z"'] * 30, '"yesterday"'], "time", "iso", '"yesterday"'),
        ([*['"a"'] * 30, "[1]"], "string", "", "a list"),
    ],
)
def test_the_type_of_most_values_wins_and_the_exceptions_are_counted_with_the_first(
    values, type, unit, example
):
    found, doubts = field(values)
    assert (found.type, found.unit) == (type, unit)
    assert f"another type in 1 records, which will be dead letters; the first: {example}" in doubts


def test_few_times_among_texts_are_texts_that_no_record_dies_of():
    found, doubts = field([*['"2024-05-01T10:00:00Z"'] * 6, *['"never"'] * 4])
    assert found.type == "string" and not doubts


def test_one_time_that_is_none_does_not_hide_the_event_time():
    lines = [b'{"id": %d, "at": "2024-05-01T10:00:00Z"}' % number for number in range(20)]
    made = proposal([*lines, b'{"id": 20, "at": "yesterday"}'])
    assert (made.schema.id_fields, made.schema.time_field) == (("id",), "at")


def test_the_example_of_a_field_is_a_value_that_it_can_have():
    found, doubts = field(['"n/a"', *["2.50"] * 30])
    assert found.type == "decimal(18,2)" and found.examples == ("2.50",) and '"n/a"' in doubts
    found, _ = field(['"soon"', *['"2024-05-01T10:00:00Z"'] * 30])
    assert found.type == "time" and found.examples == ("2024-05-01T10:00:00Z",)


def test_nan_is_null_and_counted():
    found, doubts = field([*MOST, "NaN", "-Infinity"])
    assert found.type == "decimal(18,2)" and doubts == "NaN or Infinity in 2 records, read as null"


UNFINISHED = [{"kind": "a", "n": number, "seen": "1 May"} for number in range(20)]


def test_without_an_id_or_a_time_the_file_has_the_rest_and_says_how_to_name_them():
    made = proposal([{"kind": "a", "seen": "1 May"}] * 20)
    text = made.toml()
    assert (
        "MISSING: no id: no integer or text field is present in every record" in text and 'id="NAME"' in text
    )
    assert "MISSING: no event time: no field is ISO 8601 text" in text and 'time="NAME"' in text
    assert "[fields.kind]" in text and 'id = ""' in text
    with pytest.raises(ValueError, match="no id: .*; no event time: "):
        made.schema  # noqa: B018
    with pytest.raises(ValueError, match='unknown events field ""'):
        schema_from_toml(text)


def test_id_and_time_can_be_named_by_name_or_path():
    records = [
        {"a": {"id": number}, "b": {"id": number}, "made": 1714525200000 + number, "time": 1714525200000}
        for number in range(20)
    ]
    lines = [json.dumps(record).encode() for record in records]
    made = infer(lines, "events", id=["b.id"], time="made").schema
    assert (made.id_fields, made.time_field, made.field("made").unit) == (("b_id",), "made", "ms")


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ({"id": ["nn"]}, 'id="nn": unknown field "nn", did you mean n'),
        ({"time": "kind"}, 'time="kind": "a", expected times, such as 2024-05-01T10:00:00'),
        ({"id": ["share"]}, 'id="share": .*decimal.*, expected a field of integers or strings'),
    ],
)
def test_a_name_that_cannot_be_id_or_time_is_refused(named, text):
    lines = [json.dumps(record | {"share": 0.5}).encode() for record in UNFINISHED]
    with pytest.raises(ValueError, match=text):
        infer(lines, "events", **named)


def cdc(op: str, number: int, wrapped: bool) -> dict:
    row = {"id": number, "at": 1714525200000000 + number, "amount": "12.50"}
    before, after = (row if op != "c" else None), (row if op != "d" else None)
    payload = {"before": before, "after": after, "source": {"db": "shop"}, "op": op, "ts_ms": 1714525200000}
    return {"schema": {"type": "struct"}, "payload": payload} if wrapped else payload


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_envelope_of_debezium_is_read_by_what_became_of_its_row(wrapped):
    made = proposal([cdc("cccuud"[number % 6], number, wrapped) for number in range(60)])
    around = ("payload",) * wrapped
    assert {each.name: each.record_path for each in made.schema.fields} == {
        name: (*around, *path)
        for name, path in {
            "id": ("after", "id"),
            "at": ("after", "at"),
            "amount": ("after", "amount"),
            "op": ("op",),
            "ts_ms": ("ts_ms",),
        }.items()
    }
    assert (made.schema.id_fields, made.schema.time_field, made.schema.field("at").unit) == (
        ("id",),
        "at",
        "us",
    )
    assert "10 records are deletes, which have no event" in made.toml()
    updated = json.dumps(cdc("u", 7, wrapped)).encode()
    assert made.schema.parse(updated)["amount"] == Decimal("12.50")
    with pytest.raises(BadRecord, match='^op: "d", expected c, r or u: a delete has no event$'):
        made.schema.parse(json.dumps(cdc("d", 7, wrapped)).encode())


def test_an_envelope_of_kafka_connect_is_its_payload():
    made = proposal([{"schema": {}, "payload": {"id": n, "time": 1714525200000 + n}} for n in range(9)])
    assert [each.record_path for each in made.schema.fields] == [("payload", "id"), ("payload", "time")]


def test_the_cells_of_csv_are_what_nearly_all_of_them_say():
    cells = {
        "id": [str(number) for number in range(40)],
        "zip": ["04524", *["10115"] * 39],
        "amount": ["1.50", "NaN", *["7"] * 38],
        "gift": ["True", *["FALSE"] * 39],
        "epoch_time": [str(1714525200 + number) for number in range(40)],
        "flight": [*["77"] * 30, *["A12"] * 10],
        "place": ["x"] * 40,
    }
    lines = [json.dumps(dict(zip(cells, row))).encode() for row in zip(*cells.values())]
    made = infer(lines, "orders", texts=True)
    assert {each.name: each.type for each in made.schema.fields} == {
        "id": "long",
        "epoch_time": "time",
        "zip": "string",
        "amount": "decimal(18,2)",
        "gift": "boolean",
        "flight": "string",
        "place": "string",
    }
    assert made.schema.field("epoch_time").unit == "s"


def readings(count: int, **more) -> list[dict]:
    """Of four devices that number their readings."""
    return [
        {"at": 1714525200000 + n, "value": n % 7, "device": f"d{n % 4}", "seq": n // 4} | more
        for n in range(count)
    ]


def test_where_no_field_is_unique_a_pair_that_is_is_the_id():
    made = proposal(readings(400))
    assert made.schema.id_fields == ("device", "seq")
    assert (
        "doubt: no single field is unique; device and seq together are, in all 400 records "
        "(tried: pairs, then triples, of 3 fields)" in made.toml()
    )
    assert schema_from_toml(made.toml()) == made.schema


def test_or_a_triple_and_the_pair_that_sounds_like_an_id_before_others():
    records = [
        {"at": 1714525200000 + n, "site": f"s{n % 2}", "device": n // 2 % 4, "seq": n // 8}
        for n in range(400)
    ]
    assert proposal(records).schema.id_fields == ("site", "device", "seq")
    both = [{"color": n % 50, "weight": n // 50, "user_id": n % 40, "line": n // 40} for n in range(400)]
    both = [{"at": 1714525200000 + n} | each for n, each in enumerate(both)]
    assert proposal(both).schema.id_fields == ("user_id", "line")


def test_records_that_came_twice_have_no_id_of_several_fields():
    made = proposal([*readings(400), *readings(3)])
    assert not made.id_fields and "no id" in made.toml()
    assert infer(ORDERS * 2, "orders").schema.id_fields == ("order_id",)


def test_at_most_twelve_fields_are_tried(monkeypatch):
    from lab.sources import idandtime

    tried = []
    monkeypatch.setattr(idandtime, "_all_different", lambda rows: tried.append(1) and False)
    proposal([each | {f"f{k}": n * k % 97 for k in range(1, 40)} for n, each in enumerate(readings(400))])
    assert len(tried) <= 66 + 220


def test_several_fields_can_be_named():
    lines = [json.dumps(each).encode() for each in readings(40)]
    assert infer(lines, "events", id=["seq", "device"]).schema.id_fields == ("seq", "device")


# -- what somebody wrote to break it -----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["1" * 5_000, "1" * 100 + "x", "-" + "9" * 99], ids=len)
def test_a_cell_of_more_digits_than_an_integer_can_have_is_text(text):
    lines = [
        json.dumps({"id": str(number), "at": "2024-05-01T10:00:00Z", "x": text}).encode()
        for number in range(3)
    ]
    made = infer(lines, "events", texts=True)
    assert "at" in made.schema.names and "id" in made.schema.names


@pytest.mark.parametrize("literal", ["1e4001356998400000", "-1e999999999999", "1" * 5_000], ids=len)
def test_a_number_that_nothing_can_hold_is_an_exception_and_never_written_in_full(literal):
    found, doubts = field([literal, "7", "8"])
    assert found.type == "long" and "too many digits in 1 records" in doubts
    assert all(len(example) <= 60 for example in found.examples)


def test_an_integer_of_many_digits_is_not_made_an_integer(monkeypatch):
    """That takes time with the square of their number."""
    bits = []
    monkeypatch.setattr(
        "lab.sources.inferredfields.fits_long",
        lambda value: bits.append(value.bit_length()) or fits_long(value),
    )
    assert field(["1" * 10_000, "7", "8"])[0].type == "long"
    assert 0 < max(bits) < 200


def test_lists_among_texts_do_not_end_the_search_for_an_id_of_several_fields():
    records = [
        {"a": f"x{n // 2}" if n != 7 else [1], "b": f"k{n % 2}", "time": "2024-05-01T10:00:00Z"}
        for n in range(20)
    ]
    assert proposal(records).id_fields == ("a", "b")


def test_half_a_character_is_no_value_of_a_field():
    found, doubts = field(['"\\ud800"', '"b"', '"c"'])
    assert found.type == "string" and found.examples == ("b",) and "another type in 1 records" in doubts
    made = proposal(
        [b'{"id": 1, "time": 1714525200000, "x": "\\ud800", "total": 1.5, "currency": "\\ud800"}']
    )
    assert schema_from_toml(made.toml()) == made.schema and made.schema.names == ("id", "time", "total")


def test_a_long_name_is_cut_and_stays_one_of_its_own():
    records = [
        {"id": n, "time": 1714525200000, "y" * 150: 1, "y" * 160: 2, "y" * 90 + "_2": 3} for n in range(3)
    ]
    made = proposal(records)
    assert schema_from_toml(made.toml()) == made.schema and len(set(made.schema.names)) == 5
    assert {each.path for each in made.schema.fields} >= {("y" * 150,), ("y" * 160,)}


def test_the_id_is_not_the_event_time_too():
    lines = [json.dumps({"x": str(1714525200 + n)}).encode() for n in range(3)]
    made = infer(lines, "events", texts=True)
    assert (made.id_fields, made.time_field) == (("x",), "") and "no event time" in " ".join(made.missing)


def test_a_short_name_has_ten_parts_at_most_then_numbers_tell_names_apart():
    inside: dict = {"amount": 1}
    for _ in range(12):
        inside = {"a": inside}
    names = {
        field.record_path[0]: field.name
        for field in infer([json.dumps({"x": inside, "y": inside}).encode()] * 3, "deep").fields
    }
    assert names == {"x": "a_a_a_a_a_a_a_a_a_amount", "y": "a_a_a_a_a_a_a_a_a_amount_2"}
