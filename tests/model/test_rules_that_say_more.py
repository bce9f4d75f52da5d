"""Rules with `where`, `excludeCurrent`, `limitOf`, `and` and `or`: what they mean, and what is refused."""

import json
from decimal import Decimal

import pytest

from lab.model.alerts import Alert
from lab.model.field import Id
from lab.model.horizon import WITNESSES
from lab.model.messages import parse_message
from lab.model.reference import Reference
from lab.model.schema import LOGINS

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
COUNT = {"aggregatorFunctionType": "COUNT", "limitOperatorType": ">=", "limit": 1, "window": "10m"}
SUM = {"aggregatorFunctionType": "SUM", "aggregateFieldName": "amount", "limitOperatorType": ">", "limit": 1}
SUM |= {"window": "1h"}
NOW = 365 * DAY


def rule(**said) -> str:
    return json.dumps({"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["userId"]} | said)


def alerts(message: str, events: list[dict]) -> list[Alert]:
    """The alerts of a rule on events, whose ids are their places; `at`: minutes."""
    reference = Reference(LOGINS)
    assert reference.control(message)["status"] == "accepted"
    for number, event in enumerate(events):
        given = {"eventId": number, "userId": 7, "eventTime": NOW + event.pop("at") * MINUTE} | event
        reference.event(json.dumps(given).encode())
    assert not reference.dead_letters
    return reference.alerts


def ids(message: str, events: list[dict]) -> list[Id]:
    return [alert.event_id for alert in alerts(message, events)]


def actions(*of: tuple[int, str]) -> list[dict]:
    return [{"at": at, "action": action} for at, action in of]


# -- what they mean ----------------------------------------------------------------------------------------------------


def test_where_says_which_events_count_and_each_event_is_judged():
    message = rule(**COUNT | {"limit": 2, "where": "action = failed"})
    assert ids(message, actions((0, "failed"), (1, "login"), (2, "failed"), (3, "login"), (13, "login"))) == [
        2,
        3,
    ]


def test_a_sequence_is_where_for_what_came_before_and_when_for_what_follows():
    """B within 10 min after A; COUNT: one A serves each B, COUNT_WITH_RESET: only one."""
    said = {"where": "action = failed", "when": "action = login"}
    events = actions((0, "login"), (1, "failed"), (5, "login"), (6, "login"), (20, "login"))
    assert ids(rule(**COUNT | said), events) == [2, 3]
    events = actions((0, "login"), (1, "failed"), (5, "login"), (6, "login"), (20, "login"))
    resetting = {"aggregatorFunctionType": "COUNT_WITH_RESET"}
    assert ids(rule(**COUNT | said | resetting), events) == [2]


SEQUENCE = COUNT | {"where": "action = failed", "when": "action = login"}


def test_a_sequence_is_in_the_order_of_event_times_whatever_the_order_of_arrival():
    events = actions((5, "failed"), (3, "login"), (5, "login"), (15, "login"), (16, "login"))
    assert ids(rule(**SEQUENCE), events) == [2, 3], (
        "a login before the failure is no sequence; both ends count"
    )
    events = actions((20, "login"), (18, "failed"), (21, "login"))
    assert ids(rule(**SEQUENCE), events) == [2], "a login is judged once, by what has arrived until then"


@pytest.mark.parametrize(("policy", "found"), [("evaluate", [2]), ("store", [2]), ("drop", [])])
def test_a_first_event_that_is_late_counts_as_the_late_policy_says(policy, found):
    reference = Reference(LOGINS, late_policy=policy)
    reference.control(rule(**SEQUENCE))
    for number, (minute, action) in enumerate(((20, "login"), (14, "failed"), (21, "login"))):
        event = {"eventId": number, "userId": 7, "eventTime": NOW + minute * MINUTE, "action": action}
        reference.event(json.dumps(event).encode())
    assert [alert.event_id for alert in reference.alerts] == found


def test_with_a_reset_an_alert_uses_up_all_first_events_that_came_before_it():
    resetting = SEQUENCE | {"aggregatorFunctionType": "COUNT_WITH_RESET"}
    events = actions((0, "failed"), (1, "failed"), (2, "login"), (3, "login"), (4, "failed"), (5, "login"))
    assert ids(rule(**resetting), [dict(event) for event in events]) == [2, 5]
    assert ids(rule(**SEQUENCE), events) == [2, 3, 5]


def test_with_a_reset_an_alert_uses_up_first_events_of_later_times_that_arrived_before_it():
    events = actions((10, "failed"), (30, "failed"), (20, "login"), (40, "login"))
    counting = SEQUENCE | {"window": "1h"}
    resetting = counting | {"aggregatorFunctionType": "COUNT_WITH_RESET"}
    assert ids(rule(**resetting), [dict(event) for event in events]) == [2]
    assert ids(rule(**counting), events) == [2, 3]


def test_a_reset_includes_the_event_at_which_it_happens_even_if_the_count_excludes_it():
    words = "1: COUNT_WITH_RESET(events) per userId over 1 h without the current event >= 2"
    assert ids(words, [{"at": at} for at in range(7)]) == [2, 5]


def test_the_first_time_is_a_count_of_0_without_the_current_event():
    first = COUNT | {"limitOperatorType": "=", "limit": 0, "window": "30m", "excludeCurrent": True}
    message = rule(**first | {"groupingKeyNames": ["userId", "country"]})
    events = [{"at": at, "country": country} for at, country in ((0, "KR"), (1, "CN"), (2, "KR"), (40, "KR"))]
    assert ids(message, events) == [0, 1, 3]


def test_without_the_current_event_others_of_its_time_count():
    message = rule(**COUNT | {"excludeCurrent": True})
    assert ids(message, [{"at": 0}, {"at": 0}, {"at": 20}]) == [1]


def test_a_sum_over_nothing_has_no_value_and_no_condition_on_it_holds():
    nothing = rule(**SUM | {"excludeCurrent": True, "limitOperatorType": "!=", "limit": 5})
    assert ids(nothing, [{"at": 0, "amount": 9}, {"at": 1, "amount": 9}]) == [1]
    unique = COUNT | {"aggregatorFunctionType": "UNIQUE_COUNT", "unique": ["ip"], "excludeCurrent": True}
    assert ids(rule(**unique | {"limitOperatorType": "=", "limit": 0}), [{"at": 0, "ip": "a"}]) == [0]


def test_a_limit_is_a_multiple_of_another_aggregate_exactly():
    base = {"aggregatorFunctionType": "SUM", "aggregateFieldName": "amount", "window": "30d", "dividedBy": 3}
    message = rule(**SUM | {"window": "1m", "limit": "1.5", "limitOf": base})
    events = [{"at": at, "amount": amount} for at, amount in ((0, 1), (10, 1), (20, 2), (30, "4.01"))]
    found = alerts(message, events)
    # 1 > 0.5, 1 > 1 is not, 2 > 2 is not, 4.01 > 4.005
    assert [(alert.event_id, alert.limit) for alert in found] == [
        (0, Decimal("0.500000")),
        (3, Decimal("4.005000")),
    ]


def test_a_limit_is_another_aggregate_and_something_more_exactly():
    lowest = {"aggregatorFunctionType": "MIN", "aggregateFieldName": "amount", "window": "10m", "plus": 5}
    largest = {"aggregatorFunctionType": "MAX", "aggregateFieldName": "amount", "window": "10m"}
    message = rule(**SUM | largest | {"limit": 1, "limitOf": lowest})
    events = [{"at": at, "amount": amount} for at, amount in ((0, 20), (1, 25), (2, "25.01"), (11, "25.01"))]
    assert [(alert.event_id, alert.limit) for alert in alerts(message, events)] == [(2, Decimal(25))]
    said = parse_message(message, LOGINS).rule
    assert "MAX(amount) per userId over 10 min > MIN(amount) over 10 min + 5" == said.describe()
    long = rule(
        **SUM | largest | {"limit": 1, "limitOf": lowest | {"plus": "-123456789012345678901234.000000000001"}}
    )
    assert parse_message(long, LOGINS).rule.describe().endswith(" - 123456789012345678901234.000000000001")
    half = lowest | {"plus": "-0.000000000001", "dividedBy": 2}
    message = rule(**SUM | largest | {"limitOperatorType": "<=", "limit": 2, "limitOf": half})
    assert ids(message, [{"at": 0, "amount": 5}]) == []
    assert ids(message.replace("-0.0", "0.0"), [{"at": 0, "amount": 5}]) == [0]


def test_a_limit_is_a_sum_of_two_aggregates_exactly():
    before = "(amount) over 10 min without the current event"
    events = [{"at": at, "amount": amount} for at, amount in enumerate((1, 3, "5.00", 2, "8"))]
    for sentence, expected in {
        f"VALUE(amount) per userId > AVG{before} + 3 × STDDEV{before}": [(1, 1), (4, "7.187060")],
        f"VALUE(amount) per userId >= AVG{before} + 3 × STDDEV{before}": [(1, 1), (2, 5), (4, "7.187060")],
        f"VALUE(amount) per userId <= AVG{before} - STDDEV{before} ÷ 2 + 0.25": [(3, "2.433503")],
        f"STDDEV{before.replace(')', ') per userId', 1)} > AVG{before} - MAX{before} ÷ 2 + 0.49": [
            (2, "0.99"),
            (3, "0.99"),
            (4, "0.74"),
        ],
    }.items():
        message = f"1: {sentence}"
        assert parse_message(message, LOGINS).rule.describe() == sentence
        found = [(alert.event_id, alert.limit) for alert in alerts(message, [dict(each) for each in events])]
        assert found == [(place, Decimal(limit)) for place, limit in expected]
    rule_in_words = parse_message(f"1: {sentence}", LOGINS).rule
    assert parse_message(json.dumps(rule_in_words.to_dict()), LOGINS).rule == rule_in_words


def test_a_window_may_be_of_the_last_events():
    last = "over 3 events within 10 min"
    amounts = [(0, 1), (0, 2), (1, None), (2, 8), (2, 16), (12, 32), (1, 64), (13, 128)]
    events = [{"at": at, "amount": amount, "ip": "a" if at else "b"} for at, amount in amounts]
    for sentence, expected in {
        # 1, 2 · 1, 2 · 2, 8 · 8, 16 · 8, 16, 32 · late: 2, 64 after what has no value · 32, 128 and what is 11 min old is not
        f"SUM(amount) per userId {last} > 0": [1, 3, 3, 10, 24, 56, 66, 160],
        f"SUM(amount) per userId {last} without the current event > 0": [1, 3, 3, 10, 24, 3, 32],
        f"COUNT(events where ip = a) per userId {last} >= 2": [2, 3, 3, 2, 2],
        f"PREVIOUS(amount) per userId {last} > 0": [1, 2, 2, 8, 16, 2, 32],
        "UNIQUE_COUNT(ip) per userId over 2 events within 1 h = 2": [2],
    }.items():
        message = f"1: {sentence}"
        assert parse_message(message, LOGINS).rule.describe() == sentence.replace("= a", '= "a"')
        assert [alert.aggregate for alert in alerts(message, [dict(each) for each in events])] == expected
    rule_in_words = parse_message(f"1: {sentence}", LOGINS).rule
    assert parse_message(json.dumps(rule_in_words.to_dict()), LOGINS).rule == rule_in_words


def test_a_window_may_end_before_the_event():
    ending = "over 5 min ending 2 min before"
    amounts = [(0, 1), (1, 2), (2, 4), (2, 8), (7, 16), (4, 32), (9, 64), (3, 128), (8, 256)]
    events = [{"at": at, "amount": amount, "ip": "a" if at else "b"} for at, amount in amounts]
    for sentence, expected in {
        # of the events at 2, 2, 7, 4 (late), 9, 3 (late) and 8: from 7 min before to 2 min before, both included
        f"SUM(amount) per userId {ending} > 0": [1, 1, 15, 15, 60, 3, 174],
        f"MAX(amount) per userId {ending} > 0": [1, 1, 8, 8, 32, 2, 128],
        f"COUNT(events where ip = a) per userId {ending} = 0": [0, 0, 0, 0],
        f"PREVIOUS(amount) per userId {ending} > 0": [1, 1, 8, 8, 16, 2, 32],
        f"MEDIAN(amount) per userId {ending} > 5": [12, 8],
        "SUM(amount) per userId over 1 event within 5 min ending 2 min before > 5": [8, 8, 16, 32],
        f"VALUE(amount) per userId > 2 × SUM(amount) {ending}": [4, 8, 32, 128],
    }.items():
        message = f"1: {sentence}"
        said = sentence.replace("= a", '= "a"').replace("1 event w", "1 events w")
        assert parse_message(message, LOGINS).rule.describe() == said
        assert [alert.aggregate for alert in alerts(message, [dict(each) for each in events])] == expected
    rule_in_words = parse_message(f"1: {sentence}", LOGINS).rule
    assert parse_message(json.dumps(rule_in_words.to_dict()), LOGINS).rule == rule_in_words


def test_events_are_stored_for_a_window_that_ends_earlier():
    message = "1: COUNT(events) per userId over 1 min ending 1 h before = 1"
    events = [{"at": at} for at in (0, 30, 59, 60, 61, 62)]
    assert ids(message, events) == [3, 4]
    assert parse_message(message, LOGINS).rule.widest_ms == 61 * MINUTE


def test_a_window_may_be_a_session():
    session = "over a session with gaps up to 5 min within 10 min"
    amounts = [(0, 1), (4, 2), (10, 4), (15, 8), (7, 16), (9, 32), (16, 64), (20, 128), (30, None), (31, 256)]
    events = [{"at": at, "amount": amount, "ip": "a" if at else "b"} for at, amount in amounts]
    for sentence, expected in {
        # 1 · 1, 2 · after a gap 4 · 4, 8 · late: 1, 2, 16 · late: 1, 2, 16, 32 · joined: 16, 32, 4, 8, 64 and nothing older than 10 min
        f"SUM(amount) per userId {session} > 0": [1, 3, 4, 12, 19, 51, 124, 204, 256],
        f"SUM(amount) per userId {session} without the current event > 0": [1, 4, 3, 19, 60, 76],
        f"MAX(amount) per userId {session} < 64": [1, 2, 4, 8, 16, 32],
        f"COUNT(events where ip = a) per userId {session} = 1": [1, 1, 1],
        f"PREVIOUS(amount) per userId {session} > 0": [1, 4, 2, 16, 8, 64],
        f"UNIQUE_COUNT(ip) per userId {session} = 2": [2, 2, 2],
    }.items():
        message = f"1: {sentence}"
        assert parse_message(message, LOGINS).rule.describe() == sentence.replace("= a", '= "a"')
        assert [alert.aggregate for alert in alerts(message, [dict(each) for each in events])] == expected
    rule_in_words = parse_message(f"1: {sentence}", LOGINS).rule
    assert parse_message(json.dumps(rule_in_words.to_dict()), LOGINS).rule == rule_in_words


def test_all_or_any_of_several_conditions_and_the_alert_has_each():
    devices = {"aggregatorFunctionType": "UNIQUE_COUNT", "unique": ["ip"], "window": "1d"}
    devices |= {"limitOperatorType": ">=", "limit": 2}
    events = [{"at": at, "ip": ip} for at, ip in ((0, "a"), (1, "a"), (2, "b"), (100, "b"))]
    found = alerts(rule(**COUNT | {"limit": 2, "and": [devices]}), [dict(event) for event in events])
    assert [alert.event_id for alert in found] == [2]
    assert found[0].conditions == ((Decimal(3), "GREATER_EQUAL", 2), (Decimal(2), "GREATER_EQUAL", 2))
    found = alerts(rule(**COUNT | {"limit": 2, "or": [devices]}), events)
    assert [(alert.event_id, alert.aggregate) for alert in found] == [(1, 2), (2, 3), (3, 2)]
    assert Alert.from_json(found[0].to_json()) == found[0]


def test_a_null_where_counts_for_the_conditions_that_do_not_need_the_field():
    both = rule(**COUNT | {"and": [SUM | {"limitOperatorType": "=", "limit": 5}]})
    assert ids(both, [{"at": 0, "amount": 5}, {"at": 1, "amount": None}]) == [0, 1]


def test_a_plain_rule_is_not_judged_at_an_event_that_does_not_count():
    for said in (SUM, SUM | {"atMost": {"alerts": 2, "per": "1h"}}):
        assert ids(rule(**said), [{"at": 0, "amount": 5}, {"at": 1, "amount": None}]) == [0]


def test_at_most_so_many_alerts_are_given_in_a_window_and_the_others_are_counted():
    reference = Reference(LOGINS)
    reference.control("1: COUNT(events) per userId over 1 min >= 1, at most 2 per 10 min")
    #       given, given, not, the first is exactly 10 min old and counts, given; late: only 0 and 5 are before it
    for number, at in enumerate((0, 5, 7, 10, 11, 6)):
        event = {"eventId": number, "userId": 7, "eventTime": NOW + at * MINUTE}
        reference.event(json.dumps(event).encode())
    assert [alert.event_id for alert in reference.alerts] == [0, 1, 4]
    assert reference.suppressed == {"1.1": 3}


def test_at_most_is_counted_back_from_the_events_own_time_so_that_events_out_of_order_raise_more():
    words = "1: COUNT(events) per userId over 1 min >= 1, at most 1 per 1 h"
    assert ids(words, [{"at": at} for at in (60, 59, 58)]) == [0, 1, 2]
    assert ids(words, [{"at": at} for at in (58, 59, 60)]) == [0]


def test_a_suppressed_alert_resets_a_count():
    words = "1: COUNT_WITH_RESET(events) per userId over 1 h >= 2, at most 1 per {}"
    assert ids(words.format("3 min"), [{"at": at} for at in range(6)]) == [1, 5]


def test_what_a_rule_has_given_is_forgotten_when_it_leaves_its_route():
    words = "1: COUNT(events) per userId over 1 min >= 1, at most 1 per 1 d"
    for change, given in (
        ('{"ruleId": 1, "ruleState": "PAUSE"}', [0]),
        (words.replace(">= 1", ">= 0"), [0]),
        ('{"ruleId": 1, "ruleState": "DELETE"}', [0, 1]),
        ('{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}', [0, 1]),
        (words.replace("per userId", "per userId, ip"), [0, 1]),
    ):
        reference = Reference(LOGINS)
        other = "2: COUNT(events) per userId over 1 d > 99"  # so that the route stays
        for number, texts in enumerate(((words, other), (change, words))):
            for text in texts:
                assert reference.control(text)["status"] == "accepted"
            event = {"eventId": number, "userId": 7, "eventTime": NOW + number}
            reference.event(json.dumps(event).encode())
        assert [alert.event_id for alert in reference.alerts] == given


def test_alerts_at_events_that_are_no_longer_stored_do_not_count():
    """Between both alerts of user 7, events of other users move time on by 10 minutes: one minute does not reach back, 30 do."""
    words = "1: COUNT(events) per userId over 1 min >= 1, at most 1 per "
    others = [(8 + n, 10) for n in range(WITNESSES)]
    last = 1 + len(others)
    for per, given in (("1 min", [*range(last), last]), ("30 min", [*range(last)])):
        reference = Reference(LOGINS, max_out_of_orderness_ms=0)
        reference.control(words + per)
        for number, (user, minute) in enumerate(((7, 0), *others, (7, 11))):
            if number == last:
                reference.control(words + "30 min")
            event = {"eventId": number, "userId": user, "eventTime": NOW + minute * MINUTE}
            reference.event(json.dumps(event).encode())
        assert [alert.event_id for alert in reference.alerts] == given


def test_alerts_from_before_a_rule_had_at_most_do_not_count():
    words = "1: COUNT(events) per userId over 1 min >= 1"
    reference = Reference(LOGINS)
    for number in range(5):
        reference.control(words if number in (0, 3) else f"{words}, at most 1 per 1 d")
        reference.event(json.dumps({"eventId": number, "userId": 7, "eventTime": NOW + number}).encode())
    # at events 0 and 3 the rule has no atMost; the alert at 1 is the first that counts, so 2 and 4 raise none
    assert [alert.event_id for alert in reference.alerts] == [0, 1, 3]
