"""Exact windows, one for each event: "x back from the current event".

      W = 10 min            t
  ────┤━━━━━━━━━━━━━━━━━━━━━┤
   a  b          c          d        window of d: b c d   (both ends count)

This is `DynamicAlertFunction` of the Flink demo without its walk over the whole window: each group keeps its events linked in
time order, and each rule keeps a running aggregate with the event where its window starts. An event in order enters at the
newer end, the events that it leaves behind go at the older end: O(1) amortised, whatever the window's length. A late event is
linked in where it belongs and only its own window is walked. Numba compiles this plain Python.

Amounts are scaled integers. A sum is kept as two int64, high·2³² + low, so it never overflows (SUM of 2³¹ values of 64 bits).
"""

from typing import NamedTuple

import numpy as np
from numba import njit

SUM, AVG, MIN, MAX, COUNT, UNIQUE_COUNT, COUNT_WITH_RESET = range(7)
EQUAL, NOT_EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL = range(6)
EVALUATE_LATE, STORE_LATE, DROP_LATE = range(3)
EVALUATED, STORED_LATE, DUPLICATE, DROPPED_LATE = range(4)  # what became of an event

NOTHING = -1
NEVER = -(1 << 62)  # a time before all others
LOW_BITS = 0xFFFFFFFF

# columns of Store.event; FIELDS: a bit for each field that is not null; PREV, NEXT: the group's neighbours in time order
TIME, ID, SEQ, FIELDS, PREV, NEXT, GROUP, VALUES = range(8)
RULE, EXAMPLE, COUNTED, SEEN = range(4)  # columns of Store.counted
NEWEST, KEY_GROUP, KEY = range(3)  # columns of Store.group: the event at the newer end; from KEY on the key
START, N, HIGH, LOW, RESET = range(5)  # columns of Store.running
HEAD, TAIL = HIGH, LOW  # of the monotonic queue, for MIN and MAX
OLDER, NEWER = range(2)  # columns of Store.queue
EVENTS, GROUPS = range(2)  # places in Store.size
ACTIVE, FUNCTION, OPERATOR, WINDOW, COLUMN, NEEDS, LIMIT, UNIT, FIRST, LAST, QUEUE = range(
    11
)  # columns of Rules.whole

# Without Numba's reference counts, which would cost more than the work; so what is bare allocates nothing.
bare = njit(cache=True, _nrt=False)


class Store(NamedTuple):
    """The events of one route, of all key-groups of a task. Rows of `event` are in order of arrival."""

    size: np.ndarray  # [2] events, groups
    newest: np.ndarray  # [key-groups] newest event time, ms
    event: (
        np.ndarray
    )  # [events, VALUES + columns] int64; a value is a scaled number or half of a string's digest
    queue: np.ndarray  # [events, rules with MIN or MAX, 2] int32: neighbours in the rule's monotonic queue
    group: np.ndarray  # [groups, KEY + key columns] int64
    running: np.ndarray  # [groups, rules, 5] int64
    table: np.ndarray  # [power of 2] int32: hash table of groups
    counted: (
        np.ndarray
    )  # [power of 2, 4] int32, for UNIQUE_COUNT: hash table (rule, an event with the value) -> how many


class Rules(NamedTuple):
    """A route's rules as numbers, one row each; the limit is the fraction LIMIT / UNIT in minor units."""

    whole: np.ndarray  # [rules, 11] int64
    real: np.ndarray  # [rules, 2] float64: LIMIT and UNIT
    unique: (
        np.ndarray
    )  # columns of Store.event that the UNIQUE_COUNT rules compare, each from FIRST up to LAST


class Batch(NamedTuple):
    """Events to evaluate, in log order."""

    time: np.ndarray
    id: np.ndarray
    key_group: np.ndarray
    fields: np.ndarray
    key: np.ndarray  # [events, key columns]
    value: np.ndarray  # [events, columns]


@bare
def mixed(h, value):
    h = np.uint64(h ^ np.uint64(value)) * np.uint64(0xFF51AFD7ED558CCD)
    return h ^ (h >> np.uint64(32))


@bare
def group_of(store, key_group, key, i):
    """The group with the key in row `i`, a new one if there is none."""
    last = len(store.table) - 1
    h = np.uint64(0)
    for k in range(key.shape[1]):
        h = mixed(h, key[i, k])
    place = np.int64(h & np.uint64(last))
    while True:
        g = store.table[place]
        if g == NOTHING:
            break
        same = True
        for k in range(key.shape[1]):
            if store.group[g, KEY + k] != key[i, k]:
                same = False
                break
        if same:
            return g
        place = (place + 1) & last
    g = store.size[GROUPS]
    store.size[GROUPS] += 1
    store.table[place] = g
    store.group[g, NEWEST] = NOTHING
    store.group[g, KEY_GROUP] = key_group
    for k in range(key.shape[1]):
        store.group[g, KEY + k] = key[i, k]
    for r in range(store.running.shape[1]):
        store.running[g, r, START] = NOTHING
        store.running[g, r, RESET] = NOTHING
    return g


@bare
def older_neighbour(store, g, t):
    """The group's last event, in time order, that is not newer than `t`."""
    p = store.group[g, NEWEST]
    while p != NOTHING and store.event[p, TIME] > t:
        p = store.event[p, PREV]
    return p


@bare
def is_held(store, p, t, event_id):
    """Whether an event with this time and id is held; `p` is the older neighbour of `t`."""
    while p != NOTHING and store.event[p, TIME] == t:
        if store.event[p, ID] == event_id:
            return True
        p = store.event[p, PREV]
    return False


@bare
def insert(store, g, p, t, event_id, seq, fields, value, i):
    """Stores the event behind its older neighbour `p` (NOTHING: as the oldest) and returns its row."""
    j = store.size[EVENTS]
    store.size[EVENTS] += 1
    store.event[j, TIME] = t
    store.event[j, ID] = event_id
    store.event[j, SEQ] = seq
    store.event[j, FIELDS] = fields
    for c in range(value.shape[1]):
        store.event[j, VALUES + c] = value[i, c]
    q = store.group[g, NEWEST] if p == NOTHING else store.event[p, NEXT]  # the newer neighbour
    if p == NOTHING:
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
    return j


@bare
def counts(store, rules, r, g, j):
    """Whether event `j` counts for rule `r`: no field it needs is null, and it came after the rule's last reset."""
    if store.event[j, FIELDS] & rules.whole[r, NEEDS] != rules.whole[r, NEEDS]:
        return False
    return rules.whole[r, FUNCTION] != COUNT_WITH_RESET or store.event[j, SEQ] > store.running[g, r, RESET]


@bare
def same_value(store, rules, r, i, j):
    for u in range(rules.whole[r, FIRST], rules.whole[r, LAST]):
        if store.event[i, rules.unique[u]] != store.event[j, rules.unique[u]]:
            return False
    return True


@bare
def value_hash(store, rules, r, j):
    h = np.uint64(0)
    for u in range(rules.whole[r, FIRST], rules.whole[r, LAST]):
        h = mixed(h, store.event[j, rules.unique[u]])
    return h


@bare
def tally(store, rules, r, g, j):
    """The place in `counted` of rule, group and value of event `j`; the value is named by the first event that had it."""
    last = len(store.counted) - 1
    h = mixed(mixed(value_hash(store, rules, r, j), g), r)
    place = np.int64(h & np.uint64(last))
    while store.counted[place, RULE] != NOTHING:
        other = store.counted[place, EXAMPLE]
        if (
            store.counted[place, RULE] == r
            and store.event[other, GROUP] == g
            and same_value(store, rules, r, other, j)
        ):
            return place
        place = (place + 1) & last
    store.counted[place, RULE] = r
    store.counted[place, EXAMPLE] = j
    store.counted[place, COUNTED] = 0
    return place


@bare
def better(function, a, b):
    """Whether `a` makes an older `b` useless for MIN or MAX."""
    return a <= b if function == MIN else a >= b


@bare
def enter(store, rules, r, g, j):
    """Event `j` comes into the running window of rule `r`; for MIN and MAX it must be the newest there."""
    if not counts(store, rules, r, g, j):
        return
    running = store.running[g, r]
    function = rules.whole[r, FUNCTION]
    if function == SUM or function == AVG:
        v = store.event[j, rules.whole[r, COLUMN]]
        running[HIGH] += v >> 32
        running[LOW] += v & LOW_BITS
        running[N] += 1
    elif function == UNIQUE_COUNT:
        place = tally(store, rules, r, g, j)
        store.counted[place, COUNTED] += 1
        if store.counted[place, COUNTED] == 1:
            running[N] += 1
    elif function == MIN or function == MAX:
        c, queue = rules.whole[r, COLUMN], rules.whole[r, QUEUE]
        last = running[TAIL]
        while last != NOTHING and better(function, store.event[j, c], store.event[last, c]):
            last = store.queue[last, queue, OLDER]
        store.queue[j, queue, OLDER] = last
        store.queue[j, queue, NEWER] = NOTHING
        if last == NOTHING:
            running[HEAD] = j
        else:
            store.queue[last, queue, NEWER] = j
        running[TAIL] = j
    else:
        running[N] += 1


@bare
def leave(store, rules, r, g, j):
    """Event `j`, the oldest, goes out of the running window of rule `r`."""
    if not counts(store, rules, r, g, j):
        return
    running = store.running[g, r]
    function = rules.whole[r, FUNCTION]
    if function == SUM or function == AVG:
        v = store.event[j, rules.whole[r, COLUMN]]
        running[HIGH] -= v >> 32
        running[LOW] -= v & LOW_BITS
        running[N] -= 1
    elif function == UNIQUE_COUNT:
        place = tally(store, rules, r, g, j)
        store.counted[place, COUNTED] -= 1
        if store.counted[place, COUNTED] == 0:
            running[N] -= 1
    elif function == MIN or function == MAX:
        if running[HEAD] == j:
            running[HEAD] = store.queue[j, rules.whole[r, QUEUE], NEWER]
            if running[HEAD] == NOTHING:
                running[TAIL] = NOTHING
            else:
                store.queue[running[HEAD], rules.whole[r, QUEUE], OLDER] = NOTHING
    else:
        running[N] -= 1


@bare
def advance(store, rules, r, g, j, oldest):
    """Moves the running window of rule `r` to end with event `j`, the group's newest, and start at time `oldest`."""
    running = store.running[g, r]
    if running[START] == NOTHING:  # not followed so far: take in the window's events from the oldest on
        start = j
        while store.event[start, PREV] != NOTHING and store.event[store.event[start, PREV], TIME] >= oldest:
            start = store.event[start, PREV]
        running[START] = start
        running[N] = 0
        empty = NOTHING if rules.whole[r, FUNCTION] == MIN or rules.whole[r, FUNCTION] == MAX else 0
        running[HIGH] = empty
        running[LOW] = empty
        while start != NOTHING:
            enter(store, rules, r, g, start)
            start = store.event[start, NEXT]
        return
    enter(store, rules, r, g, j)
    start = running[START]
    while store.event[start, TIME] < oldest:
        leave(store, rules, r, g, start)
        start = store.event[start, NEXT]
    running[START] = start


@bare
def take_in_late(store, rules, r, g, j):
    """Keeps the running window of rule `r` right after event `j` was linked in before the group's newest."""
    running = store.running[g, r]
    if running[START] == NOTHING or store.event[j, FIELDS] & rules.whole[r, NEEDS] != rules.whole[r, NEEDS]:
        return
    t = store.event[j, TIME]
    if store.event[running[START], TIME] > t:
        if t < store.event[store.group[g, NEWEST], TIME] - rules.whole[r, WINDOW]:
            return
        running[START] = j
    if rules.whole[r, FUNCTION] == MIN or rules.whole[r, FUNCTION] == MAX:
        running[START] = NOTHING
    else:
        enter(store, rules, r, g, j)


@bare
def walk(store, rules, r, g, j, oldest):
    """The aggregate of rule `r` over the window that ends with event `j`, computed from the events alone."""
    function, c = rules.whole[r, FUNCTION], rules.whole[r, COLUMN]
    high, low, n = np.int64(0), np.int64(0), np.int64(0)
    best = store.event[j, c] if function == MIN or function == MAX else np.int64(0)
    i = j
    while i != NOTHING and store.event[i, TIME] >= oldest:
        if counts(store, rules, r, g, i):
            n += 1
            if function == SUM or function == AVG:
                high += store.event[i, c] >> 32
                low += store.event[i, c] & LOW_BITS
            elif function == MIN:
                best = min(best, store.event[i, c])
            elif function == MAX:
                best = max(best, store.event[i, c])
        i = store.event[i, PREV]
    if function == UNIQUE_COUNT:
        n = distinct(store, rules, r, g, j, oldest)
    if function == MIN or function == MAX:
        high, low = best >> 32, best & LOW_BITS
    return high, low, n


@bare
def distinct(store, rules, r, g, j, oldest):
    """How many values the counting events of a window have; marks them in `counted`, column SEEN, and wipes the marks."""
    last = len(store.counted) - 1
    found = np.int64(0)
    i = j
    while i != NOTHING and store.event[i, TIME] >= oldest:
        if counts(store, rules, r, g, i):
            place = np.int64(value_hash(store, rules, r, i) & np.uint64(last))
            while store.counted[place, SEEN] != NOTHING and not same_value(
                store, rules, r, store.counted[place, SEEN], i
            ):
                place = (place + 1) & last
            found += store.counted[place, SEEN] == NOTHING
            store.counted[place, SEEN] = i
        i = store.event[i, PREV]
    i = j
    while i != NOTHING and store.event[i, TIME] >= oldest:
        place = np.int64(value_hash(store, rules, r, i) & np.uint64(last))
        while store.counted[place, SEEN] != NOTHING:
            store.counted[place, SEEN] = NOTHING
            place = (place + 1) & last
        i = store.event[i, PREV]
    return found


@bare
def aggregate(store, rules, r, g):
    """The running aggregate of rule `r`: high and low part of the sum or value, and the count."""
    running = store.running[g, r]
    function = rules.whole[r, FUNCTION]
    if function == MIN or function == MAX:
        v = store.event[running[HEAD], rules.whole[r, COLUMN]]
        return v >> 32, v & LOW_BITS, np.int64(1)
    return running[HIGH], running[LOW], running[N]


@bare
def holds(rules, r, high, low, n):
    """aggregate ⋛ limit, exactly, as  aggregate · UNIT ⋛ LIMIT · count.

    Floats decide unless both sides nearly tie. Then their difference is below 2⁶³ (for sides up to 10³²), and 64-bit
    arithmetic, which is exact modulo 2⁶⁴, gives it exactly though both products overflow.
    """
    function = rules.whole[r, FUNCTION]
    times = n if function == AVG else np.int64(1)
    if function >= COUNT:
        high, low = n >> 32, n & LOW_BITS
    left = (high * 4294967296.0 + low) * rules.real[r, 1]
    right = rules.real[r, 0] * times
    if abs(left - right) > 1e-14 * max(abs(left), abs(right)):
        sign = 1 if left > right else -1
    else:
        difference = ((high << 32) + low) * rules.whole[r, UNIT] - rules.whole[r, LIMIT] * times
        sign = (difference > 0) - (difference < 0)
    operator = rules.whole[r, OPERATOR]
    if operator == EQUAL:
        return sign == 0
    if operator == NOT_EQUAL:
        return sign != 0
    if operator == GREATER:
        return sign > 0
    if operator == GREATER_EQUAL:
        return sign >= 0
    if operator == LESS:
        return sign < 0
    return sign <= 0


@bare
def evaluate(store, rules, batch, first_seq, first, widest, out_of_orderness, late_policy, fate, alerts):
    """Takes in a batch's events from row `first` on, as far as there is room for their alerts; row `i` gets seq first_seq + i.

    `widest` is the route's widest window; times are in ms. The store must have room for the batch. Fills `fate` with what
    became of each event and `alerts` with rows (event, rule, high, low, count); returns the row it got to and the alerts.
    """
    fired = 0
    for i in range(first, len(batch.time)):
        if fired + len(rules.whole) > len(alerts):
            return i, fired
        t = batch.time[i]
        key_group = batch.key_group[i]
        store.newest[key_group] = max(store.newest[key_group], t)
        horizon = store.newest[key_group] - widest - out_of_orderness
        if t < horizon:
            fate[i] = DROPPED_LATE
            continue
        g = group_of(store, key_group, batch.key, i)
        newest = store.group[g, NEWEST]
        p = older_neighbour(store, g, t)
        if is_held(store, p, t, batch.id[i]):
            fate[i] = DUPLICATE
            continue
        late = newest != NOTHING and t < store.event[newest, TIME] - out_of_orderness
        if late and late_policy == DROP_LATE:
            fate[i] = DROPPED_LATE
            continue
        seq = first_seq + i
        j = insert(store, g, p, t, batch.id[i], seq, batch.fields[i], batch.value, i)
        fate[i] = STORED_LATE if late and late_policy == STORE_LATE else EVALUATED
        in_order = p == newest
        for r in range(len(rules.whole)):
            if not rules.whole[r, ACTIVE]:
                continue
            if not in_order:
                take_in_late(store, rules, r, g, j)
            if fate[i] != EVALUATED or not counts(store, rules, r, g, j):
                continue
            oldest = max(t - rules.whole[r, WINDOW], horizon)
            if in_order:
                advance(store, rules, r, g, j, oldest)
                high, low, count = aggregate(store, rules, r, g)
            else:
                high, low, count = walk(store, rules, r, g, j, oldest)
            if holds(rules, r, high, low, count):
                alerts[fired, 0] = i
                alerts[fired, 1] = r
                alerts[fired, 2] = high
                alerts[fired, 3] = low
                alerts[fired, 4] = count
                fired += 1
                if rules.whole[r, FUNCTION] == COUNT_WITH_RESET:
                    store.running[g, r, RESET] = seq
                    store.running[g, r, N] = 0
    return len(batch.time), fired


@bare
def load(store, batch, seq, reach):
    """Takes in events that were held before, in order of arrival, without evaluating them; `reach`: how long they are held, ms."""
    for i in range(len(batch.time)):
        if batch.time[i] < store.newest[batch.key_group[i]] - reach:
            continue
        g = group_of(store, batch.key_group[i], batch.key, i)
        p = older_neighbour(store, g, batch.time[i])
        insert(store, g, p, batch.time[i], batch.id[i], seq[i], batch.fields[i], batch.value, i)


@bare
def load_resets(store, key_group, key, seq, rows, r):
    """Restores where rule `r` was reset, for the groups that still hold events."""
    for row in rows:
        groups = store.size[GROUPS]
        g = group_of(store, key_group[row], key, row)
        if g < groups:
            store.running[g, r, RESET] = max(store.running[g, r, RESET], seq[row])


@bare
def index_groups(store):
    """Fills the hash table of groups, after its size changed."""
    last = len(store.table) - 1
    for g in range(store.size[GROUPS]):
        h = np.uint64(0)
        for k in range(store.group.shape[1] - KEY):
            h = mixed(h, store.group[g, KEY + k])
        place = np.int64(h & np.uint64(last))
        while store.table[place] != NOTHING:
            place = (place + 1) & last
        store.table[place] = g
