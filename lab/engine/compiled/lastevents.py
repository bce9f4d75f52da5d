"""Windows of the last so many events of a group: `over 10 events within 1 d`.

    of 3 events    a  b ┤c  d  e┤        window of e: c d e, of which those count that the aggregate counts
                       within 1 d

An event in order enters at the newer end, and what is too many or too old goes at the older end, as in any window. For a late event
the window is filled anew, from the event back, and after it again: that takes as many steps as the window has events. So does an
event that is taken back. The last lane of an accumulator says how many events the window has.
"""

import numpy as np

from lab.engine.compiled.aggregates.counted import COUNT_SINCE
from lab.engine.compiled.aggregates.forms import (
    DISTINCT,
    clear_accumulator,
    enter_window,
    leave_window,
    measure_of_accumulator,
)
from lab.engine.compiled.groups import find_reset_slot
from lab.engine.compiled.layout import (
    COUNTS,
    LANES,
    NEWEST,
    NEXT,
    NOTHING,
    PATIENCE,
    PREV,
    RESET,
    RESET_SEQ,
    RETURNS,
    START,
    TIME,
    VALUES,
    njit_without_allocation,
)


@njit_without_allocation
def find_or_allocate_accumulator(store, rules, aggregate, group):
    """Where in `accumulators` the accumulator of an aggregate and a group begins; allocates it for the group's first event."""
    offset = np.int64(store.accumulator_starts[group, aggregate])
    if offset == NOTHING:
        offset = store.scalars[LANES]
        store.scalars[LANES] += rules.aggregates[aggregate].width
        store.accumulator_starts[group, aggregate] = offset
        store.accumulators[offset + START] = NOTHING
        store.accumulators[offset + PATIENCE] = 0
        if rules.aggregates[aggregate].kind == COUNT_SINCE:
            store.accumulators[offset + RESET] = store.reset_table[
                find_reset_slot(store, rules.aggregates[aggregate].rule_id, group), RESET_SEQ
            ]
    return offset


@njit_without_allocation
def measure_last_events(store, rules, aggregate, group, event, horizon_ms):
    """The aggregate over the last events up to an event, which is late or the newest of its group."""
    offset = find_or_allocate_accumulator(store, rules, aggregate, group)
    accumulator = store.accumulators[offset : offset + rules.aggregates[aggregate].width]
    excludes = rules.aggregates[aggregate].excludes != 0
    start_ms = max(store.events[event, TIME] - rules.aggregates[aggregate].window, horizon_ms)
    in_order = event == store.group_links[group, NEWEST]
    if accumulator[START] != NOTHING and in_order:
        while store.events[accumulator[START], TIME] < start_ms:
            remove_oldest(store, rules, aggregate, accumulator)
    else:
        fill_with_events_before(store, rules, aggregate, accumulator, event, start_ms)
    measure = measure_of_accumulator(store, rules, aggregate, accumulator)
    enter_window(store, rules, aggregate, accumulator, event)
    accumulator[-1] += 1
    while accumulator[-1] > rules.aggregates[aggregate].last_events:
        remove_oldest(store, rules, aggregate, accumulator)
    if not excludes:
        measure = measure_of_accumulator(store, rules, aggregate, accumulator)
    if not in_order:
        drop_events_up_to(store, rules, aggregate, accumulator, event, NOTHING)
    return measure


@njit_without_allocation
def fill_with_events_before(store, rules, aggregate, accumulator, event, start_ms):
    """Fills an empty window with the last events before an event that are not older than `start_ms`."""
    clear_accumulator(rules, aggregate, accumulator)
    accumulator[START], accumulator[-1] = event, 0
    before = store.links[event, PREV]
    while (
        before != NOTHING
        and store.events[before, TIME] >= start_ms
        and accumulator[-1] < rules.aggregates[aggregate].last_events
    ):
        accumulator[START] = before
        accumulator[-1] += has_place(store, before)
        before = store.links[before, PREV]
    each = accumulator[START]
    while each != event:
        enter_window(store, rules, aggregate, accumulator, each)
        each = store.links[each, NEXT]


@njit_without_allocation
def has_place(store, event):
    """1 for an event of the group, 0 for one that was taken back."""
    return np.int64(store.scalars[RETURNS] == 0 or store.events[event, VALUES] & COUNTS != 0)


@njit_without_allocation
def remove_oldest(store, rules, aggregate, accumulator):
    start = accumulator[START]
    leave_window(store, rules, aggregate, accumulator, start)
    accumulator[-1] -= has_place(store, start)
    accumulator[START] = store.links[start, NEXT]


@njit_without_allocation
def drop_last_events(store, rules, aggregate, accumulator, late_event):
    """Empties a window that ends with the newest event, if it is kept, without `late_event`, which has not entered it."""
    if accumulator[START] != NOTHING:
        drop_events_up_to(store, rules, aggregate, accumulator, NOTHING, late_event)


@njit_without_allocation
def forget_last_events(store, rules, aggregate, group, event):
    """Empties the window of a group that no rule asks for now, so that it does not have an event that has just come."""
    offset = np.int64(store.accumulator_starts[group, aggregate])
    if offset != NOTHING:
        accumulator = store.accumulators[offset : offset + rules.aggregates[aggregate].width]
        drop_last_events(store, rules, aggregate, accumulator, event)


@njit_without_allocation
def drop_events_up_to(store, rules, aggregate, accumulator, last_event, late_event):
    """Empties a window; `last_event`: that with which it ends, NOTHING for the newest. Only a table of values has to be told."""
    each = accumulator[START]
    while rules.aggregates[aggregate].kind == DISTINCT and each != NOTHING:
        if each != late_event:
            leave_window(store, rules, aggregate, accumulator, each)
        each = NOTHING if each == last_event else store.links[each, NEXT]
    accumulator[START] = NOTHING
