"""Rules as answers: judged by the events at which they alert."""

import json
from random import Random

import pytest

from lab.model.messages import parse_message
from lab.model.schema import LOGINS, PAYMENTS
from lab.stream.accounts import ACCOUNT_EVENTS
from lab.teach import exercise_of
from lab.teach.exercises.given import rule_from_message
from lab.teach.judge import RIGHT, WRONG
from lab.teach.rulejudge import RuleExercise
from tests.teach.mutation import mutants
from tests.teach.test_exercises import NAMES, SOLUTIONS, answer_of, judged, made_by

RULES = [name for name in NAMES if isinstance(exercise_of(name), RuleExercise)]
CARDS = answer_of("10.1")


def test_four_exercises_of_lesson_10_ask_for_a_rule():
    assert RULES == ["10.1", "10.3", "10.4", "10.5"]


@pytest.mark.parametrize("name", RULES)
def test_the_logs_are_the_same_each_time_and_the_right_rule_alerts_in_many_and_is_silent_in_many(name):
    exercise = exercise_of(name)
    alerts = exercise.read(answer_of(name)).alerts
    assert (
        alerts
        == type(exercise.read)(
            exercise.read.name, exercise.read.schema, exercise.read.draw_log, exercise.read.final_event
        )(answer_of(name)).alerts
    )
    assert 40 <= sum(bool(each) for each in alerts) <= 165 and len(alerts) == 180


def test_the_shortest_log_is_shown_with_an_arrow_at_what_is_wrong():
    text = exercise_of("10.1").judge(CARDS.replace("30 min", "29 min")).text
    head, *lines = text.splitlines()
    assert head == "not yet: in these events card_testing is wrong where the arrow is"
    assert len(lines) == 5 and lines[-1].endswith("← should alert, but does not")
    assert lines[-1].startswith("day 1, 00:30:00   account 1, pay, payee 901, amount 200.01")


def test_an_event_at_which_a_rule_alerts_rightly_is_marked_beside_what_is_wrong():
    text = exercise_of("10.4").judge("NO(events where action = login) per account within 15 min after").text
    assert text.startswith("Without when")
    twice = judged("10.3", answer_of("10.3").replace("> 3000", "> 3000 and payee > 901")).text
    assert "   ← should alert, but does not" in twice
    by_payee = judged("10.3", answer_of("10.3").replace("account, payee", "payee")).text
    assert "   alerts, and should" in by_payee and "←" in by_payee


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


UNBOUNDED = {
    "10.1": (
        "amount < 500",
        "amount <= 100000",
        "account < 100",
        "payee < 1000",
        "account > 0 and payee < 903",
    ),
    "10.3": ("amount < 6000", "amount < 1000000", "account < 100", "payee < 1000", "country != a"),
    "10.4": ("account < 3", "account < 1000", "ip is null", "device != b"),
    "10.5": ("account < 3", "account < 1000", "amount < 5000", "payee is null", "device != b"),
}


@pytest.mark.parametrize(
    ("name", "more"), [(name, more) for name, all_ in UNBOUNDED.items() for more in all_]
)
def test_a_rule_that_holds_only_for_the_numbers_of_small_logs_is_refused(name, more):
    verdict = judged(name, f"{answer_of(name)} and {more}")
    assert verdict.state == WRONG and "← should alert, but does not" in verdict.text


def test_the_log_that_is_shown_has_no_event_that_does_not_matter():
    lines = judged("10.3", answer_of("10.3").replace("> 3000", ">= 3000")).text.splitlines()[1:]
    assert len(lines) == 1 and lines[0].endswith("amount 3000.00   ← alerts, but should not")


FILTER = "COUNT(events) where action = pay and amount <= 2 per account over 30 min >= 4, when amount > 200"


def test_a_filter_in_the_place_of_where_is_told_so_and_nothing_about_a_payee():
    text = judged("10.1", FILTER).text
    assert text.startswith("After the brackets, where is a filter") and "payee" not in text


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("10.1", "30 min", "30 s"),
        ("10.1", "amount > 200", "amount > 99999999"),
        ("10.3", "amount > 3000", "amount > 99999999"),
        ("10.3", "action = pay) over", "action = paid) over 1 s, "),
        ("10.4", "action = reset", "action = signup"),
        ("10.5", "action = withdraw", "action = signup"),
    ],
)
def test_a_rule_that_never_alerts_is_told_so_and_not_one_of_many_reasons(name, old, new):
    verdict = judged(name, answer_of(name).replace(old, new))
    assert verdict.state == WRONG
    assert "alerts in none of the 180 logs" in verdict.text or "rejected" in verdict.text
    assert not [mistake for mistake in exercise_of(name).mistakes if mistake.says in verdict.text]


@pytest.mark.parametrize("name", RULES)
def test_a_diagnosis_is_given_only_to_a_rule_that_does_the_same_in_logs_which_the_judge_has_not_seen(name):
    exercise = exercise_of(name)
    read = exercise.read
    others = [read._events(read.draw_log(Random(size), 3 + size % 60)) for size in range(1_000, 1_100)]
    nearly = [made_by(code) for code in mutants(SOLUTIONS[name]).values() if code != "pass"]
    for answer in [mistake.answer for mistake in exercise.mistakes] + nearly:
        verdict = exercise.judge(answer)
        told = next((m for m in exercise.mistakes if verdict.text.startswith(m.says)), None)
        if told:
            both = [
                [read._alerts_in(log, read.rule(each)) for log in others] for each in (answer, told.answer)
            ]
            assert both[0] == both[1], (answer, told.says)


@pytest.mark.parametrize("name", ["0.1", "2.1", "7.1", "8.2", "10.1", "10.3", "10.4", "10.5"])
@pytest.mark.parametrize("form", ["rule", "message", "attributes", "no id", "no state", "json without id"])
def test_a_rule_in_any_form_is_right(name, form):
    schema = {"8": LOGINS, "10": ACCOUNT_EVENTS}.get(name.partition(".")[0], PAYMENTS)

    def other(text: object) -> object:
        rule = rule_from_message(text, "it", schema, {"7.1": 6, "8.2": 3}.get(name, 1))
        attributes = {key: value for key, value in rule.to_dict().items() if key != "ruleId"}
        without_state = {key: value for key, value in attributes.items() if key != "ruleState"}
        return {
            "rule": rule,
            "message": parse_message(json.dumps(rule.to_dict()), schema),
            "attributes": rule.to_dict(),
            "no id": attributes,
            "no state": without_state,
            "json without id": json.dumps(without_state),
        }[form]

    right = answer_of(name)
    answer = list(map(other, right)) if isinstance(right, list) else other(right)
    verdict = judged(name, answer)
    assert verdict.state == RIGHT, verdict


@pytest.mark.parametrize(
    "answer",
    [
        "(active),(payeeId),,(paymentAmount),(MAX),(>=),(15),(1)",
        "MAX(paymentAmount) per payeeId over 1 min >= 15",
        "MAX(paymentAmount) per payeeId over 1 min > 14.99, when paymentAmount > 14.99",
        "6: MAX(paymentAmount) per payeeId over 60 s >= 15, when paymentAmount >= 15.00",
    ],
)
def test_rule_6_may_lack_its_id_and_say_which_payment_alerts(answer):
    verdict = judged("7.1", answer)
    assert verdict.state == RIGHT, verdict


def test_rule_6_that_lets_other_payments_alert_is_wrong():
    assert (
        judged("7.1", "6: MAX(paymentAmount) per payeeId over 1 min >= 15, when paymentAmount > 15").state
        == WRONG
    )
