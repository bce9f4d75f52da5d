"""Route (dynamic partitioning): each event goes to the key-group of its group, once for each route of the current rules.

The counterpart of the Flink demo's `DynamicKeyFunction`. Rules with the same keys and filter share a route, and fields that
none of them needs stay behind. Control messages go to every key-group: the broadcast state pattern.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.engine import rulebooks
from lab.engine.columns import Columns, in_log_order, now_ms, take, to_batch, to_bytes
from lab.engine.decode import MicroBatch, decode
from lab.engine.settings import Settings
from lab.engine.store import halves
from lab.model.keygroups import digest, key_groups_of, placed_ids
from lab.model.rules import Filter, Route, Rule, RuleBook
from lab.model.schema import Schema

ROUTED = "key_group int, kind string, payload binary"
Routed = tuple[int, str, bytes]


def decode_and_route(
    rows: Iterator[pa.RecordBatch],
    read: Callable,
    settings: Settings,
    checkpoint: Path,
    batch_id: Callable[[], int],
) -> Iterator[pa.RecordBatch]:
    """A micro-batch of a source's rows → rows of ROUTED. `mapInArrow` runs it."""
    number = batch_id()
    times = {"start": began(checkpoint, number), "decode": now_ms()}
    batch = decode(rows, read, settings.schema, settings.max_future_ms)
    times["route"] = now_ms()
    book = rulebooks.before(checkpoint, number, settings.schema)
    routed = list(route(batch, book, settings))
    times["evaluate"] = now_ms()
    routed.append((placed_ids(settings.key_groups)[0], "times", json.dumps(times).encode()))
    key_groups, kinds, payloads = zip(*routed, strict=True)
    yield pa.record_batch(
        [pa.array(key_groups, pa.int32()), pa.array(kinds), pa.array(payloads, pa.binary())],
        names=["key_group", "kind", "payload"],
    )


def began(checkpoint: Path, batch_id: int) -> int:
    """When Spark began a micro-batch, in ms, as its write-ahead log of offsets says; 0 where there is none."""
    log = checkpoint / "offsets" / str(batch_id)
    return json.loads(log.read_text().split("\n")[1])["batchTimestampMs"] if log.exists() else 0


def route(batch: MicroBatch, book: RuleBook, settings: Settings) -> Iterator[Routed]:
    """A micro-batch under the rules of `book`, to which its control messages are applied at their place in the log."""
    key_groups = placed_ids(settings.key_groups)
    counts = Counter(records=batch.records, deadLetters=len(batch.dead_letters))
    messages = sorted(batch.messages, key=lambda message: (message["logTime"], message["source"]))
    events = in_log_order(batch.events) if batch.events else {"logTime": np.empty(0, np.int64)}
    cuts = np.searchsorted(events["logTime"], [message["logTime"] for message in messages])
    bounds = [0, *cuts.tolist(), len(events["logTime"])]
    for after, (first, end) in enumerate(pairwise(bounds)):
        if after:
            book.apply(bytes.fromhex(messages[after - 1]["message"]))
        if end > first:
            part = {name: values[first:end] for name, values in events.items()}
            yield from _route_between(part, book, after, counts, settings)
    if messages:
        payload = json.dumps(messages).encode()
        yield from ((key_group, "control", payload) for key_group in key_groups)
    if batch.dead_letters:
        yield key_groups[0], "deadLetters", json.dumps(batch.dead_letters).encode()
    if batch.records:
        yield key_groups[0], "counts", json.dumps(counts).encode()


def _route_between(
    events: Columns, book: RuleBook, after: int, counts: Counter, settings: Settings
) -> Iterator[Routed]:
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
                yield key_group, "events", to_bytes(batch.slice(first, end - first))
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
