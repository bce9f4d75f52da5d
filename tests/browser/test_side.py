"""The panel beside a room, in a page that is drawn late, as after a reload."""

from urllib.parse import quote

import pytest

from lab.widgets.side import EscapeKeyListener

pytestmark = pytest.mark.browser

PAGE = '<div id="later"><div class="lab-room"><div class="lab-main"><div class="lab-side"></div></div></div></div>'
LATE = """async (source) => {
  const {default: {render}} = await import(source);
  const told = {}, model = {shown: false, get: () => model.shown, set: (_, v) => model.shown = v, save_changes() {}, on: (e, f) => told[e] = f};
  const el = document.createElement("div"), frame = () => new Promise(requestAnimationFrame);
  const end = render({model, el});
  await frame(); await frame();
  document.querySelector(".lab-side").append(el);
  model.shown = true;
  told["change:shown"]();
  const room = document.querySelector(".lab-room"), opened = room.classList.contains("lab-open");
  document.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}));
  end();
  return [opened, model.shown];
}"""


def test_a_room_that_is_attached_late_still_gives_the_panel_its_place(browser):
    page = browser.new_page()
    page.set_content(PAGE)
    source = f"data:text/javascript,{quote(str(EscapeKeyListener._esm))}"
    assert page.evaluate(LATE, source) == [True, False], "opened, and closed by Escape"
    page.close()
