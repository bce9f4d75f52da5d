"""Running aggregates: how each follows a window whose two ends move.

    kind          its lanes, int64s, after `start`        an event enters or leaves
    COUNT         n                                       n ± 1
    COUNT_SINCE   n, reset                                the same, for events after the one at which the rule last fired
    SUM           n, high, low                            sum ± value; the sum is high · 2³² + low and never overflows
    MEAN          n, high, low                            the same
    SQUARES       n, high, low, 4 limbs                   the sum of the squares ± value² as well, 32 bits a limb
    DISTINCT      n                                       a table says how many events have a value; n ± 1 at 0 ↔ 1
    LOWEST        head, tail, known                       a queue of the events that are not yet beaten by a newer one
    HIGHEST       head, tail, known                       the same

All lanes are exact: a value that leaves is subtracted to the last bit. `measure_of_accumulator` gives the aggregate as integer part and fraction.
"""

from typing import NamedTuple

import numpy as np

from lab.engine.compiled.layout import (
    AGGREGATE,
    COLUMN,
    COUNTED,
    EXAMPLE,
    FIRST,
    GROUP,
    HEAD,
    HIGH,
    KIND,
    KNOWN,
    LAST,
    LOW,
    LOW_BITS,
    NEEDS,
    NEEDS_END,
    NEWER,
    NEXT,
    NOTHING,
    OLDER,
    PREV,
    QUEUE,
    RESET,
    SALT,
    SEQ,
    TAIL,
    TIME,
    N,
    njit_without_allocation,
)
from lab.engine.compiled.limits import Measure
from lab.engine.compiled.squares import LIMBS, add_square, variance

COUNT, COUNT_SINCE, SUM, MEAN, SQUARES, DISTINCT, LOWEST, HIGHEST = range(8)  # kinds
TOO_FAR = -2  # no event's row


class AccumulatorLayout(NamedTuple):
    """How the engine keeps an aggregate: its kind, and how many lanes, int64s, its accumulator has."""

    kind: int
    lanes: int


ACCUMULATOR_LAYOUTS = {
    "SUM": AccumulatorLayout(SUM, 4),
    "AVG": AccumulatorLayout(MEAN, 4),
    "MIN": AccumulatorLayout(LOWEST, 4),
    "MAX": AccumulatorLayout(HIGHEST, 4),
    "VARIANCE": AccumulatorLayout(SQUARES, 8),
    "STDDEV": AccumulatorLayout(SQUARES, 8),
    "COUNT": AccumulatorLayout(COUNT, 2),
    "COUNT_WITH_RESET": AccumulatorLayout(COUNT_SINCE, 3),
    "UNIQUE_COUNT": AccumulatorLayout(DISTINCT, 2),
}
LANES = max(layout.lanes for layout in ACCUMULATOR_LAYOUTS.values())
HUGE = LIMBS + LANES  # where in the scratch numbers of many limbs are, see `lab.engine.compiled.conditions`
SCRATCH = HUGE + 48


@njit_without_allocation
def clear_accumulator(rules, aggregate, accumulator):
    """An empty window; what was reset stays reset."""
    if has_queue(rules, aggregate):
        accumulator[HEAD] = NOTHING
        accumulator[TAIL] = NOTHING
    elif rules.aggregates[aggregate, KIND] == COUNT_SINCE:
        accumulator[N] = 0
    else:
        accumulator[N:] = 0


@njit_without_allocation
def has_queue(rules, aggregate):
    return rules.aggregates[aggregate, KIND] >= LOWEST


@njit_without_allocation
def has_values(store, rules, aggregate, event):
    """Whether no field that an aggregate needs is null in an event."""
    for row in range(rules.aggregates[aggregate, NEEDS], rules.aggregates[aggregate, NEEDS_END]):
        bits = rules.required_bits[row, 1]
        if store.events[event, rules.required_bits[row, 0]] & bits != bits:
            return False
    return True


@njit_without_allocation
def is_counted(store, rules, aggregate, accumulator, event):
    """Whether an event counts for an aggregate: it has the values, and came after the last reset."""
    if rules.aggregates[aggregate, KIND] == COUNT_SINCE and store.events[event, SEQ] <= accumulator[RESET]:
        return False
    return has_values(store, rules, aggregate, event)


@njit_without_allocation
def enter_window(store, rules, aggregate, accumulator, event):
    """Adds an event to the running window; if the aggregate has a queue, at the newer end."""
    if is_counted(store, rules, aggregate, accumulator, event):
        if has_queue(rules, aggregate):
            link_in_queue(store, rules, aggregate, accumulator, event, accumulator[TAIL], NOTHING, True)
        else:
            add_or_subtract(store, rules, aggregate, accumulator, event, 1)


@njit_without_allocation
def leave_window(store, rules, aggregate, accumulator, event):
    """Removes an event from the running window; if the aggregate has a queue, from the older end."""
    if has_queue(rules, aggregate):
        if accumulator[HEAD] == event:
            accumulator[HEAD] = store.queues[event, rules.aggregates[aggregate, QUEUE], NEWER]
    elif is_counted(store, rules, aggregate, accumulator, event):
        add_or_subtract(store, rules, aggregate, accumulator, event, -1)


@njit_without_allocation
def measure_of_accumulator(store, rules, aggregate, accumulator):
    """The aggregate of the running window; denominator 0: no event counts, and it is no count."""
    kind = rules.aggregates[aggregate, KIND]
    if (kind >= LOWEST and accumulator[HEAD] == NOTHING) or (SUM <= kind <= SQUARES and accumulator[N] == 0):
        return Measure(np.int64(0), np.int64(0), np.int64(0), np.int64(0))
    if kind == SUM:
        return measure_of_sum(accumulator)
    if kind == MEAN:
        quotient, rest = mean_with_remainder(accumulator)
        return measure_of_value(quotient, rest, accumulator[N])
    if kind == SQUARES:
        return variance(accumulator, store.scratch)
    if kind == LOWEST or kind == HIGHEST:
        return measure_of_value(store.events[accumulator[HEAD], rules.aggregates[aggregate, COLUMN]], 0, 1)
    return measure_of_value(accumulator[N], 0, 1)


@njit_without_allocation
def measure_of_value(value, numerator, denominator):
    return Measure(value >> 63, value, numerator, denominator)


# -- what enters is added, what leaves subtracted ----------------------------------------------------------------------


@njit_without_allocation
def add_or_subtract(store, rules, aggregate, accumulator, event, sign):
    """Adds an event to an accumulator (sign 1) or subtracts it (sign -1)."""
    kind = rules.aggregates[aggregate, KIND]
    if kind == DISTINCT:
        slot = find_or_add_distinct_slot(store, rules, aggregate, event)
        store.distinct_table[slot, COUNTED] += sign
        if store.distinct_table[slot, COUNTED] == (sign + 1) >> 1:  # the first with its value, or the last
            accumulator[N] += sign
        return
    accumulator[N] += sign
    if kind == SUM or kind == MEAN or kind == SQUARES:
        value = store.events[event, rules.aggregates[aggregate, COLUMN]]
        accumulator[HIGH] += sign * (value >> 32)
        accumulator[LOW] += sign * (value & LOW_BITS)
        if kind == SQUARES:
            add_square(accumulator, value, sign)


@njit_without_allocation
def measure_of_sum(accumulator):
    high = accumulator[HIGH] + (accumulator[LOW] >> 32)
    return Measure(high >> 32, high << 32 | accumulator[LOW] & LOW_BITS, 0, 1)


@njit_without_allocation
def mean_with_remainder(accumulator):
    """The sum by the count: quotient (rounded down) and rest."""
    n = accumulator[N]
    high = accumulator[HIGH] + (accumulator[LOW] >> 32)
    low = (high % n) << 32 | accumulator[LOW] & LOW_BITS
    return (high // n << 32) + low // n, low % n


# -- distinct values ---------------------------------------------------------------------------------------------------


@njit_without_allocation
def extend_hash(hash_so_far, value):
    hash_so_far = np.uint64(hash_so_far ^ np.uint64(value)) * np.uint64(0xFF51AFD7ED558CCD)
    hash_so_far = (hash_so_far ^ (hash_so_far >> np.uint64(32))) * np.uint64(0xC4CEB9FE1A85EC53)
    return hash_so_far ^ (hash_so_far >> np.uint64(32))


@njit_without_allocation
def has_same_values(store, rules, aggregate, event, other):
    for n in range(rules.aggregates[aggregate, FIRST], rules.aggregates[aggregate, LAST]):
        if store.events[event, rules.distinct_columns[n]] != store.events[other, rules.distinct_columns[n]]:
            return False
    return True


@njit_without_allocation
def find_or_add_distinct_slot(store, rules, aggregate, event):
    """The slot in `distinct_table` for an aggregate and an event's group and value; the first event with a value stands for it."""
    last = len(store.distinct_table) - 1
    group = store.events[event, GROUP]
    hash_so_far = extend_hash(extend_hash(np.uint64(store.scalars[SALT]), group), aggregate)
    for n in range(rules.aggregates[aggregate, FIRST], rules.aggregates[aggregate, LAST]):
        hash_so_far = extend_hash(hash_so_far, store.events[event, rules.distinct_columns[n]])
    slot = np.int64(hash_so_far & np.uint64(last))
    while store.distinct_table[slot, AGGREGATE] != NOTHING:
        other = store.distinct_table[slot, EXAMPLE]
        if (
            store.distinct_table[slot, AGGREGATE] == aggregate
            and store.events[other, GROUP] == group
            and has_same_values(store, rules, aggregate, other, event)
        ):
            return slot
        slot = (slot + 1) & last
    store.distinct_table[slot, AGGREGATE] = aggregate
    store.distinct_table[slot, EXAMPLE] = event
    store.distinct_table[slot, COUNTED] = 0
    return slot


# -- the smallest and the largest value --------------------------------------------------------------------------------
#
#   MAX     value  │9              head: the oldest in the window that no newer one beats
#                  │ ╲   7         OLDER of an event: the nearest older one that it does not beat, also where a
#                  │  4─╲ ╲  5       newer event has beaten both: so a window that ended there finds its maximum
#                  │   ╲ 2 ╲╱ ╲
#                  │    ╲1  3  6   tail: 9 ◄─ 7 ◄─ 6


@njit_without_allocation
def is_at_least_as_extreme(store, rules, aggregate, event, other):
    """Whether an event's value is at least as large (MAX), or at least as small (MIN), as that of another, which no longer matters if it is older."""
    c = rules.aggregates[aggregate, COLUMN]
    if rules.aggregates[aggregate, KIND] == LOWEST:
        return store.events[event, c] <= store.events[other, c]
    return store.events[event, c] >= store.events[other, c]


@njit_without_allocation
def link_in_queue(store, rules, aggregate, accumulator, event, older, newer, is_in_window):
    """Puts an event into the queue between two neighbours, and removes older events that are not more extreme; `newer` is more extreme.

    If `newer` is NOTHING, the event goes to the newer end. `is_in_window`: whether the event is in the running window.
    """
    q = rules.aggregates[aggregate, QUEUE]
    while older != NOTHING and is_at_least_as_extreme(store, rules, aggregate, event, older):
        older = store.queues[older, q, OLDER]
    store.queues[event, q, OLDER] = older
    store.queues[event, q, NEWER] = newer
    if older != NOTHING:
        store.queues[older, q, NEWER] = event
    if newer == NOTHING:
        accumulator[TAIL] = event
    if is_in_window and (
        accumulator[HEAD] == NOTHING
        or is_at_least_as_extreme(store, rules, aggregate, event, accumulator[HEAD])
    ):
        accumulator[HEAD] = event


@njit_without_allocation
def insert_in_queue_and_count_steps(store, rules, aggregate, accumulator, event, is_in_window):
    """Puts an event that is not the newest into the queue, and returns the steps this took; `is_in_window`: whether it is in the running window."""
    steps = 0
    if not is_counted(store, rules, aggregate, accumulator, event):
        return steps
    q, time_ms = rules.aggregates[aggregate, QUEUE], store.events[event, TIME]
    older = store.events[event, PREV]
    while older != NOTHING and not is_counted(store, rules, aggregate, accumulator, older):
        older = store.events[older, PREV]
        steps += 1
    if older != NOTHING and store.events[older, TIME] < accumulator[KNOWN]:
        older = NOTHING
    while older != NOTHING and is_at_least_as_extreme(store, rules, aggregate, event, older):
        older = store.queues[older, q, OLDER]
        steps += 1
    store.queues[event, q, OLDER] = older
    newer = NOTHING
    later = store.events[event, NEXT]
    while later != NOTHING:
        if is_counted(store, rules, aggregate, accumulator, later):
            if is_at_least_as_extreme(store, rules, aggregate, later, event):
                return steps
            beyond = store.queues[later, q, OLDER]
            if beyond == NOTHING or store.events[beyond, TIME] <= time_ms:
                store.queues[later, q, OLDER] = event
                newer = later
        later = store.events[later, NEXT]
        steps += 1
    link_in_queue(store, rules, aggregate, accumulator, event, older, newer, is_in_window)
    return steps


@njit_without_allocation
def find_extreme(store, rules, aggregate, accumulator, event, skipped, start_ms, most_steps):
    """The event with the smallest or largest value from time `start_ms` up to an event, without event `skipped`.

    NOTHING if there is no such event, TOO_FAR if the search takes more than `most_steps` steps.
    """
    q, head = rules.aggregates[aggregate, QUEUE], accumulator[HEAD]
    found = event
    while found == skipped or not is_counted(store, rules, aggregate, accumulator, found):
        found = store.events[found, PREV]
        most_steps -= 1
        if found == NOTHING or store.events[found, TIME] < start_ms:
            return NOTHING
        if most_steps == 0:
            return TOO_FAR
    if head != NOTHING and head != skipped and store.events[head, TIME] <= store.events[found, TIME]:
        found = head
    older = store.queues[found, q, OLDER]
    while older != NOTHING and store.events[older, TIME] >= start_ms:
        found = older
        older = store.queues[found, q, OLDER]
        most_steps -= 1
        if most_steps == 0:
            return TOO_FAR
    return found
