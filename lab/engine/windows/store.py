"""The windows of one route, for all key-groups of a task: the compiled loop of `window.py` over shared arrays that grow."""

from collections.abc import Collection, Sequence
from copy import copy
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.engine.compiled import groups, horizon, layout, restore, window
from lab.engine.compiled.layout import NOTHING, Batch
from lab.engine.compiled.rulenumbers import STATE, int64_columns, not_null_bit, transport_columns
from lab.engine.records.columns import LOG_TIME, RELATED, Columns, take_rows, writable_int64
from lab.engine.records.parallel import Steps, finish_steps
from lab.engine.windows import shared
from lab.engine.windows.arrays import SPARE_ROWS, StoreArrays, event_and_aggregate_files
from lab.model.aggregation import ONE_BIT
from lab.model.alerts import Alert
from lab.model.rule import Rule

ALERTS_AT_ONCE = 4096
STEP_ROWS = 1 << 15  # that are evaluated at once
MOVED_ROWS = 1 << 18  # that are copied at once, outside the arrays
SAMPLE_EVENTS = 1024  # that show how many of a store have expired: to read all may take the disk minutes
NEARLY_FULL = 8  # when less than one row in so many is free, of SPARE_ROWS at most
FEW_UNUSED = 4  # aggregates that are maintained without a rule; each costs as much as one with a rule
END_OF_SEQS = 1 << 62  # greater than every seq


class Evaluated(NamedTuple):
    """`fates`: what became of each event; `alert_rows`: the rows of its alerts, with the columns that `layout` names."""

    fates: np.ndarray
    alert_rows: np.ndarray


class DueAlert(NamedTuple):
    """An alert of `absence`. `until_ms`: when the wait ended; `key_group`, `event_seq`: of the event that waited."""

    until_ms: int
    key_group: int
    event_seq: int
    alert: Alert


class RouteStore(StoreArrays):
    """Stores the events, running aggregates and resets of a route, for all key-groups of a task.

    `reached_log_ms`: no event comes that was logged before. Events that are too old are removed as far as it shows.
    """

    reached_log_ms = layout.NEVER

    # -- rules ---------------------------------------------------------------------------------------------------------

    def change_rules(
        self, fields: list[str], rules: tuple[Rule, ...], removed_rule_ids: Collection[int]
    ) -> None:
        """Replaces the rules; stored events keep the fields they have. `removed_rule_ids`: ids of rules that were removed, even if they came back."""
        keys, columns = self.keys, self.value_columns
        forgotten = self._counting_since(removed_rule_ids)
        keys = [key._replace(rule_id=NOTHING) if key.rule_id in forgotten else key for key in keys]
        self.fields = fields
        self._set_rules(rules)
        if forgotten or self.value_columns != columns:
            self._rebuild_arrays(self._room, keys, forgotten)
        elif self.keys != keys:
            unused = {*keys} - {*self.keys}
            is_few = len(unused) <= max(len(self.keys), FEW_UNUSED)
            # when a rule fires, all that counts since then begins anew, but only what the rule still needs is told
            misses_resets = {key.rule_id for key in unused} & {key.rule_id for key in self.keys} - {None}
            if {*self.keys} <= {*keys} and is_few and not misses_resets:
                self._set_rules(rules, tuple(keys))
            else:
                self._change_aggregates(self._room, keys)

    def _counting_since(self, ids: Collection[int]) -> set[int]:
        """Those of some rules that count since they fired, or once did."""
        reset = (
            self.arrays["reset_table"][:, layout.RESET_RULE] if self.arrays["scalars"][layout.RESETS] else []
        )
        return {*ids} & {*(key.rule_id for key in self.keys), *np.unique(reset).tolist()} if ids else set()

    # -- room ----------------------------------------------------------------------------------------------------------

    def _prepare(self, batch: Batch) -> None:
        """Makes room for a batch's events. Whenever these double, removes expired ones first if they are many."""
        rows = len(batch.times_ms)
        if self._doubles(rows) and self._mostly_expired():
            self.compact(room_for_events=rows)
        self._make_room(events=rows)

    def make_room_ahead(self, stored_rows: int) -> bool:
        """Makes room if the store is nearly full, so that the next batch need not, and returns whether it was. Stores may do this in parallel.

        `stored_rows`: the rows that the last batch stored in all stores. Large batches, as in a backlog, make room for themselves.
        """
        room = len(self.arrays["events"])
        free = room - self.event_count
        nearly_full = NEARLY_FULL * max(free, stored_rows) <= min(room, SPARE_ROWS)
        if nearly_full and self._doubles(free + 1) and self._mostly_expired():
            self.compact()
        elif nearly_full:
            self._make_room(events=free + 1)
        return nearly_full

    def copy_on_write(self, rows: int) -> Self:
        """One with the same events, in which so many more can be evaluated; this one does not change. Makes the room for them here."""
        each = rows + 1  # the loop asks for the room of one more
        self._make_room(each, each, each * self.lanes, each * self.own, each * groups.MOST_TWINS)
        other = copy(self)
        other.undo = None
        events, aggregates = map(shared.copy_on_write, event_and_aggregate_files(self.path))
        # it has no file, so it cannot grow
        other.arrays, other.path = events | aggregates, self.path.with_suffix(".none")
        return other

    def is_whole_before(self, seq: int) -> bool:
        """Whether the arrays are as this store makes them, with no event from `seq` on; for arrays that somebody else has left."""
        arrays, n, g = self.arrays, self.event_count, self.group_count
        return (
            arrays["events"].shape[1] == layout.VALUES + len(self.value_columns)
            and arrays["groups"].shape[1] == layout.KEY + len(self.key_columns)
            and arrays["accumulator_starts"].shape[1] == len(self.keys)
            and arrays["newest"].shape[0] == self.key_groups
            and 0 <= n <= len(arrays["events"])
            and 0 <= g <= len(arrays["groups"])
            and self.last_seq < seq
        )

    # -- expiry --------------------------------------------------------------------------------------------------------

    def _unexpired(self, event: np.ndarray) -> np.ndarray:
        """Which rows of Store.events are not older than the horizon of their group."""
        reach_ms = self.widest_ms + self.late_ms
        latest = min(int(self.arrays["newest"][:, 0].max()), self.reached_log_ms)
        unexpired = event[:, layout.TIME] >= latest - reach_ms
        old = np.flatnonzero(~unexpired)
        groups = event.view(np.int32)[old, layout.GROUP].astype(np.int64)
        of_old, place = np.unique(groups, return_inverse=True)
        unexpired[old] = event[old, layout.TIME] >= (self._times_reached(of_old) - reach_ms)[place]
        return unexpired

    def _times_reached(self, of: np.ndarray) -> np.ndarray:
        """The time that each of some groups has reached, ms."""
        reached = np.empty(len(of), np.int64)
        horizon.times_reached(self.store, of, self.reached_log_ms, reached)
        return reached

    def surely_retains(self, key_group: int, time_ms: int) -> bool:
        """Whether each event of a key-group with this time is stored, because no group can have reached a later time than the newest event's."""
        return time_ms >= int(self.arrays["newest"][key_group, 0]) - self.widest_ms - self.late_ms

    def may_retain(self, key_group: int, time_ms: int) -> bool:
        """Whether an event of a key-group with this time, or an earlier one, may still be stored."""
        reach_ms = self.widest_ms + self.late_ms
        newest = self.arrays["newest"][key_group]
        if time_ms < min(int(newest[len(newest) // 2 - 1]), self.reached_log_ms) - reach_ms:
            return False
        if time_ms >= min(int(newest[0]), self.reached_log_ms) - reach_ms:
            return True
        group = self.store.group_links[: self.group_count]
        with_events = (group[:, layout.KEY_GROUP] == key_group) & (group[:, layout.NEWEST] != NOTHING)
        return bool((self._times_reached(np.flatnonzero(with_events)) - reach_ms <= time_ms).any())

    # -- events in and out ---------------------------------------------------------------------------------------------

    def to_batch(self, columns: Columns) -> Batch:
        """Events as the compiled loop takes them."""
        rows = len(columns["time"])
        value = np.zeros((rows, len(self.value_columns)), np.int64)
        for number, name in enumerate(self.fields):
            valid: np.ndarray | bool = False
            for column in transport_columns(self.schema, name):
                values = columns.get(f"value:{column}")
                if values is None:  # the route's rules did not need it when these events arrived
                    continue
                valid = True
                if isinstance(values, pa.Array):
                    valid = values.is_valid().to_numpy(zero_copy_only=False)
                    values = pc.fill_null(values, 0).to_numpy()
                if not name.startswith(ONE_BIT):
                    value[:, self.value_columns.index(column)] = values
            column, bit = not_null_bit(number)
            value[:, self.value_columns.index(column)] |= np.where(valid, bit, 0)
        if self.schema.taken_back:
            # what was held before events could be taken back has none
            state = columns.get(STATE, layout.COUNTS)
            value[:, 0] = pc.fill_null(state, layout.COUNTS) if isinstance(state, pa.Array) else state
        key = self.group_keys(columns, rows)
        time, event_id, key_group = (writable_int64(columns[name]) for name in ("time", "id", "keyGroup"))
        when = np.zeros((rows, self.when_columns), np.int64)
        for number in range(self.when_columns):  # events that are taken back have been judged, and have none
            when[:, number] = columns.get(f"when:{number}", 0)
        log_time = writable_int64(columns.get(LOG_TIME, np.zeros(rows, np.int64)))
        return Batch(time, event_id, key_group, key, value, np.empty(rows, np.int64), log_time, when)

    def group_keys(self, columns: Columns, row_count: int) -> np.ndarray:
        """The keys of the events' groups, [rows, key columns]."""
        key = np.empty((row_count, len(self.key_columns)), np.int64)
        for k, column in enumerate(self.key_columns):
            key[:, k] = columns[f"key:{column}"]
        return key

    def evaluate(self, columns: Columns, first_seq: int, late_policy: int) -> Evaluated:
        """All of `evaluate_in_steps`."""
        return finish_steps(self.evaluate_in_steps(columns, first_seq, late_policy))

    def evaluate_in_steps(self, columns: Columns, first_seq: int, late_policy: int) -> Steps[Evaluated]:
        """`window.evaluate_batch` on columns time, id, keyGroup, LOG_TIME, `key:…` and `value:…`, so many rows at a time.

        The columns get RELATED.
        Row i gets seq first_seq + i, so the next call's first_seq must be greater than all of these.
        """
        assert first_seq > self.last_seq, "events come after those that are stored"
        batch = self.to_batch(columns)
        logged = int(batch.log_times_ms[0]) if len(batch.log_times_ms) else layout.NEVER
        self.reached_log_ms = max(self.reached_log_ms, logged or layout.NO_LOG_TIME)
        self._prepare(batch)
        fate = np.empty(len(batch.times_ms), np.uint8)
        related = np.zeros(len(batch.times_ms), np.int64)
        found, done = [], 0
        while done < len(batch.times_ms):
            yield len(batch.times_ms) - done
            step = Batch(*(values[: done + STEP_ROWS] for values in batch))
            self._make_room(groups=1, lanes=self.lanes, resets=self.own, twins=groups.MOST_TWINS)
            most = len(self.rules) + layout.VALUES_OF_CONDITION * len(
                self.numbers.conditions
            )  # rows for one event
            rows_left = len(step.times_ms) - done
            alerts = np.empty(
                (most + min(ALERTS_AT_ONCE, most * rows_left), layout.DENOMINATOR + 1), np.int64
            )
            if self.undo:
                self.undo.note(self.store, step, done)
            done, fired = window.evaluate_batch(
                self.store,
                self.numbers,
                step,
                first_seq,
                done,
                self.widest_ms,
                self.late_ms,
                late_policy,
                fate,
                related,
                alerts,
            )
            assert fired <= len(alerts), "one event has no more alerts than there is room for"
            found.append(alerts[:fired])
        assert self.event_count <= len(self.arrays["events"]) and self.group_count <= len(
            self.arrays["groups"]
        )
        columns[RELATED] = related
        alerts = np.concatenate(found)
        row, rule, condition = (alerts[:, name] for name in (layout.ROW, layout.RULE, layout.CONDITION))
        if not (row[1:] > row[:-1]).all():  # else an event has one row at most
            alerts = alerts[np.lexsort((condition, rule, row))]
        return Evaluated(fate, alerts)

    def record_later_alerts(self, due: Sequence[DueAlert], first_seq: int) -> None:
        """Records alerts that are raised at events evaluated before; if these are taken back, a line withdraws the alerts.

        Does so with rows that get seqs from `first_seq` on, so the next call's first_seq must be at least `len(due)` greater.
        """
        assert first_seq > self.last_seq, "records come after what is stored"
        self._make_room(events=len(due))
        key_groups = np.array([each.key_group for each in due], np.int64)
        seqs = np.array([each.event_seq for each in due], np.int64)
        restore.record_later_alerts(self.store, key_groups, seqs, first_seq)

    def export_events_and_resets(self, first_seq: int, end_seq: int) -> tuple[Columns, Columns]:
        """Held events with first_seq ≤ seq < end_seq, and the resets that fell in that range, as columns."""
        return self.export_events(first_seq, end_seq), self.export_resets(first_seq, end_seq)

    def seq_of_row_after(self, first_seq: int, rows: int) -> int:
        """The seq of the event that is so many rows after the first one with `first_seq` or more; END_OF_SEQS if there is none."""
        seqs = self.arrays["events"][: self.event_count, layout.SEQ]
        row = np.searchsorted(seqs, first_seq) + rows
        return int(seqs[row]) if row < len(seqs) else END_OF_SEQS

    def export_events(self, first_seq: int, end_seq: int) -> Columns:
        """Held events with first_seq ≤ seq < end_seq, as columns."""
        event = self.arrays["events"][: self.event_count]
        first, end = np.searchsorted(event[:, layout.SEQ], (first_seq, end_seq))
        event = event[first:end]
        unexpired = self._unexpired(event)
        event = event if unexpired.all() else event[unexpired]
        of_event = event.view(np.int32)[:, layout.GROUP]
        key = self.arrays["groups"][of_event, layout.KEY :]
        columns: Columns = {
            "time": event[:, layout.TIME].copy(),
            "id": event[:, layout.ID].copy(),
            "seq": event[:, layout.SEQ].copy(),
            "keyGroup": self.store.group_links[of_event, layout.KEY_GROUP].astype(np.int64),
        }
        columns |= {f"key:{column}": key[:, k].copy() for k, column in enumerate(self.key_columns)}
        for number, name in enumerate(self.fields):
            column, bit = not_null_bit(number)
            valid = event[:, layout.VALUES + self.value_columns.index(column)] & bit != 0
            if name.startswith(ONE_BIT):
                columns[f"value:{name}"] = pa.array(np.ones(len(event), np.int64), mask=~valid)
            for column in int64_columns(self.schema, name):
                values = event[:, layout.VALUES + self.value_columns.index(column)].copy()
                columns[f"value:{column}"] = values if valid.all() else pa.array(values, mask=~valid)
        if self.schema.taken_back:  # the row that took it back says that an event does not count
            state = event[:, layout.VALUES]
            columns[STATE] = np.where(state & layout.TAKES_BACK, state, state | layout.COUNTS)
        return columns

    def export_resets(self, first_seq: int, end_seq: int) -> Columns:
        """The resets that fell in first_seq ≤ seq < end_seq, as columns."""
        resets = self.arrays["reset_table"]
        resets = resets[(resets[:, layout.RESET_SEQ] >= first_seq) & (resets[:, layout.RESET_SEQ] < end_seq)]
        groups = resets[:, layout.RESET_GROUP]
        reset_columns: Columns = {
            "rule": resets[:, layout.RESET_RULE].copy(),
            "seq": resets[:, layout.RESET_SEQ].copy(),
            "keyGroup": self.store.group_links[groups, layout.KEY_GROUP].astype(np.int64),
        }
        for k, column in enumerate(self.key_columns):
            reset_columns[f"key:{column}"] = self.arrays["groups"][groups, layout.KEY + k]
        return reset_columns

    def load(self, events: Columns, resets: Columns, room_for_events: int = 0) -> None:
        """Restores what `export_events_and_resets` returned, in order of seq; each call must have later seqs than the one before.

        `room_for_events`: how many more events need room.
        """
        batch = self.to_batch(events)
        self._make_room(events=len(batch.times_ms) + room_for_events)
        seq = writable_int64(events["seq"])
        assert not len(seq) or seq[0] > self.last_seq, "events are taken back in order of seq"
        done = 0
        while done < len(seq):
            self._make_room(groups=1, twins=groups.MOST_TWINS)
            done = restore.load_events(self.store, batch, seq, done)
        rows = len(resets["seq"])
        self._make_room(groups=rows, resets=rows)
        key_group, rule, reset_seq = (writable_int64(resets[name]) for name in ("keyGroup", "rule", "seq"))
        restore.load_resets(self.store, self.group_keys(resets, rows), key_group, rule, reset_seq)

    def compact(self, room_for_events: int = 0, before_ms: int = layout.NEVER) -> None:
        """Removes expired events, groups and resets, and those from before `before_ms`; makes room for `room_for_events` more events."""
        old, resets = copy(self), self.export_resets(0, END_OF_SEQS)
        self._drop_unused()
        shared.read_in_order(self.path, "events")
        self.arrays = self._create(self._room_at_first)
        nothing, seq = old.export_resets(0, 0), 0
        while seq < END_OF_SEQS:
            # after a rescale, several events may have one seq
            upto = max(old.seq_of_row_after(seq, MOVED_ROWS), seq + 1)
            events = old.export_events(seq, upto)
            if before_ms != layout.NEVER:
                kept = np.flatnonzero(events["time"] >= before_ms)
                events = {name: take_rows(values, kept) for name, values in events.items()}
            self.load(events, nothing)
            seq = upto
        self.load(old.export_events(0, 0), resets, room_for_events)

    def _mostly_expired(self) -> bool:
        """Whether more than half of some events are expired: of all of them if these are few, else spread evenly among them."""
        sample = self.arrays["events"][: self.event_count : self.event_count // SAMPLE_EVENTS + 1]
        return 2 * np.count_nonzero(self._unexpired(sample)) < len(sample)
