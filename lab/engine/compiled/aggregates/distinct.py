"""Distinct values: a hash table says how many events of a group's window have each."""

import numpy as np

from lab.engine.compiled.layout import (
    AGGREGATE,
    COUNTED,
    EXAMPLE,
    GROUP,
    NOTHING,
    SALT,
    N,
    njit_without_allocation,
)


@njit_without_allocation
def count_value(store, rules, aggregate, accumulator, event, sign):
    slot = find_or_add_distinct_slot(store, rules, aggregate, event)
    store.distinct_table[slot, COUNTED] += sign
    if store.distinct_table[slot, COUNTED] == (sign + 1) >> 1:  # the first with its value, or the last
        accumulator[N] += sign


@njit_without_allocation
def extend_hash(hash_so_far, value):
    hash_so_far = np.uint64(hash_so_far ^ np.uint64(value)) * np.uint64(0xFF51AFD7ED558CCD)
    hash_so_far = (hash_so_far ^ (hash_so_far >> np.uint64(32))) * np.uint64(0xC4CEB9FE1A85EC53)
    return hash_so_far ^ (hash_so_far >> np.uint64(32))


@njit_without_allocation
def has_same_values(store, rules, aggregate, event, other):
    for n in range(rules.aggregates[aggregate].first, rules.aggregates[aggregate].last):
        if store.events[event, rules.distinct_columns[n]] != store.events[other, rules.distinct_columns[n]]:
            return False
    return True


@njit_without_allocation
def find_or_add_distinct_slot(store, rules, aggregate, event):
    """The slot in `distinct_table` for an aggregate and an event's group and value; the first event with a value stands for it."""
    last = len(store.distinct_table) - 1
    group = store.links[event, GROUP]
    hash_so_far = extend_hash(extend_hash(np.uint64(store.scalars[SALT]), group), aggregate)
    for n in range(rules.aggregates[aggregate].first, rules.aggregates[aggregate].last):
        hash_so_far = extend_hash(hash_so_far, store.events[event, rules.distinct_columns[n]])
    slot = np.int64(hash_so_far & np.uint64(last))
    while store.distinct_table[slot, AGGREGATE] != NOTHING:
        other = store.distinct_table[slot, EXAMPLE]
        if (
            store.distinct_table[slot, AGGREGATE] == aggregate
            and store.links[other, GROUP] == group
            and has_same_values(store, rules, aggregate, other, event)
        ):
            return slot
        slot = (slot + 1) & last
    store.distinct_table[slot, AGGREGATE] = aggregate
    store.distinct_table[slot, EXAMPLE] = event
    store.distinct_table[slot, COUNTED] = 0
    return slot
