"""Which events are too old: `lab.model.horizon` on arrays."""

from lab.engine.compiled.layout import (
    KEY_GROUP,
    NEVER,
    NEWEST,
    NOTHING,
    PREV,
    TIME,
    njit_without_allocation,
)


@njit_without_allocation
def note_time(store, key_group, group, time_ms):
    """Notes in `Store.newest` that a group has an event at a time."""
    newest = store.newest[key_group]
    count = len(newest) // 2
    place = count - 1
    if time_ms <= newest[place]:
        return
    for k in range(count):
        if newest[count + k] == group:
            place = k
            break
    if time_ms <= newest[place]:
        return
    while place > 0 and newest[place - 1] < time_ms:
        newest[place], newest[count + place] = newest[place - 1], newest[count + place - 1]
        place -= 1
    newest[place], newest[count + place] = time_ms, group


@njit_without_allocation
def time_reached_by_groups(store, key_group):
    """The time that as many groups of a key-group have reached as it takes, NEVER if there are fewer groups."""
    return store.newest[key_group, store.newest.shape[1] // 2 - 1]


@njit_without_allocation
def time_reached_by_events(store, group):
    """The time that as many events of a group have reached as it takes, NEVER if it has fewer events."""
    event = store.group_links[group, NEWEST]
    for _ in range(store.newest.shape[1] // 2 - 1):
        if event == NOTHING:
            break
        event = store.links[event, PREV]
    return NEVER if event == NOTHING else store.events[event, TIME]


@njit_without_allocation
def times_reached(store, groups, reached_log_ms, reached_ms):
    """Fills `reached_ms` with the time that each of some groups has reached; `reached_log_ms`: a log time that no later record is logged before."""
    for place, group in enumerate(groups):
        by_groups = time_reached_by_groups(store, store.group_links[group, KEY_GROUP])
        reached_ms[place] = min(max(by_groups, time_reached_by_events(store, group)), reached_log_ms)


@njit_without_allocation
def newest_event(store, key_group):
    """The newest event of a key-group, which must have one."""
    return store.group_links[store.newest[key_group, store.newest.shape[1] // 2], NEWEST]
