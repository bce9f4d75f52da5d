"""Events and groups in arrays: finding a group, linking its events in time order, and taking back what was held before."""

import numpy as np

from lab.engine.compiled.aggregates import mixed
from lab.engine.compiled.blocks import (
    LIMIT,
    add_to_block,
    block_of,
    has_blocks,
    make_blocks,
    neighbour_by_blocks,
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
    TAKES_BACK,
    TIME,
    TWINS,
    VALUES,
    bare,
)

RUN = 64  # events of one time and group, after which a hash table tells which ids they have


@bare
def key_place(table, rows, first, salt, key, i):
    """The place in a hash table of the row whose columns from `first` on are the key in row `i`, or where it would be."""
    h = np.uint64(salt)
    for k in range(key.shape[1]):
        h = mixed(h, key[i, k])
    last = len(table) - 1
    place = np.int64(h & np.uint64(last))
    while table[place] != NOTHING and not has_key(rows, table[place], first, key, i):
        place = (place + 1) & last
    return place


@bare
def has_key(rows, row, first, key, i):
    for k in range(key.shape[1]):
        if rows[row, first + k] != key[i, k]:
            return False
    return True


@bare
def group_place(store, key, i):
    """The place in the table of groups of the one with the key in row `i`, or where it would be."""
    return key_place(store.table, store.group, KEY, store.size[SALT], key, i)


@bare
def group_of(store, key_group, key, i):
    """The group with the key in row `i`, a new one if there is none."""
    place = group_place(store, key, i)
    g = store.table[place]
    if g != NOTHING:
        return g
    g = store.size[GROUPS]
    store.size[GROUPS] += 1
    store.table[place] = g
    store.group[g, NEWEST] = NOTHING
    store.group[g, KEY_GROUP] = key_group
    store.group[g, BLOCK] = NOTHING
    for k in range(key.shape[1]):
        store.group[g, KEY + k] = key[i, k]
    store.place[g, :] = NOTHING
    return g


@bare
def look_ahead(store, batch, first, end):
    """Finds the groups that rows of the batch have by now, NOTHING for those that have none yet."""
    for i in range(first, end):
        batch.group[i] = store.table[group_place(store, batch.key, i)]


@bare
def touch(store, batch, first, end):
    """Reads where the windows of some rows' groups end and start, and does nothing with it.

    The processor fetches these from memory for many events at once, where evaluating them waits for one place after the other:
    with this and `look_ahead` the loop takes 0.6 of the time.
    """
    touched = np.int64(0)
    for i in range(first, end):
        g = batch.group[i]
        if g == NOTHING or store.group[g, NEWEST] == NOTHING:
            continue
        touched ^= store.event[store.group[g, NEWEST], TIME]
        for place in store.place[g]:
            if place != NOTHING and store.running[place + START] != NOTHING:
                touched ^= store.event[store.running[place + START], TIME]
    store.scratch[0] = touched  # else the compiler leaves out what nobody needs


@bare
def count_new_groups(store, key, seen):
    """How many groups rows of keys would add; `seen`: an empty hash table, at least twice as large as there are rows."""
    new = 0
    for i in range(len(key)):
        if store.table[group_place(store, key, i)] == NOTHING:
            place = key_place(seen, key, 0, store.size[SALT], key, i)
            new += seen[place] == NOTHING
            seen[place] = i
    return new


@bare
def older_neighbour(store, g, t):
    """The group's last event, in time order, that is not newer than `t`."""
    if has_blocks(store, g):
        return neighbour_by_blocks(store, g, t)
    p, steps = store.group[g, NEWEST], 0
    while p != NOTHING and store.event[p, TIME] > t:
        p = store.event[p, PREV]
        steps += 1
    if steps > LIMIT:
        make_blocks(store, g)
    return p


@bare
def is_there(store, j):
    """Whether an event has not been taken back."""
    return store.size[RETURNS] == 0 or store.event[j, VALUES] & COUNTS != 0


@bare
def held_at(store, g, p, t, event_id):
    """The event of the group with this time and id, NOTHING if none is held; `p` is the older neighbour of `t`.

    Of a run of more than RUN events of one time all are in a hash table: to walk it for each would take the square of its length.
    """
    for _ in range(RUN):
        if p == NOTHING or store.event[p, TIME] != t:
            return np.int64(NOTHING)
        if store.event[p, ID] == event_id and is_there(store, p):
            return np.int64(p)
        p = store.event[p, PREV]
    if p == NOTHING or store.event[p, TIME] != t:
        return np.int64(NOTHING)
    found = np.int64(store.twin[twin_place(store, g, t, event_id)]) - 1
    return found if found != NOTHING and is_there(store, found) else np.int64(NOTHING)


@bare
def twin_place(store, g, t, event_id):
    """The place in the table of twins of the event with this time and id, or where it would be."""
    last = len(store.twin) - 1
    h = mixed(mixed(mixed(np.uint64(store.size[SALT]), g), t), event_id)
    place = np.int64(h & np.uint64(last))
    while store.twin[place] != 0:
        j = store.twin[place] - 1
        if store.event[j, ID] == event_id and store.event[j, TIME] == t and store.event[j, GROUP] == g:
            return place
        place = (place + 1) & last
    return place


@bare
def add_twin(store, j):
    """Takes an event into the table of twins."""
    place = twin_place(store, store.event[j, GROUP], store.event[j, TIME], store.event[j, ID])
    if store.twin[place] != 0 and not is_there(store, j):
        return  # one that came again after this had been taken back
    store.size[TWINS] += store.twin[place] == 0
    store.twin[place] = j + 1


@bare
def add_to_run(store, j):
    """Takes event `j`, the newest of its time, into the table of twins if its run is long; the whole run once it gets long."""
    t, p = store.event[j, TIME], store.event[j, PREV]
    for _ in range(RUN):
        if p == NOTHING or store.event[p, TIME] != t:
            return
        p = store.event[p, PREV]
    add_twin(store, j)
    if p != NOTHING and store.event[p, TIME] == t:
        return
    p = store.event[j, PREV]
    for _ in range(RUN):
        add_twin(store, p)
        p = store.event[p, PREV]


@bare
def index_twins(store, before):
    """Fills the hash table of twins with the entries of another."""
    for row in before:
        add_twin(store, row - 1)


@bare
def link(store, g, p, seq, batch, i):
    """Stores event `i` of the batch behind its older neighbour `p` (NOTHING: as the oldest) and returns its row."""
    j = store.size[EVENTS]
    store.size[EVENTS] += 1
    store.event[j, TIME] = batch.time[i]
    store.event[j, ID] = batch.id[i]
    store.event[j, SEQ] = seq
    for c in range(batch.value.shape[1]):
        store.event[j, VALUES + c] = batch.value[i, c]
    q = store.group[g, NEWEST] if p == NOTHING else store.event[p, NEXT]  # the newer neighbour
    if p == NOTHING:
        if has_blocks(store, g):
            q = store.block[block_of(store, g, batch.time[i]), OLDEST]
        while q != NOTHING and store.event[q, PREV] != NOTHING:
            q = store.event[q, PREV]
    else:
        store.event[p, NEXT] = j
    if q == NOTHING:
        store.group[g, NEWEST] = j
    else:
        store.event[q, PREV] = j
    store.event[j, PREV] = p
    store.event[j, NEXT] = q
    store.event[j, GROUP] = g
    if has_blocks(store, g):
        add_to_block(store, g, j)
    add_to_run(store, j)
    return j


@bare
def keep_taking_back(store, g, t, event_id, seq):
    """Keeps a row that says that an event was taken back, for those who take in what is held here in order of `seq`."""
    j = store.size[EVENTS]
    store.size[EVENTS] += 1
    store.event[j, :] = 0
    store.event[j, TIME] = t
    store.event[j, ID] = event_id
    store.event[j, SEQ] = seq
    store.event[j, PREV] = NOTHING
    store.event[j, NEXT] = NOTHING
    store.event[j, GROUP] = g
    store.event[j, VALUES] = TAKES_BACK


@bare
def reset_place(store, rule_id, g):
    """The place of rule and group in the table of resets, or where it would be."""
    last = len(store.reset) - 1
    place = np.int64(mixed(mixed(np.uint64(store.size[SALT]), rule_id), g) & np.uint64(last))
    while store.reset[place, RESET_RULE] != NOTHING and (
        store.reset[place, RESET_RULE] != rule_id or store.reset[place, RESET_GROUP] != g
    ):
        place = (place + 1) & last
    return place


@bare
def reset(store, rule_id, g, seq):
    """From the event with `seq` on nothing before counts for the rule in the group."""
    place = reset_place(store, rule_id, g)
    if store.reset[place, RESET_RULE] == NOTHING:
        store.size[RESETS] += 1
        store.reset[place, RESET_RULE] = rule_id
        store.reset[place, RESET_GROUP] = g
    store.reset[place, RESET_SEQ] = max(store.reset[place, RESET_SEQ], seq)


@bare
def load(store, batch, seq, reach):
    """Takes in events that were held before, in order of arrival, without evaluating them; `reach`: how long they are held, ms."""
    for i in range(len(batch.time)):
        t = batch.time[i]
        if t < store.newest[batch.key_group[i]] - reach:
            continue
        g = group_of(store, batch.key_group[i], batch.key, i)
        p = older_neighbour(store, g, t)
        if store.size[RETURNS] and batch.value[i, 0] & TAKES_BACK:
            held = held_at(store, g, p, t, batch.id[i])
            if held != NOTHING:
                store.event[held, VALUES] &= ~COUNTS
            keep_taking_back(store, g, t, batch.id[i], seq[i])
        else:
            link(store, g, p, seq[i], batch, i)


@bare
def load_resets(store, key, key_group, rule_id, seq):
    """Restores where rules were reset, for the groups that still hold events."""
    for row in range(len(key)):
        groups = store.size[GROUPS]
        g = group_of(store, key_group[row], key, row)
        if g < groups:
            reset(store, rule_id[row], g, seq[row])


@bare
def index_groups(store):
    """Fills the hash table of groups, after its size changed."""
    for g in range(store.size[GROUPS]):
        store.table[group_place(store, store.group[:, KEY:], g)] = g


@bare
def index_resets(store, before):
    """Fills the hash table of resets with rows of another."""
    for row in range(len(before)):
        reset(store, before[row, RESET_RULE], before[row, RESET_GROUP], before[row, RESET_SEQ])
