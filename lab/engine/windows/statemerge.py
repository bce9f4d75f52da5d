"""Merges state files in short slices, so that no event waits long for it.

    epoch        │ ▪ saved │ … pauses … │ ▪ saved │ … pauses … │ ▪ saved, then ▬ │
    merge   planned        rows exported, encoded                written

Rows come from memory, where those that have expired or no longer count are gone. What an epoch has removed is missing in a file whose
rows were exported during that epoch. So the file is written only when that epoch is saved and the next one has written its own file:
whoever still runs an earlier epoch then finds that it is stale, and all others begin after what is missing.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lab.engine.windows.evaluate import Windows
from lab.engine.windows.statefiles import (
    NOTHING,
    RowSummary,
    StateFile,
    begin_encoding,
    columns_to_table,
    first_seq,
    stores_to_table,
)

SLICE_ROWS = 8192  # a slice takes 1 to 3 ms
NO_ROWS = np.empty(0, np.int64)


class Merge:
    """A merge of consecutive files of a chain into `file`.

    `exported_in`: the last epoch in which rows were looked for. `content`: the new file's bytes, when all slices are done.
    """

    def __init__(self, windows: Windows, files: Sequence[StateFile], file: StateFile):
        self.windows, self.files, self.file = windows, files, file
        self.exported_in, self.content = -1, bytearray()
        self.summary = RowSummary()
        self._epoch = -1
        self._slices = self._work()

    def replaced_in(self, chain: Sequence[StateFile], file: StateFile) -> list[StateFile]:
        """The chain with a file in place of those that are merged."""
        first = [of.name for of in chain].index(self.files[0].name)
        return [*chain[:first], file, *chain[first + len(self.files) :]]

    def slice(self, epoch: int) -> bool:
        """Does a little more during an epoch; False if nothing is left to do but to write the file."""
        self._epoch = epoch
        return next(self._slices, False)

    def finish(self, epoch: int) -> None:
        """Does all that is left during an epoch."""
        while self.slice(epoch):
            pass

    def _work(self) -> Iterator[bool]:
        pieces: deque[pa.Table] = deque()
        for rows in self._exported():
            self.exported_in = self._epoch
            if len(rows):
                self.summary.add(rows)
                pieces.append(rows)
            yield True
        self.exported_in = self._epoch  # a route may have gone since the last rows
        schema = pa.unify_schemas([NOTHING.schema, *(rows.schema for rows in pieces)])
        encoder = begin_encoding(self.file, schema, self.summary, use_threads=False)
        while pieces:
            batch = [pieces.popleft()]
            room = SLICE_ROWS - len(batch[0])
            while pieces and len(pieces[0]) <= room:
                room -= len(pieces[0])
                batch.append(pieces.popleft())
            encoder.add(*batch)
            yield True
        self.content = encoder.finish()

    def _exported(self) -> Iterator[pa.Table]:
        """The rows, as far as they still count, a slice at a time. Between two slices, rules and arrays may change."""
        start, end = first_seq(self.file.first_epoch), first_seq(self.file.last_epoch + 1)
        for number in list(self.windows.stores):
            seq = start
            while seq < end and number in self.windows.stores:
                store = self.windows.stores[number]
                # after a rescale, several events may have one seq
                upto = min(max(store.seq_of_row_after(seq, SLICE_ROWS), seq + 1), end)
                yield columns_to_table([(number, store.export_events(seq, upto))])
                seq = upto
            if number in self.windows.stores:
                resets = self.windows.export_resets(number, start, end)
                yield stores_to_table([(number, {"seq": NO_ROWS}, resets)])
        for place in [each.path for each in self.windows.all_waits]:
            for epoch in range(self.file.first_epoch, self.file.last_epoch + 1):
                yield columns_to_table(
                    (number, each.export(first_seq(epoch), first_seq(epoch + 1)))
                    for number, of in self.windows.waits.items()
                    for each in of
                    if each.path == place
                )


# -- which files are merged next ---------------------------------------------------------------------------------------


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
