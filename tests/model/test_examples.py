"""Examples beside boxes: rules of the schema that the box is for, whatever its fields are."""

import pytest

from lab.model.examples import example_further_conditions, example_limits, example_sentence, example_when
from lab.model.field import Field
from lab.model.rules import parse_message
from lab.model.schema import LOGINS, PAYMENTS, Schema
from lab.model.sentence import parse_further_conditions, parse_limit
from lab.model.whenreader import parse_when

ID, AT = Field("id", "string"), Field("at", "time", unit="s")
ODD = (
    (),
    (Field("n", "long"),),
    (Field("gift", "boolean"),),
    (Field("a-b", "string", examples=("x y", '"')), Field("price", "decimal(18,2)")),
    (Field("code", "string", examples=("007", "8")), Field("host", "string"), Field("size", "long")),
)
SCHEMAS = [PAYMENTS, LOGINS, *(Schema("odd", (ID, AT, *more), ("id",), "at") for more in ODD)]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: "-".join(schema.names))
def test_every_example_is_read_by_the_reader_of_its_box(schema):
    assert parse_message(f"7: {example_sentence(schema)}", schema).rule
    for more in example_further_conditions(schema):
        assert parse_further_conditions(more, schema)
    for limit in example_limits(schema):
        assert parse_limit(limit, schema)["limitOf"]
    for part in example_when(schema).replace(") ", ")").split(", "):
        if "(" not in part and ")" not in part:  # a list has commas of its own
            assert parse_when(part, schema), part
