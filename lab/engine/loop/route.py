"""Route (dynamic partitioning): each event goes to the key-group of its group, once for each route of the current rules.

The counterpart of the Flink demo's `DynamicKeyFunction`. Rules with the same keys and filter share a route, and fields that
none of them needs stay behind. Every task knows the control messages of the batch: the broadcast state pattern.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.engine.checkpoint.ledger import CutRecord, Ledger
from lab.engine.checkpoint.settings import Settings
from lab.engine.compiled.layout import COUNTS, TAKES_BACK
from lab.engine.compiled.rulenumbers import STATE, distinct_whens, when_bit
from lab.engine.records.columns import (
    HEARD,
    ID,
    ID_TEXT,
    LOG_TIME,
    PLACE,
    SOURCE,
    Columns,
    in_log_order,
    log_time_or_event_time,
    take_rows,
    take_rows_in_order,
)
from lab.engine.records.conditions import ConditionEvaluator
from lab.engine.records.decode import DecodedBatch
from lab.engine.windows.evaluate import Envelope
from lab.engine.windows.store import int64_columns
from lab.model import horizon
from lab.model.horizon import newest_times
from lab.model.keygroups import digest, key_groups_of
from lab.model.rule import Route, Rule
from lab.model.schema import Schema
from lab.model.when import FieldValues, When
from lab.model.whenreader import taken_back_condition


class RoutedEvents(NamedTuple):
    """The events of a micro-batch, as the tasks receive them. The rows of an envelope are in log order."""

    envelopes: list[Envelope]
    counts: Counter
    newest_event_times: list[list[int]]  # before each change, and at the end: see `newest_times`; ms


def route_events(
    batch: DecodedBatch, ledger: Ledger, changes: list[CutRecord], settings: Settings
) -> RoutedEvents:
    """Routes a micro-batch under the rules of `ledger`; applies each change at its place in the log."""
    counts = Counter(records=batch.records, deadLetters=len(batch.dead_letters))
    events = in_log_order(batch.events) if batch.events else {LOG_TIME: np.empty(0, np.int64)}
    events = with_take_back_column(events, settings.schema) if batch.events else events
    places = np.searchsorted(events[LOG_TIME], [change.log_time for change in changes]).tolist()
    envelopes, first, newest = [], 0, list[list[int]]([[]])
    for after, end in enumerate([*places, len(events[LOG_TIME])]):
        newest.append(newest[-1])
        if end > first:
            times = events[settings.schema.time_field]
            newest[-1] = _newest_times(newest[-1], np.asarray(times[first:end]))
            part = {name: values[first:end] for name, values in events.items()}
            envelopes += _between(part, ledger, after, counts, settings)
            first = end
        if after < len(changes):
            ledger.apply(changes[after].record)
    return RoutedEvents(envelopes, counts, newest[1:])


def _newest_times(before: list[int], times: np.ndarray) -> list[int]:
    """`newest_times` of `before` and many more."""
    count = horizon.WITNESSES
    most = np.partition(times, -count)[-count:] if len(times) > count else times
    return newest_times([*before, *most.tolist()])


def _between(
    events: Columns, ledger: Ledger, after: int, counts: Counter, settings: Settings
) -> Iterator[Envelope]:
    """Envelopes for the events between two control messages; `after`: how many of the batch came before."""
    unclaimed = np.ones(len(events[LOG_TIME]), bool)
    events = {name: _numpy(values) for name, values in events.items()}
    found = FilterMatches(events, [plan.route for plan in ledger.plans], settings.schema)
    for plan in ledger.plans:
        rows = found.rows(plan.route)
        if not len(rows):
            continue
        columns = routed_columns(events, rows, plan.route, plan.rules, settings.schema)
        columns |= when_columns(plan.rules, events, rows, settings.schema) | alert_columns(
            plan.rules, events, rows
        )
        if STATE in events:
            columns[PLACE] = rows
        if STATE in events or any(rule.absence for rule in plan.rules):
            columns[HEARD] = arrival_times(events, settings.schema)[rows]
        unclaimed[rows] = False
        key = [values for name, values in columns.items() if name.startswith("key:")]
        columns["keyGroup"] = key_groups_of(key, len(rows), settings.key_groups).astype(np.int64)
        yield Envelope(after, plan.entry.store, columns)
    unrouted = int(np.count_nonzero(unclaimed))
    counts.update(routed=len(unclaimed) - unrouted, unrouted=unrouted)


def alert_columns(rules: Iterable[Rule], events: Columns, rows: np.ndarray) -> Columns:
    """The fields of events that the rules' alerts tell. `rows`: ascending."""
    return {
        f"told:{name}": take_rows_in_order(events[name], rows) for rule in rules for name in rule.event_fields
    }


def arrival_times(events: Columns, schema: Schema) -> np.ndarray:
    """When each event was heard of, as these events alone tell; `Windows` knows those before."""
    times = np.asarray(events[schema.time_field], np.int64)
    return log_time_or_event_time(events[LOG_TIME], np.maximum.accumulate(times))


def split_by_task(envelope: Envelope, settings: Settings) -> Iterator[tuple[int, Envelope]]:
    """An envelope cut by the tasks that own its rows' key-groups."""
    tasks = envelope.columns["keyGroup"] * settings.parallelism // settings.key_groups
    order = np.argsort(tasks, kind="stable")
    bounds = np.searchsorted(tasks[order], np.arange(settings.parallelism + 1)).tolist()
    for task, (first, end) in enumerate(pairwise(bounds)):
        if end > first:
            rows = order[first:end]
            part = {name: take_rows(values, rows) for name, values in envelope.columns.items()}
            yield task, Envelope(envelope.control_messages_before, envelope.store_number, part)


def matching_rows(events: Columns, route: Route, schema: Schema) -> np.ndarray:
    """The rows that pass the route's filter and have a group, in order."""
    return FilterMatches(events, [route], schema).rows(route)


class FilterMatches:
    """The rows that pass the filters of routes. Of those that say which values fields must have, a column is looked through once for all that
    begin with it, not once for each; any other is evaluated as a condition.
    """

    def __init__(self, events: Columns, routes: Iterable[Route], schema: Schema):
        self.events, self.schema = events, schema
        wanted: dict[str, dict] = {}
        of_values = (route.field_values for route in routes if route.field_values)
        for (name, values), *_ in (list(_stored(filter, schema)) for filter in of_values):
            wanted.setdefault(name, {}).update(dict.fromkeys(values))
        self._by_value = {name: _rows_by_value(events[name], list(values)) for name, values in wanted.items()}
        self._given = ConditionEvaluator(events, None, schema)

    def rows(self, route: Route) -> np.ndarray:
        """Those that pass the route's filter or take an event back, and have a group, in order."""
        if route.field_values is not None:
            rows = self._with_values(route.field_values)
        else:
            rows = np.flatnonzero(self._given.true_mask(cast(When, route.filter)))
        if STATE in self.events:  # what takes an event back need not look like it
            rows = np.union1d(rows, np.flatnonzero(self.events[STATE] == TAKES_BACK))
        for name in route.keys:
            if isinstance(self.events[name], pa.Array):
                rows = rows[
                    take_rows_in_order(self.events[name], rows).is_valid().to_numpy(zero_copy_only=False)
                ]
        return rows

    def _with_values(self, filter: FieldValues) -> np.ndarray:
        rows = np.arange(len(self.events[LOG_TIME]))
        for number, (name, values) in enumerate(_stored(filter, self.schema)):
            if number == 0:
                parts = [self._by_value[name][value] for value in values]
                rows = np.sort(np.concatenate(parts)) if len(parts) > 1 else parts[0]
            else:
                column = pa.array(take_rows_in_order(self.events[name], rows))
                rows = rows[pc.is_in(column, pa.array(values, column.type)).to_numpy(zero_copy_only=False)]
        return rows


def _rows_by_value(column: np.ndarray | pa.Array, values: list) -> dict[int | str, np.ndarray]:
    """The rows that have each of some different values, in order.

    >>> {value: rows.tolist() for value, rows in _rows_by_value(np.array([7, 5, 7, 6]), [5, 7, 8]).items()}
    {5: [1], 7: [0, 2], 8: []}
    """
    column = pa.array(column)
    numbers = pc.fill_null(pc.index_in(column, pa.array(values, column.type)), len(values)).to_numpy()
    numbers = numbers.astype(np.min_scalar_type(len(values)))  # short ones are sorted faster
    rows = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[rows], np.arange(len(values) + 1)).tolist()
    return {value: rows[first:end] for value, (first, end) in zip(values, pairwise(ends))}


def _stored(filter: FieldValues, schema: Schema) -> Iterator[tuple[str, list]]:
    """A filter's values as columns hold them."""
    for name, values in filter:
        scale = schema.field(name).scale
        yield name, [int(v.scaleb(scale)) if isinstance(v, Decimal) else v for v in values]


def routed_columns(
    events: Columns, rows: np.ndarray, route: Route, rules: Iterable[Rule], schema: Schema
) -> Columns:
    """What travels on a route: id, time, place in the log, the key, and what the rules need. `rows`: ascending."""
    columns: Columns = {
        "id": _numpy(take_rows_in_order(events[ID if ID in events else schema.id_fields[0]], rows)),
        "time": _numpy(take_rows_in_order(events[schema.time_field], rows)),
        LOG_TIME: take_rows_in_order(events[LOG_TIME], rows),
        SOURCE: take_rows_in_order(events[SOURCE], rows),
    }
    if STATE in events:
        columns[STATE] = take_rows_in_order(events[STATE], rows)
    if ID in events:
        columns[ID_TEXT] = take_rows_in_order(events[ID_TEXT], rows)
    for name in route.keys:
        values = take_rows_in_order(events[name], rows)
        columns |= {f"key:{column}": half for column, half in _numbers(name, values, schema)}
        if not schema.field(name).is_number_or_time:
            columns[f"text:{name}"] = values
    measured = [of for rule in rules for of in rule.aggregations]
    wheres = {name: where for of in measured for name, where in of.event_conditions.items()}
    for name in sorted({name for of in measured for name in of.stored_field_names}):
        if where := wheres.get(name):
            true = ConditionEvaluator(events, rows, schema).true_mask(where)
            columns[f"value:{name}"] = pa.array(np.ones(len(rows), np.int64), mask=~true)
            continue
        values = take_rows_in_order(events[name], rows)
        columns |= {f"value:{column}": half for column, half in _numbers(name, values, schema)}
    return columns


def _numbers(
    name: str, values: np.ndarray | pa.Array, schema: Schema
) -> Iterator[tuple[str, np.ndarray | pa.Array]]:
    """A field as int64 columns: itself, or the two halves of a string's digest; nulls stay nulls."""
    columns = int64_columns(schema, name)
    if len(columns) == 1:
        yield name, _numpy(values)
        return
    encoded = values.dictionary_encode()
    digests = np.array([digest(text) for text in encoded.dictionary.to_pylist()], np.int64).reshape(-1, 2)
    for half, column in enumerate(columns):
        numbers = pa.array(digests[:, half]).take(encoded.indices)
        yield column, _numpy(numbers)


def _numpy(values: np.ndarray | pa.Array) -> np.ndarray | pa.Array:
    """Numbers as NumPy's, unless some are null."""
    if isinstance(values, np.ndarray) or values.null_count or not pa.types.is_int64(values.type):
        return values
    return values.to_numpy()


# -- what conditions of rules say of events ---------------------------------------------------------------------------


def when_columns(rules: Iterable[Rule], events: Columns, rows: np.ndarray, schema: Schema) -> Columns:
    """Which of the rules' conditions are true of some rows of events."""
    columns: Columns = {}
    whens = distinct_whens(rules)
    if whens:
        given = ConditionEvaluator(events, rows, schema)
        for number, when in enumerate(whens):
            name, bit = when_bit(number)
            word = columns.setdefault(name, np.zeros(len(rows), np.int64))
            word |= np.where(given.true_mask(when), np.int64(bit), 0)
    return columns


def with_take_back_column(events: Columns, schema: Schema) -> Columns:
    """Events, with what each is, where some take back others."""
    condition = taken_back_condition(schema)
    if condition is None:
        return events
    true = ConditionEvaluator(events, None, schema).true_mask(condition)
    return events | {STATE: np.where(true, TAKES_BACK, COUNTS)}
