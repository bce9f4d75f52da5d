"""The fields of its event that an alert tells: as the reference does, of every type, and of what did not come."""

import json

import pytest

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.inprocess import InProcessEngine
from lab.model.field import Field
from lab.model.reference import Reference
from lab.model.schema import LOGINS, Schema
from tests.engine.test_absence import Clocked
from tests.model.test_absence import MINUTE, T0, event

EVERY = Schema(
    "every",
    (
        Field("id", "string"),
        Field("at", "time", unit="ms"),
        Field("count", "long"),
        Field("amount", "decimal(18,6)"),
        Field("text", "string", path=("in", "text")),
        Field("done", "boolean"),
    ),
    ("id",),
    "at",
)
NAMES = ["done", "text", "amount", "count", "at", "id"]
RULES = [
    {"ruleId": 1, "eventFields": NAMES, "when": "count > 0"},
    {
        "ruleId": 2,
        "eventFields": NAMES[:2],
        "title": "two",
        "excludeCurrent": True,
        "limit": 0,
        "limitOperatorType": ">=",
    },
    {"ruleId": 3},
]
COUNT = {
    "ruleState": "ACTIVE",
    "aggregateFieldName": "COUNT",
    "limitOperatorType": ">",
    "limit": 0,
    "window": "1h",
}


@pytest.mark.parametrize("tasks", [1, 2])
def test_the_engine_tells_the_fields_of_events_as_the_reference_does(tasks):
    events = [
        {
            "id": "a",
            "at": 5,
            "count": 1,
            "amount": "-0.5",
            "in": {"text": '\u00e9"\\ \U0001f600'},
            "done": True,
        },
        {"id": "b", "at": 6, "count": 2, "amount": None, "in": {}, "done": None},
        {"id": "c", "at": 7, "count": None, "amount": 999_999_999_999, "in": {"text": ""}, "done": "false"},
        {"id": "d", "at": 8, "count": -(1 << 63)},
    ]
    rules = [json.dumps(COUNT | rule).encode() for rule in RULES]
    lines = [json.dumps(each).encode() for each in events]
    reference = Reference(EVERY)
    with InProcessEngine(Settings(EVERY, parallelism=tasks)) as stages:
        stages.run_batch([("control", rule) for rule in rules])
        stages.run_batch([("event", line) for line in lines])
        got = [line.rsplit(',"logTime"', 1)[0] for line in stages.out["alerts"]]
    for rule in rules:
        reference.control(rule)
    for line in lines:
        reference.event(line)
    assert sorted(got) == sorted(alert.to_json().removesuffix("}") for alert in reference.alerts)
    assert sum('"event":' in line for line in got) == 6


@pytest.mark.parametrize("loses", [False, True])
def test_what_did_not_come_tells_the_fields_of_the_event_before(loses):
    rule = {
        "ruleId": 7,
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["userId"],
        "window": "1m",
        "absence": True,
    }
    rule |= {"eventFields": ["action", "amount"]}
    with Clocked(Settings(LOGINS)) as stages:
        stages.log("control", json.dumps(rule).encode(), T0)
        stages.log("events", event(1, 5), T0 + 10)
        if loses:
            stages.lose_memory()
        stages.now = T0 + 2 * MINUTE
        stages.step()
        [alert] = map(json.loads, stages.out["alerts"])
        assert alert["event"] == {"action": "order", "amount": None}
