"""The scope that tunes one number of a rule on labelled cases."""

import pytest

from lab.desk import world as worlds
from lab.desk.world import World
from lab.model.messages import BadRule
from lab.past import plainpast
from lab.past.typologies import LabelledPast
from lab.widgets.ruletuningscope import RuleTuningScope, compare_rules

TAKEOVER = "COUNT(events where action = login_failed) per account over 10 min >= {}, when action = login"
SILENT = "NO(events where action = reading) per device within {} h after, when action = reading"


@pytest.fixture(scope="module")
def past() -> LabelledPast:
    return LabelledPast()


def test_the_slider_changes_the_sentence_the_figures_and_the_alerts(past):
    scope = RuleTuningScope(past, "account takeover", TAKEOVER, range(1, 13), value=5)
    assert "&gt;= 5, when" in scope.sentence.value
    assert list(scope.lanes.data[-1].y) == [f"case {n}" for n in range(1, 6)]
    scope.slider.move("12")
    assert "&gt;= 12, when" in scope.sentence.value
    assert not scope.lanes.data[-1].y and "<b>0.00</b>" in scope.facts.value
    assert scope.curves.layout.shapes[0].x0 == 11


def test_the_curves_are_what_the_rule_finds_with_each_value(past):
    scope = RuleTuningScope(past, "account takeover", TAKEOVER, (1, 5, 8))
    precision, recall, delay = (trace.y for trace in scope.curves.data)
    found = [past.detection_counts(TAKEOVER.format(n), "account takeover") for n in (1, 5, 8)]
    assert list(precision) == [each.precision for each in found] and precision[0] < 0.1 < precision[1] == 1
    assert list(recall) == [each.cases_found / 5 for each in found] == [1, 1, 0.6]
    assert [minutes * 60_000 for minutes in delay] == pytest.approx([each.median_delay_ms for each in found])


def test_an_alert_about_absence_is_drawn_when_it_comes_not_at_its_event(past):
    scope = RuleTuningScope(past, "sensor silent", SILENT, (4,))
    first = [x for x, lane in zip(scope.lanes.data[-1].x, scope.lanes.data[-1].y) if lane == "case 1"]
    assert first == [2 + 4, 7 + 4], "readings at 0, 1, 2 and 7 h"


def test_alerts_without_a_right_or_wrong_one_have_no_precision(past):
    scope = RuleTuningScope(past, "account takeover", TAKEOVER, (50,))
    assert "<b>–</b>" in scope.facts.value and scope.found[0].precision is None


def test_a_sentence_that_is_no_rule_is_refused_at_the_word(past):
    with pytest.raises(BadRule, match="did you mean account"):
        past.detection_counts("COUNT(events) per acount over 10 min >= 5", "velocity")


def test_rules_are_compared_on_the_events_of_one_case(past):
    lanes = compare_rules(
        past,
        "account takeover",
        2,
        {"every": TAKEOVER.partition(",")[0].format(5), "one": TAKEOVER.format(5)},
    )
    assert list(lanes.data[-1].y) == ["every"] * 4 + ["one"]
    assert lanes.data[-1].x[-1] == lanes.data[1].x[0] == 3, (
        "minutes: the login after seven wrong passwords, 25 s apart"
    )


def test_labels_of_ones_own_are_tuned_and_the_pareto_edge_is_drawn(monkeypatch):
    monkeypatch.setattr(worlds, "Past", plainpast.Past)
    rows = [
        {"ref": f"r{n}", "at": 1714557600000 + n * 60_000, "amount": n % 7, "bad": n % 7 > 4}
        for n in range(42)
    ]
    past = World(rows, []).labelled("bad")
    scope = RuleTuningScope(past, "labels", "VALUE(amount) > {}", [1, 4, 5])
    assert [(each.precision, each.recall, each.cases) for each in scope.found] == [
        (0.4, 1.0, 12),
        (1.0, 1.0, 12),
        (1.0, 0.5, 12),
    ]
    edge, every = scope.edge.data
    assert (list(edge.x), list(edge.y)) == ([1.0], [1.0]) and list(every.text) == ["1", "4", "5"]
    assert len(scope.lanes.data[-1].x) == 5, "the first cases"
    rules = {"all": "VALUE(amount) > 1", "most": "VALUE(amount) > 5"}
    assert list(compare_rules(past, "labels", None, rules).data[0].x) == [0.5, 1.0]
    assert list(compare_rules(past, "labels", 1, rules).data[-1].y) == ["all"]
