"""Route (dynamic partitioning): each event goes to the key-group of its group, once for each route of the current rules.

The counterpart of the Flink demo's `DynamicKeyFunction`. Keyed by lane; state: rules. Rules with the same keys and filter
share a route, and fields that none of them needs stay behind.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row

from lab.engine.columns import Columns, in_log_order, take, to_batch, to_bytes, unpack
from lab.engine.settings import Settings
from lab.engine.store import halves
from lab.keygroups import digest, key_groups_of, placed_ids
from lab.rules import Filter, Route, Rule, RuleBook
from lab.schema import Schema


def route_batch(state: Any, lane: int, rows: Iterable[Row], settings: Settings) -> Iterator[Row]:
    """A micro-batch of one lane, rows of `decode.ENVELOPES`, as rows of `operators.ROUTED`; `state` holds the rule book."""
    schema, key_groups = settings.schema, placed_ids(settings.key_groups)
    saved = state.get()
    book = RuleBook.from_json(saved[0], schema) if saved else RuleBook(schema)
    messages, envelopes, counts = [], [], Counter()
    for row in rows:
        if row.kind == "control":
            messages += json.loads(row.payload)
        elif row.kind == "events":
            envelopes.append(unpack(row.payload)[0])
        elif row.kind == "counts":
            counts.update(json.loads(row.payload))
        else:
            yield Row(key_group=key_groups[0], kind=row.kind, payload=bytes(row.payload))
    messages.sort(key=lambda message: (message["logTime"], message["source"]))  # stable: lines stay in order
    events = in_log_order(envelopes) if envelopes else {"logTime": np.empty(0, np.int64)}
    cuts = np.searchsorted(events["logTime"], [message["logTime"] for message in messages])
    bounds = [0, *cuts.tolist(), len(events["logTime"])]
    for after, (first, end) in enumerate(pairwise(bounds)):
        if after:
            book.apply(bytes.fromhex(messages[after - 1]["message"]))
        if end > first:
            part = {name: values[first:end] for name, values in events.items()}
            yield from _route_between(part, book, after, counts, settings)
    if messages:
        state.update((book.to_json(),))
        if lane == placed_ids(settings.lanes)[0]:
            payload = json.dumps(messages).encode()
            yield from (Row(key_group=key_group, kind="control", payload=payload) for key_group in key_groups)
    if counts:
        yield Row(key_group=key_groups[0], kind="counts", payload=json.dumps(counts).encode())


def _route_between(
    events: Columns, book: RuleBook, after: int, counts: Counter, settings: Settings
) -> Iterator[Row]:
    """Envelopes for the events between two control messages; `after`: how many of the batch came before."""
    unclaimed = np.ones(len(events["logTime"]), bool)
    for route, rules in book.routes().items():
        rows = matching(events, route, settings.schema)
        if not len(rows):
            continue
        columns = routed(events, rows, route, rules, settings.schema)
        columns["first"] = unclaimed[rows].astype(np.int64)
        unclaimed[rows] = False
        key = [values for name, values in columns.items() if name.startswith("key:")]
        groups = key_groups_of(key, len(rows), settings.key_groups)
        order = np.argsort(groups, kind="stable")
        bounds = np.searchsorted(groups[order], np.arange(settings.key_groups + 1)).tolist()
        batch = to_batch({name: take(values, order) for name, values in columns.items()}, [after, route.id])
        for key_group, first, end in zip(placed_ids(settings.key_groups), bounds, bounds[1:], strict=False):
            if end > first:
                yield Row(
                    key_group=key_group, kind="events", payload=to_bytes(batch.slice(first, end - first))
                )
    counts["evaluated"] += int(np.count_nonzero(unclaimed))  # against no rule at all


def matching(events: Columns, route: Route, schema: Schema) -> np.ndarray:
    """The rows that pass the route's filter and have a group, in order."""
    keep = np.ones(len(events["logTime"]), bool)
    for name, values in _stored(route.filter, schema):
        column = pa.array(events[name])
        keep &= pc.is_in(column, pa.array(values, column.type)).to_numpy(zero_copy_only=False)
    for name in route.keys:
        if isinstance(events[name], pa.Array):
            keep &= events[name].is_valid().to_numpy(zero_copy_only=False)
    return np.flatnonzero(keep)


def _stored(filter: Filter, schema: Schema) -> Iterator[tuple[str, list]]:
    """A filter's values as columns hold them."""
    for name, values in filter:
        scale = schema.field(name).scale
        yield name, [int(v.scaleb(scale)) if isinstance(v, Decimal) else v for v in values]


def routed(events: Columns, rows: np.ndarray, route: Route, rules: Iterable[Rule], schema: Schema) -> Columns:
    """What travels on a route: id, time, place in the log, the key, and the fields that its rules need."""
    columns: Columns = {
        "id": take(events[schema.id_field], rows),
        "time": take(events[schema.time_field], rows),
        "logTime": events["logTime"][rows],
        "source": events["source"][rows],
    }
    for name in route.keys:
        values = take(events[name], rows)
        columns |= {f"key:{column}": half for column, half in _numbers(name, values, schema)}
        if not schema.field(name).numeric:
            columns[f"text:{name}"] = values
    for name in sorted({name for rule in rules for name in rule.needs}):
        values = take(events[name], rows)
        columns |= {f"value:{column}": half for column, half in _numbers(name, values, schema)}
    return columns


def _numbers(
    name: str, values: np.ndarray | pa.Array, schema: Schema
) -> Iterator[tuple[str, np.ndarray | pa.Array]]:
    """A field as int64 columns: itself, or the two halves of a string's digest; nulls stay nulls."""
    columns = halves(schema, name)
    if len(columns) == 1:
        yield name, values if isinstance(values, np.ndarray) or values.null_count else values.to_numpy()
        return
    encoded = values.dictionary_encode()
    digests = np.array([digest(text) for text in encoded.dictionary.to_pylist()], np.int64).reshape(-1, 2)
    for half, column in enumerate(columns):
        numbers = pa.array(digests[:, half]).take(encoded.indices)
        yield column, numbers if numbers.null_count else numbers.to_numpy()
