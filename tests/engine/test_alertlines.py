"""Alerts made at once are those made one by one, byte for byte."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.inprocess import InProcessEngine
from lab.engine.windows import alertlines
from lab.model.aggregates import AGGREGATES
from lab.model.reference import evaluate_log
from lab.model.schema import LOGINS
from tests.examples import examples

KEYS = ["ip", "userId", "amount", "country"]
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


TIMES = re.compile(r',"logTime":[0-9]+(,"alertTime":[0-9]+)?')


@pytest.mark.parametrize("worth", [10**9, 0], ids=["one by one", "at once"])
@settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(events(), min_size=1, max_size=12, unique_by=lambda event: event["eventId"]), st.data())
def test_lines_are_those_of_each_alert_by_itself(monkeypatch, worth, log, data):
    ids = data.draw(
        st.sampled_from([("eventId",), ("country",), ("country", "eventId"), ("eventId", "userId")])
    )
    schema = replace(LOGINS, id_fields=ids)
    keys = data.draw(st.lists(st.sampled_from(KEYS), unique=True))
    orders = [keys, keys[::-1]]
    functions = data.draw(st.lists(st.sampled_from(list(AGGREGATES)), min_size=1, max_size=6))
    rules = []
    for number, function in enumerate(functions, 1):
        texts = {"UNIQUE_COUNT": "ip, country", "SEQUENCE": "ip = a, action = pay"}
        of = texts.get(function) or data.draw(st.sampled_from(["amount", "userId"]))
        per = f" per {', '.join(orders[number % 2])}" if keys else ""
        limit = data.draw(st.sampled_from(["-100000000000000000000", "0.5"]))
        rules.append(("control", f"{number}: {function}({of}){per} over 1 h > {limit}".encode()))
    monkeypatch.setattr(alertlines, "NOT_WORTH_ARROW", worth)
    entries = [*rules, *(("event", json.dumps(event).encode()) for event in log)]
    with InProcessEngine(Settings(schema, parallelism=1)) as engine:
        engine.run_batch(entries)
        lines = [TIMES.sub("", line) for line in engine.out["alerts"]]
        assert all(TIMES.search(line) for line in engine.out["alerts"])
    assert sorted(lines) == sorted(alert.to_json() for alert in evaluate_log(schema, entries).alerts)
