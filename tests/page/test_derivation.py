"""The page derives a batch of columns: the values that the model derives of each event, and which events have none."""

import base64
import json
import struct
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from lab.model.derived import derive, stored_form
from lab.model.jsontext import BadRecord
from lab.model.schema import LOGINS, Schema
from lab.page.derivation import QUARTER_MS, Deriver
from lab.page.front import schema_for_page, with_derived
from lab.page.reader import NO_RETURNS
from tests.strategies import DERIVED, LEGS

ZONES = ("UTC", "Europe/Berlin", "Africa/Monrovia", "-01:45")


class Bytes(bytes):
    """Stands for JavaScript's bytes."""

    def to_bytes(self, *_: Any) -> bytes:  # type: ignore[override]
        return bytes(self)


def derived(schema: Schema, events: list[dict[str, Any]]) -> tuple[list[list], list[int]]:
    """The columns that the page derives, and the rows without."""
    deriver = Deriver(schema)
    found = json.loads(deriver.derived(*packed(schema, deriver.needed, events)))
    return [unpacked(each) for each in found["columns"]], found["failed"]


def packed(schema: Schema, names: Iterable[str], events: list[dict[str, Any]]) -> tuple[list, str]:
    """Fields of events as JavaScript packs them: `lab.page.derivation.columns_of`."""
    columns, texts = [], []
    for name in names:
        values = [stored_form(event[name]) for event in events]
        is_text = not schema.field(name).is_number_or_time
        known = {text: n for n, text in enumerate({each for each in values if each is not None})}
        numbers = [0 if each is None else known[each] if is_text else each for each in values]
        valid = bytes(each is not None for each in values)
        columns.append([Bytes(struct.pack(f"<{len(numbers)}q", *numbers)), Bytes(valid)])
        texts.append({str(n): text for text, n in known.items()} if is_text else None)
    return columns, json.dumps(texts)


def unpacked(column: dict[str, Any]) -> list:
    raw, valid = (base64.b64decode(column[name]) for name in ("numbers", "valid"))
    numbers, texts = struct.unpack(f"<{len(valid)}q", raw), column.get("texts")
    return [(texts[n] if texts else n) if there else None for n, there in zip(numbers, valid, strict=True)]


def random_event(rng: Random, number: int) -> dict[str, Any]:
    amount = rng.choice(["1.50", "-3.25", "9999999999999999.99", None])
    event = {"eventId": number, "eventTime": rng.randrange(2**41), "amount": amount}
    event |= {"userId": rng.choice([1, 2, None, (1 << 63) - 1]), "country": rng.choice(["KR", "é", "", None])}
    return LOGINS.parse(json.dumps(event | {"ip": rng.choice(["a;b", "b", None])}).encode())


@pytest.mark.parametrize("legs", [(), LEGS], ids=["", "legs"])
def test_a_batch_has_the_values_that_the_model_derives_of_each_event(legs):
    schema = replace(LOGINS, derived=DERIVED, legs=legs)
    rng = Random(len(legs))
    events = [random_event(rng, number) for number in range(1, 400)]
    columns, failed = derived(schema, events)
    sides = [leg.derivations for leg in schema.legs_of_record] or [()]
    for row, event in enumerate(events):
        expected = dict(event)
        try:
            derive(expected, schema.derivations)
            of_legs = [dict(expected) for _ in sides]
            for own, side in zip(of_legs, sides, strict=True):
                derive(own, side)
        except BadRecord:
            assert row in failed
            continue
        assert row not in failed
        values = [stored_form(expected[each.field.name]) for each in schema.derivations]
        values += [stored_form(own[each.field.name]) for own, side in zip(of_legs, sides) for each in side]
        assert [column[row] for column in columns] == values
    assert 0 < len(failed) < len(events) / 2


def test_clocks_show_the_same_in_each_part_of_a_quarter_of_an_hour():
    """Also where local time differs from UTC by minutes, or is turned: Berlin's last Sundays, Liberia by 44:30 until 1972."""
    ends = [1_711_846_800_000, 1_729_990_800_000, 60_000_000_000, 63_593_070_000]
    times = [
        end + step * QUARTER_MS + more
        for end in ends
        for step in range(-5, 5)
        for more in (0, 1, 30_000, QUARTER_MS - 1)
    ]
    parts = [
        (f"x{n}", f'{part}(eventTime, "{zone}")')
        for n, (part, zone) in enumerate(
            (part, zone) for part in ("date", "hour", "weekday") for zone in ZONES
        )
    ]
    schema = replace(LOGINS, derived=tuple(parts))
    columns, failed = derived(schema, [{"eventTime": time} for time in times])
    for row, time in enumerate(times):
        event = {"eventTime": time}
        derive(event, schema.derivations)
        assert [column[row] for column in columns] == [event[name] for name, _ in parts]
    assert not failed


def test_lines_of_derived_fields_are_read_and_refused_with_what_is_right():
    given = json.dumps(LOGINS.to_dict())
    assert [
        each["name"]
        for each in json.loads(with_derived(given, "a = amount * 2\n\n b=a + 1"))["schema"]["more"]
    ] == ["a", "b"]
    refused = {
        "amount * 2": "line 1: expected a name, = and what it is, such as day = date(time)",
        "a = amount * 2\n= 3": "line 2: expected a name, = and what it is, such as day = date(time)",
        "a = amout * 2": 'derived.a: unknown field "amout", did you mean amount?',
        "amount = userId * 2": "derived.amount: there is a field of this name already",
    }
    for text, reason in refused.items():
        assert json.loads(with_derived(given, text))["error"].startswith(reason)
    returns = json.dumps(LOGINS.to_dict() | {"taken_back": "action = void"})
    assert json.loads(schema_for_page(returns)) == {"error": NO_RETURNS}


def test_nothing_is_derived_from_the_number_that_the_page_gives_a_record():
    fields = [{"name": "at", "type": "long"}, {"name": "line", "type": "long", "virtual": True}]
    given = json.dumps({"name": "x", "fields": fields, "id_fields": ["line"], "time_field": "at"})
    assert 'unknown field "line"' in json.loads(with_derived(given, "next = line + 1"))["error"]
