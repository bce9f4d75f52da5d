"""A stream, an engine and their logs in one hand: what the widgets of a notebook watch and steer.

    player ──► events ──┐
    rules  ──► control ─┴─► engine ──► alerts, acks, dead letters, stats ──► Studio.read ──► widgets

The engine is Spark's pipeline on files or on Kafka, one that runs elsewhere, or, without Java, its stages in a thread here.
"""

import asyncio
import atexit
import json
import shutil
import tempfile
import time
import weakref
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

import pandas  # noqa: F401  (loaded before the engine's thread does it: plotly looks at it half loaded)
from rich.table import Table

from lab.apps.backtest import Past
from lab.apps.control import key_of
from lab.apps.report import Report
from lab.apps.run import existing
from lab.apps.sources import source_at
from lab.apps.watch import Latencies
from lab.engine.ends import FileLogs, KafkaLogs
from lab.engine.settings import Settings
from lab.engine.stages import Stages, compile_kernels
from lab.logs.config import found
from lab.model import schemafile
from lab.model.alerts import Alert
from lab.model.rules import RuleBook
from lab.model.schema import Schema
from lab.stream.player import Player

ENGINES = ("kernel", "spark", "kafka", "elsewhere")
KEY_GROUPS = 8
KEPT_ALERTS, KEPT_ACKS, KEPT_LETTERS = 5_000, 200, 200
PAST = 20_000  # records of a topic, KiB of a folder, that a room has to try rules on when it connects
SILENT_S = 10  # this long without a micro-batch while events wait is worth a warning
SEGMENT_S = 0.1  # the stream reaches a file log this often


class Newest(deque):
    """The newest items of an endless list, for several readers that each know how far they have read.

    >>> newest = Newest(maxlen=2)
    >>> newest.extend("abc")
    >>> newest.total, newest.since(0), newest.since(2)
    (3, ['b', 'c'], ['c'])
    """

    total = 0

    def extend(self, items: Iterable[Any]) -> None:
        for item in items:
            self.append(item)
            self.total += 1

    def since(self, position: int) -> list:
        """The items after the first `position`, as far as they are kept."""
        new = min(self.total - position, len(self))
        return [self[i] for i in range(len(self) - new, len(self))]


class Studio:
    """Starts a stream of `rate` events per second and an engine, and keeps the newest of what comes out.

    `schema`: by name, as a file or as `lab.schema` gives it. `engine`: "kernel" (its stages in this process, no Java), "spark" (on files), "kafka"
    (on a real broker of its own), or "elsewhere" (runs already on `logs`; nothing is started). `rules`: messages for the
    control log. `events`: recorded ones to play instead of simulated ones: a file, a folder, kafka://HOST:PORT/TOPIC. One studio at a time: a new one closes the one before. Raises ValueError for an unknown engine or schema.

    >>> with Studio(rate=50) as studio:
    ...     studio.ask("1,(active),(paymentType),,(paymentAmount),(SUM),(>),(0),(1)")["status"]
    'accepted'
    >>> studio.state()
    ('warning', 'stopped')
    """

    _open: "weakref.ref[Studio] | None" = None

    def __init__(
        self,
        schema: str | Path | Schema = "payments",
        engine: str = "kernel",
        *,
        rate: float = 200,
        rules: Sequence[str | dict] = (),
        logs: FileLogs | KafkaLogs | None = None,
        events: str | Path | None = None,
        seed: int = 1,
        **player: Any,
    ):
        if engine not in ENGINES:
            raise ValueError(f"engine: {engine!r}, expected one of {', '.join(ENGINES)}")
        if (engine == "elsewhere") != (logs is not None):
            raise ValueError(f"logs: {logs}, expected those of an engine elsewhere, and of no other")
        self.schema = schema if isinstance(schema, Schema) else schemafile.schema(schema)
        if events:
            player["lines"] = source_at(events, found(None))
        if Studio._open and (before := Studio._open()):
            before.close()
        self.engine = engine
        self.error: BaseException | None = None
        self.player: Player | None = None
        self._stack, self._closed = ExitStack(), False
        Studio._open = weakref.ref(self)
        atexit.register(self.close)
        try:
            self._begin(engine, logs, rules, rate, seed, player)
        except BaseException:
            self.close()
            raise

    def _begin(self, engine, logs, rules, rate, seed, player) -> None:
        folder = Path(tempfile.mkdtemp(prefix="lab-studio-"))
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        if engine == "kafka":
            from lab.machine import broker

            logs = KafkaLogs(self._stack.enter_context(broker.running()).address)
        self.logs = logs or FileLogs(folder / "logs")
        if engine == "elsewhere":
            existing(self.logs, "events").close()
        else:
            self.logs.create()
        self.book, self.past = RuleBook(self.schema), Past(self.schema)
        self.alerts, self.acks, self.letters = (
            Newest((), KEPT_ALERTS),
            Newest((), KEPT_ACKS),
            Newest((), KEPT_LETTERS),
        )
        self.fired: Counter[int] = Counter()  # alerts of each rule id
        self.records, self._heard = 0, time.monotonic()
        beginning = engine == "elsewhere"
        self._tails = {
            name: self.logs.log(name).tail(new=beginning and name != "control")
            for name in ("events", "control", "alerts", "acks", "deadLetters")
        }
        self.report, self.latencies = Report(self.logs.log("stats")), Latencies(self.logs, KEPT_ALERTS)
        for tail in self._tails.values():
            self._stack.callback(tail.close)
        if engine == "elsewhere":  # rules are tried on what was there before, too
            self.past.add(self.logs.log("events").newest(PAST))
            return
        for rule in rules:
            self.publish(rule)
        settings = Settings(self.schema, key_groups=KEY_GROUPS, parallelism=1)
        if engine == "kernel":
            self._engine: Any = Inside(self.logs, settings)
            self._engine.start()
        else:
            from lab.engine.pipeline import start
            from lab.machine.session import session

            spark = self._stack.enter_context(session())
            self._engine = start(spark, self.logs, folder / "checkpoint", settings)
        self._stack.callback(self._engine.stop)
        self.player = Player(
            self.schema,
            self.logs.log("events"),
            rate,
            seed=seed,
            every_s=0.01 if engine == "kafka" else SEGMENT_S,
            **player,
        )
        self._stack.callback(self.player.stop)
        self.player.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Stops stream and engine, and removes what they wrote; a second time does nothing."""
        if not self._closed:
            self._closed = True
            atexit.unregister(self.close)
            self._stack.close()

    # -- what widgets ask for ------------------------------------------------------------------------------------------

    def publish(self, message: str | dict) -> str:
        """Sends a control message to the engine and returns its place, which its acknowledgement will name.

        Raises BadRule, and RuntimeError after `close`.
        """
        if self._closed:
            raise RuntimeError(
                "the engine has stopped, nobody would answer; the cell that started it starts a new one"
            )
        text = message.replace("\n", " ") if isinstance(message, str) else json.dumps(message)
        (place,) = self.logs.log("control").publish([text], [key_of(text, self.schema)])
        return place

    def ask(self, message: str | dict, timeout_s: float = 30) -> dict:
        """Sends a control message and waits for its acknowledgement. Raises BadRule, TimeoutError."""
        place, deadline = self.publish(message), time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.read()
            for ack in self.acks:
                if ack["place"] == place:
                    return ack
            time.sleep(0.05)
        raise TimeoutError(f"no acknowledgement within {timeout_s:g} s; the engine: {self.state()[1]}")

    async def watch(self, seconds: float) -> Table:
        """Lets it run for a while, with widgets going on (`await studio.watch(20)`); the latencies of the alerts so far."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            await asyncio.sleep(min(0.25, seconds))
            self.read()
        return self.latencies.table()

    def read(self) -> None:
        """Takes in what the logs got since the last call."""
        if self._closed:
            return
        lines = self._tails["events"].read()
        self.records += len(lines)
        self.past.add(lines)
        for message in self._tails["control"].read():
            self.book.apply(message)
        self.acks.extend(map(json.loads, self._tails["acks"].read()))
        self.letters.extend(map(json.loads, self._tails["deadLetters"].read()))
        alerts = [Alert.from_json(line) for line in self._tails["alerts"].read()]
        self.alerts.extend(alerts)
        self.fired.update(alert.rule_id for alert in alerts)
        self.latencies.read()
        if self.report.read():
            self._heard = time.monotonic()

    @property
    def closed(self) -> bool:
        """Whether stream and engine have stopped."""
        return self._closed

    @property
    def lag(self) -> int:
        """Records in the events log that the engine has not told about yet."""
        return max(self.records - self.report.total["records"], 0)

    def state(self) -> tuple[str, str]:
        """How it goes, for `widgets.Pulse`: good, warning or bad, and a sentence."""
        if self._closed:
            return "warning", "stopped"
        if reason := self._failure():
            return "bad", reason
        silent = time.monotonic() - self._heard
        if self.engine == "elsewhere" and not self.report.total["records"]:
            return (
                "warning",
                f"nothing heard of an engine on {self._place} for {silent:.0f} s: does `lab run` run there, do events come?",
            )
        if not self.report.total["records"] and silent < SILENT_S:
            return "warning", "the engine starts"
        if silent > SILENT_S and self.lag:
            return (
                "warning",
                f"no micro-batch for {silent:.0f} s, {self.lag:,} records wait: is the engine alive?",
            )
        where = {
            "kernel": "in this kernel, without Spark",
            "spark": "on Spark, on files",
            "kafka": f"on Spark, on Kafka at {self._place}",
            "elsewhere": f"elsewhere, on {self._place}",
        }
        paused = ", the stream is paused" if self.player and self.player.paused else ""
        return "good", f"the engine runs {where[self.engine]}{paused}"

    @property
    def _place(self) -> str:
        return str(getattr(self.logs, "folder", None) or self.logs.address)

    def _failure(self) -> str:
        if self.player and self.player.error:
            return f"the stream ended: {self.player.error}"
        if self.engine == "kernel" and not self._engine.is_alive():
            return f"the engine ended: {self._engine.error or 'nobody knows why'}"
        if self.engine in ("spark", "kafka") and not self._engine.query.isActive:
            reason = str(self._engine.query.exception() or "its query was stopped")
            return f"the engine ended: {reason.splitlines()[0]}"
        return ""


class Inside(Thread):
    """The engine's own stages on file logs in a thread of this process: micro-batches without Spark, hence without Java.

    Nothing is durable: state lives as long as the thread.
    """

    def __init__(self, logs: FileLogs, settings: Settings, every_s: float = SEGMENT_S):
        super().__init__(daemon=True, name="engine")
        compile_kernels()  # else the first events would wait for it
        self.error: Exception | None = None
        self._logs, self._settings, self._every_s, self._stopping = logs, settings, every_s, Event()

    def run(self) -> None:
        """Micro-batches until `stop`."""
        try:
            with Stages(self._settings, self._logs) as stages:
                while not self._stopping.wait(self._every_s):
                    while stages.step():
                        for name, lines in stages.out.items():
                            self._logs.log(name).append(lines)
                        stages.out.clear()
        except Exception as error:  # noqa: BLE001  (whoever watches must know)
            self.error = error

    def stop(self) -> None:
        """Ends it after its micro-batch."""
        self._stopping.set()
        self.join()
