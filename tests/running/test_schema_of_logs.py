"""Which schema the commands take: the one that an engine has written to its answers, or none that they cannot know."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lab.cli.main import FAILED, OK, USAGE, main
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.announcement import announce_schema, announced_schema
from lab.engine.loop.filelogs import FileLogs
from lab.logs.files import FileLog
from lab.model.field import Field
from lab.model.schema import LOGINS, PAYMENTS
from lab.model.statuslines import parse_ack
from lab.running.target import Usage, locate, schema_of_events, target_of_existing_logs
from tests.topics import topics

LOGIN_RULE = '{"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["userId"], "aggregatorFunctionType": "COUNT", "limitOperatorType": ">", "limit": 5, "window": "1h"}'
LOGIN = '{"eventId": 1, "eventTime": 5, "userId": 7, "action": "login"}'


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch) -> FileLogs:
    monkeypatch.chdir(tmp_path)
    logs = FileLogs(Path("logs"))
    logs.create()
    return logs


def said(capsys) -> str:
    out, err = capsys.readouterr()
    return out + err


def test_what_an_engine_announces_is_found_behind_any_number_of_answers(logs):
    assert announced_schema(logs) is None and announced_schema(FileLogs(Path("none"))) is None
    answer = json.dumps({"status": "rejected", "place": "control/0:1", "reason": "x" * 200})
    announce_schema(logs, LOGINS)
    logs.log("acks").append([answer] * 30_000)
    assert announced_schema(logs) == LOGINS
    announce_schema(logs, LOGINS)
    assert len(logs.log("acks").read()) == 30_001  # only what is new is written
    more = replace(LOGINS, fields=(*LOGINS.fields, Field("note", "string")))
    announce_schema(logs, more)
    assert announced_schema(logs) == more


def test_topics_have_it_too_in_whatever_folder_a_command_runs(kafka, capsys):
    topics_of_logs = topics(kafka.address, "announced")
    Settings(PAYMENTS).bind("checkpoint")  # of another engine
    places = {name: repr(topics_of_logs.log(name)) for name in ("control", "acks", "events")}
    words = ["rules", "list", "--rules", places["control"], "--acks", places["acks"]]
    topics_of_logs.log("control").publish([LOGIN_RULE], ["1"])
    assert announced_schema(topics_of_logs) is None and main(words) == USAGE
    assert "no engine has announced it" in said(capsys)
    announce_schema(topics_of_logs, LOGINS)
    answer = json.dumps({"status": "rejected", "place": "control/0:1", "reason": "x"})
    topics_of_logs.log("acks").publish([answer] * 3_000, ["1"] * 3_000)
    assert main(words) == OK and "per userId" in said(capsys)


@pytest.mark.parametrize(
    "line",
    [
        '{"status": "schema"}',
        '{"status": "schema", "events": "events", "schema": 5}',
        '{"status": "schema", "events": "events", "schema": {"name": "x"}}',
        '{"status": "schema", "events": "events", "schema": {"name": "x", "fields": 7, "id_fields": [], "time_field": ""}}',
        '{"status": "schema", "events": "events", "schema": {"name": "x", "fields": [{"nome": 1}], "id_fields": [], "time_field": ""}}',
        '{"status": "schema", "events": 5, "schema": ' + json.dumps(LOGINS.to_dict()) + "}",
    ],
)
def test_a_stranger_s_announcement_is_left_out(line, logs):
    announce_schema(logs, PAYMENTS)
    logs.log("acks").append([line])
    with pytest.raises(ValueError):
        parse_ack(line)
    assert announced_schema(logs) == PAYMENTS


def test_the_rules_of_an_engine_are_listed_wherever_its_checkpoint_is(logs, capsys):
    announce_schema(logs, LOGINS)
    assert main(["rules", "add", LOGIN_RULE, "--logs", "logs", "--timeout", "0"]) == OK
    assert main(["rules", "pause", "1", "--logs", "logs", "--timeout", "0"]) == OK
    capsys.readouterr()
    assert main(["rules", "list", "--logs", "logs"]) == OK
    assert "v2   PAUSE   COUNT(events) per userId" in said(capsys)
    assert locate("logs").schema_to_run == LOGINS  # a new checkpoint goes on with the logs' schema
    assert target_of_existing_logs("logs").effective_schema == LOGINS


def test_no_rule_is_filtered_by_a_schema_that_nobody_has_named(logs, capsys):
    logs.log("control").append([LOGIN_RULE])
    for words in (["list"], ["pause", "1"]):
        assert main(["rules", *words, "--logs", "logs"]) == USAGE
        answer = said(capsys)
        assert "nothing says what the events of logs are" in answer and "--schema" in answer
        assert "no rule is in force" not in answer
    assert main(["rules", "list", "--logs", "logs", "--schema", "logins"]) == OK
    assert "per userId" in said(capsys)
    with pytest.raises(Usage, match="nothing says"):
        print(target_of_existing_logs("logs").effective_schema)


def test_events_that_are_no_payments_are_not_taken_for_payments(logs, capsys):
    logs.log("events").append([LOGIN])
    assert main(["rules", "add", LOGIN_RULE, "--logs", "logs", "--timeout", "0"]) == USAGE
    assert "nothing says what the events of logs are" in said(capsys)
    assert not logs.log("control").read()


def test_a_refused_rule_says_that_the_schema_was_assumed(logs, capsys):
    assert main(["rules", "add", LOGIN_RULE, "--logs", "logs", "--timeout", "0"]) == USAGE
    answer = said(capsys)
    assert 'unknown payments field "userId"' in answer and "--schema" in answer and "no engine" in answer
    announce_schema(logs, PAYMENTS)
    assert main(["rules", "add", LOGIN_RULE, "--logs", "logs", "--timeout", "0"]) == USAGE
    assert "no engine" not in said(capsys)


def test_messages_that_are_no_rules_for_these_events_are_named(logs, capsys):
    announce_schema(logs, PAYMENTS)
    logs.log("control").append([LOGIN_RULE])
    assert main(["rules", "list", "--logs", "logs"]) == OK
    out, err = capsys.readouterr()
    assert out == "no rule is in force\n"
    assert (
        "1 message of logs/control is refused for payments: control/" in err
        and 'unknown payments field "userId"' in err
    )


def test_the_rules_may_be_named_alone_and_the_answers_beside_them(logs, capsys):
    announce_schema(logs, LOGINS)
    logs.log("control").append([LOGIN_RULE])
    assert main(["rules", "list", "--rules", "logs/control"]) == OK
    Path("logs/acks").rename("answers")
    assert main(["rules", "list", "--rules", "logs/control"]) == USAGE
    capsys.readouterr()
    assert main(["rules", "list", "--rules", "logs/control", "--acks", "answers"]) == OK
    assert "per userId" in said(capsys)


@pytest.mark.parametrize("words", [["restrict", "run"], ["cdc", "run", "--store", "sqlite:///rules.db"]])
def test_a_service_does_not_begin_with_a_schema_that_nobody_has_named(words, logs, capsys):
    assert main([*words, "--logs", "logs"]) == USAGE
    assert "nothing says what the events of logs are" in said(capsys)


def test_a_replay_of_an_engine_s_log_takes_its_schema_and_no_other_one(logs, capsys):
    announce_schema(logs, LOGINS)
    logs.log("events").append([LOGIN])
    Path("rules.txt").write_text(LOGIN_RULE)
    replay = ["--rules", "rules.txt", "--engine", "reference"]
    assert main(["replay", "logs/events", *replay]) == OK
    FileLog("logs/others").append([LOGIN])  # which that engine does not read
    assert schema_of_events("logs/others") is None
    assert main(["replay", "logs/others", *replay]) == USAGE
    assert "--schema" in said(capsys)


def test_a_checkpoint_beside_the_logs_says_it_too(logs):
    Settings(LOGINS).bind("logs/checkpoint")
    assert locate("logs").effective_schema == LOGINS == schema_of_events("logs/events")
    announce_schema(logs, PAYMENTS)  # by an engine that runs with another checkpoint
    assert locate("logs").effective_schema == PAYMENTS
    assert locate("logs").schema_to_run == LOGINS  # which goes on with its own


def test_commands_on_logs_that_do_not_exist_say_so(capsys):
    assert main(["rules", "list", "--logs", "nowhere"]) == FAILED
    assert "no such log" in said(capsys)
