"""`lab lists`, and the mutes of `lab rules`: what they write to the control log, and what they show of it."""

import io
import json

import pytest

from lab.cli.main import FAILED, OK, USAGE, main
from lab.logs.files import FileLog
from lab.logs.reading import SkippedLines
from lab.model import rules
from lab.running.control import _answer, _wait_for_alert

RULE = "7: COUNT(events) per payeeId over 1 h > 5, when paymentType in @kinds"


@pytest.fixture
def lab(tmp_path, capsys):
    """Runs a command on logs that no engine reads, and returns what it prints."""

    def run(*arguments: str, ends: int = OK) -> str:
        timeout = [] if arguments[1] in ("show", "list") else ["--timeout", "0"]
        assert main([*arguments, "--logs", str(tmp_path), *timeout]) == ends
        printed = capsys.readouterr()
        return printed.out if ends == OK else printed.err

    return run


def sent(tmp_path) -> list[str]:
    return list(FileLog(tmp_path / "control").read())


def test_values_are_added_removed_and_shown(lab, tmp_path, monkeypatch):
    lab("lists", "add", "kinds", "CSH", "New York", "--until", "2026-12-01")
    monkeypatch.setattr("sys.stdin", io.StringIO("CRD\n\n  7 \n"))
    lab("lists", "add", "kinds", "--file", "-", "--until", "5")
    lab("lists", "remove", "kinds", "CSH")
    assert sent(tmp_path)[1] == '{"list": "kinds", "add": ["CRD", "7"], "until": 5}'
    assert lab("lists", "show") == "@kinds  v3, entries: 3\n"
    assert lab("lists", "show", "kinds").splitlines() == [
        "New York  until 2026-12-01 00:00:00.000 UTC",
        "CRD  until 1970-01-01 00:00:00.005 UTC",
        "7  until 1970-01-01 00:00:00.005 UTC",
    ]
    lab("lists", "clear", "kinds")
    assert lab("lists", "show", "kinds") == ""
    assert "did you mean kinds?" in lab("lists", "show", "kind", ends=FAILED)


def test_a_mute_is_shown_beside_its_rule_until_it_ends(lab):
    lab("rules", "add", RULE)
    lab("rules", "mute", "7", "payeeId=25", "--until", "2026-12-01T10:00:00Z")
    lab("rules", "mute", "7")
    assert lab("rules", "list").splitlines()[1:] == [
        '              muted   {"payeeId":25}  until 2026-12-01 10:00:00.000 UTC',
        "              muted   all groups",
    ]
    lab("rules", "unmute", "7", "payeeId=25")
    lab("rules", "unmute", "7")
    assert "muted" not in lab("rules", "list")


def test_what_is_wrong_is_said_before_anything_is_sent(lab, tmp_path):
    assert "nothing to change" in lab("lists", "add", "kinds", ends=USAGE)
    assert "did you mean payeeId?" in lab("rules", "mute", "7", "payee=25", ends=USAGE)
    assert "expected a time such as" in lab("lists", "add", "kinds", "x", "--until", "soon", ends=USAGE)
    assert not (tmp_path / "control").exists()


def test_what_a_list_has_no_room_for_is_refused_before_anything_is_sent(lab, tmp_path, monkeypatch):
    """In a compacted topic, a message that the engine refuses could replace one about the same entries that it has accepted."""
    monkeypatch.setattr(rules, "MAX_ENTRIES", 2)
    lab("lists", "add", "kinds", "CSH")
    assert "would have 3 entries" in lab("lists", "add", "kinds", "x", "y", ends=USAGE)
    assert len(sent(tmp_path)) == 1


def test_rules_that_are_gone_are_no_complaint(lab, tmp_path, capsys):
    """A compacted topic may have kept the deletion of a rule, or its state, without the rule."""
    lab("rules", "add", '{"ruleId": 8, "ruleState": "DELETE"}')
    lab("rules", "add", '{"ruleId": 8, "ruleState": "PAUSE"}')
    capsys.readouterr()
    assert main(["rules", "list", "--logs", str(tmp_path)]) == OK
    assert capsys.readouterr() == ("no rule is in force\n", "")


def test_the_first_alert_may_be_awaited_of_rules_that_come_with_lists(tmp_path, capsys):
    ack = {"status": "accepted", "list": "kinds", "version": 3, "entries": 2, "logTime": 5}
    _wait_for_alert(FileLog(tmp_path / "alerts").tail(), [ack], 0, SkippedLines())
    assert capsys.readouterr().out == "no alert of this rule yet\n"


def test_the_answer_names_the_list_its_version_and_size():
    ack = json.loads('{"status": "accepted", "list": "kinds", "version": 3, "entries": 2}')
    assert _answer(ack) == "accepted: list @kinds version 3, entries: 2"
