"""The room on an engine that runs elsewhere: a real `lab run` on file logs, with events of one's own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import expect

from lab.engine.loop.filelogs import FileLogs
from tests.browser.jupyter import ROOT, room
from tests.browser.test_pages import LATER, PROJECTOR, beside, nothing_went_wrong, panel

pytestmark = pytest.mark.browser
SCHEMA = """
name = "orders"
id = "order_id"
time = "placed"
[fields.order_id]
path = "order.id"
type = "string"
[fields.placed]
path = "order.placedAt"
type = "time"
unit = "iso"
[fields.amount]
path = "order.total.amount"
type = "decimal(18,2)"
[fields.customer]
path = "customer.id"
type = "long"
"""
RULE = {"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["customer"], "aggregateFieldName": "amount"}
RULE |= {"aggregatorFunctionType": "SUM", "limitOperatorType": ">", "limit": 100, "window": "10m"}
START_S = 300  # a busy machine


def orders(numbers: range) -> list[str]:
    """Orders of one customer, placed now."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    made = ({"id": f"A-{n}", "placedAt": now, "total": {"amount": 60.5}} for n in numbers)
    return [json.dumps({"order": order, "customer": {"id": 7}}) for order in made]


@pytest.fixture
def running(tmp_path) -> Iterator[FileLogs]:
    """Logs of an engine that runs as a user would start it."""
    logs, schema = FileLogs(tmp_path / "logs"), tmp_path / "orders.toml"
    schema.write_text(SCHEMA)
    logs.create()
    logs.log("control").append([json.dumps(RULE)])
    command = [sys.executable, "-m", "lab", "run", "--logs", str(logs.folder), "--schema", str(schema)]
    said = tmp_path / "said.txt"
    with said.open("w") as file:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        engine = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=file, stderr=subprocess.STDOUT
        )
        try:
            deadline = time.monotonic() + START_S
            while "Ctrl-C stops it" not in said.read_text():
                assert engine.poll() is None and time.monotonic() < deadline, said.read_text()
                time.sleep(0.2)
            yield logs
        finally:
            engine.send_signal(signal.SIGTERM)
            engine.wait(60)


def test_the_room_watches_and_steers_an_engine_on_own_events(browser, running, tmp_path):
    with room(browser, starts=False, **PROJECTOR) as watched:
        page = watched.page
        page.locator("button:has-text('Connect to a running engine')").click(timeout=LATER)
        where = page.get_by_label("logs")
        where.fill(str(tmp_path / "log"))
        page.locator("button:text-is('Connect')").click()
        expect(page.get_by_text("no such folder")).to_be_visible()
        assert not Path(tmp_path, "log").exists()
        where.fill(str(running.folder))
        page.locator("button:text-is('Connect')").click()
        expect(page.locator(".lab-pulse.good")).to_contain_text("and is idle: no events arrive")
        rule = panel(page, "Rules").locator("tr[data-key='1']")
        expect(rule).to_contain_text("SUM(amount) per customer over 10 min > 100")

        running.log("events").append(orders(range(3)))
        expect(page.locator(".lab-pulse.good")).to_contain_text("the engine runs elsewhere", timeout=LATER)
        expect(panel(page, "Alerts").locator("tr[data-key]").first).to_contain_text(
            "181.50 > 100", timeout=LATER
        )
        panel(page, "Rules").locator("button:has-text('New rule')").click()
        side = beside(page)
        side.get_by_role("tab", name="Text").click()
        side.locator("textarea").fill(json.dumps(RULE | {"ruleId": 2, "limit": 200}))
        side.locator("button:has-text('Publish')").click()
        expect(side.get_by_text("accepted rule 2 version 1: ACTIVE")).to_be_visible(timeout=LATER)
        running.log("events").append(orders(range(3, 5)))
        expect(panel(page, "Alerts").locator("tr:has-text('2 v1')").first).to_contain_text(
            "> 200", timeout=LATER
        )
        nothing_went_wrong(watched)
