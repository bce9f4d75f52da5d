"""The sliders of the rule desk, moved for each kind of rule: every limit on them is a rule, and its alerts are the reference's."""

import json
import random
from decimal import Decimal
from functools import cache

import pytest

from lab.model.reference import Reference
from lab.model.rules import parse_message
from lab.model.schema import LOGINS
from lab.past import columnpast, plainpast
from lab.widgets.ruledesk import RuleDesk

COUNTS = (
    "COUNT(events where action = pay) per userId over 5 min > 4",
    "COUNT(events) per userId over 5 min without the current event >= 4",
    "COUNT(events) per userId over 5 min >= 9, at most 1 per 10 min",
    "COUNT(events) per userId over 5 min > 5 and UNIQUE_COUNT(country) over 10 min >= 2",
    "COUNT(events) per userId over 5 min > 8 or UNIQUE_COUNT(country) over 5 min >= 3",
    "COUNT_WITH_RESET(events) per userId over 5 min >= 5",
    "COUNT_WITH_RESET(events where action = pay) per userId over 5 min >= 3 and COUNT(events) over 5 min > 3",
    "UNIQUE_COUNT(country) per userId over 5 min >= 2",
    "SUM(eventId) per userId over 1 min > 100",
)
AMOUNTS = (
    "SUM(amount) per userId over 10 min > 100",
    "SUM(amount where action = pay) per userId over 10 min > 60, when country != KR",
    "AVG(amount) per userId over 10 min without the current event < 10",
    "STDDEV(amount) per userId over 10 min >= 5 and COUNT(events) over 10 min > 2",
    "MAX(amount) per country over 1 min = 20",
    "SUM(amount) over 10 s > 50 or MIN(amount) over 10 s = 2.5",
    "SUM(amount) per userId over 10 min >= 60, at most 2 per 5 min",
)
MULTIPLES = (
    "SUM(amount) per userId over 10 min > 1.5 × AVG(amount) over 1 h without the current event",
    "SUM(amount) per userId over 1 min >= 3 × SUM(amount) over 1 h ÷ 60",
    "COUNT(events) per userId over 1 min > 2 × COUNT(events) over 10 min ÷ 10 + 1 and COUNT(events) over 1 h > 9",
    "MAX(amount) per userId over 1 s > 2 × MIN(amount) over 10 min + 5, at most 1 per 1 min",
)
ABSENT = "NO(events where action = pay) per userId within 1 min after, when action = login"


def logins(seed: int, count: int = 300) -> list[bytes]:
    """Events of three users, some late, some twice, some without an amount."""
    rng, now, lines = random.Random(seed), 1_700_000_000_000, list[bytes]()
    for number in range(1, count + 1):
        now += rng.choice([0, 1_000, 10_000, 40_000])
        event = {
            "eventId": number,
            "eventTime": now - rng.choice([0, 0, 0, 5_000, 400_000]),
            "userId": rng.choice([1, 1, 2, 3]),
            "action": rng.choice(["login", "pay"]),
            "country": rng.choice(["KR", "CN", "US"]),
            "amount": rng.choice([None, 2.5, 7, 12.25, 20]),
        }
        lines += [json.dumps(event).encode()] * rng.choice([1, 1, 1, 2])
    return lines


LINES = logins(5)


@pytest.fixture(scope="module", params=[columnpast.Past, plainpast.Past], ids=["columns", "plain"])
def past(request):
    past = request.param(LOGINS)
    past.add(LINES)
    return past


def desk_of(past, sentence: str) -> RuleDesk:
    desk = RuleDesk(LOGINS, past=past)
    desk.text.value = f"7: {sentence}"
    assert desk.publish.disabled is False, desk.said.value
    return desk


@pytest.fixture(scope="module")
def opened(past):
    """Opens the desk with a sentence, once for all tests that only look at it."""
    return cache(lambda sentence: desk_of(past, sentence))


@cache
def alerts_of_reference(message: str) -> int:
    reference = Reference(LOGINS)
    assert reference.control(message)["status"] == "accepted"
    for line in LINES:
        reference.event(line)
    return len(reference.alerts)


def is_said(desk: RuleDesk, alerts: int) -> bool:
    return f"would have raised {alerts:,} alert{'s' * (alerts != 1)} " in desk.backtest.said.value


@pytest.mark.parametrize("sentence", [*COUNTS, *AMOUNTS, *MULTIPLES])
def test_each_limit_of_the_slider_shows_the_alerts_of_the_rule_that_it_makes(past, sentence):
    desk, seen = desk_of(past, sentence), set()
    slider = desk.backtest.limit
    assert is_said(desk, alerts_of_reference(desk.text.value))
    for share in (0, 0.1, 0.4, 1):
        assert not slider.disabled
        slider.move(slider.texts[round(share * (len(slider.texts) - 1))])
        assert "Not a rule yet" not in desk.said.value and not desk.publish.disabled
        rule = parse_message(desk.text.value, LOGINS).rule
        assert rule.first.limit == Decimal(slider.text.replace(",", ""))
        expected = alerts_of_reference(desk.text.value)
        assert is_said(desk, expected), (desk.text.value, expected, desk.backtest.said.value)
        assert desk.backtest.figure.data[1].y == (expected,)
        seen.add(expected)
    assert len(seen) > 1


@pytest.mark.parametrize("sentence", COUNTS)
def test_a_count_has_whole_steps(opened, sentence):
    texts = opened(sentence).backtest.limit.texts
    assert all(text.replace(",", "").isdigit() for text in texts) and len(texts) > 2


@pytest.mark.parametrize("sentence", [*COUNTS[:5], *AMOUNTS[:4]])
def test_a_lower_limit_than_that_of_the_rule_can_be_tried(opened, sentence):
    desk = opened(sentence)
    assert desk.backtest.limit.position > 0


@pytest.mark.parametrize("sentence", [*COUNTS[:2], COUNTS[3], *COUNTS[7:], *AMOUNTS[:5]])
def test_the_curve_has_the_alerts_at_other_limits(opened, sentence):
    desk = opened(sentence)
    limits, counts = (desk.backtest.figure.data[0][name] for name in ("x", "y"))
    assert len(limits) > 2
    rule = parse_message(desk.text.value, LOGINS).rule
    for limit, count in list(zip(limits, counts))[:: max(len(limits) // 4, 1)]:
        if Decimal(str(limit)).as_tuple().exponent >= -6:
            message = rule.to_dict() | {"limit": str(limit)}
            message.pop("version", None)
            assert count == alerts_of_reference(json.dumps(message)), limit


@pytest.mark.parametrize("sentence", [COUNTS[2], *COUNTS[4:7], *AMOUNTS[-2:], *MULTIPLES])
def test_the_curve_of_a_rule_that_is_evaluated_for_each_limit_has_several_points_which_are_right(
    opened, sentence
):
    desk = opened(sentence)
    limits, counts = (desk.backtest.figure.data[0][name] for name in ("x", "y"))
    assert len(limits) >= 3 and len(set(counts)) > 1 and list(limits) == sorted(limits)
    rule = parse_message(desk.text.value, LOGINS).rule
    assert float(rule.first.limit) in limits
    for limit, count in zip(limits, counts):
        message = {name: value for name, value in rule.to_dict().items() if name != "version"}
        assert count == alerts_of_reference(json.dumps(message | {"limit": str(limit)})), limit


def test_a_logarithmic_axis_has_labels_at_powers_of_ten_only(past):
    backtest = desk_of(past, COUNTS[0]).backtest
    assert backtest.figure.layout.yaxis.dtick is None
    many = columnpast.Past(LOGINS)
    many.add(b'{"eventId": %d, "eventTime": %d, "userId": 1}' % (n, n) for n in range(2_000))
    axis = desk_of(many, "COUNT(events) per userId over 5 min > 4").backtest.figure.layout.yaxis
    assert axis.type == "log" and axis.dtick == 1


def test_an_axis_that_is_linear_again_says_so_for_plotly_keeps_the_steps_of_the_logarithmic_one(past):
    """With a tick at each alert, hundreds of them, the room stood still for half a minute at each update."""
    many = columnpast.Past(LOGINS)
    many.add(b'{"eventId": %d, "eventTime": %d, "userId": 1}' % (n, n) for n in range(2_000))
    desk = desk_of(many, "COUNT(events) per userId over 5 min > 4")
    assert desk.backtest.figure.layout.yaxis.tickmode == "linear"
    desk.text.value = "COUNT(events) per userId over 5 min = 4"
    assert desk.backtest.figure.layout.yaxis.tickmode == "auto"


@pytest.mark.parametrize("sentence", MULTIPLES)
def test_a_multiple_has_a_range_of_multiples_and_never_zero(opened, sentence):
    desk = opened(sentence)
    multiples = [Decimal(text.replace(",", "")) for text in desk.backtest.limit.texts]
    assert multiples[0] > 0 and multiples[-1] < 1_000 and Decimal(2) in multiples
    assert multiples == sorted(set(multiples)) and len(multiples) < 1_000
    assert "× " in desk.backtest.said.value


def test_absence_has_no_limit_to_tune_and_says_so(past):
    desk = desk_of(past, ABSENT)
    backtest = desk.backtest
    assert backtest.limit.disabled and backtest.limit.layout.display == "none"
    assert "Such a rule has no limit" in backtest.said.value
    assert is_said(desk, alerts_of_reference(desk.text.value))
    backtest.window.move("5 min")
    assert parse_message(desk.text.value, LOGINS).rule.aggregation.window_ms == 300_000
    assert is_said(desk, alerts_of_reference(desk.text.value))
    desk.text.value = f"7: {COUNTS[0]}"
    assert not backtest.limit.disabled and not backtest.limit.layout.display


def test_a_rule_whose_aggregate_has_one_value_has_round_limits():
    past = columnpast.Past(LOGINS)
    past.add(b'{"eventId": %d, "eventTime": %d, "userId": %d, "amount": 8}' % (n, n, n) for n in range(5))
    texts = desk_of(past, "SUM(amount) per userId over 1 s >= 8").backtest.limit.texts
    assert texts[0] == "0.00" and texts[-1] == "8.00" and "4.00" in texts


def test_no_limit_is_too_large_for_a_rule():
    past = columnpast.Past(LOGINS)
    past.add(
        b'{"eventId": %d, "eventTime": %d, "userId": 1, "amount": %d9999999999999}' % (n, n, n % 3)
        for n in range(9)
    )
    desk = desk_of(past, "VARIANCE(amount) per userId over 1 min > 5")
    slider = desk.backtest.limit
    slider.move(slider.texts[-1])
    assert not desk.publish.disabled and parse_message(desk.text.value, LOGINS).rule.first.limit > 10**23


@pytest.mark.parametrize("sentence", [AMOUNTS[0], MULTIPLES[0]])
def test_the_limits_on_the_slider_stay_while_events_come_that_reach_no_others(sentence):
    past = columnpast.Past(LOGINS)
    past.add(LINES[:200])
    backtest = desk_of(past, sentence).backtest
    texts, arrived = backtest.limit.texts, past.arrived
    past.add([LINES[3].replace(b'"eventId": ', b'"eventId": 9')])
    backtest.recompute_if_due()
    assert past.arrived > arrived and backtest.limit.texts is texts
    grows = b'{"eventId": %d, "eventTime": 1800000000000, "userId": 1, "amount": %d}'
    past.add(grows % (n, 10**n) for n in range(9))
    backtest.show(backtest._rule)
    assert backtest.limit.texts is not texts
