"""The arrays of one route's windows, in shared memory: created, and laid out anew with more room or for other rules."""

import secrets
from collections.abc import Collection
from pathlib import Path

import numpy as np

from lab.engine.compiled import groups, layout, running
from lab.engine.compiled.aggregates import LANES, SCRATCH
from lab.engine.compiled.blocks import HALF
from lab.engine.compiled.layout import NOTHING, Store
from lab.engine.compiled.rulenumbers import AggregateKey, field_columns, number_rules, value_columns
from lab.engine.windows import shared
from lab.model.rule import Route, Rule
from lab.model.schema import Schema

ROOM_AT_FIRST = 1024  # events
NO_TWINS = np.empty(0, np.int32)


class StoreArrays:
    """`layout.Store` for the rules of a route, in arrays that grow.

    `fields` are the event fields kept, in the order in which rules first needed them; `rules` the route's rules by id.
    `key_groups`: how many there are in all. `late_ms`: an event this far behind its group's newest is late. `keys`: the
    aggregates that the arrays at `path` have. A few that no rule needs any more go on until they are laid out anew, so
    that a rule can pause, go and come back at once.
    """

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
        self.key_columns = [column for name in route.keys for column in field_columns(schema, name)]
        if path.exists():
            events, aggregates = map(shared.attach, array_files(path))
            self.arrays = events | aggregates
        else:
            self.arrays = self._create(self._room_at_first)

    def _set_rules(self, rules: tuple[Rule, ...], kept: tuple[AggregateKey, ...] = ()) -> None:
        self.rules, self.keeps = rules, bool(kept)
        self.value_columns = value_columns(self.fields, self.schema)
        self.widest_ms = max(rule.widest_ms for rule in rules)
        self.keys, self.numbers = number_rules(rules, self.fields, self.schema, kept)
        self.when_columns = int(self.numbers.when[:, 0].max()) + 1
        self.lanes = sum(key.running.lanes for key in self.keys)  # of one group
        # aggregates that are reset when their rule fires
        self.own = sum(key.rule_id is not None for key in self.keys)

    def _drop_unused(self) -> None:
        """New arrays are without the aggregates that no rule needs."""
        if self.keeps:
            self._set_rules(self.rules)

    @property
    def _room(self) -> dict[str, int]:
        """For how many events, groups, lanes and resets there is room."""
        return {name: len(self.arrays[name]) for name in ("event", "group", "running", "reset")}

    @property
    def _room_at_first(self) -> dict[str, int]:
        return {
            "event": ROOM_AT_FIRST,
            "group": ROOM_AT_FIRST,
            "running": max(ROOM_AT_FIRST, self.lanes),
            "reset": power_of_two(2 * self.own),
        }

    def _create(self, room: dict[str, int]) -> shared.Arrays:
        # a block has more than HALF events, but for one of each group, which has more than LIMIT
        blocks = 2 * room["event"] // HALF + 1
        aggregates = self._create_aggregates(room, blocks)
        arrays = shared.create(
            self.path,
            {
                "size": ("int64", (layout.RETURNS + 1,)),
                "newest": ("int64", (self.key_groups,)),
                "event": ("int64", (room["event"], layout.VALUES + len(self.value_columns))),
                "group": ("int64", (room["group"], layout.KEY + len(self.key_columns))),
                "table": ("int32", (power_of_two(2 * room["group"]),)),
                "reset": ("int64", (room["reset"], 3)),
                "twin": ("int32", (power_of_two(2 * room["event"]),)),
                "block": ("int64", (blocks, layout.NEWER_BLOCK + 1)),
                "scratch": ("int64", (SCRATCH,)),
            },
        )
        arrays["size"][layout.SALT] = secrets.randbits(63)
        arrays["size"][layout.RETURNS] = bool(self.schema.taken_back)
        arrays["newest"].fill(layout.NEVER)
        for name in ("table", "reset"):
            arrays[name].fill(NOTHING)
        return arrays | aggregates

    def _create_aggregates(self, room: dict[str, int], blocks: int) -> shared.Arrays:
        """Those that depend on which aggregates there are: in a file of their own, so that others need not move the events."""
        queues = sum(key.has_queue for key in self.keys)
        distinct = sum(bool(key.unique) for key in self.keys)
        arrays = shared.create(
            array_files(self.path)[1],
            {
                "queue": ("int32", (room["event"], queues, 2)),
                "place": ("int32", (room["group"], len(self.keys))),
                "running": ("int64", (room["running"],)),
                "counted": ("int32", (power_of_two(2 * room["event"] * distinct), 3)),
                "total": ("int64", (blocks, len(self.keys), LANES)),
            },
        )
        for name in ("place", "counted"):
            arrays[name].fill(NOTHING)
        return arrays

    def _change_aggregates(self, room: dict[str, int], before: list[AggregateKey]) -> None:
        """The same events with other aggregates, or more room for them; `before`: those of now."""
        old = self.arrays
        self.arrays = old | self._create_aggregates(room, len(old["block"]))
        self._move_aggregates(old, before)

    def _rebuild_arrays(
        self, room: dict[str, int], before: list[AggregateKey], gone: Collection[int] = ()
    ) -> None:
        """The same events and groups in new arrays with other room, values or aggregates; `before`: the aggregates of now.

        Rules that are `gone` leave no resets behind.
        """
        old, new = self.arrays, self._create(room)
        n, g = self.events, self.groups
        new["size"][: layout.SALT] = n, g, old["size"][layout.LANES], 0
        new["newest"][:] = old["newest"]
        new["size"][layout.BLOCKS] = old["size"][layout.BLOCKS]
        new["block"][: len(old["block"])] = old["block"]
        new["event"][:n, : old["event"].shape[1]] = old["event"][:n]
        new["group"][:g] = old["group"][:g]
        self.arrays = new
        groups.index_groups(self.store)
        groups.index_twins(
            self.store, old["twin"][old["twin"] != 0] if old["size"][layout.TWINS] else NO_TWINS
        )
        self._move_aggregates(old, before)
        ids = [rule.rule_id for rule in self.rules if rule.rule_id not in gone]
        groups.index_resets(self.store, old["reset"][np.isin(old["reset"][:, layout.RESET_RULE], ids)])

    def _move_aggregates(self, old: shared.Arrays, before: list[AggregateKey]) -> None:
        """Those that are kept, out of other arrays with the same events and groups."""
        new, n, g = self.arrays, self.events, self.groups
        numbers_of = {key: number for number, key in enumerate(self.keys)}
        renamed = np.array([numbers_of.get(key, NOTHING) for key in before], np.int64)
        kept = np.flatnonzero(renamed != NOTHING)
        if before == self.keys:
            lanes = new["size"][layout.LANES]
            new["place"][:g], new["running"][:lanes] = old["place"][:g], old["running"][:lanes]
        else:
            self._keep_running(old, new, kept, renamed[kept])
        was, becomes = _queues(before), _queues(self.keys)
        for key in was.keys() & becomes.keys():
            new["queue"][:n, becomes[key]] = old["queue"][:n, was[key]]
        running.index_counted(self.store, self.numbers, old["counted"], renamed)

    def _keep_running(
        self, old: shared.Arrays, new: shared.Arrays, kept: np.ndarray, renamed: np.ndarray
    ) -> None:
        """The lanes in use of the aggregates that are kept, group by group without gaps."""
        places = old["place"][: self.groups, kept]
        group, number = np.nonzero(places != NOTHING)
        widths = self.numbers.aggregate[renamed[number], layout.WIDTH]
        ends = np.cumsum(widths)
        new["place"][group, renamed[number]] = ends - widths
        rows = np.repeat(places[group, number] - (ends - widths), widths) + np.arange(widths.sum())
        new["running"][: len(rows)] = old["running"][rows]
        new["size"][layout.LANES] = len(rows)

    @property
    def store(self) -> Store:
        return Store(**self.arrays)

    def _make_room(self, events: int = 0, groups: int = 0, lanes: int = 0, resets: int = 0) -> None:
        """For so many more; for lanes as for groups, and a table of resets is at most half full."""
        events_now, groups_now, lanes_now, resets_now = self.arrays["size"][: layout.SALT].tolist()
        need = {
            "event": events_now + events,
            "group": groups_now + groups,
            "running": lanes_now + lanes,
            "reset": 2 * (resets_now + resets),
        }
        room = self._room
        if any(need[name] > room[name] for name in need):
            grown = {name: max(room[name], power_of_two(need[name])) for name in need}
            of_all_groups = lanes_now * grown["group"] // max(groups_now, 1)
            grown["running"] = max(grown["running"], of_all_groups)
            before = self.keys
            self._drop_unused()
            if grown | {"running": room["running"]} == room:
                self._change_aggregates(grown, before)
            else:
                self._rebuild_arrays(grown, before)

    @property
    def events(self) -> int:
        return int(self.arrays["size"][layout.EVENTS])

    @property
    def groups(self) -> int:
        return int(self.arrays["size"][layout.GROUPS])

    @property
    def last_seq(self) -> int:
        """The seq of the event that was stored last; -1 before the first event."""
        return int(self.arrays["event"][self.events - 1, layout.SEQ]) if self.events else -1

    @property
    def newest(self) -> np.ndarray:
        """The newest event time of each key-group, ms; `layout.NEVER` before the first event."""
        return self.arrays["newest"]

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())


def array_files(path: Path) -> tuple[Path, Path]:
    """The files of a store at a path: of its events, and of its aggregates."""
    return path, path.parent / f"aggregates-{path.name}"


def forget(path: Path) -> None:
    """Removes a store's arrays, if any."""
    for file in array_files(path):
        shared.forget(file)


def _queues(keys: list[AggregateKey]) -> dict[AggregateKey, int]:
    """The aggregates that have a queue, and its number."""
    return {key: number for number, key in enumerate(key for key in keys if key.has_queue)}


def power_of_two(at_least: int) -> int:
    """The smallest that is no less."""
    return 1 << max(at_least - 1, 0).bit_length()
