"""A record that is several events: its legs, their fields and ids, and what is refused with which words."""

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.inprocess import InProcessEngine
from lab.model.alerts import Alert
from lab.model.field import Field
from lab.model.jsontext import BadRecord
from lab.model.schema import Schema
from lab.model.schemafile import schema_from_toml, schema_to_toml
from tests.engine.drawn import agreed

TOML = """
name = "transfers"
id = "id"
time = "at"
[fields.id]
type = "long"
[fields.at]
type = "long"
[fields.payer]
type = "string"
[fields.payee]
type = "string"
[fields.amount]
type = "decimal(12,2)"
[legs.out]
account = "payer"
other = "payee"
[legs.in]
account = "payee"
other = "payer"
"""
TRANSFERS = schema_from_toml(TOML)
PASSED_ON = (
    '7: SUM(amount where leg = "out") per account over 1 d >= 0.9 × SUM(amount where leg = "in") over 1 d '
    'and SUM(amount where leg = "in") over 1 d >= 5000, when leg = out'
)


def transfer(number: int, payer: str | None, payee: str | None, amount: float = 10, **more: Any) -> bytes:
    record = {"id": number, "at": 1_000 * number, "payer": payer, "payee": payee, "amount": amount} | more
    return json.dumps(record).encode()


def alerts_of(lines: list[bytes], rule: str, schema: Schema = TRANSFERS) -> list[Alert]:
    """What the reference and the engine both say."""
    return agreed([("control", rule.encode()), *(("event", line) for line in lines)], schema).alerts


def test_a_record_is_an_event_for_each_leg_with_its_fields_and_an_id_of_its_own():
    first, second = TRANSFERS.events(transfer(3, "ann", "bob"))
    assert (first["leg"], first["account"], first["other"]) == ("out", "ann", "bob")
    assert (second["leg"], second["account"], second["other"]) == ("in", "bob", "ann")
    assert [TRANSFERS.id_of(each) for each in (first, second)] == [(3, "out"), (3, "in")]
    assert first["amount"] == second["amount"] and TRANSFERS.names[-3:] == ("leg", "account", "other")


def test_an_account_that_passes_on_what_it_receives_is_found_in_both_roles():
    lines = [
        transfer(1, "ann", "bob", 5_000),
        transfer(2, "bob", "cyd", 4_499.99),
        transfer(3, "bob", "dan", 0.01),
    ]
    [alert] = alerts_of(lines, PASSED_ON)
    assert (alert.key, alert.event_id, alert.aggregate) == ("{account=bob}", (3, "out"), Decimal(4500))
    assert alerts_of([transfer(1, "ann", "bob", 4_999.99), transfer(2, "bob", "cyd", 4_999)], PASSED_ON) == []


def test_who_pays_itself_counts_in_both_roles_and_a_repeated_record_in_none():
    count = "1: COUNT(events) per account over 1 h >= 2"
    assert [alert.event_id for alert in alerts_of([transfer(1, "ann", "ann")], count)] == [(1, "in")]
    assert alerts_of([transfer(1, "ann", "bob")] * 3, count) == []


def test_a_leg_whose_account_is_null_is_in_no_group():
    assert alerts_of(
        [transfer(1, None, "bob"), transfer(2, None, "bob")], "1: COUNT(events) per account over 1 h >= 2"
    )
    assert not alerts_of(
        [transfer(1, None, "bob"), transfer(2, None, "cyd")], "1: COUNT(events) per account over 1 h >= 2"
    )


def test_a_record_that_is_taken_back_takes_back_all_its_legs():
    schema = replace(TRANSFERS, taken_back="amount = 0")
    lines = [transfer(1, "ann", "bob"), transfer(1, "ann", "bob", 0), transfer(2, "ann", "bob")]
    assert alerts_of(lines, "1: COUNT(events) per account over 1 h >= 2", schema) == []
    assert len(alerts_of(lines[::2], "1: COUNT(events) per account over 1 h >= 2", schema)) == 2


def test_a_leg_that_cannot_be_computed_makes_its_record_a_dead_letter_whole():
    legs = (("a", (("left", "amount * 10000000000000000"),)), ("b", (("left", "amount"),)))
    schema = replace(TRANSFERS, legs=legs, fields=(*TRANSFERS.fields[:4], Field("amount", "long")))
    with pytest.raises(
        BadRecord, match="left: .*, expected an integer of signed 64 bit as the value of amount"
    ):
        schema.events(transfer(1, "ann", "bob", 1_000))
    lines = [transfer(1, "ann", "bob", 1_000), transfer(2, "ann", "bob", 1), transfer(3, "x", "y", 2_000)]
    with InProcessEngine(Settings(schema)) as engine:
        engine.run_batch([("event", line) for line in lines])
        assert len(engine.out["deadLetters"]) == 2


def test_a_schema_with_legs_reads_back_and_is_another_one():
    assert schema_from_toml(schema_to_toml(TRANSFERS)) == TRANSFERS
    assert Schema.from_dict(json.loads(json.dumps(TRANSFERS.to_dict()))) == TRANSFERS
    without = replace(TRANSFERS, legs=())
    assert TRANSFERS.incompatibility_with(without) == "the id is id, leg, before it was id"
    swapped = replace(TRANSFERS, legs=(TRANSFERS.legs[0], ("in", (("account", "payee"), ("other", "payee")))))
    assert swapped.incompatibility_with(TRANSFERS) == (
        "other is payee in out, payee in in, before it was payee in out, payer in in"
    )


@pytest.mark.parametrize(
    "legs, error",
    [
        ((("out", (("account", "payer"),)),), "legs: 1, expected 2 to 8 legs"),
        ((("a", ()), ("b", ())), "legs.a: no field, expected one or more, such as account"),
        ((("a b", (("x", "payer"),)), ("b", (("x", "payee"),))), "legs.a b: expected letters, digits and _ as the name"),
        ((("a", (("x", "payer"),)), ("b", (("y", "payee"),))), 'legs.b: "y", expected the fields x, as legs.a'),
        ((("a", (("x", "payer"),)), ("b", (("x", "at"),))), "legs.b.x: a long, in legs.a it is a string: expected one type"),
        ((("a", (("x", "payr"),)), ("b", (("x", "payee"),))), "legs.a.x: unknown field"),
        ((("a", (("payer", "payee"),)), ("b", (("payer", "payee"),))), "legs.a.payer: there is a field of this name"),
    ],
)  # fmt: skip
def test_legs_that_make_no_sense_are_refused_with_what_would_be_right(legs, error):
    with pytest.raises(ValueError) as raised:
        replace(TRANSFERS, legs=legs)
    assert error in str(raised.value)


def test_a_field_of_the_name_leg_is_refused_and_a_table_that_is_none():
    with pytest.raises(ValueError, match="there is a field leg already"):
        schema_from_toml(TOML.replace("[fields.payee]", '[fields.leg]\ntype = "string"\n[fields.payee]'))
    for wrong in (
        'legs = "x"\n' + TOML.split("[legs.out]")[0],
        TOML.split("[legs.out]")[0] + "[legs]\nout = 3\n",
    ):
        with pytest.raises(ValueError, match=r"legs: .*, expected a table \[legs.NAME\] for each leg"):
            schema_from_toml(wrong)
