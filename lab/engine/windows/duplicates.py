"""Examples of lost events: two that are duplicates, with what the route's rules need of each, or one dropped late beside the newest."""

from typing import Any

import numpy as np

from lab.engine.compiled import groups, layout
from lab.engine.compiled.rulenumbers import int64_columns, not_null_bit, readable_value
from lab.engine.records.columns import ID_TEXT, RELATED, Columns, take_rows
from lab.engine.windows.alertlines import group_texts
from lab.engine.windows.store import RouteStore
from lab.model.aggregation import ONE_BIT
from lab.model.tallies import make_duplicate_example, make_late_example


def duplicate_example(store: RouteStore, columns: Columns, row: int) -> dict[str, Any]:
    """The event in a row of columns, which is a duplicate, and the one with its id and time that its group holds."""
    one = {name: take_rows(values, np.array([row])) for name, values in columns.items()}
    batch = store.to_batch(one)
    groups.find_known_groups(store.store, batch, 0, 1)
    stored_row = groups.last_event_at_or_before(store.store, batch.groups[0], batch.times_ms[0])
    event = store.arrays["events"]
    while event[stored_row, layout.ID] != batch.event_ids[0]:
        stored_row = event[stored_row, layout.PREV]
    event_id, key = _id_and_key(store, one)
    records = [_needed(store, values) for values in (event[stored_row, layout.VALUES :], batch.values[0])]
    return make_duplicate_example(event_id, int(batch.times_ms[0]), key, *records)


def late_example(store: RouteStore, columns: Columns, row: int) -> dict[str, Any]:
    """The event in a row of columns, which was dropped late, and the newest event beside it."""
    one = {name: take_rows(values, np.array([row])) for name, values in columns.items()}
    event_id, key = _id_and_key(store, one)
    newest = store.arrays["events"][int(columns[RELATED][row])]
    newest_id = int(newest[layout.ID]) if store.schema.has_numeric_id else ""
    return make_late_example((event_id, int(one["time"][0])), key, (newest_id, int(newest[layout.TIME])))


def _id_and_key(store: RouteStore, one: Columns) -> tuple[int | str, str]:
    event_id = one[ID_TEXT][0].as_py() if ID_TEXT in one else int(one["id"][0])
    return event_id, group_texts(store, one, store.route.keys, np.array([0])).whole_keys[0].as_py()


def _needed(store: RouteStore, values: np.ndarray) -> dict[str, Any]:
    """The fields that an event keeps; of a text there is only a digest, in hex."""
    found: dict[str, Any] = {}
    for number, name in enumerate(store.fields):
        if name.startswith(ONE_BIT):
            continue
        column, bit = not_null_bit(number)
        if not int(values[store.value_columns.index(column)]) & bit:
            found[name] = None
            continue
        numbers = [int(values[store.value_columns.index(half)]) for half in int64_columns(store.schema, name)]
        found[name] = readable_value(store.schema.field(name), numbers)
    return found
