"""The windows alone against the reference: a random log straight into `RouteStore`, without decoding, Spark or files.

A log takes milliseconds, so `python -m tests.engine.direct --short --logs 100000` is a matter of minutes. A failing seed is
printed and can be run again: `--seed 17 --logs 1`. With NUMBA_BOUNDSCHECK=1 every array index is checked.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from lab.engine.compiled.layout import CONDITION, COUNTS, RULE, SUPPRESSED, TAKES_BACK
from lab.engine.compiled.rulenumbers import STATE, condition_bit, different_whens, transport_columns
from lab.engine.compiled.window import TAKEN_BACK, WITHDRAWN
from lab.engine.records.columns import ID_TEXT, LOG_TIME, Columns
from lab.engine.windows import arrays, shared, store
from lab.engine.windows.alertlines import alert_lines, first_rows, withdrawn_lines
from lab.engine.windows.store import RouteStore
from lab.model.aggregation import WHERE
from lab.model.alerts import id_text
from lab.model.field import Id
from lab.model.filters import passes_filter
from lab.model.keygroups import digest, key_group_of
from lab.model.reference import LATE_POLICIES, evaluate_log
from lab.model.rule import alerted_marker
from lab.model.rules import CONTROLS, FUNCTIONS, OPERATORS, Route, RuleBook
from lab.model.schema import LOGINS, Schema, Value
from lab.model.takenback import taken_back
from lab.model.tallies import FATES
from lab.model.when import is_true
from tests.strategies import PAIRS, RETURNS, WHENS

Entry = tuple[str, bytes]


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
        self.waiting: list[dict[str, Value]] = []
        self.seq, self.files = 0, 0
        self.found: list[tuple[str, str]] = []  # key, JSON
        self.counts: Counter[str] = Counter()
        self.suppressed: Counter[str] = Counter()
        self.newest = -1  # event time of the whole log

    def event(self, line: bytes) -> None:
        for event in self.schema.events(line):
            self.waiting.append(event)
            self.newest = max(self.newest, event[self.schema.time_field])

    def control(self, text: bytes) -> None:
        self.flush()
        ack = self.book.apply(text)
        routes = self.book.routes()
        for route in list(self.stores):
            if route not in routes or ack.get("controlType") == "CLEAR_STATE_ALL":
                shared.forget(self.stores.pop(route).path)
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
                dict.fromkeys([*(held.fields if held else ()), *(f for r in rules for f in r.needs), *spoken])
            )
            if held is None:
                self.stores[route] = self._store(route, fields, rules)
                self.since[route] = {rule.rule_id: 0 for rule in rules}
            elif held.rules != rules:
                if max(rule.widest_ms for rule in rules) > held.widest_ms:
                    held.forget(self.newest - held.widest_ms - self.late_ms)
                since = self.since[route]
                self.since[route] = {rule.rule_id: since.get(rule.rule_id, self.seq) for rule in rules}
                held.change(fields, rules, since.keys() - self.since[route].keys())

    def _store(self, route: Route, fields: list[str], rules: tuple) -> RouteStore:
        self.files += 1
        path = self.folder / f"{self.files}"
        return RouteStore(path, self.schema, route, fields, rules, self.key_groups, self.late_ms)

    def flush(self) -> None:
        """Evaluates what waits."""
        events, self.waiting = self.waiting, []
        for route in self.book.routes():
            held = self.stores[route]
            rows = [n for n, event in enumerate(events) if self._matches(event, route)]
            if not rows:
                continue
            columns = self.columns([events[n] for n in rows], held)
            fates, alerts = held.evaluate(columns, self.seq, self.late_policy)
            self.seq += len(rows)
            self.counts.update(
                FATES[fate] for fate in np.where(fates == WITHDRAWN, TAKEN_BACK, fates).tolist()
            )
            for row in alerts[alerts[:, CONDITION] == SUPPRESSED, RULE].tolist():
                self.suppressed[f"{held.rules[row].rule_id}.{held.rules[row].version}"] += 1
            first = first_rows(held, alerts)
            self.found += zip(*alert_lines(held, columns, alerts, first, alert_time_ms=0))
            self.found += zip(*withdrawn_lines(held, columns, fates, 0)[0])

    def _takes_back(self, event: dict[str, Value]) -> bool:
        condition = taken_back(self.schema)
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
        needed = {name for rule in held.rules for name in rule.needs}  # what the engine sends along a route
        events = [
            event
            | {
                name: 1 if true else None
                for rule in held.rules
                for name, true in rule.kept(event).items()
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
        for number, when in enumerate(different_whens(held.rules)):
            name, bit = condition_bit(number)
            columns.setdefault(name, np.zeros(len(events), np.int64))
            columns[name] += bit * np.array([is_true(when, event) for event in events], np.int64)
        return columns

    def _raw(self, name: str, values: list) -> pa.Array:
        """A column as it was decoded."""
        if not self.schema.field(name).numeric:
            return pa.array(values, pa.string())
        numbers = (None if value is None else self._numbers(name, value) for value in values)
        return pa.array([None if number is None else number[0] for number in numbers], pa.int64())

    def _ids(self, ids: list[Id]) -> Columns:
        if self.schema.numeric_id:
            return {"id": np.array(ids, np.int64)}
        texts = [id_text(each) for each in ids]
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
        for route, old in list(self.stores.items()):
            new = self._store(route, old.fields, old.rules)
            new.newest[:] = old.newest
            bounds = np.linspace(0, self.seq, parts + 1).astype(int).tolist()
            for first, end in pairwise(bounds):
                events, resets = old.export(first, end)
                pairs = zip(resets["rule"].tolist(), resets["seq"].tolist())
                own = np.flatnonzero([seq >= self.since[route][rule] for rule, seq in pairs])
                new.load(events, {name: values[own] for name, values in resets.items()})
            shared.forget(old.path)
            self.stores[route] = new


# -- random logs -------------------------------------------------------------------------------------------------------

MINUTE = 60_000
AMOUNTS = (
    ("0", "1", "2.5", "-3.25", "0.01"),
    ("1", "2", "3"),
    ("9999999999999999.99", "-9999999999999999.99", "0.01", "9999999999999999.98"),
)
LIMITS = ("0", "1", "2", "2.5", "3", "5", "-3.25", "0.333333", "19999999999999999.98", "0.000000000001")
MULTIPLES = ("1", "2", "0.5", "1.000000000001", "1000000")
UNIQUE = (["ip"], ["country"], ["ip", "country"], ["amount"], ["eventId"])
USERS = ((1,), (1, 2, None), (1, 1, 1, 9_200_000_000_000_000_000, -9_200_000_000_000_000_000, None))
STEPS = ((0, 1), (0, 1, 10_000, 10_000, 20_000, MINUTE, 4 * MINUTE), (10_000,), (1000, 2000))
BEHIND = (
    (0,),
    (0, 0, 0, 0, 0, 1, 10_000, 30_000, 2 * MINUTE, 7 * MINUTE, 50 * MINUTE),
    (0, 1000, 2000, 5000, 10_000),
    (0, 0, 0, 0, 5 * MINUTE),
)


def random_rule(rng: random.Random, routes: list[tuple], functions: Sequence[str] = FUNCTIONS) -> bytes:
    keys, filter = rng.choice(routes)
    function = rng.choice(functions)
    field = rng.choice(["amount", "amount", "userId"])
    rule = {
        "ruleId": rng.randint(1, 12),
        "ruleState": rng.choice(["ACTIVE"] * 5 + ["PAUSE"]),
        "groupingKeyNames": keys,
        "filter": filter,
        "aggregatorFunctionType": function,
        "limitOperatorType": rng.choice(OPERATORS),
        "limit": rng.choice(LIMITS),
        "window": rng.choice(["1s", "30s", "1m", "2m", "5m", "30m"]),
    }
    if function == "UNIQUE_COUNT":
        rule["unique"] = rng.choice(UNIQUE)
    else:
        rule["aggregateFieldName"] = field
    if rng.random() < 0.3:
        rule["when"] = rng.choice(WHENS)
    if rng.random() < 0.2:
        rule["atMost"] = {"alerts": rng.choice([1, 1, 2, 5]), "per": rng.choice(["1s", "1m", "5m", "30m"])}
    if rule["ruleId"] % 5 == 0:
        rule["eventFields"] = ["amount", "country", "eventId", "ip"][: 1 + rule["ruleId"] % 4]
    if rng.random() < 0.4:
        rule |= more_said(rng, functions)
        if "limitOf" in rule:
            rule["limit"] = rng.choice(MULTIPLES)
            if function == "STDDEV":
                rule["aggregatorFunctionType"] = "VARIANCE"
    return json.dumps(rule).encode()


def absent(rng: random.Random, rule: dict) -> dict:
    """The rule as one that says `absence`, with the same id, state, route and window."""
    same = ("ruleId", "ruleState", "groupingKeyNames", "filter", "window", "when", "where")
    said = {name: rule[name] for name in same if name in rule} | {"absence": True}
    return said | rng.choice(
        [{}, {"where": rng.choice(WHENS)}, {"where": 'action = "login"', "when": 'action = "pay"'}]
    )


def more_said(rng: random.Random, functions: Sequence[str]) -> dict:
    """What makes a rule more than plain."""
    said: dict[str, Any] = rng.choice([{}, {"where": rng.choice(WHENS)}]) | rng.choice(
        [{}, {"excludeCurrent": True}]
    )
    if rng.random() < 0.4:
        comparable = [name for name in functions if name not in ("STDDEV", "COUNT_WITH_RESET")]
        said["limitOf"] = _aggregation(rng, comparable) | {
            "dividedBy": rng.choice([None, 1, 2, 3, 60]),
            "plus": rng.choice([None, None, "1", "-2.5", "0.000000000001"]),
        }
    if rng.random() < 0.5:
        joined = rng.choice(["and", "or"])
        said[joined] = [_condition(rng, functions) for _ in range(rng.choice([1, 1, 2, 3]))]
    return said


def _aggregation(rng: random.Random, functions: Sequence[str]) -> dict:
    function = rng.choice(functions)
    of = {"unique": rng.choice(UNIQUE)} if function == "UNIQUE_COUNT" else {"aggregateFieldName": "amount"}
    return of | {
        "aggregatorFunctionType": function,
        "window": rng.choice(["1s", "1m", "5m", "30m"]),
        "where": rng.choice([None, rng.choice(WHENS)]),
        "excludeCurrent": rng.choice([None, False, True]),
    }


def _condition(rng: random.Random, functions: Sequence[str]) -> dict:
    condition = _aggregation(rng, functions)
    condition |= {"limitOperatorType": rng.choice(OPERATORS), "limit": rng.choice(LIMITS)}
    comparable = [name for name in functions if name not in ("STDDEV", "COUNT_WITH_RESET")]
    if rng.random() < 0.3 and condition["aggregatorFunctionType"] != "STDDEV":
        condition |= {"limit": rng.choice(MULTIPLES), "limitOf": _aggregation(rng, comparable)}
    return condition


def random_change(rng: random.Random, routes: list[tuple]) -> bytes:
    kind = rng.randrange(8)
    if kind < 4:
        return random_rule(rng, routes)
    if kind < 7:
        state = rng.choice(["ACTIVE", "PAUSE", "DELETE"])
        return json.dumps({"ruleId": rng.randint(1, 12), "ruleState": state}).encode()
    return json.dumps({"ruleState": "CONTROL", "controlType": rng.choice(CONTROLS)}).encode()


def random_log(rng: random.Random, short: bool) -> list[Entry]:
    """Rules first, then events with changes between them; each log has habits of its own."""
    every_route = [
        (keys, filter)
        for keys in ([], ["userId"], ["userId", "country"], ["country", "userId"], ["amount"], ["ip"])
        for filter in (None, {"action": "login"}, {"country": ["KR", "CN"]}, "amount <= 1 or ip is null")
    ]
    routes = rng.sample(every_route, rng.choice([1, 1, 2, 4]))
    amounts, users = rng.choice(AMOUNTS), rng.choice(USERS)
    steps, behind, ids = rng.choice(STEPS), rng.choice(BEHIND), rng.choice([5, 40, 10**6])
    changes = rng.choice([0, 0, 0.03, 0.1])
    log: list[Entry] = [
        ("control", random_rule(rng, routes))
        for _ in range(rng.choice([1, 3, 10] if short else [1, 3, 10, 25]))
    ]
    now = 100 * MINUTE
    for _ in range(rng.choice([5, 10, 20] if short else [5, 20, 60, 150])):
        if rng.random() < changes:
            log.append(("control", random_change(rng, routes)))
            continue
        now += rng.choice(steps)
        event = {
            "eventId": rng.randrange(ids),
            "eventTime": now - rng.choice(behind),
            "userId": rng.choice(users),
            "action": rng.choice(["login", "pay"]),
            "ip": rng.choice(["a", "a", "b", "c", None]),
            "country": rng.choice(["KR", "KR", "CN", "US"]),
            "amount": rng.choice([None, *amounts]),
        }
        log.append(("event", json.dumps(event).encode()))
    return log


def crowded_log(rng: random.Random) -> list[Entry]:
    """A few seconds, one group, values that are often null, every third event late: what queues find hard."""
    functions = ("MIN", "MAX", "UNIQUE_COUNT")
    log: list[Entry] = [("control", random_rule(rng, [([], None)], functions)) for _ in range(4)]
    now, nulls = 100 * MINUTE, rng.choice([0, 0.3, 0.6])
    for number in range(rng.choice([10, 40])):
        now += rng.choice([0, 0, 1000, 20_000])
        late = rng.choice([0, 0, 0, 1000, 2000, 20_000, 40_000, 2 * MINUTE])
        amount = None if rng.random() < nulls else rng.randint(1, 9)
        log.append(
            ("event", json.dumps({"eventId": number, "eventTime": now - late, "amount": amount}).encode())
        )
    return log


def with_returns(rng: random.Random, log: list[Entry]) -> list[Entry]:
    """The log with records that take events back, or nothing, and with events that come again."""
    often, again = rng.choice([0.05, 0.3, 1]), rng.choice([0, 0.5])
    returned: list[Entry] = []
    events: list[dict[str, Any]] = []
    for kind, text in log:
        returned.append((kind, text))
        if kind == "event":
            events.append(json.loads(text))
        while events and rng.random() < often / 2:
            event = rng.choice(events[-rng.choice([1, 5, 100]) :])
            other: dict[str, Any] = rng.choice([{}, {}, {}, {"amount": None}, {"userId": 2}, {"eventId": 3}])
            returned.append(("event", json.dumps(event | {"action": "returned"} | other).encode()))
            if rng.random() < again:
                returned.append(("event", json.dumps(event).encode()))
    return returned


def difference(seed: int, folder: Path, short: bool = False) -> str:
    """Runs the log of a seed through both; empty if they agree."""
    rng = random.Random(seed)
    log, schema = (
        (random_log(rng, short), rng.choice([LOGINS, PAIRS]))
        if rng.random() < 0.7
        else (crowded_log(rng), LOGINS)
    )
    # a generator of its own: what a seed gave before events could be taken back, half of them still give
    returns = random.Random(f"{seed}/returns")
    if schema is LOGINS and returns.random() < 0.5:
        log, schema = with_returns(returns, log), RETURNS
    settings: dict[str, Any] = {
        "late_policy": rng.choice(LATE_POLICIES),
        "max_out_of_orderness_ms": rng.choice([0, MINUTE // 2, 5 * MINUTE]),
        "key_groups": rng.choice([1, 4, 16]),
    }
    reference = evaluate_log(schema, log, **settings)
    cut, lost, room = rng.choice([0.02, 0.2, 1]), rng.choice([0, 0, 0.2]), rng.choice([2, 64, 1024])
    direct = Direct(
        schema, folder, settings["key_groups"], settings["late_policy"], settings["max_out_of_orderness_ms"]
    )
    with (
        patch.object(arrays, "ROOM_AT_FIRST", room),
        patch.object(store, "ALERTS_AT_ONCE", rng.choice([1, 4096])),
    ):
        for kind, text in log:
            (direct.event if kind == "event" else direct.control)(text)
            if rng.random() < cut:
                direct.flush()
                for held in direct.stores.values():
                    if rng.random() < 0.1:
                        held.compact(coming=rng.choice([0, 8]))
                if rng.random() < lost:
                    direct.restart(rng.choice([1, 2, 3]))
        direct.flush()
    for held in direct.stores.values():
        shared.forget(held.path)
    expected = Counter((told.key, told.to_json()) for told in reference.told)
    got = Counter(direct.found)
    counts = {name: count for name, count in reference.counts.items() if name in FATES}
    missing, extra = expected - got, got - expected
    if missing or extra:
        return f"seed {seed}: missing {list(missing)[:3]}, too many {list(extra)[:3]}, of {len(reference.alerts)}"
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
