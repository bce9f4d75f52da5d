"""A studio in the kernel: the engine's stages on a live stream, without Java."""

import json
import subprocess
import sys
import time
from threading import active_count

import pytest

from lab.apps.studio import Studio
from lab.engine.ends import FileLogs
from lab.engine.stages import Stages
from lab.model.reference import Reference
from lab.model.schema import PAYMENTS

RULE = "1,(active),(paymentType),,(paymentAmount),(SUM),(>),(100),(1)"


def wait_until(studio: Studio, done, timeout_s: float = 20) -> None:
    deadline = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < deadline, studio.state()
        time.sleep(0.05)
        studio.read()


def test_its_alerts_are_those_of_the_reference_over_its_logs():
    with Studio(rate=500, rules=[RULE], burst_every_s=1) as studio:
        wait_until(studio, lambda: len(studio.alerts) > 200)
        studio.player.stop()
        wait_until(studio, lambda: studio.lag == 0 and studio.records == studio.player.sent)
        reference = Reference(PAYMENTS)
        reference.control(RULE)
        for line in studio.logs.log("events").read():
            reference.event(line.encode())
        assert [a.alert_id for a in reference.alerts] and sorted(a.alert_id for a in studio.alerts) == sorted(
            a.alert_id for a in reference.alerts
        )
        assert studio.fired[1] == len(reference.alerts)


def test_a_rule_is_answered_and_stands_in_the_book():
    with Studio(rate=100) as studio:
        assert studio.ask(RULE)["version"] == 1
        assert studio.ask({"ruleId": 1, "ruleState": "PAUSE"})["ruleState"] == "PAUSE"
        assert studio.ask({"ruleId": 9, "ruleState": "PAUSE"})["status"] == "rejected"
        assert [rule.state for rule in studio.book.sorted()] == ["PAUSE"]


def test_a_message_of_several_lines_is_one_message():
    with Studio(rate=100) as studio:
        rule = {"ruleId": 2, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "window": "1m"}
        rule |= {"aggregatorFunctionType": "COUNT", "limitOperatorType": ">", "limit": 5}
        assert studio.ask(json.dumps(rule, indent=1))["status"] == "accepted"


def test_what_an_engine_that_died_says_is_shown(monkeypatch):
    with Studio(rate=100) as studio:
        monkeypatch.setattr(Stages, "step", lambda stages: 1 / 0)
        wait_until(studio, lambda: studio.state()[0] == "bad")
        assert studio.state()[1] == "the engine ended: division by zero"


def test_a_stream_that_died_is_shown(monkeypatch):
    with Studio(rate=100) as studio:
        monkeypatch.setattr(studio.player, "step", lambda: 1 / 0)
        wait_until(studio, lambda: studio.state()[0] == "bad")
        assert studio.state()[1] == "the stream ended: division by zero"


def test_nothing_is_left_behind_and_a_new_studio_closes_the_one_before():
    before = active_count()
    first = Studio(rate=100)
    folder = first.logs.folder
    second = Studio(rate=100)
    assert first.state() == ("warning", "stopped") and not folder.exists()
    second.close()
    second.close()
    assert active_count() == before and not second.logs.folder.exists()


def test_an_engine_elsewhere_is_watched_by_its_logs(tmp_path):
    with pytest.raises(FileNotFoundError, match="events: there is no such log"):
        Studio(engine="elsewhere", logs=FileLogs(tmp_path / "typo"))
    assert not (tmp_path / "typo").exists()
    FileLogs(tmp_path).create()
    FileLogs(tmp_path).log("events").append([b'{"transactionId":7,"eventTime":7}'])
    with Studio(engine="elsewhere", logs=FileLogs(tmp_path)) as watching:
        watching.read()
        assert len(watching.past) == 1 and watching.lag == watching.records == 0
        watching.logs.log("events").append([b'{"transactionId":1,"eventTime":1}'])
        watching.read()
        assert watching.records == watching.lag == 1
        stats = {
            "batch": 0,
            "keyGroups": [0, 7],
            "stored": {},
            "records": 1,
            "heldEvents": 0,
            "stateBytes": 8,
            "times": {},
        }
        watching.logs.log("stats").append([json.dumps(stats)])
        watching.read()
        assert watching.lag == 0 and watching.report.state_bytes == 8
        assert watching.state() == ("good", f"the engine runs elsewhere, on {tmp_path}")
        assert (tmp_path / "events").exists()
    assert (tmp_path / "events").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"engine": "flink"}, "engine: 'flink', expected one of kernel, spark, kafka, elsewhere"),
        ({"engine": "elsewhere"}, "logs: None, expected those of an engine elsewhere"),
    ],
)
def test_a_wrong_argument_is_named_with_what_would_be_right(arguments, said):
    with pytest.raises(ValueError, match=said):
        Studio(**arguments)


@pytest.mark.slow
def test_the_same_runs_on_spark_and_a_query_that_ends_is_shown():
    script = f"""
import time
from lab.apps.studio import Studio
with Studio(engine="spark", rate=200, rules=[{RULE!r}]) as studio:
    deadline = time.monotonic() + 90
    while len(studio.alerts) < 100 and time.monotonic() < deadline:
        time.sleep(0.2)
        studio.read()
    print(len(studio.alerts) >= 100, studio.state())
    studio._engine.query.stop()
    print(studio.state())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=170
    )
    running, ended = done.stdout.splitlines()
    assert running == "True ('good', 'the engine runs on Spark, on files')", done.stderr
    assert ended == "('bad', 'the engine ended: its query was stopped')"
