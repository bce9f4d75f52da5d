"""Exact windows, one for each event: "x back from the current event".

      W = 10 min            t
  ────┤━━━━━━━━━━━━━━━━━━━━━┤
   a  b          c          d        window of d: b c d   (both ends count)

This is `DynamicAlertFunction` of the Flink demo without its walk over the whole window: each group keeps its events linked in
time order (`lab.engine.compiled.groups`), and each distinct aggregate of the rules a running value that follows them
(`lab.engine.compiled.running`). `lab.engine.compiled.limits` says which rules fire. Numba compiles this plain Python.
"""

import numpy as np

from lab.engine.compiled.aggregates import COUNT_SINCE, enter, has_values, measured
from lab.engine.compiled.conditions import begin_anew, judge_conditions, keep_measure, write_alert
from lab.engine.compiled.groups import (
    group_of,
    group_place,
    held_at,
    keep_taking_back,
    link,
    look_ahead,
    older_neighbour,
    touch,
)
from lab.engine.compiled.layout import (
    ALERTED,
    COMPARED,
    EXCLUDES,
    GROUPS,
    KIND,
    LANES,
    NEWEST,
    NOTHING,
    RESETS,
    RETURNS,
    RULE,
    SEQ,
    START,
    TAKES_BACK,
    TIME,
    VALUES,
    WIDTH,
    bare,
)
from lab.engine.compiled.limits import fire, search
from lab.engine.compiled.running import (
    add_late_event,
    aggregate_lanes,
    leave_before,
    measured_at,
    rebuild_if_dropped,
    take_back,
    window_start,
)

AHEAD = 64  # events that are looked up at once
EVALUATE_LATE, STORE_LATE, DROP_LATE = range(3)
# what became of an event; and of a record that takes one back: it was held, it was not, it was and had raised alerts
EVALUATED, STORED_LATE, DUPLICATE, DROPPED_LATE, TAKEN_BACK, NOT_HELD, WITHDRAWN = range(7)


@bare
def evaluate(
    store, rules, batch, first_seq, first, widest, out_of_orderness, late_policy, fate, taken, alerts
):
    """Takes in a batch's events from row `first` on, as far as there is room; row `i` gets seq first_seq + i.

    `widest` is the route's widest window; times are in ms. There must be room for the batch's events; with that for groups,
    lanes or alerts used up, it stops. Fills `fate` with what became of each event, `taken` with the seqs of events that rows took
    back, and `alerts`; returns the row it got to and the number of alerts.
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
        if store.size[RETURNS] and batch.value[i, 0] & TAKES_BACK:
            horizon = store.newest[key_group] - widest - out_of_orderness
            fate[i] = give_back(store, rules, batch, first_seq + i, i, horizon, taken)
            continue
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
        if held_at(store, g, p, t, batch.id[i]) != NOTHING:
            fate[i] = DUPLICATE
            continue
        late = newest != NOTHING and t < store.event[newest, TIME] - out_of_orderness
        if late and late_policy == DROP_LATE:
            fate[i] = DROPPED_LATE
            continue
        j = link(store, g, p, first_seq + i, batch, i)
        fate[i] = STORED_LATE if late and late_policy == STORE_LATE else EVALUATED
        for a in range(len(rules.aggregate)):
            place = np.int64(store.place[g, a])
            if p != newest and place != NOTHING and store.running[place + START] != NOTHING:
                running = store.running[place : place + rules.aggregate[a, WIDTH]]
                add_late_event(store, rules, a, running, j, window_start(store, rules, a, newest, horizon))
            if fate[i] == EVALUATED:
                fired = judge(store, rules, batch, a, g, j, horizon, i, alerts, fired)
        if fate[i] == EVALUATED and len(rules.joined):
            fired = judge_conditions(store, rules, batch, g, j, i, alerts, fired)
    return len(batch.time), fired


@bare
def give_back(store, rules, batch, seq, i, horizon, taken):
    """Takes back the event with the id, time and group of row `i`, if it is held; returns what became of the row."""
    t, g = batch.time[i], batch.group[i]
    if g == NOTHING:
        g = store.table[group_place(store, batch.key, i)]  # the batch itself may have brought the group
    if g == NOTHING or t < horizon:
        return NOT_HELD
    j = held_at(store, g, older_neighbour(store, g, t), t, batch.id[i])
    if j == NOTHING:
        return NOT_HELD
    take_back(store, rules, g, j)
    taken[i] = store.event[j, SEQ]
    keep_taking_back(store, g, t, batch.id[i], seq)
    return WITHDRAWN if store.event[j, VALUES] & ALERTED else TAKEN_BACK


@bare
def judge(store, rules, batch, a, g, j, horizon, row, alerts, fired):
    """Compares an aggregate over the window that ends with event `j` with its limits; returns where `alerts` got to."""
    is_counted, is_compared = has_values(store, rules, a, j), rules.aggregate[a, COMPARED] != 0
    if not is_counted and not is_compared:
        return fired
    place = aggregate_lanes(store, rules, a, g)
    running = store.running[place : place + rules.aggregate[a, WIDTH]]
    newest = store.group[g, NEWEST]
    start = window_start(store, rules, a, newest, horizon)
    was_kept = running[START] != NOTHING
    is_kept = rebuild_if_dropped(store, rules, a, running, g, start)
    if was_kept and j == newest:
        enter(store, rules, a, running, j)
        leave_before(store, rules, a, running, start)
    if is_kept and j == newest and not rules.aggregate[a, EXCLUDES]:
        measure = measured(store, rules, a, running)
    else:
        measure = measured_at(store, rules, a, running, g, j, horizon)
    if is_compared:
        keep_measure(rules, a, measure)
    if is_counted:
        fired = alert(store, rules, batch, a, g, j, measure, row, alerts, fired)
    return fired


@bare
def alert(store, rules, batch, a, g, j, measure, row, alerts, fired):
    """Writes an alert for each rule that the measure at event `j` fires and whose `when` is true of it, in row `row` of the batch.

    A rule that counts since it fired begins anew.
    """
    less, upto = search(rules, a, measure)
    end = may_alert(rules, batch, row, alerts, fired, fire(rules, a, less, upto, alerts[:, RULE], fired))
    for k in range(fired, end):
        write_alert(alerts, k, row, alerts[k, RULE], g, 0, measure)
    if end > fired:
        if store.size[RETURNS]:
            store.event[j, VALUES] |= ALERTED
        begin_anew(store, rules, a, g, j)
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
