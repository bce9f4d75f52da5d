"""The form of the page takes whole rules, keeps them through a reload, and moves and cuts off nothing."""

import json

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
PASTED = "COUNT(events) per beneficiaryId over 10 s >= 9"
AS_JSON = {
    "ruleId": 8,
    "ruleState": "PAUSE",
    "groupingKeyNames": ["beneficiaryId"],
    "aggregatorFunctionType": "COUNT",
    "limitOperatorType": ">=",
    "limit": 9,
    "window": "10s",
}


@pytest.mark.parametrize(
    "text",
    [f"8 pause: {PASTED}", json.dumps(AS_JSON), "8,(pause),(beneficiaryId),,,(COUNT),(>=),(9),(10s)"],
    ids=["words", "JSON", "plain"],
)
def test_a_whole_rule_may_be_pasted_into_the_field_of_its_sentence(opened, text):
    """As the lessons, the README and a file of rules have it: with its id."""
    opened.click("#new")
    sentence = opened.get_by_label("as a sentence")
    sentence.fill(text)
    expect(sentence).to_have_value(PASTED)
    expect(opened.get_by_label("rule id")).to_have_value("8")
    expect(opened.get_by_label("state")).to_have_value("PAUSE")
    expect(opened.get_by_label("limit")).to_have_value("9")
    opened.click("text=Publish")
    opened.wait_for_selector("text=accepted rule 8 version 1: PAUSE")


def test_what_is_wrong_in_a_pasted_rule_is_told(opened):
    opened.click("#new")
    sentence = opened.get_by_label("as a sentence")
    for text, reason in (
        ("8: COUNT(events) per payee over 1 s > 2", "payee"),
        ("8: ", "expected a function"),
        ('{"ruleId": 8, "ruleState": "PAUSE"}', "aggregatorFunctionType"),
        ("{}", "ruleState"),
    ):
        sentence.fill(text)
        expect(opened.locator("#verdict")).to_contain_text(reason)
        expect(
            opened.locator("text=Publish")
        ).to_be_disabled()  # what it says of the text before may fit, too
        assert sentence.input_value() == text


def test_rules_on_the_stream_outlast_a_reload_and_end_with_the_tab(opened):
    opened.click("#new")
    opened.get_by_label("as a sentence").fill(f"8: {PASTED}")
    opened.click("text=Publish")
    opened.wait_for_selector("#rules tr[data-key='8']")
    opened.click("#close")
    opened.click("#rules tr[data-key='2']")
    opened.click("#side button:text-is('Delete')")
    opened.wait_for_selector("#rules tr[data-key='2']", state="detached")
    opened.click("#close")
    opened.click("#rules tr[data-key='3']")
    opened.click("#side button:text-is('Pause')")
    opened.wait_for_selector("#rules tr[data-key='3'] :text-is('PAUSE')")
    opened.reload()
    opened.wait_for_selector("#rules tr[data-key='8']")
    assert opened.locator("#rules tbody tr").count() == 4 and opened.is_hidden("#rules tr[data-key='2']")
    assert "PAUSE" in opened.inner_text("#rules tr[data-key='3']")
    other = opened.context.new_page()
    other.goto(opened.url)
    other.wait_for_selector("#rules tr[data-key='2']")
    assert other.locator("#rules tbody tr").count() == 4 and other.is_hidden("#rules tr[data-key='8']")
    for broken in ("[", "7", '["8: what?"]', "[3]", "{}"):
        other.evaluate("text => sessionStorage.setItem('rules', text)", broken)
        other.reload()
        other.wait_for_selector("#rules tr[data-key='4']")
        assert other.locator("#rules tbody tr").count() == 4


def test_no_button_moves_when_it_is_pressed(opened):
    opened.click("#new")
    opened.wait_for_selector(".lab-picks")
    widths = "[...document.querySelectorAll('button[aria-pressed]')].map(button => button.offsetWidth)"
    before = opened.evaluate(widths)
    for button in (
        "#pause",
        "#fast",
        *(f".lab-picks button:text-is('{name}')" for name in ("payeeId", "paymentType")),
    ):
        opened.click(button)
    assert opened.evaluate(widths) == before


@pytest.mark.parametrize("width", [1366, 911])
def test_the_time_of_an_alert_is_not_cut_off(opened, width):
    """911: as 1366 at a zoom of 150 %."""
    opened.set_viewport_size({"width": width, "height": 768})
    for name in ("pair", "beneficiary"):
        opened.click(f"#bursts button:text-is('{name}')")
    opened.wait_for_selector("#alerts tr[data-key]:has-text('10,000,000')")
    opened.wait_for_selector("#alerts tr[data-key]:has-text('20,000,000')")
    hidden = "document.querySelector('#alerts .lab-table').scrollWidth - document.querySelector('#alerts .lab-table').clientWidth"
    assert opened.evaluate(hidden) == 0
    opened.click("#new")
    assert opened.evaluate(hidden) == 0
