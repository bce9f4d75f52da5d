"""The moving picture of the front page: its GIF, and the story that it tells (`make pictures`)."""

import re
import time

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.jupyter import Watched, voila
from tests.browser.movingpicture import BITS, MovingPicture, gif, lzw
from tests.browser.test_pages import LATER, PICTURES, PROJECTOR, beside, panel

RULE = "SUM(paymentAmount) per beneficiaryId over 10 s > 5000000"


def unpacked(data: bytes) -> bytes:
    """What a reader of GIF makes of compressed numbers of colours."""
    clear, end = 1 << BITS, (1 << BITS) + 1
    bits, at, made, before = int.from_bytes(data, "little"), 0, bytearray(), b""
    table: list[bytes] = []
    while True:
        size = max(len(table).bit_length(), BITS + 1) if len(table) < 4096 else 12
        code = bits >> at & (1 << size) - 1
        at += size
        if code == end:
            return bytes(made)
        if code == clear:
            table, before = [bytes([n]) for n in range(clear)] + [b"", b""], b""
            continue
        entry = table[code] if code < len(table) else before + before[:1]
        if before and len(table) < 4096:
            table.append(before + entry[:1])
        made += entry
        before = entry


@pytest.mark.parametrize("pixels", [b"\0", b"\5" * 70_000, bytes(range(128)) * 90], ids=len)
def test_what_is_packed_is_unpacked_as_it_was(pixels):
    assert unpacked(lzw(pixels)) == pixels
    noise = np.random.default_rng(1).integers(0, 127, 60_000, np.uint8).tobytes()
    assert unpacked(lzw(pixels + noise)) == pixels + noise  # the table fills up and begins anew


def test_a_frame_has_only_what_changed():
    white = np.full((40, 60, 3), 255, np.uint8)
    other = white.copy()
    other[10:12, 20:25] = 0
    made = gif([white, other, other], [0.5, 1, 1])
    boxes = re.findall(rb"\x21\xf9\x04\x05(..)\x7f\x00\x2c(........)\x00\x07", made, re.DOTALL)
    delays = [int.from_bytes(delay, "little") for delay, _ in boxes]
    places = [np.frombuffer(box, "<u2").tolist() for _, box in boxes]
    assert delays == [50, 100, 100]
    assert places == [[0, 0, 60, 40], [20, 10, 5, 2], [0, 0, 1, 1]]


@pytest.mark.browser
def test_a_sentence_becomes_a_rule_and_its_alert_appears(browser):
    with voila() as (address, token):
        watched = Watched(browser, **PROJECTOR)
        page = watched.page
        page.goto(f"{address}/?token={token}")
        page.locator("button:has-text('Start')").click(timeout=LATER)
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
        page.close()
