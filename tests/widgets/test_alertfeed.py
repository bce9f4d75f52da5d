"""The alert feed: newest first, bounded, filtered, with the window behind an alert."""

import csv
import io
import time
from decimal import Decimal

from lab.apps.backtest import Past
from lab.model.alerts import Alert
from lab.model.reference import Reference
from lab.model.schema import PAYMENTS
from lab.widgets.alertfeed import BINS, KEPT, SHOWN, AlertFeed, building_up

RULE = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)"


def alert(number: int, rule_id: int = 1, time: int = 0) -> Alert:
    return Alert(rule_id, 1, f"{{payeeId={number}}}", Decimal(60), "GREATER", Decimal(50), number, time)


def test_the_newest_alert_comes_first_and_a_rule_can_be_chosen():
    feed = AlertFeed([alert(1), alert(2, rule_id=2), alert(3)])
    assert [row[2] for row in feed.table.rows] == ["payeeId=3", "payeeId=2", "payeeId=1"]
    feed.rule.value = 2
    assert [row[2] for row in feed.table.rows] == ["payeeId=2"]


def test_a_held_list_stays_and_catches_up_when_let_go():
    feed = AlertFeed([alert(1)])
    feed.hold.value = True
    feed.add([alert(2)])
    assert len(feed.table.rows) == 1 and feed.count.value == "2 alerts (held)"
    feed.hold.value = False
    assert len(feed.table.rows) == 2


def test_the_day_is_named_under_the_bars_only_when_there_are_several():
    feed = AlertFeed([alert(1, time=12 * 3_600_000)])
    axis = feed.over_time.layout.xaxis
    assert axis.tickformat == "%H:%M:%S"
    assert axis.range == ("1970-01-01 11:59:59.500", "1970-01-01 12:00:10.500"), (
        "no bar as wide as the picture"
    )
    feed.add([alert(2, time=3 * 86_400_000)])
    assert axis.tickformat == "" and axis.range[1] > "1970-01-03 23"


def test_a_hundred_alerts_a_second_for_ten_minutes_stay_small_and_quick():
    feed, slowest = AlertFeed(), 0.0
    for tick in range(1200):  # two a second
        came = [alert(tick * 50 + n, rule_id=1 + n % 3, time=tick * 500) for n in range(50)]
        began = time.perf_counter()
        feed.add(came)
        slowest = max(slowest, time.perf_counter() - began)
    assert feed.count.value == "60,000 alerts"
    assert len(feed._alerts) == KEPT and len(feed.table.rows) == SHOWN
    assert sum(len(bins) for bins in feed._by_time.values()) <= 3 * BINS
    assert sum(sum(bins.values()) for bins in feed._by_time.values()) == 60_000
    assert sum(sum(trace.y) for trace in feed.over_time.data) == 60_000
    assert slowest < 0.5  # the pulse's own length


def test_the_window_behind_an_alert_is_shown_building_up_to_it():
    reference, past = Reference(PAYMENTS), Past(PAYMENTS)
    reference.control(RULE)
    lines = [f"{n},2013-01-01 00:0{n}:00,25,12,CSH,{20 * n}".encode() for n in (1, 2, 3)]
    for line in lines:
        reference.event(line)
    past.add(lines)
    feed = AlertFeed(reference.alerts, past=past, rules=reference.book.rules)
    feed.table.selected = reference.alerts[-1].alert_id
    assert "3 events in the window of 20 min" in feed.said.value
    assert feed.behind.data[1].y == (20.0, 60.0, 120.0)
    assert feed.window.layout.display == ""
    assert [row[3:] for row in feed.events.rows] == [["60.00", "25"], ["40.00", "25"], ["20.00", "25"]]


def test_an_alert_whose_events_are_gone_says_so():
    reference = Reference(PAYMENTS)
    reference.control(RULE)
    feed = AlertFeed([alert(7)], rules=reference.book.rules)
    feed.table.selected = alert(7).alert_id
    assert "Event 7 is no longer in memory" in feed.said.value
    assert feed.window.layout.display == feed.events.layout.display == "none"


def test_csv_has_all_alerts_in_memory_with_their_exact_numbers():
    feed = AlertFeed([alert(1), alert(2)])
    rows = list(csv.DictReader(io.StringIO(feed.csv())))
    assert [row["eventId"] for row in rows] == ["1", "2"]
    assert rows[0]["alertId"] == alert(1).alert_id and rows[0]["limit"] == "50"


def test_of_a_large_window_only_some_sums_are_computed_the_last_one_always():
    reference = Reference(PAYMENTS)
    reference.control(RULE)
    events = [{"paymentAmount": Decimal(1)} for _ in range(1000)]
    so_far = building_up(reference.book.rules[1], events)
    assert so_far[-1] == 1000.0 and 90 <= sum(value is not None for value in so_far) <= 100
