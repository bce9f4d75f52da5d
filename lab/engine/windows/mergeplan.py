"""Decides which state files are merged next: eight files of a level become one of the next level, as in a log-structured merge tree."""

from collections.abc import Sequence
from typing import NamedTuple

from lab.engine.windows.statefiles import StateFile

MERGED_AT_ONCE = 8
# a merged file may always have EVENTS_FREE events, and never more than EVENTS_AT_MOST
EVENTS_FREE, EVENTS_AT_MOST = 1 << 17, 1 << 22


class MergePlan(NamedTuple):
    """Merge the files `first` … `end` - 1 of a chain into one of level `level`."""

    first: int
    end: int
    level: int


def plan_merge(chain: Sequence[StateFile], event_count: int) -> MergePlan | None:
    """Which files are merged next, the oldest that can be, if any; `event_count`: how many events the newest epoch stored.

    Those of which a rescale has left several with the same epochs are merged together. So that a merge is done soon, its file is
    small, or has at most eight times as many events as the newest epoch.

    >>> plan_merge([StateFile(n, n, 0, 3, event_count=5) for n in range(9)], 5)
    MergePlan(first=0, end=8, level=1)
    >>> large = [StateFile(n, n, 0, 3, event_count=100_000) for n in range(8)]
    >>> plan_merge(large, 5) is None, plan_merge(large, 100_000) is None
    (True, False)
    """
    at_most = min(max(MERGED_AT_ONCE * event_count, EVENTS_FREE), EVENTS_AT_MOST)
    for first in range(len(chain) - MERGED_AT_ONCE + 1):
        run = chain[first : first + MERGED_AT_ONCE]
        if all(file.level == run[0].level for file in run):
            begin, end = _with_all_of_their_epochs(chain, first, first + MERGED_AT_ONCE)
            merged = chain[begin:end]
            if sum(file.event_count for file in merged) <= at_most:
                return MergePlan(begin, end, max(file.level for file in merged) + 1)
    return None


def _with_all_of_their_epochs(chain: Sequence[StateFile], first: int, end: int) -> tuple[int, int]:
    """The files `first` … `end` - 1, and those beside them that have some of the same epochs: of other tasks, from before a rescale."""
    while True:
        oldest = min(file.first_epoch for file in chain[first:end])
        newest = max(file.last_epoch for file in chain[first:end])
        alike = [
            number
            for number, file in enumerate(chain)
            if file.last_epoch >= oldest and file.first_epoch <= newest
        ]
        if (alike[0], alike[-1] + 1) == (first, end):
            return first, end
        first, end = alike[0], alike[-1] + 1
