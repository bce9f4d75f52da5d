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
LOW_BITS = 0xFFFFFFFF

TIME, ID, SEQ, FIELDS = range(4)  # columns of Store.event; FIELDS: a bit for each field that is not null
PREV, NEXT, GROUP = range(3)  # columns of Store.link
START, N, HIGH, LOW, RESET = range(5)  # columns of Store.running
HEAD, TAIL = HIGH, LOW  # of the monotonic queue, for MIN and MAX
EVENTS, GROUPS, NEWEST, NEXT_SEQ = range(4)  # places in Store.size
ACTIVE, FUNCTION, OPERATOR, WINDOW, COLUMN, NEEDS, LIMIT, UNIT, FIRST, LAST, QUEUE = range(11)  # columns of Rules.whole


class Store(NamedTuple):
    """The events of one route in one key-group. Rows of `event` are in order of arrival."""

    size: np.ndarray  # [4] events, groups, newest event time, the next event's SEQ
    event: np.ndarray  # [events, 4] int64
    link: np.ndarray  # [events, 3] int32: neighbours in time order of the same group, and the group
    value: np.ndarray  # [events, columns] int64: scaled numbers, or the two halves of a string's digest
    queue: np.ndarray  # [events, rules with MIN or MAX, 2] int32: PREV and NEXT in the rule's monotonic queue
    key: np.ndarray  # [groups, key columns] int64
    newest: np.ndarray  # [groups] int32: the event at the newer end
    running: np.ndarray  # [groups, rules, 5] int64
    table: np.ndarray  # [power of 2] int32: hash table of groups
    counted: np.ndarray  # [power of 2, 3] int32: hash table (rule, an event with the value) -> how many, for UNIQUE_COUNT


class Rules(NamedTuple):
    """A route's rules as numbers, one row each; the limit is the fraction LIMIT / UNIT in minor units."""

    whole: np.ndarray  # [rules, 11] int64
    real: np.ndarray  # [rules, 2] float64: LIMIT and UNIT
    unique: np.ndarray  # value columns of the UNIQUE_COUNT rules, each from FIRST up to LAST


class Batch(NamedTuple):
    """Events to evaluate, in log order."""

    time: np.ndarray
    id: np.ndarray
    fields: np.ndarray
    key: np.ndarray  # [events, key columns]
    value: np.ndarray  # [events, columns]


@njit(cache=True)
def mixed(h, value):
    h = np.uint64(h ^ np.uint64(value)) * np.uint64(0xFF51AFD7ED558CCD)
    return h ^ (h >> np.uint64(32))


@njit(cache=True)
def group_of(store, key, i):
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
            if store.key[g, k] != key[i, k]:
                same = False
                break
        if same:
            return g
        place = (place + 1) & last
    g = store.size[GROUPS]
    store.size[GROUPS] += 1
    store.table[place] = g
    store.newest[g] = NOTHING
    for k in range(key.shape[1]):
        store.key[g, k] = key[i, k]
    for r in range(store.running.shape[1]):
        store.running[g, r, START] = NOTHING
        store.running[g, r, RESET] = NOTHING
    return g


@njit(cache=True)
def older_neighbour(store, g, t):
    """The group's last event, in time order, that is not newer than `t`."""
    p = store.newest[g]
    while p != NOTHING and store.event[p, TIME] > t:
        p = store.link[p, PREV]
    return p


@njit(cache=True)
def is_held(store, p, t, event_id):
    """Whether an event with this time and id is held; `p` is the older neighbour of `t`."""
    while p != NOTHING and store.event[p, TIME] == t:
        if store.event[p, ID] == event_id:
            return True
        p = store.link[p, PREV]
    return False


@njit(cache=True)
def insert(store, g, p, t, event_id, seq, fields, value, i):
    """Stores the event behind its older neighbour `p` (NOTHING: as the oldest) and returns its row."""
    j = store.size[EVENTS]
    store.size[EVENTS] += 1
    store.event[j, TIME] = t
    store.event[j, ID] = event_id
    store.event[j, SEQ] = seq
    store.event[j, FIELDS] = fields
    for c in range(value.shape[1]):
        store.value[j, c] = value[i, c]
    q = store.newest[g] if p == NOTHING else store.link[p, NEXT]  # the newer neighbour
    if p == NOTHING:
        while q != NOTHING and store.link[q, PREV] != NOTHING:
            q = store.link[q, PREV]
    else:
        store.link[p, NEXT] = j
    if q == NOTHING:
        store.newest[g] = j
    else:
        store.link[q, PREV] = j
    store.link[j, PREV] = p
    store.link[j, NEXT] = q
    store.link[j, GROUP] = g
    return j


@njit(cache=True)
def counts(store, rules, r, g, j):
    """Whether event `j` counts for rule `r`: no field it needs is null, and it came after the rule's last reset."""
    if store.event[j, FIELDS] & rules.whole[r, NEEDS] != rules.whole[r, NEEDS]:
        return False
    return rules.whole[r, FUNCTION] != COUNT_WITH_RESET or store.event[j, SEQ] > store.running[g, r, RESET]


@njit(cache=True)
def same_value(store, rules, r, i, j):
    for u in range(rules.whole[r, FIRST], rules.whole[r, LAST]):
        if store.value[i, rules.unique[u]] != store.value[j, rules.unique[u]]:
            return False
    return True


@njit(cache=True)
def value_hash(store, rules, r, j):
    h = np.uint64(0)
    for u in range(rules.whole[r, FIRST], rules.whole[r, LAST]):
        h = mixed(h, store.value[j, rules.unique[u]])
    return h


@njit(cache=True)
def tally(store, rules, r, g, j):
    """The place in `counted` of rule, group and value of event `j`; the value is named by the first event that had it."""
    last = len(store.counted) - 1
    h = mixed(mixed(value_hash(store, rules, r, j), g), r)
    place = np.int64(h & np.uint64(last))
    while store.counted[place, 0] != NOTHING:
        other = store.counted[place, 1]
        if store.counted[place, 0] == r and store.link[other, GROUP] == g and same_value(store, rules, r, other, j):
            return place
        place = (place + 1) & last
    store.counted[place, 0] = r
    store.counted[place, 1] = j
    store.counted[place, 2] = 0
    return place


@njit(cache=True)
def better(function, a, b):
    """Whether `a` makes an older `b` useless for MIN or MAX."""
    return a <= b if function == MIN else a >= b


@njit(cache=True)
def enter(store, rules, r, g, j):
    """Event `j` comes into the running window of rule `r`; for MIN and MAX it must be the newest there."""
    if not counts(store, rules, r, g, j):
        return
    running = store.running[g, r]
    function = rules.whole[r, FUNCTION]
    if function == SUM or function == AVG:
        v = store.value[j, rules.whole[r, COLUMN]]
        running[HIGH] += v >> 32
        running[LOW] += v & LOW_BITS
        running[N] += 1
    elif function == UNIQUE_COUNT:
        place = tally(store, rules, r, g, j)
        store.counted[place, 2] += 1
        if store.counted[place, 2] == 1:
            running[N] += 1
    elif function == MIN or function == MAX:
        c, queue = rules.whole[r, COLUMN], rules.whole[r, QUEUE]
        last = running[TAIL]
        while last != NOTHING and better(function, store.value[j, c], store.value[last, c]):
            last = store.queue[last, queue, PREV]
        store.queue[j, queue, PREV] = last
        store.queue[j, queue, NEXT] = NOTHING
        if last == NOTHING:
            running[HEAD] = j
        else:
            store.queue[last, queue, NEXT] = j
        running[TAIL] = j
    else:
        running[N] += 1


@njit(cache=True)
def leave(store, rules, r, g, j):
    """Event `j`, the oldest, goes out of the running window of rule `r`."""
    if not counts(store, rules, r, g, j):
        return
    running = store.running[g, r]
    function = rules.whole[r, FUNCTION]
    if function == SUM or function == AVG:
        v = store.value[j, rules.whole[r, COLUMN]]
        running[HIGH] -= v >> 32
        running[LOW] -= v & LOW_BITS
        running[N] -= 1
    elif function == UNIQUE_COUNT:
        place = tally(store, rules, r, g, j)
        store.counted[place, 2] -= 1
        if store.counted[place, 2] == 0:
            running[N] -= 1
    elif function == MIN or function == MAX:
        if running[HEAD] == j:
            running[HEAD] = store.queue[j, rules.whole[r, QUEUE], NEXT]
            if running[HEAD] == NOTHING:
                running[TAIL] = NOTHING
            else:
                store.queue[running[HEAD], rules.whole[r, QUEUE], PREV] = NOTHING
    else:
        running[N] -= 1


@njit(cache=True)
def advance(store, rules, r, g, j, oldest):
    """Moves the running window of rule `r` to end with event `j`, the group's newest, and start at time `oldest`."""
    running = store.running[g, r]
    if running[START] == NOTHING:  # not followed so far: take in the window's events from the oldest on
        start = j
        while store.link[start, PREV] != NOTHING and store.event[store.link[start, PREV], TIME] >= oldest:
            start = store.link[start, PREV]
        running[START] = start
        running[N] = 0
        empty = NOTHING if rules.whole[r, FUNCTION] == MIN or rules.whole[r, FUNCTION] == MAX else 0
        running[HIGH] = empty
        running[LOW] = empty
        while start != NOTHING:
            enter(store, rules, r, g, start)
            start = store.link[start, NEXT]
        return
    enter(store, rules, r, g, j)
    start = running[START]
    while store.event[start, TIME] < oldest:
        leave(store, rules, r, g, start)
        start = store.link[start, NEXT]
    running[START] = start


@njit(cache=True)
def take_in_late(store, rules, r, g, j):
    """Keeps the running window of rule `r` right after event `j` was linked in before the group's newest."""
    running = store.running[g, r]
    if running[START] == NOTHING or store.event[j, FIELDS] & rules.whole[r, NEEDS] != rules.whole[r, NEEDS]:
        return
    t = store.event[j, TIME]
    if store.event[running[START], TIME] > t:
        if t < store.event[store.newest[g], TIME] - rules.whole[r, WINDOW]:
            return
        running[START] = j
    if rules.whole[r, FUNCTION] == MIN or rules.whole[r, FUNCTION] == MAX:
        running[START] = NOTHING
    else:
        enter(store, rules, r, g, j)


@njit(cache=True)
def walk(store, rules, r, g, j, oldest):
    """The aggregate of rule `r` over the window that ends with event `j`, computed from the events alone."""
    function, c = rules.whole[r, FUNCTION], rules.whole[r, COLUMN]
    high, low, n = np.int64(0), np.int64(0), np.int64(0)
    best = store.value[j, c] if function == MIN or function == MAX else np.int64(0)
    i = j
    while i != NOTHING and store.event[i, TIME] >= oldest:
        if counts(store, rules, r, g, i):
            n += 1
            if function == SUM or function == AVG:
                high += store.value[i, c] >> 32
                low += store.value[i, c] & LOW_BITS
            elif function == MIN:
                best = min(best, store.value[i, c])
            elif function == MAX:
                best = max(best, store.value[i, c])
        i = store.link[i, PREV]
    if function == UNIQUE_COUNT:
        n = distinct(store, rules, r, g, j, oldest, n)
    if function == MIN or function == MAX:
        high, low = best >> 32, best & LOW_BITS
    return high, low, n


@njit(cache=True)
def distinct(store, rules, r, g, j, oldest, n):
    """How many values the `n` counting events of a window have, by a hash table made for the occasion."""
    last = 1
    while last < 2 * n:
        last *= 2
    seen = np.full(last, NOTHING, np.int32)
    last -= 1
    found = np.int64(0)
    i = j
    while i != NOTHING and store.event[i, TIME] >= oldest:
        if counts(store, rules, r, g, i):
            place = np.int64(value_hash(store, rules, r, i) & np.uint64(last))
            while seen[place] != NOTHING and not same_value(store, rules, r, seen[place], i):
                place = (place + 1) & last
            if seen[place] == NOTHING:
                seen[place] = i
                found += 1
        i = store.link[i, PREV]
    return found


@njit(cache=True)
def aggregate(store, rules, r, g):
    """The running aggregate of rule `r`: high and low part of the sum or value, and the count."""
    running = store.running[g, r]
    function = rules.whole[r, FUNCTION]
    if function == MIN or function == MAX:
        v = store.value[running[HEAD], rules.whole[r, COLUMN]]
        return v >> 32, v & LOW_BITS, np.int64(1)
    return running[HIGH], running[LOW], running[N]


@njit(cache=True)
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


@njit(cache=True)
def evaluate(store, rules, batch, widest, out_of_orderness, late_policy):
    """Takes in a batch: what became of each event, and the alerts as rows (event, rule, high, low, count, seq).

    `widest` is the route's widest window; times are in ms. The store must have room for the batch.
    """
    n = len(batch.time)
    fate = np.empty(n, np.uint8)
    alerts = np.empty((max(64, n // 4), 6), np.int64)
    fired = 0
    for i in range(n):
        t = batch.time[i]
        store.size[NEWEST] = max(store.size[NEWEST], t)
        horizon = store.size[NEWEST] - widest - out_of_orderness
        if t < horizon:
            fate[i] = DROPPED_LATE
            continue
        g = group_of(store, batch.key, i)
        newest = store.newest[g]
        p = older_neighbour(store, g, t)
        if is_held(store, p, t, batch.id[i]):
            fate[i] = DUPLICATE
            continue
        late = newest != NOTHING and t < store.event[newest, TIME] - out_of_orderness
        if late and late_policy == DROP_LATE:
            fate[i] = DROPPED_LATE
            continue
        seq = store.size[NEXT_SEQ]
        store.size[NEXT_SEQ] += 1
        j = insert(store, g, p, t, batch.id[i], seq, batch.fields[i], batch.value, i)
        fate[i] = STORED_LATE if late and late_policy == STORE_LATE else EVALUATED
        for r in range(len(rules.whole)):
            if not rules.whole[r, ACTIVE]:
                continue
            in_order = store.newest[g] == j
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
                if fired == len(alerts):
                    alerts = np.concatenate((alerts, np.empty_like(alerts)))
                alerts[fired, 0] = i
                alerts[fired, 1] = r
                alerts[fired, 2] = high
                alerts[fired, 3] = low
                alerts[fired, 4] = count
                alerts[fired, 5] = seq
                fired += 1
                if rules.whole[r, FUNCTION] == COUNT_WITH_RESET:
                    store.running[g, r, RESET] = seq
                    store.running[g, r, N] = 0
    return fate, alerts[:fired]


@njit(cache=True)
def load(store, batch, seq, horizon):
    """Takes in events that were held before, in order of arrival, without evaluating them."""
    for i in range(len(batch.time)):
        if batch.time[i] < horizon:
            continue
        g = group_of(store, batch.key, i)
        p = older_neighbour(store, g, batch.time[i])
        insert(store, g, p, batch.time[i], batch.id[i], seq[i], batch.fields[i], batch.value, i)


@njit(cache=True)
def load_resets(store, key, seq, rows, r):
    """Restores where rule `r` was reset, for the groups that still hold events."""
    for row in rows:
        groups = store.size[GROUPS]
        g = group_of(store, key, row)
        if g < groups:
            store.running[g, r, RESET] = max(store.running[g, r, RESET], seq[row])


@njit(cache=True)
def index_groups(store):
    """Fills the hash table of groups, after its size changed."""
    last = len(store.table) - 1
    for g in range(store.size[GROUPS]):
        h = np.uint64(0)
        for k in range(store.key.shape[1]):
            h = mixed(h, store.key[g, k])
        place = np.int64(h & np.uint64(last))
        while store.table[place] != NOTHING:
            place = (place + 1) & last
        store.table[place] = g
