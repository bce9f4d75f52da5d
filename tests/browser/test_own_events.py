"""One's own cells in a real browser: five megabytes of orders, from `lab infer` to a room, and a duel."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser import access
from tests.browser.jupyter import Watched, lab
from tests.orders import orders

pytestmark = pytest.mark.browser
RULE = "1,(active),(customer_id),,(amount),(SUM),(>),(6000),(60)"
CELLS = [
    "import sys\nimport lab",
    "!{sys.executable} -m lab infer orders.jsonl --out orders.toml",
    f"studio = lab.Studio('orders.toml', rate=2000, events='orders.jsonl', rules=['{RULE}'])\nlab.ControlRoom(studio)",
]

# its time stands still until there is a rule, and is over then
DUEL = "import lab\nroom = lab.DuelRoom(seconds=10, clock=lambda: 99 if room.duel.book.rules else 0)\nroom"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="module")
def server(folder):
    with lab(folder) as place:
        yield place


def write_notebook(file: Path, cells: Sequence[str]) -> None:
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    written = [cell | {"id": f"cell{number}", "source": source} for number, source in enumerate(cells)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    file.write_text(json.dumps({"cells": written, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}))


def test_from_own_events_to_the_room(browser, folder, server):
    lines = [f"{line}\n" for line in orders(18_000)]
    Path(folder, "orders.jsonl").write_text("".join(lines))
    assert Path(folder, "orders.jsonl").stat().st_size >= 5_000_000
    write_notebook(folder / "own.ipynb", CELLS)
    watched = Watched(browser)
    watched.open(*server, "own.ipynb")
    watched.run("Run All Cells", timeout_s=600)
    page = watched.page
    expect(page.get_by_text("10 fields from 18,000 records; id order_id, time placedAt (iso)")).to_be_visible(
        timeout=120_000
    )
    fired = page.locator(".lab-table tr:has-text('customer_id=')").first
    expect(fired).to_be_visible(timeout=120_000)
    expect(fired).to_contain_text("1 v1", timeout=120_000)
    rule = page.locator(".lab-table tr[data-key='1']").filter(has_text=re.compile("> 6,?000"))
    expect(rule.first).to_be_visible(timeout=120_000)
    assert watched.errors == [] and watched.elsewhere == []
    assert page.locator(".jp-OutputArea-output[data-mime-type*='error']").count() == 0
    page.close()


def test_a_round_of_a_duel_is_played_on_both_sides_and_judged(browser, folder, server):
    write_notebook(folder / "duel.ipynb", [DUEL])
    watched = Watched(browser, width=1366, height=768)
    watched.run_all(*server, "duel.ipynb")
    page = watched.page
    room = page.locator(".jp-OutputArea-output")
    room.locator("button:has-text('Start')").click()
    room.locator(".lab-table tr[data-key]").first.click()
    room.get_by_role("button", name="Pay").click()
    expect(room.locator(".lab-said.good:visible", has_text="paid")).to_be_visible(timeout=120_000)
    amount = room.get_by_label("amount")
    amount.fill("much")
    room.get_by_role("button", name="Pay").click()
    expect(room.get_by_text("The amount is no number, such as 500 or 12.50.")).to_be_visible(timeout=120_000)
    assert access.grave(page, access.OURS) == []
    room.get_by_role("tab", name="Defenders").click()
    room.get_by_role("tab", name="Text").click()
    room.locator("textarea:visible").first.fill("SUM(paymentAmount) per payeeId over 1 min > 1")
    room.locator("button:visible:has-text('Publish')").first.click()
    expect(room.get_by_text("accepted rule 1 version 1: ACTIVE")).to_be_visible(timeout=120_000)
    expect(room.get_by_text("The engine has judged the logs again: the same.")).to_be_visible(timeout=120_000)
    expect(room.get_by_text("500.00 stolen")).to_be_visible(timeout=120_000)
    expect(room.locator("button:has-text('Next round')")).to_be_enabled()
    room.get_by_role("button", name="Try").click()
    expect(room.get_by_text("With the other rules: 0.00 stolen")).to_be_visible(timeout=120_000)
    assert access.grave(page, access.OURS) == []
    assert watched.errors == [] and watched.elsewhere == []
    page.close()


def test_each_side_of_a_duel_has_a_window_of_its_own_and_thieves_see_no_rule(browser, folder, server):
    write_notebook(
        folder / "sides.ipynb",
        ["import lab\nroom = lab.DuelRoom(clock=lambda: 0)\nroom.thieves", "room.defenders"],
    )
    windows = [Watched(browser, width=1366, height=768) for _ in range(2)]
    windows[0].run_all(*server, "sides.ipynb")
    windows[0].page.evaluate("jupyterapp.commands.execute('docmanager:save').then(() => true)")
    address, token = server
    windows[1].page.goto(f"{address}/lab/workspaces/second/tree/sides.ipynb?token={token}")
    thieves = windows[0].page.locator(".jp-OutputArea-output").nth(0)
    defenders = windows[1].page.locator(".jp-OutputArea-output").nth(1)
    defenders.locator("button:has-text('Start')").click()
    thieves.locator(".lab-table tr[data-key]").first.click()
    for answer, draft in ((".good", "SUM(paymentAmount) per payeeId over 1 min > 1"), (".bad", "")):
        thieves.get_by_role("button", name="Pay").click()
        expect(thieves.locator(f".lab-said{answer}:visible")).to_be_visible(timeout=120_000)
        if draft:
            defenders.get_by_role("tab", name="Text").click()
            defenders.locator("textarea:visible").first.fill(draft)
            defenders.locator("button:visible:has-text('Publish')").first.click()
            expect(defenders.get_by_text("accepted rule 1 version 1: ACTIVE")).to_be_visible(timeout=120_000)
    expect(defenders.locator(".lab-table tr[data-key^='1']").first).to_be_visible()
    assert "rule" not in thieves.inner_text().replace("nothing of the rules", "")
    for each in windows:
        assert access.grave(each.page, access.OURS) == []
        assert each.errors == [] and each.elsewhere == []
        each.page.close()
