"""Absence as a compiled loop: what one rule awaits after events, for all key-groups of a task.

    order ──── 15 min ────►        no payment up to here: an alert for the order
    order ── payment ┊             awaited no more

An entry is an event after which one is awaited (OPEN), or one that ended others (MARK), or both; or a record that took an event
back (GONE), after which none is awaited any more. Entries lie in log order, so that
those whose time has passed are before the HEAD.
"""

from typing import NamedTuple

import numpy as np

from lab.engine.compiled.groups import key_place
from lab.engine.compiled.layout import NOTHING, bare

# columns of Arrays.entry; AT: when it was heard of; TIME: of a GONE one the seq of the event; OLDER: the one before of the group; FROM: where its text begins
FLAGS, SEQ, AT, TIME, ID, OLDER, KEY_GROUP, FROM, KEY = range(9)
# LIVE: AT is a log time, not an event time; LEFT: it was OPEN until its event was taken back
OPEN, MARK, LIVE, GONE, LEFT = 1, 2, 4, 8, 16
ENTRIES, HEAD, FIRST_OPEN, TEXT, SALT = range(5)  # places in Arrays.size; no entry before FIRST_OPEN is OPEN
STORED_LATE = 1  # the fates up to this one are those of stored events
TAKEN_BACK, WITHDRAWN = 4, 6  # the fates of records that took an event back


class Arrays(NamedTuple):
    size: np.ndarray
    entry: np.ndarray  # [room, KEY + key columns]
    table: np.ndarray  # the newest entry of each group
    text: np.ndarray  # of an OPEN entry the group as JSON, and its id unless that is a number


class Rows(NamedTuple):
    """Events in log order. `starts`, `ends`: of those after which one is awaited; `text`: theirs, row i from offset[i].

    `takes`: of records that took an event back, that one's seq.
    """

    fate: np.ndarray
    key_group: np.ndarray
    key: np.ndarray
    seq: np.ndarray
    at: np.ndarray
    live: np.ndarray
    time: np.ndarray
    id: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    takes: np.ndarray
    offset: np.ndarray
    text: np.ndarray


@bare
def follow(arrays, rows, window_ms, passed):
    """Takes events in; fills `passed` with the entries that one came too late for, and returns how many."""
    found = 0
    for i in range(len(rows.fate)):
        gone = rows.fate[i] == TAKEN_BACK or rows.fate[i] == WITHDRAWN
        if not gone and (rows.fate[i] > STORED_LATE or not (rows.starts[i] or rows.ends[i])):
            continue
        place = key_place(arrays.table, arrays.entry, KEY, arrays.size[SALT], rows.key, i)
        e = np.int64(arrays.table[place])
        known = e >= arrays.size[HEAD]
        flags = 0
        if gone:
            e = entry_of(arrays, rows.takes[i])
            if e == NOTHING or not arrays.entry[e, FLAGS] & OPEN:
                continue
            flags = GONE
            arrays.entry[e, FLAGS] += LEFT - OPEN
            if arrays.entry[e, AT] + window_ms < rows.at[i]:
                passed[found] = e
                found += 1
        elif rows.ends[i] and known:
            flags = MARK
            while e >= arrays.size[HEAD] and arrays.entry[e, FLAGS] & (OPEN | LEFT | GONE):
                if arrays.entry[e, FLAGS] & OPEN:
                    arrays.entry[e, FLAGS] &= ~OPEN
                    if arrays.entry[e, AT] + window_ms < rows.at[i]:
                        passed[found] = e
                        found += 1
                e = arrays.entry[e, OLDER]
        if rows.starts[i] and rows.fate[i] < STORED_LATE and not gone:
            flags |= OPEN
        if flags == 0:
            continue
        if rows.live[i]:
            flags |= LIVE
        n = arrays.size[ENTRIES]
        arrays.size[ENTRIES] += 1
        entry = arrays.entry[n]
        entry[FLAGS] = flags
        entry[SEQ] = rows.seq[i]
        entry[AT] = rows.at[i]
        entry[TIME] = rows.takes[i] if gone else rows.time[i]
        entry[ID] = rows.id[i]
        entry[OLDER] = arrays.table[place]
        entry[KEY_GROUP] = rows.key_group[i]
        start = arrays.size[TEXT]
        entry[FROM] = start
        if flags & OPEN:
            for b in range(rows.offset[i], rows.offset[i + 1]):
                arrays.text[start] = rows.text[b]
                start += 1
            arrays.size[TEXT] = start
        for k in range(rows.key.shape[1]):
            entry[KEY + k] = rows.key[i, k]
        arrays.table[place] = n
    return found


@bare
def entry_of(arrays, seq):
    """The entry of the event with a seq, NOTHING if there is none behind the HEAD."""
    low, high = arrays.size[HEAD], arrays.size[ENTRIES]
    while low < high:
        middle = (low + high) >> 1
        if arrays.entry[middle, SEQ] < seq:
            low = middle + 1
        else:
            high = middle
    return low if low < arrays.size[ENTRIES] and arrays.entry[low, SEQ] == seq else np.int64(NOTHING)


@bare
def pass_by(arrays, window_ms, live_ms, other_ms, passed):
    """Moves the HEAD behind all that was awaited before a time; fills `passed` with the entries that were, and returns how many."""
    found = 0
    e = arrays.size[HEAD]
    while e < arrays.size[ENTRIES]:
        reached = live_ms if arrays.entry[e, FLAGS] & LIVE else other_ms
        if arrays.entry[e, AT] + window_ms >= reached:
            break
        if arrays.entry[e, FLAGS] & OPEN:
            passed[found] = e
            found += 1
        e += 1
    arrays.size[HEAD] = e
    return found


@bare
def keep(arrays, kept):
    """Marks the entries that may still be told, or tell that others are not; `kept` is of zeros."""
    for place in range(len(arrays.table)):
        e = np.int64(arrays.table[place])
        while e >= arrays.size[HEAD]:
            if arrays.entry[e, FLAGS] & (OPEN | MARK | GONE):
                kept[e] = 1
            if arrays.entry[e, FLAGS] & MARK:
                break
            e = arrays.entry[e, OLDER]


@bare
def text_end(arrays, e):
    """Where the text of an entry ends."""
    return arrays.size[TEXT] if e + 1 == arrays.size[ENTRIES] else arrays.entry[e + 1, FROM]


@bare
def text_bytes(arrays, kept):
    """How long the texts of the entries are that are kept."""
    found = np.int64(0)
    for e in range(arrays.size[ENTRIES]):
        if kept[e]:
            found += text_end(arrays, e) - arrays.entry[e, FROM]
    return found


@bare
def copy(old, new, kept):
    """Copies the entries that are kept to an empty place, and has that find them."""
    key = old.entry[:, KEY:]
    for e in range(old.size[ENTRIES]):
        if not kept[e]:
            continue
        n = new.size[ENTRIES]
        new.size[ENTRIES] += 1
        for column in range(old.entry.shape[1]):
            new.entry[n, column] = old.entry[e, column]
        new.entry[n, FROM] = new.size[TEXT]
        for b in range(old.entry[e, FROM], text_end(old, e)):
            new.text[new.size[TEXT]] = old.text[b]
            new.size[TEXT] += 1
        place = key_place(new.table, new.entry, KEY, new.size[SALT], key, e)
        new.entry[n, OLDER] = new.table[place]
        new.table[place] = n


@bare
def first_open(arrays):
    """The first entry after which one is awaited; ENTRIES if there is none."""
    e = max(arrays.size[FIRST_OPEN], arrays.size[HEAD])
    while e < arrays.size[ENTRIES] and not arrays.entry[e, FLAGS] & OPEN:
        e += 1
    arrays.size[FIRST_OPEN] = e
    return e
