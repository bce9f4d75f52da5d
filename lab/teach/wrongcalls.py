"""Checks that are called with something other than what they take."""

from lab.model.language import say
from lab.teach.judge import ValueExercise


def describe_wrong_call(name: str, exercise: object, given: tuple) -> str:
    """How the check of an exercise is called, if what came after the answer is not what it needs; empty if it is.

    >>> from lab.teach import exercise_of
    >>> describe_wrong_call("5.5", exercise_of("5.5"), ())
    'the check also needs plan, from this lesson, after the answer: lab.check("5.5", …, plan)'
    >>> describe_wrong_call("3.5", exercise_of("3.5"), (8,))
    'the check takes one answer, lab.check("3.5", …): write several values as a list, such as [1, 2]'
    """
    needs = exercise.needs if isinstance(exercise, ValueExercise) else {}
    if len(given) == len(needs) and all(map(_has, given, needs.values())):
        return ""
    if not needs:
        return say(
            'the check takes one answer, lab.check("{exercise}", …): write several values as a list, such as [1, 2]',
            exercise=name,
        )
    return say(
        'the check also needs {names}, from this lesson, after the answer: lab.check("{exercise}", …, {names})',
        exercise=name,
        names=", ".join(needs),
    )


def _has(value: object, attribute: str) -> bool:
    try:
        return hasattr(value, attribute)
    except Exception:  # noqa: BLE001  (a learner's object may raise anything)
        return False
