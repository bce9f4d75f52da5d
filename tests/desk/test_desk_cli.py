"""`lab why` and `lab why-not`: texts, exit codes, hostile input, and an engine's logs."""

import json

import pytest

from lab.cli.main import main
from lab.desk.world import NotFound, World
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.announcement import announce_schema
from lab.engine.loop.filelogs import FileLogs
from lab.model.alerts import Alert, parse_alert_line
from lab.model.schema import PAYMENTS
from lab.running.referenceengine import ReferenceEngine
from lab.sources.infer import infer

RULE = "1: SUM(paymentAmount) per payeeId over 20 min > 50"
RULES = [
    RULE,
    "2: COUNT(events) per payeeId over 1 h > 1, when paymentType = CRD and paymentAmount > 5",
    "3: NO(events) per payeeId within 10 min after, when paymentType = CRD",
    "4: SUM(paymentAmount) where paymentType = CSH per payeeId over 20 min > 50, at most 1 per 1 h",
    "5: AVG(paymentAmount) per payeeId over 20 min > 19 and COUNT(events) over 20 min >= 3",
]
EVENTS = [
    "1,2013-01-01 00:00:00,25,12,CSH,30",
    "2,2013-01-01 00:10:00,25,12,CSH,10",
    "2,2013-01-01 00:10:00,25,12,CSH,10",
    "3,2013-01-01 00:20:00,25,12,CSH,20.01",
    "4,2013-01-01 00:20:01,25,12,CRD,1",
    "5,2013-01-01 01:12:00,25,12,CRD,1",
    "6,2012-12-01 00:00:00,25,12,CSH,1",
    "7,2013-01-01 01:12:00,,12,CSH,1",
    "8,2013-01-01 01:12:00,25,12,CSH,many",
    "9,2013-01-01 01:12:01,25,12,CSH,60",
    "10,2013-01-01 01:12:02,25,12,CSH,60",
]
ALERT = "1.1.3.1356999600000.7fbfe0f06a58ed01f5ef2f14e7995139"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "events.csv").write_text("\n".join(EVENTS) + "\n")
    (tmp_path / "rules.json").write_text(json.dumps(RULES))
    return [str(tmp_path / "events.csv"), "--rules", str(tmp_path / "rules.json")]


def test_why_shows_the_window_how_the_value_builds_up_and_the_smallest_changes(files, capsys):
    assert main(["why", ALERT, *files]) == 0
    assert (
        capsys.readouterr().out
        == """\
SUM(paymentAmount) over 20 min > 50 holds at event 3: the value is 60.01, 10.01 from the limit 50.
1 v1: SUM(paymentAmount) per payeeId over 20 min > 50

                               condition  value  limit
(1)  SUM(paymentAmount) over 20 min > 50  60.01   > 50  holds

event               time (UTC)  paymentAmount    (1)
    1  2013-01-01 00:00:00.000          30.00  30.00
    2  2013-01-01 00:10:00.000          10.00  40.00
    2  2013-01-01 00:10:00.000          10.00         duplicate, ignored
    3  2013-01-01 00:20:00.000          20.01  60.01          this event

The smallest change of each kind that gives the other verdict:
  condition 1: a limit of 60.01 instead of 50
  condition 1: a window below 20 min instead of 20 min
  paymentAmount of this event: 10.00 instead of 20.01
"""
    )


def test_a_line_of_the_alerts_log_is_an_alert_too_and_json_has_everything(files, capsys):
    assert main(["why", ALERT, *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["alertId"] == ALERT and found["outcome"] == "alerted"
    assert [each["soFar"] for each in found["window"]] == [["30.00"], ["40.00"], None, ["60.01"]]
    line = '{"ruleId":1,"ruleVersion":1,"key":"","group":{"payeeId":25},"aggregate":"1","operator":">","limit":"1",'
    assert main(["why", line + '"eventId":3,"eventTime":1356999600000}', *files]) == 0
    assert ALERT.split(".")[-1] and "holds at event 3" in capsys.readouterr().out


def test_why_takes_an_event_and_the_rule_that_alerted_there_and_names_why_not_if_none_did(files, capsys):
    assert main(["why", ALERT, *files]) == 0
    by_id = capsys.readouterr().out
    assert main(["why", "3", "1", *files]) == 0
    assert capsys.readouterr().out == by_id
    assert main(["why", '{"transactionId": 3, "eventTime": 1356999600000}', "1", *files]) == 0
    assert capsys.readouterr().out == by_id
    assert main(["why", "1", "1", *files]) == 1
    assert "Rule 1 raised no alert at event 1: `lab why-not 1 1` says" in capsys.readouterr().err
    assert main(["why", "10", "4", *files]) == 1, "at most"
    assert "`lab why-not 10 4`" in capsys.readouterr().err
    assert main(["why", "3", *files]) == 1
    assert "`lab why EVENT RULE` asks about an event" in capsys.readouterr().err
    assert main(["why", "3", "one", *files]) == 2
    assert "one: expected the number of a rule" in capsys.readouterr().err


@pytest.mark.parametrize("rule", ["1.2", "7.1"])
def test_why_says_that_the_control_log_lacks_the_version_of_an_alert(files, capsys, rule):
    """As after compaction of its topic: the alert is real, and the rule was in force."""
    assert main(["why", ALERT.replace("1.1", rule, 1), *files]) != 0
    rule_id, version = rule.split(".")
    said = capsys.readouterr().err
    assert f"has no version {version} of rule {rule_id} that was in force when event 3 came" in said
    assert "compacted" in said and "No alert has" not in said


@pytest.mark.parametrize(
    "event, rule, outcome, said",
    [
        ("1", 1, "conditions", "is false at event 1: the value is 30.00, 20.00 from the limit 50."),
        ("2", 1, "duplicate", "Event 2 is a duplicate"),
        (
            "1",
            2,
            "when",
            '`when` is false of event 1: paymentType = "CRD", and the event has paymentType = CSH.',
        ),
        ("4", 2, "when", "paymentAmount > 5.00, and the event has paymentAmount = 1.00."),
        ("5", 3, "fulfilled", "Event 9 came within 10 min after event 5."),
        ("4", 3, "alerted", "No event that counts came within 10 min after event 4."),
        ("5", 4, "filter", 'paymentType = "CSH", and the event has paymentType = CRD.'),
        ("6", 1, "tooLate", "Event 6 came too late and was dropped."),
        ("7", 1, "nullKey", "Event 7 has no payeeId, and rule 1 groups by it."),
        ("8", 1, "deadLetter", "paymentAmount: "),
        ("10", 4, "atMost", "All conditions hold at event 10, but the rule may alert at most 1 per 1 h."),
        ("1", 99, "notInForce", "Rule 99 was not in force when event 1 came."),
        ('{"transactionId": 1, "eventTime": 1356998400000}', 5, "conditions", "COUNT"),
    ],
)
def test_why_not_says_the_first_thing_that_was_false(files, capsys, event, rule, outcome, said):
    assert main(["why-not", event, str(rule), *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["outcome"] == outcome, found["said"]
    assert said in found["said"]


def would(event_id: int, time: int, amount: str, *more: str) -> list[str]:
    event = {"transactionId": event_id, "eventTime": time, "payeeId": 25, "beneficiaryId": 1}
    return ["would", json.dumps(event | {"paymentType": "CSH", "paymentAmount": amount}), *more]


def test_would_says_what_each_rule_would_make_of_the_next_event(files, capsys):
    assert main([*would(11, 1357002723000, "1.5", *files), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["outcome"] for each in found] == ["alerted", "when", "when", "atMost", "alerted"]
    assert main(would(11, 1357002723000, "1.5", *files)) == 0
    assert "holds at event 11: the value is 122.50, 72.50 from the limit 50." in capsys.readouterr().out
    assert main(would(11, 1357002723000, "many", *files)) == 1
    assert "paymentAmount" in capsys.readouterr().err
    assert main(would(11, 1357002723000, "1", *files, "--at", "2026-01-01T00:00:00Z")) == 2
    with pytest.raises(SystemExit, match="2"):
        main(would(11, 1357002723000, "1", *files, "--at", "noon"))


def test_a_number_with_a_comma_is_read_where_the_file_has_such_numbers_and_elsewhere_the_right_one_is_said(
    files, tmp_path, capsys
):
    assert main(would(11, 1357002723000, "900,00", *files)) == 1
    assert '"900,00", expected a number with' in (refused := capsys.readouterr().err)
    assert "2 after it: write 900.00\n" in refused
    file = tmp_path / "germany.csv"
    file.write_text(
        "transactionId;eventTime;payeeId;beneficiaryId;paymentType;paymentAmount\n"
        "1;1357002723000;25;12;CSH;30,5\n2;1357002723001;25;12;CSH;1.030,75\n"
    )
    (tmp_path / "rules.txt").write_text("1: SUM(paymentAmount) per payeeId over 1 h > 2000\n")
    of_file = [str(file), "--rules", str(tmp_path / "rules.txt")]
    assert main(would(11, 1357002724000, "1.900,00", *of_file)) == 0
    assert "holds at event 11: the value is 2,961.25, 961.25 from" in capsys.readouterr().out
    assert main(would(11, 1357002724000, "900.50", *of_file)) == 1
    assert "900.50 in paymentAmount, expected a decimal comma" in capsys.readouterr().err
    record = would(2, 1357002723001, "1.030,75")[1]
    assert main(["why-not", record, "1", *of_file]) == 0
    assert "is false at event 2: the value is 1,061.25" in capsys.readouterr().out


def test_a_late_event_that_is_only_stored_says_so(files, capsys):
    late = ["why-not", "12", "1", *files, "--late-policy", "store"]
    with open(files[0], "a") as file:
        file.write("12,2013-01-01 01:02:00,25,12,CSH,90\n")
    assert main(late) == 0
    assert "Event 12 was late" in capsys.readouterr().out


def test_only_an_answer_is_a_success(files, capsys):
    for question in (
        ["why", ALERT.replace("7fb", "8fb"), *files],
        ["why", "no alert", *files],
        ["why", '{"ruleId": 1}', *files],
        ["why-not", "77", "1", *files],
        ["why-not", "1", "1", "nowhere.csv", *files[1:]],
    ):
        assert main(question) == 1, question
    assert main(["why", ALERT, files[0]]) == 2
    assert main(["why", ALERT, *files, "--logs", "logs"]) == 2
    captured = capsys.readouterr()
    assert not captured.out and "lab: " in captured.err


@pytest.mark.parametrize(
    "hostile", ["\x1b[31m", "1" * 5_000, "1.1.\u202e.1.x", "[" * 3_000, "1.1.1.9" + "9" * 5_000 + ".a"]
)
def test_hostile_ids_are_refused_in_plain_text(files, capsys, hostile):
    assert main(["why", hostile, *files]) == 1
    assert main(["why-not", hostile, "1", *files]) == 1
    said = capsys.readouterr().err
    assert "\x1b" not in said and "\u202e" not in said and "Traceback" not in said


def test_texts_of_events_cannot_move_the_cursor():
    rows = [
        {"id": f"\x1b[31m{n}\u202e<b>", "at": 1714557600000 + n, "card": "\x07<i>", "amount": 30}
        for n in range(3)
    ]
    world = World(rows, "1: SUM(amount) per card over 1 h > 50, when id != '\x1b'")
    verdict = world.why_not("\x1b[31m2\u202e<b>", 1)
    assert verdict.alerted and "\x1b" not in verdict.text() and "\u202e" not in verdict.text()
    html = verdict._repr_html_()
    assert "<b>" not in html and "\x1b" not in html and "<svg" in html


def test_an_engine_is_asked_through_its_logs_long_after_its_events_are_gone(tmp_path, capsys):
    logs = FileLogs(tmp_path / "logs")
    announce_schema(logs, PAYMENTS)
    engine, at = ReferenceEngine(logs, Settings(), every_s=0.1), 1_400_000_000_000
    logs.log("control").append(RULES[:1], at)
    logs.log("events").append(EVENTS[:4], at + 1)
    engine.step()
    logs.log("control").append(['{"mute": 1, "group": {"payeeId": 25}}'], at + 2)
    logs.log("events").append(["12,2014-05-01 00:00:00,25,12,CSH,99"], at + 2)
    engine.step()
    logs.log("control").append(["1,(pause)"], at + 3)
    logs.log("events").append(["11,2014-05-01 00:00:00,25,12,CSH,99"], at + 4)
    engine.step()
    (alert,) = map(parse_alert_line, logs.log("alerts").read())
    assert isinstance(alert, Alert)
    assert main(["why", alert.alert_id, "--logs", str(tmp_path / "logs")]) == 0
    assert "the value is 60.01" in capsys.readouterr().out
    assert main(["why-not", "11", "1", "--logs", str(tmp_path / "logs")]) == 0
    assert "Rule 1 was paused when event 11 came." in capsys.readouterr().out
    assert main(["why-not", "12", "1", "--logs", str(tmp_path / "logs")]) == 0
    assert "Rule 1 would have alerted at event 12, but it is muted there." in capsys.readouterr().out
    assert main(["why", ALERT, "--logs", str(tmp_path / "elsewhere")]) != 0
    capsys.readouterr()
    for time, said in ((at + 2, "the value is 61.01, 11.01"), (at + 1, "the value is 1.00")):
        asked = would(13, 1356999600000, "1", "--logs", str(tmp_path / "logs"), "--at", str(time))
        assert main(asked) == 0
        assert said in capsys.readouterr().out


def test_a_world_without_the_event_has_no_answer():
    world = World([{"id": 1, "at": 1714557600000, "amount": 1}], "SUM(amount) over 1 h > 5")
    with pytest.raises(NotFound, match="no event 2"):
        world.why_not(2, 1)


def test_tune_prints_the_edge_and_writes_a_page_and_suggest_finds_the_sentence(tmp_path, capsys):
    rows = [
        {"id": n, "at": 1714557600000 + n * 1_000, "amount": a, "bad": a > 7}
        for n, a in enumerate([1, 9, 2, 8] * 5)
    ]
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "bad.csv").write_text(
        "id,label\n" + "".join(f"{row['id']},{str(row['bad']).lower()}\n" for row in rows)
    )
    (tmp_path / "schema.toml").write_text(infer([json.dumps(row).encode() for row in rows], "own").toml())
    given = [
        "rules",
        "tune",
        "VALUE(amount) > 1",
        str(tmp_path / "events.jsonl"),
        "--schema",
        str(tmp_path / "schema.toml"),
    ]
    page = tmp_path / "page.html"
    assert (
        main([*given, "--labels", str(tmp_path / "bad.csv"), "--amount", "amount", "--html", str(page)]) == 0
    )
    by_file = capsys.readouterr().out
    assert "The best of these by F1: VALUE(amount) > 2" in by_file and "45 / 45" not in by_file
    assert "<svg" in page.read_text()
    assert main([*given, "--labels", "bad", "--amount", "amount"]) == 0
    assert capsys.readouterr().out == by_file
    assert main([*given, "--labels", "nothing"]) == 2
    assert (
        "nothing: no such file, and labels: there is no field nothing, expected one of id, at, amount, bad"
        in capsys.readouterr().err
    )
    assert main([*given, "--labels", "bad", "--amount", "none"]) == 1
    assert "there is no field none" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main([*given, "--labels", "bad", "--windows", "1h,soon"])
    events, *schema = given[3:]
    assert main(["rules", "suggest", events, *schema, "--labels", "bad", "--most", "20"]) == 0
    said = capsys.readouterr().out
    assert "VALUE(amount) > 2" in said and "Sentences that were tried: 8." in said
