"""Three ways of windowing over one key's events: which see the fraud, and when."""

import json
from itertools import pairwise
from random import Random

import pytest

from lab.contrast.windows import (
    Event,
    account_payments,
    compare_window_types,
    crossing,
    per_event,
    sessions,
    sliding,
    tumbling,
)
from lab.model.reference import Reference
from lab.model.schema import PAYMENTS
from lab.widgets.windowscope import WindowScope, describe_results, window_rows

MINUTE_MS = 60_000


def some_events(seed: int, count: int = 60) -> list[Event]:
    """In order of arrival: many equal times, some late."""
    rng = Random(seed)
    return [
        Event((number + rng.randint(-3, 3)) * MINUTE_MS + 600_000, rng.randint(1, 9), number)
        for number in range(count)
    ]


def test_the_fraud_of_the_story_straddles_an_edge_so_only_the_tumbling_windows_miss_it():
    seen = compare_window_types(account_payments(), 60 * MINUTE_MS, 15 * MINUTE_MS, 15 * MINUTE_MS, 110)
    assert {lane: what.delay_ms for lane, what in seen.items()} == {
        "tumbling": None,
        "sliding": 8 * MINUTE_MS,  # 11:07 to 11:15
        "session": 19 * MINUTE_MS,  # a payment at 11:11 keeps it open until 11:26
        "per event": 0,
    }
    assert not seen["tumbling"].over_limit
    assert [event.amount for event in crossing(account_payments(), 60 * MINUTE_MS, 110)] == [
        31,
        28,
        4,
        33,
        29,
    ]


def test_sliding_windows_miss_a_fraud_that_lasts_longer_than_w_less_s():
    # as lesson 3 suggests
    seen = compare_window_types(account_payments(), 17 * MINUTE_MS, 5 * MINUTE_MS, 5 * MINUTE_MS, 110)
    assert {lane: what.delay_ms for lane, what in seen.items()} == {
        "tumbling": None,
        "sliding": None,
        "session": None,
        "per event": 0,
    }


def test_the_per_event_windows_over_the_limit_are_the_alerts_of_the_reference():
    #   W = 5 min             t
    # ────┤━━━━━━━━━━━━━━━━━━━┤      both ends count, and only what arrived before
    for seed in range(5):
        events = some_events(seed)
        reference = Reference(PAYMENTS)
        reference.control("1,(active),(payeeId),,(paymentAmount),(SUM),(>),(25),(5)")
        for event in events:
            fields = {"transactionId": event.id, "eventTime": event.time_ms, "paymentAmount": event.amount}
            fields |= {"payeeId": 1, "beneficiaryId": 2, "paymentType": "CSH"}
            reference.event(json.dumps(fields).encode())
        over = [window for window in per_event(events, 5 * MINUTE_MS) if window.total > 25]
        assert [(w.events[-1].id, w.end_ms, w.total) for w in over] == [
            (alert.event_id, alert.event_time, alert.aggregate) for alert in reference.alerts
        ]
        assert len(over) > 3


def test_an_event_at_an_edge_belongs_to_the_window_that_starts_there():
    events = [Event(0, 1, 1), Event(20, 1, 2)]
    assert [(window.start_ms, len(window.events)) for window in tumbling(events, 20)] == [(0, 1), (20, 1)]
    assert [(window.start_ms, len(window.events)) for window in sliding(events[1:], 20, 10)] == [
        (10, 1),
        (20, 1),
    ]


@pytest.mark.parametrize(("window_ms", "slide_ms", "expected"), [(20, 20, 1), (20, 5, 4), (20, 1, 20)])
def test_each_event_is_in_window_by_slide_panes(window_ms, slide_ms, expected):
    windows = sliding(some_events(1), window_ms, slide_ms)
    assert sum(len(window.events) for window in windows) / len(some_events(1)) == expected


def test_with_slide_equal_to_window_sliding_is_tumbling():
    events = some_events(2)
    assert sliding(events, 700, 700) == tumbling(events, 700)


def test_sliding_windows_report_after_the_crossing_and_at_most_one_slide_later_when_they_hold_the_fraud():
    seen = compare_window_types(account_payments(), 60 * MINUTE_MS, 5 * MINUTE_MS, 5 * MINUTE_MS, 110)
    assert 0 < seen["sliding"].delay_ms <= 5 * MINUTE_MS


def test_a_fraud_longer_than_the_window_less_the_slide_can_slip_through_sliding_windows_too():
    seen = compare_window_types([Event(14, 6, 1), Event(33, 6, 2)], 20, 10, 10, 10)
    assert seen["sliding"].delay_ms is None
    assert seen["per event"].delay_ms == 0


@pytest.mark.parametrize(("gap_min", "delay_min"), [(5, None), (8, 12), (15, 19), (30, 127)])
def test_a_gap_too_short_cuts_the_fraud_and_one_too_long_reports_it_hours_later(gap_min, delay_min):
    delay_ms = compare_window_types(account_payments(), 60 * MINUTE_MS, MINUTE_MS, gap_min * MINUTE_MS, 110)[
        "session"
    ].delay_ms
    assert delay_ms == (delay_min and delay_min * MINUTE_MS)


def test_sessions_share_the_events_and_stay_a_gap_apart():
    windows = sessions(some_events(4), 2 * MINUTE_MS)
    assert sorted(event for window in windows for event in window.events) == sorted(some_events(4))
    assert all(first.end_ms <= second.start_ms for first, second in pairwise(windows)) and len(windows) > 1


def test_windows_of_a_row_do_not_overlap():
    windows = sliding(some_events(3), 600_000, 70_000)
    rows = window_rows(windows)
    for row in set(rows):
        mine = [window for window, at in zip(windows, rows) if at == row]
        assert all(first.end_ms <= second.start_ms for first, second in pairwise(mine))
    assert max(rows) < 600_000 / 70_000


def test_a_window_per_event_is_never_judged_again_so_a_fraud_that_ends_late_can_escape_it():
    #   arrival   1 (t = 12)   2 (t = 18)   3 (t = 15: late)       2 is not in the window of 3, sliding ones have all
    seen = compare_window_types([Event(12, 4, 1), Event(18, 4, 2), Event(15, 4, 3)], 20, 10, 10, 10)
    assert seen["per event"].delay_ms is None
    assert seen["sliding"].delay_ms == 2


def test_nothing_over_the_limit_is_not_called_missed():
    assert "nothing to see" in describe_results(
        compare_window_types(account_payments(), MINUTE_MS, MINUTE_MS, MINUTE_MS, 110)
    )


def test_the_sliders_move_the_windows_and_the_text():
    scope = WindowScope()
    assert "tumbling: missed it; sliding: saw it 8 min after" in scope.said.value
    assert 'aria-live="polite"' in scope.said.value and "lab-said bad" in scope.said.value
    scope.slide.value = 5
    assert "sliding: saw it 3 min after" in scope.said.value and "= 12 sliding" in scope.said.value
    scope.limit.value = 60
    assert "lab-said good" in scope.said.value


def test_windows_over_the_limit_differ_in_line_and_symbol_and_stand_at_their_times():
    scope = WindowScope()
    quiet, over, reports, events = scope.figure.data
    assert (quiet.line.dash, over.line.dash) == ("dot", None) and over.line.width > quiet.line.width
    assert set(events.marker.symbol) == {"circle", "star"}
    count = sum(len(what.over_limit) for what in scope.results_by_window_type.values())
    assert len(reports.x) == count == len(over.x) / 3
    missed = [note.text for note in scope.figure.layout.annotations]
    assert missed == ["✗ missed", "✓ after 8 min", "✓ after 19 min", "✓ at once"]


def test_the_text_says_w_by_s_where_the_slide_does_not_divide_the_window():
    scope = WindowScope()
    assert "W / S = 4 sliding windows, and in 1 tumbling" in scope.said.value
    scope.window.value, scope.slide.value = 17, 5
    assert "W / S = 3.4 sliding windows on average" in scope.said.value
    scope.slide.value = 17
    assert "W / S = 1 sliding window, and" in scope.said.value


def test_a_limit_of_millions_is_shown_without_cents():
    scope = WindowScope([(0, 21_000_000, 1)], limit=20_000_000)
    assert (scope.limit.readout_format, scope.limit.step) == (".0f", 1)
    assert WindowScope([(0, 0.5, 1), (60_000, 0.75, 2)], limit=1).limit.readout_format == ".2f"


def test_the_slide_never_exceeds_the_window():
    scope = WindowScope()
    scope.slide.value = 60
    scope.window.value = 10
    assert scope.slide.value == scope.slide.max == 10
    scope.window.value = 50
    assert scope.slide.max == 50


def test_all_controls_have_labels():
    scope = WindowScope(window_ms=10_000, slide_ms=2_000, limit=5)
    labels = [control.description for control in (scope.window, scope.slide, scope.limit)]
    assert labels == ["window W, seconds", "slide S, seconds", "limit, sum >"]


def test_no_events_are_refused():
    with pytest.raises(ValueError, match="expected one or more"):
        WindowScope([])


def test_a_session_longer_than_the_window_may_raise_a_false_alert():
    seen = compare_window_types(account_payments(), 10 * MINUTE_MS, 10 * MINUTE_MS, 30 * MINUTE_MS, 110)
    assert seen["session"].over_limit and all(what.delay_ms is None for what in seen.values())
    assert "but a session does, because it may last longer: a false alert" in describe_results(seen)
