"""Exact windows, one for each event: "x back from the current event".

      W = 10 min            t
  ────┤━━━━━━━━━━━━━━━━━━━━━┤
   a  b          c          d        window of d: b c d   (both ends count)

This is `DynamicAlertFunction` of the Flink demo without its walk over the whole window: each group keeps its events linked in
time order (`lab.engine.compiled.groups`), and each distinct aggregate of the rules a running value that follows them
(`lab.engine.compiled.running`). `lab.engine.compiled.limits` says which rules fire. Numba compiles this plain Python.
"""

import numpy as np

from lab.engine.compiled.aggregates.counted import COUNT_SINCE, OWN_VALUE, has_values, own_value
from lab.engine.compiled.aggregates.forms import enter_window, measure_of_accumulator
from lab.engine.compiled.aggregates.pairs import measure_of_pair
from lab.engine.compiled.conditions import (
    append_alerts_of_conditions,
    reset_if_count_with_reset,
    save_measure,
    write_alert_row,
)
from lab.engine.compiled.groups import (
    find_group,
    find_known_groups,
    find_or_add_group,
    find_stored_event,
    has_room_for_event,
    last_event_at_or_before,
    prefetch_windows,
    store_event,
)
from lab.engine.compiled.horizon import (
    newest_event,
    note_time,
    time_reached_by_events,
    time_reached_by_groups,
)
from lab.engine.compiled.layout import (
    ALERTED,
    LANES,
    NEWEST,
    NEXT,
    NO_LOG_TIME,
    NOTHING,
    PREV,
    RESETS,
    RETURNS,
    RULE,
    SEQ,
    START,
    TAKES_BACK,
    TIME,
    VALUES,
    VALUES_OF_CONDITION,
    njit_without_allocation,
)
from lab.engine.compiled.limits import append_rules_that_fire, count_limits_below_and_up_to
from lab.engine.compiled.otherwindows import (
    add_late_event_to_other_window,
    find_or_allocate_accumulator,
    forget_window,
    measure_other_window,
)
from lab.engine.compiled.restore import store_record
from lab.engine.compiled.running import (
    add_late_event,
    evict_before,
    measure_at_event,
    measure_only_event,
    needs_accumulator,
    rebuild_dropped_window_if_due,
    take_back_event,
    window_start_ms,
)

AHEAD = 64  # events that are looked up at once
EVALUATE_LATE, STORE_LATE, DROP_LATE = range(3)
# what became of an event, and of a record that takes one back: the event was stored, was not stored, was stored and had raised alerts
EVALUATED, STORED_LATE, DUPLICATE, DROPPED_LATE, TAKEN_BACK, NOT_HELD, WITHDRAWN = range(7)


@njit_without_allocation
def evaluate_batch(
    store,
    rules,
    batch,
    first_seq,
    first_row,
    widest_ms,
    out_of_orderness_ms,
    late_policy,
    fates,
    related,
    alerts,
):
    """Evaluates a batch's events from `first_row` on, as far as there is room; row i gets seq first_seq + i.

    `widest_ms` is the route's widest window. There must be room for the batch's events; if the room for groups,
    lanes, runs of one time or alerts is used up, it stops. Fills `fates` with what became of each event, `related` with the seqs of the events that
    rows took back and, for events dropped late, the rows of the newest events beside them, and `alerts`; returns the row at which it
    stopped and the number of alerts.
    """
    alert_rows = 0
    lanes, own = np.int64(0), np.int64(0)
    for aggregate in range(len(rules.aggregates)):
        lanes += rules.aggregates[aggregate].width
        own += rules.aggregates[aggregate].kind == COUNT_SINCE
    looked = first_row
    for row in range(first_row, len(batch.times_ms)):
        if row == looked:
            looked = min(row + AHEAD, len(batch.times_ms))
            find_known_groups(store, batch, row, looked)
            prefetch_windows(store, batch, row, looked)
        if (
            alert_rows + len(rules.firing_rules) + VALUES_OF_CONDITION * len(rules.conditions) > len(alerts)
            or not has_room_for_event(store)
            or store.scalars[LANES] + lanes > len(store.accumulators)
            or 2 * (store.scalars[RESETS] + own) > len(store.reset_table)
        ):
            return row, alert_rows
        time_ms, key_group = batch.times_ms[row], batch.key_groups[row]
        log_time_ms = batch.log_times_ms[row] if batch.log_times_ms[row] > 0 else NO_LOG_TIME
        reach_ms = widest_ms + out_of_orderness_ms
        horizon_ms = min(time_reached_by_groups(store, key_group), log_time_ms) - reach_ms
        if store.scalars[RETURNS] and batch.values[row, 0] & TAKES_BACK:
            fates[row] = apply_take_back_record(
                store, rules, batch, first_seq + row, row, log_time_ms, reach_ms, related
            )
            continue
        if time_ms < horizon_ms:
            fates[row], related[row] = DROPPED_LATE, newest_event(store, key_group)
            continue
        group = batch.groups[row]
        if group == NOTHING:
            group = find_or_add_group(store, key_group, batch.keys, row)
        newest = store.group_links[group, NEWEST]
        trails = newest != NOTHING and time_ms < store.events[newest, TIME] - out_of_orderness_ms
        if trails:
            reached_ms = min(time_reached_by_events(store, group), log_time_ms)
            horizon_ms = max(horizon_ms, reached_ms - reach_ms)
            if time_ms < horizon_ms:
                fates[row], related[row] = DROPPED_LATE, newest_event(store, key_group)
                continue
        last_at_or_before = last_event_at_or_before(store, group, time_ms)
        if find_stored_event(store, group, last_at_or_before, time_ms, batch.event_ids[row]) != NOTHING:
            fates[row] = DUPLICATE
            continue
        late = trails and time_ms < log_time_ms - out_of_orderness_ms
        if late and late_policy == DROP_LATE:
            fates[row], related[row] = DROPPED_LATE, newest
            continue
        event = store_event(store, group, last_at_or_before, first_seq + row, batch, row)
        note_time(store, key_group, group, time_ms)
        fates[row] = STORED_LATE if late and late_policy == STORE_LATE else EVALUATED
        if last_at_or_before != newest:
            add_late_event_to_windows(store, rules, group, event, newest, horizon_ms)
        if fates[row] == EVALUATED:
            alert_rows = append_alerts(store, rules, batch, group, event, horizon_ms, row, alerts, alert_rows)
    return len(batch.times_ms), alert_rows


@njit_without_allocation
def add_late_event_to_windows(store, rules, group, event, newest, horizon_ms):
    """Adds an event that has newer neighbours to the running windows of its group, which end with the `newest`."""
    for aggregate in range(len(rules.aggregates)):
        offset = np.int64(store.accumulator_starts[group, aggregate])
        if offset != NOTHING and store.accumulators[offset + START] != NOTHING:
            accumulator = store.accumulators[offset : offset + rules.aggregates[aggregate].width]
            if rules.aggregates[aggregate].other_window:
                add_late_event_to_other_window(store, rules, aggregate, accumulator, event)
                continue
            start_ms = window_start_ms(store, rules, aggregate, newest, horizon_ms)
            add_late_event(store, rules, aggregate, accumulator, event, start_ms)


@njit_without_allocation
def append_alerts(store, rules, batch, group, event, horizon_ms, row, alerts, alert_rows):
    """Evaluates all rules on an event that has been stored; returns the number of filled rows of `alerts`."""
    for aggregate in range(len(rules.aggregates)):
        alert_rows = append_alerts_of_aggregate(
            store, rules, batch, aggregate, group, event, horizon_ms, row, alerts, alert_rows
        )
    if len(rules.rules_with_conditions):
        alert_rows = append_alerts_of_conditions(store, rules, batch, group, event, row, alerts, alert_rows)
    return alert_rows


@njit_without_allocation
def apply_take_back_record(store, rules, batch, seq, row, log_time_ms, reach_ms, taken_back_seqs):
    """Takes back the event with the id, time and group of a row, if it is stored; returns what became of the row.

    `reach_ms`: how far behind the time reached events are stored.
    """
    time_ms, group = batch.times_ms[row], batch.groups[row]
    if group == NOTHING:
        group = find_group(store, batch.keys, row)  # it may be new in this batch
    if group == NOTHING:
        return NOT_HELD
    reached_ms = max(
        time_reached_by_groups(store, batch.key_groups[row]), time_reached_by_events(store, group)
    )
    if time_ms < min(reached_ms, log_time_ms) - reach_ms:
        return NOT_HELD
    event = find_stored_event(
        store, group, last_event_at_or_before(store, group, time_ms), time_ms, batch.event_ids[row]
    )
    if event == NOTHING:
        return NOT_HELD
    take_back_event(store, rules, group, event)
    taken_back_seqs[row] = store.events[event, SEQ]
    store_record(store, group, time_ms, batch.event_ids[row], seq, TAKES_BACK)
    return WITHDRAWN if store.events[event, VALUES] & ALERTED else TAKEN_BACK


@njit_without_allocation
def append_alerts_of_aggregate(
    store, rules, batch, aggregate, group, event, horizon_ms, row, alerts, alert_rows
):
    """Compares an aggregate over the window that ends with an event with its limits; returns the number of filled rows of `alerts`."""
    is_counted, is_compared = (
        has_values(store, rules, aggregate, event),
        rules.aggregates[aggregate].compared != 0,
    )
    if rules.aggregates[aggregate].other_window and not is_compared:
        forget_window(store, rules, aggregate, group, event)
        return alert_rows
    if not is_counted and not is_compared:
        return alert_rows
    if rules.aggregates[aggregate].kind == OWN_VALUE:
        measure = own_value(store, rules, aggregate, event)
    elif rules.aggregates[aggregate].other_window:
        measure = measure_other_window(store, rules, aggregate, group, event, horizon_ms)
    else:
        measure = move_window_and_measure(store, rules, aggregate, group, event, horizon_ms)
    if rules.aggregates[aggregate].pair:
        measure = measure_of_pair(store, rules, aggregate, event, measure)
    if is_compared:
        save_measure(rules, aggregate, measure)
    if is_counted and measure.denominator:
        alert_rows = append_alerts_of_measure(
            store, rules, batch, aggregate, group, event, measure, row, alerts, alert_rows
        )
    return alert_rows


@njit_without_allocation
def move_window_and_measure(store, rules, aggregate, group, event, horizon_ms):
    """Moves the running window of a group to an event, unless it is late, and measures the window that ends with the event."""
    if (
        store.accumulator_starts[group, aggregate] == NOTHING
        and store.links[event, PREV] == NOTHING
        and store.links[event, NEXT] == NOTHING
        and not needs_accumulator(rules, aggregate)
    ):
        return measure_only_event(store, rules, aggregate, event)
    offset = find_or_allocate_accumulator(store, rules, aggregate, group)
    accumulator = store.accumulators[offset : offset + rules.aggregates[aggregate].width]
    newest = store.group_links[group, NEWEST]
    start = window_start_ms(store, rules, aggregate, newest, horizon_ms)
    was_kept = accumulator[START] != NOTHING
    is_kept = rebuild_dropped_window_if_due(store, rules, aggregate, accumulator, group, start)
    if was_kept and event == newest and rules.aggregates[aggregate].excludes:
        evict_before(store, rules, aggregate, accumulator, start)
        measure = measure_of_accumulator(store, rules, aggregate, accumulator)
        enter_window(store, rules, aggregate, accumulator, event)
        return measure
    if was_kept and event == newest:
        enter_window(store, rules, aggregate, accumulator, event)
        evict_before(store, rules, aggregate, accumulator, start)
    if is_kept and event == newest and not rules.aggregates[aggregate].excludes:
        return measure_of_accumulator(store, rules, aggregate, accumulator)
    return measure_at_event(store, rules, aggregate, accumulator, group, event, horizon_ms)


@njit_without_allocation
def append_alerts_of_measure(store, rules, batch, aggregate, group, event, measure, row, alerts, alert_rows):
    """Writes an alert for each rule that the measure fires and whose `when` is true of the event; returns the number of filled rows of `alerts`.

    A rule that counts since it fired begins anew.
    """
    less, upto = count_limits_below_and_up_to(rules, aggregate, measure)
    end = filter_rules_by_when(
        rules,
        batch,
        row,
        alerts,
        alert_rows,
        append_rules_that_fire(rules, aggregate, less, upto, alerts[:, RULE], alert_rows),
    )
    for k in range(alert_rows, end):
        write_alert_row(alerts, k, row, alerts[k, RULE], group, 0, measure)
    if end > alert_rows:
        if store.scalars[RETURNS]:
            store.events[event, VALUES] |= ALERTED
        reset_if_count_with_reset(store, rules, aggregate, group, event)
    return end


@njit_without_allocation
def filter_rules_by_when(rules, batch, row, alerts, begin, end):
    """Keeps of the rules in `alerts` from `begin` up to `end` those that may alert at an event; returns where they end."""
    kept = begin
    for k in range(begin, end):
        rule = alerts[k, RULE]
        column = rules.when_bits[rule, 0]
        if column == NOTHING or batch.when_bits[row, column] & rules.when_bits[rule, 1]:
            alerts[kept, RULE] = rule
            kept += 1
    return kept
