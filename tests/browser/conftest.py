"""One browser for all tests of a run, and the control room as one file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, Worker

from lab.page.build import whole_page
from tests.browser.jupyter import CHROMIUM, PATIENCE_MS, ROOT, chromium, lab


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, or none of these tests runs, which is said."""
    if CHROMIUM is None:
        pytest.skip("NO BROWSER TEST RAN: no Chromium here (apt install chromium)")
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def jupyter() -> Iterator[tuple[str, str]]:
    """A JupyterLab of the module's own: its address and its token."""
    with lab() as place:
        yield place


@pytest.fixture(scope="session")
def file(tmp_path_factory) -> Path:
    """The page as `make page` makes it."""
    made = tmp_path_factory.mktemp("page") / "control-room.html"
    made.write_text(whole_page(ROOT / "build" / "page"))
    return made


@pytest.fixture
def visit(browser: Browser, file: Path) -> Iterator[Callable[..., Page]]:
    """Opens the page from the disk, in a browser that lets nothing through to any host; takes what a context takes."""
    asked: list[str] = []
    errors: list[str] = []
    contexts = []

    def refuse(route: Route) -> None:
        asked.append(route.request.url)
        route.abort()

    def opened(**settings: Any) -> Page:
        context = browser.new_context(viewport={"width": 1366, "height": 768}, **settings)
        contexts.append(context)
        context.route(lambda url: not url.startswith(("file:", "blob:")), refuse)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.set_default_timeout(PATIENCE_MS)
        page.goto(file.as_uri())
        page.wait_for_selector(".lab-pulse.good")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert asked == [] and errors == []


@pytest.fixture
def engine(opened: Page) -> Worker:
    """The worker of the page, in which its Python and its engine are."""
    return opened.workers[0]


@pytest.fixture
def opened(visit: Callable[..., Page]) -> Page:
    """The page as it opens first."""
    return visit(locale="en-US")
