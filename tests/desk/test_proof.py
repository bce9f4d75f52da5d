"""A sealed alert is proved by the log that it is of, and by no other: what was changed is told apart."""

import json

import pytest

from lab.cli.main import main
from lab.desk.proof import findings, sealed
from lab.desk.world import NotFound, World
from lab.model.alerts import Alert
from lab.past.alertframe import alerts

START = 1714557600000
RULE = "1: SUM(amount) per card over 1 h > 80"


def event(n: int, amount: int, card: str = "a") -> dict:
    return {"id": n, "at": START + n * 60_000, "card": card, "amount": amount}


EVENTS = [event(1, 30), event(2, 30), event(3, 50, "b"), event(4, 30), event(5, 1)]


@pytest.fixture
def line() -> str:
    world = World(EVENTS, RULE)
    return sealed(world.alerts[0].to_json(), world)


def changed(line: str, **values: object) -> str:
    return json.dumps(json.loads(line) | values)


def test_a_sealed_alert_is_the_alert_with_a_proof_and_is_proved_by_its_log(line):
    world = World(EVENTS, RULE)
    assert findings(line, world) == [] and Alert.from_json(line) == world.alerts[0]
    assert sealed(world.alerts[0].alert_id, world) == line
    assert [each[:2] for each in json.loads(line)["proof"]["records"]] == [
        ["1", START + 60_000],
        ["2", START + 120_000],
        ["4", START + 240_000],
    ]
    more = [*EVENTS, event(6, 90), event(7, 5, "b")]
    assert findings(line, World(more, RULE)) == [], "what comes later changes nothing"


@pytest.mark.parametrize(
    ("events", "rule", "says"),
    [
        (
            [event(1, 31), *EVENTS[1:]],
            RULE,
            ["Event 1 is not what it was", "The alert says 90 > 80, and the log gives 91"],
        ),
        (
            [event(1, 20), *EVENTS[1:]],
            RULE,
            [
                "Event 1 is not what it was",
                "The log gives no such alert: SUM(amount) over 1 h > 80 is false at event 4",
            ],
        ),
        ([event(1, 20), event(2, 40), *EVENTS[2:]], RULE, ["Event 1 is not what", "Event 2 is not what"]),
        ([EVENTS[0], *EVENTS[2:]], RULE, ["Event 2 is missing", "The log gives no such alert"]),
        ([*EVENTS[:3], EVENTS[4]], RULE, ["Event 4, at which the alert was raised, is missing"]),
        (
            [EVENTS[0], event(9, 0) | {"at": START + 61_000}, *EVENTS[1:]],
            RULE,
            ["Event 9 was not in the window"],
        ),
        (
            EVENTS,
            RULE.replace("80", "85"),
            ["Rule 1 is not version 1 as it was", "The alert says 90 > 80, and the log gives 90 > 85"],
        ),
        (
            EVENTS,
            RULE.replace("1:", "2:"),
            ["Rule 1 is not version 1", "The log gives no such alert: Rule 1 was not in force"],
        ),
    ],
    ids=[
        "other amount",
        "no alert",
        "same sum",
        "missing",
        "own event missing",
        "added",
        "other limit",
        "no rule",
    ],
)
def test_what_was_changed_in_the_log_is_told_apart(line, events, rule, says):
    found = findings(line, World(events, rule))
    assert len(found) == len(says) and all(map(str.startswith, found, says)), found


@pytest.mark.parametrize(
    "change",
    [{"aggregate": "91"}, {"eventTime": START}, {"group": {"card": "b"}}, {"ruleVersion": 2}, {"more": 1}],
    ids=str,
)
def test_an_alert_that_was_changed_is_told_from_a_log_that_was(line, change):
    (found,) = findings(changed(line, **change), World(EVENTS, RULE))
    assert found.startswith("The alert or its proof was changed")
    proof = json.loads(line)["proof"]
    assert findings(changed(line, proof=proof | {"records": proof["records"][:2]}), World(EVENTS, RULE)) == [
        found
    ]
    assert findings(changed(line, alertTime=START), World(EVENTS, RULE)) == [], (
        "a second run gives it at another time"
    )


@pytest.mark.parametrize(
    "proof",
    [
        None,
        1,
        [],
        {},
        {"seal": 1, "rule": "", "records": []},
        {"seal": "", "rule": "", "records": [1]},
        {"seal": "", "rule": "", "records": [[[], 1, ""]]},
    ],
    ids=str,
)
def test_what_is_not_sealed_is_refused(line, proof):
    with pytest.raises(ValueError, match="no sealed alert"):
        findings(changed(line, proof=proof), World(EVENTS, RULE))


def test_an_alert_that_the_log_does_not_give_is_not_sealed(line):
    with pytest.raises(NotFound, match="The alert says 95 > 80, and the log gives 90 > 80"):
        sealed(changed(line, aggregate="95"), World(EVENTS, RULE))


def test_the_command_seals_a_file_of_alerts_and_checks_them(tmp_path, capsys):
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(each) + "\n" for each in EVENTS))
    (tmp_path / "rules.txt").write_text(RULE)
    found = alerts(EVENTS, RULE)
    assert len(found) == 2
    (tmp_path / "alerts.jsonl").write_text(
        "".join(each.to_json() + "\n" for each in World(EVENTS, RULE).alerts)
    )
    of = [str(tmp_path / "events.jsonl"), "--rules", str(tmp_path / "rules.txt")]
    schema = [str(tmp_path / "schema.toml")]
    assert main(["infer", of[0]]) == 0
    (tmp_path / "schema.toml").write_text(capsys.readouterr().out)
    assert main(["prove", str(tmp_path / "alerts.jsonl"), *of, "--schema", *schema]) == 0
    (tmp_path / "sealed.jsonl").write_text(capsys.readouterr().out)
    check = ["prove", "--check", str(tmp_path / "sealed.jsonl"), *of, "--schema", *schema]
    assert main(check) == 0
    assert capsys.readouterr().out.count("Proved:") == 2
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(each) + "\n" for each in EVENTS[1:]))
    assert main(check) == 1
    told = capsys.readouterr()
    assert told.out.count("Event 1 is missing") == 2 and "2 of 2 alerts are not proved" in told.err
