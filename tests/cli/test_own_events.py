"""The way of docs/own-events.md from a file of events to alerts, command by command, on its CSV file and on nested orders."""

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import lab
from lab.cli.main import FAILED, OK, build_parser, main
from lab.cli.options import settings_from_options, target_from_options
from lab.engine.checkpoint.settings import Settings, saved_schema
from lab.model.reference import evaluate_log
from lab.model.schema import Schema
from lab.past.replay import read_rules
from lab.sources.sources import source_at
from tests.orders import orders
from tests.waiting import wait_until

PAGE = (Path(__file__).parents[2] / "docs" / "own-events.md").read_text().partition("\n## 5")[0]
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [
    line for _, block in BLOCKS for line in block.splitlines() if line.startswith((".venv/bin/lab", "echo"))
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("orders.jsonl").write_text("".join(f"{line}\n" for line in orders(2_000)))
    return tmp_path


@pytest.mark.parametrize("nested", [False, True])
def test_from_my_file_of_events_to_my_rules_alerts(spark, folder, capsys, nested):
    """The commands as a shell splits them, in this process: they share its Spark. Nested orders have a longer way to the same names."""

    def lab_says(command: str) -> str:
        own = command.replace("orders.csv", "orders.jsonl") if nested else command
        assert main(shlex.split(own.removeprefix(".venv/bin/lab"))) == OK, capsys.readouterr().err
        return capsys.readouterr().out

    infer, write, backtest, replay = COMMANDS
    (make,) = (block for _, block in BLOCKS if block.startswith(".venv/bin/python"))
    subprocess.run(make.replace(".venv/bin/python", shlex.quote(sys.executable)), shell=True, check=True)
    events = Path("orders.jsonl" if nested else "orders.csv").read_text()
    lab_says(infer)
    subprocess.run(write, shell=True, check=True)
    tried = lab_says(backtest)
    summary = json.loads(lab_says(replay).splitlines()[-1])
    alerts = Path("alerts.jsonl").read_text()
    if not nested:
        shown = "\n".join(block for _, block in BLOCKS)
        toml = next(block for kind, block in BLOCKS if kind == "toml")  # what `infer` writes
        assert all(part.strip() in Path("orders.toml").read_text() for part in toml.split("\n\n"))
        assert events.partition("A-2,")[0] in shown and alerts.partition("\n")[0] in shown
        assert (
            all(line in shown for line in tried.splitlines()[:4])
            and "first (times in Europe/Berlin):\n" in tried
        )
        lines = list(source_at("orders.csv", schema=lab.schema("orders.toml")).live_log_lines())
    else:
        assert (
            'path = "order.total.amount"' in PAGE
            and 'path = "order.total.amount"' in Path("orders.toml").read_text()
        )
        lines = events.encode().splitlines()
    log = [("control", read_rules("rules.txt")[0]), *(("event", line) for line in lines)]
    expected = [alert.to_json() for alert in evaluate_log(lab.schema("orders.toml"), log).alerts]
    assert sorted(alerts.splitlines()) == sorted(expected)
    assert f"alerts: {len(expected):,}, " in tried
    assert summary["alerts"] == len(expected) > 20 and summary["dead_letters"] == 0
    assert json.loads(expected[0])["eventId"].startswith("A-")


RULE = (
    '{"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["city"], "aggregatorFunctionType": "COUNT", '
)
RULE += '"limitOperatorType": ">", "limit": 3, "window": "1m"}'


def by_reference(file: str) -> list[str]:
    return ["replay", file, "--schema", "orders.toml", "--rules", "rules.txt", "--engine", "reference"]


def infer() -> Schema:
    assert main(["infer", "orders.jsonl", "--out", "orders.toml"]) == OK
    return lab.schema("orders.toml")


def test_the_checkpoint_keeps_the_schema_so_that_rules_need_no_option(folder, capsys):
    Settings(infer()).bind(Path("logs/checkpoint"))
    assert main(["rules", "add", RULE, "--logs", "logs", "--timeout", "0"]) == OK
    assert main(["rules", "pause", "1", "--logs", "logs", "--timeout", "0"]) == OK
    assert main(["rules", "list", "--logs", "logs"]) == OK
    assert capsys.readouterr().out.endswith("v2   PAUSE   COUNT(events) per city over 1 min > 3\n")
    options = build_parser().parse_args(["run", "--logs", "logs"])
    assert settings_from_options(options, target_from_options(options)).schema == lab.schema("orders.toml")


def test_a_checkpoint_goes_on_with_a_new_field_and_names_the_one_that_differs(folder):
    before, checkpoint = infer(), Path("logs/checkpoint")
    Settings(before).bind(checkpoint)
    words = replace(before, name="shop", fields=tuple(replace(field, doc="new") for field in before.fields))
    more = replace(words, fields=(*words.fields, lab.Field("note", "string")))
    for schema in (words, more):
        Settings(schema).bind(checkpoint)
        assert saved_schema(checkpoint) == schema
    with pytest.raises(
        ValueError, match="schema orders: there is no field note any more, in checkpoint .* of shop"
    ):
        Settings(before).bind(checkpoint)
    assert saved_schema(checkpoint) == more


def test_a_wrong_path_is_warned_of_before_the_replay(folder, capsys):
    infer()
    Path("rules.txt").write_text(RULE)
    path = Path("orders.toml")
    path.write_text(path.read_text().replace("customer.address.city", "customer.adress.city"))
    assert main(by_reference("orders.jsonl")) == OK
    err = capsys.readouterr().err
    assert "percent" not in err  # which only later records have
    assert "lab: warning: field city: none of 1,000 records has customer.adress.city, did you mean" in err


def test_dead_letters_name_the_path(folder, capsys):
    infer()
    Path("rules.txt").write_text(RULE)
    Path("bad.jsonl").write_text('{"order": {"id": "A", "placedAt": "yesterday"}}\n')
    assert main(by_reference("bad.jsonl")) == FAILED
    err = capsys.readouterr().err
    assert (
        'bad.jsonl:1: placedAt (order.placedAt): "yesterday", expected a time of ISO 8601 with its zone'
        in err
    )


def test_a_studio_plays_own_events_simulated_or_recorded_and_alerts_as_the_reference(folder):
    schema = infer()
    for stream in ({"rate": 400, "burst_every_s": 1}, {"rate": 1_000, "events": "orders.jsonl"}):
        with lab.Studio(schema, rules=[RULE], **stream) as studio:
            wait_until(lambda: studio.read() or len(studio.alerts) >= 50)
            assert studio.state()[0] == "good", studio.state()
            studio.player.stop()
            wait_until(lambda: studio.read() or not studio.lag)
            lines = [line.encode() for line in studio.logs.log("events").read()]
            alerts = studio.logs.log("alerts").read()
        log = [("control", RULE), *(("event", line) for line in lines)]
        expected = {alert.alert_id for alert in evaluate_log(schema, log).alerts}
        assert {json.loads(line)["alertId"] for line in alerts} == expected and len(expected) >= 50
        assert studio.letters.total == 0 and studio.past.aggregates(studio.book.rules[1]).values.max() > 3


def test_a_studio_watches_own_events_where_an_engine_runs(folder):
    infer()
    logs = lab.FileLogs(folder / "logs")
    logs.create()
    with lab.Studio("orders.toml", "elsewhere", logs=logs) as studio:
        logs.log("events").append(Path("orders.jsonl").read_bytes().splitlines()[:50])
        studio.publish(RULE)
        studio.read()
        assert len(studio.past) == 50 and studio.past.aggregates(studio.book.rules[1]).values.max() > 3


def test_own_events_are_simulated_and_recorded_ones_played_as_they_are(folder, capsys):
    infer()
    simulate = ["simulate", "--rate", "500", "--seconds", "1"]
    assert main([*simulate, "--schema", "orders.toml", "--to", "made/events", "--bursts", "0"]) == OK
    assert main(["infer", "made/events"]) == OK
    assert "id order_id, time placedAt (iso)" in capsys.readouterr().err
    lines = lab.FileLog("made/events").read()
    events = [lab.schema("orders.toml").parse(line.encode()) for line in lines]
    assert len(events) == 500 and {event["city"] for event in events} == {"Seoul", "Busan", "Köln"}
    assert main(["simulate", "--events", "orders.jsonl", "--rate", "5000", "--to", "played/events"]) == OK
    assert lab.FileLog("played/events").read() == Path("orders.jsonl").read_text().splitlines()
    Path("gaps.jsonl").write_text(Path("orders.jsonl").read_text().replace("\n", "\n\n  \n", 3) + "\n\n")
    assert main(["simulate", "--events", "gaps.jsonl", "--rate", "5000", "--to", "gaps/events"]) == OK
    assert lab.FileLog("gaps/events").read() == Path("orders.jsonl").read_text().splitlines()
    assert main(["simulate", "--events", "nowhere.jsonl", "--to", "none/events"]) == FAILED
    assert "nowhere.jsonl: No such file" in capsys.readouterr().err and not Path("none").exists()
