"""Whoever is asked about an event and a rule gives the verdict of the reference: why, why not, would."""

import json
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any

import pytest

from lab.desk import world as worlds
from lab.desk.verdict import OUTCOMES
from lab.desk.world import World
from lab.engine.checkpoint.settings import Settings
from lab.model.alerts import Alert
from lab.model.jsontext import BadRecord
from lab.model.reference import LATE_POLICIES, Reference
from lab.model.schema import LOGINS
from lab.model.whenreader import takes_back
from lab.past import columnpast, plainpast
from tests.engine.randomlogs import (
    log_times,
    random_log,
    with_absence,
    with_lists,
    with_returns,
    with_rules_again,
)
from tests.strategies import RETURNS

RULE_IDS = range(1, 13)
SEEN: set[str] = set()
ALERTS: list[int] = []
some_and_more = pytest.mark.parametrize(
    "seeds",
    [
        range(3),
        pytest.param(range(3, 40), marks=pytest.mark.slow),
        pytest.param(range(40, 200), marks=pytest.mark.soak),
    ],
    ids=["some", "more", "many"],
)


@pytest.fixture(params=[plainpast.Past, columnpast.Past], ids=["plain", "columns"], autouse=True)
def past(request, monkeypatch):
    monkeypatch.setattr(worlds, "Past", request.param)


def drawn(seed: int, live: bool, schema, policy: str):
    """A random log in its order, as (log time, kind, text), the settings, and the log time of its end."""
    rng = Random(f"{seed} {live} {schema.name} {policy}")
    log = random_log(rng, short=True)
    log = with_returns(rng, log) if schema is RETURNS else log
    log = with_absence(rng, log) if rng.random() < 0.5 else log
    log = with_lists(rng, log) if rng.random() < 0.6 else log
    if live:
        log = with_rules_again(rng, log)
        timed = sorted(
            zip(log_times(rng, len(log)), log), key=lambda each: (each[0], each[1][0] != "control")
        )
        entries = [(at, kind, text) for at, (kind, text) in timed]
    else:
        entries = sorted(((0, *entry) for entry in log), key=lambda each: each[1] != "control")
    end = entries[-1][0] + rng.choice([1, 10**7]) if live else 0
    return entries, Settings(schema, key_groups=rng.choice([1, 8]), late_policy=policy), end


def world_of(entries, settings: Settings, end: int) -> World:
    control = [(at, text) for at, kind, text in entries if kind == "control"]
    events = [(at, text) for at, kind, text in entries if kind == "event"]
    return World.of_records(settings, lambda: control, lambda: events, end)


class AlertsAtOnce(Reference):
    """The reference, which tells alerts at an event from those of `absence`, which come later."""

    at_once: list[str]

    def _alert(self, rule, *alert, **more):
        before = len(self.alerts)
        super()._alert(rule, *alert, **more)
        if not rule.absence and len(self.alerts) > before:
            self.at_once.append(self.alerts[-1].alert_id)


def in_reference(entries, settings: Settings, end: int) -> tuple[list[set[str]], list[Alert]]:
    """Of each event that was read, the ids of the alerts at it; all alerts."""
    how: dict[str, Any] = {"late_policy": settings.late_policy, "key_groups": settings.key_groups}
    reference, at_each = AlertsAtOnce(settings.schema, **how), []
    for at, kind, text in entries:
        if kind == "control":
            reference.control(text, at)
            continue
        with suppress(BadRecord):
            for event in settings.schema.events(text):
                reference.at_once = []
                reference.evaluate_event(event, at)
                at_each.append({*reference.at_once})
    reference.advance_to(end)
    return at_each, reference.alerts


@some_and_more
@pytest.mark.parametrize("policy", LATE_POLICIES)
@pytest.mark.parametrize("schema", [LOGINS, RETURNS], ids=["logins", "returns"])
@pytest.mark.parametrize("live", [True, False], ids=["live", "file"])
def test_each_verdict_is_that_of_the_reference(live, schema, policy, seeds):
    alerts_seen, outcomes = 0, set()
    for seed in seeds:
        entries, settings, end = drawn(seed, live, schema, policy)
        at_each, alerts = in_reference(entries, settings, end)
        world = world_of(entries, settings, end)
        for row, alert_ids in enumerate(at_each):
            event = world.past.event_in(row)
            if takes_back(event, schema):
                continue
            for rule_id in RULE_IDS:
                verdict = world.judge.of_event(rule_id, event, row)
                outcomes.add(verdict.outcome)
                if verdict.rule and verdict.rule.absence:
                    continue
                mine = {alert_id for alert_id in alert_ids if alert_id.startswith(f"{rule_id}.")}
                found = {verdict.alert.alert_id} if verdict.alert else set()
                assert found == mine, (seed, row, verdict.said)
                assert verdict.alerted == bool(mine), (seed, row, verdict.said)
        for alert in alerts:
            verdict = world.why(alert)
            assert verdict.alert and verdict.alert.alert_id == alert.alert_id
            assert json.loads(json.dumps(verdict.to_dict())) and verdict.text()
            alerts_seen += 1
    SEEN.update(outcomes)
    ALERTS.append(alerts_seen)


def test_each_wait_of_an_event_that_came_again_has_its_own_alert():
    entries, settings, end = drawn(1010, True, RETURNS, "store")
    _, alerts = in_reference(entries, settings, end)
    assert {
        found.alert_id for each in alerts if (found := world_of(entries, settings, end).why(each).alert)
    } == {alert.alert_id for alert in alerts}


@some_and_more
@pytest.mark.parametrize("schema", [LOGINS, RETURNS], ids=["logins", "returns"])
@pytest.mark.parametrize("live", [True, False], ids=["live", "file"])
def test_would_gives_the_verdict_that_the_event_then_gets(live, schema, seeds):
    for seed in seeds:
        entries, settings, _ = drawn(seed, live, schema, "evaluate")
        places = [
            n for n, (_, kind, text) in enumerate(entries) if kind == "event" and b"returned" not in text
        ]
        for n in places[-2:]:
            at, _, line = entries[n]
            at_each, _ = in_reference(entries[: n + 1], settings, at)
            world = world_of(entries[:n], settings, at)
            stored = len(world.past)
            verdicts = world.would(line)
            SEEN.update(each.outcome for each in verdicts)
            found = {each.alert.alert_id for each in verdicts if each.alert}
            assert found == {*at_each[-1]}, (seed, n)
            assert len(world.past) == stored
            assert world.would(line) == world.would(json.loads(line))


def test_every_outcome_was_seen_and_many_alerts():
    expected = {*OUTCOMES} - {"deadLetter", "takesBack", "late", "tooLate"}  # those of `test_desk_cli`
    for seed in count(1_000):
        if expected <= SEEN and sum(ALERTS) > 50:
            break
        assert seed < 1_100, expected - SEEN
        test_each_verdict_is_that_of_the_reference(True, RETURNS, "evaluate", [seed])
