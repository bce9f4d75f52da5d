"""All limits and several windows at once: each is what the reference gives with that limit and window."""

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from random import Random

import pandas as pd
import pytest

from lab.desk import world as worlds
from lab.desk.tuning import pareto
from lab.desk.world import World
from lab.past import columnpast, plainpast

MINUTE = 60_000


def random_events(seed: int, count: int = 80) -> list[dict]:
    rng, at, found = Random(seed), 1714557600000, []
    for n in range(count):
        at += rng.choice([0, 1_000, 20_000, 300_000])
        event = {"id": n, "at": at, "card": rng.choice("abc"), "amount": rng.choice(["1.5", "2", "7.25"])}
        found.append(event | {"fraud": rng.random() < 0.2})
    return found


@pytest.fixture(params=[plainpast.Past, columnpast.Past], ids=["plain", "columns"])
def past(request, monkeypatch):
    monkeypatch.setattr(worlds, "Past", request.param)
    monkeypatch.setattr(worlds, "COMPILED", False)  # the alerts are the same, and nothing is compiled


RULES = [
    "SUM(amount) per card over {} > 5",
    "AVG(amount) per card over {} <= 3",
    "STDDEV(amount) over {} >= 2 and COUNT(events) per card over 1 h > 1".replace(" per card", ""),
    "COUNT(events where amount > 1.6) per card over {} < 3, when amount > 1.6",
]


@pytest.mark.parametrize("by", [None, "card"])
@pytest.mark.parametrize("rule", RULES)
def test_each_limit_finds_what_the_rule_with_that_limit_finds(past, rule, by):
    events = random_events(3)
    tuning = World(events, []).tune(rule.format("1 min"), "fraud", [MINUTE, 10 * MINUTE], "amount", by)
    assert len(tuning.points) > 3 and tuning.shown
    for n, window in enumerate(("1 min", "10 min")):
        own = [each for each in tuning.shown if each.window == window]
        for tuned in own + [tuning.at("2.5", [MINUTE, "10 min"][n])]:
            scores = World(events, tuned.rule.describe()).scores("fraud", "amount", by)
            assert (tuned.earlier, tuned.held_out) == (scores.earlier[1], scores.held_out[1]), tuned.rule


def test_limits_are_as_round_as_the_values_allow_and_none_finds_more(past):
    amounts = [(12.31, 0), (97.8, 1), (85, 0), (104, 1), (20, 0), (99, 1)]
    events = [
        {"id": n, "at": 1714557600000 + n, "amount": a, "fraud": f} for n, (a, f) in enumerate(amounts * 2)
    ]
    tuning = World(events, []).tune("VALUE(amount) > 1", "fraud")
    assert [str(each.rule.first.limit) for each in tuning.shown] == ["90"]
    assert tuning.best and (tuning.best.earlier.precision, tuning.best.held_out.recall) == (1.0, 1.0)
    assert tuning.examples() == ([], [])
    assert "VALUE(amount) > 90" in tuning.text() and "<svg" in tuning._repr_html_()


def test_a_limit_is_asked_in_a_window_that_was_tried(past):
    tuning = World(random_events(3), []).tune(RULES[0].format("1 min"), "fraud", [MINUTE, 10 * MINUTE])
    assert tuning.at(5) == tuning.at("5", "1m") == tuning.at(5, MINUTE) != tuning.at(5, "10 min")
    with pytest.raises(ValueError, match="window: '1h' was not tried, expected one of 1 min, 10 min"):
        tuning.at(5, "1h")


def test_a_limit_at_which_every_event_alerts_is_not_shown(past):
    tuning = World(random_events(3), []).tune("COUNT(events) per card over 1 min >= 2", "fraud")
    assert all(each.rule.first.limit > 1 for each in tuning.shown)


def test_the_pareto_edge_is_what_nothing_beats():
    rng = Random(1)
    scores = [(rng.randint(0, 9) / 9, rng.randint(0, 9) / 9) for _ in range(50)]
    edge = [scores[n] for n in pareto(scores)]
    beaten = {one for one in scores if any(a >= one[0] and b >= one[1] and (a, b) != one for a, b in scores)}
    assert set(edge) == {one for one in scores if one not in beaten and one[1]}


@pytest.mark.parametrize(
    "rule, said",
    [
        ("COUNT(events) per card over 1 h > 1, at most 1 per 1 h", "do not follow"),
        ("COUNT(events) per card over 1 h = 1", "expected >, >=, < or <="),
        ("VALUE(amount) > 1", "VALUE has no window"),
    ],
)
def test_a_rule_whose_other_limits_are_not_known_is_refused(past, rule, said):
    with pytest.raises(ValueError, match=said):
        World(random_events(1), []).tune(rule, "fraud", [MINUTE])


def test_labels_come_from_csv_json_parquet_and_verdicts(past, tmp_path):
    import pandas

    events = random_events(2, 12)
    yes, no = [1, 4, 9], [2, 3, 10, 11]
    labels = [{"id": n, "label": n in yes} for n in yes + no]
    frame = pandas.DataFrame(labels)
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, labels)))
    verdicts = [
        {"alertId": f"1.1.{n}.17.ab", "verdict": "right" if n in yes else "wrong", "by": "ann"}
        for n in yes + no
    ]
    (tmp_path / "verdicts.jsonl").write_text("\n".join(map(json.dumps, verdicts)))
    world = World(events, "1: VALUE(amount) > 1.6")
    expected = world.scores([(n, n in yes) for n in yes + no])
    for name in ("a.csv", "a.parquet", "a.jsonl", "verdicts.jsonl"):
        found = world.scores(tmp_path / name)
        assert replace(found, said=expected.said) == expected, name
        assert ("right 3; no: wrong 4" if "verdicts" in name else "true 3; no: false 4") in found.said[0]
    unknown = [n for n in range(12) if n not in yes + no and Decimal(events[n]["amount"]) > Decimal("1.6")]
    wrong = sum(each["all"].wrong for each in (expected.earlier, expected.held_out))
    assert unknown and wrong == sum(Decimal(events[n]["amount"]) > Decimal("1.6") for n in no)
    (tmp_path / "bad.csv").write_text("who,label\n1,1\n")
    with pytest.raises(ValueError, match="has the columns who, label, expected one of ids"):
        world.scores(tmp_path / "bad.csv")
    (tmp_path / "bad.csv").write_text("id,a,b\n1,1,1\n")
    with pytest.raises(ValueError, match="which of a, b is the label"):
        world.scores(tmp_path / "bad.csv")


def test_windows_are_durations_in_any_form():
    world = World(random_events(2), [])
    rule, in_ms = RULES[0].format("1 min"), [MINUTE, 10 * MINUTE]
    expected = world.tune(rule, "fraud", in_ms)
    for windows in (["1 min", "10m"], (timedelta(minutes=1), "10 min"), pd.to_timedelta(["1min", "10min"])):
        assert world.tune(rule, "fraud", windows).text() == expected.text()
    assert expected.at(5, timedelta(minutes=10)) == expected.at(5, "10m") == expected.at(5, 10 * MINUTE)
    assert world.tune(rule, "fraud", "10m").rules == expected.rules[1:]
    for wrong in (["soon"], [1.5], [None]):
        with pytest.raises(ValueError, match="expected a whole number"):
            world.tune(rule, "fraud", wrong)
