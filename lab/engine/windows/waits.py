"""Absence: what a rule awaits after events, in shared memory as the windows are, and in state files as rows."""

import json
import secrets
from bisect import bisect_left
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.engine.compiled import waits as loop
from lab.engine.compiled.layout import NOTHING
from lab.engine.records.columns import BEFORE_ALL, HEARD, LOG_TIME, RELATED, Columns, writable_int64
from lab.engine.windows import shared
from lab.engine.windows.alertlines import event_fields_json, event_id_texts, group_texts
from lab.engine.windows.arrays import next_power_of_two
from lab.engine.windows.store import DueAlert, RouteStore
from lab.model.alerts import Alert
from lab.model.group import group_key
from lab.model.rule import Rule

ROOM_AT_FIRST = 1024  # entries
TEXT_AT_FIRST = 64  # bytes for each


class Waits:
    """What a rule that says `absence` awaits, in the file `path` of shared memory."""

    def __init__(self, path: Path, rule: Rule, key_columns: list[str]):
        self.path, self.rule, self.key_columns = path, rule, key_columns
        text_room = TEXT_AT_FIRST * ROOM_AT_FIRST
        self._arrays = shared.attach_arrays(path) if path.exists() else self._create(ROOM_AT_FIRST, text_room)

    def _create(self, room: int, text: int) -> shared.Arrays:
        arrays = shared.create_arrays(
            self.path,
            {
                "scalars": ("int64", (loop.SALT + 1,)),
                "entries": ("int64", (room, loop.KEY + len(self.key_columns))),
                "newest_entries": ("int32", (next_power_of_two(room + room // 3 + 1),)),
                "texts": ("uint8", (text,)),
            },
        )
        arrays["scalars"][loop.SALT] = secrets.randbits(63)
        arrays["newest_entries"].fill(NOTHING)
        return arrays

    @property
    def arrays(self) -> loop.WaitArrays:
        return loop.WaitArrays(**self._arrays)

    @property
    def memory_bytes(self) -> int:
        return sum(array.nbytes for array in self._arrays.values())

    @property
    def due_ms(self) -> int | None:
        """The log time after which the next alert is due; None if there is no open wait, or in a log that is not live, where only events end one."""
        arrays, first = self.arrays, loop.find_first_open(self.arrays)
        if first == arrays.scalars[loop.ENTRIES] or not arrays.entries[first, loop.FLAGS] & loop.LIVE:
            return None
        return int(arrays.entries[first, loop.AT]) + self.rule.aggregation.window_ms

    @property
    def awaited_until_ms(self) -> int:
        """When the wait of the newest entry ends, ms; BEFORE_ALL without entries."""
        entries = self.arrays.scalars[loop.ENTRIES]
        return (
            int(self.arrays.entries[entries - 1, loop.AT]) + self.rule.aggregation.window_ms
            if entries
            else BEFORE_ALL
        )

    # -- events --------------------------------------------------------------------------------------------------------

    def add_events(
        self, store: RouteStore, columns: Columns, fates: np.ndarray, first_seq: int
    ) -> list[DueAlert]:
        """Adds the events that `store.evaluate(columns, first_seq, …)` has evaluated. Returns the alerts that they show to be due.

        Sets the fates of records that take back the events of these alerts.
        """
        count = len(fates)
        starts = np.ones(count, bool)
        column, bit = store.numbers.when_bits[store.rules.index(self.rule)].tolist()
        if column != NOTHING:
            starts = columns[f"when:{column}"] & bit != 0
        where, ends = self.rule.aggregations[0].where_result_name, np.ones(count, bool)
        if where:
            found = columns.get(f"value:{where}")
            ends = np.zeros(count, bool)
            if found is not None:
                ends = pa.array(found).is_valid().to_numpy(zero_copy_only=False)
        of_rows = np.flatnonzero(starts & (fates < loop.STORED_LATE))
        texts = np.empty(count, object)
        texts[of_rows] = _texts(store, columns, self.rule, of_rows).to_pylist()
        rows = loop.WaitRows(
            fates,
            writable_int64(columns["keyGroup"]),
            store.group_keys(columns, count),
            first_seq + np.arange(count),
            columns[HEARD],
            columns[LOG_TIME] > 0,
            writable_int64(columns["time"]),
            writable_int64(columns["id"]),
            starts,
            ends,
            columns.get(RELATED, np.zeros(count, np.int64)),
            *_bytes(pa.array(texts, pa.large_string())),
        )
        return self._due_alerts(self._follow(rows))

    def _follow(self, rows: loop.WaitRows) -> np.ndarray:
        arrays, new, text = self.arrays, len(rows.fates), len(rows.texts)
        room, text_room = len(arrays.entries), len(arrays.texts)
        if arrays.scalars[loop.ENTRIES] + new > room or arrays.scalars[loop.TEXT] + text > text_room:
            self._make_room(new, text)
        passed = np.empty(self.arrays.scalars[loop.ENTRIES] + new, np.int64)
        return passed[: loop.add_rows(self.arrays, rows, self.rule.aggregation.window_ms, passed)]

    def advance_to(self, reached_log_ms: int, newest_event_ms: int) -> list[DueAlert]:
        """The alerts of waits that ended before `reached_log_ms`; in a log that is not live, before `newest_event_ms`."""
        size = self.arrays.scalars
        if size[loop.HEAD] == size[loop.ENTRIES]:
            return []
        passed = np.empty(size[loop.ENTRIES] - size[loop.HEAD], np.int64)
        return self._due_alerts(
            passed[
                : loop.advance_head(
                    self.arrays, self.rule.aggregation.window_ms, reached_log_ms, newest_event_ms, passed
                )
            ]
        )

    def _due_alerts(self, passed: np.ndarray) -> list[DueAlert]:
        places = self.arrays.entries[passed][:, [loop.AT, loop.KEY_GROUP, loop.SEQ]].tolist()
        return [
            DueAlert(at + self.rule.aggregation.window_ms, key_group, seq, self._alert(e))
            for (at, key_group, seq), e in zip(places, passed.tolist(), strict=True)
        ]

    def _alert(self, e: int) -> Alert:
        arrays, rule = self.arrays, self.rule
        entry = arrays.entries[e]
        group, event_id, fields_json = self._text(e).split("\n")
        values = json.loads(group)
        return Alert(
            rule.rule_id,
            rule.version,
            group_key(values, values.values()),
            Decimal(0),
            rule.first.operator,
            rule.first.limit,
            _id(json.loads(event_id)) if event_id else int(entry[loop.ID]),
            int(entry[loop.TIME]),
            log_time=int(entry[loop.AT]) + rule.aggregation.window_ms
            if entry[loop.FLAGS] & loop.LIVE
            else None,
            group=tuple(values.items()),
            carried=rule.carried,
            event=tuple(json.loads(fields_json).items()) if fields_json else (),
        )

    def _text(self, e: int) -> str:
        arrays = self.arrays
        last = e + 1 == arrays.scalars[loop.ENTRIES]
        end = arrays.scalars[loop.TEXT] if last else arrays.entries[e + 1, loop.FROM]
        return arrays.texts[arrays.entries[e, loop.FROM] : end].tobytes().decode()

    # -- room ----------------------------------------------------------------------------------------------------------

    def _make_room(self, entries: int, text: int) -> None:
        """Makes room for so many more entries and bytes of text, and drops the entries that are no longer needed."""
        kept = np.zeros(self.arrays.scalars[loop.ENTRIES], np.uint8)
        loop.mark_needed_entries(self.arrays, kept)
        self._keep_only(np.flatnonzero(kept), entries, text)

    def _keep_only(self, rows: np.ndarray, entries: int = 0, text: int = 0) -> None:
        """Keeps some entries, in this order, and makes room for so many more entries and bytes of text."""
        old = self.arrays
        needed, text_needed = len(rows) + entries, int(loop.text_bytes(old, rows)) + text
        room = max(needed + needed // 2, ROOM_AT_FIRST)
        self._arrays = self._create(room, max(text_needed + text_needed // 2, TEXT_AT_FIRST * ROOM_AT_FIRST))
        loop.copy_entries(old, self.arrays, rows)
        kept = self.arrays.entries[: len(rows)]
        kept[:, loop.BY_SEQ] = np.argsort(kept[:, loop.SEQ], kind="stable")

    # -- state files ---------------------------------------------------------------------------------------------------

    def export(self, first_seq: int, end_seq: int) -> Columns:
        """The entries with first_seq ≤ seq < end_seq that are still needed."""
        arrays = self.arrays
        seqs = arrays.entries[: arrays.scalars[loop.ENTRIES], loop.SEQ]
        first, end = (bisect_left(seqs, seq) for seq in (first_seq, end_seq))  # NumPy's would copy the column
        rows = np.arange(max(first, arrays.scalars[loop.HEAD]), end)
        rows = rows[arrays.entries[rows, loop.FLAGS] & (loop.OPEN | loop.MARK | loop.GONE) != 0]
        entry = arrays.entries[rows]
        columns: Columns = {
            "seq": entry[:, loop.SEQ],
            "keyGroup": entry[:, loop.KEY_GROUP],
            "id": entry[:, loop.ID],
            "rule": np.full(len(entry), self.rule.rule_id),
            "version": np.full(len(entry), self.rule.version),
            "waits": entry[:, loop.FLAGS],
            "heard": entry[:, loop.AT],
            "eventTime": entry[:, loop.TIME],
            "text": self._texts_between(first, end).take(pa.array(rows - first)),
        }
        return columns | {f"key:{name}": entry[:, loop.KEY + k] for k, name in enumerate(self.key_columns)}

    def _texts_between(self, first: int, end: int) -> pa.Array:
        """The texts of the entries `first` … `end` - 1."""
        arrays = self.arrays
        ends_at = (
            arrays.scalars[loop.TEXT]
            if end == arrays.scalars[loop.ENTRIES]
            else arrays.entries[end, loop.FROM]
        )
        offsets = np.append(arrays.entries[first:end, loop.FROM], ends_at)
        return pa.LargeStringArray.from_buffers(
            end - first, pa.py_buffer(offsets), pa.py_buffer(arrays.texts)
        )

    def load(self, columns: Columns) -> None:
        """Adds the entries that `export` returned, in order of seq. After a rescale, puts those of several tasks in log order."""
        flags, count = columns["waits"], len(columns["waits"])
        key = [columns[f"key:{name}"] for name in self.key_columns]
        self._follow(
            loop.WaitRows(
                np.where(flags & loop.GONE, loop.TAKEN_BACK, 0).astype(np.uint8),
                writable_int64(columns["keyGroup"]),
                writable_int64(np.column_stack(key) if key else np.empty((count, 0))),
                writable_int64(columns["seq"]),
                writable_int64(columns["heard"]),
                flags & loop.LIVE != 0,
                writable_int64(columns["eventTime"]),
                writable_int64(columns["id"]),
                flags & loop.OPEN != 0,
                flags & loop.MARK != 0,
                writable_int64(columns["eventTime"]),
                *_bytes(pa.array(columns["text"])),
            )
        )
        seq, at = self.arrays.entries[: self.arrays.scalars[loop.ENTRIES], [loop.SEQ, loop.AT]].T
        if (at[1:] < at[:-1]).any():
            self._keep_only(np.lexsort((seq, at)))


def _texts(store: RouteStore, columns: Columns, rule: Rule, rows: np.ndarray) -> pa.Array:
    """What later alerts need of events, as one text each: group, id and fields, each as JSON or empty."""
    _, groups = group_texts(store, columns, rule.keys, rows)
    empty = pa.array([""] * len(rows), groups.type)
    ids = empty if store.schema.has_numeric_id else event_id_texts(store, columns, rows).as_json
    fields_json = event_fields_json(store, columns, rule.event_fields, rows) if rule.event_fields else empty
    return pc.binary_join_element_wise(groups, ids, fields_json, pa.scalar("\n", groups.type))


def _bytes(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The offset of each row's text, with the end of the last one, and the bytes; a null has no bytes."""
    texts = pc.fill_null(texts.cast(pa.large_string()), "")
    _, offsets, data = texts.buffers()
    offset = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return writable_int64(offset), np.array(
        np.frombuffer(data, np.uint8) if data and data.size else (), np.uint8
    )


def _id(value: object) -> str | tuple:
    """An event's id as alerts have it."""
    return tuple(value) if isinstance(value, list) else str(value)
