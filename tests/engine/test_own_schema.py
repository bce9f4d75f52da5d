"""The engine against the reference on events of one's own: text ids, ISO times, paths, booleans, and names that the engine uses too."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.apps.backtest import Past
from lab.engine.settings import Settings
from lab.engine.stages import Entry, Stages
from lab.model.field import Field
from lab.model.reference import run
from lab.model.rules import parse_message
from lab.model.schema import Schema
from tests.engine.test_stages import CHECKED, assert_same, batches
from tests.strategies import cuts, logs

VISITS = Schema(
    "visits",
    (
        Field("id", "string", path=("visit", "id")),
        Field("time", "time", path=("visit", "at"), unit="iso"),
        Field("logTime", "long", path=("who", "user")),
        Field("source", "string", path=("who", "country")),
        Field("first", "string"),
        Field("paid", "boolean"),
        Field("keyGroup", "decimal(18,2)", path=("total", "amount")),
    ),
    id_field="id",
    time_field="time",
)
NAMES = {"eventId": "id", "eventTime": "time", "userId": "logTime", "country": "source", "ip": "first"}
NAMES |= {"action": "paid", "amount": "keyGroup"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def visit(line: bytes) -> bytes:
    """A login of `tests.strategies` as a visit; a broken record stays one."""
    try:
        login = json.loads(line, parse_float=str)
        at = EPOCH + timedelta(milliseconds=login["eventTime"])
        record = {
            "visit": {"id": f'V-{login["eventId"]}"é', "at": at.isoformat()},
            "who": {"user": login["userId"], "country": login["country"]},
            "first": login["ip"],
            "paid": login["action"] == "pay",
            "total": {"amount": login["amount"]},
        }
        return json.dumps(record, ensure_ascii=False).encode()
    except (ValueError, KeyError):
        return line


def named(message: bytes) -> bytes:
    """A rule on logins as one on visits."""
    try:
        given = json.loads(message)
    except ValueError:
        return message
    for name in ("groupingKeyNames", "unique"):
        if given.get(name):
            given[name] = [NAMES[field] for field in given[name]]
    if given.get("aggregateFieldName") in NAMES:
        given["aggregateFieldName"] = NAMES[given["aggregateFieldName"]]
    if given.get("filter"):
        given["filter"] = {NAMES[field]: values for field, values in given["filter"].items()}
        if "paid" in given["filter"]:
            values = given["filter"]["paid"]
            given["filter"]["paid"] = False if values == "login" else [True, "false"]
    return json.dumps(given).encode()


def own(log: list[Entry]) -> list[Entry]:
    return [(kind, visit(text) if kind == "event" else named(text)) for kind, text in log]


@CHECKED
@given(data=st.data())
def test_the_engine_gives_the_alerts_of_the_reference_on_own_events(data):
    log = own(data.draw(logs()))
    at = data.draw(cuts(len(log)))
    reference = run(VISITS, log, key_groups=4)
    with Stages(Settings(VISITS, key_groups=4, parallelism=1)) as stages:
        for number, entries in enumerate(batches(log, at)):
            stages.batch(entries)
            if number % 3 == 2:
                stages.lose_memory()
        assert_same(stages, reference)


def test_an_alert_names_the_text_id_as_it_is_and_past_finds_its_window():
    rule = b'{"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["source", "id"], "aggregatorFunctionType": "COUNT"'
    rule += b', "limitOperatorType": ">=", "limit": 1, "window": "1m"}'
    text = 'x" .é\\'
    record = {"visit": {"id": text, "at": "2024-05-01T10:00:00+09:00"}, "who": {"country": "KR"}}
    line = json.dumps(record).encode()
    with Stages(Settings(VISITS)) as stages:
        stages.batch([("control", rule), ("event", line), ("event", line)])
        (alert,) = map(json.loads, stages.out["alerts"])
    (expected,) = run(VISITS, [("control", rule), ("event", line)]).alerts
    assert (alert["eventId"], alert["alertId"]) == (text, expected.alert_id)
    assert alert["alertId"].startswith(f"1.1.{text}.1714525200000.")
    past = Past(VISITS)
    past.add([line])
    parsed = parse_message(rule, VISITS).rule
    assert past.aggregates(parsed).ids.tolist() == [text]
    assert [event["id"] for event in past.window(parsed, text)] == [text]


@pytest.mark.parametrize("name", ["in_iso", "at"])
def test_a_rule_cannot_filter_by_a_time(name):
    schema = Schema("x", (Field("id", "long"), Field(name, "time", unit="iso")), "id", name)
    rule = {"ruleId": 1, "ruleState": "ACTIVE", "filter": {name: "2024-05-01T10:00:00Z"}, "window": "1m"}
    with pytest.raises(ValueError, match=f"filter.{name}: .*, expected a field that is no time"):
        parse_message(json.dumps(rule), schema)
