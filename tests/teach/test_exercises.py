"""Every exercise takes its solution, refuses typical wrong answers each with a sentence of its own, and never raises."""

import math
import re
import sqlite3
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

import lab
from lab import teach
from lab.model.rules import RuleBook
from lab.model.schema import PAYMENTS
from lab.teach.comparing import describe_difference
from lab.teach.judge import OPEN, RIGHT, WRONG, FunctionExercise, Mistake, ValueExercise
from lab.teach.lessons import lesson_number, lesson_sources, titles_solutions_and_predictions

SOLUTIONS = titles_solutions_and_predictions()["solutions"]
NAMES = list(SOLUTIONS)
JUNK = (
    49,
    "?",
    "",
    (),
    [],
    {},
    [None],
    {"a": 1},
    object(),
    math.nan,
    -1,
    True,
    lambda *_: 1 / 0,
    b"1",
    {1, 2},
)


class FakeStudio:
    """Answers as an engine does."""

    def __init__(self):
        self.book = RuleBook(PAYMENTS)
        self.ask = self.book.apply


def given(name: str) -> tuple:
    """What a check is given beside the answer."""
    plan = SimpleNamespace(
        after=SimpleNamespace(rows=lambda: [([g for g in range(16) if g * 4 // 16 == n],) for n in range(4)])
    )
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.execute(
        "CREATE TABLE rules (rule_id INTEGER, rule_state TEXT, limit_value TEXT, changed_by TEXT)"
    )
    database.executemany("INSERT INTO rules VALUES (?, 'ACTIVE', '3', 'ann')", [(1,), (2,), (3,)])
    return {"5.5": (plan,), "7.1": (FakeStudio(),), "8.4": (database,)}.get(name, ())


def answer_of(name: str) -> Any:
    """What the lesson's solution gives."""
    if name == "0.3":
        return 8
    return made_by(SOLUTIONS[name])


def made_by(code: str) -> Any:
    """What a cell gives the name that its check looks at."""
    found: dict[str, object] = {"lab": lab, "Counter": Counter}
    exec(compile(code, "<cell>", "exec", dont_inherit=True), found)  # noqa: S102  (a solution, or one of its mutants)
    return found[re.findall(r"^(?:def )?(\w+)(?: \|?=|\()", code, flags=re.MULTILINE)[-1]]


def judged(name: str, answer: object) -> teach.Verdict:
    exercise = teach.exercise_of(name)
    return (
        exercise.judge(answer, *given(name))
        if isinstance(exercise, ValueExercise)
        else exercise.judge(answer)
    )


@pytest.fixture(autouse=True)
def nobody_has_tried(monkeypatch):
    monkeypatch.setattr(teach, "_wrong", {})
    monkeypatch.setattr(teach, "_hinted", type(teach._hinted)())


def test_every_lesson_has_its_exercises():
    by_lesson = {lesson_number(path): 0 for path in lesson_sources() if path.stem[0].isdigit()}
    for name in NAMES:
        by_lesson[name.partition(".")[0]] += 1
    assert by_lesson == {
        "0": 3,
        "1": 4,
        "2": 4,
        "3": 5,
        "4": 4,
        "5": 6,
        "6": 4,
        "7": 3,
        "8": 4,
        "9": 4,
        "10": 6,
        "11": 4,
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_solution_is_right(name):
    verdict = judged(name, answer_of(name))
    assert verdict.state == RIGHT, verdict


def complete(name: str, mistake: Mistake) -> object:
    """A dictionary's mistake is about some entries; the others are right."""
    right: Any = teach.exercise_of(name).right if isinstance(teach.exercise_of(name), ValueExercise) else None
    both = isinstance(right, dict) and isinstance(mistake.answer, dict)
    return right | mistake.answer if both else mistake.answer


@pytest.mark.parametrize("name", NAMES)
def test_typical_mistakes_are_refused_each_with_a_sentence_of_its_own(name):
    mistakes = teach.exercise_of(name).mistakes
    assert len(mistakes) >= 3 and len({m.says for m in mistakes}) == len(mistakes)
    for mistake in mistakes:
        verdict = judged(name, complete(name, mistake))
        assert verdict.state == WRONG
        assert verdict.text.startswith(mistake.says), (mistake.says, verdict.text)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: type(junk).__name__)
def test_no_answer_meets_a_traceback(name, junk):
    assert judged(name, junk).state in (WRONG, OPEN)


@pytest.mark.parametrize("name", [n for n in NAMES if isinstance(teach.exercise_of(n), ValueExercise)])
def test_a_wrong_value_does_not_print_the_right_one(name):
    right = re.escape(str(answer_of(name)))
    for junk in JUNK:
        assert not re.search(rf"\b{right}\b", judged(name, junk).text.removesuffix(repr(junk)))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_yet_is_open(name):
    assert judged(name, ...).state == judged(name, None).state == OPEN
    if isinstance(teach.exercise_of(name), FunctionExercise):
        assert judged(name, lambda *_: ...).state == OPEN


def test_hints_come_one_by_one_and_the_solution_on_request():
    first, second, third, fourth = (lab.check("3.4", wrong).text for wrong in (5, 6, 7, 9))
    hints = teach.exercise_of("3.4").hints
    assert "Hint" not in first and hints[0] in second and hints[1] in third
    assert 'lab.solution("3.4")' in fourth and "864" not in first + second + third + fourth
    # tried before: no further hint
    assert lab.check("3.4", 5).text == lab.check("3.4", 9).text.replace("9 is", "5 is")
    assert [lab.hint("3.4").text for _ in range(2)] == list(hints)
    assert 'lab.solution("3.4")' in lab.hint("3.4").text
    assert lab.solution("3.4").text == "answer = 24 * 60 * 60 // 100"


def test_a_tuple_for_a_list_and_a_number_in_quotes_are_right():
    assert judged("3.5", (4, 8)).state == RIGHT
    verdict = judged("0.2", "21")
    assert verdict.state == RIGHT and "without quotes" in verdict.text


def test_true_in_quotes_is_true():
    right = answer_of("2.2")
    verdict = judged("2.2", {name: str(value) for name, value in right.items()})
    assert verdict.state == RIGHT and "written without quotes" in verdict.text
    verdict = judged("2.2", right | {"filter": "True"})
    assert verdict.text.startswith("Adding a filter means another route") and "without quotes" in verdict.text
    assert judged("2.2", right | {"filter": "maybe"}).text == "1 of 5 are not right: filter"


def test_what_is_still_open_of_several_is_named():
    right = answer_of("2.2")
    assert judged("2.2", dict.fromkeys(right, ...)).text == "not answered yet"
    assert judged("2.2", right | {"filter": ...}).text == "not answered yet: filter"


def test_a_long_answer_is_shown_in_part():
    for answer in (RuleBook(PAYMENTS), [0] * 1000):
        assert len(judged("0.1", answer).text) < 200 > len(judged("0.2", answer).text)


def test_messages_in_another_order_or_number_are_told_so():
    right = answer_of("2.1")
    assert judged("2.1", right[:2]).text.endswith("this has 2")
    assert "order of `wrong`" in judged("2.1", [right[1], right[0], right[2]]).text


def test_a_wrong_kind_names_kind_and_unit():
    assert judged("3.4", [1]).text == "expected a number (in whole seconds), not [1]"


def test_missing_entries_are_counted_in_words_that_nobody_takes_for_an_entry():
    assert judged("3.5", [3, 7]).text == "not quite: 3, 7 are not in the right list; 2 entries are missing"
    assert judged("3.5", [8]).text == "not quite: 1 entry is missing"


def test_a_function_that_prints_its_answer_is_told_to_return_it():
    verdict = judged("3.2", lambda time, end, width: None)
    assert verdict.state == WRONG and "return" in verdict.text


def test_one_entry_is_not_called_entries():
    assert "gave 1 entry, expected 128: 1, 2, 3, … are missing" in describe_difference([0], list(range(128)))


def test_another_kind_than_a_list_is_told_so():
    function = judged(
        "5.1", lambda entries, task, parallelism: {e for e in entries if e[0] % parallelism == task}
    )
    assert "expected a list: [(0, 170), (4, 8)]" in function.text


def test_a_large_number_is_written_so_that_it_can_be_read():
    assert judged("4.4", 86_400_000_000).text.startswith("right: 86,400,000,000.")


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("4.1", lambda time, slide: (slide - time % slide) / 1_000, "in seconds"),
        ("4.2", lambda budget, other: max(0, 2 * (budget - other)) / 1_000, "in seconds"),
        ("4.3", 86_400_000, "in ms"),
        ("5.2", lambda task, G, p: list(range(task * G // p, (task + 1) * G // p)), "round"),
    ],
)
def test_a_wrong_unit_or_a_rounding_is_named(name, answer, said):
    assert said in judged(name, answer).text


def test_only_what_differs_is_shown():
    wrong = {"limit": False, "key": True, "function": True}
    exercise = ValueExercise({"a": 1, "b": 2, "c": 3}, "", ("", ""), ())
    assert exercise.judge({"a": 1, "b": 9, "c": 9}).text == "2 of 3 are not right: b, c"
    assert judged("2.2", wrong).state == WRONG
    long = FunctionExercise(
        (), "", ("", ""), (), right=lambda n: list(range(30)), draw=lambda random, size: (size,)
    )
    assert long.judge(lambda n: [*range(29), 99]).text.endswith("at index 29 it has 99, expected 29")


def test_a_rejected_rule_meets_the_rule_books_reason():
    text = judged("0.1", "1,(active),(payeId),,(paymentAmount),(SUM),(>),(49),(20)").text
    assert "did you mean payeeId?" in text


def test_the_rooms_other_rules_are_safe_from_exercise_7_1():
    studio = FakeStudio()
    exercise = teach.exercise_of("7.1")
    assert exercise.judge("5,(active),(payeeId),,(paymentAmount),(MAX),(>=),(15),(1)", studio).state == WRONG
    assert not studio.book.rules


def test_for_a_grader_what_is_not_right_is_an_error(monkeypatch):
    monkeypatch.setenv("LAB_GRADING", "1")
    assert lab.check("3.4", 864).state == RIGHT
    for answer, said in ((864_000, "That is in ms"), (..., "not answered yet")):
        with pytest.raises(AssertionError, match=said):
            lab.check("3.4", answer)


def test_an_exercise_that_no_lesson_has_is_named():
    with pytest.raises(KeyError, match="exercise '9.9': no lesson has it, expected one of 9.1, 9.2") as error:
        lab.check("9.9", 1)
    assert error.value._render_traceback_() == [f"KeyError: {error.value.args[0]}"], "in a notebook: one line"
    with pytest.raises(KeyError, match="expected lesson and number, such as 3.4"):
        lab.hint("77")


def test_an_exercise_may_be_named_by_a_number():
    assert lab.hint(2.1).text == teach.exercise_of("2.1").hints[0]
    assert lab.check(2.4, 120).state == RIGHT and lab.solution(2.4).text == lab.solution("2.4").text
    assert lab.check_function(2.3, ...).text.endswith('lab.hint("2.3") gives a hint')


def test_a_solution_is_shown_as_code():
    assert (
        "monospace" in lab.solution("2.3")._repr_html_() and "monospace" not in lab.hint("2.3")._repr_html_()
    )


def test_every_prediction_names_one_of_its_options():
    for said in titles_solutions_and_predictions()["predictions"].values():
        for asked in said.values():
            assert lab.predict(asked["question"], asked["options"]).children[1].options == tuple(
                asked["options"]
            )
            right = asked["options"][asked["right"]]
            assert not asked["because"][0].islower() and right not in asked["question"]


@pytest.mark.parametrize(("name", "needed"), [("5.5", "plan"), ("7.1", "studio"), ("8.4", "database")])
@pytest.mark.parametrize(
    "after",
    [(), (None,), ([1, 2],), (answer_of, answer_of)],
    ids=["nothing", "None", "a list", "two functions"],
)
def test_a_check_that_lacks_what_it_needs_says_how_it_is_called(name, needed, after):
    """`lab.check("5.5", answer)` once met a TypeError of a lambda, and 7.1 named a function of this kit."""
    verdict = lab.check(name, answer_of(name), *after)
    assert verdict.state == OPEN
    assert f'lab.check("{name}", …, {needed})' in verdict.text
    assert lab.check(name, answer_of(name), *given(name)).state == RIGHT


def test_a_check_of_a_function_that_is_called_for_a_value_says_how_it_is_called():
    assert 'lab.check("5.5", …, plan)' in lab.check_function("5.5", [1]).text


@pytest.mark.parametrize("name", ["0.1", "3.5", "6.2", "9.2", "10.1"])
def test_a_check_with_more_than_one_answer_says_that_it_takes_one(name):
    assert "takes one answer" in lab.check(name, answer_of(name), 8).text


def test_a_plan_without_the_task_in_question_is_told():
    plan = SimpleNamespace(after=SimpleNamespace(rows=lambda: [([0],), ([1],)]))
    assert "plan has 2 tasks" in lab.check("5.5", [1], plan).text


def test_a_check_that_is_called_wrongly_fails_under_a_grader(monkeypatch):
    monkeypatch.setenv("LAB_GRADING", "1")
    with pytest.raises(AssertionError, match="also needs plan"):
        lab.check("5.5", answer_of("5.5"))
