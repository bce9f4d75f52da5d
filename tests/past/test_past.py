"""Past events agree with the reference, alert for alert."""

import gzip
import json
from bisect import bisect_left
from collections import Counter, deque
from dataclasses import replace
from decimal import Decimal
from functools import cache
from itertools import compress
from random import Random
from typing import Any, NamedTuple

import pytest

from lab.desk.judging import Judge
from lab.desk.picture import AlertPicture
from lab.engine.checkpoint.settings import Settings
from lab.model.alerts import event_id_text
from lab.model.reference import LATE_POLICIES, Reference
from lab.model.rules import BadRule, Rule, parse_message
from lab.model.schema import LOGINS, PAYMENTS, Schema
from lab.past import columnpast, plainpast, routehistory
from lab.past.routehistory import RouteHistory
from lab.stream.datasets import dataset
from tests.engine.oddlogs import ROWS, with_odd_entries, with_rows
from tests.engine.randomlogs import (
    LIMITS,
    Entry,
    log_times,
    random_log,
    with_absence,
    with_derived,
    with_legs,
    with_lists,
    with_returns,
)
from tests.past.windows import window
from tests.strategies import DERIVED, LEGS, RETURNS


@pytest.fixture(params=[columnpast.Past, plainpast.Past], ids=["columns", "plain"])
def Past(request):
    """On the compiled windows, and on the reference that a page has."""
    return request.param


def payments(at_most: int) -> list[bytes]:
    with gzip.open(dataset("payments") / "payments.jsonl.gz") as file:
        return file.read().splitlines()[:at_most]


def test_only_the_newest_events_are_kept(Past):
    past = Past(PAYMENTS, at_most=100)
    lines = payments(1_000)
    for start in range(0, 1_000, 10):
        past.add(lines[start : start + 10])
    assert 100 <= len(past) <= 125
    assert past.arrived == 1_000


def test_bad_records_are_left_out_and_nothing_else(Past):
    good = payments(10)
    past = Past(PAYMENTS)
    assert past.add([*good[:5], b"{broken", *good[5:]]) == 10


def test_an_event_that_is_gone_has_no_window(Past):
    past = Past(PAYMENTS)
    past.history.apply("1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)")
    assert window(past, 1, 1) == []
    past.add(payments(10))
    assert window(past, 1, 10**9) == []


@pytest.mark.parametrize("key", ["payeeId", "paymentType", "paymentAmount"])
@pytest.mark.parametrize("of", ["(paymentAmount),(SUM)", "(payeeId),(MIN)", "(COUNT_FLINK),(SUM)"])
def test_a_rule_whose_key_or_value_is_null_in_all_events_has_no_aggregates(Past, key, of):
    past = Past(PAYMENTS)
    lines = [b'{"transactionId": %d, "eventTime": %d}' % (number, number) for number in range(3)]
    past.add(lines)
    rule = parse_message(text := f"1,(active),({key}),,{of},(>),(50),(20)", PAYMENTS).rule
    assert len(past.aggregates(rule).values) == 0
    past.history.apply(text)
    assert window(past, 1, 1) == []
    past.add(
        [b'{"transactionId": 9, "eventTime": 9, "payeeId": 1, "paymentType": "CSH", "paymentAmount": 51}']
    )
    assert past.aggregates(rule).ids.tolist() == [9]


def test_a_rule_on_a_value_that_is_null_in_all_events_has_no_aggregates(Past):
    past = Past(PAYMENTS)
    past.add([b'{"transactionId": 1, "eventTime": 1, "payeeId": 1}'])
    rule = parse_message("1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)", PAYMENTS).rule
    assert len(past.aggregates(rule).values) == 0


# random logs: an everyday run takes a quarter of them
some_and_more = pytest.mark.parametrize(
    "seeds", [range(10), pytest.param(range(10, 40), marks=pytest.mark.slow)], ids=["some", "more"]
)


class WindowsOfAlerts(Reference):
    """The reference, which notes the ids of the events over which it computes the first aggregate of each alert."""

    def __init__(self, schema, **settings):
        super().__init__(schema, **settings)
        self.windows = {}

    def _evaluate(self, rule, group, held, current, event):
        own, before = rule.aggregations[0], len(self.alerts_and_withdrawals)
        inside = own.window_of(current, [each for each in held if not each.taken_back])
        inside = [each.id for each in inside if self._counts(rule, own, group, each)]
        super()._evaluate(rule, group, held, current, event)
        for alert in self.alerts_and_withdrawals[before:]:
            self.windows[alert.alert_id] = alert, rule, sorted(inside)


@cache
def windows_of_alerts(
    policy: str, schema: Schema, seed: int
) -> tuple[int, list[tuple[int, Entry]], WindowsOfAlerts]:
    """A random log: the number of key-groups, its records and messages in order of log time, and the reference after all of them."""
    rng = Random(seed)
    log = random_log(rng, short=True)
    log = with_returns(rng, log) if schema is RETURNS else log
    key_groups = rng.choice([1, 8])
    reference = WindowsOfAlerts(schema, late_policy=policy, key_groups=key_groups)
    timed = sorted(zip(log_times(rng, len(log)), log), key=lambda each: (each[0], each[1][0] != "control"))
    for log_time, (kind, text) in timed:
        if kind == "control":
            reference.control(text, log_time)
        else:
            reference.event(text, log_time=log_time)
    return key_groups, timed, reference


@some_and_more
@pytest.mark.parametrize("schema", [LOGINS, RETURNS], ids=["logins", "returns"])
@pytest.mark.parametrize("policy", LATE_POLICIES)
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_window_has_the_events_over_which_the_reference_computed_the_aggregate(
    Past, partitions, policy, schema, seeds
):
    shown = 0
    for seed in seeds:
        key_groups, timed, reference = windows_of_alerts(policy, schema, seed)
        history = RouteHistory(Settings(schema, key_groups=key_groups, late_policy=policy))
        past = Past(schema, history=history)
        for log_time, (kind, text) in timed:
            if kind == "control":
                history.apply(text, log_time)
        for partition in range(partitions):  # one is read after the other, so not in the order of log times
            for log_time, (kind, text) in timed:
                if kind == "event" and log_time % partitions == partition:
                    past.add([text], [log_time])
        for alert, rule, ids in reference.windows.values():
            if rule.absence:
                continue
            verdict = Judge(past).of_alert(alert, with_changes=False)
            found = [each.fields["eventId"] for each in AlertPicture(alert, verdict).counted]
            assert sorted(found) == ids, (seed, alert)
            assert replace(verdict.alert, log_time=None, alert_time=None) == replace(alert, log_time=None)
            shown += 1
    assert shown > 3 * len(seeds)


def test_a_window_may_be_of_all_events_though_they_were_read_in_another_order_than_logged(Past):
    """Among 128 key-groups, events of other groups would take the place of those of the last one's."""
    past, now = Past(PAYMENTS, history=RouteHistory(Settings(PAYMENTS, key_groups=128))), 1_400_000_000_000
    past.history.apply("1: COUNT(events) per payeeId over 1 d > 1")
    lines = [b"%d,2013-01-01 00:00:%02d,%d,12,CSH,30" % (n, n, n % 3) for n in range(9)]
    for read in (2, 0, 1):
        past.add(lines[read::3], range(now + read, now + 9, 3))
    assert [event["transactionId"] for event in window(past, 1, 8)] == [2, 5, 8]


@some_and_more
def test_a_window_needs_no_changes_from_before_the_oldest_event(Past, monkeypatch, seeds):
    windows = 0
    for seed in seeds:
        rng = Random(seed)
        log = random_log(rng, short=True)
        pasts = [Past(LOGINS, at_most=20) for _ in range(2)]
        for at, (kind, text) in enumerate(log):
            for past, forget_at in zip(pasts, (0, 1_000_000)):
                monkeypatch.setattr(routehistory, "FORGET_AT", forget_at)
                if kind == "control":
                    past.history.apply(text, at)
                else:
                    past.add([text], [at])
            changes = [sum(map(len, past.history.changes.values())) for past in pasts]
            assert changes[0] <= changes[1]
            if kind == "event" and at % 5 == 0:
                for rule_id in pasts[0].history.book.rules:
                    one, other = (window(past, rule_id, json.loads(text).get("eventId")) for past in pasts)
                    assert one == other, (seed, at)
                    windows += bool(one)
    assert windows > 2 * len(seeds)


def test_changes_of_rules_from_before_the_oldest_event_are_folded(Past):
    past, now = Past(PAYMENTS, at_most=10), 1_400_000_000_000
    for number in range(3_000):
        state = ("active", "pause")[number % 2]
        past.history.apply(f"{number % 3 + 1},({state}),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)", now)
    past.add([b"%d,2013-01-01 00:00:00,25,12,CSH,30" % number for number in range(30)], [now] * 30)
    assert sum(map(len, past.history.changes.values())) == 3


def test_events_that_come_look_for_the_oldest_log_time_only_where_there_is_much_to_forget(Past, monkeypatch):
    past = Past(PAYMENTS, at_most=10)
    monkeypatch.setattr(past.history, "forget_before", lambda log_time: pytest.fail("it looked"))
    past.add([b"%d,2013-01-01 00:00:00,25,12,CSH,30" % number for number in range(30)])
    past.history.apply("1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)", 5)
    past.add([b"30,2013-01-01 00:00:00,25,12,CSH,30"])


def test_an_event_that_comes_after_changes_were_folded_though_it_was_logged_before_is_in_a_window(
    Past, monkeypatch
):
    monkeypatch.setattr(routehistory, "FORGET_AT", 2)
    past, now = Past(PAYMENTS, at_most=4), 1_400_000_000_000
    for limit in (50, 60):
        past.history.apply(f"1,(active),(payeeId),,(paymentAmount),(SUM),(>),({limit}),(20)", now + limit)
    past.add([b"%d,2013-01-01 00:00:00,25,12,CSH,30" % number for number in range(8)], [now + 100] * 8)
    assert sum(map(len, past.history.changes.values())) == 1
    past.add([b"8,2013-01-01 00:00:01,25,12,CSH,30"], [now + 55])
    (event,) = window(past, 1, 8)
    assert event["transactionId"] == 8


def alone(
    reference: Reference,
    rule_text: str | bytes,
    lines: list[bytes],
    times: list[int],
    lists: list[tuple[int, bytes]] | None = None,
) -> Reference:
    """The reference after a rule and events. `lists`: log times and messages that change lists."""
    reference.control(rule_text)
    left = deque(lists or ())
    for line, log_time in zip(lines, times, strict=True):
        while left and left[0][0] <= log_time:
            reference.control(left.popleft()[1])
        reference.event(line, log_time=log_time)
    return reference


SCHEMA_OF = {"file": LOGINS, "live": LOGINS, "returns": RETURNS, "odd": LOGINS, "rows": ROWS}
SCHEMA_OF |= {
    "lists": LOGINS,
    "derived": replace(LOGINS, derived=DERIVED),
    "legs": replace(LOGINS, legs=LEGS),
}


class RulesOfLog(NamedTuple):
    """The events of a random log, and for each of its rules, at one or more limits, the events at which that rule alone alerts."""

    lines: list[bytes]
    times: list[int]
    settings: dict[str, Any]
    alerts: list[tuple[Rule, list[tuple[Rule, Counter]]]]
    lists: list[tuple[int, bytes]]


@cache
def rules_of_log(kind: str, seed: int) -> RulesOfLog:
    """What the reference finds for every kind of rule, some also at other limits, with random settings of the engine."""
    rng, schema = Random(1_000 + seed), SCHEMA_OF[kind]
    log = with_absence(rng, random_log(rng, short=rng.random() < 0.9))
    log = with_returns(rng, log) if kind == "returns" else log
    log = with_rows(rng, log) if kind == "rows" else log
    log = with_derived(rng, log) if kind == "derived" else log
    log = with_legs(rng, log) if kind == "legs" else log
    log = with_odd_entries(rng, log) if kind in ("odd", "rows") else log
    log = with_lists(rng, log) if kind == "lists" else log
    lines = [text for what, text in log if what == "event"]
    times = [0] * len(lines) if kind == "file" else log_times(rng, len(lines))
    by: dict[str, Any] = {"late_policy": rng.choice(LATE_POLICIES), "key_groups": rng.choice([1, 16])}
    before = [n for n, (what, _) in enumerate(log) if what == "event"]
    logged = [times[min(bisect_left(before, n), len(times) - 1)] for n in range(len(log))]
    lists = [(time, text) for time, (_, text) in zip(logged, log) if text.startswith(b'{"list"')]
    found = RulesOfLog(lines, times, by, [], lists)
    for text in dict.fromkeys(text for what, text in log if what == "control" and b"window" in text):
        given = json.loads(text) | {"ruleState": "ACTIVE"}
        if rng.random() < 0.2:  # of the random multiples, few are reached
            given |= {"limit": 1, "limitOf": {"aggregatorFunctionType": "COUNT", "window": "5m"}}
        elif rng.random() < 0.15:  # one function of twenty
            given |= {"aggregatorFunctionType": "COUNT_WITH_RESET", "aggregateFieldName": None}
            given |= {"unique": None, "limitOperatorType": ">=", "limit": "2", "limitOf": None}
        try:
            rule = parse_message(json.dumps(given), schema).rule
        except BadRule:
            continue
        others = rule.can_count_alerts_at_other_limits and rng.random() < 0.2
        of_limits = []
        for limit in [rule.first.limit, *((Decimal("2.5"), *map(Decimal, LIMITS)) if others else ())]:
            of_limit = rule.with_first(limit=limit)
            message = json.dumps(of_limit.to_dict())
            alerts = alone(Reference(schema, **by), message, lines, times, lists).alerts
            id_of = (lambda id: id) if schema.has_numeric_id else event_id_text
            at = Counter((id_of(alert.event_id), alert.event_time) for alert in alerts)
            of_limits.append((of_limit, at))
        found.alerts.append((rule, of_limits))
    return found


@pytest.mark.parametrize(
    "seeds",
    [
        range(60),
        pytest.param(range(60, 160), marks=pytest.mark.slow),
        pytest.param(range(160, 400), marks=pytest.mark.soak),
    ],
    ids=["some", "more", "many"],
)
@pytest.mark.parametrize("kind", SCHEMA_OF)
def test_each_rule_of_a_random_log_would_have_raised_the_alerts_of_the_reference(Past, kind, seeds):
    told: Counter[str] = Counter()
    for seed in seeds:
        of, schema = rules_of_log(kind, seed), SCHEMA_OF[kind]
        past = Past(schema, history=RouteHistory(Settings(schema, **of.settings)))
        for log_time, message in of.lists:
            past.history.apply(message, log_time)
        past.add(of.lines, None if kind == "file" else of.times)
        for rule, of_limits in of.alerts:
            found = past.aggregates(rule)
            for of_limit, expected in of_limits:
                at = zip(found.ids.tolist(), (int(time) for time in found.times))
                alerting = compress(at, found.alert_mask(of_limit, of_limit.first.limit))
                assert Counter(alerting) == expected, (seed, of_limit)
                told[kind_of(rule)] += bool(expected)
    assert {*+told} >= {"plain", "reset", "more", "or", "multiple", "at most", "absence"}


def kind_of(rule: Rule) -> str:
    """One of the ways in which a rule says more than a plain one."""
    kinds = {
        "reset": rule.aggregation.function == "COUNT_WITH_RESET",
        "absence": rule.absence,
        "at most": rule.at_most,
        "or": rule.joined_by == "or",
        "multiple": rule.first.limit_of,
        "plain": rule.is_plain,
    }
    return next((name for name, is_so in kinds.items() if is_so), "more")
