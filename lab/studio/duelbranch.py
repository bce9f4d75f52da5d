"""A round of a duel once more, with other rules from a moment on: what they would have stopped, and whom they would have hurt.

round ──► its rules ──────┬────────────────► the score that was
                          └─► other rules ─► the score that would have been

Thieves and customers pay the same in both, also where other rules would have given them another answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from lab.desk.branch import Branch
from lab.desk.world import World
from lab.engine.loop.filelogs import FileLogs
from lab.model.alerts import Alert
from lab.model.language import say
from lab.model.schema import PAYMENTS
from lab.stream.simulate import START_MS
from lab.studio.duel import DuelScore, read_round, refused_by, score_of


@dataclass(frozen=True)
class DuelBranch:
    """Two futures of a round. `played`: its score; `other`: that of the other rules."""

    branch: Branch
    played: DuelScore
    other: DuelScore

    def text(self) -> str:
        """For a terminal."""
        return "\n".join((*self._sentences(), self.branch.text()))

    def _sentences(self) -> list[str]:
        return [
            say("As it was played: {score}", score=self.played.describe()),
            say("With the other rules: {score}", score=self.other.describe()),
            say("Thieves and customers pay the same in both, whatever the rules answer."),
        ]

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(each)}</p>" for each in self._sentences()) + self.branch._repr_html_()


def duel_branch(folder: str | Path, rules: Any, from_s: float = 0) -> DuelBranch:
    """A round whose logs were kept, with other rules from a second on. `rules`: all that are in force then, such as sentences.

    Messages about lists and mutes stay those of the round. Raises BadRule, ValueError, OSError.
    """
    events, thefts = read_round(folder)
    world = World.of_logs(FileLogs(Path(folder)), PAYMENTS)
    branch = world.branch(rules, START_MS + int(1000 * from_s))

    def score(lane: Sequence[Alert]) -> DuelScore:
        return score_of(events, thefts, refused_by([*branch.before, *lane]))

    return DuelBranch(branch, score(branch.old), score(branch.new))
