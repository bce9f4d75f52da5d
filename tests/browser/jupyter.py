"""A JupyterLab or Voila server and a real Chromium, for tests and for the pictures of the README."""

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlparse

from playwright.sync_api import Browser, Page, TimeoutError, sync_playwright

from lab.machine import ports
from lab.teach.lessons import titles_solutions_and_predictions

ROOT = Path(__file__).parent.parent.parent
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
START_S = 60
PATIENCE_MS = 120_000  # a machine may be busy with other things
KERNEL = """jupyterapp.shell.currentWidget.sessionContext.ready
    .then(() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.info).then(() => true)"""
CELLS = "jupyterapp.shell.currentWidget.content.widgets.filter((cell) => cell.model.type === 'code')"
RUN = "jupyterapp.commands.execute('notebook:run-all-cells').then(() => true)"
CODE_CELLS = f"{CELLS}.map((cell) => [cell.model.executionCount, cell.model.getMetadata('tags') || [], cell.model.outputs.toJSON()])"
SOLVE = f"""(solutions) => {CELLS}.filter((cell) => (cell.model.getMetadata("tags") || []).includes("exercise"))
    .forEach((cell, n) => cell.model.sharedModel.setSource(solutions[n]))"""
PROMPTS = "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')]"
SETTINGS = {
    "notebook-extension/tracker": '{"windowingMode": "none"}',
    "docmanager-extension/plugin": '{"autosave": false}',  # the notebooks stay as they are
}
HARMLESS = (  # of the browser console; not about the page
    "Failed to load resource: the server responded with a status of 404",
    "favicon",
)


@contextmanager
def lab(folder_of_notebooks: Path = ROOT) -> Iterator[tuple[str, str]]:
    """JupyterLab as `make lab` starts it, or in another folder, with settings of its own: all cells are in the page, and nothing is saved."""
    with tempfile.TemporaryDirectory(prefix="lab-browser-") as folder:
        for plugin, text in SETTINGS.items():
            settings = Path(folder, "@jupyterlab", f"{plugin}.jupyterlab-settings")
            settings.parent.mkdir(parents=True, exist_ok=True)
            settings.write_text(text)
        command = [
            "jupyterlab",
            f"--ServerApp.root_dir={folder_of_notebooks}",
            "--ServerApp.ip=127.0.0.1",
            f"--LabApp.user_settings_dir={folder}",
            f"--LabApp.workspaces_dir={folder}/workspaces",
            "--LabApp.expose_app_in_browser=True",  # for the theme
        ]
        if os.getuid() == 0:
            command.append("--allow-root")
        with _server(command, "--IdentityProvider.token") as place:
            yield place


@contextmanager
def voila() -> Iterator[tuple[str, str]]:
    """The control room as `make room` starts it."""
    command = ("voila", "notebooks/control-room.ipynb", "--template=offline", "--Voila.ip=127.0.0.1")
    with _server(command, "--Voila.token") as place:
        yield place


@contextmanager
def _server(command: Sequence[str], token_option: str) -> Iterator[tuple[str, str]]:
    """Runs `python -m COMMAND …` on a free port of the loopback with a token; gives its address and the token."""
    port, token = ports.free_port(), secrets.token_hex(16)
    arguments = [f"{token_option}={token}", f"--port={port}", "--no-browser"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JUPYTER_PATH": str(ROOT / "notebooks")}
    process = subprocess.Popen(
        [sys.executable, "-m", *command, *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and process.poll() is None:
            try:  # for a page that there is, Voila would start a kernel
                urllib.request.urlopen(f"{address}/none?token={token}", timeout=5).close()
                break
            except HTTPError:
                break
            except (URLError, ConnectionError):
                time.sleep(0.2)
        else:
            raise RuntimeError(f"{' '.join(command)} did not start within {START_S} s")
        yield address, token
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


@contextmanager
def room(browser: Browser, starts: bool = True, theme: str = "", **window: Any) -> Iterator["Watched"]:
    """The control room in a page of its own, as `make room` serves it; with `starts`, its stream and engine are started."""
    with voila() as (address, token):
        watched = Watched(browser, **window)
        assert "login" in watched.page.goto(address).url
        watched.page.goto(f"{address}/?token={token}{theme and f'&theme={theme}'}")
        if starts:
            watched.page.locator("button:has-text('Start')").click()
        yield watched
        watched.page.close()


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window. Raises RuntimeError if there is none on this machine."""
    if CHROMIUM is None:
        raise RuntimeError("no Chromium here: apt install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def run_solved(page: Page, lesson: str) -> list[Any]:
    """Solves the exercises of the lesson that is open and runs all its cells: their numbers, tags and outputs. Every check says right."""
    solved = titles_solutions_and_predictions()["solutions"]
    solutions = [code for exercise, code in solved.items() if exercise.startswith(f"{lesson}.")]
    assert page.evaluate(KERNEL)
    page.evaluate(SOLVE, solutions)
    assert page.evaluate(RUN)
    cells = page.evaluate(CODE_CELLS)
    assert all(number for number, _, _ in cells)
    assert [each for _, _, given in cells for each in given if each["output_type"] == "error"] == []
    verdicts = [given[-1]["data"]["text/plain"] for _, tags, given in cells if "check" in tags]
    assert len(verdicts) == len(solutions)
    # a verdict that was recorded is its HTML
    assert [text for text in verdicts if not text.startswith(("✓", "<IPython.core.display.HTML"))] == []
    return cells


class Watched:
    """A page, what its console said, and where its requests went."""

    def __init__(self, browser: Browser, dark: bool = False, width: int = 1600, height: int = 1000):
        scheme: Any = "dark" if dark else "light"
        self.page: Page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.page.set_default_timeout(PATIENCE_MS)
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on("console", lambda message: self._said(message.type, message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url))

    def _said(self, kind: str, text: str) -> None:
        if kind == "error" and not any(part in text for part in HARMLESS):
            self.errors.append(text)

    def _asked(self, url: str) -> None:
        if urlparse(url).hostname not in ("127.0.0.1", "localhost", None):
            self.elsewhere.append(url)

    def open(self, address: str, token: str, notebook: str) -> None:
        """Opens a notebook in JupyterLab and waits for its kernel."""
        self.page.goto(f"{address}/lab/tree/{notebook}?token={token}&reset")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
        self.page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status='idle']", timeout=60_000)

    def run(self, menu: str, timeout_s: float = 180) -> None:
        """Chooses an entry of the menu *Run* and waits until no cell runs any more."""
        page = self.page
        for _ in range(10):  # the kernel says that it is idle a little before it takes anything
            self._choose_kernel()
            with suppress(TimeoutError):  # it may be asked for a moment later
                page.get_by_role("menuitem", name="Run", exact=True).click(timeout=15_000)
                page.get_by_role("menuitem", name=menu, exact=True).click(timeout=15_000)
                page.wait_for_function(
                    f"() => {PROMPTS}.some(p => /[*0-9]/.test(p.textContent))", timeout=4_000
                )
                break
        page.wait_for_function(
            f"() => {PROMPTS}.every(p => !p.textContent.includes('*')) &&"
            " document.querySelector('.jp-Notebook-ExecutionIndicator').dataset.status === 'idle'",
            timeout=timeout_s * 1000,
        )

    def _choose_kernel(self) -> None:
        """Answers JupyterLab, which asks for a kernel if a busy machine has not started one yet."""
        if (select := self.page.locator(".jp-Dialog button", has_text="Select").last).is_visible():
            select.click()
            self.page.wait_for_timeout(2_000)

    def run_all(self, address: str, token: str, notebook: str, timeout_s: float = 180) -> None:
        """Opens a notebook, and runs all its cells; each has a number then."""
        self.open(address, token, notebook)
        self.run("Run All Cells", timeout_s)
        # a kernel is idle for a moment between two cells, too
        self.page.wait_for_function(
            f"() => {PROMPTS}.every(p => /[0-9]/.test(p.textContent))", timeout=timeout_s * 1000
        )

    def run_up_to(self, text: str) -> None:
        """Runs the cells up to the one that holds a text, and that one."""
        cell = self.page.locator(f".jp-CodeCell:has-text('{text}')").first
        cell.locator(".cm-content").click()
        self.run("Run All Above Selected Cell")
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
