"""An index over the events of a long group, so that a late event does not walk past all newer ones.

    older ◄──────────────── time ────────────────► newer
    ┌───────────┐   ┌───────────┐   ┌───────────┐
    │ e e e e e │◄──│ e e e e   │◄──│ e e e e e │◄── group      a block: at most 512 events that follow each other
    └───────────┘   └───────────┘   └───────────┘
       totals          totals          totals                  of each aggregate, computed when they are first needed

A group gets blocks once a walk over its events has taken more than LONGEST_WALK steps. From then on a late event costs one step for each
block and one for each event of at most three blocks: in a group of a million events about 4,000 and 1,500 steps. Distinct values
cannot be added up block by block: for them the window still moves event by event.
"""

from lab.engine.compiled.aggregates.counted import COUNT_SINCE, is_counted
from lab.engine.compiled.aggregates.forms import add_or_subtract
from lab.engine.compiled.aggregates.queues import beats, has_queue, link_in_queue
from lab.engine.compiled.layout import (
    BLOCK,
    BLOCKS,
    EVENTS,
    GROUP,
    HEAD,
    LATEST,
    LENGTH,
    NEWER_BLOCK,
    NEWEST,
    NEXT,
    NOTHING,
    OLDER,
    OLDER_BLOCK,
    OLDEST,
    OLDEST_TIME,
    PREV,
    RESET,
    SEQ,
    START,
    TAIL,
    TIME,
    N,
    njit_without_allocation,
)

HALF = 256  # events of a block that has just been divided
LONGEST_WALK = 2 * HALF  # steps of a walk without an index


# -- blocks ----------------------------------------------------------------------------------------------------------


@njit_without_allocation
def has_blocks(store, group):
    return store.group_links[group, BLOCK] != NOTHING


@njit_without_allocation
def make_blocks(store, group):
    """Divides the events of a group that has no blocks yet."""
    newer = NOTHING
    event = store.group_links[group, NEWEST]
    while event != NOTHING:
        block = store.scalars[BLOCKS]
        store.scalars[BLOCKS] += 1
        if newer == NOTHING:
            store.group_links[group, BLOCK] = block
        else:
            store.blocks[newer, OLDER_BLOCK] = block
        store.blocks[block, NEWER_BLOCK] = newer
        store.blocks[block, OLDER_BLOCK] = NOTHING
        store.blocks[block, LATEST] = store.scalars[EVENTS] - 1
        store.blocks[block, LENGTH] = 0
        while event != NOTHING and store.blocks[block, LENGTH] < HALF:
            store.blocks[block, OLDEST] = event
            store.blocks[block, OLDEST_TIME] = store.events[event, TIME]
            store.blocks[block, LENGTH] += 1
            event = store.links[event, PREV]
        newer = block


@njit_without_allocation
def ensure_blocks_if_long(store, group):
    """Divides a group into blocks if it has so many events that walking over all takes long; returns whether it has blocks."""
    steps, event = 0, store.group_links[group, NEWEST]
    while not has_blocks(store, group) and event != NOTHING:
        event = store.links[event, PREV]
        steps += 1
        if steps > LONGEST_WALK:
            make_blocks(store, group)
    return has_blocks(store, group)


@njit_without_allocation
def block_at_time(store, group, time_ms):
    """The group's newest block that begins at or before a time; its oldest block if there is none."""
    block = store.group_links[group, BLOCK]
    while store.blocks[block, OLDEST_TIME] > time_ms and store.blocks[block, OLDER_BLOCK] != NOTHING:
        block = store.blocks[block, OLDER_BLOCK]
    return block


@njit_without_allocation
def newest_event_in_block(store, group, block):
    """The newest event of a block."""
    newer = store.blocks[block, NEWER_BLOCK]
    return (
        store.group_links[group, NEWEST]
        if newer == NOTHING
        else store.links[store.blocks[newer, OLDEST], PREV]
    )


@njit_without_allocation
def last_event_at_or_before_by_blocks(store, group, time_ms):
    """The group's last event, in time order, at or before a time."""
    block = block_at_time(store, group, time_ms)
    if store.blocks[block, OLDEST_TIME] > time_ms:
        return NOTHING
    p = newest_event_in_block(store, group, block)
    while store.events[p, TIME] > time_ms:
        p = store.links[p, PREV]
    return p


@njit_without_allocation
def add_event_to_block(store, group, event):
    """Adds an event to its block; the event has just been linked after all others of its time."""
    time_ms = store.events[event, TIME]
    block = block_at_time(store, group, time_ms)
    if time_ms < store.blocks[block, OLDEST_TIME]:
        store.blocks[block, OLDEST] = event
        store.blocks[block, OLDEST_TIME] = time_ms
    store.blocks[block, LENGTH] += 1
    store.blocks[block, LATEST] = event
    if store.blocks[block, LENGTH] == 2 * HALF:
        split_block(store, group, block)


@njit_without_allocation
def split_block(store, group, block):
    """Moves the newer half of a block into a new block."""
    new, newer = store.scalars[BLOCKS], store.blocks[block, NEWER_BLOCK]
    store.scalars[BLOCKS] += 1
    first = store.blocks[block, OLDEST]
    for _ in range(HALF):
        first = store.links[first, NEXT]
    store.blocks[new, OLDEST] = first
    store.blocks[new, OLDEST_TIME] = store.events[first, TIME]
    store.blocks[new, LENGTH] = store.blocks[block, LENGTH] - HALF
    store.blocks[new, LATEST] = store.blocks[block, LATEST]
    store.blocks[new, OLDER_BLOCK] = block
    store.blocks[new, NEWER_BLOCK] = newer
    store.blocks[block, LENGTH] = HALF
    store.blocks[block, NEWER_BLOCK] = new
    if newer == NOTHING:
        store.group_links[group, BLOCK] = new
    else:
        store.blocks[newer, OLDER_BLOCK] = new


# -- what a range of time adds up to ---------------------------------------------------------------------------------


@njit_without_allocation
def aggregate_time_range(store, rules, aggregate, accumulator, group, end_ms, skipped_event, start_ms, sums):
    """Fills the lanes `sums` with the aggregate over the group's events from time `start_ms` up to time `end_ms`.

    Leaves out `skipped_event`, which must be the last of these events (NOTHING: leaves out none).

    For an aggregate with a queue, fills only HEAD: the most extreme event, the newest of equal ones. `accumulator` says when the count was reset.
    """
    clear_sums(rules, aggregate, sums, accumulator)
    block = block_at_time(store, group, end_ms)
    event = newest_event_in_block(store, group, block)
    while event != NOTHING and (store.events[event, TIME] > end_ms or event == skipped_event):
        if event == store.blocks[block, OLDEST]:
            block = store.blocks[block, OLDER_BLOCK]
        event = store.links[event, PREV]
    if event == NOTHING:
        return
    add_events_to_sums(store, rules, aggregate, sums, event, store.blocks[block, OLDEST], start_ms)
    block = store.blocks[block, OLDER_BLOCK]
    while block != NOTHING and store.blocks[block, OLDEST_TIME] >= start_ms:
        add_block_total(store, rules, aggregate, sums, group, block)
        block = store.blocks[block, OLDER_BLOCK]
    if block != NOTHING:
        event = newest_event_in_block(store, group, block)
        add_events_to_sums(store, rules, aggregate, sums, event, store.blocks[block, OLDEST], start_ms)


@njit_without_allocation
def clear_sums(rules, aggregate, sums, reset_source):
    """Clears `sums`; a count keeps the reset of `reset_source`."""
    for lane in range(rules.aggregates[aggregate].width):
        sums[lane] = 0
    if has_queue(rules, aggregate):
        sums[HEAD] = NOTHING
    elif rules.aggregates[aggregate].kind == COUNT_SINCE:
        sums[RESET] = reset_source[RESET]


@njit_without_allocation
def add_events_to_sums(store, rules, aggregate, sums, newest_event, oldest_event, start_ms):
    """Adds the events from the newest back to the oldest that are not older than `start_ms`."""
    while newest_event != NOTHING and store.events[newest_event, TIME] >= start_ms:
        if is_counted(store, rules, aggregate, sums, newest_event):
            if has_queue(rules, aggregate):
                replace_if_more_extreme(store, rules, aggregate, sums, newest_event)
            else:
                add_or_subtract(store, rules, aggregate, sums, newest_event, 1)
        if newest_event == oldest_event:
            return
        newest_event = store.links[newest_event, PREV]


@njit_without_allocation
def replace_if_more_extreme(store, rules, aggregate, sums, event):
    """Makes an event the most extreme one if it is; the event is older than all that were added before."""
    if sums[HEAD] == NOTHING or not beats(store, rules, aggregate, sums[HEAD], event):
        sums[HEAD] = event


@njit_without_allocation
def add_block_total(store, rules, aggregate, sums, group, block):
    """Adds all events of a block."""
    latest = store.blocks[block, LATEST]
    since = rules.aggregates[aggregate].kind == COUNT_SINCE
    if since and store.events[latest, SEQ] <= sums[RESET]:
        return
    total = store.block_totals[block, aggregate]
    # the total of a new block is all zeros; `latest` grows with each event that is added to the block
    if total[START] != latest + 1 or (since and total[RESET] != sums[RESET]):
        clear_sums(rules, aggregate, total, sums)
        total[START] = latest + 1
        newest, oldest = newest_event_in_block(store, group, block), store.blocks[block, OLDEST]
        start_ms = store.blocks[block, OLDEST_TIME]
        add_events_to_sums(store, rules, aggregate, total, newest, oldest, start_ms)
    if has_queue(rules, aggregate):
        if total[HEAD] != NOTHING:
            replace_if_more_extreme(store, rules, aggregate, sums, total[HEAD])
    elif since:
        sums[N] += total[N]
    else:
        for lane in range(N, rules.aggregates[aggregate].width):
            sums[lane] += total[lane]


@njit_without_allocation
def invalidate_block_totals(store, group, time_ms):
    """Marks the totals of all blocks with events of a time as unknown."""
    block = block_at_time(store, group, time_ms)
    store.block_totals[block, :, START] = 0
    while store.blocks[block, OLDEST_TIME] == time_ms and store.blocks[block, OLDER_BLOCK] != NOTHING:
        block = store.blocks[block, OLDER_BLOCK]
        store.block_totals[block, :, START] = 0


@njit_without_allocation
def insert_in_queue_by_blocks(store, rules, aggregate, accumulator, event, sums):
    """Puts an event that is inside the running window, but not its newest, into the queue.

    From then on, OLDER is right only for events in the queue; `aggregate_time_range` finds the extreme of a window that ended earlier.
    """
    if not is_counted(store, rules, aggregate, accumulator, event):
        return
    group = store.links[event, GROUP]
    aggregate_time_range(
        *(
            store,
            rules,
            aggregate,
            accumulator,
            group,
            store.events[store.group_links[group, NEWEST], TIME],
            NOTHING,
        ),
        *(store.events[event, TIME] + 1, sums),
    )
    newer = sums[HEAD]
    if newer == NOTHING:
        link_in_queue(store, rules, aggregate, accumulator, event, accumulator[TAIL], newer, True)
    elif not beats(store, rules, aggregate, newer, event):
        q = rules.aggregates[aggregate].queue
        older = store.queues[newer, q, OLDER]
        store.queues[newer, q, OLDER] = event
        link_in_queue(store, rules, aggregate, accumulator, event, older, newer, True)
