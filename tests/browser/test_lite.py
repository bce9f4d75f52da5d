"""The static site of `make lite`: its lessons run to the end in a browser that reaches no other host. `make lite-test` runs this."""

import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from lab.teach.lessons import answers
from lab.teach.lite import notebooks
from tests.browser.jupyter import PATIENCE_MS

pytestmark = pytest.mark.browser
SITE = os.environ.get("LAB_LITE", "")
KERNEL = """jupyterapp.shell.currentWidget.sessionContext.ready
    .then(() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.info).then(() => true)"""
CELLS = "jupyterapp.shell.currentWidget.content.widgets.filter((cell) => cell.model.type === 'code')"
RUN = "jupyterapp.commands.execute('notebook:run-all-cells').then(() => true)"
OUTPUTS = f"{CELLS}.map((cell) => [cell.model.executionCount, cell.model.outputs.toJSON()])"
SOLVE = f"""(solutions) => {CELLS}.filter((cell) => (cell.model.getMetadata("tags") || []).includes("exercise"))
    .forEach((cell, n) => cell.model.sharedModel.setSource(solutions[n]))"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    if not SITE:
        pytest.skip("make lite-test builds the site and runs this")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def opened(browser: Browser, address: str) -> Iterator[Page]:
    """An empty page in a browser that lets nothing through to any other host."""
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    asked: list[str] = []

    def refuse(route) -> None:
        asked.append(route.request.url)
        route.abort()

    context.route(lambda url: not url.startswith((address, "blob:", "data:")), refuse)
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE_MS)
    yield opened
    context.close()
    assert asked == []


@pytest.mark.parametrize("name", [name for name, _ in notebooks()])
def test_a_lesson_with_its_solutions_runs_to_the_last_cell(opened, address, name):
    opened.goto(f"{address}/lab/index.html?path={name}")
    opened.wait_for_selector(".jp-Notebook .jp-Cell")
    assert opened.evaluate(KERNEL)
    lesson = name.partition("-")[0].lstrip("0") or "0"
    opened.evaluate(
        SOLVE,
        [code for exercise, code in answers()["solutions"].items() if exercise.partition(".")[0] == lesson],
    )
    assert opened.evaluate(RUN)
    cells = opened.evaluate(OUTPUTS)
    outputs = [output for _, given in cells for output in given]
    wrong = [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
    assert wrong == [] and all(number for number, _ in cells)
    verdicts = [
        text for o in outputs if (text := "".join(o.get("data", {}).get("text/plain", "")))[:1] in "✓…✗"
    ]
    assert [text for text in verdicts if text and text[0] != "✓"] == []
    if folder := os.environ.get("LAB_PICTURES"):
        opened.screenshot(path=Path(folder, f"lite-{lesson}.png"))
