"""Transfer questions: noted for those who log stumbles, and a report shows gains with intervals."""

import json

import pytest

import lab
from lab.model.jsontext import BadRecord
from lab.teach import progress
from lab.teach.handins import check_stumble
from lab.teach.lessons import lesson_number, lesson_sources
from lab.teach.questions import EXIT, QUESTIONS, names_of_plans, times_of
from lab.teach.report import class_page, parse_learner_log, read_class_report
from lab.teach.transfer import FEWEST, class_gains, what_a_class_learned

pytestmark = pytest.mark.usefixtures("progress_folder")


def answers(lesson: str, right: int, when: str) -> dict:
    """A learner's answers, so many of them right."""
    return {
        (f"{lesson}.{number}", when): each.right if number <= right else (each.right + 1) % len(each.options)
        for number, each in enumerate(QUESTIONS[lesson], 1)
    }


def test_answers_are_noted_once_and_nobody_is_told_what_is_right():
    assert "run lab.log_stumbles(), then this cell again" in lab.TransferQuestions(3, "before").said.value
    lab.log_stumbles()
    page = lab.TransferQuestions(3, "before")
    assert "come again at the end" in page.children[0].value
    page.button.click()
    assert "Answer all 3 questions first" in page.said.value
    for choice in page.choices:
        choice.index = 1
    (progress.folder() / progress.CONSENT).rename(consent := progress.folder() / "aside.json")
    page.button.click()
    assert "run lab.log_stumbles()" in page.said.value and not page.button.disabled
    consent.rename(progress.folder() / progress.CONSENT)
    page.button.click()
    assert "are noted" in page.said.value and page.button.disabled and "right" not in page.said.value
    [log] = progress.folder().glob("stumbles-*")
    assert parse_learner_log(progress.read_json_lines(log)).transfer == {
        (f"3.{n}", "before"): 1 for n in (1, 2, 3)
    }


def test_a_gain_is_of_those_who_answered_both_times():
    both = answers("3", 1, "before") | answers("3", 3, "after")
    [gain] = class_gains([both, both, answers("3", 0, "before"), answers("3", 3, "after"), {}])
    assert (gain.lesson, gain.when, gain.learners, gain.after) == ("3", "after", 2, 1)
    assert gain.before == pytest.approx(1 / 3) and gain.interval is None
    assert (
        str(gain)
        == "lesson 3, after: 33% right before, 100% after, gain +67% (too few for an interval; n = 2)"
    )


def test_an_interval_holds_the_gain_and_is_wider_for_few():
    few = [answers("3", 1, "before") | answers("3", 1 + n % 3, "later") for n in range(FEWEST)]
    (small,), (large,) = class_gains(few), class_gains(few * 20)
    for gain in (small, large):
        assert gain.interval[0] <= gain.after - gain.before <= gain.interval[1]
    assert small.interval[1] - small.interval[0] > 2 * (large.interval[1] - large.interval[0]) > 0
    assert class_gains(few) == class_gains(few), "the same each time"


def test_the_report_shows_gains(tmp_path):
    lines = [
        {
            "at": at,
            "learner": "7f",
            "name": "",
            "state": "transfer",
            "question": name,
            "when": when,
            "option": str(option),
        }
        for at, (when, right) in enumerate((("before", 0), ("after", 2)))
        for (name, _), option in answers("7", right, when).items()
    ]
    (tmp_path / "hand-in.jsonl").write_text("\n".join(map(json.dumps, lines)))
    page = class_page(read_class_report(tmp_path), {})
    assert (
        "<li>transfer questions: lesson 7, after: 0% right before, 67% after, gain +67% (too few for an interval; n = 1)</li>"
        in page
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"question": "77.1"},
        {"question": 3},
        {"when": "now"},
        {"when": "exit"},
        {"option": "7"},
        {"option": 1},
        {"option": "-1"},
    ],
)
def test_a_line_that_no_notebook_writes_is_refused(wrong):
    line = {"at": 1, "learner": "7f", "state": "transfer", "question": "3.1", "when": "after", "option": "1"}
    assert check_stumble(line)["option"] == "1"
    with pytest.raises(BadRecord):
        check_stumble(line | wrong)


def test_lessons_and_times_that_there_are_not_are_named():
    with pytest.raises(KeyError, match="expected one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11"):
        lab.TransferQuestions(77, "before")
    with pytest.raises(ValueError, match="before, after, later"):
        lab.TransferQuestions(3, "now")
    with pytest.raises(KeyError, match="expected one of half-day, two-days"):
        lab.ExitTest("three-days")


def test_each_question_has_a_key_and_a_diagnosis_and_its_right_option_is_not_always_at_one_place():
    for name, questions in QUESTIONS.items():
        assert len(questions) == 3 if name.isdigit() else 5 <= len(questions) <= 6, "five minutes"
        for each in questions:
            assert len(set(each.options)) == len(each.options) == 3 and 0 <= each.right < 3 and each.shows
        assert len({each.right for each in questions}) > 1, name


def test_each_lesson_asks_its_questions_before_its_first_prediction_and_after_its_exercises():
    for source in lesson_sources():
        if not (number := lesson_number(source)).isdigit():
            continue
        text = source.read_text()
        before, after = (f'lab.TransferQuestions({number}, "{when}")' for when in ("before", "after"))
        assert text.count(before) == text.count(after) == 1, source.name
        assert (
            text.index(before)
            < text.index("lab.predict(")
            < text.index(f"lab.progress({number})")
            < text.index(after)
        )
        assert number in QUESTIONS


def test_an_exit_test_is_asked_once_and_reported_with_what_wrong_answers_show():
    lab.log_stumbles()
    page = lab.ExitTest("half-day")
    for choice, each in zip(page.choices, QUESTIONS["half-day"]):
        choice.index = each.right
    page.choices[2].index = 1
    page.button.click()
    assert page.button.disabled and all(times_of(plan) == (EXIT,) for plan in names_of_plans())
    [log] = progress.folder().glob("stumbles-*")
    lines = [check_stumble(line) for line in progress.read_json_lines(log)]
    given = parse_learner_log(lines).transfer
    shows = QUESTIONS["half-day"][2].shows
    assert what_a_class_learned([given, {}, answers("half-day", 5, EXIT)]) == [
        "exit test half-day: 4.5 of 5 right (n = 2)",
        f"half-day.3, exit: 1 of 2 right; the others {shows}",
    ]
