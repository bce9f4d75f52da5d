"""Where the events of questions are evaluated: in private copies of stores, so that nothing is stored."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from lab.engine.records.columns import SOURCE, Columns
from lab.engine.windows.store import Evaluated, RouteStore

ROWS = 64  # events that are evaluated in one copy, at most


@dataclass
class Judged:
    """What the events of a question would give. `alerts`: lines; `fates`: how many events would have which; `too_long`: why it was not judged."""

    alerts: list[str] = field(default_factory=list)
    fates: Counter[str] = field(default_factory=Counter)
    too_long: str = ""


class Questions:
    """The questions about one store, which must not change while they are asked.

    What an event changes belongs to its group, but for the newest times of its key-group, which are put back. So in a copy, the event of
    a group that no question before was about meets the store as it is. Only for another one is a copy made anew: most of a question's
    time goes into the pages that the system copies for it.
    """

    def __init__(self, store: RouteStore):
        self._store, self._asked, self._room = store, set[tuple](), 0
        self._copy: RouteStore

    def evaluate(
        self, columns: Columns, first_seq: int, late_policy: int
    ) -> Iterator[tuple[RouteStore, Columns, Evaluated]]:
        """`RouteStore.evaluate` of the events of some questions, each without the others: in parts, with the store that gives their alerts.

        SOURCE says which question an event is of; those of a question follow each other. What comes is to be used before the next.
        """
        rows, key_groups = len(columns["time"]), columns["keyGroup"].tolist()
        groups = [*map(tuple, self._store.group_keys(columns, rows).tolist())]
        begins = np.flatnonzero(np.diff(columns[SOURCE], prepend=-1)).tolist()
        start, together = 0, set[int]()
        for first, end in pairwise([*begins, rows]):
            mine, of = {*groups[first:end]}, {*key_groups[first:end]}
            is_anew = end - first > self._room or not mine.isdisjoint(self._asked)
            if is_anew or not of.isdisjoint(together):
                yield from self._evaluate(columns, slice(start, first), first_seq, late_policy)
                start, together = first, set()
            if is_anew:
                self._room, self._asked = max(end - first, ROWS), set()
                self._copy = self._store.copy_on_write(self._room)
            self._room -= end - first
            self._asked |= mine
            together |= of
        yield from self._evaluate(columns, slice(start, rows), first_seq, late_policy)

    def _evaluate(
        self, columns: Columns, rows: slice, first_seq: int, late_policy: int
    ) -> Iterator[tuple[RouteStore, Columns, Evaluated]]:
        if rows.start == rows.stop:
            return
        part, copy = {name: values[rows] for name, values in columns.items()}, self._copy
        found = copy.evaluate(part, max(first_seq, copy.last_seq + 1), late_policy)
        of = part["keyGroup"]
        copy.arrays["newest"][of] = self._store.arrays["newest"][of]
        yield copy, part, found
