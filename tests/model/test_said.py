"""Severity, title and labels of a rule: checked when it comes, carried by its alerts."""

import json
from dataclasses import replace

from lab.model.messages import parse_message
from lab.model.reference import evaluate_log
from lab.model.schema import PAYMENTS

RULE = {"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "aggregateFieldName": "COUNT"}
RULE |= {"limitOperatorType": ">", "limit": 0, "window": "1m"}
SAID = {"severity": "high", "title": "Too much", "labels": {"team": "fraud", "queue": "night"}}
EVENT = b'{"transactionId": 1, "eventTime": 5, "payeeId": 25}'


def rule_of(**more):
    return parse_message(json.dumps(RULE | more), PAYMENTS).rule


def test_what_a_rule_says_comes_back_and_null_is_nothing():
    rule = rule_of(**SAID)
    assert rule.carries("labels") == (("queue", "night"), ("team", "fraud"))
    assert parse_message(json.dumps(rule.to_dict()), PAYMENTS).rule == rule
    assert rule_of(severity=None, title=None, labels=None) == rule_of(labels={}) == rule_of()


def test_an_alert_carries_what_its_rule_says_and_nothing_else_changes():
    (silent,) = evaluate_log(PAYMENTS, [("control", json.dumps(RULE).encode()), ("event", EVENT)]).alerts
    (alert,) = evaluate_log(
        PAYMENTS, [("control", json.dumps(RULE | SAID).encode()), ("event", EVENT)]
    ).alerts
    assert replace(alert, carried=()) == silent
    assert alert.alert_id == silent.alert_id
    said = '"severity":"high","title":"Too much","labels":{"queue":"night","team":"fraud"},'
    assert alert.to_json() == silent.to_json().replace('"eventId"', said + '"eventId"')


def test_a_change_of_what_a_rule_says_is_a_new_version_that_keeps_its_events():
    log = [("control", json.dumps(RULE | {"limit": 1}).encode()), ("event", EVENT)]
    log += [("control", json.dumps(RULE | {"limit": 1} | SAID).encode())]
    log += [("event", EVENT.replace(b": 1,", b": 2,"))]
    (alert,) = evaluate_log(PAYMENTS, log).alerts
    assert (alert.rule_version, alert.carries("severity"), alert.aggregate) == (2, "high", 2)


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
