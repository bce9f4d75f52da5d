"""Finds the shortest history on which a function and the reference differ.

Histories are made from seeds, the first of one event, the last of many, so what is found is short already. Then whatever
makes it smaller and still differs is taken, until nothing does.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from lab.model.language import say
from lab.teach.learner import FailureText, TimeLimitExceeded, call_with_time_limit

HISTORIES, LONGEST = 400, 8  # how many are tried, and the events of the last ones
SECONDS, SHRINKING_S = 30, 4
CALL_S = 2  # of computing; a history takes a function less than a hundredth of that, unless it does not end


ENDLESS = FailureText("did not finish")


def failure_words(failure: FailureText) -> str:
    """What a function did in place of giving an answer, in the reader's language."""
    if failure is ENDLESS:
        return say(
            "did not finish within {seconds} s: is there a loop that never ends?", seconds=f"{CALL_S:g}"
        )
    return failure


@dataclass(frozen=True)
class Difference:
    """At which entry of a history they differ, and how."""

    entry_index: int
    expected: Any
    got: Any


class Game(Protocol):
    """What a function is given, what the reference makes of the same, and how to tell it."""

    def random_history(self, seed: int, event_count: int) -> Any:
        """A history with so many events."""

    def run(self, function: Callable, history: Any) -> list:
        """The function's answers to the entries; a `FailureText` is the last one."""

    def first_difference(self, history: Any, answers: list) -> Difference | None:
        """The first answer that is not the reference's."""

    def hidden_state_fault(self, function: Callable) -> str:
        """What to say to a function that remembers where it should not; nothing if it does not."""

    def simpler_histories(self, history: Any) -> Iterator[Any]:
        """Histories that are a little smaller."""

    def size(self, history: Any) -> tuple:
        """What is made small, the most important first."""

    def describe_difference(self, history: Any, difference: Difference) -> str:
        """Describes the history and the difference in words."""

    def draw_difference(self, history: Any, difference: Difference) -> str:
        """As a picture, in HTML."""


@dataclass(frozen=True)
class AttackResult:
    """The result of an attack, and the number of histories tried."""

    histories_tried: int
    history: Any = None
    difference: Difference | None = None


def shortest_counterexample(game: Game, function: Callable) -> AttackResult:
    """The shortest history that was found; none if the function stood all of them."""
    found = first_counterexample(game, function)
    if found.difference is None or found.difference.got is ENDLESS:
        return found
    return AttackResult(found.histories_tried, *_shrunk(game, function, found.history, found.difference))


def first_counterexample(game: Game, function: Callable) -> AttackResult:
    """The first history on which a function and the reference differ, as it is."""
    end = time.monotonic() + SECONDS
    for seed in range(HISTORIES):
        history = game.random_history(seed, 1 + seed * LONGEST // HISTORIES)
        if difference := game.first_difference(history, game.run(function, history)):
            return AttackResult(seed + 1, history, difference)
        if time.monotonic() > end:
            return AttackResult(seed + 1)
    return AttackResult(HISTORIES)


def _shrunk(game: Game, function: Callable, history: Any, difference: Difference) -> tuple[Any, Difference]:
    end = time.monotonic() + SHRINKING_S
    smaller = True
    while smaller:
        smaller = False
        for candidate in game.simpler_histories(history):
            if time.monotonic() > end:
                return history, difference
            if game.size(candidate) >= game.size(history):
                continue
            if found := game.first_difference(candidate, game.run(function, candidate)):
                history, difference, smaller = candidate, found, True
                break
    return history, difference


def play_until_time_limit(play: Callable[[], None]) -> None:
    """Plays a history, and stops without an error if this takes longer than a function may."""
    try:
        call_with_time_limit(CALL_S, play)
    except TimeLimitExceeded:
        pass  # what was asked last has no answer yet: `ENDLESS`
