"""Named lists in the engine: what a change of one leaves alone, and what a large one costs."""

import json

import pytest

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.inprocess import InProcessEngine
from lab.engine.windows.store import RouteStore
from lab.model.reference import evaluate_log
from lab.model.schema import LOGINS
from tests.engine.drawn import stores
from tests.engine.test_inprocess import assert_same

RULE = b"1: COUNT(events where ip in @bad) where country in @highrisk per userId over 1 h >= 2, when amount in @amounts"


def event(number: int) -> tuple[str, bytes]:
    fields = {
        "eventId": number,
        "eventTime": 1000 * number,
        "userId": 1,
        "country": "KR",
        "ip": "a",
        "amount": 1,
    }
    return "event", json.dumps(fields).encode()


def changes(*messages: str) -> list[tuple[str, bytes]]:
    return [("control", message.encode()) for message in messages]


def test_a_change_of_a_list_moves_no_event(monkeypatch):
    """The store of the rule's route stays as it is: its rules are not set again, and nothing is written anew."""
    log = [
        ("control", RULE),
        *changes("add KR to @highrisk", "add a to @bad", "add 1 to @amounts"),
        event(1),
        event(2),
    ]
    more = [
        *changes("remove a from @bad", "add US to @highrisk"),
        event(3),
        *changes("add a to @bad"),
        event(4),
    ]
    reference = evaluate_log(LOGINS, [*log, *more])
    assert [alert.event_id for alert in reference.alerts] == [2, 3, 4]
    with InProcessEngine(Settings(LOGINS)) as engine:
        engine.run_batch(log)
        (before,) = stores(engine)
        for name in ("change_rules", "compact", "_rebuild_arrays"):
            monkeypatch.setattr(RouteStore, name, lambda *_: pytest.fail("the store is changed"))
        engine.run_batch(more)
        assert stores(engine) == [before]
        assert_same(engine.out, reference)
