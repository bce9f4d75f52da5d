"""The smallest changes of a verdict flip it, and smaller ones do not, as replays with the changed rule or event say."""

import json
import re
from dataclasses import replace
from decimal import Decimal
from random import Random

import pandas
import pytest

from lab.desk.world import World
from lab.model.schema import PAYMENTS
from lab.model.times import parse_duration_ms

RULES = [
    "1: SUM(paymentAmount) per payeeId over 10 min > 50",
    "1: SUM(paymentAmount) per payeeId over 10 min >= 40 and COUNT(events) over 5 min >= 3",
    "1: AVG(paymentAmount) per payeeId over 10 min < 12",
    "1: MAX(paymentAmount) per payeeId over 10 min = 20 or MIN(paymentAmount) over 3 min < 2",
    "1: SUM(paymentAmount) per payeeId over 2 min > 2 × AVG(paymentAmount) over 10 min + 1",
    "1: MAX(paymentAmount) per payeeId over 5 min > AVG(paymentAmount) over 10 min + 2 × STDDEV(paymentAmount) over 10 min",
    "1: SUM(paymentAmount) per payeeId over 10 min without the current event > 30",
]


def lines(rng: Random) -> list[bytes]:
    at, found = 1_356_998_400_000, []
    for n in range(12):
        at += rng.choice([1_000, 60_000, 150_000])
        event = {
            "transactionId": n,
            "eventTime": at,
            "payeeId": 1,
            "paymentAmount": str(rng.randint(100, 2_500) / 100),
        }
        found.append(json.dumps(event).encode())
    return found


def alerts_at_last(events: list[bytes], rule) -> bool:
    return World(events, rule, PAYMENTS).why_not(11, 1).alerted


@pytest.mark.parametrize("text", RULES)
def test_each_smallest_change_flips_the_verdict_and_a_smaller_one_does_not(text):
    kinds = set()
    for seed in range(6):
        events = lines(Random(seed))
        verdict = World(events, text, PAYMENTS).why_not(11, 1)
        assert verdict.rule and verdict.changes
        for change in verdict.changes:
            kinds.add(change.what)
            condition = verdict.rule.conditions[change.condition]
            if change.what == "paymentAmount":
                then, now = Decimal(change.then), Decimal(change.now)
                step = Decimal("0.01").copy_sign(then - now)
                for amount, flips in ((then, True), (then - step, False)):
                    last = json.loads(events[-1]) | {"paymentAmount": str(amount)}
                    changed = [*events[:-1], json.dumps(last).encode()]
                    assert (alerts_at_last(changed, text) != verdict.alerted) == flips, (seed, change)
                continue
            if change.what == "window":
                ms = parse_duration_ms(change.then)
                near, step = (
                    (ms - 1_000, 1_000)
                    if change.below
                    else (ms, 1_000 if ms < condition.aggregation.window_ms else -1_000)
                )
                changed, less = (
                    replace(condition, aggregation=replace(condition.aggregation, window_ms=window))
                    for window in (near, near + step)
                )
            else:
                changed, less = replace(condition, limit=Decimal(change.then)), None
            for other, flips in ((changed, True), (less, False)):
                if other:
                    conditions = [*verdict.rule.conditions]
                    conditions[change.condition] = other
                    rule = replace(verdict.rule, conditions=tuple(conditions))
                    assert (alerts_at_last(events, rule) != verdict.alerted) == flips, (seed, change)
    assert {"limit"} <= kinds


def test_of_a_long_window_the_screen_shows_the_newest_events():
    events = [{"id": n, "at": 1714557600000 + n, "amount": 1} for n in range(40)]
    verdict = World(events, "1: SUM(amount) over 1 h > 30").why_not(39, 1)
    assert len(re.findall("2024-05-01", verdict.text())) == 12 and "… and 28 earlier events" in verdict.text()
    assert len(re.findall("2024-05-01", verdict.text(None))) == 40
    assert len(verdict.to_dict()["window"]) == 40


def test_a_shorter_window_is_named_by_the_round_one_that_it_must_be_below():
    begin, payment = 1_356_998_400_000, {"payeeId": 1, "paymentAmount": "30"}
    events = [payment | {"transactionId": n, "eventTime": begin + n * 600_000} for n in range(2)]
    verdict = World(events, "1: SUM(paymentAmount) per payeeId over 1 h > 50", PAYMENTS).why_not(1, 1)
    (change,) = [each for each in verdict.changes if each.what == "window"]
    assert change.text() == "condition 1: a window below 10 min instead of 1 h"


def test_a_row_of_a_frame_is_an_event_and_a_world_warns_as_alerts_do():
    times = pandas.date_range("2024-05-01", periods=4, freq="1min", tz="UTC")
    frame = pandas.DataFrame({"id": range(4), "at": times, "card": "a", "amount": list("1234")})
    with pytest.warns(UserWarning) as warned:
        world = World(frame, 'SUM(amount where card != "A") per card over 1 h > 8')
    said = " ".join(str(warning.message) for warning in warned)
    assert "doubts about amount, which rules name: text in 4 records" in said
    assert 'no event has card "A"; the values are a' in said
    assert world.why_not(frame.iloc[3], 1) == world.why_not(3, 1)
    assert world.would(frame.iloc[3])[0].outcome == "duplicate"
