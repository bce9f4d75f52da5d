"""What a page calls of the compiled loop: the engine's own functions on arrays at addresses that a frame names.

frame    int64s in the page's memory       ┌ addresses and lengths of a Store's arrays
         ├─ STORE ─┬─ OTHER ─┬─ RULES ─┬───┘ and so on, then the numbers that go in and come out
"""

from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numba import from_dtype, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from lab.engine.compiled import layout, scan, waits, window
from lab.engine.compiled.groups import add_to_same_time_table, find_group, find_or_add_group, record_reset
from lab.engine.compiled.horizon import note_time, time_reached_by_events, time_reached_by_groups
from lab.engine.compiled.layout import (
    EVENTS,
    GROUP,
    KEY,
    KEY_GROUP,
    NEWEST,
    NEXT,
    NOTHING,
    PREV,
    RESET_GROUP,
    RESET_RULE,
    RESET_SEQ,
    SEQ,
    TIME,
    VIEWS,
    Batch,
    Rules,
    Store,
    njit_without_allocation,
)
from lab.model.keygroups import FACTORS, FIRST
from lab.model.schema import MAX_TIME

# the arrays of each tuple: name -> bytes of an element, dimensions
STORE_ARRAYS = {
    "scalars": (8, 1),
    "newest": (8, 2),
    "events": (8, 2),
    "queues": (4, 3),
    "groups": (8, 2),
    "group_table": (4, 1),
    "accumulator_starts": (4, 2),
    "accumulators": (8, 1),
    "distinct_table": (4, 2),
    "reset_table": (8, 2),
    "same_time_table": (4, 1),
    "blocks": (8, 2),
    "block_totals": (8, 3),
    "scratch": (8, 1),
}
RULES_ARRAYS = {
    "aggregates": (layout.AGGREGATE_ROW.itemsize, 1),
    "required_bits": (8, 2),
    "distinct_columns": (8, 1),
    "limits": (8, 2),
    "firing_bounds": (8, 2),
    "firing_rules": (8, 1),
    "when_bits": (8, 2),
    "conditions": (8, 2),
    "rules_with_conditions": (8, 2),
    "saved_measures": (8, 2),
}
BATCH_ARRAYS = {
    "times_ms": (8, 1),
    "event_ids": (8, 1),
    "key_groups": (8, 1),
    "keys": (8, 2),
    "values": (8, 2),
    "groups": (8, 1),
    "log_times_ms": (8, 1),
    "when_bits": (8, 2),
}
WAIT_ARRAYS = {"scalars": (8, 1), "entries": (8, 2), "newest_entries": (4, 1), "texts": (1, 1)}
WAIT_ROWS_ARRAYS = {
    "fates": (1, 1),
    "key_groups": (8, 1),
    "keys": (8, 2),
    "seqs": (8, 1),
    "arrived_ms": (8, 1),
    "is_live": (1, 1),
    "times_ms": (8, 1),
    "event_ids": (8, 1),
    "starts_wait": (1, 1),
    "ends_wait": (1, 1),
    "taken_back_seqs": (8, 1),
    "text_offsets": (8, 1),
    "texts": (1, 1),
}
LINES_ARRAYS = {
    "text": (1, 1),
    "starts": (8, 1),
    "ends": (8, 1),
    "names": (1, 1),
    "members": (scan.MEMBER.itemsize, 1),
    "objects": (scan.OBJECT.itemsize, 1),
    "fields": (scan.FIELD.itemsize, 1),
    "about": (8, 1),
    "ids": (8, 1),
    "numbers": (8, 2),
    "places": (8, 2),
    "sizes": (4, 2),
    "states": (1, 2),
    "read": (1, 1),
    "seen": (8, 1),
    "around": (8, 1),
    "opened": (1, 1),
}


class Lines(NamedTuple):
    """Lines of a text; what the schema expects, as `lab.page.reader.Reader` gives it; what was read; and what reading needs room for."""

    text: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    names: np.ndarray
    members: np.ndarray
    objects: np.ndarray
    fields: np.ndarray
    about: np.ndarray
    ids: np.ndarray  # the fields of the event's id
    numbers: np.ndarray
    places: np.ndarray  # `starts` of `Values`
    sizes: np.ndarray
    states: np.ndarray
    read: np.ndarray
    seen: np.ndarray
    around: np.ndarray
    opened: np.ndarray


# columns of Lines.about. CELLS: that a line has, 0: any number
TAKE_NAN, TAKE_OBJECTS, SEPARATOR, LONG_TIME, TIME_FIELD, CELLS = range(6)

assert (
    (*STORE_ARRAYS,) == tuple(name for name in Store._fields if name not in VIEWS)
    and (*RULES_ARRAYS,) == Rules._fields
    and (*BATCH_ARRAYS,) == Batch._fields
    and (*LINES_ARRAYS,) == Lines._fields
    and (*WAIT_ARRAYS,) == waits.WaitArrays._fields
    and (*WAIT_ROWS_ARRAYS,) == waits.WaitRows._fields
)


def frame_slots(bytes_and_dimensions: dict[str, tuple[int, int]], first_slot: int) -> dict[str, int]:
    """Where in the frame the address of each array stands; its lengths follow."""
    starts = accumulate(
        (1 + dimensions for _, dimensions in bytes_and_dimensions.values()), initial=first_slot
    )
    return dict(zip(bytes_and_dimensions, starts))


def _end(arrays: dict[str, tuple[int, int]], first_slot: int) -> int:
    return first_slot + sum(1 + dimensions for _, dimensions in arrays.values())


STORE, OTHER = 0, _end(STORE_ARRAYS, 0)
RULES = _end(STORE_ARRAYS, OTHER)
BATCH = _end(RULES_ARRAYS, RULES)
LINES = _end(BATCH_ARRAYS, BATCH)
WAITS = _end(LINES_ARRAYS, LINES)
OTHER_WAITS = _end(WAIT_ARRAYS, WAITS)
WAIT_ROWS = _end(WAIT_ARRAYS, OTHER_WAITS)
DUE = _end(WAIT_ROWS_ARRAYS, WAIT_ROWS)
FATE = DUE + 2
ALERTS = FATE + 2
KEYS, KEY_GROUPS = ALERTS + 3, ALERTS + 6
TEXT, DIGEST = KEY_GROUPS + 2, KEY_GROUPS + 4
SELF = DIGEST + 2  # the frame itself, as an array
# numbers that go in and come out
FIRST_SEQ, START_ROW, WIDEST, OUT_OF_ORDER, LATE_POLICY, DONE, FIRED = range(SELF + 2, SELF + 9)
BEFORE, REACH, HELD = FIRST_SEQ, WIDEST, DONE  # fields of the frame, as `move_events` uses them
NEWEST_TIME = FIRST_SEQ  # as `follow_waits` does
FRAME = SELF + 9  # int64s

IV = np.array(
    [
        *(0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1),
        *(0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179),
    ],
    np.uint64,
)
SIGMA = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    np.int64,
)


def _array(context, builder, frame, place: int, of: types.Array, is_view: bool = False):
    """The array whose address and lengths stand at a place of the frame; `is_view`: as int32s, where it is of int64s."""

    def number(at: int):
        return builder.load(builder.gep(frame, [context.get_constant(types.intp, at)]))

    lengths = [number(place + 1 + dimension) for dimension in range(of.ndim)]
    if is_view:
        lengths[-1] = builder.shl(lengths[-1], context.get_constant(types.intp, 1))
    size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(of.dtype)))
    steps = [size]
    for length in lengths[:0:-1]:
        steps.insert(0, builder.mul(steps[0], length))
    data = builder.inttoptr(number(place), context.get_data_type(of.dtype).as_pointer())
    made = arrayobj.make_array(of)(context, builder)
    shape, strides = cgutils.pack_array(builder, lengths), cgutils.pack_array(builder, steps)
    arrayobj.populate_array(made, data, shape, strides, size, None)
    return made._getvalue()


def _read(of: Any, arrays: list[tuple]) -> Callable:
    """A function in compiled code that makes arrays, or one, out of the frame at an address."""

    @intrinsic
    def read(typing, address):
        def make(context, builder, signature, arguments):
            frame = builder.inttoptr(arguments[0], context.get_value_type(types.int64).as_pointer())
            found = [_array(context, builder, frame, *array) for array in arrays]
            return context.make_tuple(builder, of, found) if isinstance(of, types.BaseTuple) else found[0]

        return of(types.int64), make

    return read


RECORDS = (layout.AGGREGATE_ROW, scan.MEMBER, scan.OBJECT, scan.FIELD)


def _tuple(of: type, arrays: dict[str, tuple[int, int]], first_slot: int) -> Callable:
    elements = {8: types.int64, 4: types.int32, 1: types.uint8}
    elements |= {each.itemsize: from_dtype(each) for each in RECORDS}
    slots, found = frame_slots(arrays, first_slot), []
    for name in of._fields:  # type: ignore[attr-defined]
        size, dimensions = arrays[VIEWS.get(name, name)]
        kind = types.Array(elements[4 if name in VIEWS else size], dimensions, "C")
        found.append((slots[VIEWS.get(name, name)], kind, name in VIEWS))
    return _read(types.NamedTuple([kind for _, kind, _ in found], of), found)


def _single(kind: types.Type, dimensions: int, place: int) -> Callable:
    of = types.Array(kind, dimensions, "C")
    return _read(of, [(place, of)])


_store, _other = _tuple(Store, STORE_ARRAYS, STORE), _tuple(Store, STORE_ARRAYS, OTHER)
_rules, _batch = _tuple(Rules, RULES_ARRAYS, RULES), _tuple(Batch, BATCH_ARRAYS, BATCH)
_lines = _tuple(Lines, LINES_ARRAYS, LINES)
_waits, _other_waits = (_tuple(waits.WaitArrays, WAIT_ARRAYS, place) for place in (WAITS, OTHER_WAITS))
_wait_rows, _due = _tuple(waits.WaitRows, WAIT_ROWS_ARRAYS, WAIT_ROWS), _single(types.int64, 1, DUE)
_fate, _alerts = _single(types.uint8, 1, FATE), _single(types.int64, 2, ALERTS)
_numbers = _single(types.int64, 1, SELF)
_keys, _key_group = _single(types.uint64, 2, KEYS), _single(types.int64, 1, KEY_GROUPS)
_text, _digest = _single(types.uint8, 1, TEXT), _single(types.uint64, 1, DIGEST)


# -- what the page calls -----------------------------------------------------------------------------------------------


@njit_without_allocation
def evaluate(frame):
    """Runs `window.evaluate_batch` from START_ROW on; sets DONE to the row at which it stopped, and FIRED to the number of alerts."""
    number = _numbers(frame)
    related = _batch(frame).groups  # nobody reads either of these of a row that has been evaluated
    number[DONE], number[FIRED] = window.evaluate_batch(
        _store(frame),
        _rules(frame),
        _batch(frame),
        number[FIRST_SEQ],
        number[START_ROW],
        number[WIDEST],
        number[OUT_OF_ORDER],
        number[LATE_POLICY],
        _fate(frame),
        related,
        _alerts(frame),
    )


@njit_without_allocation
def count_events_to_move(frame):
    """Sets HELD to the number of events that `move_events` would move."""
    number, old, needed = _numbers(frame), _store(frame), 0
    for j in range(old.scalars[EVENTS]):
        needed += is_still_needed(old, j, number[BEFORE], number[REACH])
    number[HELD] = needed


@njit_without_allocation
def move_events(frame):
    """Takes the events of one store that are not older than BEFORE and than REACH before the time reached into another, empty one.

    And where rules were reset, of the rules in FIRING of the frame's Rules. What expired, and all that is running, stays behind.
    """
    number, old, new = _numbers(frame), _store(frame), _other(frame)
    before, reach, kept = number[BEFORE], number[REACH], _rules(frame).firing_rules
    key = old.groups[:, KEY:]
    for j in range(old.scalars[EVENTS]):
        row = NOTHING
        if is_still_needed(old, j, before, reach):
            row = new.scalars[EVENTS]
            new.scalars[EVENTS] += 1
            for column in range(old.events.shape[1]):
                new.events[row, column] = old.events[j, column]
            g = old.links[j, GROUP]
            new.links[row, GROUP] = find_or_add_group(new, old.group_links[g, KEY_GROUP], key, g)
            note_time(new, old.group_links[g, KEY_GROUP], new.links[row, GROUP], old.events[j, TIME])
        old.events[j, SEQ] = row  # the event's row in the new store; nobody uses the old store any more
    for j in range(old.scalars[EVENTS]):
        row = old.events[j, SEQ]
        if row != NOTHING:
            for column in (PREV, NEXT):  # of a group the oldest go, in order of time
                other = old.links[j, column]
                new.links[row, column] = NOTHING if other == NOTHING else old.events[other, SEQ]
            if new.links[row, NEXT] == NOTHING:
                new.group_links[new.links[row, GROUP], NEWEST] = row
    for row in old.same_time_table:
        if row != 0 and old.events[row - 1, SEQ] != NOTHING:
            add_to_same_time_table(new, old.events[row - 1, SEQ])
    for row in range(len(old.reset_table)):
        rule = old.reset_table[row, RESET_RULE]
        for k in range(len(kept)):
            if rule == kept[k]:
                g = find_group(new, key, old.reset_table[row, RESET_GROUP])
                if g != NOTHING:
                    record_reset(new, rule, g, old.reset_table[row, RESET_SEQ])


@njit_without_allocation
def is_still_needed(store, event_row, before_ms, reach_ms):
    """Whether an event is not older than a time, and than what its group holds."""
    t, group = store.events[event_row, TIME], store.links[event_row, GROUP]
    by_groups = time_reached_by_groups(store, store.group_links[group, KEY_GROUP])
    return t >= before_ms and t >= max(by_groups, time_reached_by_events(store, group)) - reach_ms


@njit_without_allocation
def follow_waits(frame):
    """Adds rows to what a rule awaits for WIDEST ms, and ends what NEWEST_TIME has passed; FIRED entries, whose alerts are due, stand in DUE."""
    number, arrays, due = _numbers(frame), _waits(frame), _due(frame)
    found = waits.add_rows(arrays, _wait_rows(frame), number[WIDEST], due)
    newest = number[NEWEST_TIME]
    number[FIRED] = found + waits.advance_head(arrays, number[WIDEST], newest, newest, due[found:])


@njit_without_allocation
def move_waits(frame):
    """Takes what a rule awaits into other, empty arrays, without the entries that matter no longer; DUE is all zero, and has room for all."""
    old, rows, kept = _waits(frame), _due(frame), 0
    waits.mark_needed_entries(old, rows)
    for n in range(old.scalars[waits.ENTRIES]):
        if rows[n]:
            rows[kept] = n
            kept += 1
    waits.copy_entries(old, _other_waits(frame), rows[:kept])


@njit_without_allocation
def compute_key_groups(frame):
    """`lab.model.keygroups.key_groups_of` of the rows of KEYS; how many key-groups there are stands in DONE."""
    keys, found, of = _keys(frame), _key_group(frame), np.uint64(_numbers(frame)[DONE])
    for i in range(len(found)):
        h = np.uint64(0)
        for k in range(keys.shape[1]):
            h = (h ^ keys[i, k]) + np.uint64(FIRST)
            h = (h ^ (h >> np.uint64(33))) * np.uint64(FACTORS[0])
            h = (h ^ (h >> np.uint64(33))) * np.uint64(FACTORS[1])
            h ^= h >> np.uint64(33)
        found[i] = np.int64(h % of)


@njit_without_allocation
def blake2b(frame):
    """BLAKE2b (RFC 7693) of TEXT into the first DONE bytes of DIGEST, which has room for 8 words, and 24 more to calculate in.

    TEXT is as long as blocks of 128 bytes are, zeros at its end; START_ROW: how many bytes of it count.
    """
    number, text, word = _numbers(frame), _text(frame), _digest(frame)
    length, mask = number[START_ROW], np.uint64(0xFF)
    for n in range(8):
        word[n] = IV[n]
    word[0] ^= np.uint64(0x01010000) ^ np.uint64(number[DONE])
    for block in range(0, max(len(text), 128), 128):
        for n in range(16):
            word[24 + n] = np.uint64(0)
            for byte in range(8):
                word[24 + n] |= (np.uint64(text[block + 8 * n + byte]) & mask) << np.uint64(8 * byte)
        for n in range(8):
            word[8 + n] = word[n]
            word[16 + n] = IV[n]
        word[20] ^= np.uint64(min(block + 128, length))
        if block + 128 >= length:
            word[22] = ~word[22]
        for turn in range(12):
            for n in range(8):
                a, b, c, d = n & 3, 4 + ((n & 3) + (n >> 2) & 3), 8 + ((n & 3) + 2 * (n >> 2) & 3), 12
                d += (n & 3) + 3 * (n >> 2) & 3
                blake2b_mix(word, a, b, c, d, SIGMA[turn % 10, 2 * n], SIGMA[turn % 10, 2 * n + 1])
        for n in range(8):
            word[n] ^= word[8 + n] ^ word[16 + n]


@njit_without_allocation
def blake2b_mix(word, a, b, c, d, x, y):
    """G of BLAKE2b; the working vector is in words 8 … 23, the message in 24 … 39."""
    a, b, c, d = a + 8, b + 8, c + 8, d + 8
    word[a] += word[b] + word[24 + x]
    word[d] = rotated_right(word[d] ^ word[a], 32)
    word[c] += word[d]
    word[b] = rotated_right(word[b] ^ word[c], 24)
    word[a] += word[b] + word[24 + y]
    word[d] = rotated_right(word[d] ^ word[a], 16)
    word[c] += word[d]
    word[b] = rotated_right(word[b] ^ word[c], 63)


@njit_without_allocation
def rotated_right(value, bits):
    return (value >> np.uint64(bits)) | (value << np.uint64(64 - bits))


@njit_without_allocation
def scan_lines(frame):
    """Reads lines as `lab.engine.compiled.scan` does. `read`: 1 of those that are an event, 0 of those that are left to be read one by one."""
    lines = _lines(frame)
    about, rows = lines.about, len(lines.starts)
    expected = scan.Expected(
        lines.names,
        lines.members,
        lines.objects,
        lines.fields,
        about[TAKE_NAN] != 0,
        about[TAKE_OBJECTS] != 0,
        about[SEPARATOR],
        about[LONG_TIME],
    )
    values = scan.Values(lines.numbers, lines.places, lines.sizes, lines.states)
    for number in range(len(lines.fields)):
        for row in range(rows):
            lines.states[number, row] = scan.ABSENT
    for member in range(len(lines.seen)):
        lines.seen[member] = 0
    scan.scan_lines(
        lines.text,
        lines.starts,
        lines.ends,
        expected,
        values,
        lines.read,
        lines.seen,
        lines.around,
        lines.opened,
    )
    for row in range(rows):
        if lines.read[row] and not is_one_event(lines, row):
            lines.read[row] = 0


@njit_without_allocation
def is_one_event(lines, row):
    """Whether a row has an id and a time that is allowed, and all its cells."""
    about, time = lines.about, lines.about[TIME_FIELD]
    if lines.states[time, row] != scan.PRESENT or not 0 <= lines.numbers[time, row] < MAX_TIME:
        return False
    for number in lines.ids:
        is_empty = lines.fields[number].kind == scan.TEXT and lines.sizes[number, row] == 0
        if lines.states[number, row] != scan.PRESENT or is_empty:
            return False
    cells = about[CELLS]
    if cells:
        for i in range(lines.starts[row], lines.ends[row]):
            cells -= lines.text[i] == about[SEPARATOR]
    return cells == (about[CELLS] > 0)


EXPORTS: dict[str, Any] = {
    "evaluate": evaluate,
    "count_events_to_move": count_events_to_move,
    "move_events": move_events,
    "follow_waits": follow_waits,
    "move_waits": move_waits,
    "compute_key_groups": compute_key_groups,
    "blake2b": blake2b,
    "scan_lines": scan_lines,
}
