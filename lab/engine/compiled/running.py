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

from lab.engine.compiled.aggregates import (
    COUNT_SINCE,
    DISTINCT,
    TOO_FAR,
    best,
    clear,
    counts,
    enter,
    has_queue,
    insert,
    leave,
    measured,
    move,
    tally,
)
from lab.engine.compiled.blocks import (
    HALF,
    LIMIT,
    forget_totals,
    has_blocks,
    insert_by_blocks,
    make_blocks,
    sum_up,
)
from lab.engine.compiled.groups import reset_place
from lab.engine.compiled.layout import (
    AGGREGATE,
    COUNTED,
    COUNTS,
    EVENTS,
    EXAMPLE,
    EXCLUDES,
    GROUP,
    HEAD,
    KIND,
    KNOWN,
    LANES,
    NEWEST,
    NEXT,
    NOTHING,
    PATIENCE,
    PREV,
    RESET,
    RESET_SEQ,
    RULE_ID,
    START,
    TIME,
    VALUES,
    WIDTH,
    WINDOW,
    bare,
)
from lab.engine.compiled.squares import LIMBS


@bare
def aggregate_lanes(store, rules, a, g):
    """Where the lanes of an aggregate in a group are; it gets them with its first event."""
    place = np.int64(store.place[g, a])
    if place == NOTHING:
        place = store.size[LANES]
        store.size[LANES] += rules.aggregate[a, WIDTH]
        store.place[g, a] = place
        store.running[place + START] = NOTHING
        store.running[place + PATIENCE] = 0
        if rules.aggregate[a, KIND] == COUNT_SINCE:
            store.running[place + RESET] = store.reset[
                reset_place(store, rules.aggregate[a, RULE_ID], g), RESET_SEQ
            ]
    return place


@bare
def window_start(store, rules, a, j, horizon):
    """Where the window of an aggregate that ends with event `j` starts, ms."""
    return max(store.event[j, TIME] - rules.aggregate[a, WINDOW], horizon)


@bare
def leave_before(store, rules, a, running, oldest):
    """Moves the older end of a running window up to the first event that is not older than `oldest`."""
    start = running[START]
    while store.event[start, TIME] < oldest:
        leave(store, rules, a, running, start)
        start = store.event[start, NEXT]
    running[START] = start


@bare
def rebuild_window(store, rules, a, running, g, since, oldest):
    """Clears a running window and adds the group's events from time `since` on; it starts at time `oldest`."""
    start = store.group[g, NEWEST]
    while store.event[start, PREV] != NOTHING and store.event[store.event[start, PREV], TIME] >= since:
        start = store.event[start, PREV]
    clear(rules, a, running)
    if has_queue(rules, a):
        running[KNOWN] = since
    running[START] = start
    while start != NOTHING:
        enter(store, rules, a, running, start)
        start = store.event[start, NEXT]
    leave_before(store, rules, a, running, oldest)


@bare
def add_late_event(store, rules, a, running, j, oldest):
    """Adds event `j`, which was linked in before the newest, to a running window; `oldest`: where the window starts."""
    t = store.event[j, TIME]
    first = t < store.event[running[START], TIME]
    inside = not first or t >= oldest
    if has_queue(rules, a):
        g = store.event[j, GROUP]
        if has_blocks(store, g):
            if inside:
                sums = store.scratch[LIMBS : LIMBS + len(running)]
                insert_by_blocks(store, rules, a, running, j, sums)
        elif t >= running[KNOWN] and insert(store, rules, a, running, j, inside) > LIMIT:
            make_blocks(store, g)
    elif inside:
        enter(store, rules, a, running, j)
    if first and inside:
        running[START] = j
    leave_before(store, rules, a, running, oldest)


@bare
def take_back(store, rules, g, j):
    """Event `j` counts no more: it leaves the running windows that it is in. What counts alerts goes on: they stay given."""
    before = store.event[j, VALUES]
    for a in range(len(rules.aggregate)):
        place = np.int64(store.place[g, a])
        if place == NOTHING or store.running[place + START] == NOTHING:
            continue
        running = store.running[place : place + rules.aggregate[a, WIDTH]]
        inside = store.event[j, TIME] >= store.event[running[START], TIME]
        if not inside and not has_queue(rules, a):
            continue
        store.event[j, VALUES] = before
        was_counted = counts(store, rules, a, running, j)
        store.event[j, VALUES] = before & ~COUNTS
        if not was_counted or counts(store, rules, a, running, j):
            continue
        if not has_queue(rules, a):
            move(store, rules, a, running, j, -1)
            continue
        long = make_blocks_if_long(store, g)
        # events that it has beaten may count again: where newer ones lead to it, the queue is not known any more
        running[KNOWN] = max(running[KNOWN], store.event[j, TIME] + 1)
        if inside:
            running[START] = NOTHING
            running[PATIENCE] = HALF if long else 0
    store.event[j, VALUES] = before & ~COUNTS
    if has_blocks(store, g):
        forget_totals(store, g, store.event[j, TIME])


@bare
def make_blocks_if_long(store, g):
    """Makes blocks for a group that has so many events that to walk over all takes long; returns whether it has blocks."""
    steps, j = 0, store.group[g, NEWEST]
    while not has_blocks(store, g) and j != NOTHING:
        j = store.event[j, PREV]
        steps += 1
        if steps > LIMIT:
            make_blocks(store, g)
    return has_blocks(store, g)


@bare
def rebuild_if_dropped(store, rules, a, running, g, start):
    """Rebuilds a running window that was dropped, from time `start` on; returns whether it is kept now.

    In a long group only after some events: to walk over all of it for each would take the square of their number.
    """
    if running[START] == NOTHING:
        if running[PATIENCE] > 0 and has_queue(rules, a):
            running[PATIENCE] -= 1
            return False
        rebuild_window(store, rules, a, running, g, start, start)
    return True


@bare
def measured_at(store, rules, a, running, g, j, horizon):
    """The aggregate over the window that ends with event `j`, perhaps a late one, and perhaps without it."""
    oldest = window_start(store, rules, a, j, horizon)
    skip = j if rules.aggregate[a, EXCLUDES] else NOTHING
    moved = store.scratch[LIMBS : LIMBS + len(running)]
    for lane in range(len(running)):
        moved[lane] = running[lane]
    if rules.aggregate[a, KIND] == DISTINCT:
        move_back_to_event(store, rules, a, moved, g, j, oldest, store.size[EVENTS] + 1)
        if skip != NOTHING:
            leave(store, rules, a, moved, j)
        measure = measured(store, rules, a, moved)
        # only a copy of the lanes was moved, but the table itself
        if skip != NOTHING:
            enter(store, rules, a, moved, j)
        return_to_newest(store, rules, a, moved, j, running[START])
        return measure
    if has_queue(rules, a):
        found = TOO_FAR
        if not has_blocks(store, g):
            if oldest < running[KNOWN]:
                start = window_start(store, rules, a, store.group[g, NEWEST], horizon)
                rebuild_window(store, rules, a, running, g, horizon, start)
            found = best(store, rules, a, running, j, skip, oldest, LIMIT)
        moved[HEAD] = found
        there = found != TOO_FAR
    else:
        there = move_back_to_event(store, rules, a, moved, g, j, oldest, LIMIT)
    if not there:
        if not has_blocks(store, g):
            make_blocks(store, g)
        last = skip if has_queue(rules, a) else NOTHING
        sum_up(store, rules, a, running, g, store.event[j, TIME], last, oldest, moved)
    if skip != NOTHING and not has_queue(rules, a):
        leave(store, rules, a, moved, j)
    return measured(store, rules, a, moved)


@bare
def move_back_to_event(store, rules, a, running, g, j, oldest, most_steps):
    """Moves a window that ends with the newest event back, to end with the late event `j` and start at time `oldest`.

    Returns whether it came there in `most_steps`.
    """
    started = store.event[running[START], TIME]
    i = store.group[g, NEWEST]
    while i != j and store.event[i, TIME] >= started:
        leave(store, rules, a, running, i)
        i = store.event[i, PREV]
        most_steps -= 1
        if most_steps == 0:
            return False
    if store.event[j, TIME] < started:
        running[START] = j
        enter(store, rules, a, running, j)
    i = store.event[running[START], PREV]
    while i != NOTHING and store.event[i, TIME] >= oldest:
        enter(store, rules, a, running, i)
        running[START] = i
        i = store.event[i, PREV]
        most_steps -= 1
        if most_steps == 0:
            return False
    return True


@bare
def return_to_newest(store, rules, a, running, j, start):
    """Moves a window that ends with event `j` back to where it was: from event `start` to the newest."""
    started = store.event[start, TIME]
    i = running[START]
    while i != store.event[j, NEXT] and store.event[i, TIME] < started:
        leave(store, rules, a, running, i)
        i = store.event[i, NEXT]
    i = store.event[j, NEXT]
    while i != NOTHING:
        if store.event[i, TIME] >= started:
            enter(store, rules, a, running, i)
        i = store.event[i, NEXT]


@bare
def index_counted(store, rules, before, renamed):
    """Fills the hash table of distinct values out of another; `renamed`: the aggregates' new numbers, NOTHING for those gone."""
    for row in range(len(before)):
        a = before[row, AGGREGATE]
        if a != NOTHING and before[row, COUNTED] > 0 and renamed[a] != NOTHING:
            place = tally(store, rules, renamed[a], before[row, EXAMPLE])
            store.counted[place, COUNTED] = before[row, COUNTED]
