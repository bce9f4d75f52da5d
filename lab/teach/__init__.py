"""What lessons use: predictions before results, exercises that check themselves, and figures that fit any theme."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from html import escape
from importlib import import_module
from pathlib import Path

from lab.teach.judge import OPEN, RIGHT, WRONG, Function, Value, Verdict

ANSWERS = Path(__file__).with_name("answers.json")  # made from the lessons' sources: `make lessons`
_wrong: dict[str, list[str]] = {}  # exercise -> the wrong answers so far
_hinted: Counter[str] = Counter()


def check(exercise: str, answer: object, *given: object) -> Verdict:
    """Judges the answer to an exercise, such as "3.4"; `given`: what else its check looks at. `...` or None: not answered yet.

    A wrong answer is told what is wrong with it; the second one gets a hint, the third another. Raises KeyError for an
    exercise that no lesson has.

    >>> check("3.4", ...)
    … not answered yet; lab.hint("3.4") gives a hint
    >>> check("3.4", 864_000)
    ✗ That is in ms. The answer is in whole seconds.
    """
    return _with_hints(exercise, exercise_of(exercise).judge(answer, *given), repr(answer))


def check_function(exercise: str, function: Callable) -> Verdict:
    """The same for an exercise whose answer is a function: it is tried on cases, and the first difference is shown.

    >>> check_function("3.2", lambda time, end, width: end - width < time <= end)
    ✗ An event exactly W back still counts: the left end belongs to the window.
    <lambda>(0, 20, 20) gave False, expected True
    """
    verdict = exercise_of(exercise).judge(function)
    return _with_hints(exercise, verdict, verdict.text)


def hint(exercise: str) -> Verdict:
    """The next hint to an exercise."""
    hints = exercise_of(exercise).hints
    given, _hinted[exercise] = _hinted[exercise], min(_hinted[exercise] + 1, len(hints))
    if given < len(hints):
        return Verdict(OPEN, hints[given])
    return Verdict(OPEN, f'{hints[-1]}\nThat was the last hint. lab.solution("{exercise}") shows a solution.')


def solution(exercise: str) -> Verdict:
    """A solution of an exercise."""
    exercise_of(exercise)
    return Verdict(RIGHT, _answers()["solutions"][exercise])


def predict(question: str, options: Sequence[str]):
    """Radio buttons: the reader commits to an answer before the next cell gives it. Raises KeyError if no lesson asks this."""
    import ipywidgets as widgets

    right, because = _answers()["predictions"][question]
    buttons = widgets.RadioButtons(
        options=list(options), value=None, layout={"width": "max-content"}, description_allow_html=False
    )
    said = widgets.HTML()

    def judge(change: dict) -> None:
        state = RIGHT if buttons.value == right else WRONG
        answer = "Yes." if state == RIGHT else f"Not quite: {right}."
        said.value = Verdict(state, f"{answer} {because}")._repr_html_()

    buttons.observe(judge, "value")
    label = widgets.HTML(f"<b>Before you run the next cell:</b> {escape(question)}")
    return widgets.VBox([label, buttons, said])


def exercise_of(name: str) -> Value | Function:
    """An exercise by its name: lesson, dot, number. Raises KeyError."""
    lesson = name.partition(".")[0]
    try:
        return import_module(f"lab.teach.exercises.lesson{lesson}").EXERCISES[name]
    except (KeyError, ModuleNotFoundError):
        raise KeyError(
            f"exercise {name!r}: no lesson has it; expected lesson and number, such as 3.4"
        ) from None


def _with_hints(exercise: str, verdict: Verdict, answer: str) -> Verdict:
    """A wrong verdict with the hint that is due: none at the first wrong answer, then one after the other."""
    if verdict.state == OPEN:
        return Verdict(OPEN, f'{verdict.text}; lab.hint("{exercise}") gives a hint')
    if verdict.state == RIGHT:
        return verdict
    tried = _wrong.setdefault(exercise, [])
    if answer not in tried:
        tried.append(answer)
    hints = exercise_of(exercise).hints
    due = len(tried) - 1
    if not due:
        return verdict
    last = f'lab.solution("{exercise}") shows a solution.'
    return Verdict(WRONG, f"{verdict.text}\n{f'Hint: {hints[due - 1]}' if due <= len(hints) else last}")


@cache
def _answers() -> dict:
    return json.loads(ANSWERS.read_text())
