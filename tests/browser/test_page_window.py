"""The window behind an alert of the page: what the notebook's widget says of it, and a picture of it."""

import json
from random import Random

import pytest

from lab.model import language as speaking
from lab.model.horizon import WITNESSES
from lab.model.schema import PAYMENTS
from lab.page.reader import described
from lab.past.backtest import Past
from lab.widgets.alertwindow import AlertWindow
from lab.widgets.look import sentence_html
from tests.browser.access import findings
from tests.browser.test_page_engine import reference_of
from tests.past.test_past import WindowsOfAlerts

pytestmark = pytest.mark.browser
SENTENCES = (
    "SUM(paymentAmount) per payeeId over 1 min > 40",
    "AVG(paymentAmount) per payeeId over 1 min > 11.5",
    "MIN(paymentAmount) per payeeId, beneficiaryId over 2 min < -2",
    "MAX(paymentAmount) over 10 s >= 20",
    "VARIANCE(paymentAmount) per payeeId over 1 min > 60",
    "STDDEV(paymentAmount) per payeeId over 1 min > 9",
    "COUNT(events) where paymentType = CSH and paymentAmount > 3 per payeeId over 1 min >= 4",
    "COUNT_WITH_RESET(events) per beneficiaryId over 3 min >= 7",
    "UNIQUE_COUNT(paymentType, beneficiaryId) per payeeId over 1 min >= 5",
    "SUM(paymentAmount) per payeeId over 1 min > 3 × AVG(paymentAmount) over 1 h",
    "COUNT(events where paymentType = CSH) per payeeId over 30 s >= 2 and MAX(paymentAmount) over 1 min > 15",
    "COUNT(events) per paymentType over 1 min without the current event >= 25, when paymentAmount > 15",
    "COUNT(events) per payeeId, beneficiaryId over 10 s without the current event = 0",
    "SUM(paymentAmount) per payeeId over 1 min > 1000 or COUNT(events) over 1 min >= 10",
    "MIN(paymentAmount where paymentType = CRD) per payeeId over 10 s > 99 or MAX(paymentAmount) over 10 s > 20",
    "COUNT_WITH_RESET(events) per payeeId over 1 min >= 9 or MAX(paymentAmount) over 30 s > 20",
    "COUNT_WITH_RESET(events) per payeeId over 1 min without the current event >= 5",
    "SUM(paymentAmount) per payeeId over 3 events within 5 min > 30",
    "MAX(paymentAmount where paymentType = CSH) per payeeId over 4 events within 5 min without the current event > 15",
    "SUM(paymentAmount) per payeeId over 1 min ending 20 s before > 40",
    "COUNT(events where paymentType = CSH) per payeeId over a session with gaps up to 3 s within 5 min >= 4",
    "MEDIAN(paymentAmount) per payeeId over 1 min > 11.5",
    "P95(paymentAmount) per payeeId over 1 min > 20",
    "CHANGE(paymentAmount) per payeeId over 1 min > 15",
    "PREVIOUS(paymentAmount) per payeeId over 1 min > 20",
    "VALUE(paymentAmount) per payeeId > 2 × AVG(paymentAmount) over 1 h",
    "SEQUENCE(paymentType = CSH, paymentAmount > 20) per beneficiaryId over 10 s >= 2",
)
STEP = 11  # of so many alerts one shows its window
WINDOWS = """([schema, rules, lines, step]) => {
    const engine = new Engine(state.wasm, schemaOf(schema)), alerts = [];
    for (const rule of rules) engine.control(rule);
    engine.take(encoder.encode(lines.join("\\n")), (alert) => alerts.push(alert), () => {});
    return engine.book.alerts(alerts).map((alert, n) => [alert, n % step ? null : windowBehind(engine, alert)]);
}"""
DRAWN = """(windows) => windows.map(([alert, found]) => {
    if (!found) return { json: alert.json };
    const shown = picture(alert, found)[1], time = utcTimes(found.rows.map(([, ms]) => ms));
    return { json: alert.json, said: explain(alert, found), columns: found.names, rows: found.rows.map(([id, ms, ...more]) => [id, time(ms), ...more]), bars: shown.querySelectorAll("rect").length, limit: shown.querySelector("text").textContent };
})"""


def random_payments(rng: Random, count: int) -> list[str]:
    """In order, some of them twice, some without an amount."""
    time, lines = 1_700_000_000_000, []
    for number in range(1, count + 1):
        time += rng.choice([0, 200, 900, 4_000])
        event = {
            "transactionId": number,
            "eventTime": time,
            "payeeId": rng.randint(1, 4),
            "beneficiaryId": rng.randint(1, 3),
            "paymentType": rng.choice(["CSH", "CRD"]),
            "paymentAmount": rng.choice(
                [None, 1.5, 7, 12.25, 20.01, -3, 1234.5 if number > count - 9 else 2]
            ),
        }
        lines += [json.dumps(event)] * rng.choice([1, 1, 1, 2])
    return lines


def test_the_window_behind_an_alert_is_that_of_the_notebook_in_its_words(opened, engine):
    """And its value is the alert's, of each kind of rule."""
    lines = random_payments(Random(3), 400)
    rules = [f"{number}: {sentence}" for number, sentence in enumerate(SENTENCES, 1)]
    reference = reference_of(
        PAYMENTS, [*(("control", rule) for rule in rules), *(("event", line) for line in lines)]
    )
    past, widget = Past(PAYMENTS), AlertWindow()
    for rule in rules:
        past.history.apply(rule)
    past.add(lines)
    found = opened.evaluate(
        DRAWN, engine.evaluate(WINDOWS, [described(PAYMENTS.to_dict()), rules, lines, STEP])
    )
    assert [each["json"] for each in found] == [alert.to_json() for alert in reference.alerts]
    assert {alert.rule_id for alert in reference.alerts} == set(range(1, len(rules) + 1))
    for alert, each in list(zip(reference.alerts, found))[::STEP]:
        rule = reference.book.rules[alert.rule_id]
        widget.show(alert, rule, past, reference.alerts)
        assert sentence_html(each["said"]) == widget.said.value
        assert "These events give" not in each["said"]
        assert each["columns"] == widget.events.columns[2:]
        assert each["rows"] == [row[1:] for row in widget.events.rows]
        assert float(each["limit"].replace(",", "")) == widget.chart.data[2].y[0]
        assert each["bars"] == len(widget.chart.data[0].x)


def test_an_event_that_was_dropped_as_late_is_in_no_window(opened, engine):
    """The last one is late as well, but by less than its route keeps events: it alerts, and the one before is not there any more."""
    time = 1_700_000_000_000
    lines = [
        json.dumps(
            {
                "transactionId": number,
                "eventTime": time - late_ms,
                "payeeId": 1,
                "beneficiaryId": 2,
                "paymentType": "CSH",
                "paymentAmount": amount,
            }
        )
        for number, (late_ms, amount) in enumerate([*[(0, 5)] * WITNESSES, (361_000, 7), (350_000, 50)], 1)
    ]
    rule = "1: SUM(paymentAmount) per payeeId over 1 min > 40"
    [found] = opened.evaluate(
        DRAWN, engine.evaluate(WINDOWS, [described(PAYMENTS.to_dict()), [rule], lines, 1])
    )
    assert [row[0] for row in found["rows"]] == [str(WITNESSES + 2)] and found["bars"] == 1
    assert "1 events in the window" in found["said"] and "These events give" not in found["said"]


WIDE = """([schema, rule]) => {
    const engine = new Engine(state.wasm, schemaOf(schema)), alerts = [];
    engine.control(rule);
    engine.take(new Payments(200, 1700000000000).lines(MOST_HANDED + 25000), (alert) => alerts.push(alert), () => {});
    return engine.book.alerts([alerts.at(-1)]).map((alert) => [alert, windowBehind(engine, alert)]);
}"""


def test_a_window_of_more_events_than_python_is_handed_says_so(opened, engine):
    rule = "1: COUNT(events) over 1 h > 5, at most 1 per 100 s"
    [found] = opened.evaluate(DRAWN, engine.evaluate(WIDE, [described(PAYMENTS.to_dict()), rule]))
    assert "in the window of 1 h" in found["said"] and "These events" not in found["said"]
    assert found["said"].endswith(
        "The window may have more events: of the newest 50,000 in memory it has these."
    )


STEPS = """([schema, steps]) => {
    const engine = new Engine(state.wasm, schemaOf(schema)), alerts = [], shown = {};
    for (const [kind, text] of steps) {
        if (kind === "control") engine.control(text);
        else engine.take(encoder.encode(text), (alert) => alerts.push(alert), () => {});
        for (const alert of engine.book.alerts(alerts.splice(0))) shown[JSON.parse(alert.json).alertId] = alert;
    }
    return Object.entries(shown).map(([id, alert]) => [id, windowBehind(engine, alert).rows?.map(([event]) => Number(event)) ?? null]);
}"""


def test_a_window_has_the_events_over_which_the_reference_computed_the_aggregate(engine):
    """Under rules that change: alerts of a rule that is in force at the end, with the window that it had."""
    rng, time, steps = Random(7), 1_700_000_000_000, []
    sentences = (
        "SUM(paymentAmount) per payeeId over 1 min > 20",
        "COUNT(events) per payeeId over 1 min >= 3",
    )
    widest = "MAX(paymentAmount) per payeeId over {} min > 1000000"
    for number in range(900):
        if number in (50, 150):
            steps.append(("control", f"{number // 100 + 1}: {sentences[number // 100]}"))
        elif number % 200 == 199:
            steps.append(("control", f"3: {widest.format(rng.choice([1, 4, 9]))}"))
        elif number == 600:
            steps.append(("control", '{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}'))
        time += rng.choice([0, 1_000, 9_000, 60_000])
        late = rng.choice([0, 0, 0, 20_000, 290_000, 600_000, 1_200_000])
        event = {"transactionId": number, "eventTime": time - late, "payeeId": rng.randint(1, 3)}
        steps.append(
            ("event", json.dumps(event | {"beneficiaryId": 1, "paymentType": "CSH", "paymentAmount": 9}))
        )
    reference = WindowsOfAlerts(PAYMENTS)
    for kind, text in steps:
        reference.control(text) if kind == "control" else reference.event(text.encode())
    found = dict(engine.evaluate(STEPS, [described(PAYMENTS.to_dict()), steps]))
    assert {alert_id: sorted(ids or []) for alert_id, ids in found.items()} == {
        alert_id: ids for alert_id, (_, _, ids) in reference.windows.items()
    }
    assert reference.counts["droppedLate"] > 20 and len(found) > 200


def test_an_alert_shows_its_window_as_a_picture_a_sentence_and_a_table(opened):
    opened.click("#bursts button:nth-of-type(1)")
    assert opened.locator("#planted[role=status]").inner_text() == "burst 1 planted: pair"
    row = opened.locator("#alerts tr[data-key^='1.']").first
    row.click()
    opened.wait_for_selector(".lab-window svg .own")
    said = opened.inner_text(".lab-window .lab-said")
    assert "SUM(paymentAmount) per payeeId, beneficiaryId over 5 s > 20,000,000" in said
    assert "events in the window of 5 s that ends with event" in said and "These events" not in said
    count = int(said.split("20,000,000: ")[1].split()[0])
    assert opened.locator(".lab-window rect").count() == count > 1
    assert opened.locator(".lab-window tbody tr").count() == count
    assert opened.locator(".lab-window svg text").all_text_contents()[0] == "20,000,000"
    assert findings(opened) == []


def test_a_window_that_is_no_longer_known_is_told_with_the_alerts_of_its_group(opened):
    opened.click("#bursts button:nth-of-type(1)")
    alerts = opened.locator("#alerts tr[data-key^='1.']")
    alerts.first.wait_for()
    opened.click("#rules tr[data-key='1']")
    opened.click("#side button:text-is('Delete')")
    opened.wait_for_selector("#rules tr[data-key='1']", state="detached")
    alerts.first.click()
    opened.wait_for_selector("text=Rule 1 was deleted, so its windows are unknown.")
    assert opened.locator(".lab-window tbody tr").count() >= 1


TEXTS = (
    "limit: nothing, expected a decimal number below 10^24, with at most 12 digits after the point",
    "expected a value for amount; one with signs goes in quotes (at the end)",
    'unknown logins field "x" (known: eventId, eventTime)',
    "where: expected ) after hour(eventTime, zone (at nothing, character 3)",
    *("limit", "a text", "", "no sentence of the kit", "no sentence" * 3_000),
)


@pytest.mark.parametrize("language", ["ko", "zh"])
def test_a_refusal_is_told_in_the_readers_language(opened, language):
    opened.select_option("#language", language)
    try:
        speaking.speak(language)
        expected = [speaking.translated(text) for text in TEXTS]
    finally:
        speaking.speak("en")
    assert opened.evaluate("(texts) => texts.map(translated)", list(TEXTS)) == expected
    opened.click("#new")
    opened.wait_for_selector("#verdict p")
    before = opened.inner_text("#verdict")
    opened.locator("#side textarea").fill("SUM(paymentAmount) over")
    opened.wait_for_function(
        "(before) => document.querySelector('#verdict').innerText !== before", arg=before
    )
    after = opened.inner_text("#verdict")
    assert after != before and "expected" not in after and "90 min" in after
