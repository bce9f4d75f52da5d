"""The whole loop, each part a process of its own: database, capture, broker, engine, decider and enforcement service."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Self

from lab.engine.loop.inprocess import compile_kernels
from lab.engine.loop.kafkalogs import KafkaLogs
from lab.machine import broker, database, ports
from lab.model.schema import Schema
from lab.restrict.client import HOST, Enforcement
from lab.rulestore.store import RuleStore
from tests.postgresql import running_database
from tests.waiting import wait_until

READY = {
    "capture": "changes go to",
    # two micro-batches: the first may be one that was begun before, for which it need not ask its logs
    "engine": "events/s.*events/s",
    "decider": "restrictions go to",
    "service": "answers;",
}


class Process:
    """A `lab` command that is started again each time it is killed. `ready`: a pattern of what it says when it has begun."""

    def __init__(self, said: Path, ready: str, *arguments: str):
        self._said, self._ready, self._arguments = said, ready, arguments
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-m", "lab", *self._arguments]
        with self._said.open("wb") as output:
            self._process = subprocess.Popen(command, start_new_session=True, stdout=output, stderr=output)

    def wait_until_ready(self) -> None:
        """Until it has begun."""
        ready = re.compile(self._ready, re.DOTALL)
        wait_until(lambda: ready.search(self.said()), alive=self._alive)

    def said(self) -> str:
        """What it has printed since it was started last."""
        return self._said.read_text(errors="replace")

    def _alive(self) -> bool:
        assert self._process.poll() is None, (
            f"lab {' '.join(self._arguments[:2])} ended by itself: {self.said()[-2000:]}"
        )
        return True

    def kill(self) -> None:
        """SIGKILL to it and all that it started; it must not have ended by itself."""
        if self._alive():
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def restart(self) -> None:
        """Kills it and starts it anew; does not wait until it is ready."""
        self.kill()
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()


class Loop:
    """All parts, running for the length of the `with`; any of them can be killed, and is started again."""

    def __init__(self, folder: Path, schema: Schema, seed: int | str = 1):
        self._folder, self.schema, self._rng = folder, schema, random.Random(seed)

    def __enter__(self) -> Self:
        compile_kernels()  # else the first events wait for it
        with ExitStack() as opened:
            self._database = opened.enter_context(running_database())
            self._broker = opened.enter_context(broker.running_broker())
            self.url, self.port = self._database.url(), ports.free_port()
            self.store = RuleStore(self.url, self.schema)
            self.logs = KafkaLogs(self._broker.address)
            self.logs.create()
            self.logs.create_log("restrictions")
            where = ("--logs", f"kafka://{self._broker.address}")
            typed = ("--schema", self.schema.name, *where)
            self.checkpoint = self._folder / "checkpoint"
            commands = {
                "capture": ("cdc", "run", "--store", self._database.url(database.CAPTURE), *typed),
                "engine": ("run", "--checkpoint", str(self.checkpoint), "--parallelism", "1", *typed),
                "decider": ("restrict", "run", *typed),
                "service": ("restrict", "serve", "--port", str(self.port), *where),
            }
            self.processes = {
                name: opened.enter_context(Process(self._folder / f"{name}.out", READY[name], *command))
                for name, command in commands.items()
            }
            self.shop = opened.enter_context(closing(Enforcement(f"http://{HOST}:{self.port}")))
            for name in ("capture", "decider", "service"):  # the engine is ready when there are events
                self.processes[name].wait_until_ready()
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def parts(self) -> tuple[str, ...]:
        """What `kill` takes."""
        return "capture", "database", "engine", "decider", "service", "broker"

    def kill(self, part: str) -> None:
        """SIGKILL to a part, which is started again; database and broker are away for a moment."""
        if part == "database":
            database.status(self._database.folder).kill()
            time.sleep(self._rng.uniform(0, 1))
            database.start(self._database.folder, self._database.port)
            self.store.engine.dispose()  # its connections are gone, whoever asks next
        elif part == "broker":
            for process in self.processes.values():
                process.wait_until_ready()  # what is started without a broker ends, as it should
            broker.status(self._broker.folder).kill()
            time.sleep(self._rng.uniform(0, 1))
            broker.start(self._broker.folder, self._broker.port)
        else:
            self.processes[part].restart()
