"""Aggregates of two events: the judged one, and the last that counts before it, which is kept as for PREVIOUS."""

import numpy as np

from lab.engine.compiled.aggregates.counted import has_values, no_measure
from lab.engine.compiled.layout import choose_compiled, compiled_apart, njit_without_allocation
from lab.engine.compiled.limits import Measure
from lab.model.distance import metres_between

_metres = compiled_apart(metres_between)


@njit_without_allocation
def measure_of_change(value, before):
    """The difference, which has 65 bits."""
    borrowed = np.int64(np.uint64(value) < np.uint64(before))
    return Measure((value >> 63) - (before >> 63) - borrowed, value - before, 0, 1)


@njit_without_allocation
def measure_of_distance(value, before):
    return Measure(0, _metres(value, before), 0, 1)


PAIRS = {"CHANGE": 1, "DISTANCE": 2}  # 0: an aggregate of no pair
_measure = choose_compiled([measure_of_change, measure_of_distance])


@njit_without_allocation
def measure_of_pair(store, rules, aggregate, event, before):
    """Of an event and the value that was measured before it; none if the event does not count, or there is no value."""
    if before.denominator == 0 or not has_values(store, rules, aggregate, event):
        return no_measure()
    value = store.events[event, rules.aggregates[aggregate].column]
    return _measure(rules.aggregates[aggregate].pair - 1, value, before.low)
