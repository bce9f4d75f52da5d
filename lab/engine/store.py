"""The windows of one route, for all key-groups of a task: the compiled loop of `window.py` over shared arrays that grow."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.engine import shared, window
from lab.engine.columns import Columns
from lab.engine.window import Batch, Rules, Store
from lab.model.rules import FUNCTIONS, OPERATORS, Route, Rule
from lab.model.schema import Schema

ROOM_AT_FIRST = 1024  # events
ALERTS_AT_ONCE = 4096
END_OF_SEQS = 1 << 62  # greater than every seq
MEASURING = ("SUM", "AVG", "MIN", "MAX")  # functions of a field's value
FOLLOWED = (
    "SUM",
    "AVG",
    "COUNT",
    "COUNT_WITH_RESET",
)  # their running aggregates stay valid when arrays are laid out anew


def halves(schema: Schema, name: str) -> list[str]:
    """The int64 columns in which a field travels: itself, or the two halves of a string's digest."""
    return [name] if schema.field(name).numeric else [f"{name}/0", f"{name}/1"]


class RouteStore:
    """Held events, running aggregates and resets of a route's rules, for all key-groups of a task.

    `fields` are the event fields kept, in the order in which rules first needed them; `rules` the route's rules by id.
    `key_groups`: how many there are in all.
    """

    def __init__(
        self,
        path: Path,
        schema: Schema,
        route: Route,
        fields: list[str],
        rules: tuple[Rule, ...],
        key_groups: int,
    ):
        self.path, self.schema, self.route, self.fields = path, schema, route, fields
        self.key_groups = key_groups
        self._set_rules(rules)
        self.key_columns = [column for name in route.keys for column in halves(schema, name)]
        self.arrays = shared.attach(path) if path.exists() else self._create(ROOM_AT_FIRST, ROOM_AT_FIRST)

    # -- rules ---------------------------------------------------------------------------------------------------------

    def _set_rules(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules
        self.value_columns = [column for name in self.fields for column in halves(self.schema, name)]
        self.widest_ms = max(rule.window_ms for rule in rules)
        whole = np.zeros((len(rules), window.QUEUE + 1), np.int64)
        real = np.zeros((len(rules), 2))
        unique: list[int] = []
        self.queues = 0
        for row, rule in enumerate(rules):
            limit = Fraction(rule.limit)
            if rule.function in MEASURING:
                limit *= 10 ** self.schema.field(rule.field).scale
                whole[row, window.COLUMN] = window.VALUES + self.value_columns.index(rule.field)
            columns = [
                window.VALUES + self.value_columns.index(column)
                for name in rule.unique
                for column in halves(self.schema, name)
            ]
            whole[row, window.ACTIVE] = rule.state == "ACTIVE"
            whole[row, window.FUNCTION] = FUNCTIONS.index(rule.function)
            whole[row, window.OPERATOR] = OPERATORS.index(rule.operator)
            whole[row, window.WINDOW] = rule.window_ms
            whole[row, window.NEEDS] = sum(1 << self.fields.index(name) for name in rule.needs)
            whole[row, window.LIMIT] = np.uint64(limit.numerator % (1 << 64)).astype(np.int64)
            whole[row, window.UNIT] = limit.denominator
            whole[row, window.FIRST], whole[row, window.LAST] = len(unique), len(unique) + len(columns)
            unique += columns
            if rule.function in ("MIN", "MAX"):
                whole[row, window.QUEUE] = self.queues
                self.queues += 1
            real[row] = float(limit.numerator), float(limit.denominator)
        self.numbers = Rules(whole, real, np.array(unique, np.int64))

    def change(self, fields: list[str], rules: tuple[Rule, ...]) -> None:
        """Goes on with other rules; held events keep the fields they have."""
        before = self.rules
        self.fields = fields
        self._set_rules(rules)
        self._lay_out(self.arrays["event"].shape[0], self.arrays["group"].shape[0], before)

    # -- arrays --------------------------------------------------------------------------------------------------------

    def _create(self, events: int, groups: int) -> shared.Arrays:
        unique_rules = sum(rule.function == "UNIQUE_COUNT" for rule in self.rules)
        counted = _power_of_two(2 * events * unique_rules) if unique_rules else 1
        arrays = shared.create(
            self.path,
            {
                "size": ("int64", (2,)),
                "newest": ("int64", (self.key_groups,)),
                "event": ("int64", (events, window.VALUES + len(self.value_columns))),
                "queue": ("int32", (events, self.queues, 2)),
                "group": ("int64", (groups, window.KEY + len(self.key_columns))),
                "running": ("int64", (groups, len(self.rules), 5)),
                "table": ("int32", (_power_of_two(2 * groups),)),
                "counted": ("int32", (counted, 4)),
            },
        )
        arrays["newest"].fill(window.NEVER)
        arrays["table"].fill(window.NOTHING)
        arrays["counted"].fill(window.NOTHING)
        return arrays

    def _lay_out(self, events: int, groups: int, rules_before: tuple[Rule, ...]) -> None:
        """The same events and groups in new arrays with other room or other rules."""
        old, new = self.arrays, self._create(events, groups)
        n, g = old["size"][window.EVENTS], old["size"][window.GROUPS]
        new["size"][:] = old["size"]
        new["newest"][:] = old["newest"]
        new["event"][:n, : old["event"].shape[1]] = old["event"][:n]
        new["group"][:g] = old["group"][:g]
        new["running"][:g, :, (window.START, window.RESET)] = window.NOTHING
        for column, rule in enumerate(self.rules):
            for previous, other in enumerate(rules_before):
                if other.rule_id == rule.rule_id:
                    new["running"][:g, column, window.RESET] = old["running"][:g, previous, window.RESET]
                    if _goes_on(other, rule):
                        new["running"][:g, column] = old["running"][:g, previous]
        self.arrays = new
        window.index_groups(self.store)

    @property
    def store(self) -> Store:
        return Store(**self.arrays)

    def _make_room(self, more: int) -> None:
        events, groups = self.arrays["event"].shape[0], self.arrays["group"].shape[0]
        need_events, need_groups = self.events + more, self.groups + more
        if need_events > events or need_groups > groups:
            grown = (max(events, _power_of_two(need_events)), max(groups, _power_of_two(need_groups)))
            self._lay_out(*grown, self.rules)

    # -- facts ---------------------------------------------------------------------------------------------------------

    @property
    def events(self) -> int:
        return int(self.arrays["size"][window.EVENTS])

    @property
    def groups(self) -> int:
        return int(self.arrays["size"][window.GROUPS])

    @property
    def newest(self) -> np.ndarray:
        """The newest event time of each key-group, ms; `window.NEVER` before the first event."""
        return self.arrays["newest"]

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    def _held(self, event: np.ndarray, max_out_of_orderness_ms: int) -> np.ndarray:
        """Which rows of Store.event are not older than the horizon of their key-group."""
        key_groups = self.arrays["group"][event[:, window.GROUP], window.KEY_GROUP]
        horizons = self.newest - self.widest_ms - max_out_of_orderness_ms
        return event[:, window.TIME] >= horizons[key_groups]

    # -- events in and out ---------------------------------------------------------------------------------------------

    def _batch(self, columns: Columns) -> Batch:
        rows = len(columns["time"])
        fields = np.zeros(rows, np.int64)
        value = np.zeros((rows, len(self.value_columns)), np.int64)
        for bit, name in enumerate(self.fields):
            valid: np.ndarray | bool = False
            for column in halves(self.schema, name):
                values = columns.get(f"value:{column}")
                if values is None:  # the route's rules did not need it when these events arrived
                    continue
                valid = True
                if isinstance(values, pa.Array):
                    valid = values.is_valid().to_numpy(zero_copy_only=False)
                    values = pc.fill_null(values, 0).to_numpy()
                value[:, self.value_columns.index(column)] = values
            fields |= np.where(valid, 1 << bit, 0)
        key = self._key(columns, rows)
        return Batch(columns["time"], columns["id"], columns["keyGroup"], fields, key, value)

    def _key(self, columns: Columns, rows: int) -> np.ndarray:
        key = np.empty((rows, len(self.key_columns)), np.int64)
        for k, column in enumerate(self.key_columns):
            key[:, k] = columns[f"key:{column}"]
        return key

    def evaluate(
        self, columns: Columns, first_seq: int, max_out_of_orderness_ms: int, late_policy: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """`window.evaluate` on columns time, id, keyGroup, `key:…` and `value:…`: what became of each event, and the alerts.

        Row i gets seq first_seq + i, so the next call's first_seq must be greater than all of these.
        """
        batch = self._batch(columns)
        self._make_room(len(batch.time))
        fate = np.empty(len(batch.time), np.uint8)
        found, done = [], 0
        while done < len(batch.time):
            alerts = np.empty((len(self.rules) + ALERTS_AT_ONCE, 5), np.int64)
            done, fired = window.evaluate(
                self.store,
                self.numbers,
                batch,
                first_seq,
                done,
                self.widest_ms,
                max_out_of_orderness_ms,
                late_policy,
                fate,
                alerts,
            )
            found.append(alerts[:fired])
        return fate, np.concatenate(found)

    def export(self, first_seq: int, end_seq: int, max_out_of_orderness_ms: int) -> tuple[Columns, Columns]:
        """Held events with first_seq ≤ seq < end_seq, and the resets that fell in that range, as columns."""
        event = self.arrays["event"][: self.events]
        first, end = np.searchsorted(event[:, window.SEQ], (first_seq, end_seq))
        event = event[first:end]
        event = event[self._held(event, max_out_of_orderness_ms)]
        group = self.arrays["group"][event[:, window.GROUP]]
        key = group[:, window.KEY :]
        columns: Columns = {
            "time": event[:, window.TIME].copy(),
            "id": event[:, window.ID].copy(),
            "seq": event[:, window.SEQ].copy(),
            "keyGroup": group[:, window.KEY_GROUP].copy(),
        }
        columns |= {f"key:{column}": key[:, k].copy() for k, column in enumerate(self.key_columns)}
        for bit, name in enumerate(self.fields):
            valid = (event[:, window.FIELDS] >> bit) & 1 == 1
            for column in halves(self.schema, name):
                values = event[:, window.VALUES + self.value_columns.index(column)].copy()
                columns[f"value:{column}"] = values if valid.all() else pa.array(values, mask=~valid)
        resets = self.arrays["running"][: self.groups, :, window.RESET]
        groups, rules = np.nonzero((resets >= first_seq) & (resets < end_seq))
        ids = np.array([rule.rule_id for rule in self.rules], np.int64)
        reset_columns: Columns = {
            "rule": ids[rules],
            "seq": resets[groups, rules],
            "keyGroup": self.arrays["group"][groups, window.KEY_GROUP],
        }
        for k, column in enumerate(self.key_columns):
            reset_columns[f"key:{column}"] = self.arrays["group"][groups, window.KEY + k]
        return columns, reset_columns

    def load(
        self, events: Columns, resets: Columns, since: dict[int, int], max_out_of_orderness_ms: int
    ) -> None:
        """Takes back what `export` gave, in order of seq; of several calls, a later one has later seqs.

        `since`: rule id -> the seq from which its resets are its own. Restore `newest` first: it says what is still held.
        """
        batch = self._batch(events)
        self._make_room(len(batch.time))
        window.load(self.store, batch, events["seq"], self.widest_ms + max_out_of_orderness_ms)
        self._make_room(len(resets["seq"]))
        key = self._key(resets, len(resets["seq"]))
        for column, rule in enumerate(self.rules):
            rows = np.flatnonzero(
                (resets["rule"] == rule.rule_id) & (resets["seq"] >= since.get(rule.rule_id, 0))
            )
            window.load_resets(self.store, resets["keyGroup"], key, resets["seq"], rows, column)

    def compact(self, max_out_of_orderness_ms: int) -> None:
        """Forgets events, groups and resets that are no longer held."""
        newest = self.newest.copy()
        events, resets = self.export(0, END_OF_SEQS, max_out_of_orderness_ms)
        self.arrays = self._create(ROOM_AT_FIRST, ROOM_AT_FIRST)
        self.restore_newest(newest)
        self.load(events, resets, {}, max_out_of_orderness_ms)

    def restore_newest(self, newest: np.ndarray) -> None:
        self.newest[:] = newest

    def mostly_expired(self, max_out_of_orderness_ms: int) -> bool:
        """Whether more than half of the events in memory are no longer held (looked at when a quarter of the room is left)."""
        if self.events < ROOM_AT_FIRST or 4 * self.events < 3 * self.arrays["event"].shape[0]:
            return False
        held = self._held(self.arrays["event"][: self.events], max_out_of_orderness_ms)
        return 2 * np.count_nonzero(held) < self.events


def _goes_on(before: Rule, rule: Rule) -> bool:
    """Whether the running aggregates of a rule serve its new version."""

    def essence(r: Rule) -> tuple:
        return r.state, r.function, r.field, r.window_ms

    return essence(before) == essence(rule) and rule.function in FOLLOWED


def _power_of_two(at_least: int) -> int:
    return 1 << max(at_least - 1, 0).bit_length()
