"""Real kills, in turn and at once, while events flow at a steady rate and rules change: what is lost, what comes twice, how long it takes.

`python -m tools.chaos [--kills N] [--seed N] [--kafka [--exactly-once]]`: kills the worker, Java, the parent, all of them, and on Kafka the broker
as well. Compares the alerts with the reference's by `alertId` and prints, for each kind of kill, how long it took to the next alert.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.kafkalogs import KafkaLogs
from lab.machine import broker
from lab.past.fastreference import FastReference
from lab.stream.simulate import payments, to_json
from tests.soak import test_kill
from tests.soak.test_kill import CHANGES, RULES
from tests.topics import counted, expected

RATE, APPENDS_A_SECOND = 200, 20  # events
EVERY = "9,(active),(payeeId),,(paymentAmount),(MAX),(>),(0),(1)"  # alerts
PATIENCE_S = 180
DOWN_S = 1.0  # how long the broker is away
OWN = ("worker", "Java", "parent", "all processes")
BROKERS = ("broker", "broker and worker", "broker and all processes")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, metavar="N", help="how many (100)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of what is killed, and when (1)")
    parser.add_argument("--kafka", action="store_true", help="logs on a Kafka broker, which is killed, too")
    parser.add_argument(
        "--exactly-once",
        action="store_true",
        help="cuts in transactions of Kafka: no alert may come again to readers of committed records",
    )
    options = parser.parse_args()
    if options.exactly_once and not options.kafka:
        parser.error("--exactly-once needs --kafka: logs in folders get each alert once without it")
    with (
        tempfile.TemporaryDirectory(prefix="lab-chaos-") as folder,
        broker.running_broker() if options.kafka else nullcontext() as kafka,
    ):
        sys.exit(Chaos(Path(folder), kafka, options.seed, options.exactly_once).run(options.kills))


class Chaos:
    """An engine, the logs that it reads, and what befalls it."""

    def __init__(self, folder: Path, kafka: Any, seed: int, exactly_once: bool):
        self.exactly_once = exactly_once
        self.folder, self.kafka, self.rng, self.seed = folder, kafka, random.Random(seed), seed
        self.logs = KafkaLogs(kafka.address) if kafka else FileLogs(folder / "logs")
        self.logs.create()
        self.took: dict[str, list[float]] = defaultdict(list)
        self.ended = 0  # engines that gave up because their worker had died too often

    def run(self, kills: int) -> int:
        """Kills, compares and prints; the exit status."""
        with self._growing():
            self.engine = self._start()
            self.alerts = self.logs.log("alerts").tail(new=True)
            self._next_alert(time.time())
            for _ in range(kills):
                victim = self.rng.choice(OWN + BROKERS if self.kafka else OWN)
                time.sleep(self.rng.uniform(0.2, 4))
                self._wait_until_it_reads()
                begun = time.time()
                self._kill(victim)
                self.took[victim].append(self._next_alert(time.time()) - begun)
        return self._verdict(kills)

    def _start(self) -> subprocess.Popen:
        where = f"kafka://{self.kafka.address}" if self.kafka else str(self.folder / "logs")
        words = ["--logs", where, "--checkpoint", str(self.folder / "checkpoint"), "--key-groups", "16"]
        words += ["--exactly-once"] if self.exactly_once else []
        with (self.folder / "run.log").open("w") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "lab", "run", *words], stdout=log, stderr=log, start_new_session=True
            )

    @contextmanager
    def _growing(self) -> Iterator[None]:
        """Events come, and now and then another rule."""
        over = Event()
        writer = Thread(target=self._grow, args=(over,))
        writer.start()
        try:
            yield
        finally:
            over.set()
            writer.join()

    def _grow(self, over: Event) -> None:
        events, control = self.logs.log("events"), self.logs.log("control")
        control.publish([*RULES, EVERY], ["1", "2", "3", "4", "5", "9"])
        stream = payments(seed=self.seed, events=None, start_ms=0, rate_per_s=5, payees=25, beneficiaries=40)
        begun, sent, changes = time.monotonic(), 0, 0
        while not over.wait(1 / APPENDS_A_SECOND):
            due = int((time.monotonic() - begun) * RATE)
            events.append([to_json(next(stream)) for _ in range(sent, due)])
            sent = due
            if sent > 2000 * (changes + 1):
                message = CHANGES[changes % len(CHANGES)]
                control.publish([message], [message.partition(",")[0]])
                changes += 1
        self.sent = sent
        events.close()

    # -- kills ---------------------------------------------------------------------------------------------------------

    def _kill(self, victim: str) -> None:
        if "broker" in victim:
            self.kafka.kill()
        if "worker" in victim:
            self._kill_own(
                lambda process: "lab.engine.spark.daemon" in _command(process) and not process.children()
            )
        if victim == "Java":
            self._kill_own(lambda process: process.name() == "java")
        if victim == "parent":
            self.engine.kill()
        if "all processes" in victim:
            for process in psutil.Process(self.engine.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):  # Spark ends idle workers
                    process.kill()
            self.engine.kill()
        if "broker" in victim:
            time.sleep(DOWN_S)
            self.kafka = self.kafka.restart()
        if victim == "Java":
            self.engine.wait(PATIENCE_S)
        if victim != "broker" and "worker" not in victim:
            self.engine.wait()
            self.engine = self._start()

    def _kill_own(self, chosen) -> None:
        """Kills the busiest of the engine's processes of a kind."""
        found = filter(chosen, psutil.Process(self.engine.pid).children(recursive=True))
        max(found, key=lambda process: process.cpu_times().user).kill()

    def _wait_until_it_reads(self) -> None:
        """What was delivered since the last kill may be of the engine before."""
        deadline = time.time() + PATIENCE_S
        while "reading " not in (self.folder / "run.log").read_text():
            assert time.time() < deadline, (self.folder / "run.log").read_text()[-4000:]
            self._revived()
            time.sleep(0.05)

    def _revived(self) -> None:
        """Starts the engine again if it has ended by itself: Spark starts a task four times, no more."""
        if self.engine.poll() is not None:
            self.ended += 1
            self.engine = self._start()

    def _next_alert(self, since: float) -> float:
        """When, in s, the first alert was made that is later than that."""
        deadline = time.time() + PATIENCE_S
        while time.time() < deadline:
            made = [json.loads(line)["alertTime"] for line in self.alerts.read()]
            if late := [at for at in made if at > since * 1000]:
                return min(late) / 1000
            self._revived()
            time.sleep(0.005)
        raise AssertionError(f"no alert for {PATIENCE_S} s:\n{(self.folder / 'run.log').read_text()[-4000:]}")

    # -- what came of it -----------------------------------------------------------------------------------------------

    def _verdict(self, kills: int) -> int:
        deadline = time.time() + PATIENCE_S
        while counted(self.logs)["records"] < self.sent and time.time() < deadline:
            self._revived()
            time.sleep(1)
        self.engine.send_signal(signal.SIGINT)
        self.engine.wait(PATIENCE_S)
        logs = self.logs
        if isinstance(logs, KafkaLogs):
            reference = expected(logs, FastReference)
        else:
            reference = test_kill.expected(logs.folder, FastReference)
        wanted = Counter({alert.alert_id for alert in reference.alerts})
        came = Counter(json.loads(line)["alertId"] for line in self.logs.log("alerts").read())
        got = Counter(set(came))
        lost, extra, again = (wanted - got).total(), (got - wanted).total(), (came - got).total()
        console = Console(width=None if Console().is_terminal else 100, highlight=False)
        table = Table("killed", "times", "to the next alert: median, s", "p99", "longest")
        for victim, took in sorted(self.took.items(), key=lambda each: np.median(each[1])):
            figures = [f"{of:.1f}" for of in (*np.percentile(took, [50, 99]), max(took))]
            table.add_row(victim, str(len(took)), *figures)
        console.print(table)
        where = "Kafka with --exactly-once" if self.exactly_once else "Kafka" if self.kafka else "folders"
        console.print(
            f"{kills} kills, seed {self.seed}, {where}, {RATE} events/s: {self.sent:,} events, "
            f"{wanted.total():,} alerts: {lost} lost, {extra} extra by alertId, {again} lines that came again; the engine ended "
            f"{self.ended} times because its worker had been killed too often"
        )
        once = self.exactly_once or not self.kafka
        return 1 if lost or extra or (again and once) else 0


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


if __name__ == "__main__":
    main()
