"""What it takes to undo an epoch that was not saved, in arrays that stay where they are when a worker is killed.

    epoch opens            before each step                          killed                   next attempt
    ──┬──────────────────────┬─────────────── events are stored ───────┼─────────────────────────┬──────────►
      scalars, newest times  links of the events and groups             rows that are new: cleared; links, scalars: as they were;
                             next to which the step may store,          running aggregates of the groups that were touched: as they
                             running aggregates of these groups         were, or dropped

Nothing depends on how far the step came, or on the order in which it wrote: each word that it may have changed is put back. Rows of
events and groups are only ever appended. Dropped are those running aggregates that keep more than their lanes, and all where a group has
blocks: they are computed again when they are needed, from events that lie all over the disk. What is noted is in the page cache or in
memory, which outlive a killed process. After a power failure nothing of it counts.

Not noted are stores in which more is overwritten: of events that can be taken back, of rules that say `absence`, of very many resets. Nor is what makes arrays anew, such as a hash table that doubles: from then on the epoch cannot be undone.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lab.engine.compiled import groups, layout
from lab.engine.compiled.layout import NOTHING, Batch, Store
from lab.engine.compiled.rulenumbers import AggregateKey
from lab.engine.windows import shared

if TYPE_CHECKING:
    from lab.engine.windows.store import RouteStore

UNDO = "undo"
LINKS = layout.SEQ + 1  # the column of `Store.events` with PREV and NEXT
SMALL_TABLE = 1 << 16  # entries of a table that is noted whole
CHUNK_ROWS = 1 << 22
NOTED_WHOLE = "same_time_table", "reset_table"
# arrays that are filled anew when they become longer
REFILLED = {"group_table", "same_time_table", "reset_table", "distinct_table"}


class Base(NamedTuple):
    """A store as an epoch found it, but for what only grows."""

    scalars: np.ndarray
    newest: np.ndarray
    same_time_table: np.ndarray
    reset_table: np.ndarray


class UndoLog:
    """The file of one store: its `Base`, then the words that each step may change."""

    def __init__(self, file: Path, header: Path, arrays: shared.Arrays, keys: Sequence[AggregateKey]):
        self._header, self._is_void = header, False
        self._widths = [0 if key.unique or key.accumulator.queues else key.accumulator.lanes for key in keys]
        self._file = open(file, "wb", buffering=0)  # noqa: SIM115  (for the epoch)
        for name in Base._fields:
            self._append(arrays[name])

    def close(self) -> None:
        self._file.close()

    def _append(self, rows: np.ndarray) -> None:
        data = rows.astype(np.int64).tobytes()
        data = len(data).to_bytes(8, "little") + data
        if self._file.write(data) != len(data):
            raise OSError("no space left")

    def note(self, store: Store, batch: Batch, first: int) -> None:
        """Notes what storing the rows of a batch from `first` on may change of what is there, as long as the epoch can be undone."""
        if self._is_void:
            return
        try:
            words = words_before(store, batch, first)
            self._append(words)
            self._append(running_before(store, _groups_in(words), self._widths))
        except OSError:  # no space for it
            self.void()

    def void(self) -> None:
        """From now on the epoch cannot be undone."""
        self._header.unlink(missing_ok=True)
        self._is_void = True


def words_before(store: Store, batch: Batch, first: int) -> np.ndarray:
    """[words, 2] int64: places and what is there. A place is an event's row, for its links, or ~ a group's row, for its newest event."""
    end = len(batch.times_ms)
    groups.find_known_groups(store, batch, first, end)
    groups.prefetch_windows(store, batch, first, end)  # reads what may lie on the disk beside other threads
    known = first + np.flatnonzero(batch.groups[first:end] != NOTHING)
    group, time_ms = batch.groups[known], batch.times_ms[known]
    newest = store.group_links[group, layout.NEWEST].astype(np.int64)
    has_events = newest != NOTHING
    late = np.flatnonzero(has_events)[
        time_ms[has_events] < store.events[newest[has_events], layout.TIME]
    ].tolist()
    neighbours = [event for row in late for event in _neighbours(store, int(group[row]), int(time_ms[row]))]
    places = _distinct(np.concatenate((newest[has_events], np.array(neighbours, np.int64))))
    group = _distinct(group)
    return np.concatenate(
        (
            np.column_stack((places, store.events[places, LINKS])),
            np.column_stack((~group, store.groups[group, 0])),
        )
    )


def running_before(store: Store, group: np.ndarray, widths: Sequence[int]) -> np.ndarray:
    """[words, 2] int64: places and what is there, of the running aggregates of groups. A place is one of `accumulators`, or ~ one of
    `accumulator_starts`. `widths`: the lanes of each aggregate; of 0, it is to be dropped.
    """
    found = []
    for aggregate, width in enumerate(widths):
        starts = store.accumulator_starts[group, aggregate].astype(np.int64)
        there = starts[starts != NOTHING]
        lanes = (there[:, np.newaxis] + np.arange(width)).ravel()
        found.append(np.column_stack((lanes, store.accumulators[lanes])))
        kept = starts if width else np.full_like(starts, NOTHING)
        found.append(np.column_stack((~(group * len(widths) + aggregate), kept)))
    return np.concatenate(found) if found else np.empty((0, 2), np.int64)


def _distinct(places: np.ndarray) -> np.ndarray:
    """The places, each once, in order; `np.unique` builds a hash table, which takes many times as long."""
    places = np.sort(places)
    return places[np.append(True, places[1:] != places[:-1])[: len(places)]]


def _groups_in(words: np.ndarray) -> np.ndarray:
    return ~words[words[:, 0] < 0, 0]


def _neighbours(store: Store, group: int, time_ms: int) -> Iterator[int]:
    """The events of a group between which an event with this time, older than its newest, would be stored."""
    older = int(groups.last_event_at_or_before(store, np.int64(group), np.int64(time_ms)))
    if older != NOTHING:
        yield older
        newer = int(store.links[older, layout.NEXT])
    else:
        newer = int(store.group_links[group, layout.NEWEST])
        if store.group_links[group, layout.BLOCK] != NOTHING:
            newer = _oldest_of_blocks(store, group)
        while (before := int(store.links[newer, layout.PREV])) != NOTHING:
            newer = before
    if newer != NOTHING:
        yield newer


def _oldest_of_blocks(store: Store, group: int) -> int:
    block = int(store.group_links[group, layout.BLOCK])
    while (older := int(store.blocks[block, layout.OLDER_BLOCK])) != NOTHING:
        block = older
    return int(store.blocks[block, layout.OLDEST])


def compile_kernels(store: "RouteStore") -> None:
    """Has Numba compile what is needed here; the store has an event."""
    batch = store.to_batch(store.export_events(0, 1 << 62))
    words_before(store.store, batch, 0)
    groups.last_event_at_or_before(store.store, np.int64(0), batch.times_ms[0])


# -- of a folder -------------------------------------------------------------------------------------------------------


def begin_undo(folder: Path, note: str, stores: Mapping[int, "RouteStore"]) -> None:
    """From now on, what an epoch changes in the stores of a folder is noted; `note`: what the note says of them before."""
    header = folder / UNDO
    end_undo(folder, stores)
    with suppress(OSError):  # no space for it
        for number, store in stores.items():
            store.undo = UndoLog(_file(folder, number), header, store.arrays, store.keys)
        header.with_suffix(".new").write_text(json.dumps({"note": note, "by": os.getpid()}) + "\n")
        header.with_suffix(".new").replace(header)


def end_undo(folder: Path, stores: Mapping[int, "RouteStore"]) -> None:
    """Notes nothing any more, and forgets what has been noted."""
    (folder / UNDO).unlink(missing_ok=True)
    for store in stores.values():
        if store.undo:
            store.undo.close()
            store.undo = None


def can_be_undone(stores: Mapping[int, "RouteStore"]) -> bool:
    """Whether an epoch overwrites nothing in these stores but what is noted."""
    return not any(
        store.schema.taken_back or max(len(store.arrays[name]) for name in NOTED_WHOLE) > SMALL_TABLE
        for store in stores.values()
    )


def note_before_undo(folder: Path) -> str:
    """The note that holds again once the epoch that was open is undone; empty if it cannot be, or if the process that had it open still lives."""
    try:
        header = json.loads((folder / UNDO).read_text())
        return "" if is_alive(header["by"]) else header["note"]
    except (OSError, ValueError):
        return ""


def is_alive(process: int) -> bool:
    """Whether there is a process with this id."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _file(folder: Path, number: int) -> Path:
    return folder / f"{UNDO}-{number}"


def undo_epoch(folder: Path, number: int, store: "RouteStore") -> bool:
    """Puts a store back as the epoch found it that was not saved; False if the arrays are not those that were noted. May be done again."""
    base, steps = _read(_file(folder, number))
    arrays = store.arrays
    events, groups_then = int(base.scalars[layout.EVENTS]), int(base.scalars[layout.GROUPS])
    fits = events <= len(arrays["events"]) and groups_then <= len(arrays["groups"])
    if not fits or any(getattr(base, name).size != arrays[name].size for name in ("newest", *NOTED_WHOLE)):
        return False
    for words, _ in reversed(steps):
        of_event = words[:, 0] >= 0
        arrays["events"][words[of_event, 0], LINKS] = words[of_event, 1]
        arrays["groups"][~words[~of_event, 0], 0] = words[~of_event, 1]
    touched = np.concatenate([_groups_in(words) for words, _ in steps] or [np.empty(0, np.int64)])
    touched = touched[touched < groups_then]
    has_blocks = bool(
        base.scalars[layout.BLOCKS]
        or arrays["scalars"][layout.BLOCKS]
        or (arrays["groups"].view(np.int32)[touched, layout.BLOCK] != NOTHING).any()
    )
    arrays["events"][events:] = 0
    arrays["groups"][groups_then:] = 0
    for name in ("newest", *NOTED_WHOLE):
        arrays[name][:] = getattr(base, name).reshape(arrays[name].shape)
    shared.read_in_order(store.path, "group_table")
    _remove_groups(arrays["group_table"], groups_then)
    shared.read_in_order(store.path, "group_table", ends=True)
    lanes = int(base.scalars[layout.LANES])
    if has_blocks or any(key.unique for key in store.keys):
        shared.read_in_order(store.path, "groups")
        _forget_blocks(arrays["groups"].view(np.int32)[:groups_then, layout.BLOCK])
        shared.read_in_order(store.path, "groups", ends=True)
        base.scalars[[layout.BLOCKS, layout.LANES]] = 0
        store.recreate_aggregates()
    else:
        for _, running in reversed(steps):
            is_lane = running[:, 0] >= 0
            arrays["accumulators"][running[is_lane, 0]] = running[is_lane, 1]
            arrays["accumulator_starts"].reshape(-1)[~running[~is_lane, 0]] = running[~is_lane, 1]
        arrays["accumulators"][lanes:] = 0
        arrays["queues"][events:] = 0
        arrays["accumulator_starts"][groups_then:] = NOTHING
    arrays["scalars"][:] = base.scalars
    return True


def _read(file: Path) -> tuple[Base, list[tuple[np.ndarray, np.ndarray]]]:
    """What an `UndoLog` has, of each step two arrays; without its end if that was not written, before a step that did not begin."""
    data, parts = memoryview(file.read_bytes()), []  # whose rest is no copy
    while len(data) >= 8 and len(data) >= 8 + (size := int.from_bytes(data[:8], "little")):
        parts.append(np.frombuffer(data[8 : 8 + size], np.int64))
        data = data[8 + size :]
    base, steps = parts[: len(Base._fields)], parts[len(Base._fields) :]
    words = [each.reshape(-1, 2) for each in steps]
    return Base(*(array.copy() for array in base)), list(zip(words[::2], words[1::2], strict=False))


def _remove_groups(table: np.ndarray, groups_then: int) -> None:
    """Removes groups from the hash table that were added last: so all others are where they would be without them."""
    last = len(table) - 1
    for begin in range(0, len(table), CHUNK_ROWS):
        part = table[begin : begin + CHUNK_ROWS]
        part[(part != NOTHING) & (part & last >= groups_then)] = NOTHING


def _forget_blocks(block_of_group: np.ndarray) -> None:
    for begin in range(0, len(block_of_group), CHUNK_ROWS):
        part = block_of_group[begin : begin + CHUNK_ROWS]
        part[part != NOTHING] = NOTHING
