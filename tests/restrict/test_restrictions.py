"""Alerts of rules with an action restrict their group for a time; a message again or out of order changes nothing."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cli.main import OK, USAGE, main
from lab.engine.ends import FileLogs
from lab.model.alerts import group_key
from lab.model.schema import LOGINS
from lab.restrict.decide import Decider, group_of
from lab.restrict.restrictions import (
    MAX_BYTES,
    BadRestriction,
    Restriction,
    Restrictions,
    folded,
    read_message,
)
from tests.rulestore.engine import Engine

ALICE = (("userId", "7"),)
GUESSING: dict[str, Any] = {
    "ruleId": 1,
    "ruleState": "ACTIVE",
    "groupingKeyNames": ["userId"],
    "filter": {"action": "login_failed"},
    "aggregatorFunctionType": "COUNT",
    "limitOperatorType": ">=",
    "limit": 3,
    "window": "10m",
    "action": "block_login",
    "ttl": "30m",
}
LOGIN: dict[str, Any] = {"action": "login", "userId": 7}


def restrict(start: int, until: int, subject=ALICE, action="block_login") -> Restriction:
    return Restriction(action, subject, start, until, rule_id=1, rule_version=1)


def lift(at: int) -> Restriction:
    return Restriction("block_login", ALICE, lifted=at, by="ann")


def after(*messages: Restriction) -> Restrictions:
    restrictions = Restrictions()
    for message in messages:
        restrictions.apply(read_message(message.to_json()))
    return restrictions


def forbidden(restrictions: Restrictions, now: int, **event) -> bool:
    return any(restrictions.against(LOGIN | event, now))


def test_a_restriction_ends_at_its_time_or_when_it_is_lifted():
    one = after(restrict(10, 100))
    assert [forbidden(one, now) for now in (10, 99, 100)] == [True, True, False]
    assert not forbidden(after(restrict(10, 100), lift(50)), 60)
    assert forbidden(after(restrict(10, 100), lift(50), restrict(60, 100)), 60), "a new alert restricts again"


def test_of_two_the_longer_one_counts():
    assert forbidden(after(restrict(10, 100), restrict(20, 50)), 99)


@given(st.permutations([restrict(10, 100), restrict(20, 130), restrict(30, 60), restrict(10, 100), lift(5)]))
def test_the_order_of_messages_and_repetitions_change_nothing(messages):
    found = after(*messages).get("block_login", ALICE)
    assert (found.start, found.until, found.lifted) == (30, 130, 5)


def test_an_old_alert_given_again_does_not_undo_a_lift():
    assert not forbidden(after(restrict(10, 100), lift(50), restrict(10, 100)), 60)


def test_what_is_forbidden_depends_on_the_action_and_on_whose_event_it_is():
    restrictions = after(
        restrict(0, 9),
        restrict(0, 9, (("ip", "203.0.113.5"),), "hold_payment"),
        restrict(0, 9, (("country", "KR"), ("device", "mac"))),
        restrict(0, 9, (), "notify"),
    )
    assert forbidden(restrictions, 1, action="login_failed")
    assert not forbidden(restrictions, 1, action="payment") and not forbidden(restrictions, 1, userId=8)
    assert forbidden(restrictions, 1, action="payment", ip="203.0.113.5")
    assert forbidden(restrictions, 1, userId=8, country="KR", device="mac")
    assert not forbidden(restrictions, 1, userId=None, country="KR")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "nonsense",
        '{"action": "jail", "subject": {}, "from": 1, "until": 2}',
        '{"action": "notify", "subject": {"userId": 7}, "from": 1, "until": 2}',
        '{"action": "notify", "subject": ["userId"], "from": 1, "until": 2}',
        '{"action": "notify", "subject": {}, "from": "soon", "until": 2}',
        '{"action": "notify", "subject": {}}',
        " " * (MAX_BYTES + 1),
    ],
)
def test_a_message_that_is_none_is_refused(text):
    with pytest.raises(BadRestriction):
        read_message(text)


def test_a_group_whose_text_may_be_read_in_two_ways_is_nobody():
    assert group_of("{userId=7;device=a b=c}", ("userId", "device")) == {"userId": "7", "device": "a b=c"}
    assert group_of("{device=x;userId=8;userId=7}", ("device", "userId")) is None
    assert group_of("{device=x}", ("userId",)) is None
    assert group_of("{}", ()) == {}
    assert group_of("{device=" + "x" * 1_991 + "}", ("device",)) == {"device": "x" * 1_991}
    assert group_of(group_key(("device",), ("x" * 1_992,)), ("device",)) is None


# -- from alerts -------------------------------------------------------------------------------------------------------


@pytest.fixture
def logs(tmp_path) -> FileLogs:
    logs = FileLogs(tmp_path)
    logs.create()
    return logs


def attempts(logs, count: int, user: int = 7, first_id: int = 1, **fields) -> None:
    now = time.time_ns() // 1_000_000
    event = {
        "eventTime": now,
        "userId": user,
        "action": "login_failed",
        "ip": "a",
        "device": "b",
        "country": "KR",
    }
    numbered = ({"eventId": first_id + number} | event | fields for number in range(count))
    logs.log("events").append([json.dumps(each) for each in numbered])


def decided(logs) -> int:
    with Decider(logs, LOGINS) as decider:
        return decider.step()


def test_an_alert_of_a_rule_with_an_action_restricts_its_group_for_its_time(logs):
    engine = Engine(logs, LOGINS)
    without = {name: value for name, value in GUESSING.items() if name not in ("action", "ttl")}
    logs.log("control").append([json.dumps(GUESSING), json.dumps(without | {"ruleId": 2})])
    attempts(logs, 5)
    attempts(logs, 2, user=8, first_id=10)
    engine.step()
    assert decided(logs) == 1
    (found,) = folded(logs.log("restrictions")).all()
    (log_time,) = {alert.log_time for alert in map(alert_of, logs.log("alerts").read())}
    assert (found.action, found.subject, found.rule_id, found.rule_version) == ("block_login", ALICE, 1, 1)
    assert (found.start, found.until) == (log_time, log_time + 1_800_000)
    assert decided(logs) == 0, "a second one says nothing that was said"


def alert_of(line: str):
    from lab.model.alerts import Alert

    return Alert.from_json(line)


def test_the_version_that_fired_decides_what_follows(logs):
    engine = Engine(logs, LOGINS)
    with Decider(logs, LOGINS) as decider:
        logs.log("control").append([json.dumps(GUESSING | {"action": "notify"})])
        attempts(logs, 3)
        engine.step()
        logs.log("control").append([json.dumps(GUESSING | {"ttl": "1h"})])
        logs.log("control").append(
            ['{"ruleId": 1, "ruleState": "PAUSE"}', '{"ruleId": 1, "ruleState": "ACTIVE"}']
        )
        engine.step()
        attempts(logs, 1, user=7, first_id=9)
        engine.step()
        assert decider.step() == 2
    found = {each.action: each for each in folded(logs.log("restrictions")).all()}
    assert found["notify"].rule_version == 1 and found["block_login"].rule_version == 4
    assert found["block_login"].until - found["block_login"].start == 3_600_000


def test_an_alert_waits_for_the_answer_that_names_its_version(logs, tmp_path):
    engine = Engine(FileLogs(tmp_path, {"acks": tmp_path / "aside"}), LOGINS)
    logs.log("control").append([json.dumps(GUESSING)])
    attempts(logs, 3)
    engine.step()
    with Decider(logs, LOGINS) as decider:
        assert decider.step() == 0
        logs.log("acks").append(FileLogs(tmp_path).log("aside").read())
        assert decider.step() == 1


def test_a_group_that_an_attacker_disguised_restricts_nobody_else(logs):
    engine = Engine(logs, LOGINS)
    logs.log("control").append([json.dumps(GUESSING | {"groupingKeyNames": ["device", "userId"]})])
    attempts(logs, 3, device="x;userId=8")
    engine.step()
    with Decider(logs, LOGINS) as decider:
        assert decider.step() == 0 and decider.skipped == 1


def test_restrictions_are_listed_and_lifted_on_the_command_line(logs, tmp_path, capsys):
    where = ["--logs", str(tmp_path)]
    assert main(["restrict", "list", *where]) == OK
    assert "nobody is restricted" in capsys.readouterr().out
    now = time.time_ns() // 1_000_000
    logs.log("restrictions").append(["nonsense", restrict(now, now + 60_000).to_json()])
    assert main(["restrict", "list", *where]) == OK
    assert "rule 1 v1  userId=7" in capsys.readouterr().out
    assert main(["restrict", "lift", "userId=8", *where]) == USAGE
    assert main(["restrict", "lift", "userId=7", "--action", "hold_payment", *where]) == USAGE
    assert main(["restrict", "lift", "userId=7", *where]) == OK
    assert "lifted: block_login" in capsys.readouterr().out
    assert not forbidden(folded(logs.log("restrictions")), now + 1)
    assert main(["restrict", "lift", "userId=7", *where]) == USAGE
