"""How a route's events, groups and running aggregates lie in arrays: what the compiled loop works on.

 group            event (in order of arrival)                running
┌──────────┐     ┌────┬────┬─────┬──────┬──────┬──────┐     ┌───────┬───┬──────┬─────┬─
│ newest ──┼───► │time│ id │ seq │ prev │ next │ … ◄──┼─────┼─start │ n │ high │ low │ …
│ key …    │     └────┴────┴─────┴──┼───┴──────┴──────┘     └───────┴───┴──────┴─────┴─
└──────────┘                        └► the neighbour in time order of the same group
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import config, njit

NOTHING = -1
NEVER = -(1 << 62)  # a time before all others
LOW_BITS = 0xFFFFFFFF

# columns of Store.event; PREV, NEXT: the group's neighbours in time order
TIME, ID, SEQ, PREV, NEXT, GROUP, VALUES = range(7)
# columns of Store.group: the event at the newer end; the newest block, NOTHING for a group without; from KEY on the key
NEWEST, KEY_GROUP, BLOCK, KEY = range(4)
# columns of Store.block: its oldest event and that event's time, how many events it has, the last one to arrive, its neighbours
OLDEST, OLDEST_TIME, LENGTH, LATEST, OLDER_BLOCK, NEWER_BLOCK = range(6)
OLDER, NEWER = range(2)  # columns of Store.queue

# lanes of a running aggregate. Of all: the event where the window starts, NOTHING while it is not followed
START = 0
# of all but queues: how many events count, or how many values they have; of COUNT_SINCE: the SEQ at which its rule last fired
N, RESET = 1, 2
# of SUM, MEAN, SQUARES: the sum is HIGH · 2³² + LOW; of SQUARES: the first of four limbs of the sum of squares
HIGH, LOW, LIMB = 2, 3, 4
# of queues: the oldest event in the window, the newest, and from which time on OLDER is known
HEAD, TAIL, KNOWN = 1, 2, 3
PATIENCE = 1  # of one that is not followed: how many more events to measure without

AGGREGATE, EXAMPLE, COUNTED = range(3)  # columns of Store.counted
RESET_RULE, RESET_GROUP, RESET_SEQ = range(3)  # columns of Store.reset
# places in Store.size; SALT begins each hash, so that nobody can choose keys or ids that share a place; TWINS: entries of `twin`
# RETURNS: 1 where events can be taken back; then their first value has these bits. A row with TAKES_BACK is no event: it took one back
EVENTS, GROUPS, LANES, RESETS, SALT, TWINS, BLOCKS, RETURNS = range(8)
COUNTS, ALERTED, TAKES_BACK = 1, 2, 4

# columns of Rules.aggregate
KIND, RULE_ID, WINDOW, COLUMN, NEEDS, NEEDS_END, FIRST, LAST, QUEUE, WIDTH, LIMITS, POSITIONS = range(12)
# whether conditions compare it, so that it is measured at each event; whether the event at which it is measured does not count
COMPARED, EXCLUDES = 12, 13
# columns of Rules.limit: integer part as two 64-bit halves (the lower one unsigned), fraction as two times 12 digits
HIGH_HALF, LOW_HALF, DIGITS, MORE_DIGITS = range(4)
EQUAL, NOT_EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL = range(6)  # columns of Rules.upto
# columns of Rules.condition: aggregate, one of EQUAL … LESS_EQUAL, and as in Rules.limit the limit from LIMIT on; or the
# aggregate BASE, of which TIMES / BY · 10^TENS is the limit, and from PLUS on what is added: its sign, and limbs of 32 bits in
# units of 10^-12; of Rules.joined: the rule, its conditions from FIRST_OF up to LAST_OF
MEASURES, RELATION, LIMIT, BASE, TIMES, BY, TENS, PLUS = 0, 1, 2, 6, 7, 8, 9, 10
PLUS_LIMBS = 8  # 10^24 with 12 digits after the point, in units of 10^-36
CONDITION_COLUMNS = PLUS + 1 + PLUS_LIMBS
# ANY: one of them is enough; COUNTED_BY: an aggregate for which the event must count; SPOKEN: the aggregate that counts alerts,
# of which there are fewer than AT_MOST before another; SPOKE_COLUMN and SPOKE_BIT: where an event keeps that the rule alerted at it
OF_RULE, FIRST_OF, LAST_OF, ANY, COUNTED_BY, SPOKEN, AT_MOST, SPOKE_COLUMN, SPOKE_BIT = range(9)

# columns of alerts: the aggregate is HIGH_PART · 2⁶⁴ + LOW_PART (unsigned) + NUMERATOR / DENOMINATOR, in units of its last digit
# of a rule that is not plain a row for each value: CONDITION is twice the condition's number, and 1 more for what its limit is of;
# SUPPRESSED: no alert, only a row that counts one which was not given
SUPPRESSED = -1
ROW, RULE, IN_GROUP, CONDITION, HIGH_PART, LOW_PART, NUMERATOR, DENOMINATOR = range(8)


class Store(NamedTuple):
    """The events of one route, of all key-groups of a task. Rows of `event` are in order of arrival."""

    # [8] events, groups, int64s of `running` in use, resets, the salt of hashes, entries of `twin`, blocks, whether events can be taken back
    size: np.ndarray
    # [key-groups] newest event time, ms
    newest: np.ndarray
    # [events, VALUES + columns] int64; a value is a scaled number, half of a string's digest, or the bits of fields not null
    event: np.ndarray
    # [events, aggregates with a queue, 2] int32: the neighbours in it
    queue: np.ndarray
    # [groups, KEY + key columns] int64
    group: np.ndarray
    # [power of 2] int32: hash table of groups
    table: np.ndarray
    # [groups, aggregates] int32: where in `running` the group's running aggregate begins, or NOTHING
    place: np.ndarray
    # [lanes] int64: running aggregates, as wide as each needs
    running: np.ndarray
    # [power of 2, 3] int32, for distinct values: hash table (aggregate, an event with the value) -> how many
    counted: np.ndarray
    # [power of 2, 3] int64: hash table (rule id, group) -> the SEQ of the event at which the rule last fired, if that resets it
    reset: np.ndarray
    # [power of 2] int32: hash table of the events in long runs of one time: their rows + 1; 0: free, as in new memory
    twin: np.ndarray
    # [blocks, 6] int64: the events of long groups, divided in time order: see `lab.engine.compiled.blocks`
    block: np.ndarray
    # [blocks, aggregates, lanes] int64: what a block's events add up to; START: its LATEST + 1 at that time
    total: np.ndarray
    # [SCRATCH] int64: room to calculate
    scratch: np.ndarray


class Rules(NamedTuple):
    """A route's rules as numbers: its distinct aggregates, and for each the limits of its ACTIVE rules in ascending order.

    A value that is greater than p of an aggregate's limits fires the rules firing[upto[POSITIONS, op] : upto[POSITIONS + p, op]]
    with operator `>`, and so on: see `lab.engine.compiled.limits`.
    """

    # [aggregates, 14] int64; LIMITS: its first row of `limit`, POSITIONS: its first row of `upto`
    aggregate: np.ndarray
    # [n, 2] int64: a column of Store.event, and the bits that must be set there; of an aggregate from NEEDS up to NEEDS_END
    needs: np.ndarray
    # columns of Store.event whose distinct combinations are counted, each from FIRST up to LAST
    unique: np.ndarray
    # [limits, 4] int64
    limit: np.ndarray
    # [limits + aggregates, 6] int64: rows of `firing`
    upto: np.ndarray
    # [rules] int64: the route's rules by aggregate, operator and limit
    firing: np.ndarray
    # [rules, 2] int64: the column of Batch.when and its bit that must be set for the rule to alert; NOTHING: any event may
    when: np.ndarray
    # [conditions, 19] int64: of the rules that are not plain
    condition: np.ndarray
    # [rules that are not plain or say `atMost`, and are ACTIVE, 9] int64
    joined: np.ndarray
    # [aggregates, 4] int64: room for what they measure at an event, as a `Measure`; denominator 0: there is no value
    measured: np.ndarray


class Batch(NamedTuple):
    """Events to evaluate, in log order."""

    time: np.ndarray
    id: np.ndarray
    key_group: np.ndarray
    # [events, key columns]
    key: np.ndarray
    # [events, columns]
    value: np.ndarray
    # [events] their groups, as `look_ahead` finds them
    group: np.ndarray
    # [events, columns] bits: which conditions of rules are true of the event
    when: np.ndarray


LOOP = (
    *("layout.py", "limits.py", "squares.py", "aggregates.py", "blocks.py", "groups.py"),
    *("conditions.py", "running.py", "window.py", "waits.py"),
)
STAMP = hashlib.sha256(b"".join(Path(__file__).with_name(name).read_bytes() for name in LOOP)).hexdigest()


Compiled = TypeVar("Compiled", bound=Callable[..., Any])


def bare(function: Compiled) -> Compiled:
    """Has Numba compile a function, without its reference counts, which would cost more than the work: so it allocates nothing.

    It runs beside other threads. What Numba keeps on disk would stay when another file of the loop changes: it looks at the function's own file only.
    """
    compiled = njit(cache=True, _nrt=False, forceinline=True, nogil=True)(function)
    if not config.DISABLE_JIT:
        compiled._cache._cache_file._source_stamp = STAMP
    return compiled
