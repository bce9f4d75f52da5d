"""A route's windows against the reference, straight: no decoding, no Spark, no files."""

import json
import os
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import numba
import numpy as np
import pytest

from lab.engine.checkpoint.settings import Settings
from lab.engine.compiled import groups, layout, window
from lab.engine.compiled.aggregates.forms import ACCUMULATOR_LAYOUTS
from lab.engine.loop.inprocess import InProcessEngine
from lab.engine.windows import arrays
from lab.model.field import Field
from lab.model.reference import evaluate_log
from lab.model.rules import rule_message
from lab.model.schema import LOGINS, Schema
from tests.engine.drawn import agreed, first_difference, stores
from tests.engine.randomlogs import MINUTE, Entry
from tests.engine.test_inprocess import assert_same

LOGS = int(os.environ.get("LAB_EXAMPLES", "20"))


@pytest.mark.parametrize(
    "seeds", [range(LOGS), pytest.param(range(LOGS, 3 * LOGS), marks=pytest.mark.slow)], ids=["some", "more"]
)
def test_the_windows_give_the_alerts_of_the_reference_on_random_logs(seeds: range):
    assert not first_difference(seeds, short=False)
    assert not first_difference(range(3 * seeds.start, 3 * seeds.stop))


def login(number: int, minutes: float, amount: int) -> Entry:
    line = {"eventId": number, "eventTime": int(minutes * MINUTE), "userId": 1, "amount": amount}
    return "event", json.dumps(line).encode()


def maximum(rule_id: int, window: str) -> Entry:
    return "control", b"%d,(active),(userId),,(amount),(MAX),(>),(0),(%s)" % (rule_id, window.encode())


def test_a_queue_does_not_lead_back_to_events_from_before_its_rule():
    """
    min   100   110          119½  120
           1     1       ├──── 9 ── 5      the rule comes with 120, so it has never seen the events before its window
    """
    log = [maximum(1, "30m"), login(1, 100, 1), login(2, 110, 1), maximum(2, "1m")]
    log += [login(3, 120, 5), login(4, 119.5, 9), login(5, 120.1, 1)]
    assert [alert.aggregate for alert in agreed(log).alerts if alert.rule_id == 2] == [5, 9, 9]


@pytest.mark.parametrize("before", [[], [login(1, 110, 5)], [login(1, 111, 5)]])
def test_a_late_event_counts_for_one_that_is_late_after_it(before: list[Entry]):
    """
    min         111   112   113          120     W = 5: the windows of the newest and of the last have no event in common
                 9 ◄── 3 ◄── 1            1
                late        later
    """
    log = [maximum(1, "5m"), *before, login(2, 112, 3), login(3, 120, 1), login(4, 111, 9), login(5, 113, 1)]
    assert aggregates_of(log)[-1] == 9


def test_a_late_event_does_not_hide_what_is_newer():
    """
    min   111   112   113        117         125     W = 5: the window of the last begins after the late event
           9     5 ◄── 3 ◄─────── 1           1
          late                   later
    """
    log = [maximum(1, "5m"), login(1, 112, 5), login(2, 113, 3), login(3, 125, 1), login(4, 111, 9)]
    assert aggregates_of([*log, login(5, 117, 1)])[-1] == 5


def test_the_oldest_event_that_is_known_counts():
    """
    min   100                 120  125  130      W = 20: the rule is told of 100 when 125 comes late, and 120's window begins there
           9 ◄─── 20 min ───── 1    1    1
                             later late
    """
    history = "control", b"2,(active),(userId),,(amount),(SUM),(>),(9999),(20)"
    log = [history, login(1, 100, 9), maximum(1, "20m"), login(2, 130, 1), login(3, 125, 1), login(4, 120, 1)]
    assert aggregates_of(log)[-1] == 9


def total(rule_id: int, over: int = 0, window: int = 20) -> Entry:
    return "control", b"%d,(active),(userId),,(amount),(SUM),(>),(%d),(%d)" % (rule_id, over, window)


def counts(rule_id: int) -> Entry:
    """A rule that keeps the history of its route, and raises no alert."""
    return "control", b"%d,(active),(userId),,(COUNT),(COUNT),(>),(99),(30)" % rule_id


def aggregates_of(log: list[Entry]) -> list[Decimal]:
    """What the alerts tell, up to ten minutes late."""
    return [alert.aggregate for alert in agreed(log, max_out_of_orderness_ms=10 * MINUTE).alerts]


def engine_on(schema: Schema = LOGINS) -> InProcessEngine:
    return InProcessEngine(Settings(schema, parallelism=1))


def test_rules_that_differ_in_limit_operator_and_state_share_a_running_aggregate():
    states = [("active", ">"), ("active", "<"), ("pause", ">")] * 100
    rules = [
        ("control", f"{number},({state}),(userId),,(amount),(SUM),({operator}),({number}),(20)".encode())
        for number, (state, operator) in enumerate(states, 1)
    ]
    with engine_on() as engine:
        engine.run_batch([*rules, login(1, 100, 50)])
        (held,) = stores(engine)
        assert len(held.rules) == 300 and len(held.keys) == 1
        fired = sum(50 > n for n in range(1, 300, 3)) + sum(50 < n for n in range(2, 300, 3))
        assert len(engine.out["alerts"]) == fired
        assert held.arrays["scalars"][layout.LANES] == 0, "a group's only event needs no accumulator"
        engine.run_batch([login(2, 101, 50)])
        assert held.arrays["scalars"][layout.LANES] == held.lanes == ACCUMULATOR_LAYOUTS["SUM"].lanes


def test_an_aggregate_takes_no_room_in_a_group_where_nothing_counts():
    with engine_on() as engine:
        engine.run_batch([total(1), ("event", b'{"eventId": 1, "eventTime": 6000000, "userId": 1}')])
        (held,) = stores(engine)
        assert (held.event_count, held.group_count, held.arrays["scalars"][layout.LANES]) == (1, 1, 0)


def test_a_route_may_keep_more_fields_than_an_integer_has_bits():
    names = [f"amount{number}" for number in range(130)]
    schema = Schema(
        "wide",
        (Field("id", "long"), Field("time", "long"), *(Field(name, "long") for name in names)),
        id_fields=("id",),
        time_field="time",
    )
    log: list[Entry] = [
        ("control", f"{number},(active),,,({name}),(SUM),(>),({3 * number}),(20)".encode())
        for number, name in enumerate(names, 1)
    ]
    unique = {"ruleId": 999, "ruleState": "ACTIVE", "aggregatorFunctionType": "UNIQUE_COUNT", "limit": 1}
    unique |= {
        "limitOperatorType": ">=",
        "window": "20m",
        "unique": [names[0], names[62], names[63], names[129]],
    }
    log.append(("control", json.dumps(unique).encode()))
    for event in range(6):  # in each event every sixth field is null
        values = {name: number for number, name in enumerate(names, 1) if number % 6 != event}
        log.append(("event", json.dumps({"id": event, "time": 10**9 + event, **values}).encode()))
    reference = evaluate_log(schema, log)
    assert {alert.rule_id for alert in reference.alerts} == {*range(1, 131), 999}
    with engine_on(schema) as engine:
        engine.run_batch(log[:-2])
        engine.lose_memory()
        engine.run_batch(log[-2:])
        assert_same(engine.out, reference)


def test_the_oldest_event_that_can_still_count_is_held_after_a_restart():
    """
    min   100                 120  125
           7 ◄─── 20 min ───── 1    1      the newest event, then one that is late by the 5 minutes which it may be
    """
    log = [total(1, over=7), login(1, 100, 7), login(2, 125, 1), login(3, 120, 1)]
    with engine_on() as engine:
        engine.run_batch(log[:3])
        engine.lose_memory()
        engine.run_batch(log[3:])
        assert_same(engine.out, evaluate_log(LOGINS, log))
        assert [json.loads(line)["aggregate"] for line in engine.out["alerts"]] == ["8.00"]


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_the_compiled_loop_is_made_anew_when_any_of_its_files_changes():
    assert {*Path(layout.__file__).parent.rglob("*.py")} <= {*layout.SOURCES}
    assert window.evaluate_batch._cache._cache_file._source_stamp == layout.code_stamp()


def test_a_rule_that_was_deleted_while_it_paused_counts_from_the_start():
    rule = b"1,(active),(userId),,(COUNT_WITH_RESET),(COUNT),(>),(1),(30)"
    log = [("control", rule), counts(2), login(1, 100, 1), login(2, 101, 1)]
    log += [("control", b"1,(pause)"), ("control", b"1,(delete)"), ("control", rule), login(3, 102, 1)]
    assert [(alert.event_id, alert.aggregate) for alert in agreed(log).alerts] == [(2, 2), (3, 3)]


def test_a_rule_that_pauses_goes_and_comes_back_moves_no_event():
    with engine_on() as engine:
        engine.run_batch([total(1), counts(2), login(1, 100, 5)])
        (held,) = stores(engine)
        before = held.arrays
        changes = [("control", change) for change in (b"1,(pause)", b"1,(active)", b"1,(delete)")]
        for number, change in enumerate([*changes, total(1)], 2):
            engine.run_batch([change, login(number, 100, 5)])
        assert [float(json.loads(line)["aggregate"]) for line in engine.out["alerts"]] == [5, 15, 20]
        assert held.arrays is before
        engine.run_batch([("control", b"1,(delete)"), maximum(3, "20m"), login(9, 100, 5)])
        assert held.arrays["events"] is before["events"]
        assert held.arrays["accumulator_starts"] is not before["accumulator_starts"]
        assert len(held.keys) == 2, "what no rule needs any more is left out of new arrays"


def test_aggregates_of_many_rules_that_are_gone_do_not_go_on():
    with engine_on() as engine:
        engine.run_batch([*(total(number, window=number) for number in range(1, 31)), login(1, 100, 5)])
        (held,) = stores(engine)
        for number in range(2, 31):
            engine.run_batch([("control", b"%d,(delete)" % number), login(number, 100, 0)])
            assert len(held.keys) <= 2 * len(held.rules) + 4
        engine.run_batch([login(99, 100, 5)])
        assert float(json.loads(engine.out["alerts"][-1])["aggregate"]) == 10


def test_a_count_that_no_condition_needs_for_a_while_begins_anew_with_the_others_of_its_rule():
    def rule(limit: int, **more) -> Entry:
        said = rule_message(
            1, ["userId"], "amount", "COUNT_WITH_RESET", "GREATER_EQUAL", limit, "10m", **more
        )
        return "control", json.dumps(said).encode()

    of_five_minutes = {
        "aggregatorFunctionType": "COUNT_WITH_RESET",
        "limitOperatorType": "GREATER_EQUAL",
        "limit": 3,
        "window": "5m",
    }
    two = rule(9, **{"or": [of_five_minutes]})
    log = [two, login(1, 100, 1), rule(2), login(2, 100.5, 1), two, login(3, 101, 1), login(4, 102, 1)]
    assert [alert.event_id for alert in agreed([*log, login(5, 103, 1)]).alerts] == [2, 5]


@pytest.mark.parametrize("users", [9, 33, 120])
def test_half_of_the_places_for_resets_stay_free(users: int):
    rule = "control", b"1,(active),(userId),,(COUNT_WITH_RESET),(COUNT),(>=),(1),(30)"
    events = [login(user, 100, 1)[1].replace(b'"userId": 1', b'"userId": %d' % user) for user in range(users)]
    with patch.object(arrays, "ROOM_AT_FIRST", 16), engine_on() as engine:
        engine.run_batch([rule, *(("event", event) for event in events)])
        (held,) = stores(engine)
        assert held.arrays["scalars"][layout.RESETS] == users <= len(held.arrays["reset_table"]) // 2


def test_a_batch_that_needs_more_groups_and_lanes_than_there_are_gets_them_on_its_way():
    rules = [maximum(1, "5m"), ("control", b"2,(active),(userId),,(amount),(SUM),(>=),(0),(5)")]
    events = [
        ("event", login(number, 100, number)[1].replace(b'"userId": 1', b'"userId": %d' % (number % 700)))
        for number in range(1, 1500)
    ]
    with patch.object(arrays, "ROOM_AT_FIRST", 16), patch.object(arrays, "SPARE_ROWS", 64):
        assert len(agreed(rules + events).alerts) == 2 * len(events)


def test_a_group_is_looked_up_without_reading_the_rows_of_others():
    def of(users: range) -> list[Entry]:
        return [
            ("event", login(user, 100, 1)[1].replace(b'"userId": 1', b'"userId": %d' % user))
            for user in users
        ]

    with engine_on() as engine:
        engine.run_batch([maximum(1, "5m"), *of(range(1000))])
        (held,) = stores(engine)
        of_event, of_fields = np.zeros(1, np.int64), np.zeros((1, 1), np.int64)
        for user in range(1000, 1100):
            held.arrays["groups"][:, layout.KEY :] = user  # whoever reads the row of another group finds it
            one = layout.Batch(
                *(of_event,) * 3, np.array([[user]]), of_fields, of_event.copy(), of_event, of_fields
            )
            groups.find_known_groups(held.store, one, 0, 1)
            assert one.groups[0] == layout.NOTHING


def test_events_from_before_those_that_are_stored_are_an_error():
    with engine_on() as engine:
        engine.run_batch([maximum(1, "5m"), login(1, 100, 1), login(2, 101, 1)])
        (held,) = stores(engine)
        columns = {name: np.array([1]) for name in ("time", "id", "keyGroup", "key:userId", "value:amount")}
        with pytest.raises(AssertionError, match="events come after those that are stored"):
            held.evaluate(columns, held.last_seq, 0)
        with pytest.raises(AssertionError, match="in order of seq"):
            held.load(*held.export_events_and_resets(0, held.last_seq + 1))
