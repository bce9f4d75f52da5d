"""Windows that are not simply the time up to the event: the last events, a window that ends earlier, a session.

    of 3 events     a  b ┤c  d  e┤        over 3 events within 1 d: c d e, of which those count that the aggregate counts
                        within 1 d

    ending 1 h before    ┤a  b┤  c  d  e  over 10 min ending 1 h before: a b
                      10 min │── 1 h ──│

    session       a  b        ┤c  d  e┤   over a session with gaps up to 30 min within 1 d: c d e
                     │─ gap ──│

The running window of a group has the events from the one in lane START up to that in lane END, which is its first event after the window.
With an event in order both move on. A late event that belongs into it enters; where the window cannot simply be changed, also by an event
that is taken back, it is dropped and filled anew. The window of a late event is added up apart; but a table or a tree of values has
no second copy, sequences do not add up, and no total tells which events are the last, so there it is filled with the window of the late event, and dropped.
"""

import numpy as np

from lab.engine.compiled.aggregates.counted import COUNT_SINCE
from lab.engine.compiled.aggregates.forms import (
    DISTINCT,
    ORDERED,
    OTHER_WINDOW_LANES,
    STEPS,
    clear_accumulator,
    enter_window,
    leave_window,
    measure_of_accumulator,
)
from lab.engine.compiled.aggregates.queues import has_queue
from lab.engine.compiled.aggregates.sums import LIMBS
from lab.engine.compiled.blocks import (
    HALF,
    add_events_to_sums,
    aggregate_time_range,
    clear_sums,
    ensure_blocks_if_long,
    has_blocks,
)
from lab.engine.compiled.groups import find_reset_slot, is_not_taken_back, last_event_at_or_before
from lab.engine.compiled.layout import (
    GROUP,
    LANES,
    NEWEST,
    NEXT,
    NOTHING,
    PATIENCE,
    PREV,
    RESET,
    RESET_SEQ,
    START,
    TIME,
    njit_without_allocation,
)

# lanes: the first event after the window, NOTHING if there is none; how many events of the group it has; of a session, when the last one was
END, PLACES, LAST_MS = -3, -2, -1


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
def adds_up(rules, aggregate):
    """Whether an aggregate of such a window can be added up apart from the running window, by time."""
    kind = rules.aggregates[aggregate].kind
    is_copied = kind != DISTINCT and kind != ORDERED and kind != STEPS
    return is_copied and rules.aggregates[aggregate].last_events == 0


@njit_without_allocation
def measure_other_window(store, rules, aggregate, group, event, horizon_ms):
    """The aggregate over the window of an event, which is late or the newest of its group."""
    offset = find_or_allocate_accumulator(store, rules, aggregate, group)
    accumulator = store.accumulators[offset : offset + rules.aggregates[aggregate].width]
    end_ms = store.events[event, TIME] - rules.aggregates[aggregate].ends_before
    start_ms = max(end_ms - rules.aggregates[aggregate].window, horizon_ms)
    in_order = event == store.group_links[group, NEWEST]
    if adds_up(rules, aggregate) and not in_order:
        return add_up_window(store, rules, aggregate, accumulator, group, event, start_ms, end_ms)
    if not in_order:
        drop_window(store, rules, aggregate, accumulator)
    if accumulator[START] == NOTHING:
        if adds_up(rules, aggregate) and accumulator[PATIENCE] > 0:
            accumulator[PATIENCE] -= 1
            return add_up_window(store, rules, aggregate, accumulator, group, event, start_ms, end_ms)
        begin_window(store, rules, aggregate, accumulator, event, start_ms, end_ms)
    elif accumulator[END] == NOTHING:
        accumulator[END] = event
    measure = move_window(store, rules, aggregate, accumulator, event, start_ms, end_ms)
    if not in_order:
        drop_window(store, rules, aggregate, accumulator)
    return measure


@njit_without_allocation
def begin_window(store, rules, aggregate, accumulator, event, start_ms, end_ms):
    """An empty window where that of an event begins."""
    clear_accumulator(rules, aggregate, accumulator[:-OTHER_WINDOW_LANES])
    last, places = rules.aggregates[aggregate].last_events, 0
    first, before = event, store.links[event, PREV]
    start_ms = session_start_ms(store, rules, aggregate, event, start_ms)
    while before != NOTHING and store.events[before, TIME] >= start_ms and (last == 0 or places < last):
        if store.events[before, TIME] <= end_ms:
            places += has_place(store, before)
        first = before
        before = store.links[before, PREV]
    accumulator[START] = accumulator[END] = first
    accumulator[PLACES], accumulator[LAST_MS] = 0, start_ms


@njit_without_allocation
def session_start_ms(store, rules, aggregate, event, start_ms):
    """Since when the session has lasted that ends with an event; `start_ms` if the window is no session, or the session is as old."""
    gap = rules.aggregates[aggregate].gap
    if gap == 0:
        return start_ms
    first_ms, before = store.events[event, TIME], store.links[event, PREV]
    while before != NOTHING and store.events[before, TIME] >= start_ms:
        if has_place(store, before):
            if first_ms - store.events[before, TIME] > gap:
                break
            first_ms = store.events[before, TIME]
        before = store.links[before, PREV]
    return first_ms


@njit_without_allocation
def move_window(store, rules, aggregate, accumulator, event, start_ms, end_ms):
    """Moves the running window to an event, before which it is, and measures it."""
    while accumulator[END] != event and store.events[accumulator[END], TIME] <= end_ms:
        enter_next(store, rules, aggregate, accumulator)
    if accumulator[END] == event:
        empty_after_gap(store, rules, aggregate, accumulator, event)
    evict_oldest(store, rules, aggregate, accumulator, start_ms)
    measure = measure_of_accumulator(store, rules, aggregate, accumulator)
    if accumulator[END] == event and rules.aggregates[aggregate].ends_before == 0:
        enter_next(store, rules, aggregate, accumulator)
        evict_oldest(store, rules, aggregate, accumulator, start_ms)
        if not rules.aggregates[aggregate].excludes:
            measure = measure_of_accumulator(store, rules, aggregate, accumulator)
    return measure


@njit_without_allocation
def enter_next(store, rules, aggregate, accumulator):
    event = accumulator[END]
    empty_after_gap(store, rules, aggregate, accumulator, event)
    enter_window(store, rules, aggregate, accumulator, event)
    accumulator[PLACES] += has_place(store, event)
    accumulator[END] = store.links[event, NEXT]


@njit_without_allocation
def empty_after_gap(store, rules, aggregate, accumulator, event):
    """Empties a session if the event that comes next begins another one."""
    gap = rules.aggregates[aggregate].gap
    if gap == 0 or not has_place(store, event):
        return
    if store.events[event, TIME] - accumulator[LAST_MS] > gap:
        leave_table(store, rules, aggregate, accumulator)
        clear_accumulator(rules, aggregate, accumulator[:-OTHER_WINDOW_LANES])
        accumulator[START] = accumulator[END]
    accumulator[LAST_MS] = store.events[event, TIME]


@njit_without_allocation
def evict_oldest(store, rules, aggregate, accumulator, start_ms):
    """Removes the events that are too old or too many."""
    last = rules.aggregates[aggregate].last_events
    start = accumulator[START]
    while start != accumulator[END] and (
        store.events[start, TIME] < start_ms or (last != 0 and accumulator[PLACES] > last)
    ):
        leave_window(store, rules, aggregate, accumulator, start)
        accumulator[PLACES] -= has_place(store, start)
        start = store.links[start, NEXT]
    accumulator[START] = start


@njit_without_allocation
def has_place(store, event):
    """1 for an event of the group, 0 for one that was taken back."""
    return np.int64(is_not_taken_back(store, event))


@njit_without_allocation
def add_up_window(store, rules, aggregate, accumulator, group, event, start_ms, end_ms):
    """The aggregate over the window of an event, without the running window: event by event, or by totals of blocks."""
    sums = store.scratch[LIMBS : LIMBS + rules.aggregates[aggregate].width]
    start_ms = session_start_ms(store, rules, aggregate, event, start_ms)
    skipped = event if rules.aggregates[aggregate].excludes else NOTHING
    if ensure_blocks_if_long(store, group):
        aggregate_time_range(store, rules, aggregate, accumulator, group, end_ms, skipped, start_ms, sums)
    else:
        last = last_event_at_or_before(store, group, end_ms)
        if last == event and skipped == event:
            last = store.links[event, PREV]
        clear_sums(rules, aggregate, sums, accumulator)
        add_events_to_sums(store, rules, aggregate, sums, last, NOTHING, start_ms)
    return measure_of_accumulator(store, rules, aggregate, sums)


# -- what happens to the running window besides ------------------------------------------------------------------------


@njit_without_allocation
def is_before(store, event, other):
    """Whether an event comes before another one of its group: of those of one time, in order of arrival."""
    time_ms, other_ms = store.events[event, TIME], store.events[other, TIME]
    return time_ms < other_ms or (time_ms == other_ms and event < other)


@njit_without_allocation
def add_late_event_to_other_window(store, rules, aggregate, accumulator, event):
    """Adds an event that has newer neighbours to the running window, if it belongs there."""
    start, end, following = accumulator[START], accumulator[END], store.links[event, NEXT]
    if end != NOTHING and not is_before(store, event, end):
        return
    if following == end:
        accumulator[END] = event
        if start == end:
            accumulator[START] = event
        return
    extends = is_before(store, event, start)
    if extends:
        if following != start:
            return
        accumulator[START] = event  # it leaves again where it is too old
    if has_queue(rules, aggregate):
        # the event is not in the queue
        drop_window(store, rules, aggregate, accumulator)
        return
    enter_window(store, rules, aggregate, accumulator, event)
    accumulator[LAST_MS] = max(accumulator[LAST_MS], store.events[event, TIME])
    if not adds_up(rules, aggregate) or (extends and rules.aggregates[aggregate].gap != 0):
        drop_window(store, rules, aggregate, accumulator)


@njit_without_allocation
def take_back_from_other_window(store, rules, aggregate, accumulator, event):
    """Removes an event, which still counts, from the running window, if it is in there."""
    end = accumulator[END]
    if is_before(store, event, accumulator[START]) or (end != NOTHING and not is_before(store, event, end)):
        return
    is_split = rules.aggregates[aggregate].gap != 0
    if adds_up(rules, aggregate) and not has_queue(rules, aggregate) and not is_split:
        leave_window(store, rules, aggregate, accumulator, event)
    else:
        drop_window(store, rules, aggregate, accumulator)


@njit_without_allocation
def drop_window(store, rules, aggregate, accumulator):
    """Forgets the running window; in a long group it is filled again after some events only."""
    if accumulator[START] == NOTHING:
        return
    group = store.links[accumulator[START], GROUP]
    leave_table(store, rules, aggregate, accumulator)
    accumulator[START] = NOTHING
    accumulator[PATIENCE] = HALF if has_blocks(store, group) else 0


@njit_without_allocation
def leave_table(store, rules, aggregate, accumulator):
    """Takes the values of a window out of the table of values, if it is counted there; everything else is just cleared."""
    each = accumulator[START]
    while rules.aggregates[aggregate].kind == DISTINCT and each != accumulator[END]:
        leave_window(store, rules, aggregate, accumulator, each)
        each = store.links[each, NEXT]


@njit_without_allocation
def forget_window(store, rules, aggregate, group, event):
    """Drops the running window of a group that no rule asks for now, so that it need not follow an event that has just come."""
    offset = np.int64(store.accumulator_starts[group, aggregate])
    if offset != NOTHING:
        accumulator = store.accumulators[offset : offset + rules.aggregates[aggregate].width]
        if accumulator[END] == NOTHING and store.links[event, NEXT] == NOTHING:
            accumulator[END] = event
        drop_window(store, rules, aggregate, accumulator)
