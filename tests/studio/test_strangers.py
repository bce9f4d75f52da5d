"""Lines that an engine did not write, in the logs that it writes: each reader names them and goes on."""

import json
from dataclasses import replace
from decimal import Decimal
from threading import Thread

from lab.cli.main import OK, main
from lab.engine.loop.filelogs import FileLogs
from lab.followers.latency import Latencies
from lab.model.alerts import Alert
from lab.model.schema import PAYMENTS
from lab.restrict.restrictions import Restriction
from lab.rulestore.capture import Capture
from lab.rulestore.store import RuleStore
from lab.running.enginemonitor import EngineMonitor
from lab.running.report import StatsReport
from lab.studio.studio import Studio
from lab.widgets.alertfeed import AlertFeed
from tests.rulestore.engine import Engine
from tests.waiting import wait_until

STRANGE = [
    *("", "null", "[]", "nonsense", '"text"', "[" * 100_000, '{"batch":' + "9" * 5_000 + "}"),
    '{"batch": -1, "keyGroups": [0, 15], "times": {}}',
    '{"batch": 1, "keyGroups": [0], "times": {}}',
    '{"batch": 1, "keyGroups": [0, 99999], "times": {}}',
    '{"batch": 1, "keyGroups": [0, 15], "times": {"start": 1}}',
    '{"batch": 1, "keyGroups": [0, 15], "times": {"end": "now"}}',
    '{"batch": 1, "keyGroups": [0, 15], "times": {}, "records": 1.5}',
    '{"batch": 1, "keyGroups": [0, 15], "times": {}, "stored": {"x": 1}}',
    '{"batch": 1, "keyGroups": [0, 15], "times": {}, "alertsByRule": {"1": 1}}',
    '{"batch": 1, "keyGroups": [0, 15], "times": {}, "engine": {"id": 7}}',
    *('{"status": "accepted", "place": {}}', '{"status": "rejected", "place": "p"}', '{"place": "p"}'),
    '{"status": "accepted", "place": "p", "controlType": "DELETE_RULES_ALL", "ruleIds": ["1"]}',
    '{"ruleId": 1, "ruleVersion": 1, "key": 7, "aggregate": "1", "operator": ">", "limit": "0", "eventId": 1, "eventTime": 5}',
    '{"changeId": "5eed.7"}',
]
TOTAL = f"{len(STRANGE)} unreadable lines left out"
COUNTING = {"ruleId": 1, "ruleState": "ACTIVE", "aggregatorFunctionType": "COUNT"}
COUNTING |= {"limitOperatorType": ">", "limit": 1, "window": "1m"}
RULE = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)"
ALERT = Alert(1, 1, "{payeeId=7}", Decimal(60), "GREATER", Decimal(50), 3, 5, 6, 7, (("payeeId", 7),))
STATS = {
    "batch": 0,
    "keyGroups": [0, 15],
    "records": 3,
    "times": {"start": 1, "decode": 2, "route": 3, "evaluate": 4, "end": 5},
}


def strange(logs: FileLogs, *names: str) -> None:
    for name in names:
        logs.log(name).append(STRANGE)


def test_alerts_are_shown_and_exported(logs, tmp_path, capsys):
    strange(logs, "alerts")
    logs.log("alerts").append([ALERT.to_json()])
    where = ["--logs", str(logs.folder)]
    for more in ([], ["--json"]):
        assert main(["alerts", *where, *more]) == OK
        shown = capsys.readouterr()
        assert len(shown.out.splitlines()) == 1 and shown.err.count("left out: alerts/0") == 20
        assert f"{len(STRANGE)} unreadable lines left out" in shown.err
    assert main(["export", *where, "--to", f"sqlite:///{tmp_path}/alerts.db"]) == OK
    assert f"1 alerts from {logs.log('alerts')}" in (said := capsys.readouterr().err)
    assert f"{len(STRANGE)} unreadable lines left out" in said


def test_an_alert_with_one_of_its_two_times_is_shown(logs, capsys):
    halves = [replace(ALERT, alert_time=None), replace(ALERT, event_id=8, log_time=None)]
    logs.log("alerts").append([half.to_json() for half in halves])
    assert main(["alerts", "--logs", str(logs.folder)]) == OK
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert [row[4] for row in AlertFeed(halves).table.rows] == ["", ""]


def test_latencies_and_counts_are_those_of_the_engine(logs):
    latencies, report = Latencies(logs), StatsReport(logs.log("stats"))
    strange(logs, "alerts", "stats")
    logs.log("alerts").append([ALERT.to_json()])
    logs.log("stats").append([json.dumps(STATS)])
    assert latencies.read() == 1 and latencies.left_out.count == 2 * len(STRANGE)
    assert len(latencies.table().rows) == 8
    assert report.read()["records"] == 3 and report.left_out.count == len(STRANGE)
    assert (report.window_event_count, report.state_bytes, report.state_bytes_by_key_group) == (0, 0, {})


def test_a_room_goes_on_and_says_how_many(logs):
    with Studio("payments", "elsewhere", logs=logs) as studio:
        strange(logs, "alerts", "acks", "deadLetters", "stats", "control", "events")
        logs.log("alerts").append([ALERT.to_json()])
        logs.log("stats").append([json.dumps(STATS)])
        studio.read()
        assert list(studio.alerts) == [ALERT] and not studio.acks and not studio.letters
        studio.records = 3
        assert studio.state()[1].endswith(f", {4 * len(STRANGE)} unreadable lines left out")


def test_rules_are_published_and_answered(logs, capsys):
    engine = Engine(logs, PAYMENTS)

    def answer() -> None:
        wait_until(lambda: logs.log("control").end())
        strange(logs, "acks")
        engine.step()

    thread = Thread(target=answer)
    thread.start()
    try:
        assert main(["rules", "add", RULE, "--logs", str(logs.folder), "--timeout", "60"]) == OK
    finally:
        thread.join()
    said = capsys.readouterr()
    assert "accepted: rule 1 version 1" in said.out and "left out: acks/" in said.err
    assert said.err.splitlines()[-1] == TOTAL


def test_who_is_restricted_is_listed_and_lifted(logs, capsys):
    restricted = Restriction("block_login", (("userId", "7"),), 0, 4_000_000_000_000, rule_id=1)
    log = logs.log("restrictions")
    log.append([*STRANGE, *STRANGE, restricted.to_json()])
    for words in (["list"], ["lift", "userId=7"]):
        assert main(["restrict", *words, "--logs", str(logs.folder)]) == OK
        said = capsys.readouterr()
        assert "block_login" in said.out and said.err.count("left out: ") == 20
        assert said.err.splitlines()[-1] == f"{2 * len(STRANGE)} unreadable lines left out"


def test_a_latency_table_says_how_many_lines_it_is_without(logs, capsys, monkeypatch):
    begun = Latencies.__init__

    def begin(self, *arguments):
        begun(self, *arguments)
        strange(logs, "alerts")

    monkeypatch.setattr(Latencies, "__init__", begin)
    assert main(["latency", "--logs", str(logs.folder), "--seconds", "2"]) == OK
    assert capsys.readouterr().err.splitlines()[-1] == TOTAL


def test_a_run_that_ends_says_how_many_lines_it_left_out(logs):
    notes, said = EngineMonitor(logs, logs.folder / "checkpoint"), []
    strange(logs, "stats")
    notes.read()
    notes.report.left_out.print_total(said.append)
    assert said == [TOTAL]


def test_a_capture_of_a_rule_store_goes_on(logs, tmp_path):
    store = RuleStore(f"sqlite:///{tmp_path}/rules.db", PAYMENTS)
    store.put(json.dumps(COUNTING))
    logs.log("control").append([*STRANGE, f'{{"changeId": "{store.identity()}.1"}}'])
    engine = Engine(logs, PAYMENTS)
    strange(logs, "acks")
    with Capture(store, logs.log("control"), logs.log("acks")) as capture:
        engine.step()

        def in_force() -> object:
            capture.step()
            return store.rows()[0]["version_in_force"]

        wait_until(in_force)
        assert capture.left_out.count == len(STRANGE)
