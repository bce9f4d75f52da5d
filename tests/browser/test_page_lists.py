"""Named lists, mutes and derived fields in the page: written, refused where they can be fixed, and kept through a reload."""

import json

import pytest
from playwright.sync_api import Page, expect

from tests.browser.access import findings
from tests.waiting import wait_until

pytestmark = pytest.mark.browser
SCHEMA = """
name = "transfers"
id = "id"
time = "at"
[fields.id]
type = "long"
[fields.at]
type = "long"
[fields.payer]
type = "string"
[fields.payee]
type = "string"
[fields.amount]
type = "decimal(18,2)"
[derived]
cents = "amount * 100"
[legs.out]
account = "payer"
[legs.in]
account = "payee"
"""


def publish(opened: Page, sentence: str, answer: str) -> None:
    opened.click("#new")
    opened.get_by_label("as a sentence").fill(sentence)
    opened.click("#side button:text-is('Publish')")
    opened.wait_for_selector(f"text={answer}")


def test_the_form_compares_with_a_list_and_a_refusal_stands_where_it_can_be_fixed(opened):
    opened.click("#new")
    opened.get_by_label("only where").fill("paymentAmount > 0 or payeeId = 7")
    opened.get_by_label("field").select_option("paymentType")
    name = opened.get_by_label("named list")
    name.fill("high risk")
    name.press("Enter")
    expect(opened.locator("#list-said")).to_contain_text('"high risk", expected a name')
    expect(opened.locator("#verdict .bad")).to_have_count(0)
    assert name.get_attribute("aria-invalid") == "true"
    name.fill("@risky")
    name.press("Enter")
    expect(opened.locator("#list-said")).to_be_empty()
    sentence = "COUNT(events) where (paymentAmount > 0 or payeeId = 7) and paymentType in @risky per payeeId"
    expect(opened.get_by_label("as a sentence")).to_have_value(f"{sentence} over 1 min > 10")
    expect(opened.locator("[data-list=risky]")).to_contain_text("@risky is empty, so no value is in it.")
    values, until = opened.get_by_label("values for @risky"), opened.get_by_label("until")
    for given, time, reason in (
        ("CSH; CRD", "", "expected , or to @list after a value"),
        ("CSH", "tomorrow", 'until: "tomorrow", expected a time'),
    ):
        values.fill(given)
        until.fill(time)
        values.press("Enter")
        expect(opened.locator(".lab-list .bad")).to_contain_text(reason)
    until.fill("")
    values.press("Enter")
    expect(opened.locator("[data-list=risky]")).to_contain_text("@risky, values: 1")
    assert findings(opened) == []
    opened.click("#side button:text-is('Publish')")
    opened.wait_for_selector("text=accepted rule 5 version 1: ACTIVE")


def test_a_rule_sees_a_list_as_it_is_and_both_outlast_a_reload(opened):
    publish(
        opened, "COUNT(events) where paymentType in @risky per paymentType over 1 min >= 1", "accepted rule 5"
    )
    expect(opened.locator("#side .warning", has_text="the list @risky is empty")).to_be_visible()
    fired = opened.locator("#rules tr[data-key='5'] td:last-child")
    opened.wait_for_timeout(1_000)
    assert fired.inner_text() == "0"
    opened.click("#lists")
    message = opened.get_by_label("a message")
    message.fill("add CSH to @risky")
    message.press("Enter")
    expect(fired).not_to_have_text("0")
    assert "paymentType=CRD" not in "".join(opened.locator("#alerts tr[data-key^='5.']").all_inner_texts())
    opened.reload()
    opened.wait_for_selector("#rules tr[data-key='5']")
    opened.click("#lists")
    expect(opened.locator("[data-list=risky]")).to_contain_text("@risky, values: 1")
    opened.click(".lab-entry")
    expect(opened.locator("[data-list=risky]")).to_contain_text("is empty")


def test_a_group_is_muted_from_its_alert(opened):
    publish(opened, "COUNT(events) per paymentType over 1 min >= 1", "accepted rule 5")
    opened.locator("#alerts tr[data-key^='5.']", has_text="CSH").first.click()
    opened.click("text=Mute this group")
    opened.wait_for_selector("text=accepted: @muted, values: 1")
    opened.evaluate("room.alerts.length = 0")
    wait_until(lambda: opened.evaluate("room.alerts.some(({ ruleId }) => ruleId === '5')"))
    groups = opened.evaluate("room.alerts.filter(({ ruleId }) => ruleId === '5').map(({ key }) => key)")
    assert {*groups} == {"{paymentType=CRD}"}


def test_fields_are_derived_below_a_file_and_legs_come_with_a_schema_file(opened, tmp_path):
    lines = [
        json.dumps({"id": n, "at": 1_700_000_000_000 + n, "payer": f"a{n % 3}", "payee": "b", "amount": n})
        for n in range(1, 1_001)
    ]
    (tmp_path / "own.jsonl").write_text("\n".join(lines))
    opened.set_input_files("#file", tmp_path / "own.jsonl")
    derived = opened.get_by_label("derived fields")
    derived.fill("twice = amount*2")
    expect(opened.locator("#derived-said")).to_contain_text("write amount * 2")
    expect(opened.locator("text=Play them")).to_be_disabled()
    derived.fill("twice = amount * 2")
    expect(opened.locator("#derived-said")).to_contain_text("Derived: twice (")
    opened.click("text=Play them")
    opened.wait_for_selector("text=is played: 1,000 records")
    publish(opened, "MAX(twice) per payee over 1 min = 2000", "accepted rule 1")
    opened.click("#again")
    opened.wait_for_selector("#alerts tr[data-key^='1.']")
    (tmp_path / "transfers.toml").write_text(SCHEMA)
    opened.set_input_files("#file", tmp_path / "transfers.toml")
    opened.wait_for_selector("text=The page knows the schema transfers now.")
    opened.set_input_files("#file", tmp_path / "own.jsonl")
    opened.wait_for_selector("text=These are transfers, a schema that the page knows.")
    opened.click("text=Play them")
    opened.wait_for_selector("text=is played: 2,000 records")
    publish(
        opened,
        'COUNT(events where leg = "in") per account over 1 min = 1000, when cents = 100000',
        "accepted rule 1",
    )
    opened.click("#again")
    opened.locator("#alerts tr[data-key^='1.']").first.click()
    opened.wait_for_selector(".lab-window svg .own")
    assert "1000 events in the window" in opened.inner_text(".lab-window .lab-said").replace(",", "")
    (tmp_path / "wrong.toml").write_text("id = 7")
    opened.set_input_files("#file", tmp_path / "wrong.toml")
    opened.wait_for_selector("#side .bad")


def test_the_page_says_what_a_schema_file_is_for_and_why_records_do_not_fit_it(opened, tmp_path):
    """Its rows are CSV elsewhere; here JSON with its fields is read by it, and CSV by what is found in it."""
    (tmp_path / "transfers.toml").write_text(SCHEMA.replace("[fields.id]", 'records = "csv"\n[fields.id]', 1))
    event = {"id": 1, "at": 1_700_000_000_000, "payer": "a", "payee": "b", "amount": 1}
    files = {
        "right.jsonl": [json.dumps(event), json.dumps(event | {"id": 2})],
        "short.jsonl": [json.dumps({"number": n, "at": event["at"], "payer": "a"}) for n in (1, 2)],
        "texts.jsonl": [json.dumps(event | {"id": n, "amount": "much"}) for n in (1, 2)],
        "rows.csv": ["id,at,payer,payee,amount", *(f"{n},{event['at']},a,b,1" for n in (1, 2))],
    }
    for name, lines in files.items():
        (tmp_path / name).write_text("\n".join(lines))
    opened.set_input_files("#file", tmp_path / "transfers.toml")
    opened.wait_for_selector("text=The page uses it for JSON only.")
    for name, said in (
        ("right.jsonl", "These are transfers, a schema that the page knows."),
        ("short.jsonl", "They do not fit the schema transfers: no record has id"),
        ("texts.jsonl", 'They do not fit the schema transfers: amount: "much"'),
        ("rows.csv", "This is CSV. The page uses the schema transfers for JSON only."),
    ):
        opened.set_input_files("#file", tmp_path / name)
        expect(opened.locator("#side-title")).to_have_text(name)
        expect(opened.locator("#side-body")).to_contain_text(said)


def test_a_regular_expression_is_refused_with_what_to_write_instead(opened):
    opened.click("#new")
    opened.locator("#side textarea").fill(
        'COUNT(events) where paymentType matches "^C" per payeeId over 1 min > 5'
    )
    expect(opened.locator("#verdict")).to_contain_text("startsWith, contains and endsWith need no package")
