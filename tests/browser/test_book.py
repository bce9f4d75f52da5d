"""The book in a browser, opened from disk as from a stick: nothing else is asked for, and axe-core finds nothing."""

import pytest
from playwright.sync_api import Browser, Page

from book.make import SITE
from tests.browser.access import findings
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.browser
PAGES = (
    "index",
    "notebooks/00-start-here",
    "notebooks/03-custom-windows",
    "docs/articles",
    "api/lab.model.rules",
    "search",
)


@pytest.fixture
def page(browser: Browser):
    if not (SITE / "index.html").exists():
        pytest.skip("THE BOOK WAS NOT TRIED: make book ARGS=--no-execute makes it")
    with browser.new_context(viewport={"width": 1366, "height": 768}) as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_S * 1_000)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: asked.append(str(error)))
        yield page
        assert [url for url in asked if not url.startswith((f"file://{SITE}", "data:", "blob:"))] == []


def show_all(page: Page) -> None:
    """Unfolds what is folded, and has every plot come into view."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for plot in page.query_selector_all(".book-plot"):
        plot.scroll_into_view_if_needed()
    page.wait_for_function(
        "[...document.querySelectorAll('.book-plot')].every((one) => one.querySelector('.main-svg'))"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_without_a_network_and_axe_finds_nothing(page, name, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto(f"file://{SITE}/{name}.html")
    show_all(page)
    assert findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_search_works_from_disk(page):
    page.goto(f"file://{SITE}/search.html?q=watermark")
    page.wait_for_selector("#search-results li a")
    assert "Glossary" in page.inner_text("#search-results")


def test_a_term_of_the_articles_leads_to_the_cell_where_it_is_shown(page):
    page.goto(f"file://{SITE}/docs/articles.html")
    page.click("text=lesson 3, Where the map lives")
    page.wait_for_url("**/notebooks/03-custom-windows.html#where-the-map-lives")
    assert page.is_visible("section#where-the-map-lives h3")
