"""One browser for all tests of a run."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.jupyter import CHROMIUM, chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, or none of these tests runs, which is said."""
    if CHROMIUM is None:
        pytest.skip("NO BROWSER TEST RAN: no Chromium here (apt install chromium)")
    with chromium() as browser:
        yield browser
