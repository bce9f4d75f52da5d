"""An index over the events of a long group, so that a late event does not walk past all newer ones.

    older ◄──────────────── time ────────────────► newer
    ┌───────────┐   ┌───────────┐   ┌───────────┐
    │ e e e e e │◄──│ e e e e   │◄──│ e e e e e │◄── group      a block: at most 512 events that follow each other
    └───────────┘   └───────────┘   └───────────┘
       totals          totals          totals                  of each aggregate, computed when they are first needed

A group gets blocks once a walk over its events has taken more than LIMIT steps. From then on a late event costs one step for each
block and one for each event of at most three blocks: in a group of a million events about 4,000 and 1,500 steps. Distinct values
cannot be added up block by block: for them the window still moves event by event.
"""

from lab.engine.compiled.aggregates import COUNT_SINCE, beats, counts, has_queue, link_in_queue, move
from lab.engine.compiled.layout import (
    BLOCK,
    BLOCKS,
    EVENTS,
    GROUP,
    HEAD,
    KIND,
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
    QUEUE,
    RESET,
    SEQ,
    START,
    TAIL,
    TIME,
    WIDTH,
    N,
    bare,
)

HALF = 256  # events of a block that has just been divided
LIMIT = 2 * HALF  # steps of a walk without an index


# -- blocks ----------------------------------------------------------------------------------------------------------


@bare
def has_blocks(store, g):
    return store.group[g, BLOCK] != NOTHING


@bare
def make_blocks(store, g):
    """Divides the events of a group that has no blocks yet."""
    newer = NOTHING
    j = store.group[g, NEWEST]
    while j != NOTHING:
        b = store.size[BLOCKS]
        store.size[BLOCKS] += 1
        if newer == NOTHING:
            store.group[g, BLOCK] = b
        else:
            store.block[newer, OLDER_BLOCK] = b
        store.block[b, NEWER_BLOCK] = newer
        store.block[b, OLDER_BLOCK] = NOTHING
        store.block[b, LATEST] = store.size[EVENTS] - 1
        store.block[b, LENGTH] = 0
        while j != NOTHING and store.block[b, LENGTH] < HALF:
            store.block[b, OLDEST] = j
            store.block[b, OLDEST_TIME] = store.event[j, TIME]
            store.block[b, LENGTH] += 1
            j = store.event[j, PREV]
        newer = b


@bare
def block_of(store, g, t):
    """The group's newest block that begins at time `t` or before, or the oldest one."""
    b = store.group[g, BLOCK]
    while store.block[b, OLDEST_TIME] > t and store.block[b, OLDER_BLOCK] != NOTHING:
        b = store.block[b, OLDER_BLOCK]
    return b


@bare
def newest_of(store, g, b):
    """The newest event of a block."""
    newer = store.block[b, NEWER_BLOCK]
    return store.group[g, NEWEST] if newer == NOTHING else store.event[store.block[newer, OLDEST], PREV]


@bare
def neighbour_by_blocks(store, g, t):
    """The group's last event, in time order, that is not newer than `t`."""
    b = block_of(store, g, t)
    if store.block[b, OLDEST_TIME] > t:
        return NOTHING
    p = newest_of(store, g, b)
    while store.event[p, TIME] > t:
        p = store.event[p, PREV]
    return p


@bare
def add_to_block(store, g, j):
    """Takes event `j`, which has just been linked behind all others of its time, into its block."""
    t = store.event[j, TIME]
    b = block_of(store, g, t)
    if t < store.block[b, OLDEST_TIME]:
        store.block[b, OLDEST] = j
        store.block[b, OLDEST_TIME] = t
    store.block[b, LENGTH] += 1
    store.block[b, LATEST] = j
    if store.block[b, LENGTH] == 2 * HALF:
        divide_block(store, g, b)


@bare
def divide_block(store, g, b):
    """Makes a block of its own of the newer half."""
    new, newer = store.size[BLOCKS], store.block[b, NEWER_BLOCK]
    store.size[BLOCKS] += 1
    first = store.block[b, OLDEST]
    for _ in range(HALF):
        first = store.event[first, NEXT]
    store.block[new, OLDEST] = first
    store.block[new, OLDEST_TIME] = store.event[first, TIME]
    store.block[new, LENGTH] = store.block[b, LENGTH] - HALF
    store.block[new, LATEST] = store.block[b, LATEST]
    store.block[new, OLDER_BLOCK] = b
    store.block[new, NEWER_BLOCK] = newer
    store.block[b, LENGTH] = HALF
    store.block[b, NEWER_BLOCK] = new
    if newer == NOTHING:
        store.group[g, BLOCK] = new
    else:
        store.block[newer, OLDER_BLOCK] = new


# -- what a range of time adds up to ---------------------------------------------------------------------------------


@bare
def sum_up(store, rules, a, running, g, t, skip, oldest, sums):
    """Fills the lanes `sums` with the aggregate over the group's events from time `oldest` up to time `t`.

    Without event `skip`, if that is the last of these (NOTHING: with all).

    Of a queue only HEAD is filled: the best event, the newest of equal ones. `running`: the lanes that say where it was reset.
    """
    empty(rules, a, sums, running)
    b = block_of(store, g, t)
    j = newest_of(store, g, b)
    while j != NOTHING and (store.event[j, TIME] > t or j == skip):
        if j == store.block[b, OLDEST]:
            b = store.block[b, OLDER_BLOCK]
        j = store.event[j, PREV]
    if j == NOTHING:
        return
    add_events(store, rules, a, sums, j, store.block[b, OLDEST], oldest)
    b = store.block[b, OLDER_BLOCK]
    while b != NOTHING and store.block[b, OLDEST_TIME] >= oldest:
        add_total(store, rules, a, sums, g, b)
        b = store.block[b, OLDER_BLOCK]
    if b != NOTHING:
        add_events(store, rules, a, sums, newest_of(store, g, b), store.block[b, OLDEST], oldest)


@bare
def empty(rules, a, sums, running):
    """No events yet; what was reset stays reset."""
    for lane in range(rules.aggregate[a, WIDTH]):
        sums[lane] = 0
    if has_queue(rules, a):
        sums[HEAD] = NOTHING
    elif rules.aggregate[a, KIND] == COUNT_SINCE:
        sums[RESET] = running[RESET]


@bare
def add_events(store, rules, a, sums, j, last, oldest):
    """Adds the events from `j` back to `last` that are not older than `oldest`."""
    while store.event[j, TIME] >= oldest:
        if counts(store, rules, a, sums, j):
            if has_queue(rules, a):
                add_older(store, rules, a, sums, j)
            else:
                move(store, rules, a, sums, j, 1)
        if j == last:
            return
        j = store.event[j, PREV]


@bare
def add_older(store, rules, a, sums, j):
    """Event `j`, older than what was added before, becomes the best one if it is better."""
    if sums[HEAD] == NOTHING or not beats(store, rules, a, sums[HEAD], j):
        sums[HEAD] = j


@bare
def add_total(store, rules, a, sums, g, b):
    """Adds all of a block."""
    latest = store.block[b, LATEST]
    since = rules.aggregate[a, KIND] == COUNT_SINCE
    if since and store.event[latest, SEQ] <= sums[RESET]:
        return
    total = store.total[b, a]
    # of a new block it is all zeros; with each event that comes into the block, `latest` grows
    if total[START] != latest + 1 or (since and total[RESET] != sums[RESET]):
        empty(rules, a, total, sums)
        total[START] = latest + 1
        add_events(
            store,
            rules,
            a,
            total,
            newest_of(store, g, b),
            store.block[b, OLDEST],
            store.block[b, OLDEST_TIME],
        )
    if has_queue(rules, a):
        if total[HEAD] != NOTHING:
            add_older(store, rules, a, sums, total[HEAD])
    elif since:
        sums[N] += total[N]
    else:
        for lane in range(N, rules.aggregate[a, WIDTH]):
            sums[lane] += total[lane]


@bare
def forget_totals(store, g, t):
    """What the blocks that have events of time `t` add up to is not known any more."""
    b = block_of(store, g, t)
    store.total[b, :, START] = 0
    while store.block[b, OLDEST_TIME] == t and store.block[b, OLDER_BLOCK] != NOTHING:
        b = store.block[b, OLDER_BLOCK]
        store.total[b, :, START] = 0


@bare
def insert_by_blocks(store, rules, a, running, j, sums):
    """An event inside the running window, and not its newest, comes into the queue.

    Only of the events in the queue OLDER is right from then on: what a window that ended earlier found best, `sum_up` tells.
    """
    if not counts(store, rules, a, running, j):
        return
    g = store.event[j, GROUP]
    sum_up(
        *(store, rules, a, running, g, store.event[store.group[g, NEWEST], TIME], NOTHING),
        *(store.event[j, TIME] + 1, sums),
    )
    newer = sums[HEAD]
    if newer == NOTHING:
        link_in_queue(store, rules, a, running, j, running[TAIL], newer, True)
    elif not beats(store, rules, a, newer, j):
        q = rules.aggregate[a, QUEUE]
        older = store.queue[newer, q, OLDER]
        store.queue[newer, q, OLDER] = j
        link_in_queue(store, rules, a, running, j, older, newer, True)
