"""What an engine remembers, read from its checkpoint: rules, key-groups, windows; while it is stopped or while it runs.

    checkpoint ──► heads and rule book ──► which events are still held ──► chunks, counted in Spark's workers ──► State

Nothing is changed or locked: Spark keeps the state of the last micro-batches, and the newest one that is done is read.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import partial
from json import dumps, loads
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from lab.engine.checkpoint import Batches
from lab.engine.settings import Settings
from lab.engine.store import halves
from lab.model.alerts import utc
from lab.model.keygroups import digest, key_groups_of, mixed, placed_ids
from lab.model.rules import Route, Rule
from lab.model.schema import Schema
from lab.model.words import html_table, plain
from lab.state.placement import by_spark_hash
from lab.state.reader import few_rows_at_once, group_sizes, held, opened

COUNTED = "id int, store string, events long, oldest long, newest long, groups binary"
COLUMNS = ("key-group", "partition", "groups", "events", "oldest", "newest", "chunks", "bytes")


@dataclass(frozen=True)
class KeyGroupState:
    """One key-group: its number, the id that Spark hashes, and what it holds; times are in ms, None without events."""

    key_group: int
    id: int
    partition: int
    groups: int = 0
    events: int = 0
    oldest: int | None = None
    newest: int | None = None
    chunks: int = 0
    bytes: int = 0

    def row(self) -> tuple[str, ...]:
        """As text, in the order of COLUMNS."""
        oldest, newest = ("" if time is None else utc(time) for time in (self.oldest, self.newest))
        counts = (
            f"{self.groups:,}",
            f"{self.events:,}",
            oldest,
            newest,
            f"{self.chunks:,}",
            f"{self.bytes:,}",
        )
        return str(self.key_group), str(self.partition), *counts


@dataclass(frozen=True)
class State:
    """All of a checkpoint after micro-batch `batch`. An event on two routes counts twice: it is held twice."""

    checkpoint: Path
    batch: int
    parallelism: int
    rules: list[Rule]
    key_groups: list[KeyGroupState]

    def to_dict(self) -> dict:
        """As JSON."""
        return {
            "checkpoint": str(self.checkpoint),
            "batch": self.batch,
            "parallelism": self.parallelism,
            "rules": [{**rule.to_dict(), "version": rule.version} for rule in self.rules],
            "keyGroups": [asdict(group) for group in self.key_groups],
        }

    def widget_data(self) -> dict[str, list]:
        """A list for each column, in order of the key-groups: what a chart takes."""
        return {
            name: [getattr(group, name) for group in self.key_groups]
            for name in KeyGroupState.__annotations__
        }

    def table(self) -> list[tuple[str, ...]]:
        """A row for each key-group, as in COLUMNS."""
        return [group.row() for group in self.key_groups]

    def summary(self) -> str:
        """One line for people."""
        events, groups, size = (sum(self.widget_data()[name]) for name in ("events", "groups", "bytes"))
        return (
            f"after micro-batch {self.batch}: {len(self.rules)} rules, {len(self.key_groups)} key-groups on "
            f"{self.parallelism} partitions, {groups:,} groups, {events:,} events held, {size:,} bytes"
        )

    def _repr_html_(self) -> str:
        rules = [(rule.rule_id, rule.version, rule.state, rule.describe()) for rule in self.rules]
        tables = html_table(("rule", "version", "state", "meaning"), rules), html_table(COLUMNS, self.table())
        return f"<p>{self.summary()}</p>" + "".join(tables)


def read_state(
    checkpoint: Path | str,
    *,
    spark: SparkSession | None = None,
    batch: int | None = None,
    max_out_of_orderness_ms: int = Settings.max_out_of_orderness_ms,
) -> State:
    """What is in a checkpoint after a micro-batch, the last one that is done unless told.

    `max_out_of_orderness_ms`: of the engine; it decides what is still held. Raises ValueError if there is nothing to read.
    """
    with nullcontext(spark) if spark else _session() as on:
        reader = opened(on, Path(checkpoint), batch)
        horizons = reader.horizons(max_out_of_orderness_ms)
        chunks = reader.log.where("entry LIKE 'chunk %'").select("id", "values")
        with few_rows_at_once(on):
            parts = chunks.mapInArrow(partial(_count, horizons=horizons), COUNTED).collect()
    ids = placed_ids(reader.key_groups)
    parallelism = Batches.read(reader.checkpoint).partitions(reader.batch)
    expected = by_spark_hash(len(ids), parallelism).tolist()
    groups = []
    for number, (id, there) in enumerate(zip(ids, expected)):
        mine, head = [part for part in parts if part.id == id], reader.heads.get(id, {"chunks": []})
        seen = {store: [] for store in {part.store for part in mine}}
        for part in mine:
            seen[part.store].append(np.frombuffer(part.groups, np.uint64))
        groups.append(
            KeyGroupState(
                number,
                id,
                reader.partition.get(id, there),
                sum(len(np.unique(np.concatenate(hashes))) for hashes in seen.values()),
                sum(part.events for part in mine),
                min((part.oldest for part in mine), default=None),
                max((part.newest for part in mine), default=None),
                len(head["chunks"]),
                sum(chunk["bytes"] for chunk in head["chunks"]),
            )
        )
    return State(reader.checkpoint, reader.batch, parallelism, reader.book.sorted(), groups)


def events_of(
    checkpoint: Path | str,
    key: Mapping[str, object],
    *,
    spark: SparkSession | None = None,
    batch: int | None = None,
    max_out_of_orderness_ms: int = Settings.max_out_of_orderness_ms,
) -> list[dict]:
    """The events held for one key, such as {"payeeId": 25}, on every route with exactly these keys, oldest first.

    Each: route, keyGroup, eventId, eventTime (ms) and the fields that the route's rules need; of a string only a digest
    is held, in hex. Raises ValueError if no rule groups by these fields.
    """
    with nullcontext(spark) if spark else _session() as on:
        reader = opened(on, Path(checkpoint), batch)
        routes = [route for route in reader.book.routes() if set(route.keys) == set(key)]
        if not routes:
            known = sorted({", ".join(route.keys) or "(no keys)" for route in reader.book.routes()})
            raise ValueError(
                f"no rule groups by {', '.join(key)}; there are: {'; '.join(known) or 'no rules'}"
            )
        horizons, found = reader.horizons(max_out_of_orderness_ms), []
        for route in routes:
            numbers = _numbers(reader.schema, route, key)
            columns = [np.array([number]) for number in numbers.values()]
            number = int(key_groups_of(columns, 1, reader.key_groups)[0])
            id = placed_ids(reader.key_groups)[number]
            rows = reader.log.where(f"id = {id} AND entry LIKE 'chunk %'").select("id", "values")
            stores = [
                n for n, s in reader.heads.get(id, {"stores": {}})["stores"].items() if s["route"] == route.id
            ]
            pick = partial(_pick, stores=stores, numbers=numbers, horizons=horizons)
            with few_rows_at_once(on):
                packed = rows.mapInArrow(pick, "columns string").collect()
            for values in (loads(row.columns) for row in packed):
                found += [
                    {"route": route.id, "keyGroup": number, **_shown(reader.schema, event)}
                    for event in values
                ]
    return sorted(found, key=lambda event: (event["route"], event["eventTime"], event["eventId"]))


def sizes_by_group(checkpoint: Path | str, *, spark: SparkSession) -> tuple[np.ndarray, np.ndarray]:
    """Each group on each route: a hash of it, and the bytes of its held events as columns of eight bytes a value."""
    reader = opened(spark, Path(checkpoint), None)
    pick = partial(group_sizes, horizons=reader.horizons(Settings.max_out_of_orderness_ms))
    with few_rows_at_once(spark):
        chunks = reader.log.where("entry LIKE 'chunk %'").select("id", "values")
        summed = chunks.mapInArrow(pick, "hash long, bytes long").groupBy("hash").sum("bytes").toArrow()
    return summed["hash"].to_numpy(), summed["sum(bytes)"].to_numpy()


# -- in Spark's workers ------------------------------------------------------------------------------------------------


def _count(batches: Iterable[pa.RecordBatch], horizons: Mapping) -> Iterator[pa.RecordBatch]:
    for id, store, columns, rows in held(batches, horizons):
        if len(rows):
            times = columns["time"][rows]
            keys = [values[rows] for name, values in columns.items() if name.startswith("key:")]
            groups = np.unique(mixed(keys, len(rows))).tobytes()
            values = [id, store, len(rows), times.min(), times.max(), groups]
            names = [field.split()[0] for field in COUNTED.split(", ")]
            types = (pa.int32(), pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.binary())
            yield pa.record_batch([pa.array([v], type) for v, type in zip(values, types)], names)


def _pick(batches: Iterable[pa.RecordBatch], stores: list[str], numbers: Mapping, horizons: Mapping):
    for _, store, columns, rows in held(batches, horizons):
        if store in stores:
            for name, number in numbers.items():
                rows = rows[columns[f"key:{name}"][rows] == number]
            plain_columns = {
                name: pa.array(values).take(pa.array(rows)).to_pylist() for name, values in columns.items()
            }
            events = [dict(zip(plain_columns, row)) for row in zip(*plain_columns.values())]
            yield pa.record_batch([pa.array([dumps(events)])], ["columns"])


# -- keys and values ---------------------------------------------------------------------------------------------------


def _numbers(schema: Schema, route: Route, key: Mapping[str, object]) -> dict[str, int]:
    """A key as the int64 columns in which the engine holds it, in the route's order."""
    numbers = {}
    for name in route.keys:
        field = schema.field(name)
        value = field.parse_text(key[name]) if isinstance(key[name], str) else field.parse(key[name])
        whole = (
            digest(value) if not field.numeric else [int(value.scaleb(field.scale)) if field.scale else value]
        )
        numbers |= dict(zip(halves(schema, name), whole))
    return numbers


def _shown(schema: Schema, event: dict[str, int | None]) -> dict:
    """A row of a chunk's columns with the names and types of the schema."""
    shown = {"eventId": event["id"], "eventTime": event["time"]}
    for column, number in event.items():
        kind, _, name = column.partition(":")
        if kind != "value" or name.endswith("/1"):
            continue
        name = name.removesuffix("/0")
        field = schema.field(name)
        if number is None:
            shown[name] = None
        elif not field.numeric:
            shown[name] = "".join(
                f"{event[f'value:{half}'] % (1 << 64):016x}" for half in halves(schema, name)
            )
        else:
            shown[name] = plain(Decimal(f"{number}E-{field.scale}")) if field.scale else number
    return shown


def _session():
    from lab.machine.session import session

    return session()
