"""Evaluate: exact per-event windows for all groups of a task's key-groups, then alerts.

The counterpart of the Flink demo's `DynamicAlertFunction`. What the windows hold between two micro-batches is kept by
`lab.engine.windows.windowstate`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from pathlib import Path

from lab.engine.checkpoint.ledger import Change, Ledger, Plan
from lab.engine.checkpoint.settings import Settings
from lab.engine.compiled.layout import STAMP
from lab.engine.records.columns import BEFORE_ALL, Columns, in_log_order
from lab.engine.records.parallel import parallel_map
from lab.engine.windows import shared
from lab.engine.windows.alertlines import alert_lines
from lab.engine.windows.batchstats import BatchStats, StoreCounts
from lab.engine.windows.store import RouteStore
from lab.model.reference import LATE_POLICIES
from lab.model.times import now_ms

KeyedLines = tuple[list[str], list[str]]  # keys, lines
TaskOutput = dict[str, KeyedLines]  # by log


@dataclass(frozen=True)
class Envelope:
    """Events of one route for one task, all between the same two control messages of a micro-batch."""

    after: int  # control messages before them
    store: int
    columns: Columns


class Windows:
    """The windows of a task's key-groups: the rules in force and a store for each of their routes. In memory only.

    `newest`: the newest event time of the whole log, ms. `seq`: of the next event. `stored`: how many events were stored, and
    `forgot`: whether a change had a store forget events that state files still have, both since the last save.
    """

    def __init__(self, settings: Settings, folder: Path):
        self.settings, self.schema, self.folder = settings, settings.schema, folder
        self.late_ms = settings.max_out_of_orderness_ms
        self.ledger = Ledger.of((), settings.schema)
        self.stores: dict[int, RouteStore] = {}
        self.begin(0, BEFORE_ALL)

    def begin(self, seq: int, newest: int) -> None:
        """Nothing is unsaved; the next event gets this seq."""
        self.seq, self.newest, self.stored, self.forgot = seq, newest, 0, False

    def path(self, number: int) -> Path:
        """The file of a store's shared memory."""
        return self.folder / f"{number}-{STAMP[:8]}.windows"

    def store(self, plan: Plan) -> RouteStore:
        """The store of a route, with what its shared memory holds."""
        path, fields = self.path(plan.kept.store), list(plan.kept.fields)
        return RouteStore(path, self.schema, plan.route, fields, plan.rules, self.settings.key_groups)

    def evaluate(
        self,
        envelopes: Iterable[Envelope],
        changes: Sequence[Change],
        newest: Sequence[int],
        stats: BatchStats,
    ) -> tuple[KeyedLines, list[dict]]:
        """Evaluates events in log order and carries out the control messages between them; returns alerts and acknowledgements.

        `newest`: the newest event time of these events, of the whole log, before each change and at the end.
        """
        *times, self.newest = [max(self.newest, time) for time in newest]
        dated = list(zip(changes, times, strict=True))
        alerts: KeyedLines = ([], [])
        acks: list[dict] = []
        done = 0
        in_order = sorted(envelopes, key=lambda each: (each.after, each.store))
        for after, group in groupby(in_order, key=lambda each: each.after):
            acks += self._change(dated[done:after])
            done = after
            parts = {store: list(part) for store, part in groupby(group, key=lambda each: each.store)}
            rows = [sum(len(each.columns["time"]) for each in part) for part in parts.values()]
            *seqs, self.seq = accumulate(rows, initial=self.seq)
            # stores know nothing of each other
            evaluated = parallel_map(
                lambda part: self._evaluate(stats, *part), zip(parts, seqs, parts.values()), sum(rows)
            )
            for counts, lines in evaluated:
                stats.add(counts)
                for all_lines, new in zip(alerts, lines):
                    all_lines += new
        acks += self._change(dated[done:])
        self.stored += stats.stored
        # one at most: events wait
        any(store.grow_ahead(stats.stored, self.late_ms) for store in self.stores.values())
        return alerts, acks

    def _evaluate(
        self, stats: BatchStats, number: int, seq: int, envelopes: Sequence[Envelope]
    ) -> tuple[StoreCounts, KeyedLines]:
        store, columns = self.stores[number], in_log_order([each.columns for each in envelopes])
        policy = LATE_POLICIES.index(self.settings.late_policy)
        fates, fired = store.evaluate(columns, seq, self.late_ms, policy)
        return stats.of_store(store, columns, fates, fired), alert_lines(store, columns, fired, now_ms())

    def _change(self, changes: Sequence[tuple[Change, int]]) -> list[dict]:
        """Carries out control messages that have no event of these stores between them; returns their acknowledgements.

        Each with the newest event time of the whole log before it: where a route's widest window grows, events go that the one
        before did not reach from there, whichever key-group they are in (`Reference._forget_out_of_reach`).
        """
        if not changes:
            return []
        acks = []
        widest = {number: store.widest_ms for number, store in self.stores.items()}
        forgotten: dict[int, int] = {}  # store -> the time from before which it forgets events, ms
        before = {plan.kept.store: plan.kept.joined for plan in self.ledger.plans}
        for change, newest in changes:
            ack = self.ledger.apply(change.message)
            acks.append(ack | {"place": change.place, "logTime": change.log_time})
            for kept in self.ledger.kept.values() if widest else ():
                reach_ms = widest.get(kept.store, kept.widest_ms)
                if kept.widest_ms > reach_ms:
                    before_ms = newest - reach_ms - self.late_ms
                    forgotten[kept.store] = max(before_ms, forgotten.get(kept.store, before_ms))
                if kept.store in widest:
                    widest[kept.store] = kept.widest_ms
        self._follow(before, forgotten)
        return acks

    def _follow(self, before: dict[int, dict[int, int]], forgotten: dict[int, int]) -> None:
        """Makes the stores those of the ledger; `before`: store -> when each of its rules had joined."""
        plans = {plan.kept.store: plan for plan in self.ledger.plans}
        for number in self.stores.keys() - plans.keys():
            shared.forget(self.stores.pop(number).path)
        for number, plan in plans.items():
            if number not in self.stores:
                shared.forget(self.path(number))  # of an attempt that died
                self.stores[number] = self.store(plan)
                continue
            store = self.stores[number]
            if number in forgotten:
                store.forget(forgotten[number], self.late_ms)
                self.forgot = True
            if (plan.rules, list(plan.kept.fields)) != (store.rules, store.fields):
                joined = plan.kept.joined
                gone = {rule for rule, since in before[number].items() if joined.get(rule) != since}
                store.change(list(plan.kept.fields), plan.rules, gone)

    def holds(self, number: int, key_group: int, newest: int) -> bool:
        """Whether a store is alive and holds events of a key-group as new as that, ms."""
        store = self.stores.get(number)
        return store is not None and newest >= store.newest[key_group] - store.widest_ms - self.late_ms
