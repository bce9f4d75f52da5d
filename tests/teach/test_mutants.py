"""Solutions with a small change: whatever is no longer the same function is refused, and whatever still is, passes.

`same.json` has those that are the same, by exercise and by the reason why.
"""

import json
import warnings
from pathlib import Path

import pytest

from lab.teach import exercise_of, judge
from lab.teach.attack import AttackExercise
from lab.teach.attack.search import first_counterexample
from lab.teach.judge import RIGHT
from tests.teach.mutation import mutants
from tests.teach.test_exercises import NAMES, SOLUTIONS, judged, made_by

ENOUGH = 30
SHORT = {
    "0.1": 20,
    "0.2": 10,
    "2.2": 26,
    "2.4": 26,
    "3.5": 19,
    "4.4": 26,
    "5.4": 10,
    "7.1": 19,
    "8.4": 16,
    "9.4": 19,
    "10.4": 22,
    "11.1": 10,
}
SAME = json.loads(Path(__file__).with_name("same.json").read_text())
TRIED = [name for name in NAMES if name != "0.3"]  # whose answer is read off a desk


def passes(name: str, code: str) -> bool:
    """Whether a check takes what this code makes."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            answer = made_by(code)
    except Exception:  # noqa: BLE001  (a cell that fails gives no answer)
        return False
    exercise = exercise_of(name)
    if isinstance(exercise, AttackExercise):
        return first_counterexample(exercise.game, answer).difference is None
    return judged(name, answer).state == RIGHT


def arguments_of(name: str) -> tuple:
    """What the function of an exercise is given in its longest explained case; nothing if it is no function."""
    cases = getattr(exercise_of(name), "cases", ())
    return max((case[0] for case in cases), key=lambda arguments: len(repr(arguments)), default=())


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIED)
def test_what_is_another_function_is_refused_and_what_is_the_same_passes(name, monkeypatch):
    monkeypatch.setattr(judge, "COMPUTING_S", 0.3)  # many of them never end
    found = mutants(SOLUTIONS[name], arguments_of(name))
    assert len(found) >= ENOUGH or len(found) == SHORT.get(name), "of a short solution all there are"
    taken = sorted(what for what, code in found.items() if passes(name, code))
    assert taken == sorted(what for whats in SAME.get(name, {}).values() for what in whats)
