"""Runs a history: nothing, or what went wrong. A history that fails is made as short as it can be."""

import itertools
import traceback
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from lab.engine.checkpoint import ledger
from lab.engine.checkpoint.record import last_saved_mark, read_record
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop import cut
from lab.engine.loop.cut import Mark
from lab.engine.loop.restored import CheckpointRestored
from lab.engine.records import decode, feeds
from lab.engine.records.arrowjson import scan_lines
from lab.engine.records.feeds import LogLost
from lab.engine.windows import alertlines, arrays, statemerge, store, waits
from lab.logs import writer
from lab.logs.segments import PositionExpired
from lab.model import horizon
from lab.model.enginelogs import READ
from lab.model.schema import LOGINS
from tests.engine.oddlogs import ROWS
from tests.engine.randomlogs import MINUTE
from tests.sim import protocol
from tests.sim.filelogs import FileLogsInMemory
from tests.sim.history import BEGIN, History
from tests.sim.machines import Machines
from tests.sim.oracle import differences
from tests.sim.protocol import Driver, Shop, Sink, Stuck, new_id, new_parallelism
from tests.sim.topics import EXPIRED, SimLogs
from tests.sim.world import World
from tests.strategies import DERIVED, PAIRS, RETURNS

SCHEMAS = {"pairs": PAIRS, "returns": RETURNS, "rows": ROWS}
LONGEST_WAIT_MS = 31 * MINUTE  # a little longer than the widest window of a history
_runs = itertools.count()


def run(history: History) -> list[str]:
    """What is wrong after a history; nothing if the engine did as the reference. To be called in `world.installed()`."""
    return Simulation(history).run()


def scan_nothing(text, starts, ends, latest, schema):
    """Leaves all lines, as if they were empty, to the reader that takes them one by one."""
    return scan_lines(text, starts, starts, latest, schema)


class Simulation:
    """One history on its way."""

    def __init__(self, history: History):
        self.history, given = history, history.settings
        World.current = self.world = World()
        logs = (
            FileLogsInMemory(given["events"])
            if given["divisible"]
            else SimLogs(given["events"], given["control"], given["at_once"])
        )
        names = (
            "key_groups",
            "parallelism",
            "late_policy",
            "max_out_of_orderness_ms",
            "max_future_ms",
            "max_batch_records",
        )
        schema = next((schema for name, schema in SCHEMAS.items() if given[name]), LOGINS)
        schema = replace(schema, derived=DERIVED) if given["derived"] else schema
        settings = Settings(schema, **{name: given[name] for name in names})
        if given["disk"]:
            self.world.machines = Machines(given["disk"], repr(history.settings))
        machines = self.world.machines
        checkpoint = str(machines.checkpoint) if machines else f"/checkpoint{next(_runs)}"
        self.shop = Shop(self.world, logs, checkpoint, settings, Sink(once=given["divisible"]))
        self.now, self.skew, self.until_read = BEGIN, 0, False
        self.driver: Driver | None = None
        self.was_put_back = False
        self.saved: dict[int, Any] = {}  # host -> a snapshot of its memory
        self.shop.loop = given["loop"]
        settings.bind(checkpoint)
        self.copied = self.shop.copied()  # until there is another

    def run(self) -> list[str]:
        given = self.history.settings
        with ExitStack() as stack:
            for module, name, value in (
                (horizon, "WITNESSES", given["witnesses"]),
                (arrays, "ROOM_AT_FIRST", given["room"]),
                (arrays, "SPARE_ROWS", given["room"]),
                (waits, "ROOM_AT_FIRST", given["room"]),
                (statemerge, "MERGED_AT_ONCE", given["merged"]),
                (statemerge, "EVENTS_AT_MOST", given["merged_events"]),
                (statemerge, "SLICE_ROWS", given["slice"]),
                (ledger, "KEPT", given["ledgers"]),
                (cut, "WORTH_SHARING", given["sharing"]),
                (feeds, "AT_ONCE", given["at_once"] * feeds.BYTES_A_RECORD),
                (writer, "SEGMENT_BYTES", given["segment_bytes"]),
                (alertlines, "NOT_WORTH_ARROW", 1000 if given["one_by_one"] else 0),
                (cut, "LOOK_S", -1.0),  # a simulated driver waits no real time
                (protocol, "HOSTS", given["hosts"]),
                (store, "STEP_ROWS", given["room"] if given["disk"] else store.STEP_ROWS),
            ):
                stack.enter_context(patch.object(module, name, value))
            if given["one_by_one"]:
                stack.enter_context(patch.object(decode, "scan_lines", scan_nothing))
            try:
                for kind, *rest in self.history.actions:
                    getattr(self, "set_skew" if kind == "skew" else kind)(*rest)
                self.catch_up()
                self.end_waits()
                return differences(self.shop) or [f"a writer failed: {error!r}" for error in self.errors]
            except Exception as error:  # noqa: BLE001 - whatever it is, the history shows it
                if isinstance(error, (LogLost, PositionExpired)) and self._lost():
                    return []
                where = traceback.extract_tb(error.__traceback__)[-1]
                return [
                    f"{type(error).__name__}: {error} ({where.filename.rpartition('/')[2]}:{where.lineno})"
                ]
            finally:
                self.shop.resume(kill=True)
                self.shop.logs.close()
                for process in [*self.world.processes.values()]:
                    process.end()
                if self.world.machines:
                    self.world.machines.remove()

    @property
    def errors(self) -> list[Exception]:
        return getattr(self.shop.logs, "errors", [])

    # -- actions -------------------------------------------------------------------------------------------------------

    def append(self, log: str, source: int, log_time: int, line: bytes) -> None:
        if self._passes_until(log_time, line):
            self.shop.logs.append(log, source, log_time, line)

    def torn(self, log: str, source: int, log_time: int, line: bytes, step: int, how: str) -> None:
        """A writer is killed while it appends, or stopped."""
        if not self._passes_until(log_time, line):
            return
        if how == "killed":
            self.shop.logs.killed(log, source, log_time, line, step)
        else:
            self.shop.lingering.append(self.shop.logs.stopped(log, source, log_time, line, step))

    def _passes_until(self, log_time: int, line: bytes) -> bool:
        """It is so late now. Whether the log can have the line."""
        self.now = max(self.now, log_time)
        self._set_clock()
        return not self.shop.logs.divisible or bool(line.strip()) and b"\n" not in line

    def _set_clock(self) -> None:
        self.shop.logs.clock, self.shop.logs.now = self.now + self.skew, self.now

    def set_skew(self, by: int) -> None:
        self.skew = by
        self._set_clock()

    def _started(self) -> Driver:
        if self.driver is None:
            parallelism = read_record(self.shop.checkpoint)["parallelism"]
            settings = replace(self.shop.settings, parallelism=parallelism)
            # a start is as this version's or an older one's
            loops = self.shop.loop and parallelism == 1 and not self.until_read and self.shop.epoch % 4 != 3
            # topics may get what no batch that they tell of has
            again = self.was_put_back and not self.shop.sink.once
            try:
                self.driver = Driver(self.shop, settings, self.until_read, loops)
            except CheckpointRestored:
                if not self.was_put_back:
                    raise
                new_id(self.shop)
                self.driver, again = Driver(self.shop, settings, self.until_read, loops), True
            if again:
                self.shop.sink.forget(self.driver.done + 1)
            self.was_put_back = False
        return self.driver

    def batch(self, seed: int, faults: tuple, die: int | None, how: str) -> None:
        driver = self._started()
        before = driver.done
        alive = driver.run(seed, list(faults), die, how)
        if not alive or (driver.upto and driver.done == before):  # it has read what it was started for
            self.gone(is_killed=not alive)

    def gone(self, is_killed: bool = False) -> None:
        """The driver is no more, or taken for dead; the next one begins with other memory, but for what lies on a disk."""
        if self.driver:
            self.driver.end(is_killed or self.driver.epoch % 2 == 1)
        self.driver, self.until_read = None, False

    def restart(self, skew: int) -> None:
        """The next start is on another machine, with a clock of its own."""
        self.gone()
        self.set_skew(skew)

    def once(self, skew: int) -> None:
        """It ends when it has read what was there."""
        self.restart(skew)
        self.until_read = True

    def rescale(self, to: int) -> None:
        self.gone()
        record = read_record(self.shop.checkpoint)
        to = min(to, record["key_groups"])
        if record["parallelism"] != to:
            new_parallelism(self.shop, to, record)

    def copy(self) -> None:
        """A copy of the checkpoint of a stopped engine."""
        self.gone()
        self.shop.resume()
        self.copied = self.shop.copied()

    def put_back(self) -> None:
        """The copy takes the place of the checkpoint of a stopped engine."""
        self.gone()
        self.shop.resume()
        if not self.shop.loop:
            self.shop.put_back(self.copied)
            self.was_put_back = True

    def partition(self, expired: int) -> None:
        if not self.shop.logs.divisible:
            self.shop.logs.add(expired)

    def expire(self, log: str, source: int, count: int) -> None:
        """The oldest records of a source go."""
        self.shop.logs.expire(log, source, count)

    def _lost(self) -> bool:
        """Whether records have gone that no committed batch has read, or none of this driver's: that has to be said."""
        logs = self.shop.logs
        return any(
            gone > logs.before(log, number, at.get(str(number), 0))
            for begun in (self._begun(), self.driver and self.driver.mark)
            for log, at in (begun or {}).items()
            if log in READ
            for number, gone in enumerate(logs.starts(log))
        )

    def _taken(self, upto: Mark) -> dict[str, list[int]]:
        """How many records of each source are before a mark."""
        logs = self.shop.logs
        return {
            log: [logs.before(log, n, upto[log].get(str(n), 0)) for n in range(len(sources))]
            for log, sources in logs.sources.items()
        }

    def _begun(self) -> Mark | None:
        """The mark at which the next batch begins; None before the first start."""
        if newest := last_saved_mark(self.shop.checkpoint):
            return newest
        if self.shop.had:
            return self.shop.beginning()
        return self.driver.mark if self.driver else None

    def upgrade(self) -> None:
        """The next start is of another version of the engine."""
        self.gone()
        if self.world.machines:
            self.shop.resume()
            self.world.machines.upgrade()

    def disk_fails(self, host: int) -> None:
        """A disk cannot write all that a stopped engine has left to be written."""
        self.gone()
        if self.world.machines:
            self.shop.resume()
            self.world.machines.disk_fails(host)

    def cut_short(self, host: int, which: int) -> None:
        """A file of a stopped engine's windows lacks its end."""
        self.gone()
        if self.world.machines:
            self.shop.resume()
            self.world.machines.cut_short(host, which)

    def _folder(self, host: int) -> str:
        return f"/host{host}/{self._started().start}/"

    def lose(self, host: int) -> None:
        """A host starts anew: its memory is gone, its workers too."""
        if self.world.machines:
            self.shop.resume(kill=True)
            self.world.machines.power_fails(host)
        else:
            self.world.forget_memory(self._folder(host))
        self._new_workers(host)

    def _new_workers(self, host: int) -> None:
        workers = self._started().workers
        for worker in workers[host] if host < len(workers) else ():
            worker.end()

    def delete(self, host: int, which: int) -> None:
        """A window file is gone while the note vouches for it."""
        if self.world.machines:
            for path in self.world.machines.arrays(host)[which:][:1]:
                path.unlink()
            return
        paths = sorted(path for path in self.world.memory if path.startswith(self._folder(host)))
        if paths:
            del self.world.memory[paths[which % len(paths)]]

    def stale(self, host: int) -> None:
        """A host's memory is as it was when this happened last, as if a snapshot of it went on."""
        if self.world.machines:
            if not self.shop.lingering:
                before, self.saved[host] = self.saved.get(host), self.world.machines.copy(host)
                if before:
                    self.world.machines.go_back(host, before)
                    self._new_workers(host)
            return
        folder = self._folder(host)
        if any(path.startswith(folder) for path in self.world.locked):
            return
        before, self.saved[host] = self.saved.get(host), (folder, self.world.snapshot(folder))
        if before and before[0] == folder:
            self.world.forget_memory(folder)
            self.world.restore(before[1])
            self._new_workers(host)

    def resume(self, kill: bool) -> None:
        self.shop.resume(kill)

    # -- the end -------------------------------------------------------------------------------------------------------

    def end_waits(self) -> None:
        """Half an hour later all waits (`absence`) have ended, as the state files tell: the next start has memory of its own."""
        if "absence" not in str(self.history.actions):
            return
        self.until_read = False
        self.now += LONGEST_WAIT_MS + abs(self.skew)
        self.restart(0)
        self.catch_up()

    def catch_up(self) -> None:
        """Without further faults all is read and committed within a bound: a step for each record, and a few more."""
        self.shop.resume()
        left = sum(len(source) for sources in self.shop.logs.sources.values() for source in sources)
        if self.until_read:
            self.gone()
        idle, overtaken = 0, False
        for step in range(left + 8):
            driver = self._started()
            before = driver.done
            if driver.upto:
                self.gone()
                continue
            if not driver.run(-1 - step, [], None, ""):
                if overtaken:
                    raise Stuck("the driver died of nothing")
                overtaken = True  # by one that was taken for dead, and did a batch at the last moment
                self.gone()
                continue
            idle = idle + 1 if driver.done == before else 0
            if idle == 3:  # one may finish an epoch of another, one looks again at sources that wait
                break
        taken = self._taken(self._begun() or driver.mark)
        for log, sources in self.shop.logs.sources.items():
            if any(
                at < len(of) and of[-1] is not EXPIRED for at, of in zip(taken[log], sources, strict=True)
            ):
                raise Stuck(f"not caught up: {taken[log]} of {[len(of) for of in sources]} records of {log}")
