"""Makes what is wrong small enough to read: leaves out entries as long as it stays wrong."""

from collections.abc import Callable, Sequence
from typing import TypeVar

Entry = TypeVar("Entry")


def shrink(entries: Sequence[Entry], is_wrong: Callable[[list[Entry]], bool]) -> list[Entry]:
    """The entries without those that can be left out while `is_wrong` holds: long runs are tried first, then single entries.

    >>> shrink(range(100), lambda kept: {3, 42} <= set(kept))
    [3, 42]
    """
    kept, run = list(entries), max(len(entries) // 2, 1)
    while run:
        place = 0
        while place < len(kept):
            fewer = kept[:place] + kept[place + run :]
            if is_wrong(fewer):
                kept = fewer
            else:
                place += run
        run //= 2
    return kept
