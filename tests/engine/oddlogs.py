"""Entries that ordinary random logs lack: values at the ends of their ranges, records that are no events, rules about other fields, rows that change."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lab.model.field import Field
from lab.model.schema import LOGINS, MAX_TIME
from tests.engine.randomlogs import MINUTE, Entry

# rows of logins in envelopes of Debezium, in which an update takes back the row before
ROWS = replace(
    LOGINS,
    name="rows",
    fields=(Field("op", "string"), *(replace(field, path=("after", field.name)) for field in LOGINS.fields)),
    taken_back="op = d",
    records="json",
)
DAY = 24 * 60 * MINUTE
LONG = (1 << 63) - 1
BROKEN = (
    *(b"{", b"null", b"[1]", b"\xff{}", b"nonsense", b'{"eventId": 1}', b'{"eventTime": 5}'),
    b'{"eventId": 1, "eventTime": 5, "eventTime": 6000000, "userId": 1, "amount": 1}',
)
VALUES: tuple[dict[str, Any], ...] = (
    *({"country": None}, {"country": ""}, {"country": 'U"S'}, {"country": "é"}, {"country": "K,R"}),
    *({"country": "\U0001f600"}, {"country": "\u2028"}, {"device": "d"}, {"device": "a;country=KR"}),
    *({"ip": "10.1.2.3"}, {"ip": "::1"}, {"ip": "::ffff:10.1.2.3"}, {"ip": "010.1.2.3"}, {"ip": " 10.1.2.3"}),
    *({"ip": "a;country=KR"}, {"ip": ""}, {"ip": "x" * 2_000}, {"ip": "x" * 2_001}, {"ip": 5}),
    *({"userId": LONG}, {"userId": -LONG - 1}, {"userId": LONG + 1}, {"userId": float("nan")}),
    *({"eventId": LONG}, {"eventId": -LONG - 1}, {"eventId": -LONG - 2}, {"eventId": None}, {"eventId": "7"}),
    *({"amount": float("nan")}, {"amount": float("-inf")}, {"amount": 1e2}, {"amount": "2.50"}),
    *({"amount": "-0.00"}, {"amount": "0.001"}, {"amount": "10000000000000000"}, {"amount": True}),
    *({"action": None}, {"action": "Login"}, {"eventTime": 0}, {"eventTime": -1}, {"eventTime": None}),
)
FILTERS = (
    *("ip in 10.0.0.0/8", "country != KR", "hour(eventTime) in (1, 2)", "amount < userId or device is null"),
    *({"amount": ["2.50", 1, "0"]}, {"userId": [1, LONG]}, {"country": ["é", "", 'U"S', "K,R"]}),
)
WHENS = (
    "eventTime > 6000000",
    "device is not null or ip is null",
    'country < "\U0001f600"',
    "userId < eventId",
)
RULES: tuple[dict[str, Any], ...] = (
    *({"window": window} for window in ("12h", "90d", 1, "3660d")),
    *({"groupingKeyNames": keys} for keys in (["eventId"], ["eventTime"], ["device", "ip", "country"])),
    *({"filter": filter} for filter in FILTERS),
    *({"where": where} for where in WHENS),
    *({"when": when} for when in WHENS),
    *({"aggregateFieldName": name} for name in ("eventTime", "eventId", "COUNT_FLINK", "COUNT_WITH_RESET")),
    *(
        {"aggregatorFunctionType": "UNIQUE_COUNT", "unique": unique}
        for unique in (["eventTime"], ["device", "userId", "ip"])
    ),
    *({"limit": limit} for limit in (10**23, -(10**23), "1e3", "-0", "0.5")),
    *({"atMost": {"alerts": 2, "per": per}} for per in ("12h", "3660d")),
    {"eventFields": ["eventTime", "device", "amount", "country"]},
    {"severity": "high", "title": 'an "é" \\ \u2028', "labels": {"team": "x, y"}},
    {"action": "notify", "ttl": "7d"},
)
FIRST = {"aggregatorFunctionType": "COUNT", "limitOperatorType": "=", "limit": 0, "excludeCurrent": True}
SEQUENCE = {"aggregatorFunctionType": "COUNT_WITH_RESET", "limitOperatorType": ">=", "limit": 1}
SHAPES: tuple[dict[str, Any], ...] = (
    *(FIRST, FIRST | {"groupingKeyNames": ["userId", "ip"]}, FIRST | {"where": "amount > 0"}),
    *(SEQUENCE | {"where": "action = login", "when": when} for when in ("action = pay", "action = login")),
    SEQUENCE | {"aggregatorFunctionType": "COUNT", "where": "action = login", "when": "action = login"},
    SEQUENCE | {"limit": 2, "excludeCurrent": True, "atMost": {"alerts": 1, "per": "1m"}},
)  # of rules: the first of its kind, and one thing after another
REFUSED = (b"{}", b"nonsense", b"1,(active)", b'{"ruleId": 0}', b'{"ruleId": 99, "ruleState": "PAUSE"}')
PLAIN_TEXT = b"3,(active),(country&userId),,(amount),(SUM),(>=),(1),(2)"


def with_odd_entries(rng: random.Random, log: list[Entry]) -> list[Entry]:
    """The log with some other events and rules, and records that are none."""
    often = rng.choice([0.1, 0.5])
    odd: dict[str, Callable] = {"event": _odd_event, "control": _odd_control}
    return [(kind, odd[kind](rng, text) if rng.random() < often else text) for kind, text in log]


def _odd_event(rng: random.Random, text: bytes) -> bytes:
    if rng.random() < 0.1:
        return rng.choice(BROKEN)
    record = json.loads(text)
    event = record.get("after") or record.get("before") or record
    if "eventTime" not in event:  # a row is deleted of which nothing is said
        return text
    if rng.random() < 0.2:
        event["eventTime"] += rng.choice([-90 * MINUTE, -60 * MINUTE, 60 * MINUTE, DAY])
    for _ in range(rng.choice([1, 1, 2])):
        event |= rng.choice(VALUES)
    if rng.random() < 0.2:
        del event[rng.choice(sorted(event))]
    return json.dumps(record, ensure_ascii=rng.random() < 0.5).encode()


def _odd_control(rng: random.Random, text: bytes) -> bytes:
    if rng.random() < 0.1:
        return rng.choice((PLAIN_TEXT, *REFUSED))
    message = json.loads(text)
    if "window" not in message:
        return text
    for _ in range(rng.choice([1, 1, 2])):
        message |= rng.choice(rng.choice([RULES, SHAPES]))
    return json.dumps(message).encode()


def with_events_ahead(rng: random.Random, log: list[Entry]) -> list[Entry]:
    """The log with some events dated ahead of all others, be it by minutes or by days."""
    often, by = (
        rng.choice([0.02, 0.1, 0.3]),
        rng.choice([(MINUTE, 30 * MINUTE), (DAY,), (20 * 60 * MINUTE, 400 * DAY)]),
    )
    return [
        (kind, later(text, rng.choice(by)) if kind == "event" and rng.random() < often else text)
        for kind, text in log
    ]


def with_times_at_an_end(rng: random.Random, log: list[Entry]) -> list[Entry]:
    """The log at the first or the last times that there are; some of its times are then none."""
    by = rng.choice([-100 * MINUTE, -110 * MINUTE, MAX_TIME - 110 * MINUTE, MAX_TIME - 160 * MINUTE])
    coarse = rng.choice(
        [1, 1, 30_000, MINUTE]
    )  # so that many times are the same, or just at the end of a window
    return [(kind, _at_another_time(text, by, coarse)) for kind, text in log]


def _at_another_time(text: bytes, by: int, coarse: int) -> bytes:
    def move(of: dict[str, Any]) -> None:
        for name in ("eventTime", "until"):
            if type(of.get(name)) is int:
                of[name] = (of[name] + by) // coarse * coarse

    return _with_each_changed(text, move)


def _with_each_changed(text: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """A record whose object, or rows before and after, have been changed; what is no object stays as it is."""
    try:
        record = json.loads(text)
    except ValueError:
        return text
    if not isinstance(record, dict):
        return text
    for of in (record, record.get("before"), record.get("after")):
        if isinstance(of, dict):
            change(of)
    return json.dumps(record).encode()


def with_rows(rng: random.Random, log: list[Entry]) -> list[Entry]:
    """The log with its events as rows of a table, some of which are updated or deleted, be it twice, before they came, or without the row before."""
    often = rng.choice([0.05, 0.3])
    entries: list[Entry] = []
    rows: list[dict[str, Any]] = []
    for kind, text in log:
        if kind == "control":
            entries.append((kind, text))
            continue
        row = json.loads(text)
        rows.append(row)
        early = rng.random() < often / 3
        if early:
            entries.append(_change("d", row, None))
        entries.append(_change(rng.choice(["c", "c", "r"]), None, row))
        while rng.random() < often:
            before: dict[str, Any] = rng.choice(rows[-rng.choice([1, 5, 100]) :])
            before = before | rng.choice([{}, {}, {}, {"userId": 1}, {"amount": None}])
            after: dict[str, Any] = before | rng.choice(
                [
                    *({}, {"amount": "1"}, {"userId": 2}, {"userId": None}, {"country": "KR"}, {"ip": "b"}),
                    *({"eventId": before["eventId"] + 1}, {"eventTime": before["eventTime"] + 10_000}),
                    {"action": rng.choice(["login", "pay"])},
                ]
            )
            kept = rng.choice([before, before, before, None])
            if rng.random() < 0.6:
                entries.append(_change("u", kept, after))
                rows.append(after)
            else:
                entries.append(_change("d", kept, None))
    return entries


def _change(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> Entry:
    return "event", json.dumps({"op": op, "before": before, "after": after}).encode()


def later(event: bytes, by: int) -> bytes:
    """An event, or a row before and after, at a time that is so much later; what is neither stays as it is."""

    def move(of: dict[str, Any]) -> None:
        if isinstance(of.get("eventTime"), int) and of["eventTime"] > 0:
            of["eventTime"] += by

    return _with_each_changed(event, move)
