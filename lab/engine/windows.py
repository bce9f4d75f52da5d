"""Evaluate: exact per-event windows for all groups of a task's key-groups, then alerts. State: windows; rules come along.

The counterpart of the Flink demo's `DynamicAlertFunction`. A task does this once a micro-batch:

    lock the note ─► memory is that of the batch before? ─► evaluate in log order ─► write the state file ─► note the batch
                          no: read the state files

The arrays are in shared memory, so it does not matter which of Spark's Python workers a task gets. The note is empty while
somebody changes them: whoever finds it so, or finds another batch in it, rebuilds them from the files. So a task that is
killed, runs twice or runs again gives the same rows and the same file.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.engine import shared
from lab.engine.alertlines import alert_lines
from lab.engine.batchstats import BatchStats, StoreCounts
from lab.engine.columns import BEFORE_ALL, Columns, in_log_order, take
from lab.engine.durable import Durable
from lab.engine.layout import STAMP
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
from lab.model.times import now_ms

Lines = dict[str, tuple[list[str], list[str]]]  # log -> keys, values


@dataclass(frozen=True)
class Envelope:
    """Events of one route for one task, all between the same two control messages of a micro-batch."""

    after: int  # control messages before them
    store: int
    columns: Columns


Alerts = tuple[list[str], list[str]]  # keys, JSON


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
        self.stats = BatchStats(extra, self.settings.key_groups)
        self.out: Lines = {name: ([], []) for name in ("alerts", "acks", "deadLetters", "stats")}
        self._say("deadLetters", "", extra.get("deadLetters", ()))
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with shared.locked(self.folder / "lock") as note:
            noted = note.read()
            newest = json.loads(noted)["batch"] if noted else -1
            if newest > batch_id:
                raise Overtaken(batch_id, "memory holds the windows", newest)
            note.write("")
            self._open(noted)
            self.newest = max((file.newest for file in self.chain), default=BEFORE_ALL)
            before_changes = extra.get("newest", [BEFORE_ALL] * (len(changes) + 1))
            *times, self.newest = [max(self.newest, time) for time in before_changes]
            dated = list(zip(changes, times, strict=True))
            self._take(sorted(envelopes, key=lambda each: (each.after, each.store)), dated)
            self._save()
            chain = [file._replace(serves=()) for file in self.chain]
            done = {"batch": batch_id, "chain": chain, "garbage": self.garbage, "by": uuid4().hex}
            self.opened = json.dumps(done)
            note.write(self.opened)
        if self.stats.counts or self.answers:
            head = {"batch": batch_id, "keyGroups": [self.low, self.high]}
            line = self.stats.line(head, self.stores.values(), self.chain)
            self._say("stats", str(self.low), [line])
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
        return self.folder / f"{number}-{STAMP[:8]}.windows"

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
        taken, level = merging(self.chain, self.stats.stored)
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
            self.files.write(self.batch_id, first, level, self._rows(first_seq(first)), self.newest),
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

        return table(together(export, self.stores, self.stats.stored))

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

    def _take(self, envelopes: Sequence[Envelope], changes: Sequence[tuple[Change, int]]) -> None:
        done = 0
        for after, group in groupby(envelopes, key=lambda each: each.after):
            self._change(changes[done:after])
            done = after
            parts = {store: list(part) for store, part in groupby(group, key=lambda each: each.store)}
            rows = [sum(len(each.columns["time"]) for each in part) for part in parts.values()]
            *seqs, self.seq = accumulate(rows, initial=self.seq)
            # stores know nothing of each other
            for found in together(self._evaluate, zip(parts, seqs, parts.values()), sum(rows)):
                counts, alerts = found
                self.stats.add(counts)
                for kept, new in zip(self.out["alerts"], alerts):
                    kept += new
        self._change(changes[done:])
        stored = self.stats.stored
        # one at most: events wait
        any(store.grow_ahead(stored, self.late_ms) for store in self.stores.values())

    def _evaluate(self, part: tuple[int, int, Sequence[Envelope]]) -> tuple[StoreCounts, Alerts]:
        number, seq, envelopes = part
        store, columns = self.stores[number], in_log_order([each.columns for each in envelopes])
        policy = LATE_POLICIES.index(self.settings.late_policy)
        fates, found = store.evaluate(columns, seq, self.late_ms, policy)
        counts = self.stats.of_store(store, columns, fates, found)
        return counts, alert_lines(store, columns, found, now_ms())

    def _change(self, changes: Sequence[tuple[Change, int]]) -> None:
        """Carries out control messages that have no event of these stores between them, and goes on with the stores that they leave.

        Each with the newest event time of the whole log before it: where a route's widest window grows, events go that the one
        before did not reach from there, whichever key-group they are in (`Reference._forget_out_of_reach`).
        """
        if not changes:
            return
        widest = {number: store.widest_ms for number, store in self.stores.items()}
        forgotten: dict[int, int] = {}  # store -> the time from before which it forgets events, ms
        before = {plan.kept.store: plan.kept.joined for plan in self.ledger.plans}
        for change, newest in changes:
            ack = self.ledger.apply(change.message)
            if self.answers:
                ack |= {"place": change.place, "logTime": change.log_time}
                self._say("acks", str(ack.get("ruleId", "")), [json.dumps(ack)])
            for kept in self.ledger.kept.values() if widest else ():
                reach_ms = widest.get(kept.store, kept.widest_ms)
                if kept.widest_ms > reach_ms:
                    before_ms = newest - reach_ms - self.late_ms
                    forgotten[kept.store] = max(before_ms, forgotten.get(kept.store, before_ms))
                if kept.store in widest:
                    widest[kept.store] = kept.widest_ms
        plans = {plan.kept.store: plan for plan in self.ledger.plans}
        for number in self.stores.keys() - plans.keys():
            shared.forget(self.stores.pop(number).path)
        for number, plan in plans.items():
            if number not in self.stores:
                shared.forget(self._path(number))  # of an attempt that died
                self.stores[number] = self._store(plan)
                continue
            store = self.stores[number]
            if number in forgotten:
                store.forget(forgotten[number], self.late_ms)
                self.rewrite = True
            if (plan.rules, list(plan.kept.fields)) != (store.rules, store.fields):
                joined = plan.kept.joined
                gone = {rule for rule, since in before[number].items() if joined.get(rule) != since}
                store.change(list(plan.kept.fields), plan.rules, gone)


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
