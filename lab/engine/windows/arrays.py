"""The arrays of one route's windows, in shared memory: creates them, and rebuilds them with more room or for other rules."""

import secrets
from collections.abc import Collection
from itertools import accumulate
from pathlib import Path

import numpy as np

from lab.engine.compiled import groups, layout, running
from lab.engine.compiled.aggregates.forms import LANES, SCRATCH
from lab.engine.compiled.blocks import HALF
from lab.engine.compiled.layout import NOTHING, Store, store_of
from lab.engine.compiled.rulenumbers import AggregateKey, int64_columns, rules_to_arrays, value_columns
from lab.engine.windows import shared
from lab.engine.windows.grouptable import fill_group_table
from lab.engine.windows.undo import REFILLED, UndoLog
from lab.model import horizon
from lab.model.rule import Route, Rule
from lab.model.schema import Schema

ROOM_AT_FIRST = 1024  # events
SPARE_ROWS, LANES_A_ROW = 1 << 16, 16  # an event takes about as much memory as so many lanes
AGGREGATE_ARRAYS = {"queues", "accumulator_starts", "accumulators", "distinct_table", "block_totals"}
NO_TWINS = np.empty(0, np.int32)


class StoreArrays:
    """`layout.Store` for the rules of a route, in arrays that grow.

    `fields` are the event fields kept, in the order in which rules first needed them; `rules` the route's rules by id.
    `key_groups`: how many there are in all. `late_ms`: an event this far behind its group's newest is late. `keys`: the
    aggregates that the arrays at `path` have. A few that no rule needs any more are maintained until the next
    rebuild, so that a rule can pause or be deleted and come back at once. `undo`: where it is noted what an epoch changes.
    """

    undo: UndoLog | None = None

    def __init__(
        self,
        path: Path,
        schema: Schema,
        route: Route,
        fields: list[str],
        rules: tuple[Rule, ...],
        key_groups: int,
        late_ms: int,
        keys: tuple[AggregateKey, ...] = (),
    ):
        self.path, self.schema, self.route, self.fields = path, schema, route, fields
        self.key_groups, self.late_ms = key_groups, late_ms
        self._set_rules(rules, keys)
        self.key_columns = [column for name in route.keys for column in int64_columns(schema, name)]
        if path.exists():
            events, aggregates = map(shared.attach_arrays, event_and_aggregate_files(path))
            self.arrays = events | aggregates
        else:
            self.arrays = self._create(self._room_at_first)

    def _set_rules(self, rules: tuple[Rule, ...], kept: tuple[AggregateKey, ...] = ()) -> None:
        self.rules, self.keeps = rules, bool(kept)
        self.value_columns = value_columns(self.fields, self.schema)
        self.widest_ms = max(rule.widest_ms for rule in rules)
        active = tuple(rule.as_active for rule in rules)
        self.keys, self.numbers = rules_to_arrays(active, self.fields, self.schema, kept)
        self.when_columns = int(self.numbers.when_bits[:, 0].max()) + 1
        self.lanes = sum(key.accumulator.lanes for key in self.keys)  # of one group
        # aggregates that are reset when their rule fires
        self.own = sum(key.rule_id is not None for key in self.keys)

    def _drop_unused(self) -> None:
        """New arrays are without the aggregates that no rule needs."""
        if self.keeps:
            self._set_rules(self.rules)

    @property
    def _room(self) -> dict[str, int]:
        """For how many events, groups, lanes, resets and twins there is room."""
        names = "events", "groups", "accumulators", "reset_table", "same_time_table"
        return {name: len(self.arrays[name]) for name in names}

    @property
    def _room_at_first(self) -> dict[str, int]:
        return {
            "events": ROOM_AT_FIRST,
            "groups": ROOM_AT_FIRST,
            "accumulators": max(ROOM_AT_FIRST, self.lanes),
            "reset_table": 2 * self.own,
            "same_time_table": 2 * groups.MOST_TWINS,
        }

    def _rows(self, room: dict[str, int]) -> dict[str, int]:
        """How many rows the arrays that grow have for so much room; hash tables have two for each entry."""
        events, groups = room["events"], room["groups"]
        distinct = sum(bool(key.unique) for key in self.keys)
        # a block has more than HALF events, but for one of each group, which has more than LONGEST_WALK
        blocks = 2 * events // HALF + 1
        return room | {
            "reset_table": next_power_of_two(room["reset_table"]),
            "group_table": next_power_of_two(2 * groups),
            "same_time_table": next_power_of_two(room["same_time_table"]),
            "blocks": blocks,
            "queues": events,
            "accumulator_starts": groups,
            "distinct_table": next_power_of_two(2 * events * distinct),
            "block_totals": blocks,
        }

    def _is_not_undone(self) -> None:
        """What comes is not noted."""
        if self.undo:
            self.undo.void()

    def _create(self, room: dict[str, int]) -> shared.Arrays:
        rows, aggregates = self._rows(room), self._create_aggregates(room)
        arrays = shared.create_arrays(
            self.path,
            {
                "scalars": ("int64", (layout.RETURNS + 1,)),
                "newest": ("int64", (self.key_groups, 2 * horizon.WITNESSES)),
                "events": ("int64", (rows["events"], layout.VALUES + len(self.value_columns))),
                "groups": ("int64", (rows["groups"], layout.KEY + len(self.key_columns))),
                "group_table": ("int32", (rows["group_table"],)),
                "reset_table": ("int64", (rows["reset_table"], 3)),
                "same_time_table": ("int32", (rows["same_time_table"],)),
                "blocks": ("int64", (rows["blocks"], layout.NEWER_BLOCK + 1)),
                "scratch": ("int64", (SCRATCH,)),
            },
        )
        arrays["scalars"][layout.SALT] = secrets.randbits(63)
        arrays["scalars"][layout.RETURNS] = bool(self.schema.taken_back)
        arrays["newest"][:, : horizon.WITNESSES] = layout.NEVER
        arrays["newest"][:, horizon.WITNESSES :] = NOTHING
        for name in ("group_table", "reset_table"):
            arrays[name].fill(NOTHING)
        return arrays | aggregates

    def _create_aggregates(self, room: dict[str, int]) -> shared.Arrays:
        """Those that depend on which aggregates there are: in a file of their own, so that others need not move the events."""
        self._is_not_undone()
        rows, queues = self._rows(room), sum(key.accumulator.queues for key in self.keys)
        arrays = shared.create_arrays(
            event_and_aggregate_files(self.path)[1],
            {
                "queues": ("int32", (rows["queues"], queues, 2)),
                "accumulator_starts": ("int32", (rows["accumulator_starts"], len(self.keys))),
                "accumulators": ("int64", (rows["accumulators"],)),
                "distinct_table": ("int32", (rows["distinct_table"], 3)),
                "block_totals": ("int64", (rows["block_totals"], len(self.keys), LANES)),
            },
        )
        for name in ("accumulator_starts", "distinct_table"):
            arrays[name].fill(NOTHING)
        return arrays

    def recreate_aggregates(self) -> None:
        """Forgets all running aggregates, as after a restart."""
        self.arrays = self.arrays | self._create_aggregates(self._room)
        self.arrays["scalars"][layout.LANES] = 0

    def _change_aggregates(self, room: dict[str, int], before: list[AggregateKey]) -> None:
        """The same events with other aggregates; `before`: those of now."""
        old = self.arrays
        self.arrays = old | self._create_aggregates(room)
        self._move_aggregates(old, before)

    def _rebuild_arrays(
        self, room: dict[str, int], before: list[AggregateKey], gone: Collection[int] = ()
    ) -> None:
        """The same events and groups in new arrays with other room, values or aggregates; `before`: the aggregates of now.

        Rules that are `gone` leave no resets behind.
        """
        for name in ("events", "groups"):
            shared.read_in_order(self.path, name)
        old, new = self.arrays, self._create(room)
        n, g = self.event_count, self.group_count
        new["scalars"][: layout.SALT] = n, g, old["scalars"][layout.LANES], 0
        new["newest"][:] = old["newest"]
        new["scalars"][layout.BLOCKS] = old["scalars"][layout.BLOCKS]
        new["blocks"][: len(old["blocks"])] = old["blocks"]
        new["events"][:n, : old["events"].shape[1]] = old["events"][:n]
        new["groups"][:g] = old["groups"][:g]
        self.arrays = new
        self._refill_group_table()
        groups.refill_same_time_table(
            self.store,
            old["same_time_table"][old["same_time_table"] != 0] if old["scalars"][layout.TWINS] else NO_TWINS,
        )
        self._move_aggregates(old, before)
        ids = [rule.rule_id for rule in self.rules if rule.rule_id not in gone]
        groups.refill_reset_table(
            self.store, old["reset_table"][np.isin(old["reset_table"][:, layout.RESET_RULE], ids)]
        )

    def _move_aggregates(self, old: shared.Arrays, before: list[AggregateKey]) -> None:
        """Those that are kept, out of other arrays with the same events and groups."""
        new, n, g = self.arrays, self.event_count, self.group_count
        numbers_of = {key: number for number, key in enumerate(self.keys)}
        renamed = np.array([numbers_of.get(key, NOTHING) for key in before], np.int64)
        kept = np.flatnonzero(renamed != NOTHING)
        if before == self.keys:
            lanes = new["scalars"][layout.LANES]
            new["accumulator_starts"][:g], new["accumulators"][:lanes] = (
                old["accumulator_starts"][:g],
                old["accumulators"][:lanes],
            )
        else:
            self._keep_running(old, new, kept, renamed[kept])
        was, becomes = _queues(before), _queues(self.keys)
        for key in was.keys() & becomes.keys():
            new["queues"][:n, becomes[key]] = old["queues"][:n, was[key]]
        running.refill_distinct_table(self.store, self.numbers, old["distinct_table"], renamed)

    def _keep_running(
        self, old: shared.Arrays, new: shared.Arrays, kept: np.ndarray, renamed: np.ndarray
    ) -> None:
        """The lanes in use of the aggregates that are kept, group by group without gaps."""
        places = old["accumulator_starts"][: self.group_count, kept]
        group, number = np.nonzero(places != NOTHING)
        widths = self.numbers.aggregates["width"][renamed[number]]
        ends = np.cumsum(widths)
        new["accumulator_starts"][group, renamed[number]] = ends - widths
        rows = np.repeat(places[group, number] - (ends - widths), widths) + np.arange(widths.sum())
        new["accumulators"][: len(rows)] = old["accumulators"][rows]
        new["scalars"][layout.LANES] = len(rows)

    @property
    def store(self) -> Store:
        return store_of(self.arrays)

    def _make_room(
        self, events: int = 0, groups: int = 0, lanes: int = 0, resets: int = 0, twins: int = 0
    ) -> None:
        """For so many more; tables of resets and of events of one time are at most half full."""
        events_now, groups_now, lanes_now, resets_now = self.arrays["scalars"][: layout.SALT].tolist()
        need = {
            "events": events_now + events,
            "groups": groups_now + groups,
            "accumulators": lanes_now + lanes,
            "reset_table": 2 * (resets_now + resets),
            "same_time_table": 2 * (int(self.arrays["scalars"][layout.TWINS]) + twins),
        }
        room = self._room
        more = {name: with_spare_rows(rows, name) for name, rows in need.items() if rows > room[name]}
        if more and not self._grow(room | more):
            before = self.keys
            self._drop_unused()
            self._rebuild_arrays(room | more, before)

    def _grow(self, room: dict[str, int]) -> bool:
        """Gives the arrays more room where they are; False if they have no addresses left for that."""
        rows, old, grown = self._rows(room), self.arrays, {}
        if any(rows[name] > len(old[name]) for name in REFILLED):
            self._is_not_undone()
        for file in event_and_aggregate_files(self.path):
            arrays = shared.grow_arrays(file, rows)
            if arrays is None:
                return False
            grown |= arrays
        self.arrays = grown
        longer = {name for name in old if len(grown[name]) > len(old[name])}
        scalars = grown["scalars"]
        if "group_table" in longer:
            grown["group_table"].fill(NOTHING)
            self._refill_group_table()
        if "same_time_table" in longer and scalars[layout.TWINS]:
            entries = old["same_time_table"][old["same_time_table"] != 0]
            grown["same_time_table"].fill(0)
            scalars[layout.TWINS] = 0
            groups.refill_same_time_table(self.store, entries)
        if "reset_table" in longer:
            resets = old["reset_table"][old["reset_table"][:, layout.RESET_RULE] != NOTHING]
            grown["reset_table"].fill(NOTHING)
            scalars[layout.RESETS] = 0
            groups.refill_reset_table(self.store, resets)
        if "distinct_table" in longer:
            values = old["distinct_table"][old["distinct_table"][:, layout.AGGREGATE] != NOTHING]
            grown["distinct_table"].fill(NOTHING)
            running.refill_distinct_table(self.store, self.numbers, values, np.arange(len(self.keys)))
        return True

    def _refill_group_table(self) -> None:
        """Fills the table, which is empty."""
        if not shared.lies_on_disk(self.path):
            groups.refill_group_table(self.store)
            return
        shared.read_in_order(self.path, "groups")
        keys = self.arrays["groups"][: self.group_count, layout.KEY :]
        fill_group_table(self.arrays["group_table"], keys, int(self.arrays["scalars"][layout.SALT]))
        shared.read_in_order(self.path, "groups", ends=True)

    def _doubles(self, events: int) -> bool:
        """Whether `_make_room` for so many more events would pass a power of two."""
        room, need = len(self.arrays["events"]), self.event_count + events
        return need > room and next_power_of_two(with_spare_rows(need)) > next_power_of_two(room)

    @property
    def event_count(self) -> int:
        return int(self.arrays["scalars"][layout.EVENTS])

    @property
    def group_count(self) -> int:
        return int(self.arrays["scalars"][layout.GROUPS])

    @property
    def last_seq(self) -> int:
        """The seq of the event that was stored last; -1 before the first event."""
        return int(self.arrays["events"][self.event_count - 1, layout.SEQ]) if self.event_count else -1

    @property
    def memory_bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    @property
    def disk_bytes(self) -> int:
        """Those of `memory_bytes` that lie on a disk, because memory had no room."""
        of_events = {*self.arrays} - AGGREGATE_ARRAYS
        files = zip(event_and_aggregate_files(self.path), (of_events, AGGREGATE_ARRAYS), strict=True)
        return sum(
            self.arrays[name].nbytes for file, names in files if shared.lies_on_disk(file) for name in names
        )


def estimated_bytes(
    schema: Schema, route: Route, fields: list[str], rules: tuple[Rule, ...], events: int, groups: int
) -> int:
    """About how many bytes the arrays of a route take for so many events and groups, if each group has its accumulators."""
    keys, _ = rules_to_arrays(tuple(rule.as_active for rule in rules), fields, schema)
    queues = sum(key.accumulator.queues for key in keys)
    words_of_event = layout.VALUES + len(value_columns(fields, schema)) + queues
    words_of_blocks = 2 * (layout.NEWER_BLOCK + 1 + LANES * len(keys)) / HALF
    key_columns = sum(len(int64_columns(schema, name)) for name in route.keys)
    words_of_group = layout.KEY + key_columns + len(keys) / 2 + sum(key.accumulator.lanes for key in keys)
    slots = next_power_of_two(2 * groups)
    return round(8 * (events * (words_of_event + words_of_blocks) + groups * words_of_group) + 4 * slots)


def event_and_aggregate_files(path: Path) -> tuple[Path, Path]:
    """The files of a store at a path: of its events, and of its aggregates."""
    return path, path.parent / f"aggregates-{path.name}"


def remove_store(path: Path) -> None:
    """Removes a store's arrays, if any."""
    for file in event_and_aggregate_files(path):
        shared.remove_arrays(file)


def _queues(keys: list[AggregateKey]) -> dict[AggregateKey, slice]:
    """Where in `Store.queues` the columns of the aggregates are."""
    ends = accumulate(key.accumulator.queues for key in keys)
    return {key: slice(end - key.accumulator.queues, end) for key, end in zip(keys, ends)}


def with_spare_rows(rows: int, array: str = "events") -> int:
    """How many rows an array gets that needs so many: the next power of two, or a multiple of so many that to make room takes a few milliseconds."""
    unit = min(next_power_of_two(rows), SPARE_ROWS * (LANES_A_ROW if array == "accumulators" else 1))
    return -(-rows // unit) * unit


def next_power_of_two(at_least: int) -> int:
    """The smallest that is no less."""
    return 1 << max(at_least - 1, 0).bit_length()
