"""A condition on a value that no event has is told, with the values that there are."""

import json
from pathlib import Path

import pytest

from lab.cli.main import OK, main
from lab.model.rules import parse_message
from lab.model.schema import LOGINS
from lab.past.wantedvalues import WantedValues
from tests.sources.test_infer import field

SCHEMA = """
name = "cards"
id = "id"
time = "at"
[fields.id]
type = "long"
[fields.at]
type = "time"
unit = "utc"
[fields.Result]
type = "string"
[fields.Kind]
type = "string"
[derived]
result = "lower(Result)"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{n};2024-05-01 10:00:00;{'APPROVED' if n % 3 else 'approved'};purchase\n" for n in range(2_000)]
    rows[1_501] = "1501;2024-05-01 10:00:00;rare;refund\n"
    Path("cards.csv").write_text("id;at;Result;Kind\n" + "".join(rows))
    Path("cards.toml").write_text(SCHEMA)
    return tmp_path


RULES = {
    'COUNT(events where Kind = "refnd") over 1 h > 9000': 'no event has Kind "refnd"; the values are purchase',
    'COUNT(events) over 1 h > 9000, when Result != "Approved"': (
        'no event has Result "Approved"; the values are APPROVED, approved'
    ),
    'COUNT(events where result in ("approved", "Declined")) over 1 h > 9000': (
        'none of 1,000 events that were looked at has result "Declined"; the values are approved'
    ),
    'COUNT(events) where Kind = "refund" and Result = "rare" over 1 h > 9000': "",
    'COUNT(events where result = "approved" or Kind startsWith "nothing") over 1 h > 9000': "",
}


def test_a_backtest_names_a_value_that_no_event_has_and_those_that_there_are(folder, capsys):
    Path("rules.txt").write_text("\n".join(f"{number}: {rule}" for number, rule in enumerate(RULES, 1)))
    assert main(["rules", "backtest", "rules.txt", "cards.csv", "--schema", "cards.toml"]) == OK
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("lab: warning: rule ")]
    expected = [
        f"lab: warning: rule {number}: {said}" for number, said in enumerate(RULES.values(), 1) if said
    ]
    assert sorted(told) == expected


def test_a_value_is_looked_for_once_and_at_most_fifty_are():
    values = ", ".join(f'"v{n}"' for n in range(40))
    messages = [
        f"{n}: COUNT(events) where {name} in ({values}) over 1 h > 3"
        for n, name in enumerate(["action", "country", "ip"], 1)
    ]
    wanted = WantedValues([parse_message(text, LOGINS).rule for text in messages], LOGINS)
    lines = [json.dumps({"eventId": n, "eventTime": 5, "action": f"v{n}"}).encode() for n in range(38)]
    assert list(wanted.through(lines)) == lines
    wanted.note({"action": "x", "country": None, "ip": None})
    hints = list(wanted.hints())
    assert [hint.partition(";")[0] for hint in hints] == [
        'rule 1: no event has action "v38"',
        'rule 1: no event has action "v39"',
    ]


def test_texts_that_json_may_write_otherwise_are_only_looked_for_in_some_events():
    rule = parse_message('1: COUNT(events) where ip in ("a/b", "é") over 1 h > 3', LOGINS).rule
    wanted = WantedValues([rule], LOGINS)
    list(wanted.through([b'{"eventId": 1, "eventTime": 5, "ip": "a\\/b"}']))
    wanted.note({"ip": "c"})
    assert all("none of 1 events that were looked at has ip" in hint for hint in wanted.hints())


def test_infer_doubts_values_that_differ_only_in_case():
    _, doubts = field([json.dumps(text) for text in ["approved", "declined", "APPROVED"] * 9], "Result")
    assert '"APPROVED" and "approved" differ only in case, and rules tell them apart' in doubts
    assert not field([json.dumps("x" * n) for n in range(1, 9)], "Result")[1]
