"""The window behind an alert, found among events that are handed over as JavaScript does: packed columns."""

import json
from array import array
from typing import Any

import pytest

from lab.model.alerts import Alert
from lab.model.reference import Reference
from lab.model.schema import LOGINS, Schema
from lab.page.front import Book
from lab.page.reader import described
from tests.page.test_derivation import Bytes, packed

T = 1_700_000_000_000


def window(schema: Schema, steps: list[tuple[str, str]], alert: Alert) -> list[Any]:
    """The ids of the events that the page shows behind an alert at the last event; `steps`: of one key-group."""
    book, events, newest = Book(json.dumps(described(schema.to_dict()))), [], []
    for kind, text in steps:
        if kind == "control":
            assert '"accepted"' in book.carry_out(text, len(events), json.dumps(newest))
            continue
        events += schema.events(text.encode())
        newest = sorted((event[schema.time_field] for event in events), reverse=True)[:4]
    columns, texts = packed(schema, schema.names, events)
    numbers = Bytes(array("d", range(len(events))).tobytes())
    found = json.loads(book.window(alert.to_json(), numbers, columns, texts))
    return [int(row[0]) for row in found["rows"]]


def event(number: int, **fields: Any) -> tuple[str, str]:
    given = {"eventId": number, "eventTime": T + number * 1_000, "userId": 7, "action": "login"}
    return "event", json.dumps(given | {"ip": "x", "device": "x", "country": "KR"} | fields)


@pytest.mark.parametrize("added", [0, 3])
def test_events_that_a_list_did_not_have_when_they_came_are_in_no_window(added):
    """As the list was when each came; here the others are the first ones."""
    rule = "1: COUNT(events) where country in @risky per userId over 1 h >= 2"
    steps = [("control", rule), *(event(number, country="US" if number < 3 else "KR") for number in range(6))]
    steps.insert(1 + added, ("control", "add KR to @risky"))
    reference = Reference(LOGINS)
    for kind, text in steps:
        (reference.control if kind == "control" else reference.event)(text.encode())
    assert window(LOGINS, steps, reference.alerts[-1]) == [5, 4, 3]


def test_groups_are_told_apart_by_values_of_which_one_is_the_other_in_units_of_its_last_digit():
    """5.00 is 500 hundredths, and 0.05 is 5: the latest time that a key-group has reached needs its groups."""
    rule = "1: COUNT(events) per amount over 1 min >= 1"
    others = [event(number, amount=f"0.0{number}", eventTime=T + 900_000) for number in (5, 6, 7)]
    own = [
        event(8 + n, amount="5.00", eventTime=T - late_ms) for n, late_ms in enumerate((0, 400_000, 350_000))
    ]
    steps = [("control", rule), *others, *own]
    reference = Reference(LOGINS, key_groups=1)
    for kind, text in steps:
        (reference.control if kind == "control" else reference.event)(text.encode())
    assert reference.counts["droppedLate"] == 1
    assert window(LOGINS, steps, reference.alerts[-1]) == [10]
