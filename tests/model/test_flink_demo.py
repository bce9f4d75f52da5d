"""The Flink demo's rules, control messages and payments, as its own backend writes them, are taken as they are.

Source: github.com/afedulov/fraud-detection-demo, `webapp`: RulesBootstrapper (four rules as text), RuleRestController and
FlinkRulesService (rules of the front end and deletions, through Jackson: every attribute, also null), FlinkController
(commands), DemoTransactionsGenerator (payments). Records have no key.
"""

import json
from contextlib import closing

import pytest

from lab.logs.cluster import UnusableTopic
from lab.logs.files import FileLog
from lab.logs.kafka import APPEND_TIME, COMPACTED, KafkaLog
from lab.model.reference import Reference
from lab.model.rules import RuleBook
from lab.model.schema import PAYMENTS

BOOTSTRAPPED = [
    (
        '{"ruleId":"1","aggregateFieldName":"paymentAmount","aggregatorFunctionType":"SUM",'
        '"groupingKeyNames":["payeeId", "beneficiaryId"],"limit":"20000000","limitOperatorType":"GREATER",'
        '"ruleState":"ACTIVE","windowMinutes":"43200"}'
    ),
    (
        '{"ruleId":"2","aggregateFieldName":"COUNT_FLINK","aggregatorFunctionType":"SUM",'
        '"groupingKeyNames":["paymentType"],"limit":"300","limitOperatorType":"LESS",'
        '"ruleState":"PAUSE","windowMinutes":"1440"}'
    ),
    (
        '{"ruleId":"3","aggregateFieldName":"paymentAmount","aggregatorFunctionType":"SUM",'
        '"groupingKeyNames":["beneficiaryId"],"limit":"10000000","limitOperatorType":"GREATER_EQUAL",'
        '"ruleState":"ACTIVE","windowMinutes":"1440"}'
    ),
    (
        '{"ruleId":"4","aggregateFieldName":"COUNT_WITH_RESET_FLINK","aggregatorFunctionType":"SUM",'
        '"groupingKeyNames":["paymentType"],"limit":"100","limitOperatorType":"GREATER_EQUAL",'
        '"ruleState":"ACTIVE","windowMinutes":"1440"}'
    ),
]
ATTRIBUTES = (
    *("ruleId", "ruleState", "groupingKeyNames", "unique", "aggregateFieldName", "aggregatorFunctionType"),
    *("limitOperatorType", "limit", "windowMinutes", "controlType"),
)


def jackson(**given: object) -> str:
    """`ObjectMapper.writeValueAsString(RulePayload)`: the attributes in their order, null where there is nothing."""
    return json.dumps({name: given.get(name) for name in ATTRIBUTES}, separators=(",", ":"))


SAMPLE = jackson(  # "Sample Rule 3" of the front end, numbered by the backend's database
    ruleId=5,
    ruleState="ACTIVE",
    groupingKeyNames=["paymentType"],
    aggregateFieldName="COUNT_WITH_RESET_FLINK",
    aggregatorFunctionType="SUM",
    limitOperatorType="GREATER_EQUAL",
    limit=100,
    windowMinutes=1440,
)
DELETED = jackson(ruleId=5, ruleState="DELETE")
SYNC = jackson(ruleState="CONTROL", controlType="EXPORT_RULES_CURRENT")
CLEAR = jackson(ruleState="CONTROL", controlType="CLEAR_STATE_ALL")
NO_KEYS = jackson(  # the form sent without grouping keys: `[undefined]` becomes `[null]`
    ruleId=6,
    ruleState="ACTIVE",
    groupingKeyNames=[None],
    aggregateFieldName="paymentAmount",
    aggregatorFunctionType="SUM",
    limitOperatorType="EQUAL",
    limit=1,
    windowMinutes=1,
)
SENT = [*BOOTSTRAPPED, SAMPLE, CLEAR, DELETED, NO_KEYS, SYNC]


def payment(number: int, payee: int, amount: str, beneficiary: int = 12) -> bytes:
    return (
        f'{{"transactionId":{9 * 10**18 + number},"eventTime":{1_600_000_000_000 + number},"payeeId":{payee},'
        f'"beneficiaryId":{beneficiary},"paymentAmount":{amount},"paymentType":"CRD"}}'
    ).encode()


def check(acks: list[dict]) -> None:
    assert [ack["status"] for ack in acks] == ["accepted"] * 7 + ["rejected", "accepted"]
    assert acks[7]["reason"].startswith("groupingKeyNames: nothing, expected the name of an event field")
    described = {
        rule["ruleId"]: (rule["ruleState"], rule["aggregatorFunctionType"]) for rule in acks[8]["rules"]
    }
    assert described == {
        1: ("ACTIVE", "SUM"),
        2: ("PAUSE", "COUNT"),
        3: ("ACTIVE", "SUM"),
        4: ("ACTIVE", "COUNT_WITH_RESET"),
    }


def test_the_messages_of_its_backend_are_answered(tmp_path):
    log = FileLog(tmp_path / "control")
    for message in SENT:
        log.append([message])
    book = RuleBook(PAYMENTS)
    check([book.apply(line) for line in log.read()])
    reference = Reference(PAYMENTS)
    check([reference.control(line) for line in log.read()])


def test_its_rules_alert_on_its_payments():
    engine = Reference(PAYMENTS)
    for message in BOOTSTRAPPED:
        engine.control(message)
    engine.event(payment(1, 25, "13.54"))
    engine.event(payment(2, 25, "20415926"))  # over the limits of rules 1 and 3
    for number in range(3, 101):
        engine.event(payment(number, number, "5.0", beneficiary=1000 + number))
    assert [
        (alert.rule_id, alert.event_id - 9 * 10**18, str(alert.aggregate)) for alert in engine.alerts
    ] == [(1, 2, "20415939.54"), (3, 2, "20415939.54"), (4, 100, "100")]
    assert not engine.dead_letters


def test_they_arrive_on_a_topic_without_keys(kafka):
    """A compacted topic takes no record without a key: the demo needs a control topic that keeps everything."""
    log = KafkaLog(kafka.address, "demo-rules")
    with pytest.raises(UnusableTopic, match="cleanup.policy is delete, expected compact"):
        KafkaLog(kafka.address, "forgets").create()
        KafkaLog(kafka.address, "forgets").create(1, COMPACTED)
    log.create(1, APPEND_TIME | {"cleanup.policy": "delete", "retention.ms": "-1"})
    log.create(1, COMPACTED)  # as `lab run` does: it is fit for rules
    log.append(SENT)
    log.close()
    with closing(log.tail()) as tail:
        records = tail.records()
    assert [record.place for record in records] == [f"demo-rules/0:{number}" for number in range(len(SENT))]
    book = RuleBook(PAYMENTS)
    check([book.apply(record.line) for record in records])
