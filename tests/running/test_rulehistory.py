"""Who changed a rule, when, why and how, as the control log tells; and the way back to an earlier version."""

import json
from contextlib import closing

import pytest

from lab.cli.main import OK, main
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.filelogs import FileLogs
from lab.model.rules import BadRule, parse_message
from lab.model.schema import PAYMENTS
from lab.running.referenceengine import ReferenceEngine
from lab.running.rulehistory import versions_of

RULE = "1: SUM(paymentAmount) per payeeId over 20 min > 0.123456789012"


def rules(logs: FileLogs, *words: str) -> int:
    """Runs a command of `lab rules`."""
    waits = [] if words[0] == "history" else ["--timeout", "0"]
    return main(["rules", *words, "--logs", str(logs.folder), "--schema", "payments", *waits])


def test_each_change_names_author_and_reason_and_history_tells_them_with_what_changed(logs, capsys):
    assert rules(logs, "add", RULE, "--author", "ann", "--reason", "new scheme") == OK
    assert rules(logs, "add", RULE.replace("20 min", "30 min") + ", severity high", "--author", "bob") == OK
    assert rules(logs, "pause", "1", "--author", "cy", "--reason", "too many\x1b[31m") == OK
    capsys.readouterr()
    assert rules(logs, "history", "1") == OK
    said = capsys.readouterr().out
    lines = [line.strip() for line in said.splitlines()]
    assert lines[0].startswith("v1") and lines[0].endswith("UTC  ACTIVE  ann: new scheme")
    assert lines[1] == RULE.partition(": ")[2]
    assert lines[2].endswith("ACTIVE  bob")
    assert {*lines[3:5]} == {'window is "30m", was "20m"', 'severity is "high"'}
    assert (
        lines[5].endswith("PAUSE   cy: too many\\u001b[31m")
        and lines[6] == 'ruleState is "PAUSE", was "ACTIVE"'
    )


def test_a_rollback_is_a_new_version_that_says_what_the_earlier_one_said(logs, capsys):
    for words in (("add", RULE), ("add", RULE.replace("SUM", "AVG")), ("delete", "1")):
        assert rules(logs, *words, "--author", "ann") == OK
    assert rules(logs, "rollback", "1", "--to", "3") != OK
    assert "expected a version of rule 1 that says a rule (there are: 1, 2)" in capsys.readouterr().err
    assert rules(logs, "rollback", "1", "--to", "1", "--author", "bob") == OK
    ReferenceEngine(logs, Settings(PAYMENTS), 0).step()
    *_, newest = versions_of(logs, PAYMENTS, 1)
    assert (newest.version, newest.author, newest.reason) == (4, "bob", "back to version 1")
    assert newest.rule and newest.rule.describe() == RULE.partition(": ")[2]
    assert rules(logs, "rollback", "9", "--to", "1") != OK
    assert "the control log has no message about it" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more", [{"status": "accepted", "version": [9]}, {"status": "accepted", "version": "9"}]
)
def test_an_answer_that_no_engine_wrote_numbers_no_version(logs, capsys, more):
    assert rules(logs, "add", RULE) == OK
    [record] = logs.log("control").tail().records()
    forged = {"controlType": "x", "ruleId": 1, "place": record.place, **more}
    logs.log("acks").append([json.dumps(forged)])
    assert [each.version for each in versions_of(logs, PAYMENTS, 1)] == [1]
    assert rules(logs, "history", "1") == OK


@pytest.mark.parametrize("wrong", ["", " ann", 7, "a" * 201])
def test_an_author_is_a_short_text(wrong):
    with pytest.raises(BadRule, match="author"):
        parse_message(json.dumps({"ruleId": 1, "ruleState": "PAUSE", "author": wrong}), PAYMENTS)


def test_history_says_how_many_versions_a_compacted_topic_has_lost(logs, tmp_path, capsys):
    for limit in (1, 2, 3):
        assert rules(logs, "add", RULE.replace("0.123456789012", str(limit))) == OK
    ReferenceEngine(logs, Settings(PAYMENTS), 0).step()
    capsys.readouterr()
    assert rules(logs, "history", "1") == OK
    assert "not in the control log" not in capsys.readouterr().out
    answered = {"status": "accepted", "ruleId": 1, "version": 3, "ruleState": "ACTIVE", "logTime": 0}
    left = FileLogs(tmp_path / "compacted")
    left.create()
    left.log("control").append(logs.log("control").read()[-1:])
    with closing(left.log("control").tail()) as tail:
        place = tail.records()[0].place
    left.log("acks").append([json.dumps(answered | {"place": place})])
    assert rules(left, "history", "1") == OK
    assert "2 earlier versions are not in the control log" in capsys.readouterr().out


def test_several_rules_are_added_at_once(logs):
    assert rules(logs, "add", RULE, RULE.replace("1:", "2:", 1)) == OK
    assert len(logs.log("control").read()) == 2
