"""Attack my engine: a learner's function against the reference, and the shortest history on which they differ.

seeded histories, short ones first ──► function ──┐
                                  └──► reference ─┴─ differ? ──► made shorter, entry by entry ──► told and drawn
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lab.model.language import say
from lab.teach import exercise_of
from lab.teach.attack.search import Game, shortest_counterexample
from lab.teach.judge import OPEN, RIGHT, WRONG, Mistake, Verdict, no_function
from lab.teach.learner import FailureText

ALIKE = 60  # histories on which a typical mistake and the learner's function give the same


def attack(exercise: str, function: Callable) -> Verdict:
    """What `lab.check_function` says, without hints, and it is no try of the learner's: to look at what an attack finds."""
    return exercise_of(exercise).judge(function)


@dataclass(frozen=True)
class AttackExercise:
    """An exercise whose answer is a function that plays a game against the reference.

    >>> from lab.teach.exercises.lesson9 import EXERCISES
    >>> print(EXERCISES["9.2"].judge(lambda memory, event, width, late: [event]))  # doctest: +ELLIPSIS
    ✗ ...
    """

    game: Game
    because: str
    hints: tuple[str, str]
    mistakes: tuple[Mistake, ...]

    def judge(self, function: Any) -> Verdict:
        """Judges a function; no function makes it raise."""
        if refused := no_function(function):
            return refused
        first = self.game.run(function, self.game.random_history(0, 1))
        if any(answer is ... for answer in first):
            return Verdict(OPEN, say("not answered yet"))
        found = shortest_counterexample(self.game, function)
        if found.difference is None:
            return Verdict(
                RIGHT,
                say(
                    "no difference from the reference in {count} histories. {because}",
                    count=f"{found.histories_tried:,}",
                    because=say(self.because),
                ),
            )
        difference = self.game.describe_difference(found.history, found.difference)
        says = "" if isinstance(found.difference.got, FailureText) else self._typical(function, found.history)
        picture = self.game.draw_difference(found.history, found.difference)
        return Verdict(WRONG, "\n".join(filter(None, (says, difference))), picture)

    def _typical(self, function: Callable, shortest: Any) -> str:
        """What to say to the mistake that behaves as this function does."""
        if outside := self.game.hidden_state_fault(function):
            return outside
        histories = [shortest, *(self.game.random_history(seed, 6) for seed in range(ALIKE))]
        mine = [self.game.run(function, history) for history in histories]
        for mistake in self.mistakes:
            if all(self.game.run(mistake.answer, history) == got for history, got in zip(histories, mine)):
                return say(mistake.says)
        return ""
