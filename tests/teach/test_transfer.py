"""Transfer questions: noted for those who log stumbles, and a report shows gains with intervals."""

import json

import pytest

import lab
from lab.model.jsontext import BadRecord
from lab.teach import progress
from lab.teach.handins import check_stumble
from lab.teach.report import class_page, parse_learner_log, read_class_report
from lab.teach.transfer import FEWEST, QUESTIONS, WHEN, class_gains


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_DATA", str(tmp_path))


def answers(lesson: int, right: int, when: str) -> dict:
    """A learner's answers, so many of them right."""
    return {
        (f"{lesson}.{number}", when): each.right if number <= right else (each.right + 1) % len(each.options)
        for number, each in enumerate(QUESTIONS[lesson], 1)
    }


def test_answers_are_noted_once_and_nobody_is_told_what_is_right():
    page = lab.TransferQuestions(3, "before")
    page.button.click()
    assert "Answer all 3 questions first" in page.said.value
    for choice in page.choices:
        choice.index = 1
    page.button.click()
    assert "run lab.log_stumbles() first" in page.said.value
    lab.log_stumbles()
    page.button.click()
    assert "are noted" in page.said.value and page.button.disabled and "right" not in page.said.value
    [log] = progress.folder().glob("stumbles-*")
    assert parse_learner_log(progress.read_json_lines(log)).transfer == {
        (f"3.{n}", "before"): 1 for n in (1, 2, 3)
    }


def test_a_gain_is_of_those_who_answered_both_times():
    both = answers(3, 1, "before") | answers(3, 3, "after")
    [gain] = class_gains([both, both, answers(3, 0, "before"), answers(3, 3, "after"), {}])
    assert (gain.lesson, gain.when, gain.learners, gain.after) == (3, "after", 2, 1)
    assert gain.before == pytest.approx(1 / 3) and gain.interval is None
    assert (
        str(gain)
        == "lesson 3, after: 33% right before, 100% after, gain +67% (too few for an interval; n = 2)"
    )


def test_an_interval_holds_the_gain_and_is_wider_for_few():
    few = [answers(3, 1, "before") | answers(3, 1 + n % 3, "later") for n in range(FEWEST)]
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
        for (name, _), option in answers(7, right, when).items()
    ]
    (tmp_path / "hand-in.jsonl").write_text("\n".join(map(json.dumps, lines)))
    page = class_page(read_class_report(tmp_path), {})
    assert (
        "<li>lesson 7, after: 0% right before, 67% after, gain +67% (too few for an interval; n = 1)</li>"
        in page
    )


@pytest.mark.parametrize(
    "wrong",
    [{"question": "9.1"}, {"question": 3}, {"when": "now"}, {"option": "7"}, {"option": 1}, {"option": "-1"}],
)
def test_a_line_that_no_notebook_writes_is_refused(wrong):
    line = {"at": 1, "learner": "7f", "state": "transfer", "question": "3.1", "when": "after", "option": "1"}
    assert check_stumble(line)["option"] == "1"
    with pytest.raises(BadRecord):
        check_stumble(line | wrong)


def test_lessons_and_times_that_there_are_not_are_named():
    with pytest.raises(KeyError, match="expected one of 0, 3, 7"):
        lab.TransferQuestions(1, "before")
    with pytest.raises(ValueError, match="before, after, later"):
        lab.TransferQuestions(3, "now")
    assert all(len(each) == 3 for each in QUESTIONS.values()) and len(WHEN) == 3
