"""Status, scopes, panel and room, without a browser."""

from decimal import Decimal
from html import escape

import numpy as np
import pytest

from lab.desk.world import World
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.filelogs import FileLogs
from lab.followers.latency import STAGES
from lab.model.alerts import Alert
from lab.model.schema import PAYMENTS
from lab.past.backtest import Past
from lab.past.routehistory import RouteHistory
from lab.sources.infer import infer
from lab.studio.engineview import NewestItems
from lab.studio.studio import Studio
from lab.widgets import latencyscope
from lab.widgets.alertfeed import AlertFeed
from lab.widgets.controlroom import ControlRoom
from lab.widgets.latencyscope import LatencyScope, stage_means_near_percentiles
from lab.widgets.launcher import CONNECT, OWN, ControlRoomLauncher
from lab.widgets.refreshingstatus import BAD, GOOD, RefreshingStatus
from tests.orders import orders
from tests.waiting import wait_until

RULE = "1,(active),(paymentType),,(paymentAmount),(SUM),(>),(100),(1)"


def test_a_widget_that_fails_is_told_and_the_others_go_on():
    done = []
    status = RefreshingStatus([lambda: 1 / 0, lambda: done.append(1)], lambda: (GOOD, "running"))
    status.refresh_now()
    assert (status.kind, status.text) == (BAD, "ZeroDivisionError: division by zero")
    assert done == [1] and status.beat == 1


def test_a_state_that_nobody_can_tell_is_told_and_the_beats_go_on():
    """As when the Java that runs the engine was killed: to ask its query is an error."""
    status = RefreshingStatus([], lambda: (GOOD, str(1 / 0)))
    for beat in (1, 2):
        status.refresh_now()
        assert (status.kind, status.text, status.beat) == (BAD, "ZeroDivisionError: division by zero", beat)


def test_a_control_room_shows_what_a_studio_gives_until_it_is_ended(monkeypatch):
    monkeypatch.setattr(latencyscope, "WARM_UP_S", 0)
    with Studio(rate=500, rules=[RULE]) as studio:
        room = ControlRoom(studio)
        wait_until(lambda: room.status.refresh_now() or " of " in room.parts["Latency"].said.value)
        assert room.status.text == "the engine runs in this kernel, without Spark"
        wait_until(lambda: room.status.refresh_now() or sum(room.parts["Key-groups"].sizes))
        assert room.parts["Rules"].table.rows[0][2] == "ACTIVE"
        assert room.parts["Alerts"].table.rows
        assert 0 < sum(room.parts["Latency"].histogram.data[0].y) <= len(studio.latencies.total())
        assert 0 < sum(room.parts["Key-groups"].sizes) <= studio.report.state_bytes
        room.parts["Stream"].paused.value = True
        room.status.refresh_now()
        assert room.status.text.endswith("the stream is paused")
        room.stop.click()
        assert room.status.text == "stopped" and room.stop.disabled


def test_a_room_ends_also_if_its_engine_cannot_be_stopped():
    with Studio(rate=100) as studio:
        room = ControlRoom(studio)
        studio._stack.callback(lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            room.end()
        assert room.status.text == "stopped" and room.stop.disabled


def test_a_room_whose_engine_ends_with_the_page_is_marked_until_it_is_stopped():
    with Studio(rate=100) as studio:
        room = ControlRoom(studio)
        assert "lab-lost-with-page" in room._dom_classes
        room.end()
        assert "lab-lost-with-page" not in room._dom_classes


def test_a_room_that_has_ended_takes_nothing_and_says_so():
    with Studio(rate=100, rules=[RULE]) as studio:
        room = ControlRoom(studio)
        desk, stream = room.parts["Rules"], room.parts["Stream"]
        desk.text.value = RULE.replace("1,", "2,", 1)
        desk.publish.click()
        while not desk.acks.value:
            room.status.refresh_now()
        assert "accepted rule 2 version 1" in desk.acks.value
        room.end()
        desk.publish.click()
        assert "Not published: the engine has stopped" in desk.said.value and desk.acks.value == ""
        assert all(control.disabled for control in (stream.paused, stream.rate, *stream.bursts))


def test_a_chart_without_data_has_no_axes_until_there_is_some():
    scope, feed = LatencyScope(), AlertFeed()
    charts = (scope.histogram, scope.stages, feed.over_time)
    assert not any(chart.layout.xaxis.visible for chart in charts)
    scope.show([100], {stage: [10] for stage in STAGES})
    feed.add([Alert(1, 1, "{payeeId=1}", Decimal(60), "GREATER", Decimal(50), 1, 0)])
    assert all(chart.layout.xaxis.visible and chart.layout.yaxis.visible for chart in charts)


def test_the_stream_is_steered():
    with Studio(rate=100) as studio:
        panel = ControlRoom(studio).parts["Stream"]
        panel.rate.move("1,000")
        assert studio.player.target_rate == 1000
        panel.bursts[0].click()
        wait_until(lambda: studio.player.planted)
        assert 'role="status" aria-live="polite">burst 1 planted: pair<' in panel.planted.value
        panel.bursts[0].click()  # another text, so that it is read aloud again
        assert ">burst 2 planted: pair<" in panel.planted.value
        panel.paused.value = True
        assert studio.player.is_paused
        panel.paused.value = False
        assert not studio.player.is_paused


def test_the_parts_of_latency_add_up_to_the_whole():
    stages = {"wait": np.arange(100), "plan": np.full(100, 7)}
    means = stage_means_near_percentiles(stages)
    total = stages["wait"] + stages["plan"]
    assert means["wait"][0] + means["plan"][0] == total[np.argsort(total)][47:52].mean()


class Slowly:
    """Alerts as a studio's `latencies` has them: (appended, took), ms."""

    def __init__(self, *alerts):
        self.alerts, self.latencies, self._alerts = NewestItems(alerts), self, alerts
        self.alerts.total = len(alerts)

    def count_since(self, ms):
        return sum(appended >= ms for appended, _ in self._alerts)

    def total(self):
        return np.array([took for _, took in self._alerts])

    def stages(self):
        return {}


def test_alerts_of_the_warm_up_and_of_long_ago_are_not_shown(monkeypatch):
    scope, now = LatencyScope(), [1_000_000]
    monkeypatch.setattr(latencyscope, "now_ms", lambda: now[0])
    late, quick = (1_000_000, 900), (1_012_000, 40)
    scope.update(Slowly(late))
    assert "Warming up" in scope.said.value
    now[0] += 12_000
    scope.update(Slowly(late, quick))
    assert "<b>40</b> <span>p99, ms" in scope.ranks.value and "of 1 alerts over" in scope.said.value
    now[0] += 31_000
    scope.update(Slowly(late, quick))
    assert "No alerts in the last 30 s" in scope.said.value


def test_latencies_beyond_the_picture_are_in_its_last_bar():
    scope = LatencyScope()
    scope.show(np.array([10, 90_000]), {})
    assert sum(scope.histogram.data[0].y) == 2 and scope.histogram.data[0].y[-1] == 1


def test_what_is_chosen_opens_beside_and_closes_again():
    with Studio(rate=500, rules=[RULE]) as studio:
        room = ControlRoom(studio)
        desk, side = room.parts["Rules"], room.side
        assert side.layout.display == "none"
        while not studio.book.rules:
            room.status.refresh_now()
        room.status.refresh_now()
        desk.table.selected = "1"
        assert (side.shown, side.layout.display, side.title.value) == ("Rules", "", "<h3>Rule 1</h3>")
        assert desk.detail.layout.display == "" and room.parts["Alerts"].detail.layout.display == "none"
        side.escape.shown = False  # as Escape does
        assert (side.shown, side.layout.display, desk.table.selected) == ("", "none", "")
        desk.new.click()
        assert side.title.value == "<h3>New rule</h3>" and desk.form.rule_id.placeholder == "2"


def test_a_room_without_some_panels_has_no_empty_column():
    with Studio(rate=50) as studio:
        *columns, side = ControlRoom(studio, panels=("Stream", "Rules", "Alerts")).children[1].children
        assert [len(column.children) for column in columns] == [1, 2] and side.shown == ""


def test_the_launcher_says_what_keeps_an_engine_from_starting(monkeypatch):
    door = ControlRoomLauncher()
    monkeypatch.setattr("lab.widgets.launcher.Studio", lambda *_, **__: 1 / 0)
    door.start.click()
    assert "division by zero" in door.said.value and not door.start.disabled
    assert door.form.layout.display != "none"


def test_the_launcher_folds_away_and_comes_back():
    door = ControlRoomLauncher()
    door.start.click()
    try:
        assert door.form.layout.display == "none" and door.said.value == ""
        door.again.click()
        assert door.form.layout.display == ""
    finally:
        door.room.end()


def test_the_launcher_connects_to_logs_and_shows_no_password(tmp_path):
    logs = FileLogs(tmp_path / "logs")
    logs.create()
    door = ControlRoomLauncher()
    door.how.value = CONNECT
    for where, reason in (
        ("", "logs is empty"),
        (str(tmp_path / "log"), "no such folder"),
        (str(tmp_path), "has no logs: it lacks the folder events and the folder control (it contains logs)"),
        ("kafka://user:hidden@127.0.0.1:9092", "in lab.toml"),
    ):
        door.logs.value = where
        door.start.click()
        assert reason in door.said.value and "hidden" not in door.said.value + door.logs.value
    assert not (tmp_path / "log").exists()
    door.logs.value = f" {tmp_path / 'logs'} "
    door.start.click()
    try:
        assert door.room.studio.engine == "elsewhere" and door.room.studio.schema.name == "payments"
        door.room.status.refresh_now()
        assert f"no engine runs on {tmp_path / 'logs'}" in door.room.status.text
    finally:
        door.room.end()


def test_the_launcher_says_where_it_looked_for_a_mistyped_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    door = ControlRoomLauncher()
    door.how.value, door.events.value = OWN, "ordres.jsonl"
    door.start.click()
    assert "ordres.jsonl is not there" in door.said.value and str(tmp_path) in door.said.value


def test_the_launcher_plays_own_events_of_own_shape(tmp_path):
    events, schema = tmp_path / "orders.jsonl", tmp_path / "orders.toml"
    events.write_text("".join(f"{line}\n" for line in orders(500)))
    schema.write_text(infer(events.read_bytes().splitlines(), "orders").toml())
    door = ControlRoomLauncher()
    door.how.value = OWN
    for of, kind, reason in (
        ("", "", "events is empty, expected a file"),
        (tmp_path / "none.jsonl", str(schema), "none.jsonl"),
        (events, str(tmp_path / "none.toml"), "and there is no such file"),
    ):
        door.events.value, door.schema.value = str(of), kind
        door.start.click()
        assert reason in door.said.value and door.room is None, door.said.value
    door.schema.value = f" {schema} "
    door.start.click()
    try:
        studio = door.room.studio
        assert studio.schema.name == "orders"
        wait_until(lambda: studio.read() or studio.records)
        assert not studio.letters
    finally:
        door.room.end()


def test_a_click_on_an_alert_tells_why_and_a_form_why_not_in_the_words_of_the_command_line():
    rules = ["1: SUM(paymentAmount) per payeeId over 1 h > 20", "2: COUNT(events) per payeeId over 1 h > 99"]
    with Studio(rate=500, rules=rules) as studio:
        room = ControlRoom(studio)
        feed, asked = room.parts["Alerts"], room.parts["Why not?"]
        wait_until(lambda: room.status.refresh_now() or feed.table.rows)
        feed.table.selected = key = feed.table.rows[0][0]
        said = World.of_logs(studio.logs, studio.schema).why(key)
        assert (
            escape(said.said) in feed.window.why.value
            and escape(said.changes[0].text()) in feed.window.why.value
        )
        room.tools()[0].click()
        assert room.side.shown == "Why not?" and asked.rule.options == (1, 2)
        asked.rule.value, asked.event.value = 2, key.split(".")[2]
        assert "COUNT(events) over 1 h &gt; 99 is false at event" in asked.verdict.value
        for wrong in ("<b>", "-1", "{}", '{"a": "<i>"}'):
            asked.event.value = wrong
            assert "lab-said bad" in asked.verdict.value or "dead letter" in asked.verdict.value
            assert "<b>" not in asked.verdict.value and "<i>" not in asked.verdict.value


def test_an_alert_whose_events_left_memory_in_part_is_not_explained_from_the_rest():
    rule = "1: SUM(paymentAmount) per payeeId over 1 h > 40"
    lines = [f"{n},2013-01-01 00:00:0{n},25,12,CSH,30".encode() for n in range(1, 4)]
    history = RouteHistory(Settings(PAYMENTS))
    history.apply(rule)
    whole, part = (Past(PAYMENTS, history=history) for _ in range(2))
    whole.add(lines)
    part.add(lines[1:])
    (alert,) = [World.of_past(whole).why_not(3, 1).alert]
    feed = AlertFeed([alert], past=whole, rules=history.book.rules)
    feed.table.selected = alert.alert_id
    assert "the value is 90" in feed.window.why.value
    feed.past, feed.table.selected = part, ""
    feed.table.selected = alert.alert_id
    assert "no longer tell why; `lab why` reads" in feed.window.why.value
