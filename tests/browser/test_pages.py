"""The lessons and the control room in a real browser, as a learner works them. `make pictures` keeps what it saw."""

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Dialog, Locator, Page, expect

from tests.browser.access import grave, of_lesson
from tests.browser.jupyter import ROOT, Watched, room

pytestmark = pytest.mark.browser
PICTURES = Path(os.environ["LAB_PICTURES"]) if "LAB_PICTURES" in os.environ else None
PROJECTOR, PHONE = {"width": 1366, "height": 768}, {"width": 390, "height": 844}
SOON, LATER = 40_000, 120_000  # ms
expect.set_options(timeout=SOON)
TYPED = "78,(active),(payeeId),,(paymentAmount),(SUM),(>),(5000000),(20)"
NEW_RULE = {
    "ruleId": 77,
    "ruleState": "ACTIVE",
    "groupingKeyNames": ["paymentType"],
    "aggregateFieldName": "paymentAmount",
    "aggregatorFunctionType": "SUM",
    "limitOperatorType": ">",
    "limit": 100,
    "window": "10s",
}


def keep(part: Page | Locator, name: str) -> None:
    """Keeps a picture for the README, if that is wanted."""
    if PICTURES:
        time.sleep(1.5)
        part.screenshot(path=PICTURES / f"{name}.png")


def keep_room(page: Page, name: str) -> None:
    """The same of a room that has run for a minute, with a rule open."""
    if PICTURES:
        for _ in range(4):
            panel(page, "Stream").locator("button:has-text('pair')").click()
            time.sleep(15)
        panel(page, "Rules").locator("tr[data-key='3']").click()
        keep(page, name)
        page.keyboard.press("Escape")


def nothing_went_wrong(watched: Watched) -> None:
    assert watched.errors == []
    assert watched.elsewhere == []
    assert watched.page.locator(".jp-OutputArea-output[data-mime-type*='error']").count() == 0


def panel(page: Page, name: str) -> Locator:
    return page.locator(f".lab-panel:has(h3:text-is('{name}'))").last


def beside(page: Page) -> Locator:
    return page.locator(".lab-side").last


def a_rule_is_made_tuned_and_seen_to_fire(page: Page) -> None:
    """In a control room whose stream flows; all by keyboard, as far as there is something to choose."""
    rules, alerts, side = panel(page, "Rules"), panel(page, "Alerts"), beside(page)
    rules.locator("button:has-text('New rule')").click()
    side.get_by_role("tab", name="Text").click()
    side.locator("textarea").fill(json.dumps(NEW_RULE))
    expect(side.get_by_text("SUM(paymentAmount) per paymentType over 10 s > 100").first).to_be_visible()
    expect(side.locator(".lab-said:has-text('would have raised')")).to_contain_text("alert")
    side.locator("button:has-text('Publish')").click()
    expect(side.get_by_text("accepted rule 77 version 1: ACTIVE")).to_be_visible()
    row = rules.locator(".lab-table tr[data-key='77']")
    expect(row).to_contain_text("> 100")
    page.keyboard.press("Escape")
    expect(side).not_to_be_visible()
    page.mouse.move(0, 0)  # the list holds still while it is pointed at
    fired = alerts.locator(".lab-table tr:has-text('77 v1')").first
    expect(fired).to_be_visible()

    row.focus()
    row.press("Enter")
    expect(row).to_have_attribute("aria-selected", "true")
    expect(side.locator(".lab-close")).to_be_focused()
    slider = side.locator(".lab-slider input").first
    slider.focus()
    for _ in range(8):
        slider.press("ArrowRight")
    page.wait_for_function(
        "() => Number([...document.querySelectorAll('.lab-side textarea')].pop().value.split('> ').pop()) > 100",
        timeout=SOON,
    )
    side.get_by_role("tab", name="Form").click()
    page.keyboard.press("Escape")
    expect(side).not_to_be_visible()
    expect(row).to_be_focused()
    alerts.locator("button:has-text('Hold')").click()
    fired.click()
    expect(side.get_by_text("events in the window of 10 s")).to_be_in_viewport()
    expect(side.locator(".js-plotly-plot:visible").first).to_be_in_viewport(ratio=0.9)


def what_is_typed_is_what_is_published(page: Page) -> None:
    """Word for word, key by key; and a rule is not replaced unasked."""
    rules, side = panel(page, "Rules"), beside(page)
    rules.locator("button:has-text('New rule')").click()
    side.get_by_role("tab", name="Text").click()
    text = side.locator("textarea")
    expect(text).to_have_value(re.compile(r"^COUNT\(events\) per payeeId over 1 min > 10$"))
    for typed in (TYPED, json.dumps(NEW_RULE | {"ruleId": 79, "limit": 5_000_000})):
        text.fill("")
        text.press_sequentially(typed, delay=2)
        time.sleep(2.5)  # the backtest is counted anew meanwhile
        expect(text).to_have_value(typed)
        side.locator("button:has-text('Publish')").click()
    for number in (78, 79):
        expect(rules.locator(f".lab-table tr[data-key='{number}']")).to_contain_text("> 5,000,000")

    text.fill(TYPED.replace("78", "1", 1))
    side.locator("button:has-text('Publish')").click()
    expect(side.get_by_text("Rule 1 is in force")).to_be_visible()
    side.locator("button:has-text('Keep it')").click()
    expect(rules.locator(".lab-table tr[data-key='1'] td").first).to_have_text("1 v1")
    side.get_by_role("tab", name="Form").click()
    page.keyboard.press("Escape")
    expect(side).not_to_be_visible()  # opened again, it has its proposal: nothing is typed before


def while_a_slider_is_dragged_it_shows_what_is_meant(page: Page) -> None:
    """Also while events and bursts change the limits that it offers."""
    panel(page, "Rules").locator("tr[data-key='1']").click()
    side, burst = beside(page), panel(page, "Stream").locator("button:has-text('pair')")
    shown = side.locator(".lab-slider output").first
    expect(shown).to_have_text("20,000,000")
    box = side.locator(".lab-slider input").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 9)
    page.mouse.down()
    for step in range(20):
        page.mouse.move(box["x"] + box["width"] * (0.9 - 0.03 * step), box["y"] + 9)
        time.sleep(0.1)
        if step == 10:
            burst.evaluate("button => button.click()")
    chosen = shown.inner_text()
    page.mouse.up()
    expect(side.locator(".lab-foot")).to_contain_text(f"over 5 s > {chosen} ·")
    expect(shown).to_have_text(chosen)
    page.keyboard.press("Escape")


def whoever_leaves_is_asked(page: Page) -> None:
    """For the room, its rules and its alerts are gone then; whoever stays loses nothing.

    By closing, which a page is asked about as it is before a reload: after a reload that somebody
    called off, Playwright waits in each click for a page that never comes.
    """
    asked: list[str] = []

    def stay(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.dismiss()

    page.once("dialog", stay)
    page.context.new_cdp_session(page).send("Page.close")
    page.wait_for_timeout(2_000)  # a kernel that ends is noticed by then
    assert asked == ["beforeunload"]
    expect(page.locator(".lab-pulse.good")).to_be_visible()
    panel(page, "Rules").locator("tr[data-key='1']").click()  # it answers
    expect(beside(page).get_by_text("Rule 1", exact=True)).to_be_visible()
    page.keyboard.press("Escape")


def the_scope_moves(page: Page) -> None:
    page.locator("button:has-text('Key-groups')").click()
    scope = beside(page)
    expect(scope.get_by_text("2 → 3:")).to_be_visible()
    to = scope.locator(".widget-slider .noUi-handle").last
    to.focus()
    to.press("ArrowRight")
    expect(scope.get_by_text("2 → 4:")).to_be_visible()
    page.keyboard.press("Escape")


def nothing_is_scrolled_for(page: Page) -> None:
    """Stream, rules, alerts and latency are in the window, whole."""
    window = page.viewport_size
    for name in ("Stream", "Rules", "Alerts", "Latency"):
        box = panel(page, name).bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= window["height"], name
        assert box["x"] >= 0 and box["x"] + box["width"] <= window["width"], name
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if page.evaluate("document.body.dataset.voila"):  # a page of its own has no scrollbar beside the room's
        assert page.evaluate("getComputedStyle(document.documentElement).overflowY") == "hidden"


def test_lesson_0_runs_and_in_its_room_a_rule_is_made_tuned_and_seen_to_fire(browser, jupyter):
    watched = Watched(browser, height=1300)
    page = watched.page
    watched.run_all(*jupyter, "notebooks/00-start-here.ipynb")
    nothing_went_wrong(watched)
    cell = page.locator(".jp-CodeCell:has-text('lab.ControlRoom(studio')")
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    expect(page.locator(".lab-pulse.good")).to_be_visible(timeout=LATER)
    a_rule_is_made_tuned_and_seen_to_fire(page)
    nothing_went_wrong(watched)
    assert of_lesson(page) == []

    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_role("menuitem", name="Shut Down Kernel", exact=True).click()
    expect(page.locator(".lab-pulse.bad:has-text('No sign of the kernel')")).to_be_visible()
    page.close()


@pytest.fixture
def a_copy() -> Iterator[str]:
    """A copy of lesson 0 that may be saved."""
    copy = ROOT / "notebooks" / "copy-of-lesson-0.ipynb"
    copy.write_bytes((ROOT / "notebooks" / "00-start-here.ipynb").read_bytes())
    yield str(copy.relative_to(ROOT))
    copy.unlink()


def test_after_a_reload_of_the_page_figures_show_what_they_showed(browser, jupyter, a_copy):
    watched = Watched(browser)
    page = watched.page
    watched.open(*jupyter, a_copy)
    watched.run_up_to("lab.RuleDesk(")
    curve = "[...document.querySelectorAll('.js-plotly-plot')].map(p => (p.data[0]?.x ?? []).at(-1)).pop()"
    page.wait_for_function(f"() => {curve} > 10", timeout=LATER)
    first = page.evaluate(curve)
    page.locator(".lab-table tr[data-key='3']").click(timeout=LATER)
    page.wait_for_function(f"() => {curve} > 10 && {curve} !== {first}", timeout=LATER)
    shown = page.evaluate(curve)
    page.keyboard.press("Control+S")
    page.wait_for_function("() => !document.querySelector('.jp-mod-dirty')", timeout=SOON)
    time.sleep(1)  # a figure says its size, which makes the page dirty once more
    page.keyboard.press("Control+S")
    page.wait_for_function("() => !document.querySelector('.jp-mod-dirty')", timeout=SOON)
    page.goto(page.url.replace("&reset", ""))
    page.wait_for_function(f"() => {curve} === {shown}", timeout=LATER)
    page.wait_for_function("() => [...document.querySelectorAll('.js-plotly-plot path.js-line')].length > 0")
    nothing_went_wrong(watched)
    page.close()


def answer(page: Page, cell: str, typed: str) -> Locator:
    """Types an answer over a stub, runs it and its check; what the check says."""
    stub = page.locator(f".jp-CodeCell:has-text('{cell}')").first
    stub.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(typed)
    for _ in range(2):
        page.keyboard.press("Shift+Enter")
    return page.locator(".jp-CodeCell:has-text('lab.check') [role='status']").first


def test_a_wrong_answer_is_told_what_is_wrong_and_gets_hints_before_the_solution(browser, jupyter):
    watched = Watched(browser, **PROJECTOR)
    page = watched.page
    watched.open(*jupyter, "notebooks/00-start-here.ipynb")
    assert page.get_by_text("because=").count() == page.locator(".jp-OutputArea summary").count() == 0
    watched.run_up_to("rule_1 = ...")
    said = answer(page, "rule_1 = ...", "rule_1 = 49")
    expect(said).to_contain_text("49 is a limit.", timeout=LATER)
    said = answer(page, "rule_1 = 49", 'rule_1 = RULE.replace("50", "60")')
    expect(said).to_contain_text("Now no payment alerts")
    expect(said).to_contain_text("Hint: The third payment sees")
    keep(page, "a-wrong-answer")
    said = answer(page, "rule_1 = RULE", 'rule_1 = RULE.replace("50", "49")')
    expect(said).to_contain_text("right:")
    nothing_went_wrong(watched)

    page.evaluate("jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    ended = page.locator(".lab-ended")
    expect(ended.first).to_contain_text("Run the notebook from the top")
    ended.first.get_by_role("button", name="Run from the top").click()
    page.locator(".jp-Dialog button:has-text('Restart')").click()
    expect(ended).to_have_count(0, timeout=LATER)
    page.close()


def test_lesson_7_runs_on_kafka(browser, jupyter):
    watched = Watched(browser, height=1300)
    watched.run_all(*jupyter, "notebooks/07-live.ipynb")
    nothing_went_wrong(watched)
    room = watched.page.locator(".lab-pulse")
    expect(room).to_have_text(["stopped", "stopped"])  # Kafka's, and that on own events
    expect(watched.page.locator(".lab-table tr[data-key='5'] td").last).not_to_have_text("0")
    watched.page.close()


@pytest.mark.parametrize(
    ("notebook", "cell", "name"),
    [
        ("03-custom-windows", "WindowScope(", "window-scope"),
        ("05-rescaling-keyed-state", "KeyGroupScope(", "key-group-scope"),
    ],
)
def test_the_scopes_of_the_lessons_move(browser, jupyter, notebook, cell, name):
    watched = Watched(browser, height=1300)
    page = watched.page
    watched.open(*jupyter, f"notebooks/{notebook}.ipynb")
    watched.run_up_to(cell)
    scope = page.locator(".jp-OutputArea-output:has(.js-plotly-plot):has(.lab-said)").last
    said = scope.locator(".lab-said").last
    expect(said).not_to_be_empty()
    before = said.inner_text()
    slider = scope.locator(".widget-slider .noUi-handle").nth(1)
    slider.focus()
    for _ in range(2):
        slider.press("ArrowRight")
    expect(said).not_to_have_text(before)
    expect(scope.locator(".plot-container").first).to_have_attribute(
        "aria-label", re.compile(r"^Plot.*shown: ")
    )
    scope.get_by_role("button", name="Table").first.press("Enter")
    expect(
        scope.get_by_role("region", name=re.compile(r"^Plot.*shown: ")).get_by_role("row")
    ).not_to_have_count(0)
    page.keyboard.press("Escape")
    keep(scope, name)
    nothing_went_wrong(watched)
    assert of_lesson(page) == []
    page.close()


@pytest.mark.parametrize("notebook", ["01-dynamic-partitioning", "08-from-data-to-policy"])
def test_a_lesson_can_be_read_by_everybody(browser, jupyter, notebook):
    watched = Watched(browser, **PROJECTOR)
    watched.run_all(*jupyter, f"notebooks/{notebook}.ipynb")
    assert of_lesson(watched.page) == []
    nothing_went_wrong(watched)
    watched.page.close()


def test_the_launcher_opens_the_room_in_jupyterlab_too(browser, jupyter):
    """Its figures are made in the thread of a button, before anybody listens to them."""
    watched = Watched(browser, **PROJECTOR)
    page = watched.page
    watched.run_all(*jupyter, "notebooks/control-room.ipynb")
    page.locator("button:has-text('Start')").click()
    expect(page.locator(".lab-pulse.good")).to_be_visible(timeout=LATER)
    expect(page.locator(".lab-panel .js-plotly-plot .main-svg").first).to_be_visible(timeout=LATER)
    page.locator(".lab-room").scroll_into_view_if_needed()
    nothing_is_scrolled_for(page)
    keep(page, "control-room-in-jupyterlab")
    page.locator("button:has-text('Stop')").click()
    expect(page.locator(".lab-pulse")).to_have_text("stopped")
    nothing_went_wrong(watched)
    page.close()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_control_room_is_a_web_page_of_its_own(browser, dark):
    with room(browser, theme="dark" if dark else "", **PROJECTOR) as watched:
        page = watched.page
        expect(page.locator(".lab-pulse.good")).to_be_visible(timeout=LATER)
        expect(page.locator("button:has-text('Start')")).not_to_be_visible()  # folded away
        nothing_is_scrolled_for(page)
        assert grave(page) == []
        keep_room(page, "control-room-dark" if dark else "control-room")
        while_a_slider_is_dragged_it_shows_what_is_meant(page)
        whoever_leaves_is_asked(page)
        what_is_typed_is_what_is_published(page)
        a_rule_is_made_tuned_and_seen_to_fire(page)
        nothing_is_scrolled_for(page)
        assert grave(page) == []
        the_scope_moves(page)
        nothing_went_wrong(watched)


def test_an_alert_tells_why_and_a_form_why_not(browser):
    """By keyboard; the same words as on the command line, and nothing that is typed becomes a part of the page."""
    with room(browser, **PROJECTOR) as watched:
        page = watched.page
        alerts, side = panel(page, "Alerts"), beside(page)
        fired = alerts.locator(".lab-table tr[data-key]").first
        expect(fired).to_be_visible(timeout=LATER)
        alerts.locator("button:has-text('Hold')").click()
        fired.focus()
        fired.press("Enter")
        why = side.locator(".lab-why:visible")
        expect(why).to_contain_text("holds at event")
        expect(
            why.get_by_text("The smallest change of each kind that gives the other verdict:")
        ).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert grave(page) == []
        page.keyboard.press("Escape")
        expect(side).not_to_be_visible()
        button = page.locator("button:has-text('Why not?')").first
        button.focus()
        button.press("Enter")
        event = side.get_by_label("event", exact=True)
        for typed, said in (
            ("<b>7</b>", "<b>7</b>"),
            (fired.get_attribute("data-key").split(".")[2], "at event"),
        ):
            event.fill(typed)
            event.press("Enter")
            expect(side.locator(".lab-why:visible .lab-said")).to_contain_text(said)
        assert page.locator(".lab-why b").count() == 0
        page.keyboard.press("Escape")
        nothing_went_wrong(watched)


def test_on_a_phone_the_room_is_one_column_and_what_is_chosen_takes_its_place(browser):
    with room(browser, **PHONE) as watched:
        page = watched.page
        expect(page.locator(".lab-pulse.good")).to_be_visible(timeout=LATER)
        lefts = {panel(page, name).bounding_box()["x"] for name in ("Stream", "Rules", "Alerts", "Latency")}
        assert len(lefts) == 1 and page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        panel(page, "Rules").locator("tr[data-key='1']").click()
        expect(beside(page).get_by_text("Rule 1", exact=True)).to_be_in_viewport()
        expect(panel(page, "Stream")).not_to_be_visible()
        keep(page, "control-room-on-a-phone")
        beside(page).locator(".lab-close").click()
        expect(panel(page, "Stream")).to_be_visible()
        nothing_went_wrong(watched)
