"""A widget for a projector, in a real browser: on the whole screen, and back."""

from urllib.parse import quote

import pytest

from lab.widgets.look import CSS
from lab.widgets.projector import WholeScreenButton

pytestmark = pytest.mark.browser

RENDER = """async (source) => {
  const {default: {render}} = await import(source);
  const words = {large: "On the whole screen", back: "Back to the notebook"};
  render({model: {get: name => words[name]}, el: document.getElementById("button")});
}"""


def test_a_widget_fills_the_screen_and_the_notebook_comes_back(browser):
    page = browser.new_page(viewport={"width": 1366, "height": 768})
    page.set_content(
        f"<style>{CSS}</style><p>code</p><div class='lab-projector'><div id='button'></div><p id='room'>room</p></div>"
    )
    page.evaluate(RENDER, f"data:text/javascript,{quote(str(WholeScreenButton._esm))}")
    small = page.locator("#room").bounding_box()
    page.get_by_role("button", name="On the whole screen").press("Enter")
    page.get_by_role("button", name="Back to the notebook").wait_for()
    shown = page.evaluate("document.elementFromPoint(5, 5).closest('.lab-projector') !== null")
    assert shown and page.locator("#room").bounding_box()["height"] > 1.4 * small["height"]
    page.get_by_role("button", name="Back to the notebook").click()
    page.get_by_role("button", name="On the whole screen").wait_for()
    assert page.evaluate("document.fullscreenElement") is None
    page.close()
