"""A route's windows against the reference, straight: no decoding, no Spark, no files."""

import json
import os
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import numba
import numpy as np
import pytest

from lab.engine.compiled import groups, layout, window
from lab.engine.compiled.aggregates import ACCUMULATOR_LAYOUTS
from lab.engine.windows import arrays
from lab.model.alerts import Alert
from lab.model.field import Field
from lab.model.reference import evaluate_log
from lab.model.rules import rule_message
from lab.model.schema import LOGINS, Schema
from tests.engine.direct import Direct, difference
from tests.engine.randomlogs import MINUTE, Entry

LOGS = int(os.environ.get("LAB_EXAMPLES", "20"))


@pytest.mark.parametrize(
    "seeds", [range(LOGS), pytest.param(range(LOGS, 3 * LOGS), marks=pytest.mark.slow)], ids=["some", "more"]
)
def test_the_windows_give_the_alerts_of_the_reference_on_random_logs(seeds: range, tmp_path: Path):
    found = [difference(seed, tmp_path) for seed in seeds]
    assert not any(found), "\n".join(filter(None, found))


def login(number: int, minutes: float, amount: int) -> Entry:
    line = {"eventId": number, "eventTime": int(minutes * MINUTE), "userId": 1, "amount": amount}
    return "event", json.dumps(line).encode()


def maximum(rule_id: int, window: str) -> Entry:
    return "control", b"%d,(active),(userId),,(amount),(MAX),(>),(0),(%s)" % (rule_id, window.encode())


def test_a_queue_does_not_lead_back_to_events_from_before_its_rule(tmp_path: Path):
    """
    min   100   110          119½  120
           1     1       ├──── 9 ── 5      the rule comes with 120, so it has never seen the events before its window
    """
    log = [maximum(1, "30m"), login(1, 100, 1), login(2, 110, 1), maximum(2, "1m")]
    log += [login(3, 120, 5), login(4, 119.5, 9), login(5, 120.1, 1)]
    assert [alert.aggregate for alert in agreed(log, tmp_path) if alert.rule_id == 2] == [5, 9, 9]


@pytest.mark.parametrize("before", [[], [login(1, 110, 5)], [login(1, 111, 5)]])
def test_a_late_event_counts_for_one_that_is_late_after_it(before: list[Entry], tmp_path: Path):
    """
    min         111   112   113          120     W = 5: the windows of the newest and of the last have no event in common
                 9 ◄── 3 ◄── 1            1
                late        later
    """
    log = [maximum(1, "5m"), *before, login(2, 112, 3), login(3, 120, 1), login(4, 111, 9), login(5, 113, 1)]
    assert aggregates_of(log, tmp_path)[-1] == 9


def test_a_late_event_does_not_hide_what_is_newer(tmp_path: Path):
    """
    min   111   112   113        117         125     W = 5: the window of the last begins after the late event
           9     5 ◄── 3 ◄─────── 1           1
          late                   later
    """
    log = [maximum(1, "5m"), login(1, 112, 5), login(2, 113, 3), login(3, 125, 1), login(4, 111, 9)]
    assert aggregates_of([*log, login(5, 117, 1)], tmp_path)[-1] == 5


def test_the_oldest_event_that_is_known_counts(tmp_path: Path):
    """
    min   100                 120  125  130      W = 20: the rule is told of 100 when 125 comes late, and 120's window begins there
           9 ◄─── 20 min ───── 1    1    1
                             later late
    """
    history = "control", b"2,(active),(userId),,(amount),(SUM),(>),(9999),(20)"
    log = [history, login(1, 100, 9), maximum(1, "20m"), login(2, 130, 1), login(3, 125, 1), login(4, 120, 1)]
    assert aggregates_of(log, tmp_path)[-1] == 9


def aggregates_of(log: list[Entry], folder: Path) -> list[Decimal]:
    """What the alerts tell, up to ten minutes late."""
    return [alert.aggregate for alert in agreed(log, folder, 10 * MINUTE)]


def agreed(log: list[Entry], folder: Path, late_ms: int = 5 * MINUTE) -> list[Alert]:
    """The alerts of a log, on which reference and windows agree."""
    direct = Direct(LOGINS, folder, 16, "evaluate", late_ms)
    for kind, text in log:
        (direct.event if kind == "event" else direct.control)(text)
    direct.flush()
    alerts = evaluate_log(LOGINS, log, max_out_of_orderness_ms=late_ms).alerts
    assert sorted(line for _, line in direct.found) == sorted(alert.to_json() for alert in alerts)
    return alerts


def test_rules_that_differ_in_limit_operator_and_state_share_a_running_aggregate(tmp_path: Path):
    direct = Direct(LOGINS, tmp_path, 16, "evaluate", 300_000)
    for number, (state, operator) in enumerate([("active", ">"), ("active", "<"), ("pause", ">")] * 100, 1):
        direct.control(
            b"%d,(%s),(userId),,(amount),(SUM),(%s),(%d),(20)"
            % (number, state.encode(), operator.encode(), number)
        )
    (held,) = direct.stores.values()
    assert len(held.rules) == 300 and len(held.keys) == 1
    direct.event(login(1, 100, 50)[1])
    direct.flush()
    assert len(direct.found) == sum(50 > n for n in range(1, 300, 3)) + sum(50 < n for n in range(2, 300, 3))
    assert held.arrays["scalars"][layout.LANES] == held.lanes == ACCUMULATOR_LAYOUTS["SUM"].lanes


def test_an_aggregate_takes_no_room_in_a_group_where_nothing_counts(tmp_path: Path):
    direct = Direct(LOGINS, tmp_path, 16, "evaluate", 300_000)
    direct.control(b"1,(active),(userId),,(amount),(SUM),(>),(0),(20)")
    direct.event(b'{"eventId": 1, "eventTime": 6000000, "userId": 1}')
    direct.flush()
    (held,) = direct.stores.values()
    assert (held.event_count, held.group_count, held.arrays["scalars"][layout.LANES]) == (1, 1, 0)


def test_a_route_may_keep_more_fields_than_an_integer_has_bits(tmp_path: Path):
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
    direct = Direct(schema, tmp_path, 16, "evaluate", 300_000)
    for number, (kind, text) in enumerate(log):
        (direct.event if kind == "event" else direct.control)(text)
        if number == len(log) - 3:
            direct.restart(1)
    direct.flush()
    assert sorted(line for _, line in direct.found) == sorted(alert.to_json() for alert in reference.alerts)


def test_the_oldest_event_that_can_still_count_is_held_after_a_restart(tmp_path: Path):
    """
    min   100                 120  125
           7 ◄─── 20 min ───── 1    1      the newest event, then one that is late by the 5 minutes which it may be
    """
    rule = b"1,(active),(userId),,(amount),(SUM),(>),(7),(20)"
    log = [("control", rule), login(1, 100, 7), login(2, 125, 1), login(3, 120, 1)]
    direct = Direct(LOGINS, tmp_path, 16, "evaluate", 5 * MINUTE)
    direct.control(rule)
    for _, line in log[1:3]:
        direct.event(line)
    direct.restart(1)
    direct.event(log[3][1])
    direct.flush()
    (alert,) = evaluate_log(LOGINS, log).alerts
    assert [line for _, line in direct.found] == [alert.to_json()] and alert.aggregate == 8


def test_room_is_made_for_each_new_group_once(tmp_path: Path):
    direct = Direct(LOGINS, tmp_path, 16, "evaluate", 300_000)
    direct.control(b"1,(active),(userId),,(amount),(SUM),(>),(0),(20)")
    direct.event(login(1, 100, 1)[1])
    direct.flush()
    (held,) = direct.stores.values()
    users = np.array([[1], [2], [3], [2], [1]])
    assert groups.count_new_groups(held.store, users, np.full(16, layout.NOTHING, np.int32)) == 2


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_the_compiled_loop_is_made_anew_when_any_of_its_files_changes():
    folder = Path(layout.__file__).parent
    looping = {path.name for path in folder.glob("*.py") if "\n@bare\n" in path.read_text()}
    assert looping <= set(layout.LOOP)
    assert window.evaluate_batch._cache._cache_file._source_stamp == layout.STAMP


def test_a_rule_that_was_deleted_while_it_paused_counts_from_the_start(tmp_path: Path):
    rule = b"1,(active),(userId),,(COUNT_WITH_RESET),(COUNT),(>),(1),(30)"
    keeps = b"2,(active),(userId),,(COUNT),(COUNT),(>),(99),(30)"  # the route's history
    log = [("control", rule), ("control", keeps), login(1, 100, 1), login(2, 101, 1)]
    log += [("control", b"1,(pause)"), ("control", b"1,(delete)"), ("control", rule), login(3, 102, 1)]
    assert [(alert.event_id, alert.aggregate) for alert in agreed(log, tmp_path)] == [(2, 2), (3, 3)]


def test_a_rule_that_pauses_goes_and_comes_back_moves_no_event(tmp_path: Path):
    direct = Direct(LOGINS, tmp_path, 16, "evaluate", 300_000)
    rule = b"1,(active),(userId),,(amount),(SUM),(>),(0),(20)"
    for message in (rule, b"2,(active),(userId),,(COUNT),(COUNT),(>),(99),(20)"):
        direct.control(message)
    direct.event(login(1, 100, 5)[1])
    direct.flush()
    (held,) = direct.stores.values()
    before = held.arrays
    for number, change in enumerate((b"1,(pause)", b"1,(active)", b"1,(delete)", rule), 2):
        direct.control(change)
        direct.event(login(number, 100, 5)[1])
        direct.flush()
    assert [float(json.loads(line)["aggregate"]) for _, line in direct.found] == [5, 15, 20]
    assert held.arrays is before
    direct.control(b"1,(delete)")
    direct.control(b"3,(active),(userId),,(amount),(MAX),(>),(0),(20)")
    assert (
        held.arrays["events"] is before["events"]
        and held.arrays["accumulator_starts"] is not before["accumulator_starts"]
    )
    assert len(held.keys) == 2, "what no rule needs any more is left out of new arrays"


def test_aggregates_of_many_rules_that_are_gone_do_not_go_on(tmp_path: Path):
    direct = Direct(LOGINS, tmp_path, 16, "evaluate", 300_000)
    for number in range(1, 31):
        direct.control(b"%d,(active),(userId),,(amount),(SUM),(>),(0),(%d)" % (number, number))
    direct.event(login(1, 100, 5)[1])
    direct.flush()
    (held,) = direct.stores.values()
    for number in range(2, 31):
        direct.control(b"%d,(delete)" % number)
        assert len(held.keys) <= 2 * len(held.rules) + 4
    direct.event(login(2, 100, 5)[1])
    direct.flush()
    assert float(json.loads(direct.found[-1][1])["aggregate"]) == 10


def test_a_count_that_no_condition_needs_for_a_while_begins_anew_with_the_others_of_its_rule(tmp_path: Path):
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
    assert [alert.event_id for alert in agreed([*log, login(5, 103, 1)], tmp_path)] == [2, 5]


@pytest.mark.parametrize("users", [9, 33, 120])
def test_half_of_the_places_for_resets_stay_free(users: int, tmp_path: Path):
    with patch.object(arrays, "ROOM_AT_FIRST", 16):
        direct = Direct(LOGINS, tmp_path, 16, "evaluate", 300_000)
        direct.control(b"1,(active),(userId),,(COUNT_WITH_RESET),(COUNT),(>=),(1),(30)")
        for user in range(users):
            direct.event(login(user, 100, 1)[1].replace(b'"userId": 1', b'"userId": %d' % user))
        direct.flush()
    (held,) = direct.stores.values()
    assert held.arrays["scalars"][layout.RESETS] == users <= len(held.arrays["reset_table"]) // 2


def test_a_batch_that_needs_more_groups_and_lanes_than_there_are_gets_them_on_its_way(tmp_path: Path):
    rules = [maximum(1, "5m"), ("control", b"2,(active),(userId),,(amount),(SUM),(>=),(0),(5)")]
    events = [
        ("event", login(number, 100, number)[1].replace(b'"userId": 1', b'"userId": %d' % (number % 700)))
        for number in range(1, 1500)
    ]
    with patch.object(arrays, "ROOM_AT_FIRST", 16), patch.object(arrays, "SPARE_ROWS", 64):
        assert len(agreed(rules + events, tmp_path)) == 2 * len(events)


def test_events_from_before_those_that_are_stored_are_an_error(tmp_path: Path):
    direct = Direct(LOGINS, tmp_path, 16, "evaluate", 5 * MINUTE)
    for kind, text in (maximum(1, "5m"), login(1, 100, 1), login(2, 101, 1)):
        (direct.event if kind == "event" else direct.control)(text)
    direct.flush()
    (held,) = direct.stores.values()
    assert held.last_seq == 1
    direct.seq = 1
    direct.event(login(3, 102, 1)[1])
    with pytest.raises(AssertionError, match="events come after those that are stored"):
        direct.flush()
    with pytest.raises(AssertionError, match="in order of seq"):
        held.load(*held.export_events_and_resets(0, 2))
