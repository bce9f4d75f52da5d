"""A schema's file says what the schema says, and errors name what is wrong in it."""

import os
import tomllib
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import lab
from lab.model.field import Field
from lab.model.schema import SCHEMAS, Schema
from lab.model.schemafile import schema, schema_from_toml, schema_to_toml

FILE = """
name = "orders"
id = "orderId"
time = "placed"

[fields.orderId]
path = "order.id"
type = "string"
example = "A-1"

[fields.placed]
path = ["order", "placed.at"]
type = "time"
unit = "iso"

[fields.amount]
type = "decimal(18,2)"
unit = "EUR"
doc = "with VAT"
"""
ORDERS = Schema(
    "orders",
    (
        Field("orderId", "string", path=("order", "id")),
        Field("placed", "time", path=("order", "placed.at"), unit="iso"),
        Field("amount", "decimal(18,2)", "with VAT", unit="EUR"),
    ),
    id_fields=("orderId",),
    time_field="placed",
)


def test_a_file_is_a_schema_wherever_a_name_is(tmp_path):
    (tmp_path / "orders.toml").write_text(FILE)
    assert lab.schema(tmp_path / "orders.toml") == lab.schema(str(tmp_path / "orders.toml")) == ORDERS
    assert lab.schema("logins") is SCHEMAS["logins"]


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@example([], ["\U000e004e \\udb40\\udc4e"], "\U000e0001")  # characters that are not shown
@given(
    st.lists(st.tuples(st.from_regex(r"[\w.-]+", fullmatch=True), st.lists(texts, min_size=1)), max_size=4),
    st.lists(texts),
    texts,
)
def test_whatever_the_names_paths_and_notes_the_file_reads_as_the_schema(named, notes, text):
    fields = {
        name: Field(name, "long", text, () if path == [name] else tuple(path), text, tuple(notes))
        for name, path in named
    }
    try:
        made = Schema(text, (*ORDERS.fields, *fields.values()), ("orderId",), "placed")
    except ValueError:
        return  # two fields of one name or at one path
    every = dict.fromkeys(made.names, notes)
    read = schema_from_toml(schema_to_toml(made, notes, every))
    assert read == made and [field.examples for field in read.fields] == [
        field.examples for field in made.fields
    ]


def test_a_schema_is_read_from_a_pipe():
    read, write = os.pipe()
    os.write(write, schema_to_toml(SCHEMAS["payments"]).encode())
    os.close(write)
    assert schema(f"/dev/fd/{read}") == SCHEMAS["payments"]
    os.close(read)


def test_an_id_may_be_several_fields():
    made = schema_from_toml(
        FILE.replace('id = "orderId"', 'id = ["amount", "orderId"]').replace("decimal(18,2)", "long")
    )
    assert made.id_fields == ("amount", "orderId")
    assert (
        'id = ["amount", "orderId"]' in schema_to_toml(made)
        and schema_from_toml(schema_to_toml(made)) == made
    )


def test_the_schemas_that_ship_can_be_files():
    for each in SCHEMAS.values():
        assert schema_from_toml(schema_to_toml(each)) == each


def test_a_file_may_say_what_records_and_nan_are():
    other = replace(ORDERS, records="csv", nan="dead letter")
    assert (
        schema_from_toml(schema_to_toml(other)) == other
        and schema_from_toml(schema_to_toml(ORDERS)).records == "json"
    )


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('name = "orders"', "", "name: nothing, expected a text"),
        ('id = "orderId"', 'id = "orderID"', 'unknown orders field "orderID", did you mean orderId?'),
        ('id = "orderId"', 'id = "amount"', "type of amount: "),
        ('id = "orderId"', "id = []", "id: an empty list, expected the name of a field, or several"),
        ('id = "orderId"', 'id = ["orderId", 7]', "id: a list, expected the name of a field, or several"),
        ('id = "orderId"', 'id = ["orderId", "orderId"]', "expected 1 to 8 different fields"),
        ('name = "orders"', 'nme = "orders"', 'unknown name "nme", did you mean name?'),
        ('type = "string"', "", "fields.orderId.type: nothing, expected a text"),
        ('type = "string"', 'type = "text"', 'type of orderId: "text", expected long, string'),
        ('type = "string"', 'typ = "string"', 'fields.orderId: unknown name "typ", did you mean type?'),
        (
            'unit = "iso"',
            'unit = "seconds"',
            'unit of placed: "seconds", expected one of s, ms, us, ns, m, h, d, iso, utc, local',
        ),
        (
            'path = "order.id"',
            'path = "order..id"',
            'fields.orderId.path: "order..id", expected names such as',
        ),
        ('path = "order.id"', "path = 7", "fields.orderId.path: 7, expected names such as"),
        ("[fields.amount]", "[fields.amount", "at line 16"),
    ],
)
def test_an_error_names_the_file_and_what_is_wrong_in_it(old, new, text, tmp_path):
    path = tmp_path / "orders.toml"
    path.write_text(FILE.replace(old, new))
    with pytest.raises(ValueError) as error:
        schema(path)
    assert str(error.value).startswith(f"{path}: ") and text in str(error.value)


ROWS = """
name = "rows"
id = "id"
time = "at"
taken_back = "op = d"
fields.id = { type = "long", path = "payload.after.id" }
fields.op = { type = "string", path = "payload.op" }
fields.at = { type = "time", unit = "ms", path = "payload.after.at" }
"""


def test_events_of_rows_that_are_taken_back_have_the_time_of_the_row():
    assert schema_from_toml(ROWS).operation_field
    with pytest.raises(
        ValueError, match='time: "payload.ts_ms", expected a field of the row, in payload.after'
    ):
        schema_from_toml(ROWS.replace("payload.after.at", "payload.ts_ms"))
    with pytest.raises(ValueError, match='id: "payload.op", expected a field of the row'):
        schema_from_toml(ROWS.replace('id = "id"', 'id = ["id", "op"]'))


def test_the_zone_of_local_times_is_in_the_file():
    local = FILE.replace('unit = "iso"', 'unit = "local"\nzone = "Asia/Seoul"')
    made = schema_from_toml(local)
    assert made.field("placed").parse("2024-05-01 09:00") == 1714521600000
    assert schema_from_toml(schema_to_toml(made)) == made


def test_what_is_not_text_in_a_comment_does_not_spoil_the_file():
    fields = tuple(replace(field, examples=('"\x7f\\',)) for field in ORDERS.fields)
    text = schema_to_toml(replace(ORDERS, fields=fields), ["a\nb\x00"], {"amount": ["doubt: \x1b"]})
    assert tomllib.loads(text)["fields"]["amount"]["example"] == '"\x7f\\'
