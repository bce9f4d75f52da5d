"""How many stored events it would take to judge one that has not come: counted before, so that a question that takes too many is refused.

What the loop does for an event in order is cheap on average, because what one event did no other has to do again. A question does it again
each time, as nothing is stored: it moves windows on past all that is too old by then, or divides a long group into blocks.
"""

from numba import config, njit

from lab.engine.compiled.aggregates.counted import OWN_VALUE
from lab.engine.compiled.aggregates.forms import DISTINCT, ORDERED, STEPS
from lab.engine.compiled.aggregates.queues import has_queue
from lab.engine.compiled.blocks import LONGEST_WALK, has_blocks
from lab.engine.compiled.groups import find_group
from lab.engine.compiled.horizon import time_reached_by_events, time_reached_by_groups
from lab.engine.compiled.layout import (
    KNOWN,
    NEVER,
    NEWEST,
    NEXT,
    NO_LOG_TIME,
    NOTHING,
    OLDER,
    PREV,
    START,
    TAIL,
    TIME,
    code_stamp,
)
from lab.engine.compiled.otherwindows import END, LAST_MS

MOST_STEPS = 100_000
TABLE_STEPS = 4  # an event that enters or leaves a table or a tree of values takes as long as so many others


def _compiled(function):
    compiled = njit(cache=True, _nrt=False, nogil=True)(function)
    if not config.DISABLE_JIT:  # what it calls is the loop's
        file = compiled._cache._cache_file
        file._source_stamp = (code_stamp(), file._source_stamp)
    return compiled


@_compiled
def steps_of_question(store, rules, batch, widest_ms, out_of_orderness_ms, most):
    """About how many stored events the loop would look at to judge the only event of a batch; more than `most` if it is more.

    It looks at about as many itself, and changes nothing.
    """
    time_ms, group = batch.times_ms[0], find_group(store, batch.keys, 0)
    if group == NOTHING or store.group_links[group, NEWEST] == NOTHING:
        return 0
    log_time_ms = batch.log_times_ms[0] if batch.log_times_ms[0] > 0 else NO_LOG_TIME
    reached_ms = max(time_reached_by_groups(store, batch.key_groups[0]), time_reached_by_events(store, group))
    horizon_ms = min(reached_ms, log_time_ms) - widest_ms - out_of_orderness_ms
    if time_ms < horizon_ms:  # it would be dropped
        return 0
    newest = store.group_links[group, NEWEST]
    newer = _count_back(store, newest, time_ms + 1, most)
    steps = newer
    if newer > LONGEST_WALK and not has_blocks(store, group):
        steps += _count_back(store, newest, NEVER, most - steps)
    for aggregate in range(len(rules.aggregates)):
        if steps > most:
            break
        steps += _steps_of_aggregate(store, rules, aggregate, group, time_ms, newer, horizon_ms, most - steps)
    return steps


@_compiled
def _count_back(store, event, since_ms, most):
    """How many events of a group there are from one back to a time; one more than `most` if there are more."""
    count = 0
    while event != NOTHING and count <= most and store.events[event, TIME] >= since_ms:
        event = store.links[event, PREV]
        count += 1
    return count


@_compiled
def _count_on(store, event, before_ms, most):
    """How many events of a group there are from one on up to a time, without it; one more than `most` if there are more."""
    count = 0
    while event != NOTHING and count <= most and store.events[event, TIME] < before_ms:
        event = store.links[event, NEXT]
        count += 1
    return count


@_compiled
def _steps_of_aggregate(store, rules, aggregate, group, time_ms, newer, horizon_ms, most):
    """Those that one aggregate takes for an event before which `newer` ones of its group have come."""
    kind, newest = rules.aggregates[aggregate].kind, store.group_links[group, NEWEST]
    if kind == OWN_VALUE:
        return 0
    weight = TABLE_STEPS if kind == DISTINCT or kind == ORDERED else 1
    end_ms = time_ms - rules.aggregates[aggregate].ends_before
    start_ms = max(end_ms - rules.aggregates[aggregate].window, horizon_ms)
    offset = store.accumulator_starts[group, aggregate]
    if offset == NOTHING or store.accumulators[offset + START] == NOTHING or (newer and kind == STEPS):
        return 2 * weight * _count_back(store, newest, start_ms, most)
    accumulator = store.accumulators[offset : offset + rules.aggregates[aggregate].width]
    start = accumulator[START]
    if rules.aggregates[aggregate].other_window:
        if newer:  # it may be filled anew for the event, and divide the group
            return weight * _count_back(store, newest, NEVER, most)
        if (
            rules.aggregates[aggregate].gap
            and time_ms - accumulator[LAST_MS] > rules.aggregates[aggregate].gap
        ):
            return weight * _count_on(store, start, NO_LOG_TIME, most)
        entered = _count_on(store, accumulator[END], end_ms + 1, most)
        return weight * (entered + _count_on(store, start, start_ms, most))
    # those that leave at the older end, or enter there again if the event is late
    moved = _count_on(store, start, start_ms, most) + _count_back(
        store, store.links[start, PREV], start_ms, most
    )
    if kind == DISTINCT or kind == ORDERED:
        return 2 * weight * (newer + moved)
    queue = 0
    if has_queue(rules, aggregate):
        queue = _length_of_queue(store, rules.aggregates[aggregate].queue, accumulator[TAIL], most)
    if not newer:
        return moved + queue
    is_unknown = has_queue(rules, aggregate) and (has_blocks(store, group) or start_ms < accumulator[KNOWN])
    if is_unknown or newer + moved + queue >= LONGEST_WALK:
        return _count_back(store, newest, NEVER, most)  # as totals of blocks, which are not there yet
    return newer + moved + queue


@_compiled
def _length_of_queue(store, queue, event, most):
    """How many events there are in a queue from one back; one more than `most` if there are more."""
    count = 0
    while event != NOTHING and count <= most:
        event = store.queues[event, queue, OLDER]
        count += 1
    return count
