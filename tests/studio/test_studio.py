"""A studio in the kernel: the engine's stages on a live stream, without Java."""

import csv
import io
import json
import tracemalloc
from dataclasses import replace
from decimal import Decimal
from threading import active_count
from types import SimpleNamespace

import pytest

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.lease import Lease
from lab.engine.checkpoint.lock import FolderLock
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop import ends
from lab.engine.loop.epochs import Epoch
from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.kafkalogs import KafkaLogs
from lab.logs.positions import Record
from lab.logs.reading import AT_ONCE, MOST_PARTS, new_records
from lab.model.alerts import Alert, Withdrawal
from lab.model.reference import Reference
from lab.model.schema import PAYMENTS
from lab.running.report import StatsReport
from lab.studio import engineview
from lab.studio import studio as studios
from lab.studio.engineview import EngineView
from lab.studio.studio import Studio
from lab.widgets.alertfeed import AlertFeed
from lab.widgets.controlroom import ControlRoom
from tests import waiting
from tests.past.windows import window

AT = 1_356_998_400_000
RULE = "1,(active),(paymentType),,(paymentAmount),(SUM),(>),(100),(1)"


def wait_until(studio: Studio, done) -> None:
    def came() -> bool:
        studio.read()
        return done()

    waiting.wait_until(came, said=studio.state)


def test_its_alerts_are_those_of_the_reference_over_its_logs():
    with Studio(rate=500, rules=[RULE], burst_every_s=1) as studio:
        wait_until(studio, lambda: len(studio.alerts) > 200)
        studio.player.stop()
        wait_until(studio, lambda: studio.lag == 0 and studio.records == studio.player.sent)
        reference = Reference(PAYMENTS)
        reference.control(RULE)
        for line in studio.logs.log("events").read():
            reference.event(line.encode())
        assert [a.alert_id for a in reference.alerts] and sorted(a.alert_id for a in studio.alerts) == sorted(
            a.alert_id for a in reference.alerts
        )
        assert studio.fired[1] == len(reference.alerts)


def test_the_window_behind_an_alert_has_no_event_from_before_its_rule():
    with Studio(rate=500) as studio:
        wait_until(studio, lambda: len(studio.past) > 200)
        assert studio.ask(RULE.replace("(100),(1)", "(0),(60)"))["status"] == "accepted"
        wait_until(studio, lambda: len(studio.alerts) > 100)
        for alert in studio.alerts:
            shown = window(studio.past, 1, alert.event_id)
            assert sum(event["paymentAmount"] for event in shown) == alert.aggregate


def test_an_engine_elsewhere_tells_the_settings_under_which_events_are_held(logs):
    settings = Settings(
        PAYMENTS, key_groups=4, late_policy="drop", max_out_of_orderness_ms=7, max_future_ms=9
    )
    stats = {
        "batch": 0,
        "keyGroups": [0, 3],
        "times": {},
        "engine": {"id": "id", "since": 0} | settings.stats_fields(),
    }
    logs.log("stats").append([json.dumps(stats)])
    with Studio(engine="elsewhere", logs=logs) as watching:
        assert watching.history.settings == settings
        stats["engine"]["latePolicy"] = "store"
        logs.log("stats").append([json.dumps(stats | {"batch": 1})])
        watching.read()
        assert watching.history.settings == replace(settings, late_policy="store")
        stats["engine"]["latePolicy"] = "guess"
        logs.log("stats").append([json.dumps(stats | {"batch": 2})])
        watching.read()
        assert watching.left_out.count == 1 and watching.history.settings.late_policy == "store"


def test_a_rule_is_answered_and_stands_in_the_book():
    with Studio(rate=100) as studio:
        assert studio.ask(RULE)["version"] == 1
        assert studio.ask({"ruleId": 1, "ruleState": "PAUSE"})["ruleState"] == "PAUSE"
        assert studio.ask({"ruleId": 9, "ruleState": "PAUSE"})["status"] == "rejected"
        assert [rule.state for rule in studio.book.sorted()] == ["PAUSE"]


def test_a_message_of_several_lines_is_one_message():
    with Studio(rate=100) as studio:
        rule = {"ruleId": 2, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "window": "1m"}
        rule |= {"aggregatorFunctionType": "COUNT", "limitOperatorType": ">", "limit": 5}
        assert studio.ask(json.dumps(rule, indent=1))["status"] == "accepted"


def test_what_an_engine_that_died_says_is_shown(monkeypatch):
    with Studio(rate=100) as studio:
        monkeypatch.setattr(Epoch, "step", lambda running: 1 / 0)
        wait_until(studio, lambda: studio.state()[0] == "bad")
        assert studio.state()[1] == "the engine ended: division by zero"


def test_a_stream_that_died_is_shown(monkeypatch):
    with Studio(rate=100) as studio:
        monkeypatch.setattr(studio.player, "step", lambda: 1 / 0)
        wait_until(studio, lambda: studio.state()[0] == "bad")
        assert studio.state()[1] == "the stream ended: division by zero"


def test_nothing_is_left_behind_and_a_new_studio_closes_the_one_before():
    before = active_count()
    first = Studio(rate=100)
    folder = first.logs.folder
    second = Studio(rate=100)
    assert first.state() == ("warning", "stopped") and not folder.exists()
    second.close()
    second.close()
    assert active_count() == before and not second.logs.folder.exists()


def test_an_engine_elsewhere_is_watched_by_its_logs(tmp_path):
    with pytest.raises(FileNotFoundError, match="events: no such log"):
        Studio(engine="elsewhere", logs=FileLogs(tmp_path / "typo"))
    assert not (tmp_path / "typo").exists()
    FileLogs(tmp_path).create()
    FileLogs(tmp_path).log("events").append([b'{"transactionId":7,"eventTime":7}'])
    with Studio(engine="elsewhere", logs=FileLogs(tmp_path)) as watching:
        watching.read()
        assert len(watching.past) == 1 and watching.lag == watching.records == 0
        watching.logs.log("events").append([b'{"transactionId":1,"eventTime":1}'])
        watching.read()
        assert watching.records == watching.lag == 1
        stats = {
            "batch": 0,
            "keyGroups": [0, 7],
            "stored": {},
            "records": 1,
            "heldEvents": 0,
            "stateBytes": 8,
            "times": {},
        }
        watching.logs.log("stats").append([json.dumps(stats)])
        watching.read()
        assert watching.lag == 0 and watching.report.state_bytes == 8
        assert watching.state() == ("good", f"the engine runs elsewhere, on {tmp_path}")
        assert (tmp_path / "events").exists()
    assert (tmp_path / "events").exists()


def stats_line(batch: int, records: int, end: int) -> str:
    cut = {"from": 0, "to": 1, "events": {"0": end}, "control": {"0": 0}}
    return json.dumps({"batch": batch, "keyGroups": [0, 7], "records": records, "times": {}, "cut": cut})


def test_what_waited_when_the_room_connected_is_part_of_the_lag(logs):
    events, stats = logs.log("events"), logs.log("stats")
    events.append(['{"transactionId":1,"eventTime":1}'] * 2)
    stats.append([stats_line(0, 2, events.end())])
    events.append(['{"transactionId":2,"eventTime":1}'] * 300)
    with Studio(engine="elsewhere", logs=logs) as watching:
        watching.read()
        assert watching.lag == 300
        assert watching.state()[1].endswith("; 300 records are waiting")
        behind = events.end()
        events.append(['{"transactionId":3,"eventTime":1}'] * 4)
        watching.read()
        assert watching.lag == 304
        stats.append([stats_line(1, 300, behind)])
        watching.read()
        assert watching.lag == 4
        stats.append([stats_line(2, 4, events.end())])
        watching.read()
        assert watching.lag == 0
        events.append(['{"transactionId":4,"eventTime":1}'])
        watching.read()
        assert watching.lag == 1


def test_nothing_lags_when_the_engine_has_read_to_the_end_whatever_was_counted(logs):
    """Blank lines are no records, and an engine that was made to read a log again counts its records twice."""
    events, stats = logs.log("events"), logs.log("stats")
    with Studio(engine="elsewhere", logs=logs) as watching:
        for batch, counted in enumerate((1, 1_000)):
            events.append(['{"transactionId":1,"eventTime":1}', "", ""])
            watching.read()
            assert watching.lag == 3
            stats.append([stats_line(batch, counted, events.end())])
            watching.read()
            assert watching.lag == 0


def test_an_idle_engine_elsewhere_is_told_from_one_that_does_not_run(logs, monkeypatch):
    monkeypatch.setattr(studios, "LOOK_S", -1)
    with Studio(engine="elsewhere", logs=logs) as watching:
        assert watching.state() == ("bad", f"no engine runs on {logs.folder}: start it with `lab run`")
        logs.log("events").append([b'{"transactionId":1,"eventTime":1}'])
        watching.read()
        assert watching.state()[1].endswith("`lab run`; 1 records are waiting")
        with FolderLock(logs.log_folder("stats"), what="log"):  # as an engine does
            assert watching.state() == ("good", f"the engine runs elsewhere, on {logs.folder}")
            watching.report.total["records"] = 1
            watching._heard -= 60
            idle = f"the engine runs elsewhere, on {logs.folder} and is idle: no events arrive"
            assert watching.state() == ("good", idle)
            logs.log("events").append([b'{"transactionId":2,"eventTime":1}'])
            watching.read()
            assert watching.state()[0] == "good", "it has come just now"
            watching._nothing_waited -= 20
            assert watching.state()[0] == "warning"
            assert watching.state()[1].startswith("no cut for 20 s, 1 records are waiting")
        assert watching.state()[0] == "bad"
        logs.log("acks").append(
            ['{"status": "accepted", "place": "control:1", "controlType": "CLEAR_STATE_ALL"}']
        )
        watching.read()
        assert watching.state()[0] == "good"  # it has just answered


def test_of_an_engine_on_topics_the_lease_of_its_checkpoint_tells(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logs = KafkaLogs("127.0.0.1:9")  # nobody is asked
    assert logs.are_written() is None
    with Lease(CheckpointFolder(tmp_path / "checkpoint")):
        assert logs.are_written() is True
        monkeypatch.setattr(ends, "LEASE_S", -1)
        assert logs.are_written() is False
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert logs.are_written() is False  # it was given back


def test_what_the_logs_held_before_is_shown_on_connecting(logs, monkeypatch):
    monkeypatch.setattr(engineview, "KEPT_ALERTS", 3)
    holds = (Decimal(60), "GREATER", Decimal(50))
    alerts = [Alert(1, 1, "{payeeId=7}", *holds, n, n, n, n) for n in range(1_000)]
    padding = " " * 200  # 3 KiB are read back
    logs.log("alerts").append([alert.to_json() + padding for alert in alerts[:990]])
    logs.log("deadLetters").append(['{"reason": "x", "place": "events:1", "raw": ""}'] * 5)
    with Studio(engine="elsewhere", logs=logs) as watching:
        assert [alert.event_id for alert in watching.alerts] == [987, 988, 989]
        assert watching.alerts.total + watching.before["alerts"] == 990
        assert watching.letters.total + watching.before["deadLetters"] == 5
        feed = AlertFeed()
        feed.update(watching)
        assert feed.count.value == "990 alerts" and len(feed.table.rows) == 3
        logs.log("alerts").append([alert.to_json() for alert in alerts[989:]])  # one comes twice
        watching.read()
        feed.update(watching)
        assert feed.count.value == "1,000 alerts" and feed.table.rows[0][0].startswith("1.1.999.")
        assert sum(watching.fired.values()) == watching.alerts.total
        # its event was taken back and has come again
        again = replace(alerts[989], log_time=2_000, alert_time=2_000)
        logs.log("alerts").append([again.to_json()])
        watching.read()
        assert watching.alerts[-1] == again


def test_a_stream_of_dead_letters_is_not_good_and_says_why(tmp_path):
    events = tmp_path / "orders.jsonl"
    events.write_text('{"id": "A-1", "total": 5}\n' * 50)
    with Studio(events=events, rate=500) as playing:
        wait_until(playing, playing.warnings)
        kind, text = playing.state()
        assert (
            kind == "bad"
            and text.startswith("all ")
            and "records are dead letters: transactionId: nothing" in text
        )
        assert "lab infer" in text
        room = ControlRoom(playing)
        room.status.refresh_now()
        assert room.status.kind == "bad" and "dead letters" in room.parts["Stream"].warnings.value
        assert "There will be none until the engine can read the events" in room.parts["Alerts"].table.empty
        room.end()


def test_a_few_dead_letters_are_told_and_are_no_alarm():
    with Studio(rate=50) as playing:
        playing.report.total.update({"records": 1_000, "deadLetters": 3})
        playing.letters.extend(
            [{"reason": "eventTime: nothing, expected the event time", "place": "events:1"}] * 3
        )
        ((kind, text),) = playing.warnings()
        assert kind == "good" and text == (
            "3 of 1,000 records are dead letters: eventTime: nothing, expected the event time (3×)"
        )
        playing.report.total["deadLetters"] = 10
        assert playing.warnings()[0][0] == "warning" == playing.state()[0]


def test_how_often_a_reason_came_is_said_only_if_exactly_the_counted_letters_are_known():
    """The room keeps the newest 200, also of those before it was there."""
    with Studio(rate=50) as playing:
        playing.report.total.update({"records": 1_000, "deadLetters": 20})
        playing.letters.extend([{"reason": "record: not JSON", "place": "events:1"}] * 150)
        assert "20 of 1,000 records are dead letters: record: not JSON. Does" in playing.warnings()[0][1]
        playing.letters.extend([{"reason": "record: not JSON", "place": "events:1"}] * 150)
        playing.report.total["deadLetters"] = 300
        assert "300 of 1,000 records are dead letters: record: not JSON. Does" in playing.warnings()[0][1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"engine": "flink"}, "engine: 'flink', expected one of kernel, spark, kafka, elsewhere"),
        ({"engine": "elsewhere"}, "logs: None, expected those of an engine elsewhere"),
    ],
)
def test_a_wrong_argument_is_named_with_what_would_be_right(arguments, said):
    with pytest.raises(ValueError, match=said):
        Studio(**arguments)


class FailedQuery:
    """A query of Spark's that a Python worker has ended."""

    isActive = False

    def exception(self):
        trace = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\n'
        said = "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: "
        return RuntimeError(
            f"{said}{trace}lab.logs.cluster.NoTopic: topic control is gone\n\n\tat org.apache"
        )


def test_an_engine_on_spark_that_failed_says_what_its_worker_raised():
    with Studio(rate=50) as studio:
        studio.engine = "spark"
        here, studio._engine = studio._engine, SimpleNamespace(query=FailedQuery())
        assert studio.state() == ("bad", "the engine ended: topic control is gone")
        studio._engine = here


def test_the_same_runs_on_spark_and_a_query_that_ends_is_shown(spark):
    with Studio(engine="spark", rate=200, rules=[RULE]) as studio:
        wait_until(studio, lambda: len(studio.alerts) >= 100)
        assert studio.state() == ("good", "the engine runs on Spark, on files")
        studio._engine.query.stop()
        assert studio.state() == ("bad", "the engine ended: its query was stopped")


def test_an_alert_that_comes_after_it_was_withdrawn_is_not_shown(logs):
    """Without transactions an attempt that was taken for dead delivers alerts after its successor has withdrawn them."""
    group = (("payeeId", 25),)
    first, again = (
        Alert(1, 1, "{payeeId=25}", value, "GREATER", Decimal(50), 7, AT, log_time, group=group)
        for value, log_time in ((Decimal(51), AT), (Decimal(60), AT + 20))
    )
    told = Withdrawal(first.key, group, 7, AT, AT + 10)
    for lines in ([first, told], [first, again, first]):  # some are there when it connects
        logs.log("alerts").append([each.to_json() for each in lines])
        if lines[-1] is told:
            watching = Studio(engine="elsewhere", logs=logs)
    with watching:
        watching.read()
        assert [alert.aggregate for alert in watching.alerts] == [51, 60] and watching.withdrawn == 1


def test_an_alert_that_is_shown_says_that_it_was_withdrawn_since(logs):
    """The rule names its grouping fields in another order since then."""
    group = (("beneficiaryId", 12), ("payeeId", 25))
    alert = Alert(1, 1, "{payeeId=25}", Decimal(51), "GREATER", Decimal(50), 7, AT, AT, group=group[::-1])
    feed = AlertFeed()
    with Studio(engine="elsewhere", logs=logs) as watching:
        for line, value in (
            (alert, "51 > 50"),
            (Withdrawal(alert.key, group, 7, AT, AT + 10), "51 > 50 (withdrawn)"),
        ):
            logs.log("alerts").append([line.to_json()])
            watching.read()
            feed.update(watching)
            assert [row[3] for row in feed.table.rows] == [value]
        assert next(csv.DictReader(io.StringIO(feed.csv())))["withdrawn"] == "yes"


def test_an_engine_that_starts_with_a_new_checkpoint_is_counted_on(logs):
    """Its cuts begin again at 0; those of one that was killed come again, and do not count twice."""
    report = StatsReport(logs.log("stats"))

    def cut(engine: str, batch: int) -> str:
        about = {"batch": batch, "keyGroups": [0, 7], "records": 1, "times": {}}
        return json.dumps(about | {"engine": {"id": engine, "since": 5}})

    logs.log("stats").append([cut("old", 7), cut("old", 8), cut("old", 8)])
    assert report.read()["records"] == 2
    logs.log("stats").append([cut("new", 0), cut("new", 1), cut("new", 1)])
    assert report.read()["records"] == 2 and report.total["records"] == 4


def test_after_a_pause_a_room_has_a_part_of_what_came_in_memory(logs):
    """A notebook reads nothing while a cell runs."""
    view = EngineView(logs, Settings(PAYMENTS), running=True)
    letter = json.dumps({"reason": "paymentAmount: nothing, expected a number", "place": "events/0:1"})
    for _ in range(100):
        logs.log("deadLetters").append([letter] * 1_000)
    tracemalloc.start()
    try:
        view.read()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert view.letters.total == 100_000 and most < 20 << 20


def test_what_comes_faster_than_it_is_read_waits_for_the_next_call():
    class Endless:
        def records(self, at_most: int) -> list[Record]:
            return [Record(0, "", "", "")] * at_most

    assert sum(map(len, new_records(Endless()))) == AT_ONCE * MOST_PARTS
