"""The moving picture of the front page: the story that it tells (`make pictures`)."""

import re
import time

import pytest
from playwright.sync_api import expect

from tests.browser.jupyter import room
from tests.browser.test_pages import LATER, PICTURES, PROJECTOR, beside, panel
from tools.movingpicture import MovingPicture

RULE = "SUM(paymentAmount) per beneficiaryId over 10 s > 5000000"


@pytest.mark.browser
def test_a_sentence_becomes_a_rule_and_its_alert_appears(browser):
    with room(browser, **PROJECTOR) as watched:
        page = watched.page
        expect(page.locator(".lab-pulse.good")).to_be_visible(timeout=LATER)
        time.sleep(15 if PICTURES else 0)  # until the charts show something
        picture, rules, side = MovingPicture(page), panel(page, "Rules"), beside(page)
        picture.show(1.2)
        rules.locator("button:has-text('New rule')").click()
        side.get_by_role("tab", name="Text").click()
        text = side.locator("textarea")
        expect(text).to_have_value(re.compile("^COUNT"))
        picture.show(1)
        text.fill("")
        for at in range(0, len(RULE), 4):
            text.press_sequentially(RULE[at : at + 4])
            picture.show(0.15)
        expect(side.get_by_text("becomes rule 5")).to_be_visible()
        expect(side.locator(".lab-said:has-text('would have raised')")).to_contain_text("5,000,000")
        picture.show(1.6)
        side.locator("button:has-text('Publish')").click()
        expect(side.get_by_text("accepted rule 5 version 1: ACTIVE")).to_be_visible()
        expect(rules.locator(".lab-table tr[data-key='5']")).to_contain_text("> 5,000,000")
        picture.show(1.4)
        panel(page, "Stream").locator("button:has-text('pair')").click()
        page.mouse.move(0, 0)  # the list holds still while it is pointed at
        fired = panel(page, "Alerts").locator(".lab-table tr:has-text('5 v1')").first
        expect(fired).to_be_visible()
        picture.show(3)
        assert watched.errors == []
        if PICTURES:
            picture.save(PICTURES / "control-room.gif")
            assert (PICTURES / "control-room.gif").stat().st_size <= 2_000_000
