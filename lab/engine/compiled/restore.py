"""Rows that go to state files and come back from them: events in order of arrival, records of what became of them, and resets."""

import numpy as np

from lab.engine.compiled.groups import (
    find_or_add_group,
    find_stored_event,
    has_room_for_event,
    last_event_at_or_before,
    record_reset,
    store_event,
)
from lab.engine.compiled.horizon import note_time
from lab.engine.compiled.layout import (
    ALERTED,
    COUNTS,
    EVENTS,
    GROUP,
    GROUPS,
    ID,
    KEY_GROUP,
    LATER_ALERT,
    NEXT,
    NOTHING,
    PREV,
    RETURNS,
    SEQ,
    TAKES_BACK,
    TIME,
    VALUES,
    njit_without_allocation,
)


@njit_without_allocation
def store_record(store, group, time_ms, record_id, seq, state):
    """Stores a row that says what became of an event (`state`: TAKES_BACK, LATER_ALERT), for readers that load the rows in order of `seq`."""
    event = store.scalars[EVENTS]
    store.scalars[EVENTS] += 1
    store.events[event, :] = 0
    store.events[event, TIME] = time_ms
    store.events[event, ID] = record_id
    store.events[event, SEQ] = seq
    store.links[event, PREV] = NOTHING
    store.links[event, NEXT] = NOTHING
    store.links[event, GROUP] = group
    store.events[event, VALUES] = state


@njit_without_allocation
def find_event_by_seq(store, key_group, seq):
    """The event of a key-group with this seq, NOTHING if none is stored."""
    event = first_row_with_seq(store.events, SEQ, 0, store.scalars[EVENTS], seq)
    while event < store.scalars[EVENTS] and store.events[event, SEQ] == seq:
        if store.group_links[store.links[event, GROUP], KEY_GROUP] == key_group:
            return event
        event += 1  # of another task, before a rescale
    return np.int64(NOTHING)


@njit_without_allocation
def first_row_with_seq(rows, column, low, high, seq):
    """The first of the rows from `low` up to `high`, which are in order of seq, whose seq is not less; `high` if all are."""
    low, high = np.int64(low), np.int64(high)
    while low < high:
        middle = (low + high) >> 1
        if rows[middle, column] < seq:
            low = middle + 1
        else:
            high = middle
    return low


@njit_without_allocation
def record_later_alerts(store, key_groups, seqs, first_seq):
    """Records that alerts were raised at the events with these seqs after they had been evaluated; there must be room for as many rows.

    Row i gets seq first_seq + i, if the event is stored and no alert was raised at it before.
    """
    for row in range(len(seqs)):
        event = find_event_by_seq(store, key_groups[row], seqs[row])
        if event != NOTHING and store.events[event, VALUES] & ALERTED == 0:
            store.events[event, VALUES] |= ALERTED
            group, time_ms = store.links[event, GROUP], store.events[event, TIME]
            store_record(store, group, time_ms, seqs[row], first_seq + row, LATER_ALERT)


@njit_without_allocation
def load_events(store, batch, seqs, first_row):
    """Restores events that were stored before, in order of arrival, without evaluating them.

    From `first_row` on, as far as there is room; returns the row at which it stopped.
    """
    for row in range(first_row, len(batch.times_ms)):
        if not has_room_for_event(store):
            return row
        time_ms = batch.times_ms[row]
        group = find_or_add_group(store, batch.key_groups[row], batch.keys, row)
        last_at_or_before = last_event_at_or_before(store, group, time_ms)
        state = batch.values[row, 0] if store.scalars[RETURNS] else COUNTS
        if state & TAKES_BACK:
            if state == LATER_ALERT:
                stored = find_event_by_seq(store, batch.key_groups[row], batch.event_ids[row])
                if stored != NOTHING:
                    store.events[stored, VALUES] |= ALERTED
            else:
                stored = find_stored_event(store, group, last_at_or_before, time_ms, batch.event_ids[row])
                if stored != NOTHING:
                    store.events[stored, VALUES] &= ~COUNTS
            store_record(store, group, time_ms, batch.event_ids[row], seqs[row], state)
        else:
            store_event(store, group, last_at_or_before, seqs[row], batch, row)
            note_time(store, batch.key_groups[row], group, time_ms)
    return len(batch.times_ms)


@njit_without_allocation
def load_resets(store, keys, key_groups, rule_ids, seqs):
    """Restores where rules were reset, for the groups that still hold events."""
    for row in range(len(keys)):
        groups = store.scalars[GROUPS]
        group = find_or_add_group(store, key_groups[row], keys, row)
        if group < groups:
            record_reset(store, rule_ids[row], group, seqs[row])
