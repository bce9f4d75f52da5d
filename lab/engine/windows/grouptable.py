"""The hash table of groups, made anew on a disk: in the order of its slots, as each page that is touched out of order is read and written again.

groups, in order ──► hash ──► those of a range of slots, sorted ──► slots, in order          as many passes as memory asks for
"""

import numpy as np

from lab.engine.compiled.layout import NOTHING

ROWS_AT_ONCE = 1 << 20  # of groups that are read
GROUPS_A_PASS = 1 << 24  # their slots take 0.3 GB while they are sorted


def fill_group_table(table: np.ndarray, keys: np.ndarray, salt: int) -> None:
    """Puts groups into an empty table, such that `lab.engine.compiled.groups.find_slot` finds them; `keys`: [groups, key columns] int64, all different."""
    passes = len(keys) // GROUPS_A_PASS + 1
    carried = np.empty((0, 2), np.int64)
    for number in range(passes):
        begin, end = (len(table) * each // passes for each in (number, number + 1))
        found = [carried]
        for row in range(0, len(keys), ROWS_AT_ONCE):
            entries = _homes_and_entries(keys[row : row + ROWS_AT_ONCE], row, len(table), salt)
            found.append(entries[(entries[:, 0] >= begin) & (entries[:, 0] < end)])
        carried = _fill(table, begin, end, np.concatenate(found))
    for home, entry in carried.tolist():  # beyond the end: they go on at the beginning
        slot = home % len(table)
        while table[slot] != NOTHING:
            slot = (slot + 1) % len(table)
        table[slot] = entry


def _homes_and_entries(keys: np.ndarray, first_row: int, slots: int, salt: int) -> np.ndarray:
    """[groups, 2]: the slot at which the search for a group begins, and what its slot has: its row, and bits of its hash above."""
    hashes = np.full(len(keys), salt, np.uint64)
    for column in range(keys.shape[1]):
        hashes = _extended(hashes, np.ascontiguousarray(keys[:, column]).view(np.uint64))
    home = (hashes & np.uint64(slots - 1)).astype(np.int64)
    bits = (hashes >> np.uint64(33)).astype(np.int64) & ~np.int64(slots - 1)
    return np.column_stack((home, np.arange(first_row, first_row + len(keys)) | bits))


def _extended(hashes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`lab.engine.compiled.aggregates.distinct.extend_hash`."""
    hashes = (hashes ^ values) * np.uint64(0xFF51AFD7ED558CCD)
    hashes = (hashes ^ (hashes >> np.uint64(32))) * np.uint64(0xC4CEB9FE1A85EC53)
    return hashes ^ (hashes >> np.uint64(32))


def _fill(table: np.ndarray, begin: int, end: int, entries: np.ndarray) -> np.ndarray:
    """Fills the slots from `begin` up to `end`, which are free; returns the entries that find none, with `end` as their home."""
    home, entry = entries[np.argsort(entries[:, 0], kind="stable")].T
    place = np.arange(len(home))
    # the first slot from its home on that is not the one of an entry before
    slot = np.maximum.accumulate(np.maximum(home, begin) - place) + place
    fits = slot < end
    table[slot[fits]] = entry[fits]
    left = entry[~fits]
    return np.column_stack((np.full(len(left), end), left))
