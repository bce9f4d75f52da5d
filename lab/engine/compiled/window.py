"""Exact windows, one for each event: "x back from the current event".

      W = 10 min            t
  ────┤━━━━━━━━━━━━━━━━━━━━━┤
   a  b          c          d        window of d: b c d   (both ends count)

This is `DynamicAlertFunction` of the Flink demo without its walk over the whole window: each group keeps its events linked in
time order, and each distinct aggregate of the rules keeps a running value with the event where its window starts. An event in
order enters at the newer end, the events that it leaves behind go at the older end: O(1) amortised, whatever the window's
length. For a late event a copy of the running window moves back until it ends there:

   in order     ┤━━━━━━━━━━━━━━━━━━━━┤
   late, at l  ┤━━━━━━━━━━━━━━━━━━l           ◄     what lies between l and the newest event leaves, as much enters

Where that would take many steps, `lab.engine.compiled.blocks` adds up whole blocks of events instead.

`lab.engine.compiled.aggregates` says how events enter and leave, `lab.engine.compiled.limits` which rules fire. Numba compiles this plain Python.
"""

import numpy as np

from lab.engine.compiled.aggregates import (
    COUNT_SINCE,
    DISTINCT,
    TOO_FAR,
    best,
    clear,
    enter,
    has_queue,
    has_values,
    insert,
    leave,
    measured,
    tally,
)
from lab.engine.compiled.blocks import LIMIT, has_blocks, insert_by_blocks, make_blocks, sum_up
from lab.engine.compiled.conditions import judge_conditions, keep_measure
from lab.engine.compiled.groups import (
    group_of,
    is_held,
    link,
    look_ahead,
    older_neighbour,
    reset,
    reset_place,
    touch,
)
from lab.engine.compiled.layout import (
    AGGREGATE,
    COMPARED,
    CONDITION,
    COUNTED,
    EVENTS,
    EXAMPLE,
    EXCLUDES,
    GROUP,
    GROUPS,
    HEAD,
    HIGH_PART,
    IN_GROUP,
    KIND,
    KNOWN,
    LANES,
    LOW_PART,
    NEWEST,
    NEXT,
    NOTHING,
    PART,
    PARTS,
    PREV,
    RESET,
    RESET_SEQ,
    RESETS,
    ROW,
    RULE,
    RULE_ID,
    SEQ,
    START,
    TIME,
    WIDTH,
    WINDOW,
    N,
    bare,
)
from lab.engine.compiled.limits import fire, search
from lab.engine.compiled.squares import LIMBS

AHEAD = 64  # events that are looked up at once
EVALUATE_LATE, STORE_LATE, DROP_LATE = range(3)
EVALUATED, STORED_LATE, DUPLICATE, DROPPED_LATE = range(4)  # what became of an event


# -- running windows -------------------------------------------------------------------------------------------------


@bare
def place_of(store, rules, a, g):
    """Where the lanes of an aggregate in a group are; it gets them with its first event."""
    place = np.int64(store.place[g, a])
    if place == NOTHING:
        place = store.size[LANES]
        store.size[LANES] += rules.aggregate[a, WIDTH]
        store.place[g, a] = place
        store.running[place + START] = NOTHING
        if rules.aggregate[a, KIND] == COUNT_SINCE:
            store.running[place + RESET] = store.reset[
                reset_place(store, rules.aggregate[a, RULE_ID], g), RESET_SEQ
            ]
    return place


@bare
def leave_before(store, rules, a, running, oldest):
    """Moves the older end of a running window up to the first event that is not older than `oldest`."""
    start = running[START]
    while store.event[start, TIME] < oldest:
        leave(store, rules, a, running, start)
        start = store.event[start, NEXT]
    running[START] = start


@bare
def follow(store, rules, a, running, g, since, oldest):
    """Takes in the group's events from time `since` on; the running window starts at time `oldest`."""
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
def take_in_late(store, rules, a, running, j, oldest):
    """Keeps a running window right after event `j` was linked in before the newest; `oldest`: where the window starts."""
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
def step_back(store, rules, a, running, g, j, oldest, most):
    """Moves a window that ends with the newest event back, to end with the late event `j` and start at time `oldest`.

    Returns whether it came there in `most` steps.
    """
    started = store.event[running[START], TIME]
    i = store.group[g, NEWEST]
    while i != j and store.event[i, TIME] >= started:
        leave(store, rules, a, running, i)
        i = store.event[i, PREV]
        most -= 1
        if most == 0:
            return False
    if store.event[j, TIME] < started:
        running[START] = j
        enter(store, rules, a, running, j)
    i = store.event[running[START], PREV]
    while i != NOTHING and store.event[i, TIME] >= oldest:
        enter(store, rules, a, running, i)
        running[START] = i
        i = store.event[i, PREV]
        most -= 1
        if most == 0:
            return False
    return True


@bare
def step_forth(store, rules, a, running, j, start):
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


# -- evaluation ------------------------------------------------------------------------------------------------------


@bare
def evaluate(store, rules, batch, first_seq, first, widest, out_of_orderness, late_policy, fate, alerts):
    """Takes in a batch's events from row `first` on, as far as there is room; row `i` gets seq first_seq + i.

    `widest` is the route's widest window; times are in ms. There must be room for the batch's events; with that for groups,
    lanes or alerts used up, it stops. Fills `fate` with what became of each event, and `alerts`; returns the row it got to
    and the number of alerts.
    """
    fired = 0
    lanes, own = np.int64(0), np.int64(0)
    for a in range(len(rules.aggregate)):
        lanes += rules.aggregate[a, WIDTH]
        own += rules.aggregate[a, KIND] == COUNT_SINCE
    looked = first
    for i in range(first, len(batch.time)):
        if i == looked:
            looked = min(i + AHEAD, len(batch.time))
            look_ahead(store, batch, i, looked)
            touch(store, batch, i, looked)
        if (
            fired + len(rules.firing) + 2 * len(rules.condition) > len(alerts)
            or store.size[GROUPS] == len(store.group)
            or store.size[LANES] + lanes > len(store.running)
            or 2 * (store.size[RESETS] + own) > len(store.reset)
        ):
            return i, fired
        t, key_group = batch.time[i], batch.key_group[i]
        store.newest[key_group] = max(store.newest[key_group], t)
        horizon = store.newest[key_group] - widest - out_of_orderness
        if t < horizon:
            fate[i] = DROPPED_LATE
            continue
        g = batch.group[i]
        if g == NOTHING:
            g = group_of(store, key_group, batch.key, i)
        newest = store.group[g, NEWEST]
        p = older_neighbour(store, g, t)
        if is_held(store, g, p, t, batch.id[i]):
            fate[i] = DUPLICATE
            continue
        late = newest != NOTHING and t < store.event[newest, TIME] - out_of_orderness
        if late and late_policy == DROP_LATE:
            fate[i] = DROPPED_LATE
            continue
        j = link(store, g, p, first_seq + i, batch, i)
        fate[i] = STORED_LATE if late and late_policy == STORE_LATE else EVALUATED
        for a in range(len(rules.aggregate)):
            if p != newest and store.place[g, a] != NOTHING:
                place = store.place[g, a]
                running = store.running[place : place + rules.aggregate[a, WIDTH]]
                take_in_late(store, rules, a, running, j, window_start(store, rules, a, newest, horizon))
            if fate[i] == EVALUATED:
                fired = judge(store, rules, batch, a, g, j, horizon, i, alerts, fired)
        if fate[i] == EVALUATED and len(rules.joined):
            fired = judge_conditions(store, rules, batch, g, j, i, alerts, fired)
    return len(batch.time), fired


@bare
def window_start(store, rules, a, j, horizon):
    """Where the window of an aggregate that ends with event `j` starts, ms."""
    return max(store.event[j, TIME] - rules.aggregate[a, WINDOW], horizon)


@bare
def judge(store, rules, batch, a, g, j, horizon, row, alerts, fired):
    """Compares an aggregate over the window that ends with event `j` with its limits; returns where `alerts` got to."""
    is_counted, is_compared = has_values(store, rules, a, j), rules.aggregate[a, COMPARED] != 0
    if not is_counted and not is_compared:
        return fired
    place = place_of(store, rules, a, g)
    running = store.running[place : place + rules.aggregate[a, WIDTH]]
    newest = store.group[g, NEWEST]
    start = window_start(store, rules, a, newest, horizon)
    if running[START] == NOTHING:
        follow(store, rules, a, running, g, start, start)
    elif j == newest:
        enter(store, rules, a, running, j)
        leave_before(store, rules, a, running, start)
    if j == newest and not rules.aggregate[a, EXCLUDES]:
        measure = measured(store, rules, a, running)
    else:
        measure = measured_at(store, rules, a, running, g, j, horizon)
    if is_compared:
        keep_measure(rules, a, measure)
    if is_counted:
        fired = alert(store, rules, batch, a, running, j, measure, row, alerts, fired)
    return fired


@bare
def measured_at(store, rules, a, running, g, j, horizon):
    """The aggregate over the window that ends with event `j`, perhaps a late one, and perhaps without it."""
    oldest = window_start(store, rules, a, j, horizon)
    skip = j if rules.aggregate[a, EXCLUDES] else NOTHING
    moved = store.scratch[LIMBS : LIMBS + len(running)]
    for lane in range(len(running)):
        moved[lane] = running[lane]
    if rules.aggregate[a, KIND] == DISTINCT:
        step_back(store, rules, a, moved, g, j, oldest, store.size[EVENTS] + 1)
        if skip != NOTHING:
            leave(store, rules, a, moved, j)
        measure = measured(store, rules, a, moved)
        # only a copy of the lanes was moved, but the table itself
        if skip != NOTHING:
            enter(store, rules, a, moved, j)
        step_forth(store, rules, a, moved, j, running[START])
        return measure
    if has_queue(rules, a):
        found = TOO_FAR
        if not has_blocks(store, g):
            if oldest < running[KNOWN]:
                start = window_start(store, rules, a, store.group[g, NEWEST], horizon)
                follow(store, rules, a, running, g, horizon, start)
            found = best(store, rules, a, running, j, skip, oldest, LIMIT)
        moved[HEAD] = found
        there = found != TOO_FAR
    else:
        there = step_back(store, rules, a, moved, g, j, oldest, LIMIT)
    if not there:
        if not has_blocks(store, g):
            make_blocks(store, g)
        last = skip if has_queue(rules, a) else NOTHING
        sum_up(store, rules, a, running, g, store.event[j, TIME], last, oldest, moved)
    if skip != NOTHING and not has_queue(rules, a):
        leave(store, rules, a, moved, j)
    return measured(store, rules, a, moved)


@bare
def alert(store, rules, batch, a, running, j, measure, row, alerts, fired):
    """Writes an alert for each rule that the measure at event `j` fires and whose `when` is true of it, in row `row` of the batch.

    A rule that counts since it fired begins anew.
    """
    less, upto = search(rules, a, measure)
    end = may_alert(rules, batch, row, alerts, fired, fire(rules, a, less, upto, alerts[:, RULE], fired))
    for k in range(fired, end):
        alerts[k, ROW] = row
        alerts[k, IN_GROUP] = store.event[j, GROUP]
        alerts[k, CONDITION] = 0
        alerts[k, HIGH_PART] = measure.high
        alerts[k, LOW_PART] = measure.low
        alerts[k, PART] = measure.part
        alerts[k, PARTS] = measure.parts
    if end > fired and rules.aggregate[a, KIND] == COUNT_SINCE:
        running[RESET] = store.event[j, SEQ]
        running[N] = 0
        reset(store, rules.aggregate[a, RULE_ID], store.event[j, GROUP], store.event[j, SEQ])
    return end


@bare
def may_alert(rules, batch, row, alerts, fired, end):
    """Keeps of the rules in `alerts` from `fired` up to `end` those that may alert at an event; returns where they end."""
    kept = fired
    for k in range(fired, end):
        rule = alerts[k, RULE]
        column = rules.when[rule, 0]
        if column == NOTHING or batch.when[row, column] & rules.when[rule, 1]:
            alerts[kept, RULE] = rule
            kept += 1
    return kept
