"""Runs a history: nothing, or what went wrong. A history that fails is made as short as it can be."""

import itertools
import json
import traceback
from contextlib import ExitStack
from dataclasses import replace
from unittest.mock import patch

from lab.engine import cut, decode, ledger, statefiles, store
from lab.engine.checkpoint import read_record
from lab.engine.settings import Settings
from lab.model.schema import LOGINS
from tests.sim import protocol
from tests.sim.history import BEGIN, History
from tests.sim.oracle import differences
from tests.sim.protocol import Driver, Shop, Sink, Stuck, new_parallelism
from tests.sim.world import SimLogs, World

_runs = itertools.count()


def run(history: History) -> list[str]:
    """What is wrong after a history; nothing if the engine did as the reference. To be called in `world.installed()`."""
    return Simulation(history).run()


class Simulation:
    """One history on its way."""

    def __init__(self, history: History):
        self.history, given = history, history.settings
        World.current = self.world = World()
        logs = SimLogs(given["divisible"], given["events"], given["control"], given["at_once"])
        names = (
            "key_groups",
            "parallelism",
            "late_policy",
            "max_out_of_orderness_ms",
            "max_future_ms",
            "max_batch_records",
        )
        settings = Settings(LOGINS, **{name: given[name] for name in names})
        checkpoint = f"/checkpoint{next(_runs)}"
        self.shop = Shop(self.world, logs, checkpoint, settings, Sink(once=given["divisible"]))
        self.now, self.skew, self.once = BEGIN, 0, False
        self.driver: Driver | None = None
        self.saved: dict[int, tuple] = {}  # host -> a snapshot of its memory
        settings.bind(checkpoint)

    def run(self) -> list[str]:
        given = self.history.settings
        with ExitStack() as stack:
            for module, name, value in (
                (store, "ROOM_AT_FIRST", given["room"]),
                (statefiles, "MERGED_AT_ONCE", given["merged"]),
                (statefiles, "EVENTS_AT_MOST", given["merged_events"]),
                (ledger, "KEPT", given["ledgers"]),
                (cut, "WORTH_SHARING", given["sharing"]),
                (cut, "LOOK_S", -1.0),  # a simulated driver waits no real time
                (protocol, "HOSTS", given["hosts"]),
            ):
                stack.enter_context(patch.object(module, name, value))
            if given["one_by_one"]:
                stack.enter_context(patch.object(decode, "_read_at_once", lambda *_: iter(())))
            try:
                for kind, *rest in self.history.actions:
                    getattr(self, "set_skew" if kind == "skew" else kind)(*rest)
                self.catch_up()
                return differences(self.shop)
            except Exception as error:  # noqa: BLE001 - whatever it is, the history shows it
                where = traceback.extract_tb(error.__traceback__)[-1]
                return [
                    f"{type(error).__name__}: {error} ({where.filename.rpartition('/')[2]}:{where.lineno})"
                ]
            finally:
                self.shop.resume(kill=True)

    # -- actions -------------------------------------------------------------------------------------------------------

    def append(self, log: str, source: int, log_time: int, line: bytes) -> None:
        self.now = max(self.now, log_time)
        self._set_clock()
        self.shop.logs.append(log, source, log_time, line)

    def _set_clock(self) -> None:
        self.shop.logs.clock = self.now + self.skew

    def set_skew(self, by: int) -> None:
        self.skew = by
        self._set_clock()

    def _started(self) -> Driver:
        if self.driver is None:
            parallelism = read_record(self.shop.checkpoint)["parallelism"]
            self.driver = Driver(self.shop, replace(self.shop.settings, parallelism=parallelism), self.once)
        return self.driver

    def batch(self, seed: int, faults: tuple, die: int | None, how: str) -> None:
        driver = self._started()
        if not driver.run(seed, list(faults), die, how):
            self.gone()

    def gone(self) -> None:
        """The driver is no more, or taken for dead; the next one begins with other memory."""
        self.driver, self.once = None, False

    def restart(self, once: bool) -> None:
        self.gone()
        self.once = once

    def rescale(self, to: int) -> None:
        self.gone()
        record = read_record(self.shop.checkpoint)
        to = min(to, record["key_groups"])
        if record["parallelism"] != to:
            new_parallelism(self.shop, to, record)

    def partition(self) -> None:
        if not self.shop.logs.divisible:
            self.shop.logs.sources["events"].append([])

    def _folder(self, host: int) -> str:
        return f"/host{host}/{self._started().start}/"

    def lose(self, host: int) -> None:
        """A host starts anew: its memory is gone, its workers too."""
        self.world.forget_memory(self._folder(host))
        self._new_workers(host)

    def _new_workers(self, host: int) -> None:
        for worker in self.driver.workers[host] if host < len(self.driver.workers) else ():
            worker.clear()

    def delete(self, host: int, which: int) -> None:
        """A window file is gone while the note vouches for it."""
        paths = sorted(path for path in self.world.memory if path.startswith(self._folder(host)))
        if paths:
            del self.world.memory[paths[which % len(paths)]]

    def stale(self, host: int) -> None:
        """A host's memory is as it was when this happened last, as if a snapshot of it went on."""
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

    def catch_up(self) -> None:
        """Without further faults all is read and committed within a bound: a step for each record, and a few more."""
        self.shop.resume()
        left = sum(len(source) for sources in self.shop.logs.sources.values() for source in sources)
        if self.once:
            self.restart(False)
        idle = 0
        for step in range(left + 8):
            driver = self._started()
            before = driver.done
            if driver.upto:
                self.gone()
                continue
            if not driver.run(step, [], None, ""):
                raise Stuck("the driver died of nothing")
            idle = idle + 1 if driver.done == before else 0
            if idle == 2:
                break
        ends = driver.planner.target()
        taken = [{int(n): at for n, at in driver.mark[log].items()} for log in ("events", "control")]
        behind = [
            (log, end, at)
            for log, end, at in zip(("events", "control"), ends, taken)
            if any(at.get(n, 0) < e for n, e in end.items())
        ]
        if behind:
            raise Stuck(f"not caught up: {behind}")


def shrunk(history: History) -> History:
    """The shortest history found that fails as well: fewer actions, fewer faults, simpler settings."""
    simplest = {
        "divisible": True,
        "parallelism": 1,
        "key_groups": 1,
        "events": 1,
        "control": 1,
        "at_once": 100,
        "late_policy": "evaluate",
    }
    simplest |= {
        "one_by_one": True,
        "hosts": 1,
        "room": 64,
        "merged": 8,
        "merged_events": 1 << 22,
        "ledgers": 100,
        "sharing": 5000,
        "max_batch_records": 1000,
    }
    simplest |= {"max_future_ms": 86_400_000, "max_out_of_orderness_ms": 0}

    kind = _kind(run(history))

    def fails(candidate: History) -> bool:
        return kind in _kind(run(candidate))

    def fewer(history: History) -> History:
        size = max(len(history.actions) // 2, 1)
        while size:
            at = 0
            while at < len(history.actions):
                candidate = history.without(at, at + size)
                if fails(candidate):
                    history = candidate
                else:
                    at += size
            size //= 2
        return history

    while True:
        before = history
        history = fewer(history)
        for name, value in simplest.items():
            if history.settings[name] != value:
                candidate = replace(history, settings=history.settings | {name: value})
                if candidate.settings["parallelism"] <= candidate.settings["key_groups"] and fails(candidate):
                    history = candidate
        for number, action in enumerate(history.actions):
            for simpler in _simpler(action):
                candidate = replace(
                    history, actions=(*history.actions[:number], simpler, *history.actions[number + 1 :])
                )
                if fails(candidate):
                    history = candidate
                    break
        if history == before:
            return history


def _kind(found: list[str]) -> str:
    """What sort of failure it is: the first words."""
    return found[0].partition(":")[0] if found else "nothing"


def _simpler(action: tuple):
    if action[0] == "batch":
        _, seed, faults, die, how = action
        if die is not None:
            yield "batch", seed, faults, None, ""
            yield from (
                ("batch", seed, faults, earlier, how)
                for earlier in (0, die // 2, die - 1)
                if 0 <= earlier < die
            )
            if how == "suspend":
                yield "batch", seed, faults, die, "kill"
        for number in range(len(faults)):
            yield "batch", seed, faults[:number] + faults[number + 1 :], die, how
        if seed > 3:
            yield from (("batch", small, faults, die, how) for small in range(4))
    if action[0] == "append":
        _, log, source, at, line = action
        if source:
            yield "append", log, 0, at, line
        try:
            given = json.loads(line)
        except ValueError:
            return
        for name in ("ip", "country", "amount", "action", "filter"):
            if isinstance(given, dict) and name in given:
                yield (
                    "append",
                    log,
                    source,
                    at,
                    json.dumps({n: v for n, v in given.items() if n != name}).encode(),
                )
