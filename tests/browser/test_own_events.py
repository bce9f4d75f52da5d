"""Five megabytes of one's own orders, from `lab infer` to a room in a real browser."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.jupyter import Watched, lab
from tests.orders import orders

pytestmark = pytest.mark.browser
RULE = "1,(active),(customer_id),,(amount),(SUM),(>),(6000),(60)"
CELLS = [
    "import sys\nimport lab",
    "!{sys.executable} -m lab infer orders.jsonl --out orders.toml",
    f"studio = lab.Studio('orders.toml', rate=2000, events='orders.jsonl', rules=['{RULE}'])\nlab.ControlRoom(studio)",
]


def test_from_own_events_to_the_room(browser, tmp_path):
    lines = [f"{line}\n" for line in orders(18_000)]
    Path(tmp_path, "orders.jsonl").write_text("".join(lines))
    assert Path(tmp_path, "orders.jsonl").stat().st_size >= 5_000_000
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = [cell | {"id": f"cell{number}", "source": source} for number, source in enumerate(CELLS)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    Path(tmp_path, "own.ipynb").write_text(json.dumps(notebook))
    with lab(tmp_path) as (address, token):
        watched = Watched(browser)
        watched.open(address, token, "own.ipynb")
        watched.run("Run All Cells", timeout_s=600)
        page = watched.page
        expect(
            page.get_by_text("10 fields from 18,000 records; id order_id, time placedAt (iso)")
        ).to_be_visible(timeout=120_000)
        fired = page.locator(".lab-table tr:has-text('customer_id=')").first
        expect(fired).to_be_visible(timeout=120_000)
        expect(fired).to_contain_text("1 v1", timeout=120_000)
        rule = page.locator(".lab-table tr[data-key='1']").filter(has_text=re.compile("> 6,?000"))
        expect(rule.first).to_be_visible(timeout=120_000)
        assert watched.errors == [] and watched.elsewhere == []
        assert page.locator(".jp-OutputArea-output[data-mime-type*='error']").count() == 0
