"""What `absence` means, sentence by sentence of docs/semantics.md."""

import json

import pytest

from lab.model.reference import Reference
from lab.model.schema import LOGINS

ORDER = b'7: NO(events where action = "pay") per userId within 1 min after, when action = "order"'
SILENT = b"7: NO(events) per userId within 1 min after"
MINUTE, T0 = 60_000, 1_000_000


def event(number: int, at: int, action: str = "order", user: int = 1) -> bytes:
    return json.dumps({"eventId": number, "eventTime": at, "userId": user, "action": action}).encode()


def told(rule: bytes, events, upto: int = 0, **settings) -> list[tuple]:
    """(event id, log time) of the alerts; `events`: (log time, record)."""
    reference = Reference(LOGINS, **settings)
    assert reference.control(rule)["status"] == "accepted"
    for log_time, line in events:
        reference.event(line, log_time=log_time)
    reference.advance_to(upto)
    return [(alert.event_id, alert.log_time) for alert in reference.alerts]


def test_an_alert_for_each_event_after_which_none_that_counts_is_logged_in_time():
    at_the_end = [(T0, event(1, 5)), (T0 + MINUTE, event(2, 6, "pay"))]
    too_late = [(T0, event(1, 5)), (T0 + MINUTE + 1, event(2, 6, "pay"))]
    assert told(ORDER, at_the_end, T0 + 9 * MINUTE) == []
    assert told(ORDER, too_late, T0 + 9 * MINUTE) == [(1, T0 + MINUTE)]
    of_another = [(T0, event(1, 5)), (T0 + 1, event(2, 6, "pay", user=2)), (T0 + 2, event(3, 7, "search"))]
    assert told(ORDER, of_another, T0 + 9 * MINUTE) == [(1, T0 + MINUTE)]
    reference = Reference(LOGINS)
    reference.control(ORDER)
    reference.event(event(1, 5), log_time=T0)
    reference.advance_to(T0 + 9 * MINUTE)
    [alert] = reference.alerts
    assert (alert.aggregate, alert.operator, alert.limit, alert.event_time, alert.key) == (
        0,
        "EQUAL",
        0,
        5,
        "{userId=1}",
    )


def test_one_event_ends_what_all_before_it_wait_for_and_may_wait_itself():
    orders = [(T0, event(1, 5)), (T0 + 1, event(2, 5)), (T0 + 2, event(3, 6, "pay"))]
    assert told(ORDER, orders, T0 + 9 * MINUTE) == []
    beats = [(T0 + n * MINUTE, event(n, n)) for n in range(3)]
    assert told(SILENT, beats, T0 + 9 * MINUTE) == [(2, T0 + 3 * MINUTE)]


def test_events_from_before_the_rule_wait_for_none():
    reference = Reference(LOGINS)
    reference.control(b"1: COUNT(events) per userId over 1 h > 9")  # keeps the history of the same groups
    reference.event(event(1, 5), log_time=T0)
    reference.control(SILENT)
    reference.advance_to(T0 + 9 * MINUTE)
    assert reference.alerts == []
    reference.event(event(2, 6), log_time=T0 + 9 * MINUTE)
    reference.advance_to(T0 + 99 * MINUTE)
    assert [alert.event_id for alert in reference.alerts] == [2]


def test_log_times_decide_and_nothing_need_come():
    # event times say that the payment came a day before, and an hour after
    assert told(ORDER, [(T0, event(1, 5)), (T0 + 1, event(2, 86_400_000, "pay"))], T0 + 9 * MINUTE) == []
    assert told(ORDER, [(T0, event(1, 5))], T0 + MINUTE) == []
    assert told(ORDER, [(T0, event(1, 5))], T0 + MINUTE + 1) == [(1, T0 + MINUTE)]


def test_a_log_without_log_times_has_its_newest_event_time():
    log = [(0, event(1, 1000)), (0, event(2, 1000 + MINUTE, user=2)), (0, event(3, 900, "pay"))]
    assert told(ORDER, log) == []
    log = [(0, event(1, 1000)), (0, event(2, 1001 + MINUTE, "search", user=2)), (0, event(3, 1001, "pay"))]
    assert told(ORDER, log) == [(1, None)]


def test_a_stored_late_event_ends_a_wait_and_a_duplicate_does_not():
    late = {"late_policy": "store", "max_out_of_orderness_ms": 0}
    waits = [(T0, event(1, 50)), (T0 + 1, event(2, 40, "pay"))]
    assert told(ORDER, waits, T0 + 9 * MINUTE, **late) == []
    assert told(ORDER, waits, T0 + 9 * MINUTE, **late | {"late_policy": "drop"}) == [(1, T0 + MINUTE)]
    itself = [(T0, event(1, 50, "pay")), (T0 + 1, event(2, 40))]
    assert told(ORDER, itself, T0 + 9 * MINUTE, **late) == []
    again = [(T0, event(1, 50, "pay")), (T0 + 1, event(2, 50)), (T0 + 2, event(1, 50, "pay"))]
    assert told(ORDER, again, T0 + 9 * MINUTE) == [(2, T0 + 1 + MINUTE)]


@pytest.mark.parametrize(
    "change", [ORDER, b'{"ruleId": 7, "ruleState": "PAUSE"}', b'{"ruleId": 7, "ruleState": "DELETE"}',
               b'{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}'],
)  # fmt: skip
def test_a_change_of_the_rule_ends_its_waits_and_tells_what_was_due(change):
    for at, alerts in ((T0 + MINUTE, []), (T0 + MINUTE + 1, [1])):
        reference = Reference(LOGINS)
        reference.control(ORDER)
        reference.event(event(1, 5), log_time=T0)
        reference.control(change, at)
        reference.advance_to(T0 + 9 * MINUTE)
        assert [alert.event_id for alert in reference.alerts] == alerts
