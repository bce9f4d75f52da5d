"""Two answers compared: what was meant, whether they are the same, and how one differs from what was expected."""

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from lab.model.language import say
from lab.teach.learner import FailureText, answer_text

TRUTHS = {"True": True, "False": False}
KINDS = {int: "a number", float: "a number", list: "a list", tuple: "a list", dict: "a dictionary"}
SHOWN = 3  # differing entries
SHORT = 60  # characters of a list that is shown whole
NUMBERS = (int, float, Decimal, Fraction)


def is_unanswered(answer: object) -> bool:
    """Whether an answer was not given yet, or not all of it.

    >>> is_unanswered(...), is_unanswered({"a": True, "b": ...}), is_unanswered(0)
    (True, True, False)
    """
    if type(answer) is dict:
        return any(value is ... for value in answer.values())
    return answer is ... or answer is None


def tuple_to_list(answer: object) -> object:
    """A tuple as a list: what was meant counts."""
    return list(answer) if isinstance(answer, tuple) else answer


def correct_slips(answer: object, expected: object) -> tuple[object, str]:
    """The answer with small slips corrected, and a note about them.

    >>> correct_slips("21", 20)
    (21, ' (A number is written without quotes: 21.)')
    >>> correct_slips((4, 8), [4])
    ([4, 8], '')
    >>> correct_slips({"a": "True"}, {"a": False})
    ({'a': True}, ' (True and False are written without quotes.)')
    """
    if isinstance(expected, dict) and isinstance(answer, dict):
        texts = {name: value for name, value in answer.items() if isinstance(value, str)}
        meant = {name: TRUTHS[text] for name, text in texts.items() if text in TRUTHS}
        if any(isinstance(expected.get(name), bool) for name in meant):
            return answer | meant, say(" (True and False are written without quotes.)")
    if isinstance(expected, int) and isinstance(answer, str):
        try:
            number = int(answer.replace(",", "").replace("_", ""))
        except ValueError:
            return answer, ""
        return number, say(" (A number is written without quotes: {number}.)", number=number)
    return (tuple_to_list(answer), "") if isinstance(expected, list) else (answer, "")


def equal_answers(got: object, expected: object) -> bool:
    """Equal, also as floats are equal, or as a tuple equals a list.

    What is listed, such as a place or a key-group, is a whole number without a decimal point, where it is expected as one.

    >>> equal_answers(0.1 + 0.2, 0.3), equal_answers((1, 2), [1, 2]), equal_answers(True, 1)
    (True, True, False)
    >>> equal_answers(2.0, 2), equal_answers([2.0], [2])
    (True, False)
    """
    if isinstance(got, bool) != isinstance(expected, bool):
        return False
    try:
        if isinstance(expected, float) and isinstance(got, NUMBERS):
            return math.isclose(got, expected, rel_tol=1e-9)
        if isinstance(expected, (list, tuple)) and isinstance(got, (list, tuple)):
            equal = _equal_entries if isinstance(expected, list) else equal_answers
            return len(got) == len(expected) and all(map(equal, got, expected))
        return type(got) in (type(expected), *NUMBERS) and got == expected
    except (OverflowError, ValueError, ArithmeticError):  # no float is as large as an integer may be
        return False


def _equal_entries(got: object, expected: object) -> bool:
    return (type(got) is int or type(expected) is not int) and equal_answers(got, expected)


def in_order(answer: object) -> object:
    """What was listed in any order, or is a set, as an ascending list; anything else as it is.

    >>> in_order((3, 1)), in_order({2, 1}), in_order([1, "a"])
    ([1, 3], [1, 2], [1, 'a'])
    """
    try:
        return sorted(answer) if isinstance(answer, (list, tuple, set)) else answer  # type: ignore[type-var]
    except TypeError:
        return tuple_to_list(answer)


def describe_difference(got: object, expected: object) -> str:
    """What a call gave and what was expected; of long lists only what differs.

    >>> describe_difference([1, 2, 2, 3], [1, 2, 3])
    'gave [1, 2, 2, 3], expected [1, 2, 3]'
    >>> describe_difference({8, 4}, [4, 8])
    'gave {8, 4}, expected a list: [4, 8]'
    >>> describe_difference([*range(39), 0], list(range(40)))
    'gave different entries: at index 39 it has 0, expected 39'
    >>> describe_difference([*range(40), 7], list(range(40)))
    'gave 41 entries, expected 40: 7 is not expected'
    """
    if isinstance(got, FailureText):
        return say("{did}; expected {expected}", did=got, expected=answer_text(expected))
    shown = max(len(answer_text(got)), len(answer_text(expected)))
    if not (isinstance(got, list) and isinstance(expected, list) and shown > SHORT):
        kind = KINDS.get(type(expected))
        a_kind = f"{say(kind)}: " if kind and kind != KINDS.get(type(got)) else ""
        return say(
            "gave {answer}, expected {kind}{expected}",
            answer=answer_text(got),
            kind=a_kind,
            expected=answer_text(expected),
        )
    if len(got) == len(expected):
        places = [n for n, (one, other) in enumerate(zip(got, expected)) if not equal_answers(one, other)]
        differences = [
            say(
                "at index {n} it has {answer}, expected {expected}",
                n=n,
                answer=answer_text(got[n]),
                expected=answer_text(expected[n]),
            )
            for n in places[:SHOWN]
        ]
        differ = "; ".join(differences) + "; …" * (len(places) > SHOWN)
        return say("gave different entries: {differ}", differ=differ)
    extra, missing = _left_over(got, expected), _left_over(expected, got)
    parts = [
        say(
            "{entries} is not expected" if len(extra) == 1 else "{entries} are not expected",
            entries=first_entries_text(extra),
        )
    ] * bool(extra) + [
        say(
            "{entries} is missing" if len(missing) == 1 else "{entries} are missing",
            entries=first_entries_text(missing),
        )
    ] * bool(missing)
    return say(
        "gave 1 entry, expected {expected}: {differs}"
        if len(got) == 1
        else "gave {count} entries, expected {expected}: {differs}",
        count=len(got),
        expected=len(expected),
        differs="; ".join(parts),
    )


def _left_over(entries: list, others: list) -> list:
    """The entries that others lack, or have less often."""
    left = list(entries)
    for entry in others:
        if entry in left:
            left.remove(entry)
    return left


def first_entries_text(entries: Sequence) -> str:
    """The first entries, for people.

    >>> first_entries_text([16]), first_entries_text([1, 2, 3, 4])
    ('16', '1, 2, 3, …')
    """
    return ", ".join(map(answer_text, entries[:SHOWN])) + ", …" * (len(entries) > SHOWN)
