"""Pulse, scopes, panel and room, without a browser."""

import time

import numpy as np

from lab.apps.studio import Newest, Studio
from lab.widgets import latencyscope
from lab.widgets.controlroom import ControlRoom, FrontDoor
from lab.widgets.latencyscope import LatencyScope, around_percentiles
from lab.widgets.pulse import BAD, GOOD, Pulse

RULE = "1,(active),(paymentType),,(paymentAmount),(SUM),(>),(100),(1)"


def test_a_widget_that_fails_is_told_and_the_others_go_on():
    done = []
    pulse = Pulse([lambda: 1 / 0, lambda: done.append(1)], lambda: (GOOD, "running"))
    pulse.tick()
    assert (pulse.kind, pulse.text) == (BAD, "ZeroDivisionError: division by zero")
    assert done == [1] and pulse.beat == 1


def test_a_control_room_shows_what_a_studio_gives_until_it_is_ended(monkeypatch):
    monkeypatch.setattr(latencyscope, "WARM_UP_S", 0)
    with Studio(rate=500, rules=[RULE]) as studio:
        room = ControlRoom(studio)
        deadline = time.monotonic() + 20
        while " of " not in room.parts["Latency"].said.value:
            assert time.monotonic() < deadline
            time.sleep(0.1)
            room.pulse.tick()
        assert room.pulse.text == "the engine runs in this kernel, without Spark"
        assert room.parts["Rules"].table.rows[0][3] == "ACTIVE"
        assert room.parts["Alerts"].table.rows
        assert 0 < sum(room.parts["Latency"].histogram.data[0].y) <= len(studio.latencies.total())
        assert 0 < sum(room.parts["Key-groups"].sizes) <= studio.report.state_bytes
        room.parts["Stream"].paused.value = True
        room.pulse.tick()
        assert room.pulse.text.endswith("the stream is paused")
        room.stop.click()
        assert room.pulse.text == "stopped" and room.stop.disabled


def test_the_stream_is_steered():
    with Studio(rate=100) as studio:
        panel = ControlRoom(studio).parts["Stream"]
        panel.rate.value = 1000
        assert studio.player.rate == 1000
        panel.bursts[0].click()
        deadline = time.monotonic() + 10
        while not studio.player.planted:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        panel.paused.value = True
        assert studio.player.paused
        panel.paused.value = False
        assert not studio.player.paused


def test_the_parts_of_latency_add_up_to_the_whole():
    stages = {"wait": np.arange(100), "plan": np.full(100, 7)}
    means = around_percentiles(stages)
    total = stages["wait"] + stages["plan"]
    assert means["wait"][0] + means["plan"][0] == total[np.argsort(total)][47:52].mean()


class Slowly:
    """Alerts as a studio's `latencies` has them: (appended, took), ms."""

    def __init__(self, *alerts):
        self.alerts, self.latencies, self._alerts = Newest(alerts), self, alerts
        self.alerts.total = len(alerts)

    def since(self, ms):
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
    assert "p99 40 ms" in scope.said.value and "of 1 over" in scope.said.value
    now[0] += 31_000
    scope.update(Slowly(late, quick))
    assert "No alert in the last 30 s" in scope.said.value


def test_latencies_beyond_the_picture_are_in_its_last_bar():
    scope = LatencyScope()
    scope.show(np.array([10, 90_000]), {})
    assert sum(scope.histogram.data[0].y) == 2 and scope.histogram.data[0].y[-1] == 1


def test_the_front_door_says_what_keeps_an_engine_from_starting(monkeypatch):
    door = FrontDoor()
    monkeypatch.setattr("lab.widgets.controlroom.Studio", lambda *_, **__: 1 / 0)
    door.start.click()
    assert "division by zero" in door.said.value and not door.start.disabled
