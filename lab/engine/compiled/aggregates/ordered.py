"""Values in order: a balanced tree of the events that count in a group's window, to find the value at a place.

value           5 (of 4)          (of n): how many events are in the tree from here down; an event also knows the one above it
              ╱          ╲
        3 (of 1)       8 (of 2)   The event with the greatest hash is on top, so that the tree is as if values came by chance
                     ╱            (a treap): about log n events deep, whatever values come in whatever order. Equal values are in
                7 (of 1)          order of arrival. The same events make the same tree.
"""

import numpy as np

from lab.engine.compiled.aggregates.counted import measure_of_value, no_measure
from lab.engine.compiled.aggregates.distinct import extend_hash
from lab.engine.compiled.layout import (
    ABOVE,
    HIGHER,
    LOWER,
    NOTHING,
    ROOT_OF_TREE,
    SALT,
    SIZE,
    N,
    compiled_apart,
    njit_without_allocation,
)

MEDIAN = 50


@njit_without_allocation
def add_to_tree(store, rules, aggregate, accumulator, event, sign):
    column, queue = rules.aggregates[aggregate].column, rules.aggregates[aggregate].queue
    accumulator[N] += sign
    change_tree(store, column, queue, accumulator, event, sign)


@compiled_apart
def change_tree(store, column, queue, accumulator, event, sign):
    """Puts an event into the tree (sign 1) or takes it out (-1). `queue`: the first of its columns in Store.queues."""
    links = store.queues[:, queue : queue + 2]
    if sign < 0:
        remove_from_tree(store, links, accumulator, event)
        return
    links[event, 0, LOWER] = links[event, 0, HIGHER] = NOTHING
    links[event, 1, SIZE] = 1
    above, at = np.int64(NOTHING), accumulator[ROOT_OF_TREE] - 1
    side = LOWER
    while at != NOTHING:
        links[at, 1, SIZE] += 1
        above = at
        value, other = store.events[event, column], store.events[at, column]
        side = LOWER if value < other or value == other and event < at else HIGHER
        at = np.int64(links[at, 0, side])
    links[event, 1, ABOVE] = above
    if above == NOTHING:
        accumulator[ROOT_OF_TREE] = event + 1
    else:
        links[above, 0, side] = event
    while above != NOTHING and is_on_top(store, event, above):
        rotate_up(links, accumulator, event)
        above = np.int64(links[event, 1, ABOVE])


@compiled_apart
def remove_from_tree(store, links, accumulator, event):
    while True:
        lower, higher = np.int64(links[event, 0, LOWER]), np.int64(links[event, 0, HIGHER])
        if lower == NOTHING and higher == NOTHING:
            break
        is_lower = higher == NOTHING or lower != NOTHING and is_on_top(store, lower, higher)
        rotate_up(links, accumulator, lower if is_lower else higher)
    above = np.int64(links[event, 1, ABOVE])
    if above == NOTHING:
        accumulator[ROOT_OF_TREE] = 0
    else:
        links[above, 0, LOWER if links[above, 0, LOWER] == event else HIGHER] = NOTHING
    while above != NOTHING:
        links[above, 1, SIZE] -= 1
        above = np.int64(links[above, 1, ABOVE])


@compiled_apart
def rotate_up(links, accumulator, event):
    """Puts an event above the one that is above it."""
    below = np.int64(links[event, 1, ABOVE])
    above = np.int64(links[below, 1, ABOVE])
    side = LOWER if links[below, 0, LOWER] == event else HIGHER
    between = np.int64(links[event, 0, HIGHER - side])
    links[below, 0, side] = between
    if between != NOTHING:
        links[between, 1, ABOVE] = below
    links[event, 0, HIGHER - side] = below
    links[below, 1, ABOVE], links[event, 1, ABOVE] = event, above
    if above == NOTHING:
        accumulator[ROOT_OF_TREE] = event + 1
    else:
        links[above, 0, LOWER if links[above, 0, LOWER] == below else HIGHER] = event
    links[event, 1, SIZE] = links[below, 1, SIZE]
    links[below, 1, SIZE] = (
        1 + size_of(links, links[below, 0, LOWER]) + size_of(links, links[below, 0, HIGHER])
    )


@njit_without_allocation
def is_on_top(store, event, other):
    """Whether an event belongs above another one."""
    salt = np.uint64(store.scalars[SALT])
    return extend_hash(salt, event) > extend_hash(salt, other)


@njit_without_allocation
def size_of(links, event):
    """How many events are in the tree from an event down."""
    return 0 if event == NOTHING else links[event, 1, SIZE]


@compiled_apart
def value_at(store, column, queue, root, place):
    """The value at a place in ascending order, from 0."""
    links = store.queues[:, queue : queue + 2]
    at = root
    while True:
        below = np.int64(size_of(links, links[at, 0, LOWER]))
        if place == below:
            return store.events[at, column]
        if place < below:
            at = np.int64(links[at, 0, LOWER])
        else:
            place -= below + 1
            at = np.int64(links[at, 0, HIGHER])


@njit_without_allocation
def measure_of_tree(store, rules, aggregate, accumulator):
    n, root, percent = accumulator[N], accumulator[ROOT_OF_TREE] - 1, rules.aggregates[aggregate].percent
    if n == 0:
        return no_measure()
    column, queue = rules.aggregates[aggregate].column, rules.aggregates[aggregate].queue
    if percent != MEDIAN:
        return measure_of_value(value_at(store, column, queue, root, (percent * n + 99) // 100 - 1), 0, 1)
    one = value_at(store, column, queue, root, (n - 1) // 2)
    two = value_at(store, column, queue, root, n // 2)
    return measure_of_value((one >> 1) + (two >> 1) + (((one & 1) + (two & 1)) >> 1), (one ^ two) & 1, 2)
