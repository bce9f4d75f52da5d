"""The control room as one file: its loop is the native one, its alerts are the reference's, and it connects to nothing."""

import base64
import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from random import Random

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from lab.engine.compiled import layout, window
from lab.engine.windows.store import RouteStore
from lab.model.reference import LATE_POLICIES, Reference
from lab.model.rules import RuleBook
from lab.model.schema import LOGINS, PAYMENTS, Schema
from lab.page import loop
from lab.page.build import page
from lab.page.wasm import module
from lab.stream.simulate import payments, to_json
from tests.browser.access import grave
from tests.browser.jupyter import PATIENCE_MS, ROOT

pytestmark = pytest.mark.browser
FUNCTIONS = ("SUM", "AVG", "MIN", "MAX", "VARIANCE", "STDDEV", "COUNT", "COUNT_WITH_RESET", "UNIQUE_COUNT")
OF_FIELD = FUNCTIONS[:6]
AMOUNTS = (
    *("12.5", "5", "7.50", "1e1", "-3.25", "null", '"4.5"', "NaN", "9999999999999999.99", "0.001", "12.500"),
    *("1234567890123456.78", "90071992547409.93"),
)
RUN = """([schema, log, keyGroups, latePolicy]) => (async () => {
    const wasm = await WebAssembly.compile(Uint8Array.from(atob(data.wasm), (sign) => sign.charCodeAt(0)));
    const engine = new Engine(wasm, schemaOf(schema), { keyGroups, latePolicy });
    const alerts = [], bad = [], acks = [];
    let lines = [];
    const flush = () => {
        if (lines.length) engine.take(encoder.encode(lines.join("\\n")), (alert) => alerts.push(alert.json), (letter) => bad.push(letter.reason));
        lines = [];
    };
    for (const [kind, line] of log) {
        if (kind === "event") { lines.push(line); continue; }
        flush();
        const ack = engine.control(line);
        acks.push([ack.status, ack.version ?? null]);
    }
    flush();
    const counts = { ...engine.counts };
    return { alerts, bad, acks, counts };
})()"""
LOOP = """([wasm, layout, arrays, rules, batch, numbers, most]) => (async () => {
    const memory = new Memory(await WebAssembly.compile(Uint8Array.from(atob(wasm), (sign) => sign.charCodeAt(0))));
    const made = (given) => {
        const of = new Arrays(memory, Object.fromEntries(Object.entries(given).map(([name, [shape]]) => [name, shape])));
        for (const name in given) memory.bytes(of.addresses[name], of.size(name)).set(Uint8Array.from(atob(given[name][1]), (sign) => sign.charCodeAt(0)));
        return of;
    };
    const all = [made(arrays), made(rules), made(batch)], rows = batch.time[0][1], fate = memory.take(rows), alerts = memory.take(8 * 8 * most);
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


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    """The page as `make page` makes it."""
    made = tmp_path_factory.mktemp("page") / "control-room.html"
    made.write_text(page(module(ROOT / "build" / "page")))
    return made


@pytest.fixture
def opened(browser: Browser, file: Path) -> Iterator[Page]:
    """The page from the disk, in a browser that lets nothing through to any host."""
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    asked: list[str] = []

    def refuse(route) -> None:
        asked.append(route.request.url)
        route.abort()

    context.route(lambda url: not url.startswith(("file:", "blob:")), refuse)
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.set_default_timeout(PATIENCE_MS)
    opened.goto(file.as_uri())
    opened.wait_for_selector(".lab-pulse.good")
    yield opened
    context.close()
    assert asked == [] and errors == []


def random_rule(rng: Random, rule_id: int) -> str:
    function = rng.choice(FUNCTIONS)
    keys = rng.sample(["payeeId", "beneficiaryId", "paymentType", "paymentAmount"], rng.randint(0, 2))
    message = {
        "ruleId": rule_id,
        "ruleState": rng.choice(["ACTIVE", "ACTIVE", "ACTIVE", "PAUSE"]),
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
def test_the_alerts_are_those_of_the_reference_on_any_log(opened, seed):
    rng = Random(seed)
    log, key_groups, policy = random_log(rng, 1_500), rng.choice([1, 8, 16]), rng.randrange(3)
    reference = reference_of(PAYMENTS, log, key_groups=key_groups, late_policy=LATE_POLICIES[policy])
    found = opened.evaluate(RUN, [PAYMENTS.to_dict(), log, key_groups, policy])
    assert found["alerts"] == [alert.to_json() for alert in reference.alerts] != []
    assert found["acks"] == [[ack["status"], ack.get("version")] for ack in reference.acks]
    assert len(found["bad"]) == len(reference.dead_letters)
    for name in ("records", "deadLetters", "unrouted", "routed"):
        assert found["counts"][name] == reference.counts[name], name
    assert found["counts"]["nanAsNull"] == reference.nan_as_null.total()


def test_the_page_refuses_what_a_rule_cannot_say(opened):
    rule = {"ruleId": 1, "ruleState": "ACTIVE", "aggregateFieldName": "COUNT", "limitOperatorType": ">"}
    rule |= {"limit": 0, "window": "1m"}
    wrong = [{"severity": "HIGH"}, {"title": ""}, {"title": "x "}, {"labels": []}, {"labels": {"a": 1}}]
    log = [("control", json.dumps(rule | {"ruleId": number} | more)) for number, more in enumerate(wrong, 1)]
    found = opened.evaluate(RUN, [PAYMENTS.to_dict(), log, 16, 0])
    assert found["acks"] == [["rejected", None]] * len(wrong)


def test_a_rule_that_the_page_cannot_evaluate_is_rejected(opened):
    rule = {"ruleId": 1, "ruleState": "ACTIVE", "aggregateFieldName": "COUNT", "limitOperatorType": ">"}
    rule |= {"limit": 0, "window": "1m", "when": "paymentAmount > 5"}
    found = opened.evaluate(RUN, [PAYMENTS.to_dict(), [("control", json.dumps(rule))], 16, 0])
    assert found["acks"] == [["rejected", None]]


def test_logins_are_judged_as_by_the_reference(opened):
    from lab.apps.replay import read_rules
    from lab.stream.datasets import dataset
    from lab.stream.logins import labelled_logins

    rules = [("control", rule) for rule in read_rules(dataset("logins") / "rules.json")]
    log = rules + [("event", to_json(event)) for event, _ in labelled_logins(seed=2, events=3_000)]
    reference = reference_of(LOGINS, log)
    found = opened.evaluate(RUN, [LOGINS.to_dict(), log, 16, 0])
    assert found["alerts"] == [alert.to_json() for alert in reference.alerts]


def test_the_loop_is_the_native_one_byte_for_byte(opened, tmp_path):
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
    needs = sorted({name for rule in rules for name in rule.needs})
    store = RouteStore(tmp_path / "store", PAYMENTS, route, needs, rules, 16)
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
    batch = store.batch(columns)
    store._make_room(events=rows, groups=64, lanes=64 * store.lanes, resets=256)

    def given(arrays: dict[str, np.ndarray]) -> dict:
        return {
            name: [[array.itemsize, *array.shape], base64.b64encode(array.tobytes()).decode()]
            for name, array in arrays.items()
        }

    batch.group[:] = 0
    before = given(store.arrays), given(store.numbers._asdict()), given(batch._asdict())
    numbers = [7, 0, store.widest_ms, 20_000, LATE_POLICIES.index("store")]
    fate, taken = np.zeros(rows, np.uint8), np.zeros(rows, np.int64)
    alerts = np.zeros((most, layout.PARTS + 1), np.int64)
    done, fired = window.evaluate(store.store, store.numbers, batch, 7, 0, *numbers[2:], fate, taken, alerts)
    wasm = base64.b64encode(module(ROOT / "build" / "page")).decode()
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


def test_a_file_of_own_events_is_played_and_its_alerts_counted(opened, tmp_path):
    lines = [to_json(event) for event in payments(seed=4, events=2_000, rate_per_s=5)]
    (tmp_path / "payments.jsonl").write_text("\n".join([*lines, "{broken"]))
    rules = [("control", rule) for rule in json.loads(opened.inner_text("#data"))["rules"]["payments"]]
    reference = reference_of(PAYMENTS, [*rules, *(("event", line) for line in lines)])
    by_rule = Counter(alert.rule_id for alert in reference.alerts)
    opened.set_input_files("#file", tmp_path / "payments.jsonl")
    opened.click("text=Play them")
    opened.wait_for_selector("text=payments.jsonl is played: 2,001 records")
    shown = opened.eval_on_selector_all(
        "#rules tbody tr", "rows => rows.map((row) => [row.cells[0].textContent, row.cells[3].textContent])"
    )
    assert {int(rule.split()[0]): int(count.replace(",", "")) for rule, count in shown} == {
        number: by_rule[number] for number in (1, 2, 3, 4)
    }
    assert "1 of 2,001 records are dead letters" in opened.inner_text("#said")


def test_events_of_an_unknown_kind_are_understood_and_a_rule_on_them_alerts(opened, tmp_path):
    rows = [
        f"{number};2024-05-01T10:{number // 60:02}:{number % 60:02}Z;s{number % 2};{number}.5"
        for number in range(600)
    ]
    (tmp_path / "meters.csv").write_text("\n".join(["reading;at;site;value", *rows]))
    opened.set_input_files("#file", tmp_path / "meters.csv")
    opened.wait_for_selector(
        "text=Fields found: reading (long), at (time, iso), site (string), value (decimal(18,2))."
    )
    opened.click("text=Play them")
    opened.wait_for_selector("text=meters.csv is played: 600 records")
    opened.click("#new")
    opened.select_option("[aria-label=function]", "SUM")
    opened.select_option("[aria-label=of]", "value")
    opened.fill("[aria-label=limit]", "1000")
    opened.click("text=Publish")
    opened.wait_for_selector("text=accepted rule 1 version 1: ACTIVE")
    opened.click("#again")
    opened.wait_for_selector("#alerts tbody tr[data-key]")
    opened.wait_for_selector("text=meters.csv is played: 600 records")
    window_sums, alerts = Counter(), 0
    values = [(number, f"s{number % 2}", Decimal(f"{number}.5")) for number in range(600)]
    for number, site, _ in values:
        window_sums = sum(v for n, s, v in values if s == site and number - 60 <= n <= number)
        alerts += window_sums > 1000
    assert opened.inner_text("#rules tbody tr td:last-child") == f"{alerts:,}"


def test_rules_are_written_judged_published_paused_and_deleted(opened):
    opened.click("#new")
    opened.fill("[aria-label='only where']", "paymentType = CSH and")
    assert "Not a rule yet: only where: expected field = value" in opened.inner_text("#side")
    opened.fill("[aria-label='only where']", "paymentType in (CSH, CRD)")
    opened.fill("[aria-label=limit]", "0.5")
    opened.click("text=Publish")
    opened.wait_for_selector("text=accepted rule 5 version 1: ACTIVE")
    rule = opened.locator("#rules tr[data-key='5']")
    assert "COUNT(events) where paymentType in (CRD, CSH) per payeeId over 1 min > 0.5" in rule.inner_text()
    opened.wait_for_function(
        "document.querySelector(\"#rules tr[data-key='5'] td:last-child\").textContent !== '0'"
    )
    rule.click()
    opened.click("#side button:text-is('Pause')")
    opened.wait_for_selector("text=accepted rule 5 version 2: PAUSE")
    opened.click("#side button:text-is('Delete')")
    opened.wait_for_selector("#rules tr[data-key='5']", state="detached")
    opened.keyboard.press("Escape")
    assert opened.is_hidden("#side")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width, height", [(1366, 768), (390, 844)])
def test_nothing_is_wider_than_the_page_and_axe_finds_nothing(opened, scheme, width, height):
    opened.emulate_media(color_scheme=scheme)
    opened.set_viewport_size({"width": width, "height": height})
    opened.wait_for_selector("#alerts tbody tr[data-key]")
    assert grave(opened) == []
    opened.click("#alerts tbody tr[data-key]")
    assert opened.is_visible("#side") and grave(opened) == []
    opened.click("#close")
    opened.click("#new")
    assert grave(opened) == []
    assert opened.evaluate("document.documentElement.scrollWidth") <= width


def test_the_file_is_small(file):
    assert file.stat().st_size < 3_000_000
