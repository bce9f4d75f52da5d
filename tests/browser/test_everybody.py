"""Lessons 0, 3 and 10 worked with the keyboard alone, by somebody who listens: verdicts are said, and all that is read has a name."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from lab.teach.lessons import titles_solutions_and_predictions
from tests.browser.jupyter import KERNEL, Watched
from tests.browser.listener import Listener, transcript
from tests.browser.test_pages import PICTURES

pytestmark = pytest.mark.browser
RIGHT_3 = (
    "An event is in W / S windows if S divides W.",
    "Both ends count.",
    "Anything older is in no future window.",
    "That is 1% of 86,400 s",
    "After each alert the count starts from 1 again.",
)
NAMELESS = re.compile(
    r" *(button|link|radio|radiogroup|slider|textbox|combobox|tab|grid|table|image)\b(?! \")"
)


@pytest.fixture
def learner(browser: Browser, jupyter: tuple[str, str]) -> Iterator[Listener]:
    """In the list of the lessons."""
    watched = Watched(browser, width=1366, height=768)
    learner = Listener(watched.page)
    address, token = jupyter
    watched.page.goto(f"{address}/lab/tree/notebooks?token={token}&reset")
    watched.page.wait_for_selector(".jp-DirListing-item")
    watched.page.wait_for_selector(".jp-Launcher")
    yield learner
    assert watched.errors == [] and watched.elsewhere == []
    watched.page.close()


def opens(learner: Listener, lesson: str) -> None:
    """From the list, with the arrows and Enter."""
    learner.tab_to("ko")
    learner.tab_to(lesson, "ArrowDown")
    learner.press("Enter")
    learner.page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status='idle']")
    learner.page.wait_for_selector(".jp-Notebook .jp-mod-active h1")
    learner.page.wait_for_function("() => document.activeElement.closest('.jp-Notebook')")
    assert learner.page.evaluate(KERNEL)


def nameless(lines: list[str]) -> list[str]:
    """What is in a cell with an output and a screen reader has no name for, but for the cell's editor, which is JupyterLab's."""
    found, is_output, is_editor = [], False, False
    for line in lines:
        if "Cell Content" in line:
            is_output = is_editor = "with Output" in line
        elif is_output and NAMELESS.match(line):
            if not is_editor:
                found.append(line.strip())
            is_editor = False
    return found


def reads(learner: Listener, name: str, nameless_tables: int = 0) -> None:
    """The lesson as it is read from its top: everything in it has a name, but for the tables of pandas. `make pictures` keeps this."""
    learner.page.wait_for_timeout(3_000)  # sentences of plots follow them
    lines = transcript(learner.page)
    if PICTURES:
        (PICTURES / f"{name}.txt").write_text("\n".join(lines))
    assert nameless(lines) == ["table"] * nameless_tables and not [line for line in lines if "null" in line]
    plots = [line.strip() for line in lines if line.strip().startswith('image "Plot')]
    assert plots and all("shown: " in plot for plot in plots)


def test_lesson_0_is_done_with_keyboard_and_screen_reader(learner):
    page = learner.page
    opens(learner, "00-start-here")
    learner.run_to("To try it, we turn")
    page.wait_for_selector(".lab-asked [role=radiogroup] input")
    learner.back_to("none")
    learner.press("ArrowUp")
    assert learner.focus == "only the fourth"
    assert page.locator(".lab-asked input:checked").count() == 0  # to move is not to choose
    learner.press("Space")
    learner.hears("Your choice is noted")
    learner.press("Escape", "ArrowDown")
    learner.run_to("def judged")
    learner.run_cell()
    learner.hears("Yes. The third payment's window sums to")
    learner.run_to("rule_1 = ...")
    learner.answers("rule_1 = 49")
    learner.hears("wrong: 49 is a limit.")
    learner.press("ArrowUp", "ArrowUp")
    learner.answers('rule_1 = RULE.replace("50", "49")')
    learner.hears("Payments 3 and 4 alert")
    learner.run_to("minutes = ...")
    learner.answers("minutes = 21")
    learner.hears("right: 21.")
    learner.run_to("How many alerts does each")
    learner.hears("A limit of 20,000,000 over 30 d would have raised 2 alerts")
    page.wait_for_selector(".lab-slider input")
    learner.back_to("limit")
    learner.press("PageDown")
    learner.hears("A limit of 17,800,000 over 30 d would have raised 3 alerts")
    learner.back_to("1 v1")
    learner.press("ArrowDown", "ArrowDown", "Enter")
    learner.hears("A limit of 10,000,000 over 1 d would have raised 4 alerts")
    learner.tab_to("Publish")
    learner.press("Enter")
    learner.hears("accepted rule 3 version 2")
    learner.press("Escape", "ArrowDown")
    learner.run_to("millions = ...")
    learner.answers("millions = 8")
    learner.hears("right: 8.")
    learner.run_to("The line at the top says")
    page.wait_for_selector(".lab-pulse.good")
    page.wait_for_selector(".lab-table tr[data-key]:has-text('2 v1')")
    learner.back_to("surge")
    learner.press("Space")
    learner.tab_to("2 v1")
    learner.press("Enter")
    page.wait_for_selector(".lab-close:focus")
    learner.press("Escape")
    assert learner.focus.startswith("2 v1")
    learner.press("Escape", "ArrowDown")
    learner.run_to("room.end()")
    learner.run_cell()
    learner.hears("stopped")
    learner.run_to("On Spark")  # from here on, cells are only run
    reads(learner, "lesson-0")


def test_lesson_3_is_done_with_keyboard_and_screen_reader(learner):
    page = learner.page
    opens(learner, "03-custom-windows")
    learner.run_to("Move the sliders below")
    page.wait_for_selector(".lab-asked [role=radiogroup] input")
    learner.back_to("none")
    learner.press("Space")
    learner.hears("Your choice is noted")
    learner.press("Escape", "ArrowDown")
    learner.run_to("Tumbling windows miss")
    learner.hears("Yes. The edge between the windows at 11:00")
    learner.hears("tumbling: missed it; sliding: saw it 8 min after")
    page.wait_for_selector("[role=slider][aria-label^='slide S']")
    learner.back_to("slide S")
    learner.press("PageUp")
    learner.hears("An event is in W / S = 3 sliding windows")
    learner.tab_to("Table")
    learner.press("Enter")
    assert learner.focus.startswith("Plot: event time (UTC); shown: window, window over the limit")
    assert "marked: tumbling ✗ missed, sliding ✓ after 13 min" in learner.focus
    assert page.locator("[role=region]:focus").get_by_role("row").count() > 10
    learner.press("Escape", "Escape", "ArrowDown")
    for number in range(1, 6):
        learner.run_to("...")
        learner.answers(titles_solutions_and_predictions()["solutions"][f"3.{number}"])
        learner.hears(RIGHT_3[number - 1])
    learner.run_to("Spark and Java stopped")
    reads(learner, "lesson-3")


def test_lesson_10_is_done_with_keyboard_and_screen_reader(learner):
    page, solutions = learner.page, titles_solutions_and_predictions()["solutions"]
    opens(learner, "10-rules-that-say-more")
    learner.run_to("wrong_passwords = ")
    page.wait_for_selector(".lab-asked [role=radiogroup] input")
    learner.back_to("at the fifth and at all that follow")
    learner.press("Space")
    learner.hears("Your choice is noted")
    learner.press("Escape", "ArrowDown")
    learner.run_to("Up to 3, people who mistype")
    page.wait_for_selector(".lab-slider input")
    learner.back_to("limit")
    learner.press("ArrowRight")
    learner.hears("0.80 recall")
    learner.press("Escape", "ArrowDown")
    learner.run_to("card_testing = ...")
    learner.answers('card_testing = "COUNT(events) per acount over 30 min >= 4"')
    learner.hears("acount")
    learner.press("ArrowUp", "ArrowUp")
    learner.answers(solutions["10.1"])
    learner.hears("right")
    for exercise, solution in solutions.items():
        if exercise.startswith("10.") and exercise != "10.1":
            learner.run_to("...")
            learner.answers(solution)
            learner.hears("right")
    learner.run_to("Roads not taken")
    reads(learner, "lesson-10", nameless_tables=2)
