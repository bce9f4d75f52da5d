"""Events and groups in arrays: finding a group, linking its events in time order, and its resets."""

import numpy as np

from lab.engine.compiled.aggregates.distinct import extend_hash
from lab.engine.compiled.blocks import (
    LONGEST_WALK,
    add_event_to_block,
    block_at_time,
    has_blocks,
    last_event_at_or_before_by_blocks,
    make_blocks,
)
from lab.engine.compiled.layout import (
    BLOCK,
    COUNTS,
    EVENTS,
    GROUP,
    GROUPS,
    ID,
    KEY,
    KEY_GROUP,
    NEWEST,
    NEXT,
    NOTHING,
    OLDEST,
    PREV,
    RESET_GROUP,
    RESET_RULE,
    RESET_SEQ,
    RESETS,
    RETURNS,
    SALT,
    SEQ,
    START,
    TIME,
    TWINS,
    VALUES,
    njit_without_allocation,
)

RUN = 64  # events of one time and group, after which a hash table tells which ids they have
MOST_TWINS = RUN + 1  # entries that one event adds to that table


@njit_without_allocation
def has_room_for_event(store):
    """Whether there is room for one more event's group, and for its run in the table of events of one time."""
    return store.scalars[GROUPS] < len(store.groups) and 2 * (store.scalars[TWINS] + MOST_TWINS) <= len(
        store.same_time_table
    )


@njit_without_allocation
def hash_of_key(salt, keys, key_row):
    hash_so_far = np.uint64(salt)
    for k in range(keys.shape[1]):
        hash_so_far = extend_hash(hash_so_far, keys[key_row, k])
    return hash_so_far


@njit_without_allocation
def find_slot(table, rows, first_key_column, salt, keys, key_row):
    """The slot in a hash table of the row whose columns from `first_key_column` on equal a row of `keys`; the free slot for it if there is none.

    A slot has the row's number and, in the bits that no number needs, some of the hash of its key: so rows of other keys, which may
    lie on a disk, are seldom read.
    """
    key_hash, last = hash_of_key(salt, keys, key_row), np.int64(len(table) - 1)
    slot, bits = np.int64(key_hash & np.uint64(last)), spare_bits(table, key_hash)
    while table[slot] != NOTHING and (
        table[slot] & ~last != bits or not has_key(rows, table[slot] & last, first_key_column, keys, key_row)
    ):
        slot = (slot + 1) & last
    return slot


@njit_without_allocation
def spare_bits(table, key_hash):
    """The bits of a hash that stand in a slot above the row's number, which is less than the table's length."""
    return np.int64(key_hash >> np.uint64(33)) & ~np.int64(len(table) - 1)


@njit_without_allocation
def row_in_slot(table, slot):
    """The number of the row in a slot that `find_slot` found; NOTHING if the slot is free."""
    row = np.int64(table[slot])
    return row if row == NOTHING else row & (len(table) - 1)


@njit_without_allocation
def fill_slot(table, slot, salt, keys, key_row, row):
    """Puts a row with the key in `key_row` of `keys` into the slot that `find_slot` found for it."""
    table[slot] = row | spare_bits(table, hash_of_key(salt, keys, key_row))


@njit_without_allocation
def has_key(rows, row, first_key_column, keys, key_row):
    for k in range(keys.shape[1]):
        if rows[row, first_key_column + k] != keys[key_row, k]:
            return False
    return True


@njit_without_allocation
def find_group_slot(store, keys, row):
    """The slot in the table of groups for the key in a row; free if there is no such group."""
    return find_slot(store.group_table, store.groups, KEY, store.scalars[SALT], keys, row)


@njit_without_allocation
def find_group(store, keys, row):
    """The group with the key in a row; NOTHING if there is none."""
    return row_in_slot(store.group_table, find_group_slot(store, keys, row))


@njit_without_allocation
def find_or_add_group(store, key_group, keys, row):
    """The group with the key in a row; creates it if there is none."""
    slot = find_group_slot(store, keys, row)
    group = row_in_slot(store.group_table, slot)
    if group != NOTHING:
        return group
    group = store.scalars[GROUPS]
    store.scalars[GROUPS] += 1
    fill_slot(store.group_table, slot, store.scalars[SALT], keys, row, group)
    store.group_links[group, NEWEST] = NOTHING
    store.group_links[group, KEY_GROUP] = key_group
    store.group_links[group, BLOCK] = NOTHING
    for k in range(keys.shape[1]):
        store.groups[group, KEY + k] = keys[row, k]
    store.accumulator_starts[group, :] = NOTHING
    return group


@njit_without_allocation
def find_known_groups(store, batch, first_row, end_row):
    """Fills in the groups of rows of the batch; NOTHING if a group does not exist yet."""
    for row in range(first_row, end_row):
        batch.groups[row] = find_group(store, batch.keys, row)


@njit_without_allocation
def prefetch_windows(store, batch, first_row, end_row):
    """Reads where the windows of some rows' groups end and start, only to load them into the processor's cache.

    The processor fetches these from memory for many events at once, where evaluating them waits for one place after the other:
    with this and `find_known_groups` the loop takes 0.6 of the time.
    """
    touched = np.int64(0)
    for row in range(first_row, end_row):
        group = batch.groups[row]
        if group == NOTHING or store.group_links[group, NEWEST] == NOTHING:
            continue
        touched ^= store.events[store.group_links[group, NEWEST], TIME]
        for slot in store.accumulator_starts[group]:
            if slot != NOTHING and store.accumulators[slot + START] != NOTHING:
                touched ^= store.events[store.accumulators[slot + START], TIME]
    store.scratch[0] = touched  # without this, the compiler would remove the unused reads


@njit_without_allocation
def last_event_at_or_before(store, group, time_ms):
    """The group's last event, in time order, at or before a time."""
    if has_blocks(store, group):
        return last_event_at_or_before_by_blocks(store, group, time_ms)
    last_at_or_before, steps = store.group_links[group, NEWEST], 0
    while last_at_or_before != NOTHING and store.events[last_at_or_before, TIME] > time_ms:
        last_at_or_before = store.links[last_at_or_before, PREV]
        steps += 1
    if steps > LONGEST_WALK:
        make_blocks(store, group)
    return last_at_or_before


@njit_without_allocation
def is_not_taken_back(store, event):
    """Whether an event has not been taken back."""
    return store.scalars[RETURNS] == 0 or store.events[event, VALUES] & COUNTS != 0


@njit_without_allocation
def find_stored_event(store, group, last_at_or_before, time_ms, event_id):
    """The event of the group with this time and id, NOTHING if none is stored; `last_at_or_before`: the last event at or before this time.

    Of a run of more than RUN events of one time all are in a hash table: to walk it for each would take the square of its length.
    """
    for _ in range(RUN):
        if last_at_or_before == NOTHING or store.events[last_at_or_before, TIME] != time_ms:
            return np.int64(NOTHING)
        if store.events[last_at_or_before, ID] == event_id and is_not_taken_back(store, last_at_or_before):
            return np.int64(last_at_or_before)
        last_at_or_before = store.links[last_at_or_before, PREV]
    if last_at_or_before == NOTHING or store.events[last_at_or_before, TIME] != time_ms:
        return np.int64(NOTHING)
    found = np.int64(store.same_time_table[find_same_time_slot(store, group, time_ms, event_id)]) - 1
    return found if found != NOTHING and is_not_taken_back(store, found) else np.int64(NOTHING)


@njit_without_allocation
def find_same_time_slot(store, group, time_ms, event_id):
    """The slot in `same_time_table` of the event with this time and id; the free slot for it if there is none."""
    last = len(store.same_time_table) - 1
    hash_so_far = extend_hash(
        extend_hash(extend_hash(np.uint64(store.scalars[SALT]), group), time_ms), event_id
    )
    slot = np.int64(hash_so_far & np.uint64(last))
    while store.same_time_table[slot] != 0:
        event = store.same_time_table[slot] - 1
        if (
            store.events[event, ID] == event_id
            and store.events[event, TIME] == time_ms
            and store.links[event, GROUP] == group
        ):
            return slot
        slot = (slot + 1) & last
    return slot


@njit_without_allocation
def add_to_same_time_table(store, event):
    """Adds an event to `same_time_table`, the table of events in long runs of one time."""
    slot = find_same_time_slot(
        store, store.links[event, GROUP], store.events[event, TIME], store.events[event, ID]
    )
    if store.same_time_table[slot] != 0 and not is_not_taken_back(store, event):
        return  # one that came again after this had been taken back
    store.scalars[TWINS] += store.same_time_table[slot] == 0
    store.same_time_table[slot] = event + 1


@njit_without_allocation
def index_long_run_of_same_time(store, event):
    """Adds an event, the newest of its time, to `same_time_table` if its run is long; adds the whole run when it becomes long."""
    time_ms, last_at_or_before = store.events[event, TIME], store.links[event, PREV]
    for _ in range(RUN):
        if last_at_or_before == NOTHING or store.events[last_at_or_before, TIME] != time_ms:
            return
        last_at_or_before = store.links[last_at_or_before, PREV]
    add_to_same_time_table(store, event)
    if last_at_or_before != NOTHING and store.events[last_at_or_before, TIME] == time_ms:
        return
    last_at_or_before = store.links[event, PREV]
    for _ in range(RUN):
        add_to_same_time_table(store, last_at_or_before)
        last_at_or_before = store.links[last_at_or_before, PREV]


@njit_without_allocation
def refill_same_time_table(store, old_entries):
    """Fills `same_time_table` with the entries of another."""
    for row in old_entries:
        add_to_same_time_table(store, row - 1)


@njit_without_allocation
def store_event(store, group, older_event, seq, batch, row):
    """Stores the event in a row of the batch after its older neighbour (NOTHING: as the oldest) and returns its row in `events`."""
    event = store.scalars[EVENTS]
    store.scalars[EVENTS] += 1
    store.events[event, TIME] = batch.times_ms[row]
    store.events[event, ID] = batch.event_ids[row]
    store.events[event, SEQ] = seq
    for c in range(batch.values.shape[1]):
        store.events[event, VALUES + c] = batch.values[row, c]
    q = (
        store.group_links[group, NEWEST] if older_event == NOTHING else store.links[older_event, NEXT]
    )  # the newer neighbour
    if older_event == NOTHING:
        if has_blocks(store, group):
            q = store.blocks[block_at_time(store, group, batch.times_ms[row]), OLDEST]
        while q != NOTHING and store.links[q, PREV] != NOTHING:
            q = store.links[q, PREV]
    else:
        store.links[older_event, NEXT] = event
    if q == NOTHING:
        store.group_links[group, NEWEST] = event
    else:
        store.links[q, PREV] = event
    store.links[event, PREV] = older_event
    store.links[event, NEXT] = q
    store.links[event, GROUP] = group
    if has_blocks(store, group):
        add_event_to_block(store, group, event)
    index_long_run_of_same_time(store, event)
    return event


@njit_without_allocation
def find_reset_slot(store, rule_id, group):
    """The slot of a rule and group in the table of resets; the free slot for them if there is none."""
    last = len(store.reset_table) - 1
    slot = np.int64(
        extend_hash(extend_hash(np.uint64(store.scalars[SALT]), rule_id), group) & np.uint64(last)
    )
    while store.reset_table[slot, RESET_RULE] != NOTHING and (
        store.reset_table[slot, RESET_RULE] != rule_id or store.reset_table[slot, RESET_GROUP] != group
    ):
        slot = (slot + 1) & last
    return slot


@njit_without_allocation
def record_reset(store, rule_id, group, seq):
    """Records a reset: for the rule and group, only events after the one with `seq` count."""
    slot = find_reset_slot(store, rule_id, group)
    if store.reset_table[slot, RESET_RULE] == NOTHING:
        store.scalars[RESETS] += 1
        store.reset_table[slot, RESET_RULE] = rule_id
        store.reset_table[slot, RESET_GROUP] = group
    store.reset_table[slot, RESET_SEQ] = max(store.reset_table[slot, RESET_SEQ], seq)


@njit_without_allocation
def refill_group_table(store):
    """Fills the hash table of groups, after its size changed."""
    for group in range(store.scalars[GROUPS]):
        keys, slot = store.groups[:, KEY:], find_group_slot(store, store.groups[:, KEY:], group)
        fill_slot(store.group_table, slot, store.scalars[SALT], keys, group, group)


@njit_without_allocation
def refill_reset_table(store, old_rows):
    """Fills the hash table of resets with rows of another."""
    for row in range(len(old_rows)):
        record_reset(store, old_rows[row, RESET_RULE], old_rows[row, RESET_GROUP], old_rows[row, RESET_SEQ])
