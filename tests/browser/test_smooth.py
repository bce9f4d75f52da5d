"""A room in which a hundred alerts come each second, for minutes: what the page and the kernel need.

`make smooth` runs it for ten minutes and prints what it measured; LAB_SMOOTH_MINUTES=2 less.
"""

import os
import time
from statistics import median

import psutil
import pytest
from playwright.sync_api import CDPSession, Page, expect

from tests.browser.jupyter import room
from tests.browser.test_pages import LATER, PROJECTOR, beside, panel

MINUTES = float(os.environ.get("LAB_SMOOTH_MINUTES", "10"))
RULE = "90,(active),(payeeId),,(paymentAmount),(SUM),(>),(0),(1)"  # every payment alerts
WATCH = """() => {
  window.frames = []; let last = performance.now();
  const tick = (now) => { window.frames.push(now - last); last = now; requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
}"""
TAKE = "() => window.frames.splice(0)"


def children_cpu_s(process: psutil.Process) -> dict[str, float]:
    """CPU time so far, s: the kernel's, and that of Chromium's pages."""
    spent = {"kernel": 0.0, "page": 0.0}
    for child in process.children(recursive=True):
        try:
            command, times = " ".join(child.cmdline()), child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        name = "kernel" if "ipykernel_launcher" in command else "page" if "--type=renderer" in command else ""
        if name:
            spent[name] += times.user + times.system
    return spent


def heap_mb(session: CDPSession) -> float:
    session.send("HeapProfiler.collectGarbage")
    return session.send("Runtime.getHeapUsage")["usedSize"] / 1e6


def a_hundred_alerts_a_second(page: Page) -> None:
    """Every payment alerts, and there are a hundred a second; the panel beside stays open."""
    page.locator("button:has-text('Start')").click(timeout=LATER)
    expect(page.locator(".lab-pulse.good")).to_be_visible(timeout=LATER)
    rate = panel(page, "Stream").locator(".lab-slider input")
    rate.focus()
    rate.press("ArrowLeft")  # 200 -> 100
    expect(panel(page, "Stream").locator(".lab-slider output")).to_have_text("100")
    panel(page, "Rules").locator("button:has-text('New rule')").click()
    beside(page).get_by_role("tab", name="Text").click()
    beside(page).locator("textarea").fill(RULE)
    beside(page).locator("button:has-text('Publish')").click()
    expect(panel(page, "Rules").locator("tr[data-key='90']")).to_be_visible(timeout=LATER)


@pytest.mark.soak
def test_the_room_stays_smooth_and_small_at_a_hundred_alerts_a_second(browser):
    me = psutil.Process()
    with room(browser, starts=False, **PROJECTOR) as watched:
        page = watched.page
        a_hundred_alerts_a_second(page)
        session = page.context.new_cdp_session(page)
        page.evaluate(WATCH)
        before, began, heaps = children_cpu_s(me), time.monotonic(), [heap_mb(session)]
        frames: list[float] = []
        while (passed := time.monotonic() - began) < MINUTES * 60:
            time.sleep(10)
            frames += page.evaluate(TAKE)
            heaps.append(heap_mb(session))
        cpu = {name: (s - before[name]) / passed for name, s in children_cpu_s(me).items()}
        alerts = panel(page, "Alerts").get_by_text("alerts").last.inner_text()
        nodes = page.evaluate("document.querySelectorAll('*').length")
        late = sum(frame > 100 for frame in frames)
        tenth = max(len(heaps) // 10, 1)
        first, last = median(heaps[1 : 1 + 2 * tenth]), median(heaps[-2 * tenth :])
        print(
            f"\n{passed:.0f} s, {alerts}: heap of the page {first:.0f} MB at first, {last:.0f} MB at last; {nodes:,} elements; "
            f"{len(frames):,} frames, median {median(frames):.0f} ms, {late:,} above 100 ms (longest {max(frames):.0f} ms); "
            f"CPU: kernel with its engine {cpu['kernel']:.0%}, page {cpu['page']:.0%} of a core; load {os.getloadavg()[0]:.0f}"
        )
        assert watched.errors == []
        assert last < first * 1.5 + 10, heaps  # nothing piles up
        assert nodes < 6_000
