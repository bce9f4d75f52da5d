"""The smallest and the largest value, or another that beats older ones: a queue of the events that are not yet beaten.

MAX     value  │9              head: the oldest in the window that no newer one beats
               │ ╲   7         OLDER of an event: the nearest older one that it does not beat, also where a
               │  4─╲ ╲  5       newer event has beaten both: so a window that ended there finds its maximum
               │   ╲ 2 ╲╱ ╲
               │    ╲1  3  6   tail: 9 ◄─ 7 ◄─ 6
"""

from lab.engine.compiled.aggregates.counted import is_counted, measure_of_value, no_measure
from lab.engine.compiled.layout import (
    HEAD,
    KNOWN,
    NEWER,
    NEXT,
    NOTHING,
    OLDER,
    PREV,
    TAIL,
    TIME,
    choose_compiled,
    compiled_inline,
    njit_without_allocation,
)
from lab.model.aggregates import AGGREGATES

# what an event's value and an older one's are compared by; each is a kind from FIRST_QUEUE on
BEATS = tuple(dict.fromkeys(each.beats for each in AGGREGATES.values() if each.beats))
FIRST_QUEUE = 8
TOO_FAR = -2  # no event's row

_beats = choose_compiled([compiled_inline(beats) for beats in BEATS])


@njit_without_allocation
def has_queue(rules, aggregate):
    return rules.aggregates[aggregate].kind >= FIRST_QUEUE


@njit_without_allocation
def measure_of_head(store, rules, aggregate, accumulator):
    if accumulator[HEAD] == NOTHING:
        return no_measure()
    return measure_of_value(store.events[accumulator[HEAD], rules.aggregates[aggregate].column], 0, 1)


@njit_without_allocation
def beats(store, rules, aggregate, event, older):
    """Whether an older event no longer matters for the aggregate beside an event, as by its value."""
    c = rules.aggregates[aggregate].column
    kind = rules.aggregates[aggregate].kind
    return _beats(kind - FIRST_QUEUE, store.events[event, c], store.events[older, c])


@njit_without_allocation
def link_in_queue(store, rules, aggregate, accumulator, event, older, newer, is_in_window):
    """Puts an event into the queue between two neighbours, and removes older events that are not more extreme; `newer` is more extreme.

    If `newer` is NOTHING, the event goes to the newer end. `is_in_window`: whether the event is in the running window.
    """
    q = rules.aggregates[aggregate].queue
    while older != NOTHING and beats(store, rules, aggregate, event, older):
        older = store.queues[older, q, OLDER]
    store.queues[event, q, OLDER] = older
    store.queues[event, q, NEWER] = newer
    if older != NOTHING:
        store.queues[older, q, NEWER] = event
    if newer == NOTHING:
        accumulator[TAIL] = event
    if is_in_window and (
        accumulator[HEAD] == NOTHING or beats(store, rules, aggregate, event, accumulator[HEAD])
    ):
        accumulator[HEAD] = event


@njit_without_allocation
def insert_in_queue_and_count_steps(store, rules, aggregate, accumulator, event, is_in_window):
    """Puts an event that is not the newest into the queue, and returns the steps this took; `is_in_window`: whether it is in the running window."""
    steps = 0
    if not is_counted(store, rules, aggregate, accumulator, event):
        return steps
    q, time_ms = rules.aggregates[aggregate].queue, store.events[event, TIME]
    older = store.links[event, PREV]
    while older != NOTHING and not is_counted(store, rules, aggregate, accumulator, older):
        older = store.links[older, PREV]
        steps += 1
    if older != NOTHING and store.events[older, TIME] < accumulator[KNOWN]:
        older = NOTHING
    while older != NOTHING and beats(store, rules, aggregate, event, older):
        older = store.queues[older, q, OLDER]
        steps += 1
    store.queues[event, q, OLDER] = older
    newer = NOTHING
    later = store.links[event, NEXT]
    while later != NOTHING:
        if is_counted(store, rules, aggregate, accumulator, later):
            if beats(store, rules, aggregate, later, event):
                return steps
            beyond = store.queues[later, q, OLDER]
            if beyond == NOTHING or store.events[beyond, TIME] <= time_ms:
                store.queues[later, q, OLDER] = event
                newer = later
        later = store.links[later, NEXT]
        steps += 1
    link_in_queue(store, rules, aggregate, accumulator, event, older, newer, is_in_window)
    return steps


@njit_without_allocation
def find_extreme(store, rules, aggregate, accumulator, event, skipped, start_ms, most_steps):
    """The event with the smallest or largest value from time `start_ms` up to an event, without event `skipped`.

    NOTHING if there is no such event, TOO_FAR if the search takes more than `most_steps` steps.
    """
    q, head = rules.aggregates[aggregate].queue, accumulator[HEAD]
    found = event
    while found == skipped or not is_counted(store, rules, aggregate, accumulator, found):
        found = store.links[found, PREV]
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
