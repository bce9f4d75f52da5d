"""Right answers as data, so that an instructor can check them again: no code of a learner runs on another machine.

    answer ──► written ──► a line of the log ──► answer_from_text ──► judged by the same exercise
    function ──► what it gave for each case ──┘

Numbers, texts, lists, true, false and null are JSON; any other value is an object with one name, the kind of value.
"""

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

from lab.model.jsontext import BadRecord, is_valid_unicode, parse_json_object
from lab.teach import judge, learner

LARGEST_EXPONENT = 400  # of a number; to compare larger ones could take a gigabyte


def answer_to_text(answer: Any) -> str:
    """A plain answer as text; empty if it cannot be written.

    >>> answer_to_text([1, 0.5, (True, {"a": None})])
    '[1,{"float":"0.5"},{"tuple":[true,{"dict":[["a",null]]}]}]'
    """
    try:
        return json.dumps(_as_json(answer), separators=(",", ":"), ensure_ascii=False)
    except ValueError:  # an integer of thousands of digits
        return ""


def answer_from_text(text: str) -> Any:
    """The answer that was written. Raises BadRecord.

    >>> answer_from_text('[1,{"float":"0.5"},{"tuple":[true,{"dict":[["a",null]]}]}]')
    [1, 0.5, (True, {'a': None})]
    """
    return _from_json(parse_json_object(text))


def is_right(exercise: Any, answer: Any) -> bool | None:
    """Whether an answer that was read solves an exercise; None if this exercise cannot be checked again."""
    if isinstance(exercise, judge.FunctionExercise):
        whole = isinstance(answer, list) and len(answer) == len(exercise.all_cases)
        return whole and exercise.judge_answers(answer, "it").state == judge.RIGHT
    if isinstance(exercise, judge.ValueExercise) and exercise.given_on_recheck is not None:
        return exercise.judge(answer, *exercise.given_on_recheck).state == judge.RIGHT
    return None


def _as_json(answer: Any) -> Any:
    kind = type(answer)
    if answer is None or kind in (bool, int, str):
        return answer
    if kind is list:
        return list(map(_as_json, answer))
    if kind in (tuple, set):
        return {kind.__name__: list(map(_as_json, answer))}
    if kind is dict:
        return {"dict": [[_as_json(key), _as_json(value)] for key, value in answer.items()]}
    if kind is Fraction:
        return {"fraction": [answer.numerator, answer.denominator]}
    if kind in (float, Decimal):
        return {kind.__name__.lower(): str(answer)}
    return {"other": answer.text if isinstance(answer, learner.OpaqueValue) else learner.answer_text(answer)}


def _from_json(found: Any) -> Any:
    if found is None or type(found) in (bool, int) or (type(found) is str and is_valid_unicode(found)):
        return found
    if type(found) is list:
        return list(map(_from_json, found))
    if type(found) is not dict or len(found) != 1:
        raise BadRecord(f"{learner.answer_text(found)} is not an answer as lab.log_stumbles() writes it")
    [(kind, value)] = found.items()
    try:
        return _READERS[kind](value)
    except (KeyError, TypeError, ValueError, ArithmeticError):
        raise BadRecord(
            f"{learner.answer_text(found)} is not an answer as lab.log_stumbles() writes it"
        ) from None


def _number(kind: type) -> Any:
    def read(text: str) -> Any:
        number = Decimal(text)
        if number.is_finite() and abs(number.adjusted()) > LARGEST_EXPONENT:
            raise ValueError(text)
        return kind(text)

    return read


_READERS = {
    "tuple": lambda values: tuple(map(_from_json, values)),
    "set": lambda values: set(map(_from_json, values)),
    "dict": lambda pairs: {_from_json(key): _from_json(value) for key, value in pairs},
    "fraction": lambda both: Fraction(*both) if list(map(type, both)) == [int, int] else 1 / 0,
    "float": _number(float),
    "decimal": _number(Decimal),
    "other": learner.OpaqueValue,
}
