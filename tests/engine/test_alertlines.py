"""Alerts made at once are those made one by one, byte for byte."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.engine.compiled import layout
from lab.engine.records.columns import LOG_TIME
from lab.engine.windows import alertlines
from lab.engine.windows.alertlines import alert_lines, first_row_of_each_alert
from lab.model.aggregates import AGGREGATES
from lab.model.reference import evaluate_log
from lab.model.schema import LOGINS
from tests.engine.direct import Direct
from tests.examples import examples

KEYS = ["ip", "userId", "amount", "country"]
NOW = 1_700_000_000_000
DIGITS = ["0.01", "-0.01", "33.33", "9999999999999999.99", "-9999999999999999.99", "1000000.07"]


@st.composite
def events(draw):
    return {
        "eventId": draw(st.integers(0, 1 << 62)),
        "eventTime": draw(st.integers(10**9, 10**9 + 1000)),
        "userId": draw(st.sampled_from([0, -1, (1 << 63) - 1, -(1 << 63)])),
        "ip": draw(
            st.one_of(
                st.sampled_from(["10.0.0.1", "é" * 1999, "é" * 2000, "a;userId=7"]), st.text(max_size=4)
            )
        ),
        "country": draw(st.sampled_from(["KR", 'a"\\', "Å\n"])),
        "amount": draw(st.sampled_from(DIGITS)),
    }


@pytest.mark.parametrize("one_by_one", [True, False], ids=["one by one", "at once"])
@settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(events(), min_size=1, max_size=12, unique_by=lambda event: event["eventId"]), st.data())
def test_lines_are_those_of_each_alert_by_itself(tmp_path_factory, monkeypatch, one_by_one, log, data):
    ids = data.draw(
        st.sampled_from([("eventId",), ("country",), ("country", "eventId"), ("eventId", "userId")])
    )
    schema = replace(LOGINS, id_fields=ids)
    tmp_path: Path = tmp_path_factory.mktemp("lines")
    keys = data.draw(st.lists(st.sampled_from(KEYS), unique=True))
    orders = [keys, keys[::-1]]
    functions = data.draw(st.lists(st.sampled_from(list(AGGREGATES)), min_size=1, max_size=6))
    rules = [
        {
            "ruleId": number,
            "ruleState": "ACTIVE",
            "groupingKeyNames": orders[number % 2],
            "aggregateFieldName": data.draw(st.sampled_from(["amount", "userId"])),
            "aggregatorFunctionType": function,
            "unique": ["ip", "country"] if function == "UNIQUE_COUNT" else None,
            "limitOperatorType": ">",
            "limit": data.draw(st.sampled_from(["-100000000000000000000", "0.5"])),
            "window": "1h",
        }
        for number, function in enumerate(functions, 1)
    ]
    control = [
        ("control", json.dumps({k: v for k, v in rule.items() if v is not None}).encode()) for rule in rules
    ]
    lines = [("event", json.dumps(event).encode()) for event in log]
    log_times = {event["eventTime"]: data.draw(st.sampled_from([0, 1, NOW])) for event in log}
    reference = evaluate_log(schema, control + lines, key_groups=1)
    expected = []
    for alert in reference.alerts:
        if log_time := log_times[alert.event_time]:
            alert = replace(alert, log_time=log_time, alert_time=NOW + 1)
        expected.append((alert.key, alert.to_json()))
    direct = Direct(schema, tmp_path, 1, "evaluate", 300_000)
    for _, text in control:
        direct.control(text)
    (held,) = direct.stores.values()
    columns = direct.columns([LOGINS.parse(line) for _, line in lines], held)
    columns[LOG_TIME] = np.array([log_times[event["eventTime"]] for event in log])
    _, alerts = held.evaluate(columns, 0, 0)
    monkeypatch.setattr(alertlines, "NOT_WORTH_ARROW", len(alerts) if one_by_one else 0)
    first = first_row_of_each_alert(held, alerts)
    assert list(zip(*alert_lines(held, columns, alerts, first, NOW + 1))) == expected


def test_without_alerts_there_are_no_lines(tmp_path):
    direct = Direct(LOGINS, tmp_path, 1, "evaluate", 0)
    direct.control(b"1,(active),(userId),,(amount),(SUM),(>),(50),(20)")
    (held,), none = direct.stores.values(), np.empty((0, layout.DENOMINATOR + 1), np.int64)
    keys, lines = alert_lines(held, {}, none, first_row_of_each_alert(held, none), 0)
    assert (keys, list(lines)) == ([], [])
