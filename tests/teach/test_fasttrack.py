"""The fast track: who predicts all of a lesson goes on to its exercises; others learn which sections to read."""

import pytest

import lab
from lab.model.language import speak
from lab.teach import lesson_predictions
from lab.teach.lessons import lesson_sources, titles_solutions_and_predictions


def answered(page, wrong: int = 0) -> str:
    """What the page says to right answers, but for so many wrong ones."""
    for place, (asked, choice) in enumerate(zip(page.asked, page.choices)):
        options = asked["options"]
        choice.value = options[(asked["right"] + (place < wrong)) % len(options)]
    page.check.click()
    return page.said.value


@pytest.mark.parametrize("lesson", range(11))
def test_who_is_right_in_all_goes_on_to_the_exercises(lesson):
    said = answered(lab.FastTrack(lesson))
    assert "are right. Go on to the exercises" in said and f"{lesson}.1, {lesson}.2" in said


def test_a_wrong_answer_names_its_section_and_not_the_answer():
    said = answered(lab.FastTrack(1), wrong=1)
    assert "3 of 4 are right" in said and "<li>1. A key fixed in the query</li>" in said
    assert said.count("<li>") == 1 and not any(
        asked["because"][:20] in said for asked in lab.FastTrack(1).asked
    )


def test_without_all_answers_nothing_is_said_of_any():
    page = lab.FastTrack(3)
    page.choices[0].value = page.asked[0]["options"][0]
    page.check.click()
    assert "Answer all 5 questions first" in page.said.value and "right" not in page.said.value


def test_each_prediction_is_in_a_section_of_its_lesson_in_its_language():
    """Also after a change of a heading."""
    assert titles_solutions_and_predictions()["predictions"] == lesson_predictions()
    texts = {path.stem.partition("-")[0].lstrip("0") or "0": path.read_text() for path in lesson_sources()}
    for name, said in lesson_predictions().items():
        assert f"\n## {said['en']['section']}\n" in texts[name.partition(".")[0]]
    assert lesson_predictions()["1.1"]["ko"]["section"] != lesson_predictions()["1.1"]["en"]["section"]


def test_the_page_speaks_the_language(monkeypatch):
    speak("ko")
    try:
        page = lab.FastTrack(1)
        assert "올" in answered(page, wrong=1) or "맞" in answered(page, wrong=1)
    finally:
        speak("en")


def test_a_lesson_without_predictions_is_named():
    with pytest.raises(KeyError, match="lesson 77"):
        lab.FastTrack(77)
