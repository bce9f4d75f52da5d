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
CODE_CELLS = f"{CELLS}.map((cell) => [cell.model.executionCount, cell.model.getMetadata('tags') || [], cell.model.outputs.toJSON()])"
RUN_ONE = f"""(number) => {{
    const notebook = jupyterapp.shell.currentWidget.content;
    notebook.activeCellIndex = notebook.widgets.indexOf({CELLS}[number]);
    return jupyterapp.commands.execute("notebook:run-cell").then(() => true);
}}"""
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


def open_lesson(page: Page, address: str, name: str) -> None:
    page.goto(f"{address}/lab/index.html?path={name}")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    assert page.evaluate(KERNEL)


@pytest.mark.parametrize("name", [name for name, _ in notebooks()])
def test_a_lesson_with_its_solutions_runs_to_the_last_cell(opened, address, name):
    lesson = Path(name).name.partition("-")[0].lstrip("0") or "0"
    solutions = [
        code for exercise, code in answers()["solutions"].items() if exercise.startswith(f"{lesson}.")
    ]
    open_lesson(opened, address, name)
    opened.evaluate(SOLVE, solutions)
    assert opened.evaluate(RUN)
    cells = opened.evaluate(CODE_CELLS)
    outputs = [output for _, _, given in cells for output in given]
    wrong = [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
    assert wrong == [] and all(number for number, _, _ in cells)
    verdicts = [given[-1]["data"]["text/plain"] for _, tags, given in cells if "check" in tags]
    assert len(verdicts) == len(solutions)
    assert [text for text in verdicts if not text.startswith(("✓", "<IPython.core.display.HTML"))] == []
    if folder := os.environ.get("LAB_PICTURES"):
        opened.screenshot(path=Path(folder, f"lite-{name.replace('/', '-')}.png"))


def test_an_endless_loop_is_stopped_and_solved_exercises_outlive_the_page(opened, address):
    def run(code: str) -> list[dict]:
        """Runs a lesson's first two cells, the second with other code, and returns what that gave."""
        opened.evaluate(f"(code) => {CELLS}[1].model.sharedModel.setSource(code)", code)
        for number in (0, 1):
            assert opened.evaluate(RUN_ONE, number)
        return opened.evaluate(CODE_CELLS)[1][2]

    open_lesson(opened, address, "03-custom-windows.ipynb")
    endless = "def in_window(time, end, width):\n    while True:\n        pass\n"
    (verdict,) = run(f'import lab\n{endless}\nlab.check_function("3.2", in_window)')
    assert "did not finish" in verdict["data"]["text/plain"]
    (verdict,) = run('lab.check("3.4", 864)')
    assert verdict["data"]["text/plain"].startswith("✓")
    opened.goto(address)
    opened.get_by_role("link", name="0 · Start here").click()
    opened.wait_for_selector(".jp-Notebook .jp-Cell")
    assert opened.evaluate(KERNEL)
    (solved,) = run("import lab.teach.progress\nlab.teach.progress.solved()")
    assert solved["data"]["text/plain"] == "{'3.4'}"
