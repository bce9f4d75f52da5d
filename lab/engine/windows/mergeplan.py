"""Which state files the next one replaces: of a level, eight make one of the next, as in a log-structured merge tree."""

from collections.abc import Sequence
from typing import NamedTuple

from lab.engine.windows.statefiles import StateFile

MERGED_AT_ONCE = 8
EVENTS_FREE, EVENTS_AT_MOST = 1 << 17, 1 << 22  # in a file that merges write: in any; in one of large epochs


class MergePlan(NamedTuple):
    """`newest_files`: how many of the newest files of a chain the next one replaces; `level`: of that."""

    newest_files: int
    level: int


def plan_merge(chain: Sequence[StateFile], event_count: int) -> MergePlan:
    """What the next file, of so many events, replaces: eight of a level make one of the next.

    Events wait while a merge is written, so it is small, or no more than eight epochs like this one.

    >>> plan_merge([StateFile(n, n, 0, 3, event_count=5) for n in range(7)], 5)
    MergePlan(newest_files=7, level=1)
    >>> large = [StateFile(n, n, 0, 3, event_count=100_000) for n in range(7)]
    >>> plan_merge(large, 5).newest_files, plan_merge(large, 100_000).newest_files
    (0, 7)
    """
    at_most = min(max(MERGED_AT_ONCE * event_count, EVENTS_FREE), EVENTS_AT_MOST)
    level, taken, merged = 0, 0, event_count
    while True:
        end = len(chain) - taken
        run = chain[max(end - (MERGED_AT_ONCE - 1), 0) : end]
        merged += sum(file.event_count for file in run)
        full = len(run) == MERGED_AT_ONCE - 1 and all(file.level == level for file in run)
        if not full or merged > at_most:
            return MergePlan(taken, level)
        taken, level = taken + len(run), level + 1
