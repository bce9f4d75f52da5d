"""Rules by example: a planted pattern is found and scored as the reference scores it; labels drawn at random give nothing."""

import re
from random import Random

import pytest

from lab.desk import suggest
from lab.desk import world as worlds
from lab.desk.suggest import _rule as rule_of
from lab.desk.world import World
from lab.past import plainpast


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.setattr(worlds, "Past", plainpast.Past)
    monkeypatch.setattr(worlds, "COMPILED", False)  # the alerts are the reference's, and nothing is compiled


def payments(seed: int, count: int = 180) -> list[dict]:
    """Cards pay now and then; every thirtieth payment begins five by one card within a minute, of which the last is fraud."""
    rng, at, found = Random(seed), 1714557600000, []
    for n in range(count):
        card = found[-1]["card"] if n % 30 % 6 and n % 30 < 5 and found else rng.choice("abcdefgh")
        at += 10_000 if n % 30 % 6 and n % 30 < 5 else rng.randint(400_000, 900_000)
        event = {
            "id": n,
            "at": at,
            "card": card,
            "shop": rng.choice("xyz"),
            "amount": f"{rng.randint(1, 90)}.5",
        }
        found.append(event | {"fraud": n % 30 == 4})
    return found


def test_a_planted_pattern_is_found_and_each_score_is_that_of_a_replay():
    events, seen = payments(1), list[tuple[int, int]]()
    found = World(events, []).suggest("fraud", most=30, progress=lambda *at: seen.append(at))
    best = found.rules[-1]
    assert best.rule.describe().startswith("COUNT(events) per card over 10 min > ")
    assert best.held_out.precision == best.held_out.recall == 1.0
    for each in found.rules:
        scores = World(events, each.rule.describe()).scores("fraud")
        assert (each.earlier, each.held_out) == (scores.earlier[1], scores.held_out[1])
    assert seen == [(n, 30) for n in range(1, found.tried + 1)] and found.unsure
    assert "fraud" not in "".join(each.rule.describe() for each in found.rules)
    assert best.rule.describe() in found.text() and "<table" in found._repr_html_()
    assert World(events, []).suggest("fraud", most=30) == found


def test_a_condition_is_added_where_it_tells_more():
    rng = Random(5)
    events = [
        {
            "id": n,
            "at": 1714557600000 + n * 1000,
            "amount": n * 37 % 100,
            "kind": rng.choice(["pay", "top up"]),
        }
        for n in range(80)
    ]
    labels = [e["id"] for e in events if e["amount"] > 40 and e["kind"] == "top up"]
    found = World(events, []).suggest(labels, most=60)
    assert found.rules[-1].rule.describe() == 'VALUE(amount) > 40, when kind = "top up"'
    assert found.rules[-1].held_out.f1 == 1.0


@pytest.mark.parametrize("seed", range(4))
def test_labels_drawn_at_random_give_nothing(seed):
    events, rng = payments(seed, 120), Random(seed)
    labels = [(event["id"], rng.random() < 0.3) for event in events]
    found = World([{k: v for k, v in e.items() if k != "fraud"} for e in events], []).suggest(labels, most=25)
    assert not found.rules and not found.unsure and found.tried == 25
    assert "None of them finds" in found.text()


def test_events_that_the_labels_do_not_name_are_asked_about():
    events = payments(2)
    named = [(e["id"], e["fraud"]) for e in events if e["fraud"] or e["id"] % 3 == 0]
    events = [{k: v for k, v in e.items() if k != "fraud"} for e in events]
    found = World(events, []).suggest(named, most=30)
    assert found.rules and found.unsure
    assert not {str(at) for at, _ in named} & set(found.unsure)


@pytest.mark.parametrize("name", ["events", "over", "per", "null", "a-b", "3"])
def test_a_field_may_be_named_like_a_word_of_sentences(name):
    events = [
        {"id": n, "at": 1714557600000 + n * 1000, name: n * 37 % 100, "kind": "ab"[n % 2]} for n in range(80)
    ]
    labels = [e["id"] for e in events if e[name] > 40]
    [found] = World(events, []).suggest(labels, most=60).rules
    assert found.rule.first.aggregation.field == name and found.held_out.f1 == 1.0


def test_a_field_named_like_a_count_forms_groups_but_is_not_measured():
    """As `SUM(COUNT)` counts events: the same sentences came again and again, in place of others."""
    seen = list[str]()
    events = [each | {"COUNT": each["id"] % 7} for each in payments(1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suggest, "_rule", lambda text, past: seen.append(text) or rule_of(text, past))
        World(events, []).suggest("fraud", most=60)
    assert "COUNT(events) per COUNT over 10 min > 0" in seen
    assert not [text for text in seen if re.match(r"(VALUE|SUM|MAX|AVG)\(COUNT\)", text)]


def test_no_time_tries_nothing():
    assert World(payments(1, 20), []).suggest("fraud", seconds=-1).tried == 0
