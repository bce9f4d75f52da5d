"""Named lists at the desk: files of rules whose messages fill them, rules that look at them, and lists that are empty."""

import json
import warnings

import pytest

import lab
from lab.cli.main import main
from lab.desk import world as worlds
from lab.desk.world import World
from lab.past import columnpast, plainpast
from lab.past.replay import read_rules_argument
from lab.past.rulemessages import RuleHint

AT = 1714557600000
EVENTS = [
    {"id": n, "at": AT + 60_000 * n, "ip": ip, "card": f"c{n}", "fraud": ip == "bad"}
    for n, ip in enumerate(["office", "bad", "home"] * 8)
]
TUNED = "UNIQUE_COUNT(card) where ip not in @office per ip over 1 h > 5"
RULES = ["add office to @office", f"1: {TUNED}", "2: COUNT(events) per ip over 1 h > 6"]


@pytest.fixture(params=[plainpast.Past, columnpast.Past], ids=["plain", "columns"])
def past(request, monkeypatch):
    monkeypatch.setattr(worlds, "Past", request.param)
    monkeypatch.setattr(worlds, "COMPILED", False)  # the alerts are the same, and nothing is compiled


@pytest.fixture
def files(tmp_path):
    lines = [json.dumps(event) for event in EVENTS]
    (tmp_path / "events.jsonl").write_text("\n".join(lines))
    (tmp_path / "rules.txt").write_text("\n".join(RULES))
    (tmp_path / "own.toml").write_text(lab.infer([line.encode() for line in lines], "own").toml())
    return tmp_path


@pytest.mark.parametrize(
    "message", ["add 10.20.0.5 to @office", "clear @office", "mute rule 1 for ip=M-007", "Unmute rule 1"]
)
def test_a_message_about_a_list_is_no_file(message, tmp_path, monkeypatch):
    assert read_rules_argument(message) == [message]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError):
        read_rules_argument("add.txt")
    (tmp_path / "add this.txt").write_text("clear @a")
    assert read_rules_argument("add this.txt") == ["clear @a"]


def test_a_list_of_rules_may_begin_with_a_message_about_a_list(past):
    assert {alert["ruleId"] for alert in lab.alerts(EVENTS, [*RULES, "mute rule 2"])} == {1}
    world = World(EVENTS, RULES)
    assert {alert.rule_id for alert in world.alerts} == {1, 2}
    assert world.compare([*RULES, "mute rule 2 for ip=bad"]).counts[2] == (4, 2, 0)


def test_windows_see_the_lists_that_came_before_the_first_event(past):
    world = World(
        EVENTS,
        ["add office, home to @office", f"1: {TUNED}", "add home to @other", "remove home from @office"],
    )
    assert world.tune(TUNED, "fraud").at(0).earlier.wrong == 4  # at home: all but the office
    rule = "COUNT(events where ip not in @office) over 2 h > 0"
    assert (
        world.tune(f"1: {rule}", "fraud").at(15).held_out
        == World(EVENTS, ["add office to @office", rule]).tune(rule, "fraud").at(15).held_out
    )
    verdict = World(
        EVENTS, ["add office to @office", "1: COUNT(events) where ip not in @office over 2 h > 15"]
    ).why_not(23, 1)
    assert verdict.outcome == "alerted" and len(verdict.window) == 16


def test_a_rule_is_tuned_with_lists_that_come_with_it(past):
    with_list = World(EVENTS, RULES).tune(TUNED, "fraud")
    assert with_list.at(0).earlier.wrong == 4
    assert World(EVENTS, []).tune(RULES[:2], "fraud").at(0) == with_list.at(0)
    with pytest.warns(RuleHint, match="the list @office is empty"):
        assert World(EVENTS, []).tune(TUNED, "fraud").at(0).earlier.wrong == 8
    with pytest.raises(lab.BadRule, match="3 messages with 2 rules, expected one rule"):
        World(EVENTS, []).tune(RULES, "fraud")


def test_tune_takes_lists_from_a_file_of_rules(files, capsys):
    given = [TUNED, str(files / "events.jsonl"), "--schema", str(files / "own.toml"), "--labels", "fraud"]
    assert main(["rules", "tune", *given, "--rules", str(files / "rules.txt")]) == 0
    shown = capsys.readouterr()
    assert "office" not in shown.err
    (files / "one.txt").write_text(f"add office to @office\n{TUNED}")
    assert main(["rules", "tune", str(files / "one.txt"), *given[1:]]) == 0
    assert capsys.readouterr().out == shown.out
    assert main(["rules", "tune", *given]) == 0
    other = capsys.readouterr()
    assert other.out != shown.out
    assert "lab: warning: rule 1: the list @office is empty, so no value is in it" in other.err


def test_a_rule_with_an_empty_list_gets_the_same_hint_on_the_past(files, capsys):
    (files / "typo.txt").write_text("\n".join(RULES).replace("in @office", "in @ofice"))
    of = ["--schema", str(files / "own.toml"), "--engine", "reference"]
    hint = "hint for rule 1: the list @ofice is empty, so no value is in it"
    assert main(["rules", "backtest", str(files / "typo.txt"), str(files / "events.jsonl"), *of]) == 0
    assert hint in capsys.readouterr().out
    assert main(["replay", str(files / "events.jsonl"), "--rules", str(files / "typo.txt"), *of]) == 0
    shown = capsys.readouterr()
    assert hint in shown.err and hint not in shown.out
    with pytest.warns(RuleHint, match="rule 1: the list @ofice is empty, so no value is in it"):
        lab.alerts(EVENTS, files / "typo.txt")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lab.alerts(EVENTS, files / "rules.txt")
