"""Running windows: the value of an aggregate over a window of a group, kept while the window's two ends move.

Each distinct aggregate of the rules keeps, in each group, a running value with the event where its window starts. An event in order
enters at the newer end, the events that it leaves behind go at the older end: O(1) amortised, whatever the window's length.
For a late event a copy of the running window moves back until it ends there:

   in order     ┤━━━━━━━━━━━━━━━━━━━━┤
   late, at l  ┤━━━━━━━━━━━━━━━━━━l           ◄     what lies between l and the newest event leaves, as much enters

Where that would take many steps, `lab.engine.compiled.blocks` adds up whole blocks of events instead. `lab.engine.compiled.aggregates`
says how events enter and leave.
"""

import numpy as np

from lab.engine.compiled.aggregates.counted import COUNT_SINCE, is_counted
from lab.engine.compiled.aggregates.distinct import find_or_add_distinct_slot
from lab.engine.compiled.aggregates.forms import (
    DISTINCT,
    ORDERED,
    STEPS,
    add_or_subtract,
    clear_accumulator,
    enter_window,
    leave_window,
    measure_of_accumulator,
)
from lab.engine.compiled.aggregates.queues import (
    TOO_FAR,
    find_extreme,
    has_queue,
    insert_in_queue_and_count_steps,
)
from lab.engine.compiled.aggregates.sequences import is_step_or_end
from lab.engine.compiled.aggregates.sums import LIMBS
from lab.engine.compiled.blocks import (
    HALF,
    LONGEST_WALK,
    aggregate_time_range,
    ensure_blocks_if_long,
    has_blocks,
    insert_in_queue_by_blocks,
    invalidate_block_totals,
    make_blocks,
)
from lab.engine.compiled.layout import (
    AGGREGATE,
    COUNTED,
    COUNTS,
    EVENTS,
    EXAMPLE,
    GROUP,
    HEAD,
    KNOWN,
    NEWEST,
    NEXT,
    NOTHING,
    PATIENCE,
    PREV,
    START,
    TIME,
    VALUES,
    N,
    njit_without_allocation,
)
from lab.engine.compiled.otherwindows import take_back_from_other_window


@njit_without_allocation
def window_start_ms(store, rules, aggregate, event, horizon_ms):
    """The start of an aggregate's window that ends with an event."""
    return max(store.events[event, TIME] - rules.aggregates[aggregate].window, horizon_ms)


@njit_without_allocation
def evict_before(store, rules, aggregate, accumulator, start_ms):
    """Removes the events older than `start_ms` from the older end of a running window."""
    start = accumulator[START]
    while store.events[start, TIME] < start_ms:
        leave_window(store, rules, aggregate, accumulator, start)
        start = store.links[start, NEXT]
    accumulator[START] = start


@njit_without_allocation
def rebuild_window(store, rules, aggregate, accumulator, group, since_ms, start_ms):
    """Clears a running window and adds the group's events from `since_ms` on; the window starts at `start_ms`."""
    start = store.group_links[group, NEWEST]
    while store.links[start, PREV] != NOTHING and store.events[store.links[start, PREV], TIME] >= since_ms:
        start = store.links[start, PREV]
    clear_accumulator(rules, aggregate, accumulator)
    if has_queue(rules, aggregate):
        accumulator[KNOWN] = since_ms
    accumulator[START] = start
    while start != NOTHING:
        enter_window(store, rules, aggregate, accumulator, start)
        start = store.links[start, NEXT]
    evict_before(store, rules, aggregate, accumulator, start_ms)


@njit_without_allocation
def add_late_event(store, rules, aggregate, accumulator, event, start_ms):
    """Adds an event that is not the newest in time order to a running window that starts at `start_ms`."""
    time_ms = store.events[event, TIME]
    first = time_ms < store.events[accumulator[START], TIME]
    is_in_window = not first or time_ms >= start_ms
    if is_in_window and rules.aggregates[aggregate].kind == STEPS:
        if is_step_or_end(store, rules, aggregate, event):
            group = store.links[event, GROUP]
            rebuild_window(store, rules, aggregate, accumulator, group, start_ms, start_ms)
    elif has_queue(rules, aggregate):
        group = store.links[event, GROUP]
        if has_blocks(store, group):
            if is_in_window:
                sums = store.scratch[LIMBS : LIMBS + len(accumulator)]
                insert_in_queue_by_blocks(store, rules, aggregate, accumulator, event, sums)
        elif (
            time_ms >= accumulator[KNOWN]
            and insert_in_queue_and_count_steps(store, rules, aggregate, accumulator, event, is_in_window)
            > LONGEST_WALK
        ):
            make_blocks(store, group)
    elif is_in_window:
        enter_window(store, rules, aggregate, accumulator, event)
    if first and is_in_window:
        accumulator[START] = event
    evict_before(store, rules, aggregate, accumulator, start_ms)


@njit_without_allocation
def take_back_event(store, rules, group, event):
    """Removes an event that was taken back from the running windows that it is in, and its alerts from the counts of alerts."""
    before = store.events[event, VALUES]
    for aggregate in range(len(rules.aggregates)):
        offset = np.int64(store.accumulator_starts[group, aggregate])
        if offset == NOTHING or store.accumulators[offset + START] == NOTHING:
            continue
        accumulator = store.accumulators[offset : offset + rules.aggregates[aggregate].width]
        if rules.aggregates[aggregate].other_window:
            store.events[event, VALUES] = before
            take_back_from_other_window(store, rules, aggregate, accumulator, event)
            continue
        is_in_window = store.events[event, TIME] >= store.events[accumulator[START], TIME]
        if not is_in_window and not has_queue(rules, aggregate):
            continue
        store.events[event, VALUES] = before
        was_counted = is_counted(store, rules, aggregate, accumulator, event)
        store.events[event, VALUES] = before & ~COUNTS
        if not was_counted:
            continue
        if rules.aggregates[aggregate].kind == STEPS:
            if is_step_or_end(store, rules, aggregate, event):
                accumulator[START] = NOTHING
            continue
        if not has_queue(rules, aggregate):
            add_or_subtract(store, rules, aggregate, accumulator, event, -1)
            continue
        long = ensure_blocks_if_long(store, group)
        # events that this event superseded may count again: the queue is unknown where newer events point to it
        accumulator[KNOWN] = max(accumulator[KNOWN], store.events[event, TIME] + 1)
        if is_in_window:
            accumulator[START] = NOTHING
            accumulator[PATIENCE] = HALF if long else 0
    store.events[event, VALUES] = before & ~COUNTS
    if has_blocks(store, group):
        invalidate_block_totals(store, group, store.events[event, TIME])


@njit_without_allocation
def rebuild_dropped_window_if_due(store, rules, aggregate, accumulator, group, start_ms):
    """Rebuilds a running window that was dropped, from `start_ms` on; returns whether it is maintained now.

    In a long group only after some events: to walk over all of it for each would take the square of their number.
    """
    if accumulator[START] == NOTHING:
        if accumulator[PATIENCE] > 0 and has_queue(rules, aggregate):
            accumulator[PATIENCE] -= 1
            return False
        rebuild_window(store, rules, aggregate, accumulator, group, start_ms, start_ms)
    return True


@njit_without_allocation
def needs_accumulator(rules, aggregate):
    """Whether an aggregate keeps more of a group's first event than the event: the reset of its rule, or its value in the table of values."""
    return rules.aggregates[aggregate].kind == COUNT_SINCE or rules.aggregates[aggregate].kind == DISTINCT


@njit_without_allocation
def measure_only_event(store, rules, aggregate, event):
    """The aggregate over a group's only event. Groups that see one event, as most pairs do, take no accumulators: the second rebuilds the window."""
    accumulator = store.scratch[LIMBS : LIMBS + rules.aggregates[aggregate].width]
    clear_accumulator(rules, aggregate, accumulator)
    if not rules.aggregates[aggregate].excludes:
        enter_window(store, rules, aggregate, accumulator, event)
    return measure_of_accumulator(store, rules, aggregate, accumulator)


@njit_without_allocation
def measure_at_event(store, rules, aggregate, accumulator, group, event, horizon_ms):
    """The aggregate over the window that ends with an event, which may be late and may be excluded itself."""
    start_ms = window_start_ms(store, rules, aggregate, event, horizon_ms)
    skipped = event if rules.aggregates[aggregate].excludes else NOTHING
    moved = store.scratch[LIMBS : LIMBS + len(accumulator)]
    for lane in range(len(accumulator)):
        moved[lane] = accumulator[lane]
    if rules.aggregates[aggregate].kind in (DISTINCT, ORDERED):
        return measure_without_copy_at_event(
            store, rules, aggregate, accumulator, group, event, start_ms, skipped, moved
        )
    if rules.aggregates[aggregate].kind == STEPS:
        return measure_steps_at_event(store, rules, aggregate, event, start_ms, skipped, moved)
    if has_queue(rules, aggregate):
        return measure_queue_at_event(
            store, rules, aggregate, accumulator, group, event, start_ms, skipped, moved, horizon_ms
        )
    return measure_sums_at_event(store, rules, aggregate, accumulator, group, event, start_ms, skipped, moved)


@njit_without_allocation
def measure_without_copy_at_event(
    store, rules, aggregate, accumulator, group, event, start_ms, skipped, moved
):
    """Moves the window back to the event and forward again: a table or a tree of values has no copy, and no totals."""
    try_move_back_to_event(store, rules, aggregate, moved, group, event, start_ms, store.scalars[EVENTS] + 1)
    if skipped != NOTHING:
        leave_window(store, rules, aggregate, moved, event)
    measure = measure_of_accumulator(store, rules, aggregate, moved)
    if skipped != NOTHING:
        enter_window(store, rules, aggregate, moved, event)
    move_forward_to_newest(store, rules, aggregate, moved, event, accumulator[START])
    for lane in range(N, len(accumulator)):
        accumulator[lane] = moved[lane]
    return measure


@njit_without_allocation
def measure_steps_at_event(store, rules, aggregate, event, start_ms, skipped, moved):
    """Goes through the window again, from its start: sequences cannot be taken back step by step."""
    each = event
    while store.links[each, PREV] != NOTHING and store.events[store.links[each, PREV], TIME] >= start_ms:
        each = store.links[each, PREV]
    clear_accumulator(rules, aggregate, moved)
    while each != store.links[event, NEXT]:
        if each != skipped:
            enter_window(store, rules, aggregate, moved, each)
        each = store.links[each, NEXT]
    return measure_of_accumulator(store, rules, aggregate, moved)


@njit_without_allocation
def measure_queue_at_event(
    store, rules, aggregate, accumulator, group, event, start_ms, skipped, moved, horizon_ms
):
    """Looks for the head of the window's queue among the older neighbours in the queue, or among totals of blocks."""
    moved[HEAD] = TOO_FAR
    if not has_blocks(store, group):
        if start_ms < accumulator[KNOWN]:
            start = window_start_ms(store, rules, aggregate, store.group_links[group, NEWEST], horizon_ms)
            rebuild_window(store, rules, aggregate, accumulator, group, horizon_ms, start)
        moved[HEAD] = find_extreme(
            store, rules, aggregate, accumulator, event, skipped, start_ms, LONGEST_WALK
        )
    if moved[HEAD] == TOO_FAR:
        if not has_blocks(store, group):
            make_blocks(store, group)
        end_ms = store.events[event, TIME]
        aggregate_time_range(store, rules, aggregate, accumulator, group, end_ms, skipped, start_ms, moved)
    return measure_of_accumulator(store, rules, aggregate, moved)


@njit_without_allocation
def measure_sums_at_event(store, rules, aggregate, accumulator, group, event, start_ms, skipped, moved):
    """Moves a copy of the sums back to the event, or adds up totals of blocks."""
    if not try_move_back_to_event(store, rules, aggregate, moved, group, event, start_ms, LONGEST_WALK):
        if not has_blocks(store, group):
            make_blocks(store, group)
        end_ms = store.events[event, TIME]
        aggregate_time_range(store, rules, aggregate, accumulator, group, end_ms, NOTHING, start_ms, moved)
    if skipped != NOTHING:
        leave_window(store, rules, aggregate, moved, event)
    return measure_of_accumulator(store, rules, aggregate, moved)


@njit_without_allocation
def try_move_back_to_event(store, rules, aggregate, accumulator, group, event, start_ms, most_steps):
    """Moves a window that ends with the newest event back, so that it ends with a late event and starts at `start_ms`.

    Returns whether `most_steps` steps were enough.
    """
    started = store.events[accumulator[START], TIME]
    each = store.group_links[group, NEWEST]
    while each != event and store.events[each, TIME] >= started:
        leave_window(store, rules, aggregate, accumulator, each)
        each = store.links[each, PREV]
        most_steps -= 1
        if most_steps == 0:
            return False
    if store.events[event, TIME] < started:
        accumulator[START] = event
        enter_window(store, rules, aggregate, accumulator, event)
    each = store.links[accumulator[START], PREV]
    while each != NOTHING and store.events[each, TIME] >= start_ms:
        enter_window(store, rules, aggregate, accumulator, each)
        accumulator[START] = each
        each = store.links[each, PREV]
        most_steps -= 1
        if most_steps == 0:
            return False
    return True


@njit_without_allocation
def move_forward_to_newest(store, rules, aggregate, accumulator, event, start_event):
    """Moves a window that ends with a late event forward to where it was: from `start_event` to the newest event."""
    started = store.events[start_event, TIME]
    each = accumulator[START]
    while each != store.links[event, NEXT] and store.events[each, TIME] < started:
        leave_window(store, rules, aggregate, accumulator, each)
        each = store.links[each, NEXT]
    each = store.links[event, NEXT]
    while each != NOTHING:
        if store.events[each, TIME] >= started:
            enter_window(store, rules, aggregate, accumulator, each)
        each = store.links[each, NEXT]


@njit_without_allocation
def refill_distinct_table(store, rules, old_rows, new_numbers):
    """Fills the hash table of distinct values from the rows of another; `new_numbers`: the new number of each aggregate, NOTHING if it is gone."""
    for row in range(len(old_rows)):
        aggregate = old_rows[row, AGGREGATE]
        if aggregate != NOTHING and old_rows[row, COUNTED] > 0 and new_numbers[aggregate] != NOTHING:
            slot = find_or_add_distinct_slot(store, rules, new_numbers[aggregate], old_rows[row, EXAMPLE])
            store.distinct_table[slot, COUNTED] = old_rows[row, COUNTED]
