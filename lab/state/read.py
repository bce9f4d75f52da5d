"""Reads the state of an engine from its checkpoint: rules, key-groups and windows. The engine may be running.

    checkpoint ──► last saved mark ──► ledger: rules, stores ──► state files ──► stored events ──► State

Nothing is changed or locked, and Spark is not needed: the files are Arrow.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.engine.checkpoint import ledger
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.ledger import Ledger, RoutePlan
from lab.engine.checkpoint.record import last_saved_mark, mark_at_end_of, read_record
from lab.engine.checkpoint.settings import Settings
from lab.engine.compiled.layout import LATER_ALERT, NEVER, TAKES_BACK
from lab.engine.compiled.rulenumbers import STATE, int64_columns, readable_value
from lab.engine.windows.arrays import estimated_bytes
from lab.engine.windows.statefiles import StateFile, StateFiles, parse_file_names
from lab.model import horizon
from lab.model.aggregation import SPOKE, WHERE
from lab.model.alerts import utc_text
from lab.model.formatting import html_table
from lab.model.keygroups import digest, hash_rows, key_groups_of
from lab.model.language import say
from lab.model.rules import Rule, readable_rule_summary
from lab.model.schema import Schema
from lab.state.placement import by_range

COLUMNS = ("key-group", "partition", "groups", "events", "oldest", "newest", "files", "bytes")


@dataclass(frozen=True)
class KeyGroupState:
    """One key-group: its number, its task and its contents. Times are in ms, None without events.

    `bytes`: its share of the files that contain it, by number of events.
    """

    key_group: int
    partition: int
    groups: int = 0
    events: int = 0
    oldest: int | None = None
    newest: int | None = None
    files: int = 0
    bytes: int = 0

    def row(self) -> tuple[str, ...]:
        """The values as text, in the order of COLUMNS."""
        oldest, newest = ("" if time is None else utc_text(time) for time in (self.oldest, self.newest))
        counts = (
            f"{self.groups:,}",
            f"{self.events:,}",
            oldest,
            newest,
            f"{self.files:,}",
            f"{self.bytes:,}",
        )
        return str(self.key_group), str(self.partition), *counts


@dataclass(frozen=True)
class State:
    """The state in a checkpoint after epoch `epoch`. An event on two routes counts twice, because it is stored twice."""

    checkpoint: Path | str
    epoch: int
    parallelism: int
    rules: list[Rule]
    key_groups: list[KeyGroupState]
    memory_bytes: int

    def to_dict(self) -> dict:
        """The state as JSON. `memoryBytes`: about what its windows take in a running engine."""
        return {
            "checkpoint": str(self.checkpoint),
            "epoch": self.epoch,
            "parallelism": self.parallelism,
            "rules": [{**rule.to_dict(), "version": rule.version} for rule in self.rules],
            "keyGroups": [asdict(group) for group in self.key_groups],
            "memoryBytes": self.memory_bytes,
        }

    def widget_data(self) -> dict[str, list]:
        """A list for each column, in order of the key-groups, for charts."""
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
        return say(
            "after epoch {epoch}: {rules} rules, {key_groups} key-groups on {partitions} partitions, {groups} groups, {events} events held, {bytes} bytes",
            epoch=self.epoch,
            rules=len(self.rules),
            key_groups=len(self.key_groups),
            partitions=self.parallelism,
            groups=f"{groups:,}",
            events=f"{events:,}",
            bytes=f"{size:,}",
        )

    def cost(self) -> str:
        """One line for people: what an event on one route takes."""
        events, size = (sum(self.widget_data()[name]) for name in ("events", "bytes"))
        return say(
            "an event on one route takes {files} bytes in files and about {memory} in memory",
            files=f"{size / max(events, 1):.1f}",
            memory=f"{self.memory_bytes / max(events, 1):.1f}",
        )

    def _repr_html_(self) -> str:
        rules = [(rule.rule_id, rule.version, rule.state, readable_rule_summary(rule)) for rule in self.rules]
        tables = (
            html_table(say("Rules"), (say("rule"), say("version"), say("state"), say("meaning")), rules),
            html_table(say("Key-groups"), map(say, COLUMNS), self.table()),
        )
        return f"<p>{self.summary()}; {self.cost()}</p>" + "".join(tables)


class StateReader:
    """Reads a checkpoint after an epoch, by default the last saved one. Raises ValueError if there is nothing to read."""

    def __init__(self, checkpoint: Path | str, epoch: int | None = None):
        record = read_record(checkpoint)
        if record is None:
            raise ValueError(f"{checkpoint} is no checkpoint of the engine: it has no lab.json")
        self.settings = Settings.from_record(record)
        self.files = StateFiles(CheckpointFolder(checkpoint), 0, self.settings.key_groups - 1)
        self.chain: list[StateFile]  # the files that hold the state
        self.ledger: Ledger
        while True:
            newest = last_saved_mark(checkpoint)
            if newest is None:
                raise ValueError(f"checkpoint {checkpoint}: no epoch was saved yet, there is no state")
            done = newest["epoch"]
            self.epoch = done if epoch is None else epoch
            try:
                self._read(checkpoint, done)
                return
            except ValueError:  # a running engine may have saved another epoch, and removed this one's files
                if epoch is not None or (last_saved_mark(checkpoint) or {}).get("epoch") == done:
                    raise

    def _read(self, checkpoint: Path | str, done: int) -> None:
        files = parse_file_names(self.files.folder.names())
        merged = any(file.first_epoch <= self.epoch < file.last_epoch <= done for file in files)
        if self.epoch > done or merged:
            why = "was not saved yet" if self.epoch > done else "has been merged with later ones"
            raise ValueError(f"checkpoint {checkpoint}: epoch {self.epoch} {why}; the last one is {done}")
        self.chain = self.files.find(self.epoch, begins_next_epoch=False)[0]
        self._rows = [self.files.read(file) for file in self.chain]
        folder = CheckpointFolder(checkpoint)
        name = mark_at_end_of(checkpoint, self.epoch)["ledger"]
        self.ledger = ledger.load_ledger(folder, name, self.settings.schema).ledger

    def stored_events(self) -> Iterator[tuple[RoutePlan, pa.Table]]:
        """The stored events of each route, without those that were taken back."""
        table = pa.concat_tables(self._rows, promote_options="default")
        for plan in self.ledger.plans:
            mine = pc.and_(pc.equal(table["store"], plan.entry.store), table["time"].is_valid())
            events = table.filter(mine)
            reach = plan.entry.widest_ms + self.settings.max_out_of_orderness_ms
            kept = events["time"].to_numpy() >= self._times_reached(plan, events) - reach
            yield plan, events_not_taken_back(events.filter(pa.array(kept)))

    def _times_reached(self, plan: RoutePlan, events: pa.Table) -> np.ndarray:
        """The time that the group of each row has reached, ms: `lab.engine.compiled.horizon`."""
        if not len(events):
            return np.empty(0, np.int64)
        _, first, group = np.unique(group_hashes(plan, events), return_index=True, return_inverse=True)
        time, key_group = events["time"].to_numpy(), events["keyGroup"].to_numpy()
        is_event = np.ones(len(events), bool)
        if STATE in events.column_names:  # other rows say what became of an event
            state = pc.fill_null(events[STATE], 0).to_numpy()
            is_event = state & TAKES_BACK == 0
        by_events = _kth_newest(group[is_event], time[is_event], len(first))
        newest = np.full(len(first), NEVER)
        np.maximum.at(newest, group, time)
        by_groups = _kth_newest(key_group[first], newest, self.settings.key_groups)
        reached_log_ms = max(file.reached_log_ms for file in self.chain)
        return np.minimum(np.maximum(by_events[group], by_groups[key_group]), reached_log_ms)


def _kth_newest(of: np.ndarray, times: np.ndarray, count: int) -> np.ndarray:
    """For each number below `count`, the time that WITNESSES of its `times` have reached; NEVER if it has fewer."""
    order = np.lexsort((-times, of))
    starts = np.searchsorted(of[order], np.arange(count + 1))
    found, enough = np.full(count, NEVER), np.diff(starts) >= horizon.WITNESSES
    found[enough] = times[order[starts[:-1][enough] + horizon.WITNESSES - 1]]
    return found


def events_not_taken_back(rows: pa.Table) -> pa.Table:
    """The events among a route's rows; some rows take back the event before with their key, time and id."""
    if STATE not in rows.column_names:
        return rows
    rows = rows.filter(pc.fill_null(pc.not_equal(rows[STATE], LATER_ALERT), True))
    # of a group it is the order of arrival; of groups of different tasks it means nothing
    rows = rows.sort_by("seq")
    same = [name for name in rows.column_names if name in ("time", "id") or name.startswith("key:")]
    numbered = rows.append_column("row", pa.array(np.arange(len(rows))))
    last = numbered.group_by(same).aggregate([("row", "max")])["row_max"].combine_chunks()
    takes_back = pc.fill_null(pc.equal(pc.bit_wise_and(rows[STATE], TAKES_BACK), TAKES_BACK), False)
    return rows.filter(pc.and_not(pc.is_in(numbered["row"], last), takes_back))


def read_state(checkpoint: Path | str, *, epoch: int | None = None) -> State:
    """The state in a checkpoint after an epoch, by default the last saved one.

    Raises ValueError if there is nothing to read.
    """
    reader = StateReader(checkpoint, epoch)
    count, parallelism = reader.settings.key_groups, reader.settings.parallelism
    events, groups = np.zeros(count, np.int64), np.zeros(count, np.int64)
    oldest, newest = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    memory = 0
    for plan, stored in reader.stored_events():
        key_group, time = stored["keyGroup"].to_numpy(), stored["time"].to_numpy()
        events += np.bincount(key_group, minlength=count)
        np.minimum.at(oldest, key_group, time)
        np.maximum.at(newest, key_group, time)
        _, first = np.unique(group_hashes(plan, stored), return_index=True)
        groups += np.bincount(key_group[first], minlength=count)
        fields, schema = list(plan.entry.fields), reader.settings.schema
        memory += estimated_bytes(schema, plan.route, fields, plan.rules, len(time), len(first))
    files, sizes = np.zeros(count, np.int64), np.zeros(count)
    for file in reader.chain:
        for number, size in reader.files.bytes_by_key_group(file).items():
            files[number] += 1
            sizes[number] += size
    found = [
        KeyGroupState(
            number,
            int(partition),
            int(groups[number]),
            int(events[number]),
            int(oldest[number]) if events[number] else None,
            int(newest[number]) if events[number] else None,
            int(files[number]),
            round(sizes[number]),
        )
        for number, partition in enumerate(by_range(count, parallelism))
    ]
    return State(Path(checkpoint), reader.epoch, parallelism, reader.ledger.book.sorted(), found, memory)


def stored_events_of_key(
    checkpoint: Path | str, key: Mapping[str, object], *, epoch: int | None = None
) -> list[dict]:
    """The stored events of one key, such as {"payeeId": 25}, on every route with exactly these keys, oldest first.

    Each: route, keyGroup, eventId, eventTime (ms) and the fields that the route's rules need; of a string only its
    digest is stored, shown in hex. Raises ValueError if no rule groups by these fields.
    """
    reader, found = StateReader(checkpoint, epoch), []
    routes = [plan.route for plan in reader.ledger.plans]
    if not any(set(route.keys) == set(key) for route in routes):
        known = sorted({", ".join(route.keys) or "(no keys)" for route in routes})
        raise ValueError(f"no rule groups by {', '.join(key)}; there are: {'; '.join(known) or 'no rules'}")
    for plan, stored in reader.stored_events():
        # without events there may be no columns for its key either
        if len(stored) and set(plan.route.keys) == set(key):
            numbers = _numbers(reader.settings.schema, plan, key)
            for name, number in numbers.items():
                stored = stored.filter(pc.equal(stored[f"key:{name}"], number))
            group = [np.array([number]) for number in numbers.values()]
            key_group = int(key_groups_of(group, 1, reader.settings.key_groups)[0])
            found += [
                {"route": plan.route.id, "keyGroup": key_group, **_shown(reader.settings.schema, plan, event)}
                for event in stored.to_pylist()
            ]
    return sorted(found, key=lambda event: (event["route"], event["eventTime"], event["eventId"]))


def fields_shown_as_digests(event: Mapping[str, object], checkpoint: Path | str) -> list[str]:
    """The fields of an event of `stored_events_of_key` whose texts state files do not have, only their digests."""
    schema = Settings.from_record(read_record(checkpoint) or {}).schema
    texts = {name for name in schema.names if not schema.field(name).is_number_or_time}
    return [name for name in event if name in texts or (name == "eventId" and not schema.has_numeric_id)]


def group_hashes(plan: RoutePlan, stored: pa.Table) -> np.ndarray:
    """A hash of each event's group with its route."""
    keys = [
        stored[name].to_numpy()
        for name in stored.column_names
        if name.startswith("key:") and not stored[name].null_count
    ]
    return hash_rows([np.full(len(stored), plan.entry.store), *keys], len(stored))


def _numbers(schema: Schema, plan: RoutePlan, key: Mapping[str, Any]) -> dict[str, int]:
    """A key as the engine's int64 columns, in the route's order."""
    numbers = {}
    for name in plan.route.keys:
        field = schema.field(name)
        value: Any = field.parse_csv_cell(key[name]) if isinstance(key[name], str) else field.parse(key[name])
        whole = (
            digest(value)
            if not field.is_number_or_time
            else [int(value.scaleb(field.scale)) if isinstance(value, Decimal) else value]
        )
        numbers |= dict(zip(int64_columns(schema, name), whole))
    return numbers


def _hex(number: int) -> str:
    return f"{number % (1 << 64):016x}"


def _shown(schema: Schema, plan: RoutePlan, event: dict[str, int | None]) -> dict:
    """A row of a state file with the names and types of the schema; of texts, text ids too, there are only digests."""
    event_id = event["id"] if schema.has_numeric_id else _hex(cast(int, event["id"]))
    shown = {"eventId": event_id, "eventTime": event["time"]}
    for name in plan.entry.fields:
        if name.startswith(SPOKE):
            continue
        if name.startswith(WHERE):
            shown[f"where {name.removeprefix(WHERE)}"] = event.get(f"value:{name}") is not None
            continue
        numbers = [event.get(f"value:{half}") for half in int64_columns(schema, name)]
        known = [number for number in numbers if number is not None]
        shown[name] = readable_value(schema.field(name), known) if known else None
    return shown
