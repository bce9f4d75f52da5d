"""The hash table of groups, made anew on a disk: in the order of its slots, as each page that is touched out of order is read and written again.

groups, in order ──► hash ──► those of a range of slots, sorted ──► slots, in order          as many passes as memory asks for
"""

import numpy as np

from lab.engine.compiled.layout import LOW_BITS, NOTHING

ROWS_AT_ONCE = 1 << 18  # of groups that are read
GROUPS_A_PASS = 1 << 22  # they take 16 bytes each, in memory that may be scarce


def fill_group_table(table: np.ndarray, keys: np.ndarray, salt: int) -> None:
    """Puts groups into an empty table, such that `lab.engine.compiled.groups.find_slot` finds them; `keys`: [groups, key columns] int64, all different."""
    passes = len(keys) // GROUPS_A_PASS + 1
    carried = np.empty(0, np.int64)  # what found no slot in the range before
    for number in range(passes):
        begin, end = (len(table) * each // passes for each in (number, number + 1))
        found = [carried | begin << 32]
        for row in range(0, len(keys), ROWS_AT_ONCE):
            home, entry = _homes_and_entries(keys[row : row + ROWS_AT_ONCE], row, len(table), salt)
            here = np.flatnonzero((home >= begin) & (home < end))
            found.append(home[here] << 32 | entry[here])
        carried = _fill(table, begin, end, np.concatenate(found))
    slot = 0
    for entry in carried.tolist():  # beyond the end: they go on at the beginning
        while table[slot] != NOTHING:
            slot += 1
        table[slot] = entry


def _homes_and_entries(
    keys: np.ndarray, first_row: int, slots: int, salt: int
) -> tuple[np.ndarray, np.ndarray]:
    """Where the search for each group begins, and what its slot has: its row, and bits of its hash above."""
    hashes = np.full(len(keys), salt, np.uint64)
    for column in range(keys.shape[1]):
        hashes = _extended(hashes, np.ascontiguousarray(keys[:, column]).view(np.uint64))
    home = (hashes & np.uint64(slots - 1)).astype(np.int64)
    bits = (hashes >> np.uint64(33)).astype(np.int64) & ~np.int64(slots - 1)
    return home, np.arange(first_row, first_row + len(keys)) | bits


def _extended(hashes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`lab.engine.compiled.aggregates.distinct.extend_hash`."""
    hashes = (hashes ^ values) * np.uint64(0xFF51AFD7ED558CCD)
    hashes = (hashes ^ (hashes >> np.uint64(32))) * np.uint64(0xC4CEB9FE1A85EC53)
    return hashes ^ (hashes >> np.uint64(32))


def _fill(table: np.ndarray, begin: int, end: int, found: np.ndarray) -> np.ndarray:
    """Fills the slots from `begin` up to `end`, which are free; returns the entries that find none. `found`: home << 32 | entry."""
    found.sort()
    free, left = begin, [np.empty(0, np.int64)]
    for row in range(0, len(found), ROWS_AT_ONCE):
        part = found[row : row + ROWS_AT_ONCE]
        home, entry, place = part >> 32, part & LOW_BITS, np.arange(len(part))
        # the first slot from its home on that is not the one of an entry before
        slot = np.maximum.accumulate(np.maximum(home, free) - place) + place
        free, fits = int(slot[-1]) + 1, slot < end
        table[slot[fits]] = entry[fits]
        left.append(entry[~fits])
    return np.concatenate(left)
