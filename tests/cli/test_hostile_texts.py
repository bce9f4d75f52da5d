"""What events, rules and hand-ins say is shown as it is written: it moves no cursor, sets no colour, turns no text around."""

import json
import re

import pytest

from lab.cli.main import main
from lab.logs.files import FileLog
from lab.model.formatting import escape_control_characters, html_table, short_json
from lab.restrict.restrictions import Restriction
from lab.widgets.look import sentence_html

UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
HOSTILE = "[bold red]a[/]\x1b[31mb\x9b2Jc\u202ed\u2066e\rf\x07g\x7f[/nothing]"
VISIBLE = r"[bold red]a[/]\u001b[31mb\u009b2Jc\u202ed\u2066e\rf\u0007g\u007f[/nothing]"
RULE = {
    "ruleId": 1,
    "ruleState": "ACTIVE",
    "groupingKeyNames": ["ip"],
    "filter": {"action": ["login", HOSTILE]},
    "aggregateFieldName": "COUNT",
    "limitOperatorType": ">=",
    "limit": 1,
    "window": "10m",
}
EVENT = {"eventId": 1, "eventTime": 1356998400000, "userId": 7, "action": "login", "ip": HOSTILE}
BAD = EVENT | {"eventId": HOSTILE}
ALERT = {
    "alertId": "x",
    "ruleId": 1,
    "ruleVersion": 1,
    "key": "{ip=" + HOSTILE + "}",
    "group": {"ip": HOSTILE},
    "aggregate": "1",
    "operator": "GREATER_EQUAL",
    "limit": "1",
    "eventId": HOSTILE,
    "eventTime": 5,
}
STUMBLE = {
    "at": 1,
    "learner": HOSTILE,
    "name": HOSTILE,
    "exercise": HOSTILE,
    "state": "wrong",
    "said": HOSTILE,
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(each) + "\n" for each in (EVENT, BAD)))
    (tmp_path / "rules.json").write_text(json.dumps(RULE))
    logs = tmp_path / "logs"
    raw = json.dumps(ALERT, ensure_ascii=False)
    FileLog(logs / "alerts").append([json.dumps(ALERT), raw, HOSTILE, '{"ruleId": "' + HOSTILE])
    FileLog(logs / "control").append([json.dumps(RULE), HOSTILE])
    restriction = Restriction("block_login", (("ip", HOSTILE),), 0, 7 * 10**12, rule_id=1, rule_version=1)
    FileLog(logs / "restrictions").append([restriction.to_json()])
    (tmp_path / "handed-in").mkdir()
    (tmp_path / "handed-in" / "one.jsonl").write_text(json.dumps(STUMBLE) + "\n")
    return tmp_path


COMMANDS = {
    "replay": "replay {}/events.jsonl --schema logins --rules {}/rules.json --engine reference",
    "backtest": "rules backtest {}/rules.json {}/events.jsonl --schema logins --engine reference",
    "infer": "infer {}/events.jsonl",
    "alerts": "alerts --logs {}/logs",
    "alerts as JSON": "alerts --logs {}/logs --json",
    "rules": "rules list --logs {}/logs --schema logins",
    "restrictions": "restrict list --logs {}/logs",
    "nobody": "restrict lift ip=" + HOSTILE.replace(" ", "") + " --logs {}/logs",
    "class": "class report {}/handed-in --out {}/class.html",
    "a rule that is none": "rules backtest " + HOSTILE.replace(" ", "") + " {}/events.jsonl",
    "a schema that is none": "replay {}/events.jsonl --schema "
    + HOSTILE.replace(" ", "")
    + " --rules {}/rules.json",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_no_control_character_of_others(name, folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    try:
        main([word.replace("{}", str(folder)) for word in COMMANDS[name].split(" ")])
    except SystemExit:
        pass
    out, err = capsys.readouterr()
    assert not UNSEEN.search(out + err), UNSEEN.findall(out + err)
    assert r"\u202e" in out + err, "the text is shown"
    if name == "alerts as JSON":
        assert [json.loads(line) for line in out.splitlines()[:2]] == [ALERT] * 2


def test_a_line_that_is_no_alert_does_not_end_the_listing(folder, capsys):
    assert main(["alerts", "--logs", f"{folder}/logs"]) == 0
    out, err = capsys.readouterr()
    assert out.count("rule 1 v1") == 2 and err.count("not an alert") == 2


def test_texts_are_visible_wherever_they_are_shown():
    assert (
        escape_control_characters(HOSTILE) == VISIBLE
        and escape_control_characters("a\nb\tc") == r"a\nb\tc"
        and escape_control_characters("a\nb", "\n") == "a\nb"
    )
    assert escape_control_characters("한국 é 👩‍👩 \\ \"'<") == "한국 é 👩‍👩 \\ \"'<"
    for made in (short_json(HOSTILE), html_table(HOSTILE, [HOSTILE], [[HOSTILE]]), sentence_html(HOSTILE)):
        assert not UNSEEN.search(made) and r"\u202e" in made
