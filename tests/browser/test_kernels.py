"""Pages of the control room that are left leave no kernel behind."""

import time
import urllib.error
import urllib.request

import psutil
import pytest
from playwright.sync_api import Page, expect

from tests.browser.jupyter import Watched, voila
from tests.browser.test_pages import LATER, PROJECTOR

pytestmark = pytest.mark.browser
SOON_S = 60  # a kernel that ends takes a second, on a busy machine more


def kernels() -> list[psutil.Process]:
    """The kernels of servers that this process started."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            found += [process] if any("ipykernel_launcher" in word for word in process.cmdline()) else []
        except psutil.NoSuchProcess:
            pass
    return found


def wait_for(count: int) -> list[psutil.Process]:
    deadline = time.monotonic() + SOON_S
    while len(there := kernels()) != count and time.monotonic() < deadline:
        time.sleep(0.2)
    assert len(there) == count
    return there


def visit(page: Page, address: str, token: str) -> None:
    page.goto(f"{address}/?token={token}")
    expect(page.locator("button:text-is('Start')")).to_be_visible(timeout=LATER)


def test_each_page_that_is_closed_or_loaded_again_ends_its_kernel(browser):
    with voila() as (address, token):
        wait_for(0)
        seen = set()
        for _ in range(3):
            watched = Watched(browser, **PROJECTOR)
            visit(watched.page, address, token)
            (kernel,) = wait_for(1)
            seen.add(kernel.pid)
            watched.page.reload()
            expect(watched.page.locator("button:text-is('Start')")).to_be_visible(timeout=LATER)
            (other,) = wait_for(1)
            seen.add(other.pid)
            watched.page.close(run_before_unload=True)
            wait_for(0)
            assert watched.errors == []
        assert len(seen) == 6


def test_no_other_site_can_end_a_kernel(browser):
    """What a page of another site can send has the browser's cookies of the login, at most, and not _xsrf twice."""
    with voila() as (address, token):
        watched = Watched(browser, **PROJECTOR)
        page = watched.page
        visit(page, address, token)
        kernel = page.evaluate(
            "JSON.parse(document.getElementById('jupyter-config-data').textContent).kernelId"
        )
        cookies = "; ".join(f"{one['name']}={one['value']}" for one in page.context.cookies())
        assert "_xsrf=" in cookies
        for form in (b"", b"_xsrf=", b"_xsrf=" + b"0" * 32):
            ask = urllib.request.Request(f"{address}/voila/api/shutdown/{kernel}", form, {"Cookie": cookies})
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(ask, timeout=30)
        wait_for(1)
        page.close()
