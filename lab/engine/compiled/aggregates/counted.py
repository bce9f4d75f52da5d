"""Which events count for an aggregate, and an aggregate's value as a measure."""

import numpy as np

from lab.engine.compiled.layout import (
    RESET,
    SEQ,
    N,
    njit_without_allocation,
)
from lab.engine.compiled.limits import Measure

COUNT_SINCE = 0  # the kind that is reset when its rule fires
OWN_VALUE = -1  # the kind that keeps nothing: the value of the event that is judged


@njit_without_allocation
def has_values(store, rules, aggregate, event):
    """Whether no field that an aggregate needs is null in an event."""
    for row in range(rules.aggregates[aggregate].needs, rules.aggregates[aggregate].needs_end):
        bits = rules.required_bits[row, 1]
        if store.events[event, rules.required_bits[row, 0]] & bits != bits:
            return False
    return True


@njit_without_allocation
def is_counted(store, rules, aggregate, accumulator, event):
    """Whether an event counts for an aggregate: it has the values, and came after the last reset."""
    if rules.aggregates[aggregate].kind == COUNT_SINCE and store.events[event, SEQ] <= accumulator[RESET]:
        return False
    return has_values(store, rules, aggregate, event)


@njit_without_allocation
def measure_of_value(value, numerator, denominator):
    return Measure(value >> 63, value, numerator, denominator)


@njit_without_allocation
def no_measure():
    """Of no event that counts."""
    return Measure(np.int64(0), np.int64(0), np.int64(0), np.int64(0))


@njit_without_allocation
def own_value(store, rules, aggregate, event):
    """The value of an event, if it counts."""
    if not has_values(store, rules, aggregate, event):
        return no_measure()
    return measure_of_value(store.events[event, rules.aggregates[aggregate].column], 0, 1)


# -- counts ------------------------------------------------------------------------------------------------------------


@njit_without_allocation
def count(store, rules, aggregate, accumulator, event, sign):
    accumulator[N] += sign


@njit_without_allocation
def measure_of_count(store, rules, aggregate, accumulator):
    return measure_of_value(accumulator[N], 0, 1)
