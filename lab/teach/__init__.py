"""Functions for lessons: predictions before results, exercises that check themselves, and figures that fit any theme."""

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from lab.model.language import ENGLISH, current_language
from lab.model.language import say as _say
from lab.model.language import translated as _translated
from lab.teach import progress as _progress
from lab.teach.judge import OPEN, RIGHT, FunctionExercise, ValueExercise, Verdict
from lab.teach.learner import answer_text, function_name, limited_output, plain_value_or_failure
from lab.teach.unruncells import note_definitions, unrun_definition
from lab.teach.wrongcalls import describe_wrong_call

if TYPE_CHECKING:
    from ipywidgets import VBox

ANSWERS = Path(__file__).with_name("answers.json")  # made from the lessons' sources: `make lessons`
MOST_PRINTED = 2_000  # characters that a function which is checked may print
_wrong: dict[str, list[str]] = {}  # exercise -> the wrong answers so far
_hinted: Counter[str] = Counter()


def check(exercise: str | float, answer: object, *given: object) -> Verdict:
    """Judges the answer to an exercise, such as "3.4"; `given`: other values that its check needs. `...` or None: not answered yet.

    For a wrong answer, it says what is wrong; for the second one it adds a hint, and for the third another. Raises KeyError for an
    exercise that no lesson has.

    >>> check("3.4", ...)
    … not answered yet; lab.hint("3.4") gives a hint
    >>> check("3.4", 864_000)
    ✗ That is in ms. The answer is in whole seconds.
    """
    name, judging = str(exercise), exercise_of(exercise)
    if wrong_call := describe_wrong_call(name, judging, given):
        return _graded(Verdict(OPEN, wrong_call))
    return _with_hints(name, judging.judge(answer, *given), answer_text(plain_value_or_failure(answer)))


def check_function(exercise: str | float, function: Callable) -> Verdict:
    """The same for an exercise whose answer is a function: it is tried on cases, and the first difference is shown.

    What it prints is shown for the first cases, which explain something, and not for the hundred that are drawn at random.

    >>> check_function("3.2", lambda time, end, width: end - width < time <= end)
    ✗ An event exactly W back still counts: the left end belongs to the window.
    <lambda>(0, 20, 20) gave False, expected True
    """
    name, judging = str(exercise), exercise_of(exercise)
    if wrong_call := describe_wrong_call(name, judging, ()):
        return _graded(Verdict(OPEN, wrong_call))
    defined = function_name(function)
    if error := unrun_definition(defined):
        explanation = _say(
            "the cell that defines {name} was not run ({error}), so {name} is still what it was before: correct the cell, run it, "
            "and then run this check again",
            name=defined,
            error=error,
        )
        return _graded(Verdict(OPEN, explanation))
    with limited_output(MOST_PRINTED):
        verdict = judging.judge(function)
    return _with_hints(name, verdict, verdict.text)


def hint(exercise: str | float) -> Verdict:
    """The next hint to an exercise."""
    exercise = str(exercise)
    hints = exercise_of(exercise).hints
    given, _hinted[exercise] = _hinted[exercise], min(_hinted[exercise] + 1, len(hints))
    if given < len(hints):
        return Verdict(OPEN, _say(hints[given]))
    last = _say('That was the last hint. lab.solution("{exercise}") shows a solution.', exercise=exercise)
    return Verdict(OPEN, f"{_say(hints[-1])}\n{last}")


def solution(exercise: str | float) -> Verdict:
    """A solution of an exercise."""
    exercise_of(exercise)
    return Verdict(RIGHT, _answers()["solutions"][str(exercise)], is_code=True)


def predict(question: str, options: Sequence[str]) -> "VBox":
    """Radio buttons for a prediction: the reader chooses what the next cell will show, and learns with that cell whether it is so, and why.

    Run again, it shows the choice so far. Raises KeyError if no lesson has this question.
    """
    from lab.teach.predictions import ask

    return ask(*_predictions_by_question()[question], options)


class NoExercise(KeyError):
    """No lesson has this exercise; a notebook shows one line instead of a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyError: {_translated(self.args[0])}"]


def exercise_of(name: str | float) -> ValueExercise | FunctionExercise:
    """An exercise by its name: lesson, dot, number. Raises KeyError."""
    name = str(name)
    lesson = name.partition(".")[0]
    try:
        return import_module(f"lab.teach.exercises.lesson{lesson}").EXERCISES[name]
    except (KeyError, ModuleNotFoundError):
        there = [known for known in lesson_and_exercise_titles() if known.startswith(f"{lesson}.")]
        known = f"one of {', '.join(there)}" if there else "lesson and number, such as 3.4"
        raise NoExercise(f"exercise {name!r}: no lesson has it, expected {known}") from None


def lesson_and_exercise_titles() -> dict[str, str]:
    """What lessons and exercises are called: "3" and "3.2"."""
    return _answers()["titles"]


def _with_hints(exercise: str, verdict: Verdict, answer: str) -> Verdict:
    """Adds the next hint to a wrong verdict: none for the first wrong answer, then one hint per answer."""
    _progress.record_result(exercise, _graded(verdict), answer)
    if verdict.state == OPEN:
        how = _say('{text}; lab.hint("{exercise}") gives a hint', text=verdict.text, exercise=exercise)
        return Verdict(OPEN, how)
    if verdict.state == RIGHT:
        return verdict
    tried = _wrong.setdefault(exercise, [])
    if answer not in tried:
        tried.append(answer)
    hints = exercise_of(exercise).hints
    due = len(tried) - 1
    if not due:
        return verdict
    if due <= len(hints):
        more = _say("Hint: {hint}", hint=_say(hints[due - 1]))
    else:
        more = _say('lab.solution("{exercise}") shows a solution.', exercise=exercise)
    said = f"{verdict.text}\n{more}"
    return replace(verdict, text=said)


def _graded(verdict: Verdict) -> Verdict:
    """The verdict. With `LAB_GRADING` in the environment what is not right raises AssertionError, as a grader such as nbgrader expects."""
    if "LAB_GRADING" in os.environ:
        assert verdict.state == RIGHT, verdict.text
    return verdict


def lesson_predictions() -> dict[str, dict[str, dict]]:
    """The lessons' predictions by name, such as "3.2", the second of lesson 3: each by language."""
    return _answers()["predictions"]


def prediction_in_language(name: str) -> dict:
    """A prediction's question, options, right one and reason in the reader's language, or in English."""
    said = lesson_predictions()[name]
    return said.get(current_language(), said[ENGLISH])


@cache
def _predictions_by_question() -> dict[str, tuple[str, dict]]:
    return {
        asked["question"]: (name, asked)
        for name, said in lesson_predictions().items()
        for asked in said.values()
    }


@cache
def _answers() -> dict:
    return json.loads(ANSWERS.read_text())


_progress.call_after_each_cell(note_definitions)
