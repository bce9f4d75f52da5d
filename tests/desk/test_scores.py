"""What rules are worth: overlap, and scores on one's own labels."""

from decimal import Decimal

import pytest

from lab.desk import world as worlds
from lab.desk.labels import LabelWarning
from lab.desk.world import World

HOUR = 3_600_000
EVENTS = [
    {"id": n, "at": 1714557600000 + n * HOUR, "card": "a" if n % 2 else "b", "amount": amount, "fraud": fraud}
    for n, (amount, fraud) in enumerate(
        [(10, 0), (90, 1), (95, 0), (20, 0), (99, 1), (5, 1), (80, 0), (7, 0)]
    )
]
RULES = ["1: VALUE(amount) > 85", "2: VALUE(amount) > 92", "3: COUNT(events) per card over 9 h >= 4"]


@pytest.fixture(scope="module")
def world():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worlds, "COMPILED", False)  # the alerts are the same, and nothing is compiled
        return World(EVENTS, RULES)


def test_what_each_rule_adds(world):
    found = world.overlap()
    assert [(each.rule_id, each.alerts, each.groups, each.events, each.alone) for each in found.rules] == [
        (1, 3, 1, 3, 1),
        (2, 2, 1, 2, 0),
        (3, 2, 2, 2, 2),
    ]
    assert found.pairs == {(1, 2): 2}
    assert "alone" in found.text() and "<table" in found._repr_html_()


def test_scores_by_a_column_on_both_halves(world):
    found = world.scores("fraud", amount="amount")
    first, later = found.earlier[1], found.held_out[1]
    assert (first.precision, first.recall, first.amount_found, first.amount) == (
        0.5,
        1.0,
        Decimal(90),
        Decimal(90),
    )
    assert (later.precision, later.recall, later.amount_found, later.amount) == (
        1.0,
        0.5,
        Decimal(99),
        Decimal(104),
    )
    assert (found.held_out["all"].right, found.held_out["all"].wrong) == (1, 2)
    assert found.missed == ("5",) and set(found.wrong) == {"2", "6", "7"}
    assert found.alone == ({1: 1}, {})
    assert "held-out half" in found.text() and "found alone" in found.text()


def test_labels_may_be_a_file_ids_or_cases(world, tmp_path):
    file = tmp_path / "ids.txt"
    file.write_text("1\n4\n\n5\n")
    assert (
        world.scores(file).earlier == world.scores([1, 4, 5]).earlier == world.scores(["1", "4", "5"]).earlier
    )
    of_cases = world.scores({4: "one", 5: "one", 6: "two"}).held_out[1]
    assert (of_cases.cases_found, of_cases.cases, of_cases.delay_ms) == (1, 2, 0)
    by_card = world.scores([1, 4, 5], case="card").held_out[3]
    assert (by_card.cases_found, by_card.cases, by_card.labelled) == (0, 2, 2)


def test_labels_of_no_event_are_left_out_or_refused(world):
    with pytest.warns(LabelWarning, match="1 of 2 are of no event, such as '77'"):
        assert world.scores([1, 77]).earlier == world.scores([1]).earlier
    with pytest.raises(ValueError, match="there is no field nothing"):
        world.scores("nothing")


def test_what_a_terminal_shows_of_ids_moves_no_cursor():
    events = [{"id": f"\x1b[2J{n}", "at": 1714557600000 + n, "amount": n} for n in range(4)]
    shown = World(events, "VALUE(amount) > 2").scores([each["id"] for each in events]).text()
    assert "\\u001b[2J1" in shown and "\x1b" not in shown
