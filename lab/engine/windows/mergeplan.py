"""Decides which state files the next one replaces: eight files of a level become one of the next level, as in a log-structured merge tree."""

from collections.abc import Sequence
from typing import NamedTuple

from lab.engine.windows.statefiles import StateFile

MERGED_AT_ONCE = 8
# a merged file may always have EVENTS_FREE events, and never more than EVENTS_AT_MOST
EVENTS_FREE, EVENTS_AT_MOST = 1 << 17, 1 << 22


class MergePlan(NamedTuple):
    """`newest_files`: how many of the newest files of a chain the next file replaces; `level`: the level of the next file."""

    newest_files: int
    level: int


def plan_merge(chain: Sequence[StateFile], event_count: int) -> MergePlan:
    """What the next file, with `event_count` events of its own, replaces: eight files of a level become one of the next level.

    Events wait while a merged file is written, so the file is small, or has at most eight times as many events as this epoch.

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
