"""Severity, title and labels of a rule: checked when it comes, carried by its alerts."""

import json
from dataclasses import replace

import pytest

from lab.model.attributes import BadRule
from lab.model.messages import parse_message
from lab.model.reference import evaluate_log
from lab.model.schema import PAYMENTS

RULE = {"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "aggregateFieldName": "COUNT"}
RULE |= {"limitOperatorType": ">", "limit": 0, "window": "1m"}
SAID = {"severity": "high", "title": "Too much", "labels": {"team": "fraud", "queue": "night"}}
EVENT = b'{"transactionId": 1, "eventTime": 5, "payeeId": 25}'


def rule_of(**more):
    return parse_message(json.dumps(RULE | more), PAYMENTS).rule


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"severity": "urgent"}, 'severity: "urgent", expected one of low, medium, high, critical'),
        ({"severity": "HIGH"}, 'expected lower case: write "high"'),
        ({"severity": ["high"]}, "expected one of low"),
        ({"title": ""}, "a text of 1 to 200 characters, without blanks before and after it"),
        ({"title": " x"}, "without blanks"),
        ({"title": "x" * 201}, "a text of 1 to 200 characters"),
        ({"title": 7}, "title: 7, expected a text"),
        ({"labels": "team=fraud"}, 'an object of at most 16 texts, such as {"team": "fraud"}'),
        ({"labels": {f"n{number}": "" for number in range(17)}}, "at most 16"),
        ({"labels": {"1st": "x"}}, 'labels: "1st", expected names of 1 to 64 letters'),
        ({"labels": {"x" * 65: "x"}}, "names of 1 to 64 letters"),
        ({"labels": {"team": 7}}, "labels.team: 7, expected a text of at most 200 characters"),
        ({"labels": {"team": "x" * 201}}, "at most 200"),
        ({"labels": {"team": None}}, "labels.team: nothing, expected a text"),
    ],
)
def test_what_a_rule_says_is_checked(wrong, said):
    with pytest.raises(BadRule) as error:
        rule_of(**wrong)
    assert said in str(error.value)
    longest = {"title": "x" * 200, "labels": {f"{number:_<64}": "y" * 200 for number in "abcdefghijklmnop"}}
    rule = rule_of(**longest)
    assert (rule.title, dict(rule.labels)) == (longest["title"], longest["labels"])


def test_what_a_rule_says_comes_back_and_null_is_nothing():
    rule = rule_of(**SAID)
    assert rule.labels == (("queue", "night"), ("team", "fraud"))
    assert parse_message(json.dumps(rule.to_dict()), PAYMENTS).rule == rule
    assert rule_of(severity=None, title=None, labels=None) == rule_of(labels={}) == rule_of()


def test_an_alert_carries_what_its_rule_says_and_nothing_else_changes():
    (silent,) = evaluate_log(PAYMENTS, [("control", json.dumps(RULE).encode()), ("event", EVENT)]).alerts
    (alert,) = evaluate_log(
        PAYMENTS, [("control", json.dumps(RULE | SAID).encode()), ("event", EVENT)]
    ).alerts
    assert replace(alert, severity=None, title=None, labels=()) == silent
    assert alert.alert_id == silent.alert_id
    said = '"severity":"high","title":"Too much","labels":{"queue":"night","team":"fraud"},'
    assert alert.to_json() == silent.to_json().replace('"eventId"', said + '"eventId"')


def test_a_change_of_what_a_rule_says_is_a_new_version_that_keeps_its_events():
    log = [("control", json.dumps(RULE | {"limit": 1}).encode()), ("event", EVENT)]
    log += [("control", json.dumps(RULE | {"limit": 1} | SAID).encode())]
    log += [("event", EVENT.replace(b": 1,", b": 2,"))]
    (alert,) = evaluate_log(PAYMENTS, log).alerts
    assert (alert.rule_version, alert.severity, alert.aggregate) == (2, "high", 2)


def test_an_alert_tells_the_fields_of_its_event_that_the_rule_names():
    event = EVENT.replace(b"}", b', "paymentAmount": "2.5", "paymentType": "C\\u00e9"}')
    wanted = {"eventFields": ["paymentType", "paymentAmount", "beneficiaryId", "eventTime"]}
    (silent,) = evaluate_log(PAYMENTS, [("control", json.dumps(RULE).encode()), ("event", event)]).alerts
    (alert,) = evaluate_log(
        PAYMENTS, [("control", json.dumps(RULE | wanted).encode()), ("event", event)]
    ).alerts
    told = {"paymentType": "Cé", "paymentAmount": "2.50", "beneficiaryId": None, "eventTime": 5}
    assert json.loads(alert.to_json())["event"] == dict(alert.event) == told
    assert replace(alert, event=()) == silent and alert.alert_id == silent.alert_id
    assert type(alert).from_json(alert.to_json()) == alert


@pytest.mark.parametrize(
    "wrong, said",
    [
        ("paymentType", 'eventFields: "paymentType", expected a list of event fields'),
        (["paymentTyp"], 'unknown payments field "paymentTyp", did you mean paymentType?'),
        (["payeeId", "payeeId"], "expected each field once"),
    ],
)
def test_event_fields_are_checked(wrong, said):
    with pytest.raises(BadRule) as error:
        rule_of(eventFields=wrong)
    assert said in str(error.value)
