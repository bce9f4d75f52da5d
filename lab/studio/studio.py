"""A stream, an engine and their logs in one object, which the widgets of a notebook watch and control.

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
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from rich.table import Table

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.ends import Logs
from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.kafkalogs import KafkaLogs
from lab.logs.config import load_config
from lab.model import schemafile
from lab.model.language import say, translated
from lab.model.schema import Schema
from lab.past.backtest import COMPILED
from lab.running.control import compaction_key
from lab.running.errormessage import reason_of_failed_query
from lab.sources.sources import source_at
from lab.stream.background import HAS_THREADS
from lab.stream.player import Player
from lab.studio.engineview import EngineView

ENGINES = ("kernel", "spark", "kafka", "elsewhere")
KEY_GROUPS = 8
SILENT_S = 10  # this long without a micro-batch while events wait is worth a warning
LOOK_S = 5  # how often an engine that says nothing is looked for
NO_ENGINE = "no engine runs on {place}: start it with `lab run`"
WAITING = "{state}; {count} records are waiting"
UNHEARD = (
    "nothing heard from an engine on {place} for {seconds} s: it is idle or not running. "
    "A running engine answers when you publish a rule"
)
STUCK = "no cut for {seconds} s, {count} records are waiting: is the engine alive?"
RUNS = {
    "kernel": "the engine runs in this kernel, without Spark",
    "spark": "the engine runs on Spark, on files",
    "kafka": "the engine runs on Spark, on Kafka at {place}",
    "elsewhere": "the engine runs elsewhere, on {place}",
}
LEFT_OUT = "{state}, {count} unreadable lines left out"
LEFT_OUT_ONE = "{state}, {count} unreadable line left out"
SEGMENT_S = 0.1  # the stream reaches a file log this often


class Studio(EngineView):
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
        logs: Logs | None = None,
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
            player["lines"] = source_at(events, load_config(None), self.schema).live_log_lines()
        if Studio._open and (before := Studio._open()):
            before.close()
        self.engine = engine
        self.error: BaseException | None = None
        self.player: Player | None = None
        self._stack, self._closed = ExitStack(), False
        self._looked = 0.0
        self._lives: bool | None = None  # an engine elsewhere
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

            logs = KafkaLogs(self._stack.enter_context(broker.running_broker()).address)
        logs = logs or FileLogs(folder / "logs")
        if engine == "elsewhere":
            logs.existing("events").close()
        else:
            logs.create()
        settings = Settings(self.schema, key_groups=KEY_GROUPS, parallelism=1)
        super().__init__(logs, settings, running=engine == "elsewhere")
        self._stack.callback(self.close_logs)
        if engine == "elsewhere":
            self.load_newest_records()
            return
        for rule in rules:
            self.publish(rule)
        if engine == "kernel":
            self._engine: Any = self._engine_here(logs, settings)
            self._engine.start()
        else:
            from lab.engine.spark.pipeline import start
            from lab.machine.session import session

            spark = self._stack.enter_context(session())
            self._engine = start(spark, self.logs, folder / "checkpoint", settings)
        self._stack.callback(self._engine.stop)
        self.player = Player(
            self.schema,
            self.logs.log("events"),
            rate,
            seed=seed,
            every_s=min(self.logs.log("events").pause_s, SEGMENT_S),
            **player,
        )
        self._stack.callback(self.player.stop)
        self.player.start()

    @staticmethod
    def _engine_here(logs: FileLogs, settings: Settings) -> Any:
        """The engine's stages, or where Numba is absent the reference."""
        if COMPILED:
            from lab.running.localengine import LocalEngine

            return LocalEngine(logs, settings, SEGMENT_S)
        from lab.running.referenceengine import ReferenceEngine

        return ReferenceEngine(logs, settings, SEGMENT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Stops stream and engine, and removes their files; a second call does nothing."""
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
                "the engine has stopped, so there will be no answer; run the cell that started it to start a new one"
            )
        text = message.replace("\n", " ") if isinstance(message, str) else json.dumps(message)
        (place,) = self.logs.log("control").publish([text], [compaction_key(text, self.schema)])
        return place

    def ask(self, message: str | dict, timeout_s: float = 30) -> dict:
        """Sends a control message and waits for its acknowledgement. Raises BadRule, TimeoutError."""
        place, deadline = self.publish(message), time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if not HAS_THREADS:
                self._engine.step()
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
        """Reads the new records of the logs since the last call; nothing once it is closed."""
        if not self._closed:
            super().read()

    @property
    def closed(self) -> bool:
        """Whether stream and engine have stopped."""
        return self._closed

    def state(self) -> tuple[str, str]:
        """How it goes, for `lab.widgets.refreshingstatus.RefreshingStatus`: good, warning or bad, and a sentence."""
        if self._closed:
            return "warning", say("stopped")
        if reason := self._failure():
            return "bad", reason
        silent = time.monotonic() - self._heard
        idle = False
        if self.engine == "elsewhere" and (silent > SILENT_S or not self.report.total["records"]):
            lives = self._is_alive()
            if lives is False:
                return "bad", self._waiting(say(NO_ENGINE, place=self._place))
            if lives is None:
                unheard = say(UNHEARD, place=self._place, seconds=f"{silent:.0f}")
                return "warning", self._waiting(unheard)
            idle = not self.lag
        elif not self.report.total["records"] and silent < SILENT_S:
            return "warning", say("the engine is starting")
        waited = min(silent, time.monotonic() - self._nothing_waited)
        if waited > SILENT_S and self.lag:
            return "warning", say(STUCK, seconds=f"{waited:.0f}", count=f"{self.lag:,}")
        if (warnings := self.warnings()) and warnings[0][0] != "good":
            return warnings[0]
        state = say(RUNS[self.engine], place=self._place)
        if self.player and self.player.is_paused:
            state = say("{state}, the stream is paused", state=state)
        if idle:
            state = say("{state} and is idle: no events arrive", state=state)
        if count := self.left_out.count:
            state = say(LEFT_OUT_ONE if count == 1 else LEFT_OUT, state=state, count=f"{count:,}")
        return "good", state

    def _is_alive(self) -> bool | None:
        """Whether an engine elsewhere lives, looked at every few seconds."""
        if time.monotonic() > self._looked + LOOK_S:
            self._looked, self._lives = time.monotonic(), self.logs.are_written()
        return self._lives

    def _waiting(self, state: str) -> str:
        return say(WAITING, state=state, count=f"{self.lag:,}") if self.lag else state

    @property
    def _place(self) -> str:
        return self.logs.name

    def _failure(self) -> str:
        if self.player and self.player.error:
            return say("the stream ended: {error}", error=translated(str(self.player.error)))
        if self.engine == "kernel" and not self._engine.is_alive():
            error = self._engine.error
            reason = translated(str(error)) if error else say("for an unknown reason")
            return say("the engine ended: {error}", error=reason)
        if self.engine in ("spark", "kafka") and not self._engine.query.isActive:
            error = self._engine.query.exception()
            if not error:
                return say("the engine ended: {error}", error=say("its query was stopped"))
            return say("the engine ended: {error}", error=translated(reason_of_failed_query(str(error))))
        return ""
