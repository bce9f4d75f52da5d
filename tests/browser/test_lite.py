"""The static site of `make lite`: its lessons run to the end in a browser that reaches no other host. `make lite-test` runs this."""

import json
import os
import re
import shutil
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from playwright.sync_api import Browser, Page

from lab.teach import lite
from lab.teach.lite import site_notebooks
from tests.browser.access import findings, of_lesson
from tests.browser.jupyter import CELLS, CODE_CELLS, KERNEL, PATIENCE_MS, run_solved

pytestmark = pytest.mark.browser
SITE = os.environ.get("LAB_LITE", "")
RUN_ONE = f"""(number) => {{
    const notebook = jupyterapp.shell.currentWidget.content;
    notebook.activeCellIndex = notebook.widgets.indexOf({CELLS}[number]);
    return jupyterapp.commands.execute("notebook:run-cell").then(() => true);
}}"""


RATE = 10_000_000 / 8  # bytes per second: 10 Mbit/s
FIRST_ANSWER_S = 30
RESTARTS = int(os.environ.get("LAB_RESTARTS", "3"))
RESTART = "jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class Keeping(Quiet):
    """Tells browsers to keep everything for ten minutes, as many hosts do."""

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "max-age=600")
        super().end_headers()


class Slow(Quiet):
    """Sends 10 Mbit/s in all, whoever asks."""

    lock, free, sent = threading.Lock(), 0.0, 0

    def copyfile(self, source, outputfile) -> None:
        while chunk := source.read(16 << 10):
            with Slow.lock:
                Slow.free = max(Slow.free, time.monotonic()) + len(chunk) / RATE
                Slow.sent += len(chunk)
                wait = Slow.free - time.monotonic()
            time.sleep(max(wait, 0))
            outputfile.write(chunk)


@contextmanager
def served(folder: str | Path, how: type[Quiet] = Quiet) -> Iterator[str]:
    """The address of a server of a folder."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(how, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    if not SITE:
        pytest.skip("make lite-test builds the site and runs this")
    with served(SITE) as address:
        yield address


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


@pytest.mark.parametrize("name", [name for name, _ in site_notebooks()])
def test_a_lesson_with_its_solutions_runs_to_the_last_cell(opened, address, name):
    lesson = Path(name).name.partition("-")[0].lstrip("0") or "0"
    open_lesson(opened, address, name)
    cells = run_solved(opened, lesson)
    outputs = [output for _, _, given in cells for output in given]
    assert [each for each in outputs if each.get("name") == "stderr"] == []
    assert of_lesson(opened) == []
    if folder := os.environ.get("LAB_PICTURES"):
        opened.screenshot(path=Path(folder, f"lite-{name.replace('/', '-')}.png"))


def run(page: Page, code: str) -> list[dict]:
    """Runs a lesson's first two cells, the second with other code, and returns what that gave."""
    page.evaluate(f"(code) => {CELLS}[1].model.sharedModel.setSource(code)", code)
    for number in (0, 1):
        assert page.evaluate(RUN_ONE, number)
    return page.evaluate(CODE_CELLS)[1][2]


def test_an_endless_loop_is_stopped_and_solved_exercises_outlive_the_page(opened, address):
    open_lesson(opened, address, "03-custom-windows.ipynb")
    endless = "def in_window(time, end, width):\n    while True:\n        pass\n"
    (verdict,) = run(opened, f'import lab\n{endless}\nlab.check_function("3.2", in_window)')
    assert "did not finish" in verdict["data"]["text/plain"]
    (verdict,) = run(opened, 'lab.check("3.4", 864)')
    assert verdict["data"]["text/plain"].startswith("✓")
    opened.goto(address)
    opened.get_by_role("link", name="0 · Start here").click()
    opened.wait_for_selector(".jp-Notebook .jp-Cell")
    assert opened.evaluate(KERNEL)
    (solved,) = run(opened, "import lab.teach.progress\nlab.teach.progress.solved_exercises()")
    assert solved["data"]["text/plain"] == "{'3.4'}"


def test_progress_is_saved_as_a_file_and_loaded_in_another_browser(browser, address, tmp_path):
    for solved in (True, False):
        page = browser.new_context().new_page()
        page.set_default_timeout(PATIENCE_MS)
        open_lesson(page, address, "03-custom-windows.ipynb")
        run(
            page,
            f'import lab\nlab.check("{"3.4" if solved else "3.5"}", {864 if solved else [4, 8]})\nlab.progress()',
        )
        if solved:
            with page.expect_download() as download:
                page.get_by_role("link", name="Save as a file").click()
            download.value.save_as(tmp_path / "progress.jsonl")
        else:
            with page.expect_file_chooser() as chosen:
                page.get_by_role("button", name="Load a file").click()
            chosen.value.set_files(tmp_path / "progress.jsonl")
            page.get_by_text("Solved exercises that are new here: 1.").wait_for()
            assert page.get_by_role("img", name=re.compile("^3.4 .*: solved")).count() == 1
        page.context.close()


def test_the_first_cell_answers_soon_on_a_slow_network(browser, address):
    """The time says something only on a machine that does nothing else; the bytes always do."""
    with served(SITE, Slow) as slow:
        page = browser.new_context().new_page()
        page.set_default_timeout(10 * PATIENCE_MS)
        began = time.monotonic()
        open_lesson(page, slow, "03-custom-windows.ipynb")
        for number in (0, 1):
            assert page.evaluate(RUN_ONE, number)
        seconds = time.monotonic() - began
        page.context.close()
    arrived = Slow.sent / RATE
    print(
        f"\n{Slow.sent / 1e6:.1f} MB, {arrived:.1f} s at 10 Mbit/s; the first cell's answer after {seconds:.1f} s"
    )
    assert arrived < 0.75 * FIRST_ANSWER_S
    assert seconds < FIRST_ANSWER_S or os.getloadavg()[0] > os.cpu_count()


def test_a_kernel_that_is_restarted_answers_every_time(opened, address):
    """LAB_RESTARTS=100 make lite-test ARGS="-s -k restarted": a hundred times."""
    open_lesson(opened, address, "03-custom-windows.ipynb")
    times = []
    for number in range(RESTARTS):
        began = time.monotonic()
        opened.evaluate(RESTART)
        assert opened.evaluate(KERNEL)
        assert run(opened, f"{number} + 1")[0]["data"]["text/plain"] == str(number + 1)
        times.append(time.monotonic() - began)
    print(
        f"\n{RESTARTS} restarts, each answered: median {statistics.median(times):.1f} s, slowest {max(times):.1f} s"
    )


def updated(site: Path) -> None:
    """Changes a page, a lesson and the kit's wheel, as the next build of a site does."""
    page, lesson = site / "lab" / "index.html", site / "files" / "03-custom-windows.ipynb"
    page.write_text(page.read_text().replace("WASM powered Jupyter", "The new page"))
    lesson.write_text(lesson.read_text().replace("3 · Custom windows", "3 · The new lesson"))
    pyodide = site / "static" / "pyodide"
    [wheel] = pyodide.glob("rules_lab-*.whl")
    old = wheel.rename(wheel.with_suffix(".old"))
    with ZipFile(old) as packed, ZipFile(wheel, "w", ZIP_DEFLATED) as new:
        for name in packed.namelist():
            is_changed = name == "lab/teach/recorded.py"
            new.writestr(name, packed.read(name) + b"NEW = 'the new kit'\n" * is_changed)
    lock = json.loads((pyodide / "pyodide-lock.json").read_text())
    (pyodide / "pyodide-lock.json").write_text(json.dumps(lock | {"packages": {}}))
    lite._write_lock_file(sorted(pyodide.glob("*.whl")), pyodide)


def test_after_an_update_of_the_site_nothing_old_is_shown(browser, address, tmp_path):
    site = Path(shutil.copytree(SITE, tmp_path / "site"))
    with served(site, Keeping) as keeping, browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        for is_new, lesson in ((False, "3 · Custom windows"), (True, "3 · The new lesson")):
            open_lesson(page, keeping, "03-custom-windows.ipynb")
            assert page.locator(".jp-Notebook h1").first.inner_text().startswith(lesson)
            answer = run(page, "import lab.teach.recorded\nhasattr(lab.teach.recorded, 'NEW')")
            assert answer[0]["data"]["text/plain"] == str(is_new)
            assert (
                "new page" in page.evaluate("document.querySelector('meta[name=Description]').content")
            ) == is_new
            if not is_new:
                time.sleep(1.1)  # a server compares whole seconds
                updated(site)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_first_page_can_be_read_by_everybody(opened, address, scheme):
    opened.emulate_media(color_scheme=scheme)
    opened.goto(address)
    assert findings(opened) == []
