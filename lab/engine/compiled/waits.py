"""Absence as a compiled loop: what one rule awaits after events, for all key-groups of a task.

    order ──── 15 min ────►        no payment up to here: an alert for the order
    order ── payment ┊             awaited no more

An entry is an event after which one is awaited (OPEN), or one that ended others (MARK), or both; or a record that took an event
back (GONE), after which none is awaited any more. Entries lie in log order, so that
those whose time has passed are before the HEAD. Each task numbers its events by itself. So after a rescale, the
entries of several tasks are not in order of SEQ: BY_SEQ has their rows in this order, to look them up.
"""

from typing import NamedTuple

import numpy as np

from lab.engine.compiled.groups import fill_slot, find_slot, row_in_slot
from lab.engine.compiled.layout import NOTHING, njit_without_allocation

# columns of WaitArrays.entries; AT: when the event arrived; TIME: if GONE, the seq of the event; OLDER: the group's previous entry; FROM: where its text begins
# BY_SEQ is not about the entry in its row: down this column stand the rows of all entries in order of SEQ
FLAGS, SEQ, AT, TIME, ID, OLDER, KEY_GROUP, FROM, BY_SEQ, KEY = range(10)
# LIVE: AT is a log time, not an event time; LEFT: it was OPEN until its event was taken back; DUE: its alert was due when its wait ended
OPEN, MARK, LIVE, GONE, LEFT, DUE = 1, 2, 4, 8, 16, 32
ENTRIES, HEAD, FIRST_OPEN, TEXT, SALT = range(
    5
)  # places in WaitArrays.scalars; no entry before FIRST_OPEN is OPEN
STORED_LATE = 1  # the fates up to this one are those of stored events
TAKEN_BACK, WITHDRAWN = 4, 6  # the fates of records that took an event back


class WaitArrays(NamedTuple):
    scalars: np.ndarray
    entries: np.ndarray  # [room, KEY + key columns]
    newest_entries: np.ndarray  # the newest entry of each group
    texts: np.ndarray  # for each OPEN entry the group as JSON, and the event's id unless it is a number


class WaitRows(NamedTuple):
    """Events in log order. `starts_wait`: the event starts a wait; `ends_wait`: it ends waits; `texts`: row i from text_offsets[i].

    `arrived_ms`: a log time if `is_live`, else an event time. `taken_back_seqs`: if the record took an event back, the seq of that event.
    """

    fates: np.ndarray
    key_groups: np.ndarray
    keys: np.ndarray
    seqs: np.ndarray
    arrived_ms: np.ndarray
    is_live: np.ndarray
    times_ms: np.ndarray
    event_ids: np.ndarray
    starts_wait: np.ndarray
    ends_wait: np.ndarray
    taken_back_seqs: np.ndarray
    text_offsets: np.ndarray
    texts: np.ndarray


@njit_without_allocation
def add_rows(arrays, rows, window_ms, due_entries):
    """Adds events; fills `due_entries` with the waits that they would have ended but came too late for, and returns how many.

    The fate of a record that takes back the event of such a wait becomes WITHDRAWN.
    """
    found = 0
    for i in range(len(rows.fates)):
        gone = rows.fates[i] == TAKEN_BACK or rows.fates[i] == WITHDRAWN
        if not gone and (rows.fates[i] > STORED_LATE or not (rows.starts_wait[i] or rows.ends_wait[i])):
            continue
        slot = find_slot(arrays.newest_entries, arrays.entries, KEY, arrays.scalars[SALT], rows.keys, i)
        entry_row = row_in_slot(arrays.newest_entries, slot)
        known = entry_row >= arrays.scalars[HEAD]
        flags = 0
        if gone:
            entry_row = find_entry(arrays, rows.key_groups[i], rows.taken_back_seqs[i])
            if entry_row == NOTHING:
                continue
            if arrays.entries[entry_row, FLAGS] & DUE:
                rows.fates[i] = WITHDRAWN
            if not arrays.entries[entry_row, FLAGS] & OPEN:
                continue
            flags = GONE
            arrays.entries[entry_row, FLAGS] += LEFT - OPEN
            if arrays.entries[entry_row, AT] + window_ms < rows.arrived_ms[i]:
                rows.fates[i] = WITHDRAWN
                due_entries[found] = entry_row
                found += 1
        elif rows.ends_wait[i] and known:
            flags = MARK
            while entry_row >= arrays.scalars[HEAD] and arrays.entries[entry_row, FLAGS] & (
                OPEN | LEFT | GONE
            ):
                if arrays.entries[entry_row, FLAGS] & OPEN:
                    arrays.entries[entry_row, FLAGS] &= ~OPEN
                    if arrays.entries[entry_row, AT] + window_ms < rows.arrived_ms[i]:
                        arrays.entries[entry_row, FLAGS] |= DUE
                        due_entries[found] = entry_row
                        found += 1
                entry_row = arrays.entries[entry_row, OLDER]
        if rows.starts_wait[i] and rows.fates[i] < STORED_LATE and not gone:
            flags |= OPEN
        if flags == 0:
            continue
        if rows.is_live[i]:
            flags |= LIVE
        n = arrays.scalars[ENTRIES]
        arrays.scalars[ENTRIES] += 1
        entry = arrays.entries[n]
        entry[FLAGS] = flags
        entry[SEQ] = rows.seqs[i]
        entry[AT] = rows.arrived_ms[i]
        entry[TIME] = rows.taken_back_seqs[i] if gone else rows.times_ms[i]
        entry[ID] = rows.event_ids[i]
        entry[OLDER] = row_in_slot(arrays.newest_entries, slot)
        entry[KEY_GROUP] = rows.key_groups[i]
        start = arrays.scalars[TEXT]
        entry[FROM] = start
        entry[BY_SEQ] = n
        if flags & OPEN:
            for b in range(rows.text_offsets[i], rows.text_offsets[i + 1]):
                arrays.texts[start] = rows.texts[b]
                start += 1
            arrays.scalars[TEXT] = start
        for k in range(rows.keys.shape[1]):
            entry[KEY + k] = rows.keys[i, k]
        fill_slot(arrays.newest_entries, slot, arrays.scalars[SALT], rows.keys, i, n)
    return found


@njit_without_allocation
def find_entry(arrays, key_group, seq):
    """The entry of the event of a key-group with a seq, NOTHING if there is none behind the HEAD."""
    place, high = np.int64(0), arrays.scalars[ENTRIES]
    while place < high:
        middle = (place + high) >> 1
        if arrays.entries[arrays.entries[middle, BY_SEQ], SEQ] < seq:
            place = middle + 1
        else:
            high = middle
    while place < arrays.scalars[ENTRIES]:
        entry_row = arrays.entries[place, BY_SEQ]
        if arrays.entries[entry_row, SEQ] != seq:
            break
        if arrays.entries[entry_row, KEY_GROUP] == key_group and entry_row >= arrays.scalars[HEAD]:
            return entry_row
        place += 1  # of another task, before a rescale
    return np.int64(NOTHING)


@njit_without_allocation
def advance_head(arrays, window_ms, reached_log_ms, newest_event_ms, due_entries):
    """Moves the HEAD past all waits that ended before a time; fills `due_entries` with those that are due, and returns how many."""
    found = 0
    entry_row = arrays.scalars[HEAD]
    while entry_row < arrays.scalars[ENTRIES]:
        reached = reached_log_ms if arrays.entries[entry_row, FLAGS] & LIVE else newest_event_ms
        if arrays.entries[entry_row, AT] + window_ms >= reached:
            break
        if arrays.entries[entry_row, FLAGS] & OPEN:
            due_entries[found] = entry_row
            found += 1
        entry_row += 1
    arrays.scalars[HEAD] = entry_row
    return found


@njit_without_allocation
def mark_needed_entries(arrays, is_needed):
    """Marks in `is_needed`, which must be all zeros, the entries that may still cause an alert or prevent one."""
    for slot in range(len(arrays.newest_entries)):
        entry_row = row_in_slot(arrays.newest_entries, slot)
        while entry_row >= arrays.scalars[HEAD]:
            if arrays.entries[entry_row, FLAGS] & (OPEN | MARK | GONE):
                is_needed[entry_row] = 1
            if arrays.entries[entry_row, FLAGS] & MARK:
                break
            entry_row = arrays.entries[entry_row, OLDER]


@njit_without_allocation
def text_end(arrays, entry_row):
    """Where the text of an entry ends."""
    return (
        arrays.scalars[TEXT]
        if entry_row + 1 == arrays.scalars[ENTRIES]
        else arrays.entries[entry_row + 1, FROM]
    )


@njit_without_allocation
def text_bytes(arrays, entry_rows):
    """The length of the texts of some entries, in bytes."""
    found = np.int64(0)
    for i in range(len(entry_rows)):
        entry_row = entry_rows[i]
        found += text_end(arrays, entry_row) - arrays.entries[entry_row, FROM]
    return found


@njit_without_allocation
def copy_entries(old, new, entry_rows):
    """Copies some entries, in this order, to empty arrays, and fills their index. The caller fills BY_SEQ."""
    key = old.entries[:, KEY:]
    for i in range(len(entry_rows)):
        entry_row = entry_rows[i]
        n = new.scalars[ENTRIES]
        new.scalars[ENTRIES] += 1
        for column in range(old.entries.shape[1]):
            new.entries[n, column] = old.entries[entry_row, column]
        new.entries[n, FROM] = new.scalars[TEXT]
        for b in range(old.entries[entry_row, FROM], text_end(old, entry_row)):
            new.texts[new.scalars[TEXT]] = old.texts[b]
            new.scalars[TEXT] += 1
        slot = find_slot(new.newest_entries, new.entries, KEY, new.scalars[SALT], key, entry_row)
        new.entries[n, OLDER] = row_in_slot(new.newest_entries, slot)
        fill_slot(new.newest_entries, slot, new.scalars[SALT], key, entry_row, n)


@njit_without_allocation
def find_first_open(arrays):
    """The first entry after which one is awaited; ENTRIES if there is none."""
    entry_row = max(arrays.scalars[FIRST_OPEN], arrays.scalars[HEAD])
    while entry_row < arrays.scalars[ENTRIES] and not arrays.entries[entry_row, FLAGS] & OPEN:
        entry_row += 1
    arrays.scalars[FIRST_OPEN] = entry_row
    return entry_row
