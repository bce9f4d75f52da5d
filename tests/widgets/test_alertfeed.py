"""The alert feed: newest first, bounded, filtered, with the window behind an alert."""

import csv
import io
import json
from dataclasses import replace
from decimal import Decimal
from random import Random
from xml.etree import ElementTree

import pytest

from lab.model.aggregation import MeasuredCondition
from lab.model.alerts import Alert
from lab.model.attributes import carried
from lab.model.formatting import escape_control_characters
from lab.model.horizon import WITNESSES
from lab.model.reference import Reference
from lab.model.rules import RuleBook, parse_message
from lab.model.schema import PAYMENTS
from lab.past.backtest import Past
from lab.widgets.alertfeed import BINS, DRAWN, KEPT, NAMED, SHOWN, AlertFeed

RULE = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)"


def alert(number: int, rule_id: int = 1, time: int = 0) -> Alert:
    group = (("payeeId", number),)
    return Alert(
        *(rule_id, 1, f"{{payeeId={number}}}", Decimal(60), "GREATER", Decimal(50), number, time), group=group
    )


def test_the_newest_alert_comes_first_and_a_rule_can_be_chosen():
    feed = AlertFeed([alert(1), alert(2, rule_id=2), alert(3)])
    assert [row[2] for row in feed.table.rows] == ["payeeId=3", "payeeId=2", "payeeId=1"]
    feed.rule.value = 2
    assert [row[2] for row in feed.table.rows] == ["payeeId=2"]


def test_an_alert_that_came_again_after_it_was_withdrawn_is_one_row_with_its_last_value():
    again = replace(alert(1), aggregate=Decimal(70))
    feed = AlertFeed([alert(1), alert(2), again])
    assert [row[2:4] for row in feed.table.rows] == [["payeeId=1", "70 > 50"], ["payeeId=2", "60 > 50"]]
    feed.rules = {1: parse_message(RULE, PAYMENTS).rule}
    feed.table.selected = again.alert_id
    assert ">70<" in feed.window.said.value or "70" in feed.window.said.value


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


def test_a_hundred_alerts_a_second_for_ten_minutes_stay_small():
    feed = AlertFeed()
    for tick in range(200):  # each of three seconds
        came = [alert(tick * 300 + n, rule_id=1 + n % 3, time=tick * 3_000 + 10 * n) for n in range(300)]
        feed.add(came)
    assert feed.count.value == "60,000 alerts"
    assert len(feed._alerts) == KEPT and len(feed.table.rows) == SHOWN
    assert sum(len(bins) for bins in feed._by_time.values()) <= 3 * BINS
    assert sum(sum(bins.values()) for bins in feed._by_time.values()) == 60_000
    assert sum(sum(trace.y) for trace in feed.over_time.data) == 60_000


def test_alerts_of_a_thousand_rules_stay_small_and_every_one_is_drawn():
    feed, rules = AlertFeed(), [1, 1, 1, *range(1, 1_001)]
    feed.add(alert(n, rule_id, time=1_000 * (n % 50)) for n, rule_id in enumerate(rules))
    assert len(feed._by_time) == NAMED + 1
    names = [trace.name for trace in feed.over_time.data]
    assert len(names) == DRAWN and names[0] == "rule 1" and names[-1] == "other rules"
    assert sum(feed.over_time.data[0].y) == 4
    assert sum(sum(trace.y) for trace in feed.over_time.data) == len(rules)
    feed.rule.value = 100  # that of a rule which is chosen has its own bars
    assert "rule 100" in [trace.name for trace in feed.over_time.data]
    assert len(feed.over_time.data) == DRAWN
    feed.rule.value = 1_000  # too late for bars of its own
    assert [row[1] for row in feed.table.rows] == ["1000 v1"]
    feed.add(alert(n) for n in range(KEPT))
    assert [name for name, _ in feed.rule.options] == ["all rules", "rule 1", "rule 1000"]


def test_the_window_behind_an_alert_is_shown_building_up_to_it():
    lines = [f"{n},2013-01-01 00:0{n}:00,25,12,CSH,{20 * n}".encode() for n in (1, 2, 3)]
    feed, alerts = shown_alerts(RULE, lines)
    feed.table.selected = alerts[-1].alert_id
    assert "3 events in the window of 20 min" in feed.window.said.value
    assert feed.window.chart.data[1].y == (20.0, 60.0, 120.0)
    assert feed.window.picture.layout.display == ""
    assert [row[2:5] for row in feed.window.events.rows] == [
        ["00:03:00.000", "60.00", "25"], ["00:02:00.000", "40.00", "25"], ["00:01:00.000", "20.00", "25"]
    ]  # fmt: skip
    whole = [
        "event",
        "time (UTC)",
        "paymentAmount",
        "payeeId",
        "beneficiaryId",
        "paymentType",
        "ingestionTimestamp",
    ]
    assert feed.window.events.columns == whole


def test_the_events_of_a_window_of_several_days_have_dates():
    days = [f"{n},2013-01-0{n} 00:00:00,25,12,CSH,60".encode() for n in (1, 2)]
    feed, alerts = shown_alerts(RULE.replace("(20)", "(100000)"), days)
    feed.table.selected = alerts[-1].alert_id
    assert [row[2] for row in feed.window.events.rows] == [
        "2013-01-02 00:00:00.000",
        "2013-01-01 00:00:00.000",
    ]


def shown_alerts(rule: str, lines: list[bytes]) -> tuple[AlertFeed, list[Alert]]:
    """A feed with the alerts of a rule over lines, whose events are in memory."""
    reference, past = Reference(PAYMENTS), Past(PAYMENTS)
    assert reference.control(rule)["status"] == past.history.apply(rule)["status"] == "accepted"
    for line in lines:
        reference.event(line)
    past.add(lines)
    return AlertFeed(reference.alerts, past=past, rules=reference.book.rules), reference.alerts


def test_an_event_that_was_dropped_as_late_or_has_expired_is_in_no_window():
    """Those of 51 and 52 are late as well, but by less than their route keeps events: they alert over themselves."""
    reached, again = ["00:10:00"] * WITNESSES, ["00:24:59"] * WITNESSES
    times = [*reached, "00:03:59", "00:04:10", "00:18:58", *again, "00:19:00"]
    amounts = [*[5] * WITNESSES, 7, 51, 6, *[8] * WITNESSES, 52]
    lines = [
        f"{number},2013-01-01 {time},25,12,CSH,{amount}".encode()
        for number, (time, amount) in enumerate(zip(times, amounts), 1)
    ]
    feed, alerts = shown_alerts(RULE.replace("(20)", "(1)"), lines)
    assert [alert.event_id for alert in alerts] == [amounts.index(51) + 1, amounts.index(52) + 1]
    for alert in alerts:
        feed.table.selected = alert.alert_id
        assert (
            "1 events in the window" in feed.window.said.value
            and "These events" not in feed.window.said.value
        )
        assert [row[1] for row in feed.window.events.rows] == [str(alert.event_id)]


def test_what_was_counted_before_a_reset_is_shown_apart_and_not_counted():
    rule = "1,(active),(payeeId),,(COUNT_WITH_RESET),,(>=),(4),(20)"
    feed, alerts = shown_alerts(
        rule, [f"{n},2013-01-01 00:0{n}:00,25,12,CSH,5".encode() for n in range(1, 9)]
    )
    assert [alert.event_id for alert in alerts] == [4, 8]
    feed.table.selected = alerts[1].alert_id
    assert feed.window.chart.data[1].y == (None, None, None, None, 1.0, 2.0, 3.0, 4.0)
    assert "8 events in the window" in feed.window.said.value
    assert (
        "The first 4, in grey, no longer count" in feed.window.said.value
        and "These events give" not in feed.window.said.value
    )
    assert [row[1] for row in feed.window.events.rows] == ["8", "7", "6", "5"]
    reset = feed.window.chart.data[3]
    assert reset.x == (feed.window.chart.data[0].x[3],) * 2 and reset.showlegend
    feed.table.selected = alerts[0].alert_id
    assert feed.window.chart.data[1].y == (1.0, 2.0, 3.0, 4.0) and not reset.showlegend and reset.x == ()
    assert "grey" not in feed.window.said.value


def payments(seed: int) -> list[bytes]:
    """Payments of three payers, some a little late, some twice."""
    random, lines = Random(seed), []
    for n in range(120):
        at = f"00:{n // 6:02}:{random.randrange(60):02}"
        amount = random.choice(["5", "7.50", ""])
        lines.append(f"{n},2013-01-01 {at},{random.randrange(3)},12,CSH,{amount}".encode())
        if random.random() < 0.1:
            lines.append(random.choice(lines))
    return lines


@pytest.mark.parametrize(
    "what", ["(COUNT_WITH_RESET),,(>),(3)", "(COUNT),,(>),(3)", "(paymentAmount),(SUM),(>),(30)",
             "(paymentAmount),(COUNT_WITH_RESET),(>=),(4)", "(paymentType),(COUNT),(>),(4)"]
)  # fmt: skip
@pytest.mark.parametrize("seed", [1, 2])
def test_the_events_shown_give_what_the_alert_said(what, seed):
    feed, alerts = shown_alerts(f"1,(active),(payeeId),,{what},(5)", payments(seed))
    assert len(alerts) > 5
    for alert in alerts[::3]:
        feed.table.selected = alert.alert_id
        assert feed.window.chart.data[1].y[-1] is not None or alert.aggregate in map(
            float, filter(None, feed.window.chart.data[1].y)
        )
        assert "These events give" not in feed.window.said.value, feed.window.said.value


def test_that_the_events_no_longer_give_what_the_alert_said_is_said():
    feed, alerts = shown_alerts(
        RULE, [f"{n},2013-01-01 00:0{n}:00,25,12,CSH,{20 * n}".encode() for n in (1, 2, 3)]
    )
    feed.past = Past(PAYMENTS, history=feed.past.history)
    feed.past.add([b"3,2013-01-01 00:03:00,25,12,CSH,60"])
    feed.table.selected = alerts[-1].alert_id
    assert (
        "The alert&#x27;s value was 120.00. These events give 60.00: the rule or its window has changed since"
        in feed.window.said.value
    )


def test_an_alert_whose_events_are_gone_says_so_and_shows_the_alerts_of_its_group():
    reference = Reference(PAYMENTS)
    reference.control(RULE)
    feed = AlertFeed([alert(7), alert(8), alert(7, time=60_000)], rules=reference.book.rules)
    feed.table.selected = alert(7).alert_id
    assert "Event 7 is no longer in memory" in feed.window.said.value
    assert "The alert was 60 &gt; 50 at 1970-01-01 00:00:00.000 UTC" in feed.window.said.value
    assert feed.window.picture.layout.display == "none" and feed.window.events.layout.display == ""
    assert [row[1:] for row in feed.window.events.rows] == [
        ["7", "60 > 50", "1970-01-01 00:01:00.000"], ["7", "60 > 50", "1970-01-01 00:00:00.000"]
    ]  # fmt: skip
    feed.rules = {}
    feed.table.selected = alert(8).alert_id
    assert "Rule 1 was deleted" in feed.window.said.value and len(feed.window.events.rows) == 1


def test_csv_has_all_alerts_in_memory_with_their_exact_numbers():
    feed = AlertFeed([alert(1), alert(2)])
    rows = list(csv.DictReader(io.StringIO(feed.csv())))
    assert [row["eventId"] for row in rows] == ["1", "2"]
    assert rows[0]["alertId"] == alert(1).alert_id and rows[0]["limit"] == "50"


def test_csv_gives_a_spreadsheet_no_formula():
    keys = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"]
    keys += ["＝1+1", "＋1+1", "－1+1", "＠SUM(A1)"]  # which spreadsheets of East Asia take for the same
    keys += ["a=1", "-5.20"]
    feed = AlertFeed([Alert(1, 1, key, Decimal("-0.5"), "LESS", Decimal(-3), key, 5) for key in keys])
    rows = list(csv.DictReader(io.StringIO(feed.csv(), newline="")))
    safe = [escape_control_characters(f"'{key}") for key in keys[:11]] + keys[11:]
    assert [row["key"] for row in rows] == [row["eventId"] for row in rows] == safe
    assert {(row["aggregate"], row["limit"], row["ruleId"]) for row in rows} == {("-0.5", "-3", "1")}


def test_of_a_large_window_only_some_sums_are_computed_the_last_one_always():
    feed, alerts = shown_alerts(RULE, [f"{n},2013-01-01 00:00:00,25,12,CSH,1".encode() for n in range(1000)])
    feed.table.selected = alerts[-1].alert_id
    so_far = feed.window.chart.data[1].y
    assert so_far[-1] == 1000.0 and 90 <= sum(value is not None for value in so_far) <= 100


MORE = (
    "1: COUNT(events where paymentAmount > 15) per payeeId over 20 min >= 2",
    "1: SUM(paymentAmount) per payeeId over 20 min without the current event > 25",
    "1: SUM(paymentAmount) per payeeId over 20 min > 0.6 × SUM(paymentAmount) over 1 h",
    "1: COUNT(events) per payeeId over 20 min > 9 or MAX(paymentAmount) over 20 min > 30",
    "1: COUNT_WITH_RESET(events where paymentAmount > 15) per payeeId over 20 min >= 2",
    "1: SEQUENCE(paymentAmount < 15, paymentAmount > 25) per payeeId over 20 min >= 2",
    "1: CHANGE(paymentAmount) per payeeId over 20 min > 5",
    "1: PREVIOUS(paymentAmount) per payeeId over 20 min >= 20",
    "1: P95(paymentAmount) per payeeId over 20 min > 25",
)


@pytest.mark.parametrize("rule", MORE)
def test_the_window_of_a_rule_that_says_more_adds_up_too(rule):
    lines = [f"{n},2013-01-01 00:0{n}:00,25,12,CSH,{10 * n}".encode() for n in (1, 2, 3, 4)]
    feed, alerts = shown_alerts(rule, lines)
    feed.table.selected = alerts[-1].alert_id
    assert "in the window of 20 min" in feed.window.said.value
    assert "has changed since" not in feed.window.said.value
    assert feed.window.events.rows


LABELS = (("desk", "2, left"), ("team", "fraud"))
CARRIED = carried(severity="high", title="Card testing", labels=LABELS)
HOSTILE = '<img src=x onerror="alert(1)">\u202e'


def test_the_list_has_a_column_of_titles_from_the_first_alert_on_that_has_one():
    feed = AlertFeed([alert(1)])
    plain = ["rule", "group", "value", "ms", "time, UTC"]
    assert (feed.table.columns, feed.table.numeric, feed.table.wide) == (plain, [2, 3], [1])
    feed.add([replace(alert(2), carried=CARRIED)])
    assert feed.table.columns == ["rule", "title", *plain[1:]]
    assert (feed.table.numeric, feed.table.wide) == ([3, 4], [1, 2])
    assert [row[1:5] for row in feed.table.rows] == [
        ["1 v1 high", "Card testing", "payeeId=2", "60 > 50"],
        ["1 v1", "", "payeeId=1", "60 > 50"],
    ]


def details(feed: AlertFeed, chosen: Alert) -> list[tuple[str, list[str]]]:
    """The names and texts beside the window of an alert, as a browser reads them."""
    feed.table.selected = chosen.alert_id
    (listed,) = ElementTree.fromstring(f"<x>{feed.window.facts.value}</x>")
    found: list[tuple[str, list[str]]] = []
    for cell in listed:
        assert not list(cell)
        found.append((cell.text, [])) if cell.tag == "dt" else found[-1][1].append(cell.text)
    return found


def test_beside_the_window_stands_what_the_alert_carries():
    conditions = (
        MeasuredCondition(Decimal("1234.50"), "GREATER", Decimal(50)),
        MeasuredCondition(None, "LESS", Decimal(2)),
    )
    told = replace(
        alert(1), conditions=conditions, event=(("amount", "12.50"), ("ip", None)), carried=CARRIED
    )
    feed, facts = AlertFeed([told, alert(2)]), [("severity", ["high"]), ("title", ["Card testing"])]
    facts += [("labels", ["desk = 2, left", "team = fraud"])]
    event = ("event fields", ["amount = 12.50", "ip = –"])
    assert details(feed, told) == [*facts, ("conditions", ["1,234.50 > 50", "no value < 2"]), event]
    assert details(feed, alert(2)) == [("value", ["60 > 50"])]
    rule = "1: SUM(paymentAmount) per payeeId over 20 min > 50 and COUNT(events) over 1 h < 2"
    book = RuleBook(PAYMENTS)
    book.apply(rule)
    feed.rules = book.rules
    named = ["SUM(paymentAmount) over 20 min: 1,234.50 > 50", "COUNT(events) over 1 h: no value < 2"]
    feed.clear_selection()
    assert details(feed, told)[3] == ("conditions", named)
    book.apply(rule.replace("SUM", "MAX"))  # what the alert's version measured is not known any more
    feed.clear_selection()
    assert details(feed, told)[3] == ("conditions", ["1,234.50 > 50", "no value < 2"])


def test_an_alert_of_absence_says_that_nothing_came():
    reference = Reference(PAYMENTS)
    reference.control("1: NO(events) per payeeId within 15 min after")
    silent = replace(alert(1), aggregate=Decimal(0), operator="EQUAL", limit=Decimal(0))
    feed = AlertFeed([silent], rules=reference.book.rules)
    assert feed.table.rows[0][3] == "nothing came within 15 min"
    assert details(feed, silent) == [("value", ["nothing came within 15 min"])]
    assert feed.window.events.rows[0][2] == "nothing came within 15 min"
    assert "0 = 0" not in feed.window.said.value
    assert "The event was at 1970-01-01 00:00:00.000 UTC" in feed.window.said.value


def test_nothing_that_an_alert_carries_is_obeyed_or_fills_the_page():
    long = (HOSTILE * 1_000)[:30_000]
    told = replace(
        alert(1),
        key="{payeeId=" + long + "}",
        operator=long,
        carried=carried(severity=long, title=long, labels=tuple((f"{n}{long}", long) for n in range(1_000))),
        conditions=(MeasuredCondition(Decimal(1), long, Decimal(2)),) * 1_000,
        event=tuple((f"{n}{long}", long) for n in range(1_000)),
    )
    feed = AlertFeed([told])
    assert sum(map(len, feed.table.rows[0][1:])) < 800 and "\u202e" not in "".join(feed.table.rows[0][1:])
    found = details(feed, told)
    assert [len(texts) for _, texts in found] == [1, 1, 17, 17, 17]
    assert all(len(text) <= 200 and "\u202e" not in text for _, texts in found for text in texts)
    assert found[0][1][0].startswith('<img src=x onerror="alert(1)">\\u202e')


def test_csv_has_what_an_alert_carries():
    conditions = (MeasuredCondition(Decimal(6), "GREATER", Decimal(5)),)
    told = replace(alert(1), conditions=conditions, event=(("ip", None),), carried=CARRIED)
    row, plain = csv.DictReader(
        io.StringIO(AlertFeed([told, replace(alert(2), carried=carried(title="=1+1"))]).csv())
    )
    assert (row["severity"], row["title"]) == ("high", "Card testing") and plain["title"] == "'=1+1"
    assert json.loads(row["labels"]) == dict(LABELS) and row["event"] == '{"ip":null}'
    assert json.loads(row["conditions"]) == [{"aggregate": "6", "operator": "GREATER", "limit": "5"}]
    assert [plain[name] for name in ("severity", "labels", "conditions", "event")] == [""] * 4


def test_alerts_of_a_group_are_together_whatever_the_order_of_its_fields():
    groups = (("payeeId", 1), ("beneficiaryId", 2)), (("beneficiaryId", 2), ("payeeId", 1))
    told = [replace(alert(n, time=n), key=str(n), group=group) for n, group in enumerate(groups)]
    feed = AlertFeed(told)
    details(feed, told[0])
    assert len(feed.window.events.rows) == 2


def test_the_picture_of_an_alert_shows_the_first_condition_against_its_own_limit():
    """Also if another one held: its value and limit belong to another aggregate."""
    rule = "1: SUM(paymentAmount) per payeeId over 1 h > 1000 or COUNT(events) over 1 h >= 3"
    feed, (alert,) = shown_alerts(
        rule, [f"{n},2013-01-01 00:0{n}:00,25,12,CSH,100".encode() for n in (1, 2, 3)]
    )
    assert (alert.aggregate, alert.limit) == (3, 3)
    feed.table.selected = alert.alert_id
    chart, said = feed.window.chart, feed.window.said.value
    assert chart.data[1].y == (100.0, 200.0, 300.0) and chart.data[2].y == (1000.0,) * 3
    assert "The alert&#x27;s value was 3. This is the value of COUNT(events) over 1 h &gt;= 3." in said
    assert (
        "The picture shows the first condition&#x27;s aggregate, SUM(paymentAmount) over 1 h: 300.00." in said
    )
    assert "These events give" not in said


def test_the_first_condition_of_an_alert_may_have_no_value():
    rule = "1: SUM(paymentAmount where paymentType = CRD) per payeeId over 1 h > 1000 or COUNT(events) over 1 h >= 3"
    feed, (alert,) = shown_alerts(
        rule, [f"{n},2013-01-01 00:0{n}:00,25,12,CSH,100".encode() for n in (1, 2, 3)]
    )
    feed.table.selected = alert.alert_id
    assert feed.window.chart.data[1].y == (None,) * 3 and feed.window.chart.data[2].y == (1000.0,) * 3
    assert "over 1 h: no value." in feed.window.said.value
    assert "These events give" not in feed.window.said.value


def test_a_count_that_restarts_is_that_of_the_first_condition_also_if_another_one_held():
    rule = "1: COUNT_WITH_RESET(events) per payeeId over 1 h > 9 or SUM(paymentAmount) over 1 h > 250"
    feed, (alert,) = shown_alerts(
        rule, [f"{n},2013-01-01 00:0{n}:00,25,12,CSH,100".encode() for n in (1, 2, 3)]
    )
    assert alert.aggregate == 300
    feed.table.selected = alert.alert_id
    assert feed.window.chart.data[1].y == (1.0, 2.0, 3.0) and feed.window.chart.data[2].y == (9.0,) * 3
    assert "These events give" not in feed.window.said.value


def test_a_count_of_no_event_is_zero_and_no_difference():
    rule = "1: COUNT(events) per payeeId over 1 h without the current event = 0"
    feed, (alert,) = shown_alerts(rule, [b"1,2013-01-01 00:01:00,25,12,CSH,100"])
    feed.table.selected = alert.alert_id
    assert "The alert&#x27;s value was 0" in feed.window.said.value
    assert "These events give" not in feed.window.said.value


def test_a_count_that_restarts_without_the_current_event_adds_up():
    rule = "1: COUNT_WITH_RESET(events) per payeeId over 1 h without the current event >= 2"
    feed, alerts = shown_alerts(
        rule, [f"{n},2013-01-01 00:0{n}:00,25,12,CSH,100".encode() for n in range(1, 8)]
    )
    for alert in alerts:
        feed.table.selected = alert.alert_id
        assert [y for y in feed.window.chart.data[1].y if y is not None] == [1.0, 2.0]
        counted = [alert.event_id - 1, alert.event_id - 2]
        assert [row[1] for row in feed.window.events.rows] == list(map(str, counted))
        assert "These events give" not in feed.window.said.value
