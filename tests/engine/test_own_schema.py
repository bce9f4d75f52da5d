"""The engine against the reference on events of one's own: text ids, ISO times, paths, booleans, and names that the engine uses too."""

import json
import os
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.inprocess import Entry, InProcessEngine
from lab.model.field import Field
from lab.model.reference import Reference, evaluate_log
from lab.model.rules import parse_message
from lab.model.schema import Schema
from lab.past.backtest import Past
from tests.anylogs import cuts, logs
from tests.engine.test_inprocess import Dated, assert_same, batches
from tests.past.windows import window

EXAMPLES = int(os.environ.get("LAB_EXAMPLES", "50"))  # random logs; `make slow` and `make soak` take more
CHECKED = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
MORE = settings(CHECKED, max_examples=2 * EXAMPLES)

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
    id_fields=("id",),
    time_field="time",
)
RETURNED = replace(VISITS, taken_back="paid is null")
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
            "paid": {"pay": True, "login": False}.get(login["action"]),
            "total": {"amount": login["amount"]},
        }
        return json.dumps(record, ensure_ascii=False).encode()
    except (ValueError, KeyError, TypeError, OverflowError):  # none that is an event
        return line


def named(message: bytes) -> bytes:
    """A rule on logins as one on visits."""
    try:
        given = json.loads(message)
    except ValueError:
        return message
    for name in ("groupingKeyNames", "unique", "eventFields"):
        if given.get(name):
            given[name] = [NAMES.get(field, field) for field in given[name]]
    if given.get("aggregateFieldName") in NAMES:
        given["aggregateFieldName"] = NAMES[given["aggregateFieldName"]]
    for name in ("filter", "when", "where"):
        if isinstance(given.get(name), str):
            words = given[name].replace("action = login", "paid = false")
            given[name] = re.sub(r"\w+", lambda word: NAMES.get(word[0], word[0]), words)
    if isinstance(given.get("filter"), dict):
        given["filter"] = {NAMES.get(field, field): values for field, values in given["filter"].items()}
        if "paid" in given["filter"]:
            values = given["filter"]["paid"]
            given["filter"]["paid"] = False if values == "login" else [True, "false"]
    return json.dumps(given).encode()


def own(log: list[Entry]) -> list[Entry]:
    return [(kind, visit(text) if kind == "event" else named(text)) for kind, text in log]


@CHECKED
@given(data=st.data())
def test_the_engine_gives_the_alerts_of_the_reference_on_own_events(data):
    assert_same_on_own_events(data)


@pytest.mark.slow
@MORE
@given(data=st.data())
def test_the_engine_gives_the_alerts_of_the_reference_on_many_logs_of_own_events(data):
    assert_same_on_own_events(data)


def assert_same_on_own_events(data: st.DataObject) -> None:
    log, schema = own(data.draw(logs(live=True))), data.draw(st.sampled_from([VISITS, RETURNED]))
    at = data.draw(cuts(len(log)))
    with InProcessEngine(Settings(schema, key_groups=4, parallelism=1)) as stages:
        both = Dated(stages, Reference(schema, key_groups=4))
        for number, entries in enumerate(batches(log, at)):
            for kind, text in entries:
                both.take(kind, text, 1000)
            both.cut(1)
            if number % 3 == 2:
                stages.lose_memory()
        both.assert_same_at_end()


def test_an_alert_names_the_text_id_as_it_is_and_past_finds_its_window():
    rule = b'{"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["source", "id"], "aggregatorFunctionType": "COUNT"'
    rule += b', "limitOperatorType": ">=", "limit": 1, "window": "1m"}'
    text = 'x" .é\\'
    record = {"visit": {"id": text, "at": "2024-05-01T10:00:00+09:00"}, "who": {"country": "KR"}}
    line = json.dumps(record).encode()
    with InProcessEngine(Settings(VISITS)) as stages:
        stages.run_batch([("control", rule), ("event", line), ("event", line)])
        (alert,) = map(json.loads, stages.out["alerts"])
    (expected,) = evaluate_log(VISITS, [("control", rule), ("event", line)]).alerts
    assert (alert["eventId"], alert["alertId"]) == (text, expected.alert_id)
    assert alert["alertId"].startswith(f"1.1.{text}.1714525200000.")
    past = Past(VISITS)
    past.add([line])
    parsed = parse_message(rule, VISITS).rule
    assert past.aggregates(parsed).ids.tolist() == [text]
    past.history.apply(rule)
    assert [event["id"] for event in window(past, 1, text)] == [text]


HEARTBEATS = Schema(
    "heartbeats",
    (
        *(Field("device", "string"), Field("seq", "long"), Field("at", "time", unit="ms")),
        *(Field("site", "string"), Field("load", "decimal(5,2)")),
    ),
    id_fields=("device", "seq"),
    time_field="at",
)
PER_SITE = (
    b'{"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["site"], "aggregatorFunctionType": "COUNT", '
)
PER_SITE += b'"limitOperatorType": "<", "limit": 20, "window": "1m"}'


def heartbeat(device: int, seq: int) -> bytes:
    return json.dumps(
        {"device": f"d-{device}", "seq": seq, "at": 1_000_000 + 60_001 * seq, "site": "north"}
    ).encode()


def test_events_that_share_a_number_are_no_duplicates_where_device_and_number_are_the_id():
    """20 devices send heartbeats 1 … 10 in the same moments: with `seq` alone 19 of 20 were duplicates."""
    log = [
        ("control", PER_SITE),
        *(("event", heartbeat(device, seq)) for seq in range(10) for device in range(20)),
    ]
    log += log[-20:]  # these are duplicates
    reference = evaluate_log(HEARTBEATS, log)
    assert (reference.counts["evaluated"], reference.counts["duplicates"]) == (200, 20)
    counted = [int(alert.aggregate) for alert in reference.alerts]
    assert counted == [*range(1, 20)] * 10, "the 20th of each moment makes the site complete"
    with InProcessEngine(Settings(HEARTBEATS)) as stages:
        for number, entries in enumerate(batches(log, [30, 100, 205])):
            stages.run_batch(entries)
            if number % 2:
                stages.lose_memory()
        assert_same(stages.out, reference)
        alert = json.loads(stages.out["alerts"][0])
    assert alert["eventId"] == ["d-0", 0] and alert["alertId"].startswith('1.1.["d-0",0].1000000.')


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"seq": 1}, "device: nothing, expected a part of the id of the event"),
        ({"device": "d", "seq": None}, "seq: nothing, expected a part of the id of the event"),
        ({"device": "", "seq": 1}, 'device: "", expected a part of the id of the event, 1 to 200 characters'),
        ({"device": "d", "seq": 1, "site": "x" * 2_001}, "2,001 characters, expected at most 2,000"),
    ],
)
def test_a_part_of_the_id_that_is_missing_or_a_text_too_long_is_a_dead_letter_that_names_it(record, reason):
    log: list[Entry] = [("event", heartbeat(1, n)) for n in range(3)]
    log.insert(1, ("event", json.dumps(record | {"at": 5}).encode()))
    reference = evaluate_log(HEARTBEATS, log)
    assert reason in reference.dead_letters[0]["reason"]
    with InProcessEngine(Settings(HEARTBEATS)) as stages:
        stages.run_batch(log)
        assert_same(stages.out, reference)


def test_the_longest_text_is_evaluated_and_an_alert_of_the_longest_group_fits_a_record_of_kafka():
    names = [f"{'é' * 98}{n:02}" for n in range(16)]
    fields = (
        Field("id", "string"),
        Field("at", "time", unit="ms"),
        *(Field(name, "string") for name in names),
    )
    schema = Schema("long", fields, ("id", *names[:7]), "at")
    event = {
        "id": "\x01" * 200,
        "at": 1,
        **dict.fromkeys(names, "😀" * 2_000),
        **dict.fromkeys(names[:7], "😀" * 200),
    }
    rule = {"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": names, "aggregatorFunctionType": "COUNT"}
    rule |= {"limitOperatorType": ">", "limit": 0, "window": "1m"}
    log = [("control", json.dumps(rule).encode()), ("event", json.dumps(event, ensure_ascii=False).encode())]
    reference = evaluate_log(schema, log)
    with InProcessEngine(Settings(schema)) as stages:
        stages.run_batch(log)
        assert_same(stages.out, reference)
        (line,), (alert,) = stages.out["alerts"], reference.alerts
    assert dict(alert.group) == {name: event[name] for name in names}
    assert len(line) + len(alert.key.encode()) < 500_000


def test_past_finds_the_window_of_an_id_of_several_fields():
    past, rule = Past(HEARTBEATS), parse_message(PER_SITE, HEARTBEATS).rule
    past.add([heartbeat(device, 1) for device in (1, 2, 3)])
    assert past.aggregates(rule).ids.tolist() == ['["d-1",1]', '["d-2",1]', '["d-3",1]']
    past.history.apply(PER_SITE)
    assert [event["device"] for event in window(past, rule.rule_id, ("d-2", 1))] == ["d-1", "d-2"]


PARCELS = Schema(
    "parcels",
    (
        Field("id", "long"),
        Field("at", "long"),
        *(Field("pieces", "decimal(9,0)"), Field("weight", "decimal(18,8)")),
    ),
    ("id",),
    "at",
)


def test_past_finds_the_window_of_a_group_of_decimals_with_scale_0():
    past = Past(PARCELS)
    past.add([b'{"id": 1, "at": 5, "pieces": 7}', b'{"id": 2, "at": 6, "pieces": 7}'])
    past.history.apply("1: COUNT(events) per pieces over 1 min >= 2")
    assert [event["id"] for event in window(past, 1, 2)] == [1, 2]


def test_the_example_of_duplicates_shows_decimals_as_alerts_do():
    event = "event", b'{"id": 1, "at": 5, "pieces": 7, "weight": 0.00000001}'
    log = [
        ("control", f"{n}: SUM({name}) over 1 h > 5".encode()) for n, name in ((1, "pieces"), (2, "weight"))
    ]
    (tally,) = evaluate_log(PARCELS, [*log, event, event]).tallies.by_route.values()
    with InProcessEngine(Settings(PARCELS)) as stages:
        stages.run_batch([*log, event, event])
        (stats,) = map(json.loads, stages.out["stats"])
    (route,) = stats["routes"].values()
    assert route["example"]["records"] == 2 * [{"pieces": "7", "weight": "0.00000001"}]
    assert tally.example == route["example"]


@pytest.mark.parametrize("name", ["in_iso", "at"])
def test_a_rule_cannot_filter_by_a_time(name):
    schema = Schema("x", (Field("id", "long"), Field(name, "time", unit="iso")), ("id",), name)
    rule = {"ruleId": 1, "ruleState": "ACTIVE", "filter": {name: "2024-05-01T10:00:00Z"}, "window": "1m"}
    with pytest.raises(ValueError, match=f"filter.{name}: .*, expected a field that is no time"):
        parse_message(json.dumps(rule), schema)
