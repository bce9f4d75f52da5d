"""Answers that somebody may pass off: of a neighbour, learned by heart from the cases that are shown, or a slip away from the right one.

solution ──► a number, word or entry of it changed, left out or doubled
cases    ──► right where they are known, and elsewhere nothing, the first answer, or a typical mistake
others   ──► the solutions and the typical mistakes of every other exercise

`ALSO_RIGHT` has those that say the same in other words. The mutants of `test_mutants` come on top.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from lab.teach import exercise_of, judge
from lab.teach.attack import AttackExercise
from lab.teach.attack.search import first_counterexample
from lab.teach.judge import RIGHT, FunctionExercise
from tests.teach.test_exercises import NAMES, answer_of, complete, judged

ENOUGH = 300
NUMBER = re.compile(r"\d+(?:\.\d+)?")
OTHER_NUMBERS: tuple[Callable, ...] = (
    *(lambda n: n + 1, lambda n: n - 1, lambda n: n * 2, lambda n: n * 10, lambda n: n * 60),
    *(lambda n: n * 1_000, lambda n: n / 60, lambda n: n / 1_000, lambda n: -n, lambda n: n + 0.5),
)
RULE, EVENTS, POLICY = map(answer_of, ("0.1", "2.1", "8.2"))
ALSO_RIGHT: dict[str, list] = {
    "0.1": [RULE.replace("49", limit) for limit in ("48", "49.5")],  # alert at the same payments
    "2.1": [  # a count is whole, and needs no field
        [EVENTS[0], EVENTS[1].replace("(3)", "(3.5)"), EVENTS[2]],
        [EVENTS[0], EVENTS[1].replace("(paymentType)", "()"), EVENTS[2]],
    ],
    "8.2": [
        {name: value for name, value in POLICY.items() if name != left} for left in ("ruleId", "ruleState")
    ],
    "8.4": [answer_of("8.4").replace(text, text.replace("=", "==")) for text in ("= 'PAUSE'", "= 2")],
    "10.3": [answer_of("10.3").replace("= 0", f"= {zero}") for zero in ("-0", "00")],
}


@cache
def of_others() -> dict[str, tuple[str, Any]]:
    """What is right, or a typical mistake, in an exercise, by what it is, each with its exercise."""
    found = {}
    for name in NAMES:
        found[f"the solution of {name}"] = name, answer_of(name)
        for number, mistake in enumerate(exercise_of(name).mistakes, 1):
            found[f"mistake {number} of {name}"] = name, complete(name, mistake)
    return found


def sneaky_answers(name: str) -> Iterator[tuple[str, Any]]:
    """Wrong answers to an exercise, each with what it is."""
    exercise, right = exercise_of(name), answer_of(name)
    others = [(what, answer) for what, (other, answer) in of_others().items() if other != name]
    if isinstance(exercise, FunctionExercise):
        yield from (*others, *_learned_by_heart(exercise, right))
    else:
        slips = () if callable(right) else _slips(right)
        yield from (each for each in (*others, *(("a slip", answer) for answer in slips)) if each[1] != right)


def _learned_by_heart(exercise: FunctionExercise, right: Callable) -> Iterator[tuple[str, Callable]]:
    known = {repr(arguments): expected for arguments, expected, *_ in exercise.cases}
    first = next(iter(known.values()))
    elsewhere = {
        "nothing": lambda *_: None,
        "the first answer": lambda *_: first,
        "what is given": lambda *given: given[0],
        **{f"mistake {n}": mistake.answer for n, mistake in enumerate(exercise.mistakes, 1)},
    }
    for what, otherwise in elsewhere.items():
        yield (
            f"right in the cases, else {what}",
            lambda *given, otherwise=otherwise: (right if repr(given) in known else otherwise)(*given),
        )


def _slips(value: Any) -> Iterator[Any]:
    """A value with one thing in it that is not as it was."""
    if isinstance(value, str):
        for found in NUMBER.finditer(value):
            for other in OTHER_NUMBERS:
                yield f"{value[: found.start()]}{other(float(found[0])):g}{value[found.end() :]}"
        words = re.findall(r"\w+|\W", value)
        for place, word in enumerate(words):
            if not word.isspace():
                yield "".join(words[:place] + words[place + 1 :])
                yield "".join([*words[:place], word, *words[place:]])
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (other(value) for other in OTHER_NUMBERS)
    elif isinstance(value, list | tuple):
        for place, entry in enumerate(value):
            yield [*value[:place], *value[place + 1 :]]
            yield [*value[:place], entry, *value[place:]]
            yield from ([*value[:place], other, *value[place + 1 :]] for other in _slips(entry))
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield {each: value[each] for each in value if each != name}
            yield from (value | {name: other} for other in _slips(entry))


def _passes(name: str, answer: Any) -> bool:
    exercise = exercise_of(name)
    if isinstance(exercise, AttackExercise):
        return callable(answer) and first_counterexample(exercise.game, answer).difference is None
    return judged(name, answer).state == RIGHT


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_answer_that_only_looks_right_passes(name, monkeypatch):
    monkeypatch.setattr(judge, "COMPUTING_S", 0.3)
    passed = [
        what if callable(answer) else answer for what, answer in sneaky_answers(name) if _passes(name, answer)
    ]
    assert passed == ALSO_RIGHT.get(name, [])


def test_each_lesson_has_enough_of_them():
    counted = Counter(name.partition(".")[0] for name in NAMES for _ in sneaky_answers(name))
    assert min(counted.values()) >= ENOUGH, counted
