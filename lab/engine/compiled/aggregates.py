"""Running aggregates: how each follows a window whose two ends move.

    kind        its lanes, int64s                       an event enters or leaves
    COUNTED     n                                       n ± 1
    SUMMED      n, high, low                            sum ± value; the sum is high · 2³² + low and never overflows
    MEAN        n, high, low                            the same
    SQUARED     n, high, low, 4 limbs                   the sum of the squares ± value² as well, 32 bits a limb
    DISTINCT    n                                       a table says how many events have a value; n ± 1 at 0 ↔ 1
    LOWEST      head, tail, known                       a queue of the events that are not yet beaten by a newer one
    HIGHEST     head, tail, known                       the same

All is exact: what enters is subtracted again to the last bit. `measured` gives the aggregate as integer part and fraction.
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
    bare,
)
from lab.engine.compiled.limits import Measure
from lab.engine.compiled.squares import LIMBS, add_square, variance

COUNT, COUNT_SINCE, SUM, MEAN, SQUARES, DISTINCT, LOWEST, HIGHEST = range(8)  # kinds
TOO_FAR = -2  # no event's row


class Running(NamedTuple):
    """How the engine keeps an aggregate: its kind, and how many lanes it has."""

    kind: int
    lanes: int


RUNNING = {
    "SUM": Running(SUM, 4),
    "AVG": Running(MEAN, 4),
    "MIN": Running(LOWEST, 4),
    "MAX": Running(HIGHEST, 4),
    "VARIANCE": Running(SQUARES, 8),
    "STDDEV": Running(SQUARES, 8),
    "COUNT": Running(COUNT, 2),
    "COUNT_WITH_RESET": Running(COUNT_SINCE, 3),
    "UNIQUE_COUNT": Running(DISTINCT, 2),
}
LANES = max(running.lanes for running in RUNNING.values())
HUGE = LIMBS + LANES  # where in the scratch numbers of many limbs are, see `lab.engine.compiled.conditions`
SCRATCH = HUGE + 48


@bare
def clear(rules, a, running):
    """An empty window; what was reset stays reset."""
    if has_queue(rules, a):
        running[HEAD] = NOTHING
        running[TAIL] = NOTHING
    elif rules.aggregate[a, KIND] == COUNT_SINCE:
        running[N] = 0
    else:
        running[N:] = 0


@bare
def has_queue(rules, a):
    return rules.aggregate[a, KIND] >= LOWEST


@bare
def has_values(store, rules, a, j):
    """Whether no field that an aggregate needs is null in event `j`."""
    for row in range(rules.aggregate[a, NEEDS], rules.aggregate[a, NEEDS_END]):
        bits = rules.needs[row, 1]
        if store.event[j, rules.needs[row, 0]] & bits != bits:
            return False
    return True


@bare
def counts(store, rules, a, running, j):
    """Whether event `j` counts for an aggregate: it has the values, and came after the last reset."""
    if rules.aggregate[a, KIND] == COUNT_SINCE and store.event[j, SEQ] <= running[RESET]:
        return False
    return has_values(store, rules, a, j)


@bare
def enter(store, rules, a, running, j):
    """Event `j` comes into the running window; into one with a queue at the newer end."""
    if counts(store, rules, a, running, j):
        if has_queue(rules, a):
            link_in_queue(store, rules, a, running, j, running[TAIL], NOTHING, True)
        else:
            move(store, rules, a, running, j, 1)


@bare
def leave(store, rules, a, running, j):
    """Event `j` goes out of the running window; out of one with a queue at the older end."""
    if has_queue(rules, a):
        if running[HEAD] == j:
            running[HEAD] = store.queue[j, rules.aggregate[a, QUEUE], NEWER]
    elif counts(store, rules, a, running, j):
        move(store, rules, a, running, j, -1)


@bare
def measured(store, rules, a, running):
    """The aggregate of the running window; denominator 0: no event counts, and it is no count."""
    kind = rules.aggregate[a, KIND]
    if (kind >= LOWEST and running[HEAD] == NOTHING) or (SUM <= kind <= SQUARES and running[N] == 0):
        return Measure(np.int64(0), np.int64(0), np.int64(0), np.int64(0))
    if kind == SUM:
        return measure_of_sum(running)
    if kind == MEAN:
        quotient, rest = mean(running)
        return measure_of_value(quotient, rest, running[N])
    if kind == SQUARES:
        return variance(running, store.scratch)
    if kind == LOWEST or kind == HIGHEST:
        return measure_of_value(store.event[running[HEAD], rules.aggregate[a, COLUMN]], 0, 1)
    return measure_of_value(running[N], 0, 1)


@bare
def measure_of_value(value, numerator, denominator):
    return Measure(value >> 63, value, numerator, denominator)


# -- what enters is added, what leaves subtracted ----------------------------------------------------------------------


@bare
def move(store, rules, a, running, j, sign):
    """Event `j` enters (sign 1) or leaves (sign -1)."""
    kind = rules.aggregate[a, KIND]
    if kind == DISTINCT:
        place = tally(store, rules, a, j)
        store.counted[place, COUNTED] += sign
        if store.counted[place, COUNTED] == (sign + 1) >> 1:  # the first with its value, or the last
            running[N] += sign
        return
    running[N] += sign
    if kind == SUM or kind == MEAN or kind == SQUARES:
        value = store.event[j, rules.aggregate[a, COLUMN]]
        running[HIGH] += sign * (value >> 32)
        running[LOW] += sign * (value & LOW_BITS)
        if kind == SQUARES:
            add_square(running, value, sign)


@bare
def measure_of_sum(running):
    high = running[HIGH] + (running[LOW] >> 32)
    return Measure(high >> 32, high << 32 | running[LOW] & LOW_BITS, 0, 1)


@bare
def mean(running):
    """The sum by the count: quotient (rounded down) and rest."""
    n = running[N]
    high = running[HIGH] + (running[LOW] >> 32)
    low = (high % n) << 32 | running[LOW] & LOW_BITS
    return (high // n << 32) + low // n, low % n


# -- distinct values ---------------------------------------------------------------------------------------------------


@bare
def mixed(h, value):
    h = np.uint64(h ^ np.uint64(value)) * np.uint64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> np.uint64(32))) * np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> np.uint64(32))


@bare
def same_value(store, rules, a, i, j):
    for u in range(rules.aggregate[a, FIRST], rules.aggregate[a, LAST]):
        if store.event[i, rules.unique[u]] != store.event[j, rules.unique[u]]:
            return False
    return True


@bare
def tally(store, rules, a, j):
    """The place in `counted` of aggregate, group and value of event `j`; the value is named by the first event that had it."""
    last = len(store.counted) - 1
    g = store.event[j, GROUP]
    h = mixed(mixed(np.uint64(store.size[SALT]), g), a)
    for u in range(rules.aggregate[a, FIRST], rules.aggregate[a, LAST]):
        h = mixed(h, store.event[j, rules.unique[u]])
    place = np.int64(h & np.uint64(last))
    while store.counted[place, AGGREGATE] != NOTHING:
        other = store.counted[place, EXAMPLE]
        if (
            store.counted[place, AGGREGATE] == a
            and store.event[other, GROUP] == g
            and same_value(store, rules, a, other, j)
        ):
            return place
        place = (place + 1) & last
    store.counted[place, AGGREGATE] = a
    store.counted[place, EXAMPLE] = j
    store.counted[place, COUNTED] = 0
    return place


# -- the smallest and the largest value --------------------------------------------------------------------------------
#
#   MAX     value  │9              head: the oldest in the window that no newer one beats
#                  │ ╲   7         OLDER of an event: the nearest older one that it does not beat, also where a
#                  │  4─╲ ╲  5       newer event has beaten both: so a window that ended there finds its maximum
#                  │   ╲ 2 ╲╱ ╲
#                  │    ╲1  3  6   tail: 9 ◄─ 7 ◄─ 6


@bare
def beats(store, rules, a, i, j):
    """Whether event `i`, the newer one, makes event `j` useless for the smallest or largest value."""
    c = rules.aggregate[a, COLUMN]
    if rules.aggregate[a, KIND] == LOWEST:
        return store.event[i, c] <= store.event[j, c]
    return store.event[i, c] >= store.event[j, c]


@bare
def link_in_queue(store, rules, a, running, j, older, newer, inside):
    """Event `j`, which `newer` does not beat, comes into the queue between two neighbours; it beats the older ones that it can.

    NOTHING as `newer`: it comes to the newer end. `inside`: whether it is in the running window.
    """
    q = rules.aggregate[a, QUEUE]
    while older != NOTHING and beats(store, rules, a, j, older):
        older = store.queue[older, q, OLDER]
    store.queue[j, q, OLDER] = older
    store.queue[j, q, NEWER] = newer
    if older != NOTHING:
        store.queue[older, q, NEWER] = j
    if newer == NOTHING:
        running[TAIL] = j
    if inside and (running[HEAD] == NOTHING or beats(store, rules, a, j, running[HEAD])):
        running[HEAD] = j


@bare
def insert(store, rules, a, running, j, inside):
    """An event that is not the newest comes into the queue; `inside`: whether it is in the running window. Returns the steps."""
    steps = 0
    if not counts(store, rules, a, running, j):
        return steps
    q, t = rules.aggregate[a, QUEUE], store.event[j, TIME]
    older = store.event[j, PREV]
    while older != NOTHING and not counts(store, rules, a, running, older):
        older = store.event[older, PREV]
        steps += 1
    if older != NOTHING and store.event[older, TIME] < running[KNOWN]:
        older = NOTHING
    while older != NOTHING and beats(store, rules, a, j, older):
        older = store.queue[older, q, OLDER]
        steps += 1
    store.queue[j, q, OLDER] = older
    newer = NOTHING
    i = store.event[j, NEXT]
    while i != NOTHING:
        if counts(store, rules, a, running, i):
            if beats(store, rules, a, i, j):
                return steps
            beyond = store.queue[i, q, OLDER]
            if beyond == NOTHING or store.event[beyond, TIME] <= t:
                store.queue[i, q, OLDER] = j
                newer = i
        i = store.event[i, NEXT]
        steps += 1
    link_in_queue(store, rules, a, running, j, older, newer, inside)
    return steps


@bare
def best(store, rules, a, running, j, skip, oldest, most):
    """The event with the smallest or largest value from time `oldest` up to event `j`, without event `skip`.

    NOTHING if there is none, TOO_FAR if that takes more than `most` steps.
    """
    q, head = rules.aggregate[a, QUEUE], running[HEAD]
    found = j
    while found == skip or not counts(store, rules, a, running, found):
        found = store.event[found, PREV]
        most -= 1
        if found == NOTHING or store.event[found, TIME] < oldest:
            return NOTHING
        if most == 0:
            return TOO_FAR
    if head != NOTHING and head != skip and store.event[head, TIME] <= store.event[found, TIME]:
        found = head
    older = store.queue[found, q, OLDER]
    while older != NOTHING and store.event[older, TIME] >= oldest:
        found = older
        older = store.queue[found, q, OLDER]
        most -= 1
        if most == 0:
            return TOO_FAR
    return found
