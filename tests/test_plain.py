"""The kit in a page: model, stream, backtest, studio and widgets without NumPy, pandas, pyarrow, Numba, PySpark, and without threads."""

import json
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lab.engine.checkpoint.settings import Settings
from lab.model.alerts import Alert, parse_alert_line
from lab.model.keygroups import digest, key_group_of, key_groups_of
from lab.model.patterns import NOT_HERE
from lab.model.reference import evaluate_log
from lab.model.routestats import COUNTS
from lab.model.schema import PAYMENTS
from lab.running.referenceengine import ReferenceEngine
from lab.running.report import StatsReport
from lab.stream.simulate import payments, to_json
from tests.model.test_taken_back import standing

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
RULE = "1,(active),(paymentType),,(paymentAmount),(SUM),(>),(0),(1)"
ABSENT = """
import sys, threading
from importlib.machinery import PathFinder

class Plain(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        absent = name.partition(".")[0] in {"numpy", "pandas", "pyarrow", "numba", "llvmlite", "pyspark", "py4j", "re2"}
        return None if absent else super().find_spec(name, path, target)

def no_thread(thread):
    raise RuntimeError("can't start new thread")

sys.meta_path = [Plain if finder is PathFinder else finder for finder in sys.meta_path]
sys.platform, threading.Thread.start = "emscripten", no_thread
"""


def in_a_page(program: str) -> list[str]:
    """What a program prints in an interpreter that lacks what a page lacks."""
    done = subprocess.run(
        [sys.executable, "-c", ABSENT + program],
        check=False,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@given(
    st.lists(
        INT64
        | st.text(max_size=20)
        | st.decimals(places=2, allow_nan=False, allow_infinity=False, max_value=10**9, min_value=-(10**9)),
        max_size=4,
    ),
    st.integers(1, 1 << 15),
)
def test_a_key_group_is_the_same_with_and_without_arrays(group, key_groups):
    numbers: list[int] = []
    for value in group:
        scaled = int(value.scaleb(2)) if isinstance(value, Decimal) else value
        numbers += digest(scaled) if isinstance(scaled, str) else [scaled]
    columns = [np.array([number], np.int64) for number in numbers]
    assert key_group_of(tuple(group), key_groups) == key_groups_of(columns, 1, key_groups)[0]


def test_the_reference_and_a_backtest_run():
    program = f"""
from lab import PAYMENTS, Past, Reference, parse_message
from lab.stream.simulate import payments, to_json
lines = [to_json(event).encode() for event in payments(seed=1, events=500)]
reference, past, rule = Reference(PAYMENTS), Past(PAYMENTS), "{RULE}".replace("(0)", "(50)")
reference.control(rule)
for line in lines:
    reference.event(line)
assert past.add(lines) == 500
found = past.aggregates(parse_message(rule, PAYMENTS).rule)
print(len(reference.alerts), found.alert_mask(parse_message(rule, PAYMENTS).rule, 50).sum())
"""
    alerts, of_backtest = in_a_page(program)[0].split()
    assert int(alerts) == int(of_backtest) > 0


def test_a_regular_expression_is_refused_where_there_is_no_re2():
    program = """
from lab import LOGINS, Reference
print(Reference(LOGINS).control("1: COUNT(events) per userId over 1 s >= 1, when device matches bot")["reason"])
"""
    (reason,) = in_a_page(program)
    assert reason.startswith(f"{NOT_HERE} (at ")


def test_each_widget_stands_and_the_control_room_gets_alerts():
    """Each but the fault room, which runs the engine's own protocol."""
    program = f"""
import asyncio, lab
from lab.widgets.backtest import Backtest
from lab.widgets.ruleform import RuleForm

async def main():
    await asyncio.sleep(0)
    scopes = lab.AlertFeed(), lab.KeyGroupScope(), lab.LatencyScope(), lab.RuleDesk(), lab.WindowScope(), lab.ControlRoomLauncher()
    Backtest(lab.Past(lab.PAYMENTS)), RuleForm(lab.PAYMENTS, print), lab.pictures.bars({{"a": [1]}}), lab.figure()
    with lab.Studio(rate=200, rules=["{RULE}"]) as studio:
        room = lab.ControlRoom(studio)
        assert studio.ask("{RULE}".replace("1,", "2,", 1))["status"] == "accepted"
        for _ in range(200):
            await asyncio.sleep(0.05)
            if studio.fired[1] and studio.fired[2] and len(studio.past):
                break
        room.status.refresh_now()
        print(room.status.kind, room.status.text, len(room.parts["Rules"].table.rows))
        room.parts["Rules"].backtest.show(studio.book.rules[1])
        print(room.parts["Rules"].backtest.said.value)
        room.end()
asyncio.run(main())
"""
    told, tried = in_a_page(program)
    assert told == "good the engine runs in this kernel, without Spark 2"
    assert "would have raised" in tried and "(0 events)" not in tried


def test_the_engine_of_a_page_gives_the_alerts_of_the_reference(logs):
    rule, log_time = RULE.replace("(0)", "(5000)"), 1_800_000_000_000
    log = [
        ("control", rule.encode()),
        *(("event", to_json(e).encode()) for e in payments(seed=3, events=900)),
    ]
    log += [("event", b"{broken"), ("control", rule.replace("1,", "2,", 1).encode()), *log[100:300]]
    for number, (kind, line) in enumerate(log):
        logs.log("events" if kind == "event" else kind).append([line], log_time + number)
    with patch("lab.running.referenceengine.now_ms", lambda: log_time + len(log)):
        engine, report = ReferenceEngine(logs, Settings(), 0.1), StatsReport(logs.log("stats"))
        assert [engine.step() for _ in range(7)] == [200] * 5 + [103, 0]
    reference = evaluate_log(PAYMENTS, log)
    found = [Alert.from_json(line) for line in logs.log("alerts").read()]
    assert [replace(alert, log_time=None, alert_time=None) for alert in found] == reference.alerts != []
    assert all(alert.log_time < alert.alert_time for alert in found)
    report.read()
    assert {name: report.total[name] for name in COUNTS} == reference.counts
    assert [json.loads(line)["status"] for line in logs.log("acks").read()] == ["accepted"] * 2
    assert len(logs.log("deadLetters").read()) == 1


def test_of_the_lines_of_a_page_s_engine_about_an_event_the_last_one_counts(logs):
    settings, logged = Settings(replace(PAYMENTS, taken_back="paymentType = back")), 1_700_000_000_000
    logs.log("control").append([b"1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)"], logged)
    event = "1,2013-01-01 00:00:00,25,12,{},{}"
    logs.log("events").append(
        [event.format(*each) for each in (("CSH", 60), ("back", 0), ("CSH", 70))], logged + 1
    )
    ReferenceEngine(logs, settings, 0.1).step()
    told = list(map(parse_alert_line, logs.log("alerts").read()))
    assert [Alert.from_json(line).aggregate for line in standing(told).values()] == [70] and len(told) == 3


def test_the_engine_of_a_page_tells_what_does_not_come_though_nothing_comes(logs):
    rule = b'1: NO(events where paymentType = "CSH") per payeeId within 1 min after, when paymentType = "CRD"'
    logged = 1_800_000_000_000
    logs.log("control").append([rule], logged)
    # a payment in cash before one by card ends no wait
    logs.log("events").append(
        ["1,2013-01-01 00:00:00,25,12,CRD,5", "2,2013-01-01 00:00:01,26,12,CSH,5"], logged + 1
    )
    logs.log("events").append(["3,2013-01-01 00:00:02,26,12,CRD,5"], logged + 2)
    logs.log("events").append(["4,2013-01-01 00:00:03,26,12,CSH,5"], logged + 3)
    engine = ReferenceEngine(logs, Settings(), 0.1)
    for at, expected in ((10, []), (60_001, []), (60_002, [1]), (200_000, [1])):
        with patch("lab.running.referenceengine.now_ms", lambda at=at: logged + at):
            engine.step()
        alerts = [Alert.from_json(line) for line in logs.log("alerts").read()]
        assert [alert.event_id for alert in alerts] == expected
    assert alerts[0].log_time == logged + 60_001
