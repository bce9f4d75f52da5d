"""What it means that an event is taken back, sentence by sentence of docs/semantics.md."""

import json
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

import pytest

from lab.model.alerts import Alert, Withdrawal
from lab.model.field import Field
from lab.model.horizon import WITNESSES
from lab.model.jsontext import BadRecord
from lab.model.reference import Reference
from lab.model.schema import LOGINS, Schema
from lab.model.schemafile import schema_from_toml, schema_to_toml
from tests.model.test_absence import ORDER

RETURNS = replace(LOGINS, taken_back='action = "returned"')
SUM = b"1: SUM(amount) per userId over 1 h > 5"
MINUTE = 60_000
T0 = 60 * MINUTE
ROWS = Schema(
    "rows",
    (
        Field("op", "string", path=("payload", "op")),
        Field("id", "long", path=("payload", "after", "id")),
        Field("at", "long", path=("payload", "after", "at")),
        Field("amount", "decimal(9,2)", path=("payload", "after", "amount")),
    ),
    ("id",),
    "at",
    taken_back="op = d",
)


def event(number: int, amount: str | None, action: str = "pay", at: int = T0, **other) -> bytes:
    fields = {"eventId": number, "eventTime": at, "userId": 1, "action": action, "amount": amount}
    return json.dumps(fields | other).encode()


def row(op: str, before: dict | None, after: dict | None) -> bytes:
    return json.dumps({"payload": {"op": op, "before": before, "after": after}}).encode()


def after(
    *lines: bytes, rules: tuple[bytes, ...] = (SUM,), schema: Schema = RETURNS, **settings
) -> Reference:
    reference = Reference(schema, **settings)
    for rule in rules:
        assert reference.control(rule)["status"] == "accepted"
    for line in lines:
        reference.event(line)
    return reference


def alerts(reference: Reference) -> list[tuple]:
    return [(alert.event_id, alert.aggregate) for alert in reference.alerts]


def withdrawn(reference: Reference) -> list[Withdrawal]:
    return [each for each in reference.alerts_and_withdrawals if isinstance(each, Withdrawal)]


def standing(told: Iterable[Alert | Withdrawal]) -> dict[str, str]:
    """The alerts that are not withdrawn, to a reader of the log of alerts for whom the last line about each counts."""
    alerts: dict[str, Alert] = {}
    for each in told:
        if isinstance(each, Alert):
            alerts[each.alert_id] = each
            continue
        of = each.group, each.event_id, each.event_time
        gone = [
            name for name, alert in alerts.items() if (alert.group, alert.event_id, alert.event_time) == of
        ]
        for name in gone:
            del alerts[name]
    return {name: replace(alert, log_time=None, alert_time=None).to_json() for name, alert in alerts.items()}


def fates(reference: Reference) -> dict[str, int]:
    names = ("evaluated", "duplicates", "droppedLate", "takenBack", "notHeld")
    return {name: reference.counts[name] for name in names if reference.counts[name]}


def test_what_is_taken_back_counts_nowhere_from_then_on():
    both = after(event(1, "4"), event(2, "4"))
    assert alerts(both) == [(2, 8)]
    one = after(event(1, "4"), event(1, None, "returned"), event(2, "4"), event(3, "2"))
    assert alerts(one) == [(3, 6)]
    assert fates(one) == {"evaluated": 3, "takenBack": 1}
    lowest = b"1: MIN(amount) per userId over 1 h > 1"
    assert alerts(after(event(1, "1"), event(1, "1", "returned"), event(2, "3"), rules=(lowest,))) == [(2, 3)]


def test_an_event_that_is_taken_back_takes_no_place_among_the_last():
    one, two, three, four = (event(number, str(2**number), at=T0 + number) for number in range(4))
    back = [event(number, None, "returned", at=T0 + number) for number in range(4)]
    of_two = (b"1: SUM(amount) per userId over 2 events within 1 h > 0",)
    done = after(one, two, back[1], three, back[2], two, back[1], four, rules=of_two)
    assert alerts(done) == [(0, 1), (1, 3), (2, 5), (1, 3), (3, 9)]


def test_an_event_that_is_taken_back_leaves_a_window_that_ends_earlier():
    events = [event(number, str(2**number), at=T0 + 1000 * number) for number in range(6)]
    back = [event(number, None, "returned", at=T0 + 1000 * number) for number in range(6)]
    earlier = (b"1: SUM(amount) per userId over 10 s ending 2 s before > 0",)
    done = after(*events[:3], events[3], back[1], events[4], back[4], events[5], rules=earlier)
    assert alerts(done) == [(2, 1), (3, 3), (4, 5), (5, 13)]


def test_an_event_that_is_taken_back_may_divide_a_session():
    events = [event(number, str(2**number), at=T0 + 1000 * number) for number in range(5)]
    back = [event(number, None, "returned", at=T0 + 1000 * number) for number in range(5)]
    session = (b"1: SUM(amount) per userId over a session with gaps up to 1 s within 1 h > 0",)
    done = after(*events[:3], back[1], events[3], events[1], events[4], rules=session)
    assert alerts(done) == [(0, 1), (1, 3), (2, 7), (3, 12), (1, 3), (4, 31)]


def test_it_is_taken_back_on_each_route_with_its_keys_whatever_the_filter():
    filtered = b'2: COUNT(events where action = "pay") per userId, country over 1 h >= 2, when amount > 0'
    of_pay = b'{"ruleId":3,"ruleState":"ACTIVE","groupingKeyNames":["userId"],"filter":{"action":"pay"},'
    of_pay += b'"aggregatorFunctionType":"COUNT","aggregateFieldName":"COUNT","limitOperatorType":">=","limit":2,"window":"1h"}'
    lines = event(1, "1"), event(1, "1", "returned"), event(2, "1")
    reference = after(*lines, rules=(SUM, filtered, of_pay))
    assert alerts(reference) == []
    # two routes have the event; on the third, which it had no key for, nothing came
    assert fates(reference) == {"evaluated": 4, "takenBack": 2}


def test_it_may_come_again():
    again = after(event(1, "4"), event(1, "4", "returned"), event(1, "6"), event(1, "6"))
    assert alerts(again) == [(1, 6)]
    assert fates(again) == {"evaluated": 2, "takenBack": 1, "duplicates": 1}


def test_what_is_not_held_cannot_be_taken_back():
    never = event(7, "1", "returned")
    other_time = event(1, "1", "returned", at=T0 + 1)
    other_group = event(1, "1", "returned", userId=2)
    back = event(1, "4", "returned")
    assert fates(after(event(1, "4"), never, other_time, other_group)) == {"evaluated": 1, "notHeld": 3}
    assert fates(after(event(1, "4"), back, back)) == {"evaluated": 1, "takenBack": 1, "notHeld": 1}
    newer = [event(2 + n, "1", at=T0 + 66 * MINUTE) for n in range(WITNESSES)]
    assert fates(after(event(1, "4"), *newer, back)) == {"evaluated": 1 + WITNESSES, "notHeld": 1}
    assert fates(after(event(1, "1", "returned", userId=None))) == {}


@pytest.mark.parametrize(
    "between",
    [
        (b'{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}',),
        (b'{"ruleId": 1, "ruleState": "DELETE"}', SUM),
        (b"1: SUM(amount) per userId, ip over 1 h > 5", SUM),
    ],
)
def test_what_was_dropped_or_forgotten_cannot_be_taken_back(between):
    back = event(1, "9", "returned")
    forgotten = after(event(1, "9"))
    for message in between:
        assert forgotten.control(message)["status"] == "accepted"
    forgotten.event(back)
    assert fates(forgotten) == {"evaluated": 1, "notHeld": 1} and not withdrawn(forgotten)
    late = event(2, "1", at=T0 + 10 * MINUTE), event(1, "9"), back
    assert fates(after(*late, late_policy="drop")) == {"evaluated": 1, "droppedLate": 1, "notHeld": 1}


def test_the_wait_of_an_event_that_is_no_longer_stored_goes_on():
    reference = after(rules=(ORDER,), max_out_of_orderness_ms=0, key_groups=1)
    others = [event(2 + n, "9", at=T0 + 100 * MINUTE, userId=2 + n) for n in range(WITNESSES)]
    for passed, line in enumerate((event(1, "9", "order"), *others, event(1, "9", "returned"))):
        reference.event(line, log_time=10 * T0 + passed)
    assert fates(reference) == {"evaluated": 1 + WITNESSES, "notHeld": 1}
    reference.advance_to(20 * T0)
    assert [alert.event_id for alert in reference.alerts] == [1] and not withdrawn(reference)


def test_each_route_on_which_the_event_raised_alerts_has_a_line():
    of_pay = b'2: COUNT(events) where action = "pay" per userId over 1 h >= 1'
    silent = b"3: COUNT(events) where amount > 0 per userId over 1 h >= 2"
    reference = after(event(1, "9"), event(1, "9", "returned"), rules=(SUM, of_pay, silent))
    assert alerts(reference) == [(1, 9), (1, 1)]
    first, second = withdrawn(reference)
    assert first == second and standing(reference.alerts_and_withdrawals) == {}


def test_alerts_stay_given_and_one_line_says_that_they_are_withdrawn():
    reference = after(
        event(1, "9"),
        event(2, "1", at=T0 + 1),
        event(1, "9", "returned"),
        event(2, "1", "returned", at=T0 + 1),
    )
    assert alerts(reference) == [(1, 9), (2, 10)]
    [first, second] = withdrawn(reference)
    assert json.loads(first.to_json()) == {
        "withdrawn": True,
        "key": "{userId=1}",
        "group": {"userId": 1},
        "eventId": 1,
        "eventTime": T0,
    }
    assert second.event_id == 2
    assert withdrawn(after(event(1, "4"), event(1, "4", "returned"))) == []


def test_an_alert_that_comes_again_has_the_same_id_and_stands():
    given = event(1, "9"), event(1, "9", "returned")
    reference = after(*given, event(1, "8"))
    first, withdrawn, again = reference.alerts_and_withdrawals
    assert isinstance(first, Alert) and isinstance(again, Alert) and isinstance(withdrawn, Withdrawal)
    assert (first.alert_id, first.aggregate, again.aggregate) == (again.alert_id, 9, 8)
    assert standing(reference.alerts_and_withdrawals) == {again.alert_id: again.to_json()}
    assert standing(after(*given, event(1, "8"), event(1, "8", "returned")).alerts_and_withdrawals) == {}


def test_an_alert_of_absence_is_withdrawn_whenever_it_was_raised():
    order, later = event(1, "9", "order"), event(9, None, "search", at=T0 + 2 * MINUTE)
    returned = event(1, "9", "returned")
    reference = after(order, later, returned, rules=(ORDER,))
    assert [told.rule_id for told in reference.alerts] == [7]
    assert [told.event_id for told in withdrawn(reference)] == [1] and standing(
        reference.alerts_and_withdrawals
    ) == {}
    at_the_last_moment = after(order, event(1, "9", "returned", at=T0), later, rules=(ORDER,))
    assert at_the_last_moment.alerts_and_withdrawals == []


def test_an_alert_of_absence_is_withdrawn_when_its_rule_has_changed_since():
    order, later = event(1, "9", "order"), event(9, None, "search", at=T0 + 2 * MINUTE)
    for message in (ORDER.replace(b"1 min", b"2 min"), b'{"ruleId": 7, "ruleState": "PAUSE"}'):
        reference = after(order, later, rules=(ORDER,))
        reference.control(message)
        reference.event(event(1, "9", "returned"))
        assert [told.event_id for told in withdrawn(reference)] == [1]


def test_the_event_of_a_wait_that_ended_without_an_alert_has_no_alert_to_withdraw():
    order, paid = event(1, "9", "order"), event(2, "9", at=T0 + 5)
    later, returned = event(9, None, "search", at=T0 + 2 * MINUTE), event(1, "9", "returned")
    assert after(order, paid, later, returned, rules=(ORDER,)).alerts_and_withdrawals == []


def test_a_withdrawn_line_has_the_key_and_the_group_of_the_alerts_that_it_withdraws():
    orders = ("userId, country", "country, userId", "userId, country")
    rules = tuple(f"{n}: SUM(amount) per {keys} over 1 h > 5".encode() for n, keys in enumerate(orders, 1))
    lines = event(1, "9", country="KR"), event(1, "9", "returned", country="KR")
    reference = after(*lines, rules=rules)
    assert {(told.key, told.group) for told in reference.alerts} == {
        (told.key, told.group) for told in withdrawn(reference)
    }
    assert len(withdrawn(reference)) == 2 and standing(reference.alerts_and_withdrawals) == {}


def test_withdrawn_alerts_do_not_count_for_at_most_and_resets_stay():
    at_most = b"1: SUM(amount) per userId over 1 h > 5, at most 1 per 1 h"
    taken_back = event(1, "9"), event(1, "9", "returned")
    reference = after(*taken_back, event(2, "9"), event(3, "9"), rules=(at_most,))
    assert (alerts(reference), reference.suppressed) == ([(1, 9), (2, 9)], {"1.1": 1})
    updated = after(*taken_back, event(1, "9"), rules=(at_most,))
    assert len(standing(updated.alerts_and_withdrawals)) == 1 and not updated.suppressed
    reset = b"1: COUNT_WITH_RESET(events) per userId over 1 h >= 2"
    lines = event(1, "1"), event(2, "1"), event(2, "1", "returned"), event(3, "1"), event(4, "1")
    assert alerts(after(*lines, rules=(reset,))) == [(2, 2), (4, 2)]


def test_it_keeps_its_place_in_time():
    # the event that is taken back is 10 minutes ahead: the one behind is late, and dropped
    ahead = event(1, "9", at=T0 + 10 * MINUTE), event(1, "9", "returned", at=T0 + 10 * MINUTE)
    assert fates(after(*ahead, event(2, "9"), late_policy="drop")) == {
        "evaluated": 1,
        "takenBack": 1,
        "droppedLate": 1,
    }


def test_after_an_event_that_is_taken_back_none_is_awaited():
    told = after(event(1, None, "order"), event(2, None, "order", at=T0 + 1), rules=(ORDER,))
    told.event(event(1, None, "returned"))
    told.event(event(9, None, "search", at=T0 + 2 * MINUTE))
    assert [alert.event_id for alert in told.alerts] == [2]
    # what ended a wait has ended it
    ended = after(
        event(1, None, "order"),
        event(2, None, at=T0 + 1),
        event(2, None, "returned", at=T0 + 1),
        rules=(ORDER,),
    )
    ended.event(event(9, None, "search", at=T0 + 2 * MINUTE))
    assert ended.alerts == []


@pytest.mark.parametrize("taken_back", ['action = "returned"', "amount < 0 or country is null"])
def test_a_schema_says_which_records_take_back(taken_back):
    schema = replace(LOGINS, taken_back=taken_back)
    assert schema_from_toml(schema_to_toml(schema)).taken_back == taken_back
    assert Schema.from_dict(schema.to_dict()) == schema
    text = schema_to_toml(schema).replace(json.dumps(taken_back), '"acton = 5"')
    with pytest.raises(ValueError, match='^taken_back: unknown logins field "acton", did you mean action'):
        schema_from_toml(text)


def test_a_row_that_is_deleted_or_updated_takes_back_the_row_before():
    one, more = {"id": 1, "at": T0, "amount": "4"}, {"id": 1, "at": T0, "amount": "7"}
    reference = after(
        row("c", None, one), row("u", one, more), rules=(b"1: SUM(amount) over 1 h > 5",), schema=ROWS
    )
    assert alerts(reference) == [(1, 7)]
    assert fates(reference) == {"evaluated": 2, "takenBack": 1} and reference.counts["records"] == 3
    reference.event(row("d", more, None))
    reference.event(row("c", None, {"id": 2, "at": T0, "amount": "6"}))
    assert alerts(reference) == [(1, 7), (2, 6)]
    assert [told.event_id for told in withdrawn(reference)] == [1]


def test_a_row_that_is_updated_starts_a_new_wait_unless_when_says_which_rows_do():
    order, paid = {"id": 1, "at": T0, "amount": "4"}, {"id": 2, "at": T0 + 1, "amount": "9"}
    later = {"id": 3, "at": T0 + 5 * MINUTE, "amount": "9"}
    lines = row("c", None, order), row("c", None, paid), row("u", order, order), row("c", None, later)
    of_order = b"1: NO(events where amount = 9) within 1 min after, when amount = 4"
    for more, waits in ((b"", [1]), (b" and op = c", [])):
        told = after(*lines, rules=(of_order + more,), schema=ROWS).alerts
        assert [alert.event_id for alert in told] == waits


def test_a_row_before_that_is_missing_is_no_silence():
    one = {"id": 1, "at": T0, "amount": "4"}
    assert ROWS.events(row("u", None, one)) == [{"op": "u", "id": 1, "at": T0, "amount": Decimal("4.00")}]
    with pytest.raises(BadRecord, match="^before: null, expected the row that was deleted"):
        ROWS.events(row("d", None, None))
    with pytest.raises(BadRecord, match="^amount"):
        ROWS.events(row("u", one | {"amount": "x"}, one))
    without = replace(ROWS, taken_back="")
    assert [event["amount"] for event in without.events(row("u", one, one | {"amount": "5"}))] == [5]
