"""Questions without an answer for the learner: three of a lesson, and an exit test of five minutes for each plan of a workshop.

They stand in `questions.toml`. `lab.TransferQuestions` and `lab.ExitTest` ask them, and `lab class report` tells an instructor
what wrong answers show.
"""

import tomllib
from pathlib import Path
from typing import NamedTuple

WHEN, EXIT = ("before", "after", "later"), "exit"


class Question(NamedTuple):
    """A question with options; `right`: the number of the right one, `shows`: what the others do."""

    text: str
    options: tuple[str, ...]
    right: int
    shows: str


def _read_questions() -> dict[str, tuple[Question, ...]]:
    found = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {
        name: tuple(Question(**row | {"options": tuple(row["options"])}) for row in rows)
        for name, rows in found.items()
    }


QUESTIONS = _read_questions()  # by lesson, or plan of a workshop


def times_of(name: str) -> tuple[str, ...]:
    """When questions are asked: those of a lesson three times, those of a plan at its end.

    >>> times_of("3"), times_of("half-day")
    (('before', 'after', 'later'), ('exit',))
    """
    return WHEN if name.isdigit() else (EXIT,)


def names_of_lessons() -> list[str]:
    """The lessons that have questions."""
    return [name for name in QUESTIONS if name.isdigit()]


def names_of_plans() -> list[str]:
    """The plans of a workshop."""
    return [name for name in QUESTIONS if not name.isdigit()]
