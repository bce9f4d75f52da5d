"""A rule in state SHADOW: judged like an active one, its alerts in a log of their own, and promoted by one message."""

import json
import re

import pytest

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.inprocess import InProcessEngine
from lab.model.reference import Reference, evaluate_log
from lab.model.rules import RuleBook
from lab.model.schema import LOGINS
from tests.engine.drawn import agreed
from tests.engine.randomlogs import Entry
from tests.engine.test_inprocess import Dated, login
from tests.strategies import RETURNS

RULE = {
    "ruleId": 1,
    "groupingKeyNames": ["userId"],
    "aggregateFieldName": "COUNT",
    "limitOperatorType": ">",
    "limit": 1,
    "window": "10m",
}


def rule(state: str, **more: object) -> Entry:
    return "control", json.dumps(RULE | {"ruleState": state} | more).encode()


def state(name: str) -> Entry:
    return "control", json.dumps({"ruleId": 1, "ruleState": name}).encode()


def test_the_alerts_of_a_rule_in_shadow_are_byte_for_byte_those_of_the_same_rule_active():
    events = [login(n, 7 * n, n % 3) for n in range(60)]
    written = {}
    for name in ("ACTIVE", "SHADOW"):
        log = [rule(name, atMost={"alerts": 2, "per": "2m"}, severity="high"), *events]
        with InProcessEngine(Settings(LOGINS, parallelism=1)) as engine:
            engine.run_batch(log)
            written[name] = {
                to: [re.sub(r'"alertTime":[0-9]+', "", line) for line in engine.out[to]]
                for to in ("alerts", "shadow")
            }
    assert written["ACTIVE"]["alerts"] == written["SHADOW"]["shadow"] != []
    assert written["ACTIVE"]["shadow"] == written["SHADOW"]["alerts"] == []


@pytest.mark.parametrize("promotion", [state("ACTIVE"), rule("ACTIVE")], ids=["state", "whole"])
def test_a_promotion_keeps_the_version_the_window_the_counts_and_the_alert_ids(promotion):
    most = {"atMost": {"alerts": 2, "per": "1h"}} if promotion == state("ACTIVE") else {}
    log = [
        rule("SHADOW", **most),
        *(login(n, n) for n in range(3)),
        promotion,
        *(login(n, n) for n in range(3, 6)),
    ]
    reference = agreed(log)
    assert reference.acks[-1] == {"status": "accepted", "ruleId": 1, "version": 1, "ruleState": "ACTIVE"}
    assert [each.event_id for each in reference.shadow_alerts] == [1, 2]
    assert [each.event_id for each in reference.alerts] == ([] if most else [3, 4, 5])
    active = evaluate_log(LOGINS, [rule("ACTIVE", **most), *(each for each in log[1:] if each != promotion)])
    assert [*reference.shadow_alerts, *reference.alerts] == [*active.alerts]


def test_what_is_awaited_in_the_shadow_is_still_awaited_after_the_promotion_also_when_memory_is_lost():
    absent = json.dumps(
        {"ruleId": 1, "groupingKeyNames": ["userId"], "absence": True, "window": "10m", "ruleState": "SHADOW"}
    ).encode()
    for promoted in (False, True):
        with InProcessEngine(Settings(LOGINS, parallelism=1)) as engine:
            both = Dated(engine, Reference(LOGINS))
            for entry in (("control", absent), login(1, 0)):
                both.take(*entry, 1)
            both.cut(1)
            if promoted:
                both.take(*state("ACTIVE"), 1)
                both.cut(1)
            engine.lose_memory()
            both.assert_same_at_end()
            assert (len(engine.out["alerts"]), len(engine.out["shadow"])) == ((1, 0) if promoted else (0, 1))


def test_a_changed_rule_or_one_that_goes_into_the_shadow_has_a_new_version():
    book = RuleBook(LOGINS)
    versions = [
        book.apply(text)["version"]
        for _, text in (
            rule("SHADOW"),
            rule("ACTIVE", limit=2),
            state("SHADOW"),
            state("PAUSE"),
            state("ACTIVE"),
        )
    ]
    assert versions == [1, 2, 3, 4, 5]
    assert RuleBook.from_json(book.to_json(), LOGINS) == book


def test_where_events_can_be_taken_back_shadow_is_refused_with_the_reason():
    ack = RuleBook(RETURNS).apply(rule("SHADOW")[1])
    assert ack["status"] == "rejected" and "the shadow log withdraws no alerts" in ack["reason"]
