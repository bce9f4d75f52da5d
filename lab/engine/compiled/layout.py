"""How a route's events, groups and running aggregates lie in arrays: what the compiled loop works on.

 group            event (in order of arrival)                running
┌──────────┐     ┌────┬────┬─────┬──────┬──────┬──────┐     ┌───────┬───┬──────┬─────┬─
│ newest ──┼───► │time│ id │ seq │ prev │ next │ … ◄──┼─────┼─start │ n │ high │ low │ …
│ key …    │     └────┴────┴─────┴──┼───┴──────┴──────┘     └───────┴───┴──────┴─────┴─
└──────────┘                        └► the neighbour in time order of the same group
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import config, njit

from lab.model import aggregates, distance

NOTHING = -1
NEVER = -(1 << 62)  # a time before all others
NO_LOG_TIME = 1 << 62  # a time after all others: in a log that is not live, log time limits nothing
LOW_BITS = 0xFFFFFFFF

# columns of Store.events, int64s; between SEQ and VALUES are int32s, columns of Store.links: PREV, NEXT: the group's neighbours in time order
TIME, ID, SEQ, VALUES = 0, 1, 2, 5
PREV, NEXT, GROUP = range(6, 9)
# columns of Store.groups: from KEY on the key; before are int32s, columns of Store.group_links: the event at the newer end; the newest
# block, NOTHING for a group without
NEWEST, KEY_GROUP, BLOCK, KEY = 0, 1, 2, 2
# columns of Store.blocks: its oldest event and that event's time, how many events it has, the last one to arrive, its neighbours
OLDEST, OLDEST_TIME, LENGTH, LATEST, OLDER_BLOCK, NEWER_BLOCK = range(6)
OLDER, NEWER = range(2)  # columns of Store.queues
# of an aggregate that is kept in order, which has two queues' columns: of a tree of values, see `lab.engine.compiled.aggregates.ordered`
LOWER, HIGHER = OLDER, NEWER
ABOVE, SIZE = range(2)

# lanes of a running aggregate. All kinds: the event where the window starts, NOTHING while the window is not maintained
START = 0
# all kinds without a queue: how many events count, or how many distinct values; COUNT_SINCE: the SEQ at which its rule last fired
N, RESET = 1, 2
ROOT_OF_TREE = 2  # ORDERED: the tree's topmost event + 1, or 0
# SUM, MEAN, SQUARES: the sum is HIGH · 2³² + LOW; SQUARES: the first of four limbs of the sum of squares
HIGH, LOW, LIMB = 2, 3, 4
# kinds with a queue: the oldest event in the window, the newest, and the time from which on OLDER is known
HEAD, TAIL, KNOWN = 1, 2, 3
PATIENCE = 1  # of a window that is not maintained: how many more events to measure without it

AGGREGATE, EXAMPLE, COUNTED = range(3)  # columns of Store.distinct_table
RESET_RULE, RESET_GROUP, RESET_SEQ = range(3)  # columns of Store.reset_table
# places in Store.scalars; SALT begins each hash, so that nobody can choose keys or ids that share a place; TWINS: entries of `same_time_table`
# RETURNS: 1 if events can be taken back; the first value of an event then has these bits. A row with TAKES_BACK is not an event: it took one back.
# Nor is one that is LATER_ALERT: when an event had been evaluated long ago, an alert of `absence` was raised at it; the row's ID is the event's SEQ
EVENTS, GROUPS, LANES, RESETS, SALT, TWINS, BLOCKS, RETURNS = range(8)
COUNTS, ALERTED, TAKES_BACK = 1, 2, 4
LATER_ALERT = ALERTED | TAKES_BACK

# a row of Rules.aggregates. `compared`: whether conditions compare the aggregate, so that it is measured at each event;
# `excludes`: whether the current event does not count; `pair`: one of PAIRS of `aggregates.pairs`.
# `other_window`: whether the window is not simply the time up to the event:
# `last_events`: of how many events of the group it is at most, 0: of any number; `ends_before`: how long before the event it ends, ms;
# `gap`: it has only the events since the last gap that is longer, ms, 0: whatever gaps there are
AGGREGATE_FIELDS = (
    *("kind", "rule_id", "window", "column", "needs", "needs_end", "first", "last", "queue", "width"),
    *("limits", "positions", "compared", "percent", "excludes", "pair"),
    *("other_window", "last_events", "ends_before", "gap"),
)
AGGREGATE_ROW = np.dtype([(name, np.int64) for name in AGGREGATE_FIELDS], align=True)
# columns of Rules.limits: integer part as two 64-bit halves (the lower one unsigned), fraction as two times 12 digits
HIGH_HALF, LOW_HALF, DIGITS, MORE_DIGITS = range(4)
EQUAL, NOT_EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL = range(6)  # columns of Rules.firing_bounds
# columns of Rules.conditions: aggregate, one of EQUAL … LESS_EQUAL, and from COMPARED_LIMIT on the limit as in Rules.limits. Or the limit is
# the value of aggregate BASE times TIMES / BY · 10^TENS, plus the same of MORE unless that is NOTHING, plus the number from PLUS on: its
# sign, and limbs of 32 bits in units of 10^-12. ROOT: which of the three aggregates stands for its root, as a place among these, or NOTHING.
# Columns of Rules.rules_with_conditions: the rule, its conditions from FIRST_OF up to LAST_OF
MEASURES, RELATION, COMPARED_LIMIT, BASE, TIMES, BY, TENS, MORE, ROOT, PLUS = 0, 1, 2, 6, 7, 8, 9, 10, 14, 15
PLUS_LIMBS = 8  # 10^24 with 12 digits after the point, in units of 10^-36
CONDITION_COLUMNS = PLUS + 1 + PLUS_LIMBS
VALUES_OF_CONDITION = 3  # the aggregates that it compares: MEASURES, BASE, MORE
# ANY: one condition is enough; COUNTED_BY: an aggregate for which the event must count; SPOKEN: the aggregate that counts the rule's
# alerts; with AT_MOST of them, no other is raised; SPOKE_COLUMN and SPOKE_BIT: where an event stores that the rule alerted at it
OF_RULE, FIRST_OF, LAST_OF, ANY, COUNTED_BY, SPOKEN, AT_MOST, SPOKE_COLUMN, SPOKE_BIT = range(9)

# columns of alerts: the aggregate is HIGH_PART · 2⁶⁴ + LOW_PART (unsigned) + NUMERATOR / DENOMINATOR, in units of its last digit
# a rule that is not plain has a row for each value: CONDITION is VALUES_OF_CONDITION times the condition's number, plus the number of the value;
# SUPPRESSED: no alert, only a row that counts a suppressed one
SUPPRESSED = -1
ROW, RULE, IN_GROUP, CONDITION, HIGH_PART, LOW_PART, NUMERATOR, DENOMINATOR = range(8)


class Store(NamedTuple):
    """The events of one route, of all key-groups of a task. Rows of `events` are in order of arrival."""

    # [8] events, groups, int64s of `accumulators` in use, resets, the salt of hashes, entries of `same_time_table`, blocks, whether events can be taken back
    scalars: np.ndarray
    # [key-groups, 2 * WITNESSES] int64: the newest event times of the groups that have the newest ones, ms, newest first; then these groups
    newest: np.ndarray
    # [events, VALUES + columns] int64; a value is a scaled number, half of a string's digest, or the bits of fields not null
    events: np.ndarray
    # the memory of `events` as int32s, two a column
    links: np.ndarray
    # [events, aggregates with a queue, 2] int32: the neighbours in it
    queues: np.ndarray
    # [groups, KEY + key columns] int64
    groups: np.ndarray
    # the memory of `groups` as int32s, two a column
    group_links: np.ndarray
    # [power of 2] int32: hash table of groups
    group_table: np.ndarray
    # [groups, aggregates] int32: where in `accumulators` the group's accumulator of the aggregate begins, or NOTHING
    accumulator_starts: np.ndarray
    # [lanes] int64: running aggregates, as wide as each needs
    accumulators: np.ndarray
    # [power of 2, 3] int32, for distinct values: hash table (aggregate, an event with the value) -> how many
    distinct_table: np.ndarray
    # [power of 2, 3] int64: hash table (rule id, group) -> the SEQ of the event at which the rule last fired, for rules that count with reset
    reset_table: np.ndarray
    # [power of 2] int32: hash table of the events in long runs of one time: their rows + 1; 0: free, as in new memory
    same_time_table: np.ndarray
    # [blocks, 6] int64: the events of long groups, divided in time order: see `lab.engine.compiled.blocks`
    blocks: np.ndarray
    # [blocks, aggregates, lanes] int64: the total of a block's events; START: the block's LATEST + 1 when the total was computed
    block_totals: np.ndarray
    # [SCRATCH] int64: room to calculate
    scratch: np.ndarray


VIEWS = {
    "links": "events",
    "group_links": "groups",
}  # arrays of Store that are the memory of others as int32s


def store_of(arrays: Mapping[str, np.ndarray]) -> Store:
    """A store of arrays, with their views."""
    return Store(**arrays, **{view: arrays[name].view(np.int32) for view, name in VIEWS.items()})


class Rules(NamedTuple):
    """A route's rules as numbers: its distinct aggregates, and for each the limits of its ACTIVE rules in ascending order.

    A value that is greater than p of an aggregate's limits fires the rules firing_rules[firing_bounds[positions, op] : firing_bounds[positions + p, op]]
    with operator `>`, and so on: see `lab.engine.compiled.limits`.
    """

    # [aggregates] AGGREGATE_ROW; `limits`: its first row of `limits`, `positions`: its first row of `firing_bounds`
    aggregates: np.ndarray
    # [n, 2] int64: a column of Store.events, and the bits that must be set there; of an aggregate from `needs` up to `needs_end`. Of steps from
    # `first` up to `last`: what ends a sequence, no bit if nothing does, then each step
    required_bits: np.ndarray
    # columns of Store.events whose distinct combinations are counted, each from `first` up to `last`
    distinct_columns: np.ndarray
    # [limits, 4] int64
    limits: np.ndarray
    # [limits + aggregates, 6] int64: rows of `firing_rules`
    firing_bounds: np.ndarray
    # [rules] int64: the route's rules by aggregate, operator and limit
    firing_rules: np.ndarray
    # [rules, 2] int64: the column of Batch.when_bits and its bit that must be set for the rule to alert; NOTHING: any event may
    when_bits: np.ndarray
    # [conditions, CONDITION_COLUMNS] int64: of the rules that are not plain
    conditions: np.ndarray
    # [rules that are not plain or say `atMost`, and are ACTIVE, 9] int64
    rules_with_conditions: np.ndarray
    # [aggregates, 4] int64: room for their values at an event, as a `Measure`; denominator 0: no value
    saved_measures: np.ndarray


class Batch(NamedTuple):
    """Events to evaluate, in log order."""

    times_ms: np.ndarray
    event_ids: np.ndarray
    key_groups: np.ndarray
    # [events, key columns]
    keys: np.ndarray
    # [events, columns]
    values: np.ndarray
    # [events] their groups, as `find_known_groups` finds them
    groups: np.ndarray
    # [events] log times, ms; 0 in a log that is not live
    log_times_ms: np.ndarray
    # [events, columns] bits: which conditions of rules are true of the event
    when_bits: np.ndarray


SOURCES = (Path(aggregates.__file__), Path(distance.__file__), *sorted(Path(__file__).parent.rglob("*.py")))


@cache
def code_stamp() -> str:
    """Identifies the code of the loop."""
    code = b"".join(path.read_bytes() for path in SOURCES) + " ".join(aggregates.AGGREGATES).encode()
    return hashlib.sha256(code).hexdigest()


Function = TypeVar("Function", bound=Callable[..., Any])


def njit_without_allocation(function: Function) -> Function:
    """Has Numba compile a function, without its reference counts, which would cost more than the work: so it allocates nothing.

    It runs beside other threads. What Numba keeps on disk would stay when another file of the loop changes: it looks at the function's own file only.
    """
    compiled = njit(cache=True, _nrt=False, forceinline=True, nogil=True)(function)
    if not config.DISABLE_JIT:
        compiled._cache._cache_file._source_stamp = code_stamp()
    return compiled


def compiled_inline(function: Function) -> Function:
    """The same for a function that only compiled ones call; it is kept as a part of these."""
    return njit(_nrt=False, forceinline=True, nogil=True)(function)


def compiled_apart(function: Function) -> Function:
    """The same for one that is long, or called from many places: it is not copied to each."""
    return njit(_nrt=False, nogil=True)(function)


def choose_compiled(functions: Sequence[Callable]) -> Callable:
    """Of several compiled functions one that calls the one whose number comes first: `choose_compiled([f, g])(1, x)` is `g(x)`."""
    first, *others = functions
    if not others:

        def call(number, *arguments):
            return first(*arguments)

        return compiled_inline(call)
    rest = choose_compiled(others)

    def choose(number, *arguments):
        if number == 0:
            return first(*arguments)
        return rest(number - 1, *arguments)

    return compiled_inline(choose)
