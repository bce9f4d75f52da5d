"""Measures questions about events that have not happened, beside an engine: `python -m tools.bench.would`.

Generator, engine, `lab restrict serve --would` and the client are processes of their own. Seconds with questions and without take
turns while events flow, so both see the same machine. A question is a request over HTTP, at a steady rate on connections that stay
open; it takes from when its time has come, also while all connections wait for answers.
"""

import argparse
import json
import os
import re
import select
import socket
import time
from collections.abc import Sequence
from contextlib import closing

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from lab.machine.ports import free_port
from lab.model.alerts import parse_alert_line
from lab.model.times import now_ms
from lab.restrict.client import HOST
from lab.restrict.tokens import VARIABLE, new_token
from tests.waiting import wait_until
from tools.bench.live import TIMED_RULES, cpu_busy, engine, payments, process

TARGET_MS = 5  # p99 of a question
ALERTS_MORE = 0.1  # by which alerts may take longer beside questions
CONNECTIONS = 8
FIRST_ID = 10**12  # the generator's payments have smaller ids


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.would", description=__doc__.split(": `")[0])
    parser.add_argument("--rate", type=int, default=500, metavar="N", help="events/s (500)")
    parser.add_argument("--questions", type=int, default=1000, metavar="N", help="a second (1000)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="with and without questions (5)")
    parser.add_argument("--seconds", type=int, default=20, metavar="N", help="of each half of a round (20)")
    parser.add_argument("--warm-up", type=int, default=45, metavar="N", help="seconds (45)")
    parser.add_argument("--folders", action="store_true", help="logs in folders, not in topics")
    options = parser.parse_args()
    os.environ[VARIABLE] = new_token()
    with (
        engine(TIMED_RULES, "--parallelism", "1", folders=options.folders) as logs,
        payments(logs, options.rate),
        closing(Asking(f"{logs.log('events')!r}".rsplit("/", 1)[0])) as asking,
    ):
        busy, began = cpu_busy(), time.monotonic()
        asking.wait_until_ready()
        asking.ask_for(options.warm_up, options.questions)
        asking.took.clear()
        cpu_before, asked = asking.cpu_s(), 0
        alerts: dict[bool, list[int]] = {True: [], False: []}
        cpu = 0.0
        for number in range(2 * options.rounds):
            is_asked = number % 2 == 0
            with closing(logs.log("alerts").tail(new=True)) as new:
                cpu_before = asking.cpu_s()
                if is_asked:
                    asked += asking.ask_for(options.seconds, options.questions)
                    cpu += asking.cpu_s() - cpu_before
                else:
                    time.sleep(options.seconds)
                    cpu -= asking.cpu_s() - cpu_before  # it follows the engine anyway
                alerts[is_asked] += [
                    record.log_time_ms - alert.log_time
                    for record in new.records()
                    if (alert := parse_alert_line(record.line)).log_time
                ]
        share = (cpu_busy() - busy) / (time.monotonic() - began) / (os.cpu_count() or 1)
    console = Console(width=None if Console().is_terminal else 100, highlight=False)
    report(console, asking, alerts, 1000 * cpu / max(asked, 1), options)
    console.print(
        f"CPUs busy {100 * share:.0f} %, load {os.getloadavg()[0]:.1f}, what else runs here included"
    )


def report(
    console: Console,
    asking: "Asking",
    alerts: dict[bool, list[int]],
    cpu_ms: float,
    options: argparse.Namespace,
) -> None:
    """Prints the percentiles, and how they stand to the targets."""
    table = Table("ms", "count", "p50", "p90", "p99", "longest")
    rows: dict[str, Sequence[float]] = {
        "a question": asking.took,
        "an alert, beside questions": alerts[True],
        "an alert, without": alerts[False],
    }
    for name, took in rows.items():
        shown = (f"{value:,.1f}" for value in np.percentile(took, (50, 90, 99, 100)))
        table.add_row(name, f"{len(took):,}", *shown)
    console.print(f"{options.rate:,} events/s, {options.questions:,} questions/s asked for")
    console.print(table)
    p99 = np.percentile(asking.took, 99)
    console.print(f"question p99 {p99:.1f} ms: {'met' if p99 <= TARGET_MS else 'NOT MET'} {TARGET_MS} ms")
    beside, without = (np.mean(alerts[which]) for which in (True, False))
    met = "met" if beside <= without * (1 + ALERTS_MORE) else "NOT MET"
    console.print(
        f"alerts take {100 * (beside / without - 1):+.0f} % on average: {met} +{100 * ALERTS_MORE:.0f} %"
    )
    console.print(
        f"the service took {cpu_ms:.2f} ms of CPU for a question; {asking.refused:,} refused, {asking.old:,} too old"
    )


class Asking:
    """A client, and the service that it asks. `took`: ms of each question; `old`: how many answers were 503."""

    def __init__(self, logs: str):
        self._port = free_port()
        self._running = process(
            "-m", "lab", "restrict", "serve", "--would", "--logs", logs, "--port", str(self._port)
        )
        self._service = psutil.Process(self._running.__enter__().pid)
        self._connections = list[socket.socket]()
        self.took, self.refused, self.old, self._number = list[float](), 0, 0, FIRST_ID

    def wait_until_ready(self) -> None:
        """Waits until it has caught up with the engine."""

        def judges() -> bool:
            try:
                with socket.create_connection((HOST, self._port)) as connection:
                    connection.sendall(self._question())
                    return self._read_answer(connection) == 200
            except OSError:
                return False

        wait_until(judges, alive=self._service.is_running)
        self._connections = [socket.create_connection((HOST, self._port)) for _ in range(CONNECTIONS)]

    def ask_for(self, seconds: float, rate: int) -> int:
        """Asks so often for some seconds; returns how often."""
        began, count, asked = time.monotonic(), round(seconds * rate), 0
        free, due = [*self._connections], dict[socket.socket, float]()
        while asked < count or due:
            next_s = began + asked / rate - time.monotonic() if asked < count and free else 1.0
            if next_s <= 0:
                connection = free.pop()
                connection.sendall(self._question())
                due[connection] = began + asked / rate
                asked += 1
                continue
            for connection in select.select([*due], [], [], next_s)[0]:
                self._read_answer(connection)
                self.took.append(1000 * (time.monotonic() - due.pop(connection)))
                free.append(connection)
        return asked

    def _question(self) -> bytes:
        self._number += 1
        number, payment = self._number, {"paymentType": "CSH", "paymentAmount": 12.5, "eventTime": now_ms()}
        payment |= {"transactionId": number, "payeeId": number % 1000, "beneficiaryId": number % 997}
        body = json.dumps({"questions": [payment]})
        head = f"POST /would HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {os.environ[VARIABLE]}"
        return f"{head}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()

    def _read_answer(self, connection: socket.socket) -> int:
        """The status of the next answer."""
        data, size = b"", 1
        while len(data) < size:
            part = connection.recv(1 << 16)
            if not part:
                raise ConnectionError("the service has closed the connection")
            data += part
            head, end, _ = data.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            size = len(head + end) + int(length[1]) if end and length else len(data) + 1
        self.old += data[9:12] == b"503"
        self.refused += b'"refused"' in data
        return int(data[9:12])

    def cpu_s(self) -> float:
        """What the service has taken so far."""
        times = self._service.cpu_times()
        return times.user + times.system

    def close(self) -> None:
        """Ends the service."""
        for connection in self._connections:
            connection.close()
        self._running.__exit__(None, None, None)


if __name__ == "__main__":
    main()
