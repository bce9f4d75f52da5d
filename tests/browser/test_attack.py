"""Lesson 9 in a real browser: what an attack finds is drawn, an engine is killed by hand, and what is solved is kept."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.jupyter import Watched, lab

pytestmark = pytest.mark.browser
WIDTH, HEIGHT = 1366, 768
LATER = 60_000  # ms
WINDOW = """def window(memory, event, width, late):
    memory.append(event)
    return [old for old in memory if event.time - width <= old.time <= event.time]
"""


@pytest.fixture
def page(browser, monkeypatch, tmp_path) -> Iterator[Page]:
    """Lesson 9 for someone who has solved nothing yet."""
    monkeypatch.setenv("LAB_DATA", str(tmp_path))
    with lab() as place:
        watched = Watched(browser, width=WIDTH, height=HEIGHT)
        watched.open(*place, "notebooks/09-attack-my-engine.ipynb")
        watched.run("Run All Cells")
        yield watched.page
        assert watched.errors == [] and watched.elsewhere == []
        watched.page.close()


def type_over(page: Page, cell: str, typed: str) -> None:
    """An answer in place of a stub; runs it and the check below."""
    page.locator(f".jp-CodeCell:has-text('{cell}')").first.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(typed)
    for _ in range(2):
        page.keyboard.press("Shift+Enter")


def test_a_mistake_is_drawn_the_engine_is_killed_and_what_is_solved_is_kept(page, tmp_path: Path):
    type_over(page, "def window(", WINDOW)
    check = page.locator(".jp-CodeCell:has-text('lab.check_function(\"9.2\"')").first
    expect(check.locator("[role='status']")).to_contain_text("a arrives again", timeout=LATER)
    expect(check.locator("svg[role='img']")).to_contain_text("a: a duplicate")

    page.locator(".jp-CodeCell:has-text('lab.FaultRoom')").first.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    room = page.locator(".jp-OutputArea-output:has(button:has-text('Kill'))").last
    for button in ("Send 4 payments", "Step", "Step", "Step", "Kill"):
        room.locator(f"button:has-text('{button}')").click(timeout=LATER)
    expect(room.locator(".lab-story")).to_contain_text("finds offsets/0 without commits/0", timeout=LATER)
    room.locator("button:has-text('Whole batch')").click()
    expect(room.locator(".lab-story")).to_contain_text("takes none twice", timeout=LATER)
    expect(room.locator(".lab-said.good")).to_contain_text("Nothing lost, nothing twice: 4 records")
    box = room.bounding_box()
    assert box and box["height"] < HEIGHT

    answer = 'answer = {"cut": False, "evaluate": True, "deliver": True, "commit": True}'
    type_over(page, '"deliver": ...', answer)
    board = page.locator(".jp-CodeCell:has-text('lab.progress(9)')").last
    expect(board.locator("[aria-label='solved']")).to_have_count(1, timeout=LATER)
    kept = [json.loads(line)["exercise"] for line in (tmp_path / "solved.jsonl").read_text().splitlines()]
    assert kept == ["9.4"]
