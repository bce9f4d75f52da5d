"""Sentences of docs/semantics.md, each tried on the reference with the smallest log that shows it.

That the engine computes the same is what random logs are for: tests/engine/test_inprocess.py, tests/sim.
"""

import json
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.model.horizon import WITNESSES
from lab.model.jsontext import BadRecord
from lab.model.reference import LATE_POLICIES, Reference, evaluate_log
from lab.model.schema import LOGINS
from tests.anylogs import logs
from tests.examples import examples
from tests.strategies import MINUTE as MINUTE_MS
from tests.strategies import RETURNS

Entry = tuple[str, bytes]
MINUTE = 60


def rule(rule_id: int = 1, function: str = "COUNT", field: str | None = None, **given: Any) -> Entry:
    """COUNT per userId over 10 minutes > 0, unless told otherwise."""
    attributes: dict[str, Any] = {
        "ruleId": rule_id,
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["userId"],
        "aggregatorFunctionType": function,
        "limitOperatorType": ">",
        "limit": 0,
        "window": "10m",
    }
    if field:
        attributes["aggregateFieldName"] = field
    return "control", json.dumps(attributes | given).encode()


def state(rule_id: int, state: str) -> Entry:
    return "control", json.dumps({"ruleId": rule_id, "ruleState": state}).encode()


def command(name: str) -> Entry:
    return "control", json.dumps({"ruleState": "CONTROL", "controlType": name}).encode()


def login(event_id: int, minute: float, user: int | None = 1, **fields: Any) -> Entry:
    event = {"eventId": event_id, "eventTime": round(minute * MINUTE * 1000), "userId": user, **fields}
    return "event", json.dumps(event).encode()


def of_groups(minute: float) -> list[Entry]:
    """Events of as many groups as it takes to reach a time."""
    return [login(1000 + n, minute, user=3 + n) for n in range(WITNESSES)]


def without_group(minute: float) -> list[Entry]:
    """Events without a group: with one more, as many as it takes for the whole log to reach a time."""
    return [login(2000 + n, minute, user=None) for n in range(WITNESSES - 1)]


def evaluated(log: list[Entry], **settings: Any) -> Reference:
    reference = evaluate_log(LOGINS, log, **{"max_out_of_orderness_ms": 0, "key_groups": 1, **settings})
    assert all(ack["status"] == "accepted" for ack in reference.acks)
    return reference


def aggregates(log: list[Entry], **settings: Any) -> list[tuple[Any, Any]]:
    """(event id, aggregate) of each alert."""
    return [(alert.event_id, alert.aggregate) for alert in evaluated(log, **settings).alerts]


# -- windows -----------------------------------------------------------------------------------------------------------


def test_a_window_has_both_of_its_ends_and_only_its_own_group():
    log = [rule(), login(1, 20), login(2, 25, user=2), login(3, 30), login(4, 30.001)]
    assert aggregates(log) == [(1, 1), (2, 1), (3, 2), (4, 2)]


def test_an_event_is_evaluated_once_over_what_arrived_before_it():
    log = [rule(), login(1, 20), login(2, 22), login(3, 21)]
    assert aggregates(log, max_out_of_orderness_ms=MINUTE * 1000) == [(1, 1), (2, 2), (3, 2)]


def test_without_keys_all_events_are_one_group():
    log = [rule(groupingKeyNames=[]), login(1, 20), login(2, 21, user=2), login(3, 22, user=None)]
    assert aggregates(log) == [(1, 1), (2, 2), (3, 3)]


def test_an_event_that_does_not_pass_the_filter_neither_counts_nor_alerts():
    log = [rule(filter={"action": "login"})]
    log += [login(n, 20, action=action) for n, action in enumerate(("login", "payment", "login"), 1)]
    assert aggregates(log) == [(1, 1), (3, 2)]


def test_an_event_without_a_value_in_a_key_has_no_group():
    assert aggregates([rule(), login(1, 20), login(2, 21, user=None), login(3, 22)]) == [(1, 1), (3, 2)]


# -- duplicates --------------------------------------------------------------------------------------------------------


def test_an_event_with_id_and_time_of_one_that_its_group_holds_is_a_duplicate():
    log = [rule(), login(1, 20), login(1, 20), login(1, 21), login(1, 20, user=2), login(2, 21)]
    assert aggregates(log) == [(1, 1), (1, 2), (1, 1), (2, 3)]


@pytest.mark.parametrize("policy", ["evaluate", "store", "drop"])
def test_a_late_duplicate_is_a_duplicate(policy):
    log = [rule(), login(1, 20), login(2, 25), login(1, 20), login(3, 25)]
    reference = evaluated(log, late_policy=policy)
    assert reference.counts["duplicates"] == 1 and reference.counts["droppedLate"] == 0
    assert [(alert.event_id, alert.aggregate) for alert in reference.alerts] == [(1, 1), (2, 2), (3, 3)]


# -- aggregates --------------------------------------------------------------------------------------------------------

AMOUNTS = [login(1, 20, amount="1"), login(2, 21), login(3, 22, amount="4"), login(4, 23, amount="-2.5")]


@pytest.mark.parametrize(
    "function, field, expected",
    [
        ("SUM", "amount", ["1", "5", "2.5"]),
        ("AVG", "amount", ["1", "2.5", "0.833333"]),
        ("MIN", "amount", ["1", "1", "-2.5"]),
        ("MAX", "amount", ["1", "4", "4"]),
        ("VARIANCE", "amount", ["0", "2.25", "7.055556"]),
        ("STDDEV", "amount", ["0", "1.5", "2.656230"]),
    ],
)
def test_an_event_without_a_value_does_not_count_and_raises_no_alert(function, field, expected):
    log = [rule(1, function, field, limitOperatorType="!=", limit="-99"), *AMOUNTS]
    assert aggregates(log) == list(zip([1, 3, 4], map(Decimal, expected)))


def test_counts_take_every_event_and_distinct_values_only_those_that_are_there():
    log = [login(1, 20, ip="a"), login(2, 21), login(3, 22, ip="b"), login(4, 23, ip="a")]
    assert aggregates([rule(), *log]) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert aggregates([rule(1, "UNIQUE_COUNT", unique=["ip"]), *log]) == [(1, 1), (3, 2), (4, 2)]
    pairs = [rule(1, "UNIQUE_COUNT", unique=["ip", "country"])]
    pairs += [login(n, 20, ip=ip, country=at) for n, (ip, at) in enumerate(["ab", "ac", "bb", "ab"], 1)]
    assert aggregates(pairs) == [(1, 1), (2, 2), (3, 3), (4, 3)]


def test_an_average_is_compared_exactly_and_told_with_six_places():
    thirds = [login(n, 20, amount=amount) for n, amount in enumerate(("0", "0", "1"), 1)]
    at_limit: dict[str, Any] = {"limitOperatorType": ">", "limit": "0.333333"}
    assert aggregates([rule(1, "AVG", "amount", **at_limit), *thirds]) == [(3, Decimal("0.333333"))]
    assert aggregates([rule(1, "AVG", "amount", **at_limit | {"limitOperatorType": "="}), *thirds]) == []


def test_the_value_of_an_event_is_its_own():
    more_than_usual = rule(
        *(1, "VALUE", "amount"),
        limitOperatorType=">",
        limit=2,
        window=None,
        where="country != CN",
        limitOf={"aggregatorFunctionType": "AVG", "aggregateFieldName": "amount"}
        | {"window": "10m", "excludeCurrent": True},
    )
    amounts = [
        ("2", "KR"),
        ("5", "KR"),
        ("4", "KR"),
        ("100", "CN"),
        (None, "KR"),
        ("100", "KR"),
        (None, "KR"),
        ("9", "KR"),
    ]
    log = [login(n, 20, amount=amount, country=country) for n, (amount, country) in enumerate(amounts, 1)]
    late = [login(9, 19, amount="1"), login(10, 19, amount="7", country="KR")]
    assert aggregates([more_than_usual, *log, *late]) == [(2, 5), (6, 100), (10, 7)]


def test_the_value_before_is_that_of_the_last_other_event_in_order_of_time():
    larger = rule(
        *(1, "PREVIOUS", "amount"),
        limitOperatorType="!=",
        limit=0,
        window="10m",
        where="country != CN",
        excludeCurrent=None,
    )
    amounts = [
        (20, "1"),
        (21, "2"),
        (21, "3"),
        (22, None),
        (23, "5"),
        (25, "7"),
        (24, "8"),
        (21, "9"),
        (40, "10"),
    ]
    log = [login(n, minute, amount=amount, country="KR") for n, (minute, amount) in enumerate(amounts, 1)]
    other = login(99, 23, amount="6", country="CN")
    found = aggregates([larger, *log[:5], other, *log[5:]])
    assert found == [(2, 1), (3, 2), (4, 3), (5, 3), (99, 5), (6, 5), (7, 5), (8, 3)]


def test_a_change_is_the_value_less_that_of_the_last_other_event_and_both_must_count():
    each = {"limitOperatorType": "!=", "limit": "0.5", "window": "10m"}
    events = [(20, "1"), (21, "2"), (22, None), (23, "5"), (25, "7"), (24, "9"), (40, "10"), (40, "13")]
    log = [login(n, minute, amount=amount, country="KR") for n, (minute, amount) in enumerate(events, 1)]
    other = login(99, 23, amount="6", country="CN")
    found = [(2, 1), (4, 3), (99, 1), (5, 1), (6, 3), (8, 3)]
    assert aggregates([rule(1, "CHANGE", "amount", **each), *log[:4], other, *log[4:]]) == found
    found = [(2, 1), (4, 3), (5, 2), (6, 4), (8, 3)]
    only = rule(1, "CHANGE", "amount", **each, where="country != CN")
    assert aggregates([only, *log[:4], other, *log[4:]]) == found
    gap = rule(1, "CHANGE", "eventTime", **each)
    assert aggregates([gap, *log]) == [
        (n, 60_000 * m) for n, m in zip((2, 3, 4, 5, 6, 8), (1, 1, 1, 2, 1, 0))
    ]


def sequence(steps: str, *events: tuple[int, float, str], **given: Any) -> list[tuple]:
    """At which events how many of the steps were taken, if at least one; events are (id, minute, actions)."""
    log = [login(n, minute, action=action, country="KR") for n, minute, action in events]
    of_steps = rule(1, "SEQUENCE", steps=steps, **({"limitOperatorType": ">="} | given | {"limit": 1}))
    return aggregates([of_steps, *log])


ABC = "action contains a, action contains b, action contains c"


def test_a_sequence_is_as_many_of_its_steps_as_were_taken_in_their_order():
    in_order = [(1, 20, "b"), (2, 21, "a"), (3, 22, "c"), (4, 23, "b"), (5, 24, "x"), (6, 25, "c")]
    assert sequence(ABC, *in_order) == [(2, 1), (3, 1), (4, 2), (5, 2), (6, 3)]
    # one event is one step, also if it could be two; a window begins with the newest sequence that it has room for
    assert sequence(ABC, (1, 20, "ab"), (2, 20, "ab"), (3, 29, "c"), (4, 30, "x"), (5, 30.1, "x")) == [
        *((1, 1), (2, 2), (3, 3), (4, 3))
    ]
    again = [
        (1, 20, "a"),
        (2, 21, "b"),
        (3, 22, "a"),
        (4, 30, "c"),
        (5, 31, "b"),
        (6, 32, "c"),
        (7, 32.1, "x"),
    ]
    assert sequence(ABC, *again) == [(1, 1), (2, 2), (3, 2), (4, 3), (5, 2), (6, 3)]


def test_what_ends_a_sequence_is_no_step_and_leaves_nothing_of_what_came_before():
    ended = [
        (1, 20, "a"),
        (2, 21, "b"),
        (3, 22, "ax"),
        (4, 23, "b"),
        (5, 24, "c"),
        (6, 25, "a"),
        (7, 26, "b"),
    ]
    assert sequence(f"{ABC} without action contains x", *ended) == [(1, 1), (2, 2), (6, 1), (7, 2)]


def test_a_sequence_is_in_order_of_time_and_a_late_event_sees_what_is_before_it():
    late = [(1, 24, "c"), (2, 20, "a"), (3, 22, "b"), (4, 21, "c"), (5, 22, "c"), (6, 25, "x")]
    assert sequence(ABC, *late) == [(2, 1), (3, 2), (4, 1), (5, 3), (6, 3)]
    assert sequence(ABC, *late, excludeCurrent=True) == [(3, 1), (4, 1), (5, 2), (6, 3)]
    assert sequence(ABC, *late, where="action != b") == [(2, 1), (3, 1), (4, 1), (5, 1), (6, 1)]
    assert sequence(ABC, *late, lastEvents=4) == [(2, 1), (3, 2), (4, 1), (5, 3)]


def test_a_deviation_is_compared_by_the_variance_and_told_rounded():
    two = [login(1, 20, amount="0"), login(2, 21, amount="2"), login(3, 22, amount="2")]
    limit: dict[str, Any] = {"limitOperatorType": ">", "limit": "0.942809"}  # the deviation is 0.94280904…
    assert aggregates([rule(1, "STDDEV", "amount", **limit), *two]) == [
        (2, Decimal(1)),
        (3, Decimal("0.942809")),
    ]


# -- a count that begins anew ------------------------------------------------------------------------------------------

RESETTING: dict[str, Any] = {"limitOperatorType": ">=", "limit": 2}


def test_a_count_with_reset_begins_anew_where_its_rule_fires():
    log = [rule(1, "COUNT_WITH_RESET", **RESETTING), rule(2, limit=9)]
    assert aggregates([*log, *(login(n, 20 + n) for n in range(1, 6))]) == [(2, 2), (4, 2)]


@pytest.mark.parametrize(
    "change",
    [
        [rule(1, "COUNT_WITH_RESET", **RESETTING | {"limitOperatorType": "="})],
        [rule(1, "COUNT_WITH_RESET", **RESETTING, window="9m")],
        [rule(1), rule(1, "COUNT_WITH_RESET", **RESETTING)],
        [rule(1, "COUNT_WITH_RESET", **RESETTING, when="userId = 1")],
        [state(1, "PAUSE"), state(1, "ACTIVE")],
    ],
    ids=["limit", "window", "function and back", "when", "paused"],
)
def test_a_reset_outlives_an_update_of_its_rule(change):
    log = [rule(1, "COUNT_WITH_RESET", **RESETTING), rule(2, limit=9), login(1, 20), login(2, 21)]
    assert aggregates([*log, *change, login(3, 22), login(4, 23)]) == [(2, 2), (4, 2)]


@pytest.mark.parametrize("other", [{"groupingKeyNames": []}, {"filter": {"action": "login"}}])
def test_a_reset_goes_with_its_rule_or_with_its_route(other):
    log = [rule(1, "COUNT_WITH_RESET", **RESETTING), rule(2, limit=9), login(1, 20), login(2, 21)]
    again = rule(1, "COUNT_WITH_RESET", **RESETTING)
    for change in ([state(1, "DELETE"), again], [rule(1, "COUNT_WITH_RESET", **RESETTING, **other), again]):
        assert aggregates([*log, *change, login(3, 22)]) == [(2, 2), (3, 3)]


# -- when --------------------------------------------------------------------------------------------------------------


def test_when_decides_which_event_may_alert_and_not_which_events_count():
    log = [rule(when="amount > 5"), login(1, 20, amount=1), login(2, 21, amount=6), login(3, 22)]
    assert aggregates([*log, login(4, 23, amount=7)]) == [(2, 2), (4, 4)]


def test_an_event_of_which_when_is_not_true_resets_nothing():
    log = [rule(1, "COUNT_WITH_RESET", **RESETTING, when="action = pay"), rule(2, limit=9)]
    log += [login(1, 20), login(2, 21), login(3, 22), login(4, 23, action="pay"), login(5, 24, action="pay")]
    assert aggregates([*log, login(6, 25, action="pay")]) == [(4, 4), (6, 2)]


def test_when_looks_at_the_event_as_it_arrives_whatever_the_route_keeps_of_it():
    log = [rule(limit=1), login(1, 20), rule(limit=1, when="device startsWith curl"), login(2, 21)]
    reference = evaluated([*log, login(3, 22, device="curl/8.0")])
    assert [(alert.event_id, alert.rule_version) for alert in reference.alerts] == [(3, 2)]
    (held,) = reference.stored_events.values()
    assert [event.fields for event in held] == [{}, {}, {}]


def test_a_null_in_a_field_of_when_does_not_keep_an_event_from_counting():
    log = [rule(1, "SUM", "amount", when="country not in (KR, CN)"), login(1, 20, amount=1)]
    assert aggregates([*log, login(2, 21, amount=2, country="US")]) == [(2, 3)]


def test_rules_that_differ_only_in_when_share_a_route():
    log = [rule(1), rule(2, when="amount > 5"), rule(3, when="amount is null"), login(1, 20, amount=6)]
    reference = evaluated(log)
    assert len(reference.routes) == 1 and reference.counts["evaluated"] == 1
    assert [alert.rule_id for alert in reference.alerts] == [1, 2]


# -- filters that are any condition ------------------------------------------------------------------------------------


def test_a_filter_is_any_condition_of_when():
    log = [rule(filter="amount > 5 or ip in 10.0.0.0/8"), login(1, 20, amount=6), login(2, 21, amount=5)]
    assert aggregates([*log, login(3, 22, ip="10.1.2.3"), login(4, 23, ip="11.1.2.3")]) == [(1, 1), (3, 2)]


def test_an_event_with_null_in_a_comparison_does_not_pass_a_filter():
    log = [rule(1, filter="country != KR"), rule(2, filter="country != KR or country is null")]
    reference = evaluated([*log, login(1, 20), login(2, 21, country="US"), login(3, 22, country="KR")])
    assert [(alert.rule_id, alert.event_id) for alert in reference.alerts] == [(2, 1), (1, 2), (2, 2)]
    assert reference.counts["unrouted"] == 1


def test_a_filter_is_decided_by_the_event_as_it_arrives_whatever_the_route_keeps_of_it():
    reference = evaluated([rule(filter="device startsWith curl"), login(1, 20, device="curl/8.0")])
    (held,) = reference.stored_events.values()
    assert [event.fields for event in held] == [{}] and len(reference.alerts) == 1


# -- routes ------------------------------------------------------------------------------------------------------------


def test_a_rule_sees_the_history_that_its_route_has():
    log = [rule(1, limit=9), login(1, 20), rule(2), login(2, 21)]
    assert aggregates(log) == [(2, 2)]
    assert aggregates([*log[:2], rule(2, filter={"action": "login"}), login(2, 21, action="login")]) == [
        (2, 1)
    ]


def test_events_from_before_a_rule_needed_a_field_have_no_value_for_it():
    log = [rule(1, limit=9), login(1, 20, amount=1), rule(2, "SUM", "amount"), login(2, 21, amount=2)]
    assert aggregates(log) == [(2, 2)]


def test_a_paused_rule_keeps_its_fields_and_history_and_raises_no_alert():
    log = [rule(1, "SUM", "amount"), state(1, "PAUSE"), login(1, 20, amount=1), state(1, "ACTIVE")]
    assert aggregates([*log, login(2, 21, amount=2)]) == [(2, 3)]


def test_another_when_keeps_the_history_of_its_rule():
    log = [rule(when="amount > 5"), login(1, 20, amount=1), rule(when="amount < 5"), login(2, 21, amount=1)]
    assert aggregates(log) == [(2, 2)]


def test_an_update_keeps_the_history_while_keys_and_filter_stay():
    log = [rule(limit=9), login(1, 20)]
    assert aggregates([*log, rule(window="5m"), login(2, 21)]) == [(2, 2)]
    other = rule(filter={"action": "login"})
    assert aggregates([*log, other, login(2, 21, action="login")]) == [(2, 1)]


def test_a_history_goes_with_the_last_rule_of_its_route():
    log = [rule(1), rule(2, limit=9), login(1, 20), state(1, "DELETE")]
    assert aggregates([*log, rule(1), login(2, 21)]) == [(1, 1), (2, 2)]
    assert aggregates([*log, state(2, "DELETE"), rule(1), login(2, 21)]) == [(1, 1), (2, 1)]
    assert aggregates([*log, command("DELETE_RULES_ALL"), rule(1), login(2, 21)]) == [(1, 1), (2, 1)]
    elsewhere = rule(2, limit=9, groupingKeyNames=["ip"])
    assert aggregates([*log, elsewhere, rule(1), login(2, 21)]) == [(1, 1), (2, 1)]


def test_clearing_empties_every_window_once():
    log = [rule(1), rule(2, "COUNT_WITH_RESET", **RESETTING), login(1, 20)]
    assert aggregates([*log, command("CLEAR_STATE_ALL"), login(2, 21), login(3, 22)]) == [
        *((1, 1), (2, 1)),
        *((3, 2), (3, 2)),
    ]
    stopped = [*log, command("CLEAR_STATE_ALL_STOP"), login(2, 21)]
    assert aggregates(stopped) == [(1, 1), (2, 2), (2, 2)]


# -- late events -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy, alerts, fate",
    [
        ("evaluate", [(1, 1), (2, 2), (3, 1), (4, 4)], "evaluated"),
        ("store", [(1, 1), (2, 2), (4, 4)], "storedLate"),
        ("drop", [(1, 1), (2, 2), (4, 3)], "droppedLate"),
    ],
)
def test_a_late_event_is_evaluated_stored_or_dropped(policy, alerts, fate):
    log = [rule(), login(1, 20), login(2, 22), login(3, 19), login(4, 22)]
    reference = evaluated(log, late_policy=policy, max_out_of_orderness_ms=2 * MINUTE * 1000)
    assert [(alert.event_id, alert.aggregate) for alert in reference.alerts] == alerts
    assert reference.counts[fate] == (4 if fate == "evaluated" else 1)


def test_late_is_what_trails_the_newest_event_of_its_group_by_more_than_is_allowed():
    log = [rule(), login(1, 22), login(2, 30, user=2), login(3, 20), login(4, 19.999)]
    reference = evaluated(log, late_policy="drop", max_out_of_orderness_ms=2 * MINUTE * 1000)
    assert [alert.event_id for alert in reference.alerts] == [1, 2, 3]


@pytest.mark.parametrize("policy", ["evaluate", "store", "drop"])
def test_an_event_older_than_all_that_its_key_group_may_hold_is_dropped(policy):
    slack = {"late_policy": policy, "max_out_of_orderness_ms": MINUTE * 1000}
    log = [rule(), *of_groups(31), login(2, 20), login(3, 19.999)]
    reference = evaluated(log, **slack)
    assert [alert.event_id for alert in reference.alerts][WITNESSES:] == [2]
    assert reference.counts["droppedLate"] == 1
    assert evaluated(log, **slack, key_groups=16).counts["droppedLate"] == 0


AHEAD = 20 * 60  # minutes


def honest_events(count: int = 200) -> list[Entry]:
    """An event each minute, of eight groups in turn."""
    return [login(n, 100 + n, user=n % 8, amount=20) for n in range(count)]


@pytest.mark.parametrize("keys", [["userId"], [], ["action"]])
@pytest.mark.parametrize("place", [0, 1, 50])
@pytest.mark.parametrize("policy", ["evaluate", "store"])
def test_one_event_dated_ahead_makes_no_other_event_too_old(keys, place, policy):
    honest, by_sum = honest_events(), rule(1, "SUM", "amount", limit=50, groupingKeyNames=keys)
    ahead = login(999, 100 + place + AHEAD, user=7, amount=1)
    log = [by_sum, *honest[:place], ahead, *honest[place:]]
    without, with_it = evaluated([by_sum, *honest]), evaluated(log, late_policy=policy)
    assert with_it.counts["droppedLate"] == 0
    of_others = [alert for alert in without.alerts if keys == ["userId"] and alert.event_id % 8 != 7]
    assert {alert.alert_id for alert in of_others} <= {alert.alert_id for alert in with_it.alerts}
    if policy == "evaluate":
        assert list(with_it.alerts) == list(without.alerts)


def test_one_group_dated_ahead_makes_no_event_of_another_group_too_old():
    ahead = [login(1000 + n, 150 + AHEAD + n, user=7) for n in range(50)]
    log = [rule(), *honest_events(50), *ahead, *honest_events(200)[50:]]
    of_others = [login for login in log if json.loads(login[1]).get("userId") != 7]
    without, with_it = evaluated(of_others), evaluated(log)
    assert [each for each in with_it.alerts if each.key != "{userId=7}"] == list(without.alerts)
    assert 0 < with_it.counts["droppedLate"] <= 25  # of the group itself


@pytest.mark.parametrize("policy", ["evaluate", "store", "drop"])
def test_in_a_live_log_events_dated_ahead_of_their_log_times_make_none_too_old_however_many(policy):
    reference = Reference(LOGINS, late_policy=policy, max_out_of_orderness_ms=1000, key_groups=1)
    reference.control(rule()[1])
    for n, (_, text) in enumerate(honest_events()):
        logged = json.loads(text)["eventTime"] + 1
        if n % 2:
            reference.event(login(5000 + n, 100 + n + AHEAD, user=n % 8)[1], log_time=logged)
        reference.event(text, log_time=logged)
    assert reference.counts["evaluated"] == reference.counts["records"] == 300


def test_the_warning_about_late_events_names_the_newest_event():
    log = [rule(), *honest_events(20), *(login(7000 + n, 100 + AHEAD + n, user=n) for n in range(WITNESSES))]
    reference = evaluated([*log, *honest_events(40)[20:]], key_groups=1)
    (warning,) = reference.tallies.warnings()
    newest = 7000 + WITNESSES - 1
    assert (
        f"20 dropped late; for example the event with id 20 and time 1970-01-01 02:00:00.000 in group "
        f"{{userId=4}}; the newest event beside it is the one with id {newest} and time 1970-01-01 21:43:00.000:"
        in warning
    )


WIDENED = [
    rule(window="60m", limit=1),
    *(login(1, 100), login(2, 130, user=3), *without_group(130)),
    rule(window="1m", limit=1),
    *(login(3, 140, user=3), *without_group(140)),
    rule(window="60m", limit=1),
]


@pytest.mark.parametrize("key_groups", [1, 2, 4, 16])
def test_a_window_that_grows_does_not_bring_back_what_the_narrower_one_did_not_reach(key_groups):
    """Users 1 and 3 are in different key-groups, unless there is only one."""
    assert aggregates([*WIDENED, login(4, 150)], key_groups=key_groups) == []
    assert aggregates([*WIDENED, login(4, 150, user=3)], key_groups=key_groups) == [(4, 2)]


def test_whatever_grows_no_event_from_before_the_log_s_newest_less_the_old_window_is_held():
    narrow, wide = rule(window="10m", limit=1), rule(window="60m", limit=1)
    log = [narrow, login(1, 100), login(2, 110, user=3), *without_group(110), wide]
    assert aggregates([*log, login(3, 120)]) == [(3, 2)], (
        "the old window, back from what is reached, reaches it"
    )
    assert aggregates([narrow, login(1, 100), *without_group(110.001), wide, login(3, 120)]) == [(3, 2)]
    log[2] = login(2, 110.001, user=None)  # without a group, and it counts nevertheless
    assert aggregates([*log[:3], *without_group(110.001), wide, login(3, 120)]) == []


def test_a_key_group_of_which_nothing_is_held_after_a_window_grew_begins_anew():
    old = login(4, 10)
    of_group = [login(100 + n, 100) for n in range(WITNESSES)]
    assert evaluated([WIDENED[0], *of_group, old], key_groups=16).counts["droppedLate"] == 1
    assert evaluated([WIDENED[0], *of_group, *WIDENED[1:], old], key_groups=16).counts["droppedLate"] == 0


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_of_a_log_in_order_the_alerts_do_not_depend_on_the_number_of_key_groups(data):
    slack = data.draw(st.sampled_from([0, MINUTE_MS // 2, 5 * MINUTE_MS]))
    log = in_order(data.draw(logs(odd=False)), slack)
    given = {"late_policy": data.draw(st.sampled_from(LATE_POLICIES)), "max_out_of_orderness_ms": slack}
    first, *others = (evaluate_log(LOGINS, log, **given, key_groups=number) for number in (1, 2, 5, 16))
    for other in others:
        assert list(other.alerts) == list(first.alerts) and other.counts == first.counts


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_nor_do_they_where_records_take_events_back_as_long_as_these_are_in_order_too(data):
    slack = data.draw(st.sampled_from([0, MINUTE_MS // 2, 5 * MINUTE_MS]))
    log = in_order(data.draw(logs(live=True, odd=False)), slack)
    given = {"late_policy": data.draw(st.sampled_from(LATE_POLICIES)), "max_out_of_orderness_ms": slack}
    first, *others = (evaluate_log(RETURNS, log, **given, key_groups=number) for number in (1, 2, 5, 16))
    for other in others:
        assert other.alerts_and_withdrawals == first.alerts_and_withdrawals and other.counts == first.counts


def test_whether_an_event_that_is_taken_back_long_after_it_is_still_stored_depends_on_its_key_group():
    log = [rule(window="1m"), login(1, 20), *of_groups(120), login(1, 20, action="returned")]
    found = [
        evaluate_log(RETURNS, log, max_out_of_orderness_ms=0, key_groups=number).counts["takenBack"]
        for number in (1, 5)
    ]
    assert found == [0, 1]


def in_order(log: list[Entry], slack_ms: int) -> list[Entry]:
    """The log without the records that are more than `slack_ms` behind the newest event time before them."""
    kept, newest = list[Entry](), 0
    for kind, text in log:
        with suppress(BadRecord):
            for event in RETURNS.events(text) if kind == "event" else ():
                newest = max(newest, event["eventTime"])
                if event["eventTime"] < newest - slack_ms:
                    break
            else:
                kept.append((kind, text))
    return kept


# -- rules that change -------------------------------------------------------------------------------------------------


def test_a_rule_applies_to_the_events_after_it_and_to_none_before():
    assert aggregates([login(1, 20), rule(), login(2, 21)]) == [(2, 1)]
    assert aggregates([rule(), login(1, 20), state(1, "DELETE"), login(2, 21)]) == [(1, 1)]


def test_every_control_message_is_answered_once():
    reference = evaluate_log(LOGINS, [rule(), ("control", b"nonsense"), state(1, "PAUSE"), state(7, "PAUSE")])
    assert [ack["status"] for ack in reference.acks] == ["accepted", "rejected", "accepted", "rejected"]
    assert [ack.get("version") for ack in reference.acks] == [1, None, 2, None]
    assert reference.acks[1]["message"] == "nonsense"


def test_an_alert_names_the_version_that_fired():
    log = [rule(), login(1, 20), rule(limit="0.5"), login(2, 21), state(1, "PAUSE"), state(1, "ACTIVE")]
    assert [alert.rule_version for alert in evaluated([*log, login(3, 22)]).alerts] == [1, 2, 4]


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_max_future_is_counted_from_the_log_time_of_the_record():
    reference = Reference(LOGINS, max_future_ms=1000)
    reference.event(login(1, 1)[1], log_time=59_000)
    reference.event(login(2, 1)[1], log_time=58_999)
    reference.event(login(3, 1)[1])
    assert [letter["reason"] for letter in reference.dead_letters] == [
        "eventTime: 60000, expected at most 1000 ms after the log time of its record, which is 58999"
    ]


# -- counts ------------------------------------------------------------------------------------------------------------


def test_what_becomes_of_an_event_is_counted_for_each_of_its_routes():
    by_ip = {"groupingKeyNames": ["ip"], "window": "1m"}
    log = [rule(1, window="1h"), rule(2, **by_ip)]
    newer = [login(10 + n, 37, user=2, ip="x") for n in range(WITNESSES)]
    log += [login(1, 20, user=1, ip="x"), *newer, login(3, 20.02, user=1, ip="x")]
    reference = evaluated([*log, login(3, 20.02, ip=None)])
    assert {route.id: +tally.counts for route, tally in reference.tallies.by_route.items()} == {
        "userId": {"evaluated": 2 + WITNESSES, "duplicates": 1},
        "ip": {"evaluated": 1 + WITNESSES, "droppedLate": 1},
    }
    assert {name: count for name, count in reference.counts.items() if count} == {
        "records": 3 + WITNESSES,
        "routed": 3 + WITNESSES,
        "evaluated": 3 + 2 * WITNESSES,
        "duplicates": 1,
        "droppedLate": 1,
    }


def test_records_are_dead_letters_or_without_a_route_or_routed():
    reference = evaluated([rule(), login(1, 20), login(2, 20, user=None), ("event", b"{}")])
    counts = reference.counts
    assert (counts["records"], counts["routed"], counts["unrouted"], counts["deadLetters"]) == (3, 1, 1, 1)
    assert (
        sum(tally.record_count for tally in reference.tallies.by_route.values()) == counts["evaluated"] == 1
    )
