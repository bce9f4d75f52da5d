"""The JSON Schemas take what the code writes and reads, and nothing else; the committed page is what the code gives."""

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from lab.cli.main import OK, main
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.inprocess import InProcessEngine
from lab.model.deadletters import dead_letter
from lab.model.enginelogs import LOGS
from lab.model.field import Field
from lab.model.reference import evaluate_log
from lab.model.rules import RuleBook, parse_message
from lab.model.schema import LOGINS, PAYMENTS, SCHEMAS, Schema
from lab.model.spec import json_schemas_by_log
from lab.past.replay import read_rules
from lab.sources.infer import infer
from lab.sources.sources import source_at
from lab.stream.datasets import dataset
from tests.model.refusals import TYPES
from tests.orders import orders

ORDERS = [line.encode() for line in orders(300)]
BARE = Schema("bare", (Field("id", "string"), Field("at", "time", unit="ms")), ("id",), "at")
PAGE = Path(__file__).parents[2] / "docs" / "asyncapi.yaml"


def validators(schema):
    made = json_schemas_by_log(schema)
    for each in made.values():
        Draft202012Validator.check_schema(each)
    return {name: Draft202012Validator(each) for name, each in made.items()}


def test_what_goes_in_and_out_is_as_the_schemas_say():
    rules = read_rules(dataset("logins") / "rules.json")
    (path,) = dataset("logins").glob("logins*.jsonl*")
    lines = list(source_at(path))[:3000]
    valid = validators(LOGINS)
    done = evaluate_log(
        LOGINS, [*(("control", rule) for rule in rules), *(("event", line) for line in lines)]
    )
    assert done.alerts
    for line in lines:
        valid["events"].validate(json.loads(line))
    for rule in rules:
        valid["control"].validate(json.loads(rule))
    for alert in done.alerts:
        valid["alerts"].validate(json.loads(alert.to_json()))
    for ack in done.acks:
        valid["acks"].validate(ack)


@pytest.mark.parametrize(
    "message",
    [
        '{"ruleState": "CONTROL", "controlType": "EXPORT_RULES_CURRENT"}',
        '{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}',
        '{"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"}',
        '{"ruleId": 7, "ruleState": "DELETE"}',
        '{"ruleId": "1", "ruleState": "PAUSE", "window": null}',
        '{"ruleId": 1, "ruleState": "ACTIVE", "windowMinuts": 7}',
        '{"ruleId": 1, "ruleState": "ASLEEP"}',
        '{"ruleId": 1, "ruleState": "PAUSE", "limitOperatorType": "about", "limit": 1, "window": 1}',
        "{" + "x" * 5000,
    ],
)
def test_each_answer_is_as_its_schema_says_and_a_message_is_valid_if_it_can_be_accepted(message):
    valid, book = validators(PAYMENTS), RuleBook(PAYMENTS)
    book.apply("1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)")
    ack = book.apply(message) | {"place": "control:1", "logTime": 5}
    valid["acks"].validate(ack)
    assert ack["status"] == "rejected" or valid["control"].is_valid(json.loads(message))
    if ack["status"] == "rejected" and message.endswith("}") and "force" not in ack["reason"]:
        assert not valid["control"].is_valid(json.loads(message))


@pytest.mark.parametrize("raw", [b"{", b"\xff", b"x" * 5000, b"\xff" * 5000])
def test_a_dead_letter_is_as_its_schema_says(raw):
    valid = validators(PAYMENTS)["deadLetters"]
    for key in (None, b"", b"order-7", b"\xff", b"k" * 500):
        valid.validate(json.loads(dead_letter("why", "events/0:1", raw, 1714525200000, key)))
    valid.validate(letter := json.loads(dead_letter("why", "events:1", raw)))
    assert not valid.is_valid({name: value for name, value in letter.items() if not name.startswith("raw")})


def test_what_the_engine_writes_is_as_the_schemas_say():
    rule = b"1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)"
    event = b'{"transactionId": 1, "eventTime": 5, "payeeId": 25, "paymentAmount": 50.01}'
    with InProcessEngine(Settings(PAYMENTS)) as stages:
        stages.run_batch([("control", rule), ("event", event), ("event", b"{"), ("control", b"?")])
        valid = validators(PAYMENTS)
        for log, lines in stages.out.items():
            assert lines
            for line in lines:
                valid[log].validate(json.loads(line))


def test_nested_events_are_as_their_schema_says():
    valid = validators(infer(ORDERS, "orders").schema)["events"]
    for line in ORDERS:
        valid.validate(json.loads(line))
    order = json.loads(ORDERS[0])
    for wrong in (
        {"customer": {}},
        order | {"order": order["order"] | {"id": 7}},
        order | {"order": order["order"] | {"placedAt": "2024-05-01 09:00"}},
        order | {"channel": 7},
    ):
        assert not valid.is_valid(wrong)


def test_the_committed_page_is_what_the_code_gives(capsys):
    """`lab spec > docs/asyncapi.yaml` makes it anew."""
    assert main(["spec"]) == OK
    assert capsys.readouterr().out == PAGE.read_text()


@pytest.mark.parametrize(
    "schema", [*SCHEMAS.values(), infer(ORDERS, "orders").schema, TYPES, BARE], ids=lambda schema: schema.name
)
def test_the_control_topic_also_says_the_texts_that_it_takes_and_they_are_rules(schema):
    told = json_schemas_by_log(schema)["control"]["description"]
    assert "sentence" in told and "line of text" in told
    sentence, line = re.findall("`([0-9][^`]*)`", told)
    assert sentence.startswith("7: ") and line.startswith("7,(active),")
    assert parse_message(sentence, schema).rule == parse_message(line, schema).rule


def test_every_log_of_every_schema_has_a_schema():
    for schema in SCHEMAS.values():
        assert list(validators(schema)) == list(LOGS)
