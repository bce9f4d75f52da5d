"""The engine of the page: its loop is the native one, its alerts are the reference's, and it reads rules as the kit does."""

import base64
import json
import re
from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lab.engine.checkpoint.settings import Settings
from lab.engine.compiled import layout, window
from lab.engine.windows.store import RouteStore
from lab.model import horizon
from lab.model.reference import LATE_POLICIES, Reference
from lab.model.rules import RuleBook
from lab.model.schema import LOGINS, PAYMENTS, Schema
from lab.page import loop
from lab.page.reader import described
from lab.page.wasm import cached_module
from lab.stream.simulate import to_json
from tests.anylogs import logs
from tests.browser.jupyter import ROOT
from tests.engine import randomlogs
from tests.strategies import DERIVED, LEGS

pytestmark = pytest.mark.browser
FUNCTIONS = ("SUM", "AVG", "MIN", "MAX", "VARIANCE", "STDDEV", "COUNT", "COUNT_WITH_RESET", "UNIQUE_COUNT")
OF_FIELD = FUNCTIONS[:6]
AMOUNTS = (
    *("12.5", "5", "7.50", "1e1", "-3.25", "null", '"4.5"', "NaN", "9999999999999999.99", "0.001", "12.500"),
    *("1234567890123456.78", "90071992547409.93"),
)
COUNTED = ("records", "deadLetters", "unrouted", "routed")
LOGS_OF_A_KIND = 25
RUN = """([schema, log, keyGroups, latePolicy]) => (async () => {
    const engine = new Engine(state.wasm, schemaOf(schema), { keyGroups, latePolicy });
    const alerts = [], bad = [], acks = [];
    let lines = [];
    const flush = () => {
        if (lines.length) engine.take(encoder.encode(lines.join("\\n")), (alert) => alerts.push(alert), (letter) => bad.push(letter.reason));
        lines = [];
    };
    for (const [kind, line] of log) {
        if (kind === "event") { lines.push(line); continue; }
        flush();
        const ack = engine.control(line);
        acks.push([ack.status, ack.version ?? null]);
    }
    flush();
    const counts = { ...engine.counts }, suppressed = { ...engine.suppressed }, inShadow = { ...engine.inShadow };
    return { alerts: engine.book.alerts(alerts).map(({ json }) => json), bad, acks, counts, suppressed, inShadow };
})()"""
many = settings(
    max_examples=60,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
LOOP = """([wasm, layout, arrays, rules, batch, numbers, most]) => (async () => {
    const memory = new Memory(await WebAssembly.compile(Uint8Array.from(atob(wasm), (sign) => sign.charCodeAt(0))));
    const made = (given) => {
        const of = new Arrays(memory, Object.fromEntries(Object.entries(given).map(([name, [shape]]) => [name, shape])));
        for (const name in given) memory.bytes(of.addresses[name], of.size(name)).set(Uint8Array.from(atob(given[name][1]), (sign) => sign.charCodeAt(0)));
        return of;
    };
    const all = [made(arrays), made(rules), made(batch)], rows = batch.times_ms[0][1], fate = memory.take(rows), alerts = memory.take(8 * 8 * most);
    const address = memory.take(8 * LAYOUT.frame.FRAME), out = memory.take(64), frame = memory.i64(address, LAYOUT.frame.FRAME), at = LAYOUT.frame;
    [at.STORE, at.RULES, at.BATCH].forEach((place, n) => all[n].into(frame, place));
    frame.set([BigInt(address), BigInt(at.FRAME)], at.SELF);
    frame.set([BigInt(fate), BigInt(rows)], at.FATE);
    frame.set([BigInt(alerts), BigInt(most), 8n], at.ALERTS);
    frame.set(numbers.map(BigInt), at.FIRST_SEQ);
    const status = memory.calls.evaluate(out, out + 8, BigInt(address));
    const text = (start, size) => { let all = ""; for (const byte of memory.bytes(start, size)) all += String.fromCharCode(byte); return btoa(all); };
    const store = Object.fromEntries(Object.keys(arrays).map((name) => [name, text(all[0].addresses[name], all[0].size(name))]));
    return { status, done: Number(frame[at.DONE]), fired: Number(frame[at.FIRED]), fate: text(fate, rows), alerts: text(alerts, 8 * 8 * most), store };
})()"""


def random_rule(rng: Random, rule_id: int) -> str:
    function = rng.choice(FUNCTIONS)
    keys = rng.sample(["payeeId", "beneficiaryId", "paymentType", "paymentAmount"], rng.randint(0, 2))
    message = {
        "ruleId": rule_id,
        "ruleState": rng.choice(["ACTIVE", "ACTIVE", "ACTIVE", "ACTIVE", "PAUSE", "SHADOW"]),
        "groupingKeyNames": keys,
        "aggregatorFunctionType": function,
        "limitOperatorType": rng.choice([">", "<", ">=", "<=", "=", "!="]),
        "limit": rng.choice([1, 2, 3, 5, "20.5", 50, "12.25", "-1", "0.000000000001"]),
        "window": rng.choice(["10s", "1m", "20m", "1h"]),
    }
    if function in OF_FIELD:
        message["aggregateFieldName"] = rng.choice(["paymentAmount", "payeeId", "ingestionTimestamp"])
    if function == "UNIQUE_COUNT":
        message["unique"] = rng.sample(["payeeId", "paymentType", "paymentAmount"], rng.randint(1, 2))
    if rng.random() < 0.4:
        by_type = {"paymentType": rng.choice(["CSH", ["CSH", "CRD"], "ÄÖ"])}
        message["filter"] = rng.choice([by_type, by_type, {"paymentAmount": [5, "7.5"]}])
    if rng.random() < 0.3:
        message["severity"] = rng.choice(["low", "critical", None])
        message["title"] = rng.choice(["Too much", 'é "\u2028" \U0001f600 \x7f', "x" * 200])
        message["labels"] = rng.choice([{"team": "fraud", "_a": "", "B.c-d": "é"}, {}, None])
        message["eventFields"] = rng.choice([["paymentAmount", "payeeId"], [], None])
    return json.dumps(message)


def random_log(rng: Random, events: int) -> list[tuple[str, str]]:
    """Rules that come and go, late events, duplicates, nulls, the largest numbers, texts with quotes, bad records."""
    log = [("control", random_rule(rng, rng.randint(1, 8))) for _ in range(4)]
    time = 1_700_000_000_000
    others = (
        *(
            '{"ruleState":"CONTROL","controlType":"CLEAR_STATE_ALL"}',
            '{"ruleId": "x"}',
            '{"ruleId": 3, "ruleState": "DELETE"}',
        ),
        *('{"ruleId": 4, "ruleState": "SHADOW"}', '{"ruleId": 4, "ruleState": "ACTIVE"}'),
        *("7,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)", '{"ruleId": 2, "ruleState": "PAUSE"}'),
    )
    for number in range(1, events + 1):
        if rng.random() < 0.004:
            log.append(("control", rng.choice([random_rule(rng, rng.randint(1, 8)), rng.choice(others)])))
        time += rng.choice([0, 0, 10, 1_000, 5_000, 20_000])
        late = rng.randint(0, 700_000) if rng.random() < 0.15 else 0
        again = rng.random() < 0.1
        event = {
            "transactionId": (1 << 62) + (rng.randint(1, number) if again else number),
            "eventTime": time - late,
            "payeeId": rng.choice([rng.randint(0, 5), rng.randint(0, 5), None, (1 << 53) + 1, (1 << 53) + 2]),
            "beneficiaryId": rng.randint(0, 3),
            "paymentType": rng.choice(["CSH", "CRD", "ÄÖ", 'a"b\u2028', None]),
            "paymentAmount": "@",
            "ingestionTimestamp": rng.choice([None, -(1 << 63), (1 << 63) - 1, 7]),
        }
        separators = rng.choice([(",", ":"), (", ", ": ")])
        line = json.dumps(event, ensure_ascii=rng.random() < 0.5, separators=separators)
        line = line.replace('"@"', rng.choice(AMOUNTS))
        if rng.random() < 0.01:
            line = rng.choice(
                ["{broken", "[1]", "1,2013-01-01 00:00:00,25,12,CSH,30", '{"transactionId":1}', line + "x"]
            )
        log.append(("event", line))
    return log


def reference_of(schema: Schema, log: list[tuple[str, str]], **settings) -> Reference:
    reference = Reference(schema, **settings)
    for kind, line in log:
        (reference.event if kind == "event" else reference.control)(line.encode())
    return reference


@pytest.mark.parametrize("seed", range(6))
def test_the_alerts_are_those_of_the_reference_on_any_log(engine, seed):
    rng = Random(seed)
    log, key_groups, policy = random_log(rng, 1_500), rng.choice([1, 8, 16]), rng.randrange(3)
    reference = reference_of(PAYMENTS, log, key_groups=key_groups, late_policy=LATE_POLICIES[policy])
    found = engine.evaluate(RUN, [described(PAYMENTS.to_dict()), log, key_groups, policy])
    assert found["alerts"] == [alert.to_json() for alert in reference.alerts]
    assert found["acks"] == [[ack["status"], ack.get("version")] for ack in reference.acks]
    assert len(found["bad"]) == len(reference.dead_letters)
    for name in COUNTED:
        assert found["counts"][name] == reference.counts[name], name
    assert found["inShadow"] == Counter(str(alert.rule_id) for alert in reference.shadow_alerts)
    assert reference.alerts or reference.shadow_alerts
    assert found["counts"]["nanAsNull"] == reference.nan_as_null.total()


@many
@given(
    log=logs(live=True),
    late_policy=st.sampled_from(range(3)),
    key_groups=st.sampled_from([1, 16]),
)
def test_the_alerts_of_every_kind_of_rule_are_those_of_the_reference(engine, log, late_policy, key_groups):
    log = [(kind, text.decode(errors="replace")) for kind, text in log]
    reference = reference_of(LOGINS, log, key_groups=key_groups, late_policy=LATE_POLICIES[late_policy])
    found = engine.evaluate(RUN, [described(LOGINS.to_dict()), log, key_groups, late_policy])
    assert found["acks"] == [[ack["status"], ack.get("version")] for ack in reference.acks]
    assert found["alerts"] == [alert.to_json() for alert in reference.alerts]
    assert found["suppressed"] == suppressed_by_rule(reference)
    assert found["inShadow"] == Counter(str(alert.rule_id) for alert in reference.shadow_alerts)


def test_a_wait_goes_on_when_its_rule_leaves_the_shadow(engine):
    rule = {"ruleId": 1, "groupingKeyNames": ["userId"], "aggregatorFunctionType": "COUNT", "absence": True}
    rule |= {"where": "action = payment", "when": "action = login", "window": "1m"}

    def event(number: int, time: int) -> tuple[str, str]:
        return "event", json.dumps({"eventId": number, "eventTime": time, "userId": 7, "action": "login"})

    log = [
        ("control", json.dumps(rule | {"ruleState": "SHADOW"})),
        event(1, 1_000),
        event(2, 70_000),
        ("control", '{"ruleId": 1, "ruleState": "ACTIVE"}'),
        event(3, 140_000),
        ("control", '{"ruleId": 1, "ruleState": "SHADOW"}'),
        event(4, 300_000),
    ]
    reference = reference_of(LOGINS, log)
    found = engine.evaluate(RUN, [described(LOGINS.to_dict()), log, 16, 0])
    assert found["alerts"] == [alert.to_json() for alert in reference.alerts]
    assert [alert.event_id for alert in reference.alerts] == [2]
    assert found["inShadow"] == {"1": len(reference.shadow_alerts)} == {"1": 1}


def test_what_is_awaited_after_thousands_of_events_is_that_of_the_reference(engine):
    """More at once than there is room for at first, in several batches: old waits go, open ones move."""
    rng, time = Random(4), 1_700_000_000_000
    absent = {"groupingKeyNames": ["userId"], "aggregatorFunctionType": "COUNT", "absence": True}
    absent["ruleState"] = "ACTIVE"
    rules = [
        absent | {"ruleId": 1, "where": "action = payment", "when": "action = login", "window": "5m"},
        absent | {"ruleId": 2, "window": "30s", "groupingKeyNames": [], "eventFields": ["ip"]},
        absent | {"ruleId": 3, "where": "country = KR", "window": "20m", "filter": "ip is not null"},
    ]
    log = [("control", json.dumps(rule)) for rule in rules]
    for number in range(1, 6_001):
        time += rng.choice([0, 50, 400, 3_000, 40_000 if number % 50 == 0 else 900])
        event = {"eventId": number - rng.choice([0, 0, 0, 3]), "eventTime": time - rng.choice([0, 0, 9_000])}
        event |= {"userId": rng.randint(1, 300), "action": rng.choice(["login", "login", "payment"])}
        event |= {"ip": rng.choice(["é", "x", None]), "country": rng.choice(["KR", "US", "US"])}
        log.append(("event", json.dumps(event, ensure_ascii=False)))
        if number % 1_100 == 0:  # ends a batch
            log.append(("control", json.dumps(rules[1] | {"ruleState": rng.choice(["ACTIVE", "PAUSE"])})))
    reference = reference_of(LOGINS, log)
    found = engine.evaluate(RUN, [described(LOGINS.to_dict()), log, 16, 0])
    assert found["alerts"] == [alert.to_json() for alert in reference.alerts]
    counts = Counter(alert.rule_id for alert in reference.alerts)
    assert len(counts) == 3 and min(counts.values()) > 10


def suppressed_by_rule(reference: Reference) -> dict[str, int]:
    by_rule: Counter[str] = Counter()
    for version, count in reference.suppressed.items():
        by_rule[version.partition(".")[0]] += count
    return by_rule


KINDS = (
    (replace(LOGINS, derived=DERIVED), randomlogs.with_derived),
    (replace(LOGINS, legs=LEGS), randomlogs.with_legs),
    (LOGINS, randomlogs.with_lists),
)


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=["derived fields", "legs", "lists"])
def test_the_alerts_of_what_schemas_derive_and_lists_have_are_those_of_the_reference(engine, kind):
    """Also of derived fields, legs and lists together; and what becomes of records."""
    raised = dead = 0
    for seed in range(LOGS_OF_A_KIND):
        rng = Random(1_000 * kind + seed)
        schema, with_kind = KINDS[kind]
        log = with_kind(rng, randomlogs.random_log(rng, short=False))
        if rng.random() < 0.3:
            schema, log = replace(schema, derived=DERIVED), randomlogs.with_derived(rng, log)
        log = randomlogs.with_lists(rng, log) if rng.random() < 0.3 else log
        log = [(kind, text.decode()) for kind, text in with_dead_letters(rng, log)]
        key_groups, policy = rng.choice([1, 16]), rng.randrange(3)
        reference = reference_of(schema, log, key_groups=key_groups, late_policy=LATE_POLICIES[policy])
        found = engine.evaluate(RUN, [described(schema.to_dict()), log, key_groups, policy])
        assert found["acks"] == [[ack["status"], ack.get("version")] for ack in reference.acks], seed
        assert found["bad"] == [letter["reason"] for letter in reference.dead_letters], seed
        assert found["alerts"] == [alert.to_json() for alert in reference.alerts], seed
        assert found["suppressed"] == suppressed_by_rule(reference)
        assert {name: found["counts"][name] for name in COUNTED} == {
            name: reference.counts[name] for name in COUNTED
        }
        assert found["counts"]["nanAsNull"] == reference.nan_as_null.total()
        raised, dead = raised + len(reference.alerts), dead + len(reference.dead_letters)
    assert raised > 100 and dead > 20


def with_dead_letters(rng: Random, log: list) -> list:
    """The log with records that are none, and with amounts of which a derived one does not fit."""
    most = b'"amount": 9999999999999999.99'
    found = []
    for kind, text in log:
        if kind == "event" and rng.random() < 0.05:
            text = rng.choice(
                [text[:-1], b"{}", re.sub(b'"amount": [^,}]+', most, text), text.replace(b"null", b"NaN")]
            )
        found.append((kind, text))
    return found


def test_logins_are_judged_as_by_the_reference(engine):
    from lab.past.replay import read_rules
    from lab.stream.datasets import dataset
    from lab.stream.logins import labelled_logins

    rules = [("control", rule) for rule in read_rules(dataset("logins") / "rules.json")]
    log = rules + [("event", to_json(event)) for event, _ in labelled_logins(seed=2, events=3_000)]
    reference = reference_of(LOGINS, log)
    found = engine.evaluate(RUN, [described(LOGINS.to_dict()), log, 16, 0])
    assert found["alerts"] == [alert.to_json() for alert in reference.alerts]


def test_the_loop_is_the_native_one_byte_for_byte(opened, tmp_path, monkeypatch):
    """All arrays of a store, fates and alerts, after thousands of events with late ones, duplicates, every aggregate."""
    rng, rows, most = np.random.default_rng(5), 6_000, 40_000
    book = RuleBook(PAYMENTS)
    for number, function in enumerate(FUNCTIONS, 1):
        of = {"aggregateFieldName": "paymentAmount"} if function in OF_FIELD else {}
        of |= {"unique": ["beneficiaryId"]} if function == "UNIQUE_COUNT" else {}
        rule = {
            "ruleId": number,
            "ruleState": "ACTIVE",
            "groupingKeyNames": ["payeeId"],
            "aggregatorFunctionType": function,
        }
        ack = book.apply(json.dumps(rule | of | {"limitOperatorType": ">", "limit": 4, "window": "1m"}))
        assert ack["status"] == "accepted", ack
    ((route, rules),) = book.routes().items()
    needs = sorted({name for rule in rules for name in rule.stored_field_names})
    late_ms = Settings.max_out_of_orderness_ms
    monkeypatch.setattr(horizon, "WITNESSES", 1)  # so that some events are too old
    store = RouteStore(tmp_path / "store", PAYMENTS, route, needs, rules, 16, late_ms)
    times = (
        1_700_000_000_000 + np.arange(rows) * 500 - rng.integers(0, 90_000, rows) * (rng.random(rows) < 0.2)
    )
    columns = {
        "time": times,
        "id": rng.integers(0, rows * 8, rows),
        "keyGroup": np.zeros(rows, np.int64),
        "key:payeeId": rng.integers(0, 40, rows),
        "value:paymentAmount": rng.integers(-(10**17), 10**17, rows),
        "value:beneficiaryId": rng.integers(0, 9, rows),
    }
    for values in columns.values():
        values[1_000::40] = values[990:-10:40]  # comes again
    columns["keyGroup"] = columns["key:payeeId"] % 16
    batch = store.to_batch(columns)
    store._make_room(events=rows, groups=64, lanes=64 * store.lanes, resets=256)

    def given(arrays: dict[str, np.ndarray]) -> dict:
        return {
            name: [[array.itemsize, *array.shape], base64.b64encode(array.tobytes()).decode()]
            for name, array in arrays.items()
        }

    batch.groups[:] = 0
    arrays = {name: getattr(store.store, name) for name in loop.STORE_ARRAYS}
    before = given(arrays), given(store.numbers._asdict()), given(batch._asdict())
    numbers = [7, 0, store.widest_ms, 20_000, LATE_POLICIES.index("store")]
    fate, taken = np.zeros(rows, np.uint8), np.zeros(rows, np.int64)
    alerts = np.zeros((most, layout.DENOMINATOR + 1), np.int64)
    done, fired = window.evaluate_batch(
        store.store, store.numbers, batch, 7, 0, *numbers[2:], fate, taken, alerts
    )
    wasm = base64.b64encode(cached_module(ROOT / "build" / "page")).decode()
    found = opened.evaluate(LOOP, [wasm, None, *before, numbers, most])
    assert (
        (found["status"], found["done"], found["fired"]) == (0, done, fired)
        and done == rows
        and fired > 10_000
    )
    assert base64.b64decode(found["fate"]) == fate.tobytes() and set(fate.tolist()) == {0, 1, 2, 3}
    assert base64.b64decode(found["alerts"]) == alerts.tobytes()
    for name, array in store.arrays.items():
        assert base64.b64decode(found["store"][name]) == array.tobytes(), name
    assert loop.STORE == 0
