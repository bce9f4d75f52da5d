"""A stream, an engine on Spark and changes of its rules at given seconds: what a lesson shows live, and then draws.

seconds   0           4               9
control   rule 1      rule 2          pause rule 2
events    ●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●
engine                             stalls ┄┄┄┄
told      ack 1       ack 2, alerts           alerts of before the pause, ack, no more alerts
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import psutil
from pyspark.sql import SparkSession

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.filelogs import FileLogs
from lab.engine.spark.pipeline import start
from lab.model.alerts import Alert, AlertTable
from lab.model.statuslines import SCHEMA_STATUS, parse_ack
from lab.model.times import now_ms
from lab.running.report import StatsReport
from lab.running.run import raise_if_ended
from lab.stream.player import Player

POLL_S, START_S, WARM_S, DRAIN_S = 0.02, 60, 20, 5
AT_REST_S = 0.6  # an engine this far behind its stream is not catching up any more
Planned = tuple[float, str]  # seconds after the engine has caught up with the stream, control message
Stall = tuple[float, float]  # from and to, in the same seconds


@dataclass(frozen=True)
class AnsweredMessage:
    """A control message and its acknowledgement; times in ms since the epoch, of one clock."""

    published_ms: int
    answered_ms: int
    ack: dict


@dataclass(frozen=True)
class RehearsalResult:
    """What came of it. `started_ms`: when the plan's clock began."""

    started_ms: int
    answers: list[AnsweredMessage]
    alerts: AlertTable

    def alerts_of_version(self, answer: AnsweredMessage) -> AlertTable:
        """The alerts of the version that the answer names."""
        ack = answer.ack
        named = (ack.get("ruleId"), ack.get("version"))
        return AlertTable(a for a in self.alerts if (a.rule_id, a.rule_version) == named)


def rehearse(
    spark: SparkSession,
    plan: Sequence[Planned],
    seconds: float,
    *,
    rate: float = 200,
    stalls: Sequence[Stall] = (),
    **player: Any,
) -> RehearsalResult:
    """Plays payments through an engine on file logs in a temporary folder, and sends the plan's messages when they are due.

    Messages due at 0 or before are answered before the stream starts. The clock of the others begins when the engine has
    caught up: its first micro-batches are slow. `stalls`: when the engine's workers stand still, as on a machine that has other
    things to do; they do not overlap. `player`: settings of `lab.Player`. Everything is stopped and removed at the end.
    Raises what ended the engine, and TimeoutError if messages are not answered.

    >>> rehearse(spark, [(0, "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)")], 10)  # doctest: +SKIP
    """
    with TemporaryDirectory(prefix="lab-rehearsal-") as folder, ExitStack() as stack:
        logs = FileLogs(Path(folder))
        logs.create()
        engine = stack.enter_context(start(spark, logs, Path(folder, "checkpoint"), Settings(key_groups=8)))
        watch, report = _Watch(logs, engine), StatsReport(logs.log("stats"))
        waiting = sorted(plan, key=lambda planned: planned[0])
        while waiting and waiting[0][0] <= 0:
            watch.publish(waiting.pop(0)[1])
        watch.until(START_S)
        stream = stack.enter_context(Player("payments", logs.log("events"), rate, every_s=0.1, **player))
        warm, at_rest = time.monotonic() + WARM_S, AT_REST_S * rate
        while time.monotonic() < warm and (
            stream.sent < at_rest or stream.sent - report.total["records"] > at_rest
        ):
            report.read()
            watch.read()
            time.sleep(POLL_S)
        workers = SparkWorkers(spark)
        stack.callback(workers.resume)
        started, started_ms = time.monotonic(), now_ms()
        while (passed := time.monotonic() - started) < seconds:
            if any(begins <= passed < ends for begins, ends in stalls):
                workers.stall()
            else:
                workers.resume()
            while waiting and waiting[0][0] <= passed:
                watch.publish(waiting.pop(0)[1])
            watch.read()
            time.sleep(POLL_S)
        workers.resume()
        stream.stop()
        watch.until(DRAIN_S)
        return RehearsalResult(started_ms, watch.answers, watch.alerts)


class SparkWorkers:
    """The Python processes that Spark started for its tasks: they can stand still, as on a machine that has other things to do."""

    def __init__(self, spark: SparkSession):
        self._java = psutil.Process(cast(Any, spark.sparkContext)._gateway.proc.pid)
        self._stalled: list[psutil.Process] = []

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """They stand still within this context."""
        self.stall()
        try:
            yield
        finally:
            self.resume()

    def stall(self) -> None:
        """Lets them stand still; nothing if they do already."""
        if not self._stalled:
            self._stalled = self._java.children(recursive=True)
            for process in self._stalled:
                with suppress(psutil.NoSuchProcess):
                    process.suspend()

    def resume(self) -> None:
        """Lets them go on."""
        while self._stalled:
            with suppress(psutil.NoSuchProcess):
                self._stalled.pop().resume()


class _Watch:
    """Reads acknowledgements and alerts as they come."""

    def __init__(self, logs: FileLogs, engine):
        self._logs, self._engine = logs, engine
        self._acks, self._alerts = (logs.log(name).tail() for name in ("acks", "alerts"))
        self._unanswered: set[str] = set()
        self.answers: list[AnsweredMessage] = []
        self.alerts = AlertTable()

    def publish(self, message: str) -> None:
        self._unanswered.update(self._logs.log("control").publish([message], [""]))

    def read(self) -> None:
        raise_if_ended(self._engine.query)
        for ack in map(parse_ack, self._acks.read()):
            if ack["status"] == SCHEMA_STATUS:
                continue
            self._unanswered.discard(ack["place"])
            self.answers.append(AnsweredMessage(ack["logTime"], now_ms(), ack))
        self.alerts += map(Alert.from_json, self._alerts.read())

    def until(self, seconds: float) -> None:
        """Reads until all messages are answered. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        self.read()
        while self._unanswered:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"no acknowledgement of {', '.join(self._unanswered)} within {seconds:g} s"
                )
            time.sleep(POLL_S)
            self.read()
