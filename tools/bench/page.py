"""The control room as one HTML file, measured in Chromium: its size, how soon it is usable, its rate, its memory while it runs.

    python -m tools.bench.page --minutes 10

The page comes from a local server, packed by gzip, over a network throttled to 10 Mbit/s, and then from the disk.
"""

import argparse
import csv
import gzip
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Browser, Page

from lab.page.build import whole_page
from lab.stream.logins import labelled_logins
from lab.stream.simulate import to_json
from tests.browser.jupyter import ROOT, chromium

MBIT_PER_S, LATENCY_MS = 10, 20
RATE_S = 10
MORE_RULES = (
    "5: AVG(paymentAmount) per payeeId over 10 s > 1000",
    "6: MAX(paymentAmount) per beneficiaryId over 10 s > 1000000",
    "7: UNIQUE_COUNT(beneficiaryId) per payeeId over 10 s >= 4",
)
LOGINS, OWN = 300_000, 100_000
OWN_RULES = (  # over fields with names that no data set has
    "1: COUNT(events) per card over 1 min >= 5",
    "2: COUNT(events) per host over 1 h >= 40",
    "3: UNIQUE_COUNT(card) per host over 10 min >= 6",
    "4: SUM(price) per card over 1 d > 900",
)
USABLE = "#facts > :nth-child(2) > b:not(:text-is('0'))"  # events evaluated
SINCE_FIRST_BYTE = "performance.now() - performance.getEntriesByType('navigation')[0].responseStart"


@contextmanager
def served(text: bytes) -> Iterator[str]:
    """The address of a server on this machine that has the page, packed by gzip."""
    packed = gzip.compress(text)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            for name, value in (
                ("Type", "text/html; charset=utf-8"),
                ("Encoding", "gzip"),
                ("Length", str(len(packed))),
            ):
                self.send_header(f"Content-{name}", value)
            self.end_headers()
            self.wfile.write(packed)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


def usable_after(browser: Browser, address: str, throttled: bool) -> float:
    """Seconds from the first byte of the page until its engine has evaluated events."""
    opened = browser.new_page()
    if throttled:
        network = opened.context.new_cdp_session(opened)
        network.send("Network.enable")
        speed = MBIT_PER_S * 1e6 / 8
        limits = {
            "offline": False,
            "latency": LATENCY_MS,
            "downloadThroughput": speed,
            "uploadThroughput": speed,
        }
        network.send("Network.emulateNetworkConditions", limits)
    opened.goto(address, wait_until="commit")
    opened.wait_for_selector(USABLE)
    took = opened.evaluate(SINCE_FIRST_BYTE) / 1000
    opened.close()
    return took


def rate(opened: Page, seconds: float = RATE_S) -> tuple[float, float]:
    """Events per second as fast as it goes: what the page's counter says on average, and what it evaluated by the clock."""
    opened.click("#fast")
    opened.wait_for_timeout(2_000)
    said, (began, before) = [], (time.perf_counter(), evaluated(opened))
    while time.perf_counter() < began + seconds:
        opened.wait_for_timeout(500)
        said.append(opened.evaluate("room.report.perSecond"))
    by_clock = (evaluated(opened) - before) / (time.perf_counter() - began)
    opened.click("#fast")
    return sum(said) / len(said), by_clock


def rate_of_logins(opened: Page, logins: Path) -> tuple[float, float]:
    """The same of a file of logins with the rules of the data set, read and evaluated from its beginning to its end."""
    opened.set_input_files("#file", logins)
    opened.click("text=Play them")
    wait_until(opened, "room.source.file && room.report?.perSecond")
    said, (began, before) = [], (time.perf_counter(), evaluated(opened))
    while not opened.evaluate("room.report.ended"):
        said.append(opened.evaluate("room.report.perSecond"))
        opened.wait_for_timeout(100)
    by_clock = (evaluated(opened) - before) / (time.perf_counter() - began)
    opened.click("#back")
    opened.wait_for_selector(USABLE)
    return statistics.mean(said), by_clock


def own_events(folder: Path) -> dict[str, Path]:
    """Files of the same events, whose fields the page finds by itself: as CSV, and as JSON with objects in objects."""
    names = ("number", "at", "card", "kind", "host", "shop", "land", "price")
    events = [
        dict(zip(names, json.loads(to_json(event)).values()))
        for event, _ in labelled_logins(seed=2, events=OWN)
    ]
    outer = [
        {"number": e["number"], "at": e["at"], "who": {"is": {"card": e["card"]}}}
        | {"what": dict(list(e.items())[3:])}
        for e in events
    ]
    files = {name: folder / f"own.{name.replace(' ', '-')}" for name in ("CSV", "nested JSON")}
    files["nested JSON"].write_text("\n".join(map(json.dumps, outer)))
    with files["CSV"].open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(events)
    return files


def rate_of_own(opened: Page, file: Path) -> float:
    """Events per second of such a file, from the first to the last by the clock; its rules come while the first are read."""
    opened.set_input_files("#file", file)
    opened.click("text=Play them")
    began = time.perf_counter()
    wait_until(opened, "room.source.file && room.report")
    names = opened.evaluate("room.source.schema.fields.map((field) => field.name)")
    for rule in OWN_RULES:
        for field in ("card", "host", "price"):
            rule = rule.replace(field, next(name for name in names if name.endswith(field)))
        opened.evaluate("(text) => send({ kind: 'control', text })", rule)
    wait_until(opened, "room.report.ended")
    per_second = OWN / (time.perf_counter() - began)
    counts = opened.evaluate("room.report.counts")
    assert counts["records"] == OWN and counts["deadLetters"] == 0 and counts["routed"] > OWN / 10
    opened.click("#back")
    opened.wait_for_selector(USABLE)
    return per_second


def show_own(opened: Page, folder: Path, repeats: int) -> None:
    for name, file in own_events(folder).items():
        per_second = statistics.median(rate_of_own(opened, file) for _ in range(repeats))
        print(
            f"own events as {name}, {len(OWN_RULES)} rules: {per_second:,.0f} events/s by the clock",
            flush=True,
        )


def wait_until(opened: Page, condition: str) -> None:
    while not opened.evaluate(f"Boolean({condition})"):
        opened.wait_for_timeout(20)


def evaluated(opened: Page) -> int:
    return opened.evaluate("room.report.counts.records")


def show_rates(opened: Page, logins: Path, repeats: int) -> None:
    """Medians of events per second: payments with the page's rules, with three more, and logins."""
    opened.locator("input[type=range]").press("End")
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(repeats):
        found.setdefault("payments, 4 rules", []).append(rate(opened))
        for rule in MORE_RULES:
            opened.evaluate("(text) => send({ kind: 'control', text })", rule)
        found.setdefault("payments, 7 rules", []).append(rate(opened))
        found.setdefault("logins from a file, 6 rules", []).append(rate_of_logins(opened, logins))
        opened.locator("input[type=range]").press("End")
    for name, rates in found.items():
        said, by_clock = map(statistics.median, zip(*rates))
        print(f"{name}: {said:,.0f} events/s by its counter, {by_clock:,.0f} by the clock", flush=True)


def memory(opened: Page) -> tuple[float, float, float]:
    """MB: of the page's own objects after a collection, of the engine, and of the browser's processes that run pages."""
    wait_until(opened, "room.report")  # the engine has just begun anew
    session = opened.context.new_cdp_session(opened)
    session.send("HeapProfiler.collectGarbage")
    heap = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return heap / 1e6, opened.evaluate("room.report.bytes") / 1e6, resident_of_renderers() / 1e6


def resident_of_renderers() -> int:
    """Bytes of the processes below this one in which Chromium runs pages."""
    parents, pages = {}, set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
            if b"--type=renderer" in (status.parent / "cmdline").read_bytes():
                pages.add(int(status.parent.name))
        except OSError:
            continue

    def is_ours(process: int) -> bool:
        return process == os.getpid() or (process in parents and is_ours(parents[process]))

    sizes = [int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in pages if is_ours(each)]
    return sum(sizes) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--minutes", type=int, default=10)
    options.add_argument("--repeats", type=int, default=3)
    given = options.parse_args()
    minutes = given.minutes
    text = whole_page(ROOT / "build" / "page").encode()
    print(f"size: {len(text):,} bytes, {len(gzip.compress(text)):,} as gzip", flush=True)
    with tempfile.TemporaryDirectory() as folder, served(text) as address, chromium() as browser:
        file = Path(folder) / "control-room.html"
        file.write_bytes(text)
        print(
            f"usable after the first byte at {MBIT_PER_S} Mbit/s: {usable_after(browser, address, True):.2f} s",
            flush=True,
        )
        print(f"usable from the disk: {usable_after(browser, file.as_uri(), False):.2f} s", flush=True)
        logins = Path(folder) / "logins.jsonl"
        logins.write_text("\n".join(to_json(event) for event, _ in labelled_logins(seed=2, events=LOGINS)))
        opened = browser.new_page()
        opened.goto(file.as_uri())
        opened.wait_for_selector(USABLE)
        show_rates(opened, logins, given.repeats)
        show_own(opened, Path(folder), given.repeats)
        opened.locator("input[type=range]").press("End")
        for minute in range(minutes + 1):
            if minute in (0, 1, 5, minutes):
                heap, engine, resident = memory(opened)
                said, by_clock = rate(opened)
                print(
                    f"minute {minute}: {heap:.1f} MB of JavaScript, {engine:.1f} MB of the engine, {resident:.0f} MB resident; "
                    f"as fast as it goes {said:,.0f} events/s by its counter, {by_clock:,.0f} by the clock",
                    flush=True,
                )
            if minute < minutes:
                opened.wait_for_timeout(60_000)


if __name__ == "__main__":
    main()
