"""What a task counts in one micro-batch, and the line of the stats log that contains it."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lab.engine.checkpoint.durable import take_waited_ms
from lab.engine.compiled import groups, layout, window
from lab.engine.compiled.layout import CONDITION, RULE, SUPPRESSED
from lab.engine.compiled.rulenumbers import int64_columns, not_null_bit, readable_value
from lab.engine.records.columns import ID_TEXT, RELATED, Columns, take_rows
from lab.engine.windows.alertlines import group_texts
from lab.engine.windows.readingreport import ReadingReport
from lab.engine.windows.statefiles import StateFile
from lab.engine.windows.store import RouteStore
from lab.engine.windows.waits import Waits
from lab.model.aggregation import ONE_BIT
from lab.model.alerts import Alert
from lab.model.routestats import (
    EXAMPLES,
    FATES,
    RouteTallies,
    is_loss_worth_reporting,
    largest_counts_and_other,
    make_duplicate_example,
    make_late_example,
)
from lab.model.rules import MAX_RULES
from lab.model.statuslines import ALERT_COUNTS
from lab.model.times import now_ms


def duplicate_example(store: RouteStore, columns: Columns, row: int) -> dict[str, Any]:
    """The event in a row of columns, which is a duplicate, and the one with its id and time that its group holds."""
    one = {name: take_rows(values, np.array([row])) for name, values in columns.items()}
    batch = store.to_batch(one)
    groups.find_known_groups(store.store, batch, 0, 1)
    stored_row = groups.last_event_at_or_before(store.store, batch.groups[0], batch.times_ms[0])
    event, links = store.store.events, store.store.links
    while event[stored_row, layout.ID] != batch.event_ids[0]:
        stored_row = links[stored_row, layout.PREV]
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


# -- what a task counts ------------------------------------------------------------------------------------------------


EXAMPLE_OF = (window.DUPLICATE, duplicate_example), (window.DROPPED_LATE, late_example)


class StoreCounts(NamedTuple):
    """Counts of one store's events: by fate, stored ones by key-group, and alerts, suppressed and muted alerts by rule.

    `examples`: two records that are duplicates, and an event that was dropped late, each if there are many.
    """

    store: RouteStore
    fate_counts: np.ndarray
    stored_by_key_group: np.ndarray
    alerts_by_rule: np.ndarray
    suppressed_by_rule: np.ndarray
    muted_by_rule: np.ndarray
    examples: tuple[dict | None, dict | None]


class BatchStats:
    """What evaluating a micro-batch counts."""

    def __init__(self, key_groups: int):
        self.counts: Counter[str] = Counter()
        self._by_key_group = np.zeros(key_groups, np.int64)
        self._alerts = {name: Counter[str]() for name in ALERT_COUNTS}  # by rule id and version
        self._routes, self._examples_left = RouteTallies(at_most=MAX_RULES), EXAMPLES

    @property
    def stored_events(self) -> int:
        """How many events were stored, on all routes."""
        return int(self._by_key_group.sum())

    def count_store_events(
        self,
        store: RouteStore,
        columns: Columns,
        fates: np.ndarray,
        alert_rows: np.ndarray,
        first_rows: np.ndarray,
        muted_by_rule: np.ndarray,
    ) -> StoreCounts:
        """Counts the result of `store.evaluate(columns, …)`, `without_muted`, and its `first_row_of_each_alert`. Other threads may do this for other stores."""
        stored = columns["keyGroup"][fates <= window.STORED_LATE]
        counts = np.bincount(fates, minlength=window.WITHDRAWN + 1)
        counts[window.TAKEN_BACK] += counts[window.WITHDRAWN]
        examples: list[dict | None] = [None, None]
        for n, (fate, make) in enumerate(EXAMPLE_OF):
            if self._examples_left > 0 and is_loss_worth_reporting(int(counts[fate]), len(fates)):
                self._examples_left -= 1
                examples[n] = make(store, columns, int(np.argmax(fates == fate)))
        by_key_group = np.bincount(stored, minlength=len(self._by_key_group))
        fired = np.bincount(alert_rows[first_rows, RULE], minlength=len(store.rules))
        suppressed = np.bincount(alert_rows[alert_rows[:, CONDITION] == SUPPRESSED, RULE])
        of_rules = fired, suppressed, muted_by_rule
        return StoreCounts(store, counts, by_key_group, *of_rules, (examples[0], examples[1]))

    def add(self, counts: StoreCounts) -> None:
        """Adds the counts of one store's events."""
        rules, fates = counts.store.rules, dict(zip(FATES, counts.fate_counts.tolist()))
        self.counts.update(fates)
        self._routes.add(counts.store.route, rules[0].rule_id, len(rules), fates, *counts.examples)
        self._by_key_group += counts.stored_by_key_group
        in_shadow = np.array([rule.state == "SHADOW" for rule in rules])
        for name, of_rows in (
            ("alerts", counts.alerts_by_rule * ~in_shadow),
            ("shadowAlerts", counts.alerts_by_rule * in_shadow),
            ("suppressed", counts.suppressed_by_rule),
            ("muted", counts.muted_by_rule),
        ):
            for row in np.flatnonzero(of_rows).tolist():
                self._add_alerts(name, rules[row].rule_id, rules[row].version, int(of_rows[row]))

    def add_absence_alerts(
        self, alerts: Iterable[Alert], muted: Iterable[Alert], shadow: Iterable[Alert]
    ) -> None:
        """Adds alerts that no event of the batch raised."""
        for name, some in (("alerts", alerts), ("muted", muted), ("shadowAlerts", shadow)):
            for alert in some:
                self._add_alerts(name, alert.rule_id, alert.rule_version, 1)

    def _add_alerts(self, name: str, rule_id: int, version: int, count: int) -> None:
        self.counts[name] += count
        self._alerts[name][f"{rule_id}.{version}"] += count

    def to_json_line(
        self,
        head: Mapping,
        report: ReadingReport,
        engine: Mapping[str, int | str | bool],
        stores: Collection[RouteStore],
        all_waits: Iterable[Waits],
        state_files: Sequence[StateFile],
    ) -> str:
        """The line, which begins with `head`. `engine`: which engine writes it, with which settings; none if empty.

        `report`: of the tasks that read the micro-batch. Stores, what rules await and files are those after it.
        """
        counts = Counter(report.counts)
        counts.update(self.counts)
        stats = {**head, **counts}
        stats["heldEvents"] = sum(store.event_count for store in stores)
        stats["groups"] = sum(store.group_count for store in stores)
        by_name = {
            **{
                ALERT_COUNTS[name].by_rule: largest_counts_and_other(counts)
                for name, counts in self._alerts.items()
            },
            "deadLettersBy": report.dead_letters_by_kind,
        }
        stats |= {name: dict(counts) for name, counts in by_name.items() if counts}
        stats |= self._routes.to_stats()
        stored = np.flatnonzero(self._by_key_group)
        stats["stored"] = dict(zip(stored.tolist(), self._by_key_group[stored].tolist()))
        memory = sum(store.memory_bytes for store in stores) + sum(waits.memory_bytes for waits in all_waits)
        stats |= {"memoryBytes": memory, "files": len(state_files)}
        if on_disk := sum(store.disk_bytes for store in stores):
            stats["diskBytes"] = on_disk
        if waited_ms := take_waited_ms():
            stats["diskWaitMs"] = waited_ms
        stats["stateBytes"] = sum(file.size_bytes for file in state_files)
        stats["times"] = {**report.times_ms, "end": now_ms()}
        if engine:
            stats["engine"] = engine
        if report.cut:
            stats["cut"] = report.cut
        return json.dumps(stats)
