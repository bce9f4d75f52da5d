"""Steps in their order: for each number of steps, where the newest sequence of so many begins.

steps a, b, c    a₁  b  a₂  b  c  a₃        begins in lane N: a₃ (of one step), N + 1: a₂ (of two), N + 2: a₂ (of three)

When a₂ leaves the window, only the sequence of one step is left: so the number of steps that were taken is that of lanes in use.
"""

import numpy as np

from lab.engine.compiled.aggregates.counted import measure_of_value
from lab.engine.compiled.layout import N, njit_without_allocation
from lab.model.aggregates import MAX_STEPS

LANES_OF_STEPS = N + MAX_STEPS  # each has an event + 1; 0: no such sequence


@njit_without_allocation
def is_true_of(store, rules, row, event):
    return store.events[event, rules.required_bits[row, 0]] & rules.required_bits[row, 1] != 0


@njit_without_allocation
def is_step_or_end(store, rules, aggregate, event):
    """Whether an event changes what has begun."""
    for row in range(rules.aggregates[aggregate].first, rules.aggregates[aggregate].last):
        if is_true_of(store, rules, row, event):
            return True
    return False


@njit_without_allocation
def take_step(store, rules, aggregate, accumulator, event, sign):
    """An event enters at the newer end (sign 1), or leaves at the older end (-1) with the sequences that it begins."""
    first_step = rules.aggregates[aggregate].first + 1
    ends = sign > 0 and is_true_of(store, rules, first_step - 1, event)
    for step in range(rules.aggregates[aggregate].last - first_step - 1, -1, -1):
        if ends or (sign < 0 and accumulator[N + step] == event + 1):
            accumulator[N + step] = 0
        elif sign > 0 and is_true_of(store, rules, first_step + step, event):
            accumulator[N + step] = accumulator[N + step - 1] if step > 0 else event + 1


@njit_without_allocation
def measure_of_steps(store, rules, aggregate, accumulator):
    taken = np.int64(0)
    for lane in range(N, LANES_OF_STEPS):
        taken += accumulator[lane] != 0
    return measure_of_value(taken, 0, 1)
