"""Rules as answers: judged by the events at which they alert."""

import pytest

from lab.teach import exercise_of
from lab.teach.judge import RIGHT, WRONG
from lab.teach.rulejudge import RuleExercise
from tests.teach.test_exercises import NAMES, SOLUTIONS, answer_of

RULES = [name for name in NAMES if isinstance(exercise_of(name), RuleExercise)]
CARDS = answer_of("10.1")


def test_three_exercises_of_lesson_10_ask_for_a_rule():
    assert RULES == ["10.1", "10.3", "10.4"]


@pytest.mark.parametrize("name", RULES)
def test_the_logs_are_the_same_each_time_and_the_right_rule_alerts_in_many_and_is_silent_in_many(name):
    exercise = exercise_of(name)
    alerts = exercise.read(answer_of(name))
    assert alerts == type(exercise.read)(
        exercise.read.name, exercise.read.schema, exercise.read.draw_log, exercise.read.final_event
    )(answer_of(name))
    assert 20 <= sum(bool(each) for each in alerts) <= 55 and len(alerts) == 60


def test_the_shortest_log_is_shown_with_an_arrow_at_what_is_wrong():
    text = exercise_of("10.1").judge(CARDS.replace("30 min", "29 min")).text
    head, *lines = text.splitlines()
    assert head == "not yet: in these events card_testing is wrong where the arrow is"
    assert len(lines) == 5 and lines[-1].endswith("← should alert, but does not")
    assert lines[-1].startswith("day 1, 00:30:00   account 1, pay, payee 903, amount 200.01")


def test_an_event_at_which_a_rule_alerts_rightly_is_marked_beside_what_is_wrong():
    text = exercise_of("10.4").judge("NO(events where action = login) per account within 15 min after").text
    assert "alerts, and should" in exercise_of("10.4").read.describe_shortest_difference(
        exercise_of("10.4").read("NO(events where action = login) per account within 15 min after"),
        exercise_of("10.4").read(answer_of("10.4")),
    )
    assert text.startswith("Without when")


def test_a_sentence_needs_no_id_and_may_have_one_and_json_is_right_too():
    exercise = exercise_of("10.4")
    sentence = answer_of("10.4")
    assert exercise.judge(sentence).state == exercise.judge(f"7: {sentence}").state == RIGHT
    json_rule = {"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["account"], "absence": True}
    json_rule |= {"where": "action = login", "window": "15m", "when": "action = reset"}
    assert exercise.judge(json_rule).state == RIGHT


@pytest.mark.parametrize(
    "answer", ["1: NO(", "7", '{"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"}']
)
def test_what_is_no_rule_is_refused_in_words(answer):
    verdict = exercise_of("10.4").judge(answer)
    assert verdict.state == WRONG and verdict.text.startswith("no_login")


def test_a_paused_rule_is_told_so():
    assert exercise_of("10.1").judge(f"1 PAUSE: {CARDS}").text == "card_testing is paused, so it never alerts"


def test_no_stub_or_hint_has_the_solution():
    for name in RULES:
        shown = " ".join(exercise_of(name).hints)
        assert answer_of(name) not in shown and SOLUTIONS[name] not in shown
