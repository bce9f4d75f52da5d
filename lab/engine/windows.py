"""Evaluate: exact per-event windows for all groups of a task's key-groups, then alerts. State: windows; rules come along.

The counterpart of the Flink demo's `DynamicAlertFunction`. A task does this once a micro-batch:

    lock the note ─► memory is that of the batch before? ─► evaluate in log order ─► write the state file ─► note the batch
                          no: read the state files

The arrays are in shared memory, so it does not matter which of Spark's Python workers a task gets. The note is empty while
somebody changes them: whoever finds it so, or finds another batch in it, rebuilds them from the files. So a task that is
killed, runs twice or runs again gives the same rows and the same file.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.engine import shared, window
from lab.engine.alertlines import alert_lines
from lab.engine.columns import Columns, in_log_order, now_ms, take
from lab.engine.durable import Durable
from lab.engine.layout import RULE
from lab.engine.ledger import Change, Plan, load
from lab.engine.settings import Settings
from lab.engine.statefiles import (
    FileGone,
    Overtaken,
    StateFile,
    StateFiles,
    behind_gaps,
    first_seq,
    merging,
    table,
)
from lab.engine.store import RouteStore
from lab.engine.together import together
from lab.model.reference import LATE_POLICIES

FATES = {
    window.EVALUATED: "evaluated",
    window.STORED_LATE: "storedLate",
    window.DUPLICATE: "duplicates",
    window.DROPPED_LATE: "droppedLate",
}
Lines = dict[str, tuple[list[str], list[str]]]  # log -> keys, values


@dataclass(frozen=True)
class Envelope:
    """Events of one route for one task, all between the same two control messages of a micro-batch."""

    after: int  # control messages before them
    store: int
    columns: Columns


class Evaluated(NamedTuple):
    """What came of one store's events: how many had each fate, were stored in each key-group, made each rule fire; the alerts' keys and lines."""

    store: RouteStore
    fates: np.ndarray
    stored: np.ndarray
    fired: np.ndarray
    alerts: tuple[list[str], list[str]]


class Windows:
    """The windows of one task: of the key-groups `low` … `high`."""

    def __init__(self, settings: Settings, checkpoint: Durable, memory: Path, low: int, high: int):
        self.settings, self.checkpoint, self.schema = settings, checkpoint, settings.schema
        self.late_ms = settings.max_out_of_orderness_ms
        self.low, self.high = low, high
        self.answers = low == 0  # one task speaks for all
        self.files = StateFiles(checkpoint, low, high)
        self.folder = memory / f"{low}-{high}"
        self.stores: dict[int, RouteStore] = {}
        self.opened = ""  # the note under which `stores` are what shared memory holds

    def process(
        self, batch_id: int, before: str, after: str, envelopes: Iterable[Envelope], extra: dict
    ) -> Lines:
        """Takes in a micro-batch between two ledgers (their names); `extra`: counts, dead letters, times so far."""
        self.batch_id, self.seq, self.rewrite = batch_id, first_seq(batch_id), False
        self.ledger, changes = load(self.checkpoint, before, self.schema)[0], []
        if after != before:
            self.ledger, changes = self.ledger.copy(), load(self.checkpoint, after, self.schema)[1]
        self.counts = Counter(extra.get("counts", {}))
        self.stored = np.zeros(self.settings.key_groups, np.int64)
        self.out: Lines = {name: ([], []) for name in ("alerts", "acks", "deadLetters", "stats")}
        self.by_rule: Counter[str] = Counter()
        self.by_reason = Counter(extra.get("deadLettersBy", {}))
        self._say("deadLetters", "", extra.get("deadLetters", ()))
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with shared.locked(self.folder / "lock") as note:
            noted = note.read()
            newest = json.loads(noted)["batch"] if noted else -1
            if newest > batch_id:
                raise Overtaken(batch_id, "memory holds the windows", newest)
            note.write("")
            self._open(noted)
            self._take(sorted(envelopes, key=lambda each: (each.after, each.store)), changes)
            self._save()
            chain = [file._replace(serves=()) for file in self.chain]
            done = {"batch": batch_id, "chain": chain, "garbage": self.garbage, "by": uuid4().hex}
            self.opened = json.dumps(done)
            note.write(self.opened)
        self._tell(extra.get("times", {}), extra.get("engine"), extra.get("cut"))
        return {log: lines for log, lines in self.out.items() if lines[1]}

    def _say(self, log: str, key: str, lines: Iterable[str]) -> None:
        keys, values = self.out[log]
        values += lines
        keys += [key] * (len(values) - len(keys))

    # -- memory and files ----------------------------------------------------------------------------------------------

    def _open(self, noted: str) -> None:
        """Makes the stores those after the batch before: the ones at hand, those in shared memory, or out of the files.

        At hand are those of the worker that wrote the note: another may have made the files of shared memory anew.
        """
        note = json.loads(noted) if noted else {}
        plans = {plan.kept.store: plan for plan in self.ledger.plans}
        right = note.get("batch") == self.batch_id - 1 and all(map(Path.exists, map(self._path, plans)))
        if right:
            self.chain, self.garbage = [StateFile(*file) for file in note["chain"]], note["garbage"]
        else:
            for path in self.folder.glob("*.windows"):
                shared.forget(path)
            self.chain, self.garbage = self.files.find(self.batch_id - 1)
        if right and noted == self.opened:
            return
        self.stores = {number: self._store(plan) for number, plan in plans.items()}
        if not right:
            self._rebuild(plans)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number}.windows"

    def _store(self, plan: Plan) -> RouteStore:
        path, fields = self._path(plan.kept.store), list(plan.kept.fields)
        return RouteStore(path, self.schema, plan.route, fields, plan.rules, self.settings.key_groups)

    def _rebuild(self, plans: dict[int, Plan]) -> None:
        """Fills empty stores with what the files hold."""
        parts: dict[int, list[pa.Table]] = {number: [] for number in plans}
        for file in self.chain:
            rows = self.files.read(file)
            for number in set(pc.unique(rows["store"]).to_pylist()) & plans.keys():
                parts[number].append(rows.filter(pc.equal(rows["store"], number)))
        for number, tables in parts.items():
            if tables:
                rows = pa.concat_tables(tables, promote_options="default").sort_by("seq")
                self._fill(self.stores[number], rows, plans[number].kept.joined)
        for file, key_group in behind_gaps(self.chain):
            if any(
                kg == key_group and self._holds(number, kg, at) for number, kg, at in self.files.newest(file)
            ):
                raise FileGone(f"{self.files.folder}: what came after {file.name} of key-group {key_group}")

    def _fill(self, store: RouteStore, rows: pa.Table, joined: dict[int, int]) -> None:
        is_event = rows["time"].is_valid()
        events, resets = _columns(rows.filter(is_event)), _columns(rows.filter(pc.invert(is_event)))
        np.maximum.at(store.newest, events["keyGroup"], events["time"])
        resets.setdefault("rule", np.empty(0, np.int64))
        if len(resets["rule"]):
            known = np.array([joined.get(rule) for rule in resets["rule"].tolist()], float)
            mine = np.flatnonzero(known == resets["joined"])
            resets = {name: take(values, mine) for name, values in resets.items()}
        store.load(events, resets, {}, self.late_ms)

    def _save(self) -> None:
        """Writes what this batch stored, merged with the newest files if they are many; drops what is wholly expired."""
        taken, level = merging(self.chain, int(self.stored.sum()))
        if self.rewrite:
            taken, level = len(self.chain), max((file.level for file in self.chain), default=0)
        merged = self.chain[len(self.chain) - taken :]
        first = min((file.first for file in merged), default=self.batch_id)
        # of other tasks, before a rescale
        while taken < len(self.chain) and self.chain[-taken - 1].last >= first:
            taken += 1
            merged = self.chain[-taken:]
            first = min(file.first for file in merged)
        if self.rewrite:  # hides every file from before, also those of other tasks that no chain has any more
            first = 0
        self.chain = [
            *self.chain[: len(self.chain) - taken],
            self.files.write(self.batch_id, first, level, self._rows(first_seq(first))),
        ]
        # the batch that made it so is committed, and what is written tells who may still want to read it that it is late
        for name in self.garbage:
            self.files.folder.remove(name)
        self.garbage = [file.name for file in merged if (file.low, file.high) == (self.low, self.high)]
        if len(self.chain) > 1 and self._expired(self.chain[0]):
            self.garbage.append(self.chain.pop(0).name)

    def _rows(self, start: int) -> pa.Table:
        """Events and resets since a seq, as far as they are held."""
        joined = {plan.kept.store: plan.kept.joined for plan in self.ledger.plans}

        def export(number: int) -> tuple[int, Columns, Columns]:
            events, resets = self.stores[number].export(start, first_seq(self.batch_id + 1), self.late_ms)
            resets["joined"] = np.array([joined[number][rule] for rule in resets["rule"].tolist()], np.int64)
            return number, events, resets

        return table(together(export, self.stores, int(self.stored.sum())))

    def _expired(self, file: StateFile) -> bool:
        """Whether no living store holds anything of it."""
        if (file.low, file.high) != (self.low, self.high):  # others need it, too
            return False
        try:
            held = self.files.newest(file)
        except FileGone:
            # a task of another machine, with memory of its own, has found it expired a batch earlier
            return True
        return not any(self._holds(*each) for each in held)

    def _holds(self, number: int, key_group: int, newest: int) -> bool:
        """Whether a store is alive and holds events of a key-group as new as that, ms."""
        store = self.stores.get(number)
        return store is not None and newest >= store.newest[key_group] - store.widest_ms - self.late_ms

    # -- a micro-batch in log order ------------------------------------------------------------------------------------

    def _take(self, envelopes: Sequence[Envelope], changes: Sequence[Change]) -> None:
        done = 0
        for after, group in groupby(envelopes, key=lambda each: each.after):
            self._change(changes[done:after])
            done = after
            parts = {store: list(part) for store, part in groupby(group, key=lambda each: each.store)}
            rows = [sum(len(each.columns["time"]) for each in part) for part in parts.values()]
            *seqs, self.seq = accumulate(rows, initial=self.seq)
            # stores know nothing of each other
            for found in together(self._evaluate, zip(parts, seqs, parts.values()), sum(rows)):
                self._add(found)
        self._change(changes[done:])
        stored = int(self.stored.sum())
        # one at most: events wait
        any(store.grow_ahead(stored, self.late_ms) for store in self.stores.values())

    def _evaluate(self, part: tuple[int, int, Sequence[Envelope]]) -> Evaluated:
        number, seq, envelopes = part
        store, columns = self.stores[number], in_log_order([each.columns for each in envelopes])
        policy = LATE_POLICIES.index(self.settings.late_policy)
        fates, found = store.evaluate(columns, seq, self.late_ms, policy)
        stored = columns["keyGroup"][fates <= window.STORED_LATE]
        return Evaluated(
            store,
            np.bincount(fates[columns["first"] == 1], minlength=len(FATES)),
            np.bincount(stored, minlength=self.settings.key_groups),
            np.bincount(found[:, RULE]),
            alert_lines(store, columns, found, now_ms()),
        )

    def _add(self, found: Evaluated) -> None:
        self.counts.update({FATES[fate]: count for fate, count in enumerate(found.fates.tolist())})
        self.stored += found.stored
        for row in np.flatnonzero(found.fired).tolist():
            rule, count = found.store.rules[row], int(found.fired[row])
            self.counts["alerts"] += count
            self.by_rule[f"{rule.rule_id}.{rule.version}"] += count
        for kept, new in zip(self.out["alerts"], found.alerts):
            kept += new

    def _change(self, changes: Sequence[Change]) -> None:
        """Carries out control messages that have no event between them, and goes on with the stores that they leave."""
        if not changes:
            return
        narrowest = {number: store.widest_ms for number, store in self.stores.items()}
        before = {plan.kept.store: plan.kept.joined for plan in self.ledger.plans}
        for change in changes:
            ack = self.ledger.apply(change.message)
            if self.answers:
                ack |= {"place": change.place, "logTime": change.log_time}
                self._say("acks", str(ack.get("ruleId", "")), [json.dumps(ack)])
            for kept in self.ledger.kept.values() if narrowest else ():
                if kept.store in narrowest:
                    narrowest[kept.store] = min(narrowest[kept.store], kept.widest_ms)
        plans = {plan.kept.store: plan for plan in self.ledger.plans}
        for number in self.stores.keys() - plans.keys():
            shared.forget(self.stores.pop(number).path)
        for number, plan in plans.items():
            if number not in self.stores:
                shared.forget(self._path(number))  # of an attempt that died
                self.stores[number] = self._store(plan)
                continue
            store = self.stores[number]
            if plan.kept.widest_ms > narrowest[number]:  # what is not held now must not come back
                store.widest_ms = narrowest[number]
                store.compact(self.late_ms)
                self.rewrite = True
            if (plan.rules, list(plan.kept.fields)) != (store.rules, store.fields):
                joined = plan.kept.joined
                gone = {rule for rule, since in before[number].items() if joined.get(rule) != since}
                store.change(list(plan.kept.fields), plan.rules, gone)

    def _tell(self, times: dict[str, int], engine: tuple[str, int] | None, cut: dict | None) -> None:
        """A line of statistics, if there is anything to tell."""
        if self.counts or self.answers:
            stores = self.stores.values()
            stats = {"batch": self.batch_id, "keyGroups": [self.low, self.high], **self.counts}
            stats |= {
                "heldEvents": sum(store.events for store in stores),
                "groups": sum(s.groups for s in stores),
            }
            stored = np.flatnonzero(self.stored)
            told = {"alertsByRule": self.by_rule, "deadLettersBy": self.by_reason}
            stats |= {name: dict(counts) for name, counts in told.items() if counts}
            stats["stored"] = dict(zip(stored.tolist(), self.stored[stored].tolist()))
            stats |= {"memoryBytes": sum(store.bytes for store in stores), "files": len(self.chain)}
            stats |= {
                "stateBytes": sum(file.bytes for file in self.chain),
                "times": {**times, "end": now_ms()},
            }
            if engine:
                stats["engine"] = dict(zip(("id", "since"), engine))
            if cut:
                stats["cut"] = cut
            self._say("stats", str(self.low), [json.dumps(stats)])


def _columns(rows: pa.Table) -> Columns:
    """A table's columns as arrays; what is null in all of its rows is not there."""
    columns: Columns = {}
    for name, values in zip(rows.column_names, rows.combine_chunks().columns):
        if values.null_count == 0:
            columns[name] = values.to_numpy()
        elif values.null_count < len(rows):
            columns[name] = values.chunk(0)
    return columns


_open: dict[tuple[Path, int, int], Windows] = {}  # what this worker has at hand


def opened(settings: Settings, checkpoint: Durable, memory: Path, low: int, high: int) -> Windows:
    """The windows as this worker last left them, or new; those of engines that have stopped are let go."""
    place = memory, low, high
    if place not in _open:
        for other in [other for other in _open if not other[0].exists()]:
            del _open[other]
        shared.release()
        _open[place] = Windows(settings, checkpoint, memory, low, high)
    return _open[place]
