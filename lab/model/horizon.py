"""Which event times have been reached: events are too old compared with these, so no single event or group may move them.

group a   ─●────●──────────────────────────────►  time
group b   ───●────●───────────────────────● (dated ahead)
group c   ──●────●────►                └ it has an event here, but WITNESSES groups have only reached …
group d   ────●─●─►
               └ … this time
"""

from collections.abc import Hashable, Iterable
from heapq import nlargest
from operator import itemgetter
from typing import Any

WITNESSES = (
    4  # groups of a key-group, events of a group, or records of a log that must have a time or a later one
)
NOT_REACHED = -(1 << 62)  # a time before all others


def time_reached(times: Iterable[int]) -> int:
    """The latest time that WITNESSES of some times have reached; NOT_REACHED if there are fewer.

    >>> time_reached([50, 10, 20, 30, 40])
    20
    """
    newest = newest_times(times)
    return newest[-1] if len(newest) == WITNESSES else NOT_REACHED


def newest_times(times: Iterable[int]) -> list[int]:
    """The newest WITNESSES of some times, newest first: all that `time_reached` needs."""
    return nlargest(WITNESSES, times)


def note_time(newest: dict[Any, int], group: Hashable, time: int) -> None:
    """Notes an event of a group in `newest`: the WITNESSES groups with the newest events and the times of these, newest first.

    >>> newest: dict[str, int] = {}
    >>> for group, time in zip("abcdea", (1, 2, 3, 4, 5, 6)):
    ...     note_time(newest, group, time)
    >>> newest
    {'a': 6, 'e': 5, 'd': 4, 'c': 3}
    """
    if time > newest.get(group, NOT_REACHED):
        newest.pop(group, None)
        newest[group] = time
        if len(newest) > 1:
            first = sorted(newest.items(), key=itemgetter(1), reverse=True)[:WITNESSES]
            newest.clear()
            newest.update(first)
