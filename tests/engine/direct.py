"""The windows alone against the reference: a random log straight into `RouteStore`, without decoding, Spark or files.

A log takes milliseconds, so `python -m tests.engine.direct --short --logs 100000` is a matter of minutes. A failing seed is
printed and can be run again: `--seed 17 --logs 1`. With NUMBA_BOUNDSCHECK=1 every array index is checked.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from lab.engine.compiled.layout import CONDITION, COUNTS, NO_LOG_TIME, RULE, SUPPRESSED, TAKES_BACK
from lab.engine.compiled.rulenumbers import STATE, distinct_whens, transport_columns, when_bit
from lab.engine.compiled.window import TAKEN_BACK, WITHDRAWN
from lab.engine.records.columns import HEARD, ID_TEXT, LOG_TIME, Columns
from lab.engine.windows import alertlines, arrays, shared, store
from lab.engine.windows import waits as awaited
from lab.engine.windows.alertlines import alert_lines, first_row_of_each_alert, withdrawal_lines
from lab.engine.windows.store import RouteStore
from lab.engine.windows.waits import DueAlert, Waits
from lab.model import horizon
from lab.model.aggregation import WHERE
from lab.model.alerts import Alert, Withdrawal, event_id_text
from lab.model.field import Id
from lab.model.filters import passes_filter
from lab.model.horizon import newest_times, time_reached
from lab.model.jsontext import BadRecord
from lab.model.keygroups import digest, key_group_of
from lab.model.reference import LATE_POLICIES, Reference
from lab.model.rule import Rule, alerted_marker
from lab.model.rules import Route, RuleBook
from lab.model.schema import LOGINS, MAX_FUTURE_MS, Schema, Value
from lab.model.takenback import taken_back_condition
from lab.model.tallies import FATES
from lab.model.when import is_true
from tests.engine.oddlogs import ROWS, with_events_ahead, with_odd_entries, with_rows
from tests.engine.randomlogs import (
    MINUTE,
    Entry,
    crowded_log,
    log_times,
    random_log,
    with_absence,
    with_returns,
    with_rules_again,
)
from tests.strategies import PAIRS, RETURNS


class Direct:
    """Rules and stores of one task, as the engine keeps them; a micro-batch ends where `flush` is called."""

    def __init__(self, schema: Schema, folder: Path, key_groups: int, late_policy: str, late_ms: int):
        self.schema, self.folder, self.key_groups = schema, folder, key_groups
        self.late_policy, self.late_ms = LATE_POLICIES.index(late_policy), late_ms
        self.book = RuleBook(schema)
        self.stores: dict[Route, RouteStore] = {}
        self.since: dict[Route, dict[int, int]] = {}
        # rule id -> its route, and a number of its own for when it joined
        self.joined: dict[int, tuple[Route, int]] = {}
        self.joinings = 0
        self.waits: dict[Route, list[Waits]] = {}
        self.waiting: list[tuple[dict[str, Value], int, int]] = []  # event, log time, when it was heard of
        self.saved: dict[Path, list[Columns]] = {}  # parts of what is awaited
        self.saved_seq = 0
        self.reached = 0  # all that was logged before has come
        self.seq, self.files = 0, 0
        self.found: list[tuple[str, str]] = []  # key, JSON
        self.counts: Counter[str] = Counter()
        self.suppressed: Counter[str] = Counter()
        self.newest: list[int] = []  # event times of the whole log

    def event(self, line: bytes, log_time: int = 0) -> None:
        try:
            events = self.schema.events(line)
            for event in events:
                self.schema.check_future(event, log_time, MAX_FUTURE_MS)
        except BadRecord:
            return
        for event in events:
            self.newest = newest_times([*self.newest, event[self.schema.time_field]])
            self.waiting.append((event, log_time, log_time or self.newest[0]))

    def control(self, text: bytes, log_time: int = 0) -> None:
        self.flush(log_time)
        ack = self.book.apply(text)
        routes = self.book.routes()
        for route in list(self.stores):
            if route not in routes or ack.get("controlType") == "CLEAR_STATE_ALL":
                arrays.remove_store(self.stores.pop(route).path)
                del self.since[route]
        before, self.joined = self.joined, {}
        for route, rules in routes.items():
            for rule in rules:
                self.joinings += 1
                was = before.get(rule.rule_id)
                self.joined[rule.rule_id] = was if was and was[0] == route else (route, self.joinings)
        for route, rules in routes.items():
            held = self.stores.get(route)
            spoken = [alerted_marker(r.rule_id, self.joined[r.rule_id][1]) for r in rules if r.at_most]
            fields = list(
                dict.fromkeys(
                    [
                        *(held.fields if held else ()),
                        *(f for r in rules for f in r.stored_field_names),
                        *spoken,
                    ]
                )
            )
            if held is None:
                self.stores[route] = self._store(route, fields, rules)
                self.since[route] = {rule.rule_id: 0 for rule in rules}
            elif held.rules != rules:
                if max(rule.widest_ms for rule in rules) > held.widest_ms:
                    reached = min(time_reached(self.newest), log_time or NO_LOG_TIME)
                    held.compact(before_ms=reached - held.widest_ms - self.late_ms)
                since = self.since[route]
                self.since[route] = {rule.rule_id: since.get(rule.rule_id, self.seq) for rule in rules}
                held.change_rules(fields, rules, since.keys() - self.since[route].keys())

        self._sync_waits(cleared=ack.get("controlType") == "CLEAR_STATE_ALL")

    def _sync_waits(self, cleared: bool) -> None:
        """What rules that are as they were await, and nothing yet of the others."""
        ended = {each.rule: each for each in self.awaiting}
        before = {} if cleared else ended
        self.waits = {
            route: [
                before.get(rule) or self._waits(route, rule)
                for rule in rules
                if rule.absence and rule.state == "ACTIVE"
            ]
            for route, rules in self.book.routes().items()
        }
        kept = {each.path for each in self.awaiting}
        for path in {each.path for each in ended.values()} - kept:
            shared.remove_arrays(path)

    def _waits(self, route: Route, rule: Rule) -> Waits:
        self.files += 1
        return Waits(self.folder / f"{self.files}", rule, self.stores[route].key_columns)

    def _store(self, route: Route, fields: list[str], rules: tuple) -> RouteStore:
        self.files += 1
        path = self.folder / f"{self.files}"
        return RouteStore(path, self.schema, route, fields, rules, self.key_groups, self.late_ms)

    def flush(self, reached: int = 0) -> None:
        """Evaluates what has come, and tells what was awaited up to a log time before `reached`."""
        entries, self.waiting = self.waiting, []
        events = [event for event, *_ in entries]
        for route in self.book.routes():
            held = self.stores[route]
            rows = [n for n, event in enumerate(events) if self._matches(event, route)]
            if not rows:
                continue
            columns = self.columns([events[n] for n in rows], held)
            columns[LOG_TIME], columns[HEARD] = np.array([entries[n][1:] for n in rows], np.int64).T
            fates, alerts = held.evaluate(columns, self.seq, self.late_policy)
            due = [
                alert
                for waits in self.waits[route]
                for alert in waits.add_events(held, columns, fates, self.seq)
            ]
            self._tell(due)
            self.seq += len(rows)
            self.counts.update(
                FATES[fate] for fate in np.where(fates == WITHDRAWN, TAKEN_BACK, fates).tolist()
            )
            for row in alerts[alerts[:, CONDITION] == SUPPRESSED, RULE].tolist():
                self.suppressed[f"{held.rules[row].rule_id}.{held.rules[row].version}"] += 1
            first = first_row_of_each_alert(held, alerts)
            self.found += zip(*alert_lines(held, columns, alerts, first, alert_time_ms=0))
            self.found += zip(*withdrawal_lines(held, columns, fates, 0)[0])
            self._record_later_alerts(held, due)
        self.reached = max(self.reached, reached)
        for route, of in self.waits.items():
            due = [
                alert for each in of for alert in each.advance_to(self.reached, max(self.newest, default=-1))
            ]
            self._tell(due)
            self._record_later_alerts(self.stores[route], due)

    @property
    def awaiting(self) -> list[Waits]:
        return [each for of in self.waits.values() for each in of]

    def _tell(self, due: Sequence[DueAlert]) -> None:
        self.found += [(each.alert.key, dated(each.alert).to_json()) for each in due]

    def _record_later_alerts(self, held: RouteStore, due: Sequence[DueAlert]) -> None:
        if due and self.schema.taken_back:
            held.record_later_alerts(due, self.seq)
            self.seq += len(due)

    def _takes_back(self, event: dict[str, Value]) -> bool:
        condition = taken_back_condition(self.schema)
        return condition is not None and is_true(condition, event)

    def _matches(self, event: dict[str, Value], route: Route) -> bool:
        return (passes_filter(route.filter, event) or self._takes_back(event)) and all(
            event[name] is not None for name in route.keys
        )

    def columns(self, events: list[dict[str, Value]], held: RouteStore) -> Columns:
        groups = [tuple(event[name] for name in held.route.keys) for event in events]
        columns: Columns = {
            LOG_TIME: np.zeros(len(events), np.int64),
            **self._ids([self.schema.id_of(event) for event in events]),
            "time": np.array([event[self.schema.time_field] for event in events], np.int64),
            "keyGroup": np.array([key_group_of(group, self.key_groups) for group in groups], np.int64),
        }
        if self.schema.taken_back:
            columns[STATE] = np.array([TAKES_BACK if self._takes_back(event) else COUNTS for event in events])
        needed = {
            name for rule in held.rules for name in rule.stored_field_names
        }  # what the engine sends along a route
        events = [
            event
            | {
                name: 1 if true else None
                for rule in held.rules
                for name, true in rule.fields_to_store(event).items()
                if name.startswith(WHERE)
            }
            for event in events
        ]
        for kind, names in (("key", held.route.keys), ("value", needed)):
            for name in names:
                columns[f"text:{name}"] = pa.array([str(event[name]) for event in events])
                numbers = [self._numbers(name, event[name]) for event in events]
                for half, column in enumerate(transport_columns(self.schema, name)):
                    values = [None if number is None else number[half] for number in numbers]
                    columns[f"{kind}:{column}"] = (
                        pa.array(values, pa.int64()) if None in values else np.array(values, np.int64)
                    )
        for name in {name for rule in held.rules for name in rule.event_fields}:
            columns[f"told:{name}"] = self._raw(name, [event[name] for event in events])
        for number, when in enumerate(distinct_whens(held.rules)):
            name, bit = when_bit(number)
            columns.setdefault(name, np.zeros(len(events), np.int64))
            columns[name] += bit * np.array([is_true(when, event) for event in events], np.int64)
        return columns

    def _raw(self, name: str, values: list) -> pa.Array:
        """A column as it was decoded."""
        if not self.schema.field(name).is_number_or_time:
            return pa.array(values, pa.string())
        numbers = (None if value is None else self._numbers(name, value) for value in values)
        return pa.array([None if number is None else number[0] for number in numbers], pa.int64())

    def _ids(self, ids: list[Id]) -> Columns:
        if self.schema.has_numeric_id:
            return {"id": np.array(ids, np.int64)}
        texts = [event_id_text(each) for each in ids]
        return {"id": np.array([digest(text)[0] for text in texts], np.int64), ID_TEXT: pa.array(texts)}

    def _numbers(self, name: str, value: Any) -> tuple[int, ...] | None:
        if value is None or isinstance(value, str):
            return value if value is None else digest(value)
        if name.startswith(WHERE):
            return (value,)
        return (int(value.scaleb(self.schema.field(name).scale)) if self.schema.field(name).scale else value,)

    def restart(self, parts: int) -> None:
        """As if memory were lost: new stores take back what the old ones exported in `parts` parts."""
        self.flush()
        self.save()
        for route, old in list(self.stores.items()):
            new = self._store(route, old.fields, old.rules)
            bounds = np.linspace(0, self.seq, parts + 1).astype(int).tolist()
            for first, end in pairwise(bounds):
                events, resets = old.export_events_and_resets(first, end)
                pairs = zip(resets["rule"].tolist(), resets["seq"].tolist())
                own = np.flatnonzero([seq >= self.since[route][rule] for rule, seq in pairs])
                new.load(events, {name: values[own] for name, values in resets.items()})
            arrays.remove_store(old.path)
            self.stores[route] = new
            self.waits[route] = [self._again(route, waits) for waits in self.waits[route]]

    def save(self) -> None:
        """Keeps what is awaited after the events since the last time, as state files do."""
        for waits in self.awaiting:
            self.saved.setdefault(waits.path, []).append(waits.export(self.saved_seq, self.seq))
        self.saved_seq = self.seq

    def _again(self, route: Route, old: Waits) -> Waits:
        new, saved = self._waits(route, old.rule), self.saved.pop(old.path)
        for columns in saved:
            new.load(columns)
        new.advance_to(self.reached, max(self.newest, default=-1))
        shared.remove_arrays(old.path)
        self.saved[new.path] = saved
        return new

    def close(self) -> None:
        """Gives its memory back."""
        for held in self.stores.values():
            arrays.remove_store(held.path)
        for each in self.awaiting:
            shared.remove_arrays(each.path)


def dated(told: Alert | Withdrawal, log_time: int | None = None) -> Alert | Withdrawal:
    """A line as a live log's has it, if it has a log time of its own or gets one; the time at which it was made is 0."""
    log_time = told.log_time or log_time or None
    return replace(told, log_time=log_time, alert_time=0 if log_time else None)


@dataclass
class Drawn:
    """A log of random entries, of events with this schema, and how an engine is set that reads it."""

    log: list[Entry]
    schema: Schema
    settings: dict[str, Any]
    times: list[int]  # when each entry is logged; 0: the log is not live
    witnesses: int  # how many it takes to reach a time
    rng: random.Random
    absence: random.Random


def drawn(seed: int, short: bool = False) -> Drawn:
    """What a seed gives."""
    rng = random.Random(seed)
    log, schema = (
        (random_log(rng, short), rng.choice([LOGINS, PAIRS]))
        if rng.random() < 0.7
        else (crowded_log(rng), LOGINS)
    )
    # a generator of its own: what a seed gave before events could be taken back, half of them still give
    returns = random.Random(f"{seed}/returns")
    odd = random.Random(f"{seed}/odd")  # likewise
    if schema is LOGINS and odd.random() < 0.2:
        log, schema = with_rows(odd, log), ROWS
    if schema is LOGINS and returns.random() < 0.5:
        log, schema = with_returns(returns, log), RETURNS
    again = random.Random(f"{seed}/again")  # likewise
    if again.random() < 0.5:
        log = with_rules_again(again, log)
    absence = random.Random(f"{seed}/absence")
    times = [0] * len(log)
    if absence.random() < 0.5:
        log = with_absence(absence, log)
        times = absence.choice([times, log_times(absence, len(log))])
    if odd.random() < 0.3:
        log = with_odd_entries(odd, log)
    ahead = random.Random(f"{seed}/ahead")
    if ahead.random() < 0.4:
        log = with_events_ahead(ahead, log)
    settings: dict[str, Any] = {
        "late_policy": rng.choice(LATE_POLICIES),
        "max_out_of_orderness_ms": rng.choice([0, MINUTE // 2, 5 * MINUTE]),
        "key_groups": rng.choice([1, 4, 16]),
    }
    return Drawn(log, schema, settings, times, ahead.choice([1, 1, 2, horizon.WITNESSES]), rng, absence)


def difference(seed: int, folder: Path, short: bool = False) -> str:
    """Runs the log of a seed through both; empty if they agree."""
    of = drawn(seed, short)
    rng, absence, times, settings = of.rng, of.absence, of.times, of.settings
    reference, expected = Reference(of.schema, **settings), Counter[tuple[str, str]]()

    def take_told(log_time: int) -> None:
        expected.update(
            (told.key, dated(told, log_time).to_json()) for told in reference.alerts_and_withdrawals
        )
        reference.alerts_and_withdrawals.clear()

    cut, lost, room = rng.choice([0.02, 0.2, 1]), rng.choice([0, 0, 0.2]), rng.choice([2, 64, 1024])
    direct = Direct(
        of.schema,
        folder,
        settings["key_groups"],
        settings["late_policy"],
        settings["max_out_of_orderness_ms"],
    )
    with (
        patch.object(horizon, "WITNESSES", of.witnesses),
        patch.object(arrays, "ROOM_AT_FIRST", room),
        patch.object(arrays, "SPARE_ROWS", room),
        patch.object(shared, "GROWTH", 4),
        patch.object(awaited, "ROOM_AT_FIRST", room),
        patch.object(store, "ALERTS_AT_ONCE", rng.choice([1, 4096])),
        patch.object(alertlines, "NOT_WORTH_ARROW", rng.choice([0, 20])),
        patch.object(store, "STEP_ROWS", room),
    ):
        for (kind, text), time, next_time in zip(of.log, times, [*times[1:], times[-1]]):
            for engine in (reference, direct):
                if kind == "event":
                    engine.event(text, log_time=time)
                else:
                    engine.control(text, log_time=time)
            take_told(time)
            if rng.random() < cut:
                for reached in sorted(
                    absence.randint(time, next_time) for _ in range(absence.choice([1, 2]))
                ):
                    direct.flush(reached)
                if absence.random() < 0.3:
                    direct.save()
                for held in direct.stores.values():
                    if rng.random() < 0.1:
                        held.compact(room_for_events=rng.choice([0, 8]))
                if rng.random() < lost:
                    direct.restart(rng.choice([1, 2, 3]))
        end = times[-1] and times[-1] + 60 * MINUTE
        direct.flush(end)
        reference.advance_to(end)
        take_told(end)
    direct.close()
    got = Counter(direct.found)
    counts = {name: count for name, count in reference.counts.items() if name in FATES}
    missing, extra = expected - got, got - expected
    if missing or extra:
        return f"seed {seed}: missing {list(missing)[:3]}, too many {list(extra)[:3]}, of {expected.total()}"
    if counts != {name: direct.counts[name] for name in FATES}:
        return f"seed {seed}: counts {counts} expected, {dict(direct.counts)} found"
    if reference.suppressed != direct.suppressed:
        return f"seed {seed}: suppressed {reference.suppressed} expected, {direct.suppressed} found"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first log")
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--short", action="store_true", help="at most 20 events")
    chosen = parser.parse_args()
    with TemporaryDirectory(prefix="lab-direct-", dir=shared.memory_folder()) as folder:
        for seed in range(chosen.seed, chosen.seed + chosen.logs):
            if different := difference(seed, Path(folder), chosen.short):
                sys.exit(different)
    print(f"{chosen.logs} logs from seed {chosen.seed}: no difference from the reference")


if __name__ == "__main__":
    main()
