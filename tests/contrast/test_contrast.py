"""The textbook processor gives the alerts of the reference, on logs in order."""

import json
from collections import defaultdict
from decimal import Decimal

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from lab.contrast import mapstate
from lab.model.reference import Reference, evaluate_log
from lab.model.rules import BadRule, Rule, parse_message, rule_message
from lab.model.schema import PAYMENTS
from lab.model.times import DAY_MS, HOUR_MS
from lab.stream.simulate import write_payments

FUNCTIONS = {"SUM": 60, "AVG": 13, "MIN": 9, "MAX": 18.5, "COUNT": 5}
OFTEN = {"MIN": "LESS_EQUAL"}


@pytest.fixture(scope="module")
def payments(tmp_path_factory):
    """400 payments of 4 payees over 2 h, in order."""
    folder = tmp_path_factory.mktemp("payments")
    write_payments(folder / "payments.json", 400, seed=3, payees=4, beneficiaries=3, span_ms=2 * HOUR_MS)
    return folder


class PublishedTimer(mapstate.MapStateWindow):
    """With the timer of the published demo: the event's own time, rounded down to a second."""

    def cleanup_ms(self, event_ms: int) -> int:
        return event_ms // 1000 * 1000


def message(function: str, keys: list[str]) -> str:
    operator, limit, cash = OFTEN.get(function, "GREATER"), FUNCTIONS[function], {"paymentType": "CSH"}
    return json.dumps(rule_message(1, keys, "paymentAmount", function, operator, limit, "5m", filter=cash))


def expected(folder, control: str) -> tuple[Rule, Reference]:
    lines = (folder / "payments.json").read_bytes().splitlines()
    reference = evaluate_log(PAYMENTS, [("control", control.encode()), *(("event", line) for line in lines)])
    assert 10 < len(reference.alerts) < 300
    return reference.book.rules[1], reference


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_textbook_processor_gives_the_alerts_of_the_reference(payments, function):
    rule, reference = expected(payments, message(function, ["payeeId"]))
    events = [PAYMENTS.parse(line) for line in (payments / "payments.json").read_bytes().splitlines()]
    events = [event for event in events if event["paymentType"] == "CSH"]
    window = mapstate.MapStateWindow(rule, PAYMENTS.field("paymentAmount").type)
    tester = TwsTester(window, timeMode="EventTime", eventTimeExtractor=lambda row: row.time)
    found = []
    for first in range(0, len(events), 30):
        batch = defaultdict(list)
        for event in events[first : first + 30]:
            row = Row(id=event["transactionId"], time=event["eventTime"], value=event["paymentAmount"])
            batch[event["payeeId"]].append(row)
        for payee, rows in batch.items():
            found += [row.alert for row in tester.test(payee, rows)]
        tester.setWatermark(events[min(first + 30, len(events)) - 1]["eventTime"])
    assert sorted(found) == sorted(alert.to_json() for alert in reference.alerts)
    tester.setWatermark(events[-1]["eventTime"] + rule.aggregation.window_ms + 1000)
    assert [tester.peekMapState("window", payee) for payee in range(4)] == [{}] * 4


@pytest.mark.parametrize(
    "window, left", [(PublishedTimer, [0, 29_000, 59_000]), (mapstate.MapStateWindow, [])]
)
def test_the_last_events_of_a_silent_key_leave_only_if_the_timer_has_the_window_added(window, left):
    rule = parse_message("1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(1)", PAYMENTS).rule
    tester = TwsTester(
        window(rule, PAYMENTS.field("paymentAmount").type),
        timeMode="EventTime",
        eventTimeExtractor=lambda row: row.time,
    )
    times = [-90_000, 0, 29_000, 59_000]
    for number, time in enumerate(times):
        tester.test(7, [Row(id=number, time=100_000 + time, value=Decimal(1))])
        tester.setWatermark(100_000 + time)
    tester.setWatermark(100_000 + DAY_MS)  # other keys have events a day later
    assert [time - 100_000 for (time,) in tester.peekMapState("window", 7)] == left


@pytest.mark.slow
def test_the_textbook_processor_gives_the_alerts_of_the_reference_on_spark(spark, payments):
    control = message("SUM", ["beneficiaryId", "payeeId"]).replace("60", "20")
    _, reference = expected(payments, control)
    before = spark.conf.get(mapstate.PARTITIONS)
    run = mapstate.textbook(spark, payments / "payments.json", control)
    assert sorted(run.alert_lines) == sorted(alert.to_json() for alert in reference.alerts)
    assert run.events_per_second > 0
    assert 0 < run.state_rows < 400  # the timers have cleaned up
    assert spark.conf.get(mapstate.PARTITIONS) == before


def test_the_textbook_refuses_a_rule_with_when_instead_of_leaving_it_out():
    given = json.loads(message("SUM", ["payeeId"])) | {"when": "paymentAmount > 5"}
    with pytest.raises(BadRule, match="when: the textbook evaluates rules without it"):
        mapstate.alerts(None, parse_message(json.dumps(given), PAYMENTS).rule, PAYMENTS)
