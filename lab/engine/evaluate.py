"""Evaluate: exact per-event windows for all groups of a key-group, then alerts. Keyed by key-group; state: rules and windows.

The counterpart of the Flink demo's `DynamicAlertFunction`. Spark calls it once for each key-group and micro-batch.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from pyspark.sql import Row

from lab.engine import rulebooks, shared, window
from lab.engine.alertlines import alert_lines
from lab.engine.chunklog import ChunkLog
from lab.engine.columns import Columns, in_log_order, now_ms, unpack
from lab.engine.settings import Settings
from lab.engine.store import RouteStore
from lab.model.keygroups import placed_ids
from lab.model.reference import LATE_POLICIES
from lab.model.rules import Route, Rule, RuleBook

FATES = {
    window.EVALUATED: "evaluated",
    window.STORED_LATE: "storedLate",
    window.DUPLICATE: "duplicates",
    window.DROPPED_LATE: "droppedLate",
}


class KeyGroup:
    """One key-group in this worker: its rules, its stores in shared memory, and what the current micro-batch gives."""

    def __init__(self, key_group: int, settings: Settings, checkpoint: Path, windows: Path):
        self.settings, self.checkpoint = settings, checkpoint
        self.schema = settings.schema
        self.answers = key_group == placed_ids(settings.key_groups)[0]  # one key-group speaks for all
        self.folder = windows / str(key_group)
        self.head_id, self.book_id = "", ""
        self.book, self.stores = RuleBook(self.schema), {}

    def process(self, state, rows: Iterable[Row], batch_id: int) -> Iterator[Row]:
        """Takes in the envelopes and control messages of a micro-batch; yields rows of `operators.OUTPUT`."""
        self.log, self.batch_id = ChunkLog(state), batch_id
        self.times: dict[str, int] = {}
        self.out: dict[str, list[tuple[str, str]]] = {
            "alerts": [],
            "acks": [],
            "deadLetters": [],
            "stats": [],
        }
        self.counts: Counter[str] = Counter()
        self.rewrite = False
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # a stopped engine takes its folder away
        with shared.locked(self.folder / "lock") as note:
            self._open(note.read())
            note.write("")
            self._take(rows)
            self._close()
            note.write(self.log.head["id"])
        for log, lines in self.out.items():
            if lines:
                keys, values = zip(*lines, strict=True)
                yield Row(log=log, keys=list(keys), values=list(values))

    # -- the cache and the log -----------------------------------------------------------------------------------------

    def _open(self, cached: str) -> None:
        """Makes rules and stores those of the log's head."""
        head = self.log.head
        if head["book"] != self.book_id:
            text = self.log.book()
            self.book = RuleBook.from_json(text, self.schema) if text else RuleBook(self.schema)
            self.book_id = head["book"]
            self.head_id = None
        if cached == head["id"] == self.head_id:
            return
        if cached != head["id"]:
            for path in self.folder.glob("*.windows"):
                shared.forget(path)
        routes = self._routes()
        self.stores = {}
        for name, saved in head["stores"].items():
            route, rules = routes[saved["route"]]
            self.stores[name] = self._store(name, route, saved["fields"], rules)
        if cached != head["id"]:
            self.log.replay(self.stores, self.settings.max_out_of_orderness_ms)

    def _routes(self) -> dict[str, tuple[Route, tuple[Rule, ...]]]:
        return {route.id: (route, rules) for route, rules in self.book.routes().items()}

    def _store(self, name: str, route: Route, fields: list[str], rules: tuple[Rule, ...]) -> RouteStore:
        return RouteStore(
            self.folder / f"{name}.windows", self.schema, route, list(fields), rules, key_groups=1
        )

    def _close(self) -> None:
        late_ms = self.settings.max_out_of_orderness_ms
        self.log.append(self.stores, late_ms, self.rewrite)
        self.head_id = self.log.head["id"]
        for store in self.stores.values():
            if store.mostly_expired(late_ms):
                store.compact(late_ms)
        if self.counts:
            chunks = self.log.head["chunks"]
            self.counts["heldEvents"] = sum(store.events for store in self.stores.values())
            self.counts["groups"] = sum(store.groups for store in self.stores.values())
            self.counts["memoryBytes"] = sum(store.bytes for store in self.stores.values())
            self.counts["stateBytes"] = sum(chunk["bytes"] for chunk in chunks)
            self.counts["chunks"] = len(chunks)
            stats = {"batch": self.batch_id, "keyGroup": int(self.folder.name), **self.counts}
            stats["times"] = {**self.times, "end": now_ms()}
            self.out["stats"].append((self.folder.name, json.dumps(stats)))

    # -- a micro-batch in log order ------------------------------------------------------------------------------------

    def _take(self, rows: Iterable[Row]) -> None:
        messages: list[dict] = []
        parts: dict[tuple[int, str], list[Columns]] = {}  # control messages before it, route -> envelopes
        for row in rows:
            if row.kind == "events":
                columns, (after, route) = unpack(row.payload)
                parts.setdefault((after, route), []).append(columns)
            elif row.kind == "control":
                messages = json.loads(row.payload)
            elif row.kind == "deadLetters":
                self.out["deadLetters"] += [("", line) for line in json.loads(row.payload)]
            elif row.kind == "times":
                self.times = json.loads(row.payload)
            else:
                self.counts.update(json.loads(row.payload))
        for after in range(len(messages) + 1):
            for name, store in self.stores.items():
                saved = self.log.head["stores"][name]
                envelopes = parts.get((after, saved["route"]))
                if envelopes:
                    self._evaluate(store, saved, in_log_order(envelopes))
            if after < len(messages):
                self._control(messages[after])
        if messages and self.answers:
            rulebooks.save(self.checkpoint, self.batch_id, self.book.to_json())

    def _evaluate(self, store: RouteStore, saved: dict, columns: Columns) -> None:
        policy = LATE_POLICIES.index(self.settings.late_policy)
        columns["keyGroup"] = np.zeros(len(columns["time"]), np.int64)
        late_ms = self.settings.max_out_of_orderness_ms
        fates, alerts = store.evaluate(columns, saved["seq"], late_ms, policy)
        saved["seq"] += len(fates)
        for fate, count in enumerate(np.bincount(fates[columns["first"] == 1], minlength=len(FATES))):
            if count:
                self.counts[FATES[fate]] += int(count)
        if len(alerts):
            self.counts["alerts"] += len(alerts)
            self.out["alerts"] += zip(*alert_lines(store, columns, alerts, now_ms()))

    # -- rules ---------------------------------------------------------------------------------------------------------

    def _control(self, message: dict) -> None:
        text = bytes.fromhex(message["message"])
        ack = self.book.apply(text)
        if self.answers:
            ack = {**ack, "place": message["place"], "logTime": message["logTime"]}
            self.out["acks"].append((str(ack.get("ruleId", "")), json.dumps(ack)))
        if ack["status"] == "rejected":
            return
        self.log.save_book(self.book.to_json())
        self.book_id = self.log.head["book"]
        saved = self.log.head["stores"]
        routes = self._routes()
        for name in list(saved):
            if saved[name]["route"] not in routes or ack.get("controlType") == "CLEAR_STATE_ALL":
                shared.forget(self.stores.pop(name).path)
                del saved[name]
        for name, store in self.stores.items():
            route, rules = routes.pop(saved[name]["route"])
            if rules != store.rules:
                self._change(name, store, rules)
        for route, rules in routes.values():
            name = str(self.log.head["nextStore"])
            self.log.head["nextStore"] += 1
            fields = list(dict.fromkeys(field for rule in rules for field in rule.needs))
            joined = {str(rule.rule_id): 0 for rule in rules}
            saved[name] = {"route": route.id, "fields": fields, "joined": joined, "seq": 0}
            self.stores[name] = self._store(name, route, fields, rules)

    def _change(self, name: str, store: RouteStore, rules: tuple[Rule, ...]) -> None:
        """Goes on with other rules of the same route."""
        if max(rule.window_ms for rule in rules) > store.widest_ms:  # what is not held now must not come back
            store.compact(self.settings.max_out_of_orderness_ms)
            self.rewrite = True
        saved = self.log.head["stores"][name]
        saved["fields"] = list(
            dict.fromkeys(saved["fields"] + [field for rule in rules for field in rule.needs])
        )
        joined = saved["joined"]
        saved["joined"] = {str(rule.rule_id): joined.get(str(rule.rule_id), saved["seq"]) for rule in rules}
        store.change(saved["fields"], rules)


_key_groups: dict[tuple[Path, int], KeyGroup] = {}  # what this worker has open


def opened(key_group: int, settings: Settings, checkpoint: Path, windows: Path) -> KeyGroup:
    """The key-group as this worker last left it, or new; those of engines that have stopped are let go."""
    if (windows, key_group) not in _key_groups:
        for other in [other for other in _key_groups if not other[0].exists()]:
            del _key_groups[other]
        shared.release()
        _key_groups[windows, key_group] = KeyGroup(key_group, settings, checkpoint, windows)
    return _key_groups[windows, key_group]
