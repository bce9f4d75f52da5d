"""Alerts of rules with an action restrict their group for a time; a message again or out of order changes nothing."""

import json
import shlex
import tracemalloc
from dataclasses import replace
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cli.main import OK, USAGE, main
from lab.engine.loop.filelogs import FileLogs
from lab.logs.files import FileLog
from lab.model.alerts import Alert
from lab.model.field import Field
from lab.model.schema import LOGINS, MAX_TIME, PAYMENTS, Schema
from lab.model.times import DAY_MS, now_ms
from lab.restrict import decide
from lab.restrict.decide import DEAD_LETTERS, Decider, subject_of
from lab.restrict.restrictions import MAX_BYTES, BadRestriction, Restriction, parse_restriction
from lab.restrict.standing import BadQuestion, Restrictions, fold_restrictions
from tests.rulestore.engine import Engine

ALICE = (("userId", 7),)
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
        restrictions.apply(parse_restriction(message.to_json()))
    return restrictions


def forbidden(restrictions: Restrictions, now: int, **event) -> bool:
    return any(restrictions.against(LOGIN | event, now))


def test_a_restriction_ends_at_its_time_or_when_it_is_lifted():
    one = after(restrict(10, 100))
    assert [forbidden(one, now) for now in (10, 99, 100)] == [True, True, False]
    assert not forbidden(after(restrict(10, 100), lift(50)), 60)
    assert forbidden(after(restrict(10, 100), lift(50), restrict(60, 100)), 60), "a new alert restricts again"


def test_a_lift_ends_what_began_in_its_millisecond_too():
    for messages in ((restrict(50, 100), lift(50)), (lift(50), restrict(50, 100))):
        assert not forbidden(after(*messages), 60)
    assert forbidden(after(restrict(51, 100), lift(50)), 60)


LONG, SHORT, LIFT = restrict(100, 1_000), restrict(200, 500), lift(150)


@pytest.mark.parametrize("order", list(permutations((LONG, SHORT, LIFT, LONG))))
def test_a_lift_ends_what_began_before_it_and_nothing_else_in_any_order(order):
    """A lift ends 24 hours; the 10 minutes that began after it stay 10 minutes, whichever message is read first."""
    found = after(*order)
    assert [forbidden(found, now) for now in (499, 500, 999)] == [True, False, False]
    assert (found.get("block_login", ALICE).start, found.get("block_login", ALICE).until) == (200, 500)


@given(
    st.lists(st.tuples(st.sampled_from([0, 5, 7, 10, 60]), st.integers(0, 9)), min_size=1, max_size=8),
    st.randoms(),
)
def test_messages_mean_the_same_in_any_order_repeated_and_compacted(drawn, rng):
    """A time to live of 0 stands for a lift."""
    messages = [restrict(at, at + ttl) if ttl else lift(at) for ttl, at in drawn]
    lifted = max((at for ttl, at in drawn if not ttl), default=-1)
    until = max((at + ttl for ttl, at in drawn if ttl and at > lifted), default=0)
    assert after(*messages).get("block_login", ALICE).until == until
    mixed = messages * 2
    rng.shuffle(mixed)
    assert after(*mixed).get("block_login", ALICE) == after(*messages).get("block_login", ALICE)
    in_time = sorted(messages, key=lambda each: max(each.start, each.lifted))
    last = {message.key: message for message in in_time}
    assert after(*last.values()).get("block_login", ALICE) == after(*messages).get("block_login", ALICE)


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
    elsewhere = {"country": "DE", "device": "mac"}
    assert forbidden(restrictions, 1, action="login_failed")
    assert not forbidden(restrictions, 1, action="payment", ip="203.0.113.6")
    assert not forbidden(restrictions, 1, userId=8, **elsewhere)
    assert forbidden(restrictions, 1, action="payment", ip="203.0.113.5")
    assert forbidden(restrictions, 1, userId=8, country="KR", device="mac")
    assert not forbidden(restrictions, 1, userId=None, country="KR", device=None)


def test_what_lacks_a_value_by_which_somebody_is_restricted_cannot_be_judged():
    """Null is a value: the event has none there. A field that is missing may be misspelt."""
    restrictions = after(restrict(0, 9), restrict(0, 9, (("country", "KR"), ("device", "mac"))))
    for fields in ({"userid": 7}, {"user_id": 7, "country": "KR"}, {}):
        with pytest.raises(BadQuestion, match="userId: missing, expected its value, or null"):
            restrictions.against({"action": "login", **fields}, 1)
    with pytest.raises(BadQuestion, match="device: missing"):
        restrictions.against({"action": "login", "userId": 8, "country": "KR"}, 1)
    assert restrictions.against({"action": "login", "userId": 7}, 1), "it is forbidden in any case"
    assert not restrictions.against({"action": "login"}, 9), "nobody is restricted any more"
    assert not restrictions.against({"action": "payment"}, 1), "no payment is held"


def test_a_field_is_needed_until_the_last_restriction_by_it_ends_or_is_lifted():
    restrictions = after(*(restrict(0, until, (("userId", str(until)),)) for until in (50, 90)))
    ended = Restriction("block_login", (("userId", "90"),), lifted=20, by="ann")
    for now, messages in ((60, (ended,)), (30, (ended, restrict(0, 20, (("userId", "1"),))))):
        with pytest.raises(BadQuestion):
            restrictions.against({"action": "login"}, 49)
        for message in messages:
            restrictions.apply(message)
        if now == 60:
            assert not restrictions.against({"action": "login"}, now)


@pytest.mark.parametrize(
    "restricted, same, other, unclear",
    [
        (7, [7, "7", "07", "7.0", Decimal("7.00"), Decimal("70E-1")], [8, "70", Decimal("7.01"), None], ["x", "", "7 ", "\uff17", True]),
        (Decimal("12.50"), [Decimal("12.5"), "12.5", "12.500"], [12, "12.51", 10**39], ["12,5", "12.5 EUR", False]),
        ("7", ["7", 7], ["07", "7.0", "7 ", "\uff17", 8], [Decimal("7.0")]),
        ("true", ["true", True], ["True", False, 1], []),
    ],
)  # fmt: skip
def test_a_number_is_compared_as_a_number_and_a_text_as_a_text(restricted, same, other, unclear):
    restrictions = after(restrict(0, 9, (("userId", restricted),)))
    assert all(forbidden(restrictions, 1, userId=value) for value in same)
    assert not any(forbidden(restrictions, 1, userId=value) for value in other)
    for value in unclear:
        with pytest.raises(BadQuestion, match="userId: .*, expected a (number|text)"):
            restrictions.against(LOGIN | {"userId": value}, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "nonsense",
        '{"action": "jail", "subject": {}, "from": 1, "until": 2}',
        '{"action": "notify", "subject": {"userId": true}, "from": 1, "until": 2}',
        '{"action": "notify", "subject": {"userId": null}, "from": 1, "until": 2}',
        '{"action": "notify", "subject": {"userId": 1e99}, "from": 1, "until": 2}',
        '{"action": "notify", "subject": {"userId": NaN}, "from": 1, "until": 2}',
        '{"action": "notify", "subject": ["userId"], "from": 1, "until": 2}',
        '{"action": "notify", "subject": {}, "from": "soon", "until": 2}',
        '{"action": "notify", "subject": {}}',
        '{"action": "block_login", "subject": {}, "from": 1, "until": 2}',
        '{"action": "notify", "subject": {}, "from": 1, "until": 2, "ruleId": "1"}',
        '{"action": "notify", "subject": {}, "lift": 1, "by": "\\ud800"}',
        '{"action": "notify", "subject": {}, "lift": -2, "by": "ann"}',
        " " * (MAX_BYTES + 1),
    ],
)
def test_a_message_that_is_none_is_refused(text):
    with pytest.raises(BadRestriction):
        parse_restriction(text)


def test_a_message_is_read_up_to_the_size_and_from_the_time_that_are_allowed():
    lifted = '{"action": "notify", "subject": {}, "lift": -1, "by": "ann"}'
    assert parse_restriction(lifted + " " * (MAX_BYTES - len(lifted))).lifted == -1
    assert parse_restriction('{"action": "notify", "subject": {}, "from": 1, "until": 2}').rule_id is None


def test_of_a_long_log_a_part_is_in_memory_at_a_time(tmp_path):
    log = FileLog(tmp_path / "restrictions")
    for start in range(0, 60_000, 1_000):
        log.append([restrict(start + n, start + n + 100).to_json() for n in range(1_000)])
    tracemalloc.start()
    try:
        found = fold_restrictions(log).get("block_login", ALICE)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.until == 60_099 and most < 15 << 20


def test_nobody_is_restricted_before_the_first_message():
    nobody = Restrictions().get("block_login", ALICE)
    assert not nobody.is_in_force(0) and json.loads(nobody.to_json())["lift"] == -1


def test_a_restriction_that_began_when_it_was_lifted_is_told_as_a_lift_and_by_whom():
    assert json.loads(replace(restrict(5, 100), lifted=5).to_json())["lift"] == 5
    unsigned = replace(lift(5), by="")
    for messages in ((lift(5), unsigned), (unsigned, lift(5))):
        assert after(*messages).get("block_login", ALICE).by == "ann"


def test_the_restriction_that_lasts_longest_is_listed_first():
    others = [restrict(1, until, (("userId", str(until)),)) for until in (5, 9, 7)]
    assert [each.until for each in after(*others).all()] == [9, 7, 5]


def test_the_longest_restriction_after_the_last_event_can_be_read():
    """As its end is later than any time that an event may have."""
    last = restrict(MAX_TIME - 1, 2 * MAX_TIME - 1)
    assert parse_restriction(last.to_json()) == last
    with pytest.raises(BadRestriction, match="a time"):
        parse_restriction(last.to_json().replace(str(2 * MAX_TIME - 1), str(2 * MAX_TIME)))


# -- from alerts -------------------------------------------------------------------------------------------------------


def attempts(logs, count: int, user: int = 7, first_id: int = 1, **fields) -> None:
    a_minute_ago = now_ms() - 60_000  # a restriction begins when the alert's event was logged
    event = {
        "eventTime": a_minute_ago,
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
        return decider.write_new_restrictions()


def test_a_restriction_outlasts_a_week_of_others_in_a_folder(logs):
    log = logs.log("restrictions")
    log.append([restrict(0, 30 * DAY_MS).to_json()], log_time_ms=0)
    for day in range(1, 16):
        other = restrict(day * DAY_MS, (day + 1) * DAY_MS, (("userId", str(day)),))
        log.append([other.to_json()], log_time_ms=day * DAY_MS)
    assert forbidden(fold_restrictions(log), 15 * DAY_MS)


def test_an_alert_of_a_rule_with_an_action_restricts_its_group_for_its_time(logs):
    engine = Engine(logs, LOGINS)
    without = {name: value for name, value in GUESSING.items() if name not in ("action", "ttl")}
    logs.log("control").append([json.dumps(GUESSING), json.dumps(without | {"ruleId": 2})])
    attempts(logs, 5)
    attempts(logs, 2, user=8, first_id=10)
    engine.step()
    assert decided(logs) == 1
    (found,) = fold_restrictions(logs.log("restrictions")).all()
    (log_time,) = {alert.log_time for alert in map(alert_of, logs.log("alerts").read())}
    assert (found.action, found.subject, found.rule_id, found.rule_version) == ("block_login", ALICE, 1, 1)
    assert (found.start, found.until) == (log_time, log_time + 1_800_000)
    assert decided(logs) == 0, "a second one says nothing that was said"


def test_a_subject_has_the_types_of_the_schema():
    types = {"id": "long", "at": "long", "total": "decimal(9,2)", "code": "string"}
    schema = Schema("orders", tuple(Field(name, type) for name, type in types.items()), ("id",), "at")
    names, condition = ("code", "id", "total"), (Decimal(3), ">=", Decimal(3), 9, 0)
    group = (("code", "007"), ("id", 7), ("total", "12.50"))
    typed = (("code", "007"), ("id", 7), ("total", Decimal("12.50")))
    assert subject_of(Alert(1, 1, "", *condition, group=group), names, schema) == typed
    assert subject_of(Alert(1, 1, "{code=007;id=7;total=12.50}", *condition), names, schema) is None
    for wrong in ((("code", "7"), ("id", 7)), (("code", 7), ("id", 7), ("total", "x"))):
        assert subject_of(Alert(1, 1, "", *condition, group=wrong), names, schema) is None
    made = Restriction("block_login", typed, 1, 2)
    assert (
        '{"code": "007", "id": 7, "total": 12.50}' in made.to_json()
        and parse_restriction(made.to_json()) == made
    )


def alert_of(line: str) -> Alert:
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
        assert decider.write_new_restrictions() == 2
    found = {each.action: each for each in fold_restrictions(logs.log("restrictions")).all()}
    assert found["notify"].rule_version == 1 and found["block_login"].rule_version == 4
    assert found["block_login"].until - found["block_login"].start == 3_600_000


def test_a_rule_from_weeks_ago_restricts_after_a_restart(logs):
    for number in range(4):
        day, message = number * 9 * DAY_MS, json.dumps(GUESSING | {"ruleId": 1 + number})
        [place] = logs.log("control").publish([message], [""])
        ack = {"status": "accepted", "place": place, "ruleId": 1 + number, "version": 1}
        logs.log("acks").append([json.dumps(ack | {"ruleState": "ACTIVE"})], log_time_ms=day)
    alert = Alert(1, 1, "{userId=7}", Decimal(3), ">=", Decimal(3), 9, 27 * DAY_MS, group=(("userId", 7),))
    logs.log("alerts").append([alert.to_json()])
    assert decided(logs) == 1


def test_an_answer_without_a_version_names_no_rule(logs):
    place = logs.log("control").place(logs.log("control").append([json.dumps(GUESSING)]))
    logs.log("acks").append([json.dumps({"status": "rejected", "place": place, "reason": "too many rules"})])
    with Decider(logs, LOGINS) as decider:
        assert decider.write_new_restrictions() == 0


STRANGE = (
    *("", "null", "[]", "nonsense", "[" * 100_000, '{"ruleId":' + "9" * 5_000 + "}", '{"place": {"a": []}}'),
    *(
        '{"status": "accepted"}',
        '{"status": "accepted", "place": 7}',
        '{"status": "accepted", "place": "p", "version": "1"}',
    ),
    '{"ruleId": 1, "ruleVersion": 1, "key": "{userId=7}"}',
)


@pytest.mark.parametrize("log", ["alerts", "acks", "control"])
def test_lines_that_a_stranger_writes_become_dead_letters_once_and_the_decider_goes_on(logs, log):
    engine = Engine(logs, LOGINS)
    logs.log("control").append([json.dumps(GUESSING)])
    attempts(logs, 3)
    logs.log(log).append(STRANGE)
    engine.step()
    logs.log(log).append(STRANGE)
    with Decider(logs, LOGINS) as decider:
        assert decider.write_new_restrictions() == 1
        told = decider.dead_letters
    letters = [json.loads(line) for line in logs.log(DEAD_LETTERS).read()]
    assert told == len(letters) == (0 if log == "control" else 2 * len(STRANGE)), (
        "control: the engine answers them"
    )
    assert all(letter["reason"] and letter["place"].startswith(f"{log}/") for letter in letters)
    with Decider(logs, LOGINS) as again:
        assert again.write_new_restrictions() == 0 and again.dead_letters == told
    assert len(logs.log(DEAD_LETTERS).read()) == told, "each once, however often the decider starts"


def test_an_alert_with_another_group_restricts_nobody_whatever_its_text_says(logs):
    engine = Engine(logs, LOGINS)
    logs.log("control").append([json.dumps(GUESSING | {"groupingKeyNames": ["device", "ip"]})])
    attempts(logs, 3)
    engine.step()
    alert = alert_of(logs.log("alerts").read()[0])
    logs.log("alerts").append([replace(alert, group=(), key="{device=x;ip=1}").to_json()])
    assert decided(logs) == 1
    [each] = fold_restrictions(logs.log("restrictions")).all()
    assert each.subject == (("device", "b"), ("ip", "a"))
    [letter] = [json.loads(line) for line in logs.log(DEAD_LETTERS).read()]
    assert "its `group` is not one of its rule, expected values of device, ip" in letter["reason"]


def test_groups_with_one_text_are_restricted_each_and_the_longest_ones_too(logs):
    engine = Engine(logs, LOGINS)
    rule = GUESSING | {"groupingKeyNames": ["device", "ip"], "limit": 1}
    logs.log("control").append([json.dumps(rule)])
    devices = (("x;ip=1", "2"), ("x", "1;ip=2"), ("😀" * 2_000, "\x01" * 2_000))
    for number, (device, ip) in enumerate(devices):
        attempts(logs, 1, first_id=number, device=device, ip=ip)
    engine.step()
    assert decided(logs) == 3
    restrictions = fold_restrictions(logs.log("restrictions"))
    now = now_ms()
    for device, ip in devices:
        assert forbidden(restrictions, now, device=device, ip=ip)
    assert not forbidden(restrictions, now, device="x", ip="1")


def test_alerts_of_versions_that_nothing_names_wait_but_not_without_end(logs, monkeypatch):
    monkeypatch.setattr(decide, "WAITING", 3)
    engine = Engine(logs, LOGINS)
    logs.log("control").append([json.dumps(GUESSING)])
    attempts(logs, 3)
    engine.step()
    alert = alert_of(logs.log("alerts").read()[0])
    logs.log("alerts").append([replace(alert, rule_version=90 + n).to_json() for n in range(5)])
    with Decider(logs, LOGINS) as decider:
        assert decider.write_new_restrictions() == 1
    letters = [json.loads(line) for line in logs.log(DEAD_LETTERS).read()]
    assert [letter["place"].rpartition(":")[2] for letter in letters] == ["2", "3"]
    assert "no acknowledgement names version 90 of rule 1" in letters[0]["reason"]


def test_an_alert_waits_for_the_answer_that_names_its_version(logs):
    own = FileLogs(logs.folder, {"acks": logs.folder / "aside"})
    engine = Engine(own, LOGINS)
    logs.log("control").append([json.dumps(GUESSING)])
    attempts(logs, 3)
    engine.step()
    with Decider(logs, LOGINS) as decider:
        assert decider.write_new_restrictions() == 0
        logs.log("acks").append(own.log("acks").read())
        assert decider.write_new_restrictions() == 1


def test_answers_about_lists_are_of_no_rule(logs):
    engine = Engine(logs, LOGINS)
    logs.log("control").append(["add KR to @highrisk", json.dumps(GUESSING), "mute rule 1 for userId=8"])
    attempts(logs, 3)
    engine.step()
    assert decided(logs) == 1


def test_a_rule_that_is_accepted_while_the_decider_reads_is_known_to_it(logs):
    """Its message is in the control log before its answer is in the other one, so it has to be read after that."""
    engine = Engine(logs, LOGINS)
    with Decider(logs, LOGINS) as decider:
        records = decider._acks.records

        def accepted_meanwhile():
            if not logs.log("control").read():
                logs.log("control").append([json.dumps(GUESSING)])
                attempts(logs, 3)
                engine.step()
            return records()

        decider._acks.records = accepted_meanwhile
        assert [decider.write_new_restrictions(), decider.write_new_restrictions()] == [0, 1]


def compacted(log) -> Restrictions:
    """What a log says of which only the last message of each key is left."""
    last = {message.key: message for message in map(parse_restriction, log.read())}
    return after(*last.values())


def alert(rule_version: int, log_time: int, rule_id: int = 1) -> str:
    """An alert about user 7."""
    condition = Decimal(3), "GREATER_EQUAL", Decimal(3)
    group = (("userId", "7"),)
    return Alert(
        rule_id, rule_version, "{userId=7}", *condition, 1, log_time, log_time, log_time, group
    ).to_json()


def accept(logs, rule: dict, version: int = 1) -> None:
    """A rule and the engine's acknowledgement."""
    [place] = logs.log("control").publish([json.dumps(rule)], [""])
    ack = {"status": "accepted", "place": place, "ruleId": rule["ruleId"], "version": version}
    logs.log("acks").append([json.dumps(ack | {"ruleState": "ACTIVE"})])


def test_of_a_restriction_that_was_lifted_nothing_goes_into_the_next_one(logs):
    """A lift ends 24 hours; the next alert is of a rule with 10 minutes."""
    accept(logs, GUESSING | {"ttl": "24h"})
    accept(logs, GUESSING | {"ruleId": 2, "ttl": "10m"})
    with Decider(logs, LOGINS) as decider:
        logs.log("alerts").append([alert(1, log_time=1_000)])
        assert decider.write_new_restrictions() == 1
        logs.log("restrictions").append([lift(2_000).to_json()])
        logs.log("alerts").append([alert(1, log_time=3_000, rule_id=2)])
        assert decider.write_new_restrictions() == 1
    found = fold_restrictions(logs.log("restrictions")).get("block_login", ALICE)
    assert (found.start, found.until) == (3_000, 3_000 + 600_000)


def test_a_compacted_log_forgets_neither_a_lift_nor_a_restriction_that_came_with_it(logs):
    """Somebody lifts what they see, while an alert restricts again: the lift is written last, but it began first."""
    log, second = logs.log("restrictions"), restrict(16, 100)
    log.append([each.to_json() for each in (restrict(10, 90), second, lift(15))])
    assert compacted(log).get("block_login", ALICE) == replace(second, lifted=15)
    log.append([restrict(20, 30).to_json()])
    assert compacted(log).get("block_login", ALICE).lifted == 15


def test_a_decider_that_starts_on_a_compacted_log_does_not_undo_a_lift(logs):
    accept(logs, GUESSING | {"ttl": "24h"})
    accept(logs, GUESSING | {"ruleId": 2, "ttl": "10m"})
    with Decider(logs, LOGINS) as decider:
        logs.log("alerts").append([alert(1, log_time=1_000)])
        decider.write_new_restrictions()
        logs.log("restrictions").append([lift(2_000).to_json()])
        logs.log("alerts").append([alert(1, log_time=3_000, rule_id=2)])
        decider.write_new_restrictions()
    last = {parse_restriction(line).key: line for line in logs.log("restrictions").read()}
    beside = FileLogs(logs.folder, {"restrictions": logs.folder / "compacted"})
    beside.log("restrictions").append(last.values())
    decided(beside)
    assert fold_restrictions(beside.log("restrictions")).get("block_login", ALICE).until == 603_000


def test_alerts_of_a_rule_that_is_for_another_schema_are_said(logs):
    """As of `lab restrict run` on topics without --schema, which takes the rules for those of payments."""
    accept(logs, GUESSING)
    logs.log("alerts").append([alert(1, log_time=1_000)])
    with Decider(logs, PAYMENTS) as decider:
        assert (decider.write_new_restrictions(), decider.dead_letters) == (0, 1)
    (letter,) = map(json.loads, logs.log(DEAD_LETTERS).read())
    assert (
        'version 1 of rule 1 is not known here: groupingKeyNames: unknown payments field "userId"'
        in letter["reason"]
    )


def test_alerts_of_a_rule_that_the_control_log_has_no_longer_are_said(logs):
    """As in a compacted topic, where a later message of the rule has replaced the one that the alert is of."""
    ack = {"status": "accepted", "place": "control/0:3", "ruleId": 1, "version": 1, "ruleState": "ACTIVE"}
    with Decider(logs, LOGINS) as decider:
        logs.log("alerts").append([alert(1, log_time=1_000)])
        assert (decider.write_new_restrictions(), decider.dead_letters) == (0, 0)
        logs.log("acks").append([json.dumps(ack)])
        assert (decider.write_new_restrictions(), decider.dead_letters) == (0, 1)
        logs.log("alerts").append([alert(1, log_time=2_000)])
        assert (decider.write_new_restrictions(), decider.dead_letters) == (0, 2)
    letters = list(map(json.loads, logs.log(DEAD_LETTERS).read()))
    assert [letter["reason"] for letter in letters] == [
        "version 1 of rule 1 is not known here: control/0:3 does not have its definition"
    ] * 2


def test_a_rule_that_is_accepted_again_under_another_version_restricts(logs):
    """An engine with a new checkpoint counts versions of its own, and answers the messages of a compacted topic again."""
    accept(logs, GUESSING, version=5)
    answer = json.loads(logs.log("acks").read()[0])
    logs.log("acks").append([json.dumps(answer | {"version": 1})])
    logs.log("alerts").append([alert(1, log_time=1_000)])
    assert decided(logs) == 1


def test_of_many_alerts_a_decider_takes_some_at_a_time(logs, monkeypatch):
    monkeypatch.setattr(decide, "AT_ONCE", 1)
    accept(logs, GUESSING)
    for log_time in range(1_000, 1_005):
        logs.log("alerts").append([alert(1, log_time)])
    with Decider(logs, LOGINS) as decider:
        assert [decider.write_new_restrictions() for _ in range(6)] == [1, 1, 1, 1, 1, 0]


def test_alerts_that_expired_before_they_were_read_are_said(logs, monkeypatch, capsys):
    monkeypatch.setattr("lab.logs.writer.SEGMENT_BYTES", 1)
    accept(logs, GUESSING)
    logs.log("alerts").append(["not an alert"], log_time_ms=1_000)
    with Decider(logs, LOGINS) as decider:
        logs.log("alerts").append([alert(1, 2_000)], log_time_ms=2_000)
        logs.log("alerts").append([alert(1, 9 * DAY_MS)], log_time_ms=9 * DAY_MS)
        logs.log("alerts").append([alert(1, 9 * DAY_MS + 1)], log_time_ms=9 * DAY_MS + 1)
        assert decider.write_new_restrictions() == 1
    assert "left out: " in capsys.readouterr().err


def test_an_answer_to_another_rule_s_message_names_no_rule(logs):
    accept(logs, GUESSING | {"ruleId": 2, "ttl": "24h"})
    answer = json.loads(logs.log("acks").read()[0])
    logs.log("acks").append([json.dumps(answer | {"ruleId": 1})])
    logs.log("alerts").append([alert(1, log_time=1_000), alert(1, log_time=1_000, rule_id=2)])
    assert decided(logs) == 1


def test_a_group_that_an_attacker_disguised_restricts_nobody_else(logs):
    engine = Engine(logs, LOGINS)
    logs.log("control").append([json.dumps(GUESSING | {"groupingKeyNames": ["device", "userId"]})])
    attempts(logs, 3, device="x;userId=8")
    engine.step()
    assert decided(logs) == 1
    (found,) = fold_restrictions(logs.log("restrictions")).all()
    assert found.subject == (("device", "x;userId=8"), ("userId", 7))
    now = found.start
    assert forbidden(fold_restrictions(logs.log("restrictions")), now, device="x;userId=8")
    assert not forbidden(fold_restrictions(logs.log("restrictions")), now, device="x", userId=8)


def test_restrictions_are_listed_and_lifted_on_the_command_line(logs, capsys):
    where = ["--logs", str(logs.folder)]
    assert main(["restrict", "list", *where]) == OK
    assert "nobody is restricted" in capsys.readouterr().out
    now = now_ms()
    logs.log("restrictions").append(["nonsense", restrict(now, now + 60_000).to_json()])
    assert main(["restrict", "list", *where]) == OK
    assert "rule 1 v1  userId=7" in capsys.readouterr().out
    assert main(["restrict", "lift", "userId=8", *where]) == USAGE
    assert main(["restrict", "lift", "userId=7", "--action", "hold_payment", *where]) == USAGE
    assert main(["restrict", "lift", "userId=7", *where]) == OK
    assert "lifted: block_login" in capsys.readouterr().out
    assert not forbidden(fold_restrictions(logs.log("restrictions")), now + 1)
    assert main(["restrict", "lift", "userId=7", *where]) == USAGE


def test_a_restriction_that_began_after_this_computer_s_clock_is_lifted(logs, capsys):
    """A broker's clock says when it began."""
    later = now_ms() + 300_000
    logs.log("restrictions").append([restrict(later, later + 60_000).to_json()])
    assert main(["restrict", "lift", "userId=7", "--logs", str(logs.folder)]) == OK
    assert not forbidden(fold_restrictions(logs.log("restrictions")), later + 1)


def test_who_is_listed_can_be_copied_to_the_command_that_lifts_and_a_shell_obeys_nothing_in_it(logs, capsys):
    """Whoever sends events chooses the values of a group."""
    subject, now = (("device", "x; touch 'pwned' $(id) \x1b[31m\u202e"), ("userId", "7")), now_ms()
    logs.log("restrictions").append([restrict(now, now + 60_000, subject).to_json()])
    assert main(["restrict", "list", "--logs", str(logs.folder)]) == OK
    shown = capsys.readouterr().out.rpartition("rule 1 v1  ")[2].rstrip("\n")
    words = shlex.split(shown)
    assert len(words) == 2 and "\x1b" not in shown and words[0].startswith("device=x; touch 'pwned' $(id) ")
    assert main(["restrict", "lift", *words, "--logs", str(logs.folder)]) == OK
    assert not fold_restrictions(logs.log("restrictions")).get("block_login", subject).is_in_force(now + 1)


def test_a_shorter_restriction_that_began_later_outlives_the_lift_of_the_longer_one(logs):
    """
    rule 1   1000 ├──────────────────────────────┤ 24 h
    rule 2        2000 ├─────┤ 10 min                       it ends first, but began after the lift at 1500
    """
    accept(logs, GUESSING | {"ttl": "24h"})
    accept(logs, GUESSING | {"ruleId": 2, "ttl": "10m"})
    with Decider(logs, LOGINS) as decider:
        logs.log("alerts").append([alert(1, log_time=1_000)])
        assert decider.write_new_restrictions() == 1
        logs.log("alerts").append([alert(1, log_time=2_000, rule_id=2)])
        assert decider.write_new_restrictions() == 1, "its beginning is new, though its end is not"
        logs.log("alerts").append([alert(1, log_time=1_500, rule_id=2)])
        assert decider.write_new_restrictions() == 0, "it neither begins nor ends later than what is known"
    assert forbidden(fold_restrictions(logs.log("restrictions")), 3_000)
    logs.log("restrictions").append([lift(1_500).to_json()])
    assert forbidden(fold_restrictions(logs.log("restrictions")), 3_000)
