"""Events made from a schema: readable by it, in every unit, alike for a seed, and with groups worth a rule."""

from collections import Counter

import pytest

from lab.model.field import Field
from lab.model.schema import FLIGHTS, PAYMENTS, Schema
from lab.model.times import NUMBERS, TEXTS
from lab.stream.own import OwnSchemaScripts
from lab.stream.player import Player

AT = 1_714_525_200_123


def schema(*fields: Field, unit: str = "ms", id_type: str = "long") -> Schema:
    at = Field("at", "time", unit=unit, zone="Asia/Seoul" if unit == "local" else "")
    return Schema("own", (Field("id", id_type), at, *fields), ("id",), "at")


def made(of: Schema, count: int = 500, seed: int = 1) -> list[dict]:
    make = OwnSchemaScripts(of, seed)
    steps = [make.ordinary_script(0)[1][0][1] for _ in range(count)]
    return [
        of.parse(make.to_line({of.id_fields[0]: n, of.time_field: AT} | event).encode())
        for n, event in enumerate(steps, 1)
    ]


@pytest.mark.parametrize("unit", [*NUMBERS, *TEXTS])
def test_times_and_ids_are_read_as_they_were_meant(unit):
    events = made(schema(unit=unit, id_type="string"), 3)
    assert [event["at"] for event in events] == [AT] * 3
    assert [event["id"] for event in events] == ["id-1", "id-2", "id-3"]


def test_texts_and_numbers_repeat_and_keep_the_shape_of_their_examples():
    fields = [
        Field("city", "string", examples=("Seoul", "Busan")),
        Field("zip", "string", examples=("04524",), path=("address", "zip")),
        Field("currency", "string", examples=("EUR",)),
        Field("shop", "string"),
        Field("customer", "long", examples=("83913",)),
        Field("gift", "boolean"),
        Field("amount", "decimal(6,2)", examples=("853.34",)),
        Field("odd", "decimal(3,2)", examples=("nonsense",)),
    ]
    events = made(schema(*fields))
    values = {field.name: Counter(event[field.name] for event in events) for field in fields}
    assert set(values["city"]) == {"Seoul", "Busan"} and set(values["currency"]) == {"EUR"}
    assert set(values["gift"]) == {"true", "false"}
    assert all(len(zip) == 5 and zip.isdecimal() for zip in values["zip"])
    for name in ("zip", "shop", "customer"):
        assert 20 < len(values[name]) <= 100 and values[name].most_common()[0][1] > 20
    assert 300 < sorted(values["amount"].elements())[250] < 2_000 and len(values["amount"]) > 300
    assert events == made(schema(*fields)) != made(schema(*fields), seed=2)


def test_a_burst_is_one_busy_group():
    make = OwnSchemaScripts(FLIGHTS, 1)
    _, steps, label = make.planted_script(1, 0, "surge")
    assert len(steps) == 60 and label.kind == "surge"
    assert len({event["tailnum"] for _, event in steps}) == 1
    assert len({event["airTime"] for _, event in steps}) > 30


class Sink(list):
    def append(self, lines):
        self.extend(lines)


def played(of: Schema | str, **settings) -> Player:
    now = iter(range(1_000_000))
    return Player(of, Sink(), rate=100, clock=lambda: next(now) / 1000, wall=lambda: AT, **settings)


def test_a_player_plays_any_schema_and_the_kits_own_as_before():
    assert played(FLIGHTS).kinds == ("surge",)
    assert played(PAYMENTS).kinds == played("payments").kinds == ("pair", "beneficiary", "surge")
    other = Schema("payments", PAYMENTS.fields[:4], ("transactionId",), "eventTime")
    assert played(other).kinds == ("surge",)


def test_recorded_lines_are_played_as_they_are_and_then_it_ends():
    player = played(FLIGHTS, lines=[b"one", "two", b"{"])
    player.run()
    assert player._sink == [b"one", "two", b"{"] and player.error is None and player.sent == 3
