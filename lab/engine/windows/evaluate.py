"""Evaluate: exact per-event windows for all groups of a task's key-groups, then alerts.

The counterpart of the Flink demo's `DynamicAlertFunction`. What the windows hold between two micro-batches is kept by
`lab.engine.windows.windowstate`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

import numpy as np

from lab.engine.checkpoint.ledger import CutRecord, Ledger, RoutePlan
from lab.engine.checkpoint.settings import Settings
from lab.engine.compiled import layout
from lab.engine.compiled.layout import ROW, Batch, code_stamp
from lab.engine.compiled.rulenumbers import AggregateKey
from lab.engine.records.columns import (
    BEFORE_ALL,
    HEARD,
    LOG_TIME,
    PLACE,
    SOURCE,
    Columns,
    in_log_order,
    log_time_or_event_time,
    take_rows_in_order,
)
from lab.engine.records.keyedlines import JoinedLines, KeyedLines
from lab.engine.records.parallel import Steps, parallel_steps
from lab.engine.windows import arrays, shared
from lab.engine.windows.alertlines import (
    alert_lines,
    first_row_of_each_alert,
    split_shadow,
    withdrawal_lines,
    without_muted,
)
from lab.engine.windows.batchstats import BatchStats, StoreCounts
from lab.engine.windows.questions import Judged, Questions
from lab.engine.windows.questionsteps import MOST_STEPS, steps_of_question
from lab.engine.windows.store import DueAlert, RouteStore
from lab.engine.windows.waits import Waits
from lab.model.alerts import Alert
from lab.model.horizon import newest_times, time_reached
from lab.model.listmessages import muted_entry
from lab.model.reference import LATE_POLICIES
from lab.model.routestats import FATES
from lab.model.rule import Rule
from lab.model.times import now_ms

TaskOutput = dict[str, KeyedLines]  # by log
Acknowledgement = dict[str, Any]  # of a control message, as JSON has it


@dataclass(frozen=True)
class Envelope:
    """Events of one route for one task, all between the same two control messages of a micro-batch."""

    control_messages_before: int
    store_number: int
    columns: Columns


@dataclass(frozen=True)
class BatchResult:
    """What evaluating a micro-batch gives; `shadow_alerts`: of rules in state SHADOW."""

    alerts: KeyedLines
    shadow_alerts: KeyedLines
    acknowledgements: list[Acknowledgement]
    stats: BatchStats


class Windows:
    """The windows of a task's key-groups: the rules in force and a store for each of their routes. In memory only.

    `newest_times`: the newest event times of the whole log, ms, as `newest_times` gives them. `reached`: all records logged before this time have been read. `seq`: of the next event. `stored`: how many events were stored, and
    `forgot`: whether a change had a store forget events that state files still have, both since the last save.
    """

    def __init__(self, settings: Settings, folder: Path):
        self.settings, self.schema, self.folder = settings, settings.schema, folder
        self.late_ms = settings.max_out_of_orderness_ms
        self.ledger = Ledger.from_rules((), settings.schema)
        self.stores: dict[int, RouteStore] = {}
        self.waits: dict[int, list[Waits]] = {}  # of each store
        # alerts of what has not come, in the batch that is evaluated
        self._muted: list[Alert] = []
        self._in_shadow: list[Alert] = []
        self._questions: dict[int, Questions] = {}  # since the last evaluation, by store
        self.begin_epoch(0, ())

    def begin_epoch(
        self, first_seq: int, newest_times_ms: Sequence[int], reached_log_ms: int = BEFORE_ALL
    ) -> None:
        """Starts an epoch, in which nothing is stored yet; the next event gets seq `first_seq`."""
        self.seq, self.newest_times, self.reached, self.stored, self.forgot = (
            first_seq,
            list(newest_times_ms),
            reached_log_ms,
            0,
            False,
        )

    def memory_file(self, number: int | str) -> Path:
        """The file of a store's shared memory."""
        return self.folder / f"{number}-{code_stamp()[:8]}.windows"

    def open_store(self, plan: RoutePlan, kept_aggregates: tuple[AggregateKey, ...] = ()) -> RouteStore:
        """Opens the store of a route with its shared memory; `kept_aggregates`: the aggregates in that memory."""
        path, fields = self.memory_file(plan.entry.store), list(plan.entry.fields)
        key_groups = self.settings.key_groups
        return RouteStore(
            path, self.schema, plan.route, fields, plan.rules, key_groups, self.late_ms, kept_aggregates
        )

    def waits_file(self, store_number: int, rule: Rule) -> Path:
        """The file of what a rule awaits."""
        return self.memory_file(f"{store_number}-{rule.rule_id}-{rule.version}")

    def open_waits(self, plans: Iterable[RoutePlan]) -> None:
        """Opens the waits of the rules in force that say `absence`, and removes those of other rules from shared memory."""
        before, self.waits = self.all_waits, {}
        for number, rule in active_absence_rules_by_store(plans):
            waits = Waits(self.waits_file(number, rule), rule, self.stores[number].key_columns)
            self.waits.setdefault(number, []).append(waits)
        for path in {each.path for each in before} - {each.path for each in self.all_waits}:
            shared.remove_arrays(path)

    @property
    def all_waits(self) -> list[Waits]:
        """The waits of all rules that say `absence`."""
        return [each for of in self.waits.values() for each in of]

    @property
    def due_ms(self) -> int | None:
        """The log time after which an alert of `absence` is due even without new events; None without open waits."""
        return min((each.due_ms for each in self.all_waits if each.due_ms is not None), default=None)

    def evaluate(
        self,
        envelopes: Iterable[Envelope],
        changes: Sequence[CutRecord],
        newest_times_ms: Sequence[Sequence[int]],
        reached_log_ms: int,
    ) -> BatchResult:
        """Evaluates events in log order and carries out the control messages between them.

        `newest_times_ms`: the newest event times of this part of the whole log, before each change and at the end. `reached_log_ms`: all records
        logged before this time have been read.
        """
        self._questions.clear()
        before = self.newest_times
        *times, self.newest_times = [newest_times([*before, *part]) for part in newest_times_ms]
        self.reached = max(self.reached, reached_log_ms)
        dated = list(zip(changes, times, strict=True))
        alerts, shadow = KeyedLines([], JoinedLines()), KeyedLines([], JoinedLines())
        stats = BatchStats(self.settings.key_groups)
        places: list[np.ndarray] = []  # of alerts, if events can be taken back
        never: list[DueAlert] = []  # alerts of what has not come
        self._muted, self._in_shadow = [], []
        acks: list[Acknowledgement] = []
        done = 0
        in_order = sorted(envelopes, key=lambda each: (each.control_messages_before, each.store_number))
        for after, group in groupby(in_order, key=lambda each: each.control_messages_before):
            acks += self._change(dated[done:after], never)
            done = after
            floor = max(times[after - 1] if after else before, default=BEFORE_ALL)
            parts = {store: list(part) for store, part in groupby(group, key=lambda each: each.store_number)}
            rows = [sum(len(each.columns["time"]) for each in part) for part in parts.values()]
            *seqs, self.seq = accumulate(rows, initial=self.seq)
            # stores know nothing of each other
            evaluated = parallel_steps(
                [
                    (count, self._evaluate(stats, after, floor, *part))
                    for count, *part in zip(rows, parts, seqs, parts.values(), strict=True)
                ]
            )
            for number, (counts, lines, shadow_lines, due, place) in zip(parts, evaluated, strict=True):
                stats.add(counts)
                never += self._raise_later(number, due)
                places += [place]
                alerts.extend(lines)
                shadow.extend(shadow_lines)
        acks += self._change(dated[done:], never)
        never += self._advance_to(self.reached, max(self.newest_times, default=BEFORE_ALL))
        of_never = [each.alert for each in never]
        stats.add_absence_alerts(of_never, self._muted, self._in_shadow)
        alerts.extend(_lines(of_never))
        shadow.extend(_lines(self._in_shadow))
        if self.schema.taken_back:
            alerts = sort_by_log_position(
                alerts, [*places, log_positions_of_due_alerts([each.until_ms for each in never])]
            )
        self.stored += stats.stored_events
        # one at most: events wait
        any(store.make_room_ahead(stats.stored_events) for store in self.stores.values())
        return BatchResult(alerts, shadow, acks, stats)

    def would(self, envelopes: Iterable[Envelope], count: int) -> list[Judged]:
        """What the events of some questions would give if they came next, each question without the others. Nothing is stored.

        SOURCE says which question an event is of, from 0 to `count` - 1, in this order. The alerts of `absence`, which come later, are left
        out.
        """
        judged = [Judged() for _ in range(count)]
        policy = LATE_POLICIES.index(self.settings.late_policy)
        for each in envelopes:
            store = self.stores[each.store_number]
            columns = self._with_few_steps(store, each.columns, judged)
            questions = self._questions.setdefault(each.store_number, Questions(store))
            for copy, part, (became, fired) in questions.evaluate(columns, self.seq, policy):
                asked = [judged[number] for number in part[SOURCE].tolist()]
                for question, fate in zip(asked, became.tolist(), strict=True):
                    question.fates[FATES[fate]] += 1
                if not len(fired):
                    continue
                fired, _ = split_shadow(copy, without_muted(copy, part, fired, self.ledger.book)[0])
                first = first_row_of_each_alert(copy, fired)
                lines = alert_lines(copy, part, fired, first, now_ms()).lines
                for row, line in zip(fired[first, ROW].tolist(), lines, strict=True):
                    asked[row].alerts.append(line)
        return judged

    def _with_few_steps(self, store: RouteStore, columns: Columns, judged: Sequence[Judged]) -> Columns:
        """The events of questions that it does not take too long to judge; notes of the others that it does."""
        asked = [judged[number] for number in columns[SOURCE].tolist()]
        if store.event_count > MOST_STEPS:
            batch, left = store.to_batch(columns), dict.fromkeys(map(id, asked), MOST_STEPS)
            for row, question in enumerate(asked):
                one = Batch(*(values[row : row + 1] for values in batch))
                most = left[id(question)]
                if most >= 0:
                    left[id(question)] -= steps_of_question(
                        store.store, store.numbers, one, store.widest_ms, store.late_ms, most
                    )
                if left[id(question)] < 0:
                    keys = ", ".join(store.route.keys)
                    question.too_long = f"more than {MOST_STEPS:,} stored events by {keys}"
        kept = np.flatnonzero([not question.too_long for question in asked])
        return {name: take_rows_in_order(values, kept) for name, values in columns.items()}

    def use(self, settings: Settings) -> None:
        """Goes on with other settings, as an engine that was stopped may; schema and key-groups stay."""
        self.settings, self.late_ms = settings, settings.max_out_of_orderness_ms
        self._questions.clear()
        for store in self.stores.values():
            store.late_ms = self.late_ms

    def _evaluate(
        self, stats: BatchStats, after: int, newest: int, number: int, seq: int, envelopes: Sequence[Envelope]
    ) -> Steps[tuple[StoreCounts, KeyedLines, KeyedLines, list[DueAlert], np.ndarray]]:
        """Evaluates the events of one store that lie between two control messages.

        `after`: how many control messages precede them. `newest`: the newest event time of the log before them. `number`: of the
        store. `seq`: of its first event. Returns counts, the lines of the alerts log and of the shadow log, alerts of what has not
        come, and the log positions of the alerts' lines if events can be taken back.
        """
        store, columns = self.stores[number], in_log_order([each.columns for each in envelopes])
        policy = LATE_POLICIES.index(self.settings.late_policy)
        fates, fired = yield from store.evaluate_in_steps(columns, seq, policy)
        if HEARD in columns:
            columns[HEARD] = log_time_or_event_time(columns[LOG_TIME], np.maximum(columns[HEARD], newest))
        waits = self.waits.get(number, ())
        due = [alert for each in waits for alert in each.add_events(store, columns, fates, seq)]
        fired, muted = without_muted(store, columns, fired, self.ledger.book)
        counts = stats.count_store_events(
            store, columns, fates, fired, first_row_of_each_alert(store, fired), muted
        )
        fired, in_shadow = split_shadow(store, fired)
        first = first_row_of_each_alert(store, fired)
        lines, places = alert_lines(store, columns, fired, first, now_ms()), log_positions_of_due_alerts([])
        shadow = alert_lines(store, columns, in_shadow, first_row_of_each_alert(store, in_shadow), now_ms())
        if self.schema.taken_back:
            withdrawn, rows = withdrawal_lines(store, columns, fates, now_ms())
            lines.extend(withdrawn)
            places = log_positions_of_rows(columns, np.append(fired[first, ROW], rows), after)
        return counts, lines, shadow, due, places

    def _advance_to(self, live_ms: int, newest_ms: int) -> list[DueAlert]:
        """The alerts of `absence` that are due when all records logged before `live_ms` have been read."""
        found = []
        for number, waits in self.waits.items():
            due = [alert for each in waits for alert in each.advance_to(live_ms, newest_ms)]
            found += self._raise_later(number, due)
        return found

    def _raise_later(self, number: int, due: Sequence[DueAlert]) -> list[DueAlert]:
        """Those of the alerts that are of the alerts log, and not muted; lets a store know which of its events alerted after they had been evaluated, where that matters."""
        if due and self.schema.taken_back:
            self.stores[number].record_later_alerts(due, self.seq)
            self.seq += len(due)
        given = list[DueAlert]()
        for each in due:
            entry = muted_entry(each.alert.rule_id, each.alert.group)
            if self.ledger.book.is_muted(entry, each.alert.event_time):
                self._muted.append(each.alert)
            elif self.ledger.book.rules[each.alert.rule_id].state == "SHADOW":
                self._in_shadow.append(each.alert)
            else:
                given.append(each)
        return given

    def _change(
        self, changes: Sequence[tuple[CutRecord, Sequence[int]]], never: list[DueAlert]
    ) -> list[Acknowledgement]:
        """Carries out control messages that have no event of these stores between them; returns their acknowledgements.

        `changes`: each with the newest event times of the whole log before it. If a route's widest window grows, its store forgets the
        events that the previous window, counted back from the time reached, no longer reached, in all key-groups (`Reference._forget_out_of_reach`).
        """
        if not changes:
            return []
        acks = []
        widest = {number: store.widest_ms for number, store in self.stores.items()}
        forgotten: dict[int, int] = {}  # store -> the time from before which it forgets events, ms
        before = {plan.entry.store: plan.entry.joined_by_rule_id for plan in self.ledger.plans}
        for change, newest in changes:
            never += self._advance_to(change.log_time, max(newest, default=BEFORE_ALL))
            reached_ms = min(time_reached(newest), change.log_time or layout.NO_LOG_TIME)
            ack = self.ledger.apply(change.record)
            self._end_waits(ack)
            acks.append(ack | {"place": change.place, "logTime": change.log_time})
            for kept in self.ledger.entries.values() if widest else ():
                reach_ms = widest.get(kept.store, kept.widest_ms)
                if kept.widest_ms > reach_ms:
                    before_ms = reached_ms - reach_ms - self.late_ms
                    forgotten[kept.store] = max(before_ms, forgotten.get(kept.store, before_ms))
                if kept.store in widest:
                    widest[kept.store] = kept.widest_ms
        self._sync_stores(before, forgotten)
        return acks

    def _end_waits(self, ack: dict) -> None:
        """Ends the waits of a rule that a message has changed, or all waits if the message clears the state."""
        for number, waits in self.waits.items() if ack["status"] == "accepted" else ():
            self.waits[number] = [
                each
                for each in waits
                if ack.get("controlType") != "CLEAR_STATE_ALL"
                and (now := self.ledger.book.rules.get(each.rule.rule_id))
                and each.rule.as_active == now.as_active
            ]

    def _sync_stores(self, before: dict[int, dict[int, int]], forgotten: dict[int, int]) -> None:
        """Creates, changes and removes stores as the ledger says; `before`: store -> when each of its rules had joined."""
        plans = {plan.entry.store: plan for plan in self.ledger.plans}
        for number in self.stores.keys() - plans.keys():
            arrays.remove_store(self.stores.pop(number).path)
        for number, plan in plans.items():
            if number not in self.stores:
                arrays.remove_store(self.memory_file(number))  # left by an attempt that died
                self.stores[number] = self.open_store(plan)
                continue
            store = self.stores[number]
            if number in forgotten:
                store.compact(before_ms=forgotten[number])
                self.forgot = True
            if (plan.rules, list(plan.entry.fields)) != (store.rules, store.fields):
                joined = plan.entry.joined_by_rule_id
                gone = {rule for rule, since in before[number].items() if joined.get(rule) != since}
                store.change_rules(list(plan.entry.fields), plan.rules, gone)
        known = {each.path for each in self.all_waits}
        for number, rule in active_absence_rules_by_store(plans.values()):
            if (path := self.waits_file(number, rule)) not in known:
                shared.remove_arrays(path)
        self.open_waits(plans.values())

    def export_resets(self, store_number: int, first_seq: int, end_seq: int) -> Columns:
        """The resets of a store in a range of seqs; `joined`: when the rule of each had joined."""
        resets, joined = self.stores[store_number].export_resets(first_seq, end_seq), {}
        if len(resets["rule"]):
            plan = next(plan for plan in self.ledger.plans if plan.entry.store == store_number)
            joined = plan.entry.joined_by_rule_id
        return resets | {"joined": np.array([joined[rule] for rule in resets["rule"].tolist()], np.int64)}

    def may_retain(self, store_number: int, key_group: int, event_time_ms: int) -> bool:
        """Whether a store exists and may still keep events of this time or an earlier one in a key-group."""
        store = self.stores.get(store_number)
        return store is not None and store.may_retain(key_group, event_time_ms)


def active_absence_rules_by_store(plans: Iterable[RoutePlan]) -> list[tuple[int, Rule]]:
    """The rules in force that say `absence`, with their stores."""
    rules = ((plan.entry.store, rule) for plan in plans for rule in plan.rules)
    return [(number, rule) for number, rule in rules if rule.absence and rule.is_judged]


def _lines(alerts: Iterable[Alert]) -> KeyedLines:
    """Keys and JSON of alerts; in live logs their alert time is the current time."""
    now = now_ms()
    timed = [alert if alert.log_time is None else replace(alert, alert_time=now) for alert in alerts]
    return KeyedLines([alert.key for alert in timed], JoinedLines(alert.to_json() for alert in timed))


# -- the order of alerts -----------------------------------------------------------------------------------------------


def log_positions_of_rows(columns: Columns, rows: np.ndarray, control_messages_before: int) -> np.ndarray:
    """The log positions of rows. `control_messages_before`: control messages of the cut before them."""
    heard, source, place = (np.asarray(columns[name])[rows] for name in (HEARD, SOURCE, PLACE))
    return np.column_stack(
        (heard, np.zeros(len(rows), np.int64), np.full(len(rows), control_messages_before), source, place)
    )


def log_positions_of_due_alerts(until_ms: Sequence[int]) -> np.ndarray:
    """The log positions of alerts whose waits end at the given times, ms: after all events logged at that time."""
    return np.array([(time, 1, 0, 0, 0) for time in until_ms], np.int64).reshape(-1, 5)


def sort_by_log_position(lines: KeyedLines, positions: Sequence[np.ndarray]) -> KeyedLines:
    """Sorts keys and lines by their log positions.

    >>> columns = {HEARD: np.array([5, 6]), SOURCE: np.array([0, 0]), PLACE: np.array([0, 1])}
    >>> lines = KeyedLines(["", "", ""], JoinedLines(["6", "5", "until 5"]))
    >>> sort_by_log_position(lines, [log_positions_of_rows(columns, np.array([1, 0]), 0), log_positions_of_due_alerts([5])]).lines.data
    b'5\\nuntil 5\\n6\\n'
    """
    order = np.lexsort(np.concatenate(positions).T[::-1]).tolist()
    texts = list(lines.lines)
    return KeyedLines([lines.keys[n] for n in order], JoinedLines(texts[n] for n in order))
