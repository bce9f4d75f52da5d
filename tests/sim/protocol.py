"""What Spark does with the engine, in this process: plan a micro-batch, write it ahead, run its tasks, deliver, commit.

    mark ─► offsets/N ─► works ─► tasks, with retries and twins ─► sink ─► commits/N
       N ─► offsets/N ─► a task that runs the loop: cut, written ahead, evaluated, delivered, …, end, saved, … ─► commits/N

A driver that finds offsets/N without commits/N runs batch N again between the same marks. One that was taken for dead goes on
with the batch that it has planned, delivers it and may commit it; it plans no other, as the lease then tells it of the next.
"""

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from lab.engine.checkpoint import cuts
from lab.engine.checkpoint.cuts import Cut, CutId, CutLog, is_closed_to_tasks, may_have_cuts_after_epoch
from lab.engine.checkpoint.record import (
    BatchProgress,
    batch_fingerprint,
    last_saved_mark,
    planned_end,
    read_record,
    runs_loop,
    write_record,
)
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.cut import Ends, Mark, Planner
from lab.engine.loop.epochs import running_epoch
from lab.engine.loop.job import Job
from lab.engine.loop.readahead import ReadAhead
from lab.engine.loop.restored import check_not_restored
from lab.engine.loop.task import evaluate_payloads, route_to_payloads, run_single_task
from lab.engine.records.keyedlines import JoinedLines, KeyedLines
from lab.engine.windows import shared
from lab.engine.windows.evaluate import TaskOutput
from lab.logs.index import Batch, writer_id
from lab.model.enginelogs import READ
from tests.sim.filelogs import FileLogsInMemory
from tests.sim.topics import SimLogs
from tests.sim.world import Context, Failed, Killed, Suspended, Worker, World

HOSTS, WORKERS = 2, 2
ATTEMPTS = 8  # more than any history kills of one task
STEPS = (0, 1, 1, 2, 3, 5)  # of an epoch
EPOCHS = (1, 1, 2, 3)  # of a micro-batch that runs the loop
PAUSES = (0, 0, 1, 4, 30)  # before a step; in each a slice of a merge


class Fenced(Killed):
    """A newer driver works on the checkpoint."""


class Stuck(AssertionError):
    """The engine does not come to an end."""


@dataclass
class Sink:
    """What was delivered: (batch, delivery, lines) for each log. `once`: each batch once, as file logs take it."""

    once: bool
    logs: dict[str, list[tuple[int, int, list[str]]]] = field(default_factory=dict)
    deliveries: int = 0
    last: dict[tuple[str, int], Batch] = field(default_factory=dict)  # of each log and writer

    def deliver(self, batch: Batch, lines: TaskOutput, world: World) -> None:
        self.deliveries = delivery = self.deliveries + 1
        for name, (_, joined) in lines.items():
            log, values = self.logs.setdefault(name, []), list(joined)
            world.step("before a delivery")
            if self.once and batch.is_in(self.last.get((name, batch.writer))):
                continue
            self.last[name, batch.writer] = batch
            if not self.once and len(values) > 1:
                log.append((batch.number, delivery, values[:1]))
                world.step("within a delivery")
                values = values[1:]
            log.append((batch.number, delivery, values))
        world.step("after all deliveries")

    def last_batches(self, writer: str, _: int) -> Iterator[tuple[str, Batch]]:
        """As logs tell; of topics the stats log does."""
        for (name, of), batch in self.last.items():
            if of == writer_id(writer) and (self.once or name == "stats"):
                yield name, batch

    def forget(self, batch: int) -> None:
        """Takes away what was delivered from a batch on: it is to come again."""
        for log in self.logs.values():
            log[:] = [delivery for delivery in log if delivery[0] < batch]


@dataclass
class Shop:
    """All that outlives a driver: the world, the logs, the checkpoint, the sink; and who is in charge."""

    world: World
    logs: SimLogs | FileLogsInMemory
    checkpoint: str
    settings: Settings
    sink: Sink
    epoch: int = 0
    # where the driver's first cut began
    begun: Mark = field(default_factory=lambda: {"events": {}, "control": {}})
    # of each cut: how many records each source had when it was planned
    had: list[dict[tuple[str, int], int]] = field(default_factory=list)
    lingering: list[Suspended] = field(default_factory=list)
    loop: bool = False  # do some starts run the engine's loop?

    def __post_init__(self) -> None:
        self.world.had = self.had

    def copied(self) -> tuple[dict, list]:
        """The checkpoint as it is now, for `put_back`."""
        mine = {folder: of for folder, of in self.world.disk.items() if folder.startswith(self.checkpoint)}
        return deepcopy(mine), list(self.had)

    def put_back(self, copy: tuple[dict, list]) -> None:
        for folder in [folder for folder in self.world.disk if folder.startswith(self.checkpoint)]:
            del self.world.disk[folder]
        disk, had = deepcopy(copy)
        self.world.disk |= disk
        self.had[:] = had

    def planned(self) -> list[tuple[Mark, dict]]:
        """The mark at the end of each cut, and how many records each source had when it was chosen."""
        entries = self.world.disk.get(f"{self.checkpoint}/offsets", {}).values()
        ends = [record["cut"] for record in self.records() if "cut" in record]
        ends += [
            end for end in (json.loads(entry.splitlines()[2]) for entry in entries) if not runs_loop(end)
        ]
        assert len(ends) == len(self.had), f"{len(self.had)} cuts were written, and {len(ends)} are there"
        return list(zip(sorted(ends, key=lambda end: end["number"]), self.had, strict=True))

    def records(self) -> list[dict]:
        """What was ever written of cuts."""
        disk, folder = self.world.disk, f"{self.checkpoint}/{cuts.FOLDER}"
        files = disk.get(folder, {}) | disk.get(f"{folder} removed", {})
        return [record for name in sorted(files) for record in cuts._records(files[name], name)[0]]

    def beginning(self) -> Mark:
        """Where the first cut began."""
        records = self.records()
        return records[0]["begin"] if records and records[0]["number"] == 0 else self.begun

    def resume(self, kill: bool = False) -> None:
        """All that is suspended goes on to its end, or dies."""
        while self.lingering:  # a driver that goes on may leave a task behind
            suspended, self.lingering = self.lingering, []
            for one in suspended:
                one.resume(kill)


class WatchedPlanner(Planner):
    """Notes how many records each source has when the loop chooses a cut."""

    driver: "Driver"

    def advance_mark(self, *given, **more) -> Mark:
        self.driver.world.context.had = self.driver.had(self.current_ends())
        return super().advance_mark(*given, **more)


class ReadAtOnce(ReadAhead):
    """Reads each next cut before the one before it is evaluated, as a thread may."""

    def begin(self, mark: Mark, records: int) -> None:
        self._found = self._next_cut(mark)


class Driver:
    """One start of the engine. `loops`: its tasks run the loop; else they evaluate what lies between two marks of the driver's.

    `done`: the number of the last cut whose epoch is saved.
    """

    def __init__(self, shop: Shop, settings: Settings, once: bool = False, loops: bool = False):
        self.shop, self.settings, self.world, self.loops = shop, settings, shop.world, loops
        shop.epoch += 1
        self.epoch = shop.epoch
        self.start = f"start{self.epoch:05}"
        logs: Any = shop.logs  # which do what those of the engine do
        self.job = Job(settings, logs, shop.checkpoint, self.start)
        self.planner = Planner(shop.logs.feed("events"), shop.logs.feed("control"), self.job.folder, settings)
        self.upto = self.planner.current_ends() if once else None
        self.workers = [[Worker() for _ in range(WORKERS)] for _ in range(HOSTS)]
        self.is_suspended = False
        self.writer = read_record(shop.checkpoint)["id"]
        self.find()

    def find(self) -> None:
        """Where the driver goes on, as the checkpoint tells."""
        sink: Any = self.shop.sink
        check_not_restored(sink, self.job.folder, self.writer)
        batches = BatchProgress.read(self.shop.checkpoint)
        self.number = -1 if batches.done is None else batches.done  # of the last committed micro-batch
        self.pending = batches.planned is not None and batches.planned > self.number
        self._settle()

    def _settle(self) -> None:
        """The driver stands at the end of the last saved epoch."""
        first = self.shop.beginning() if self.shop.records() else self.planner.initial_mark()
        self.mark = last_saved_mark(self.shop.checkpoint) or first
        self.done = self.mark["number"]

    def _durably(self, log: str, batch: int, text: str) -> None:
        """An entry in Spark's logs, which nobody may replace."""
        self.world.step(f"before {log}")
        entries = self.world.disk.setdefault(f"{self.shop.checkpoint}/{log}", {})
        if str(batch) in entries:
            raise Fenced(f"another driver has made entry {batch} of {log}")
        entries[str(batch)] = text.encode()

    def had(self, upto: Ends) -> dict[tuple[str, int], int]:
        """How many records each source has up to its end."""
        return {
            (log, source): self.shop.logs.before(log, source, position)
            for log, of in zip(READ, upto)
            for source, position in of.items()
        }

    def plan(self) -> bool:
        """Writes the next batch ahead; False if there is nothing to do."""
        batch = self.number + 1
        if not self.pending:
            if self.epoch < self.shop.epoch:  # as the lease tells
                raise Fenced
            before = planned_end(self.shop.checkpoint, batch - 1) if batch else {"batch": -1}
            after = -1 if runs_loop(before) else before["epoch"]
            if self.loops or may_have_cuts_after_epoch(self.job.folder / cuts.FOLDER, after, self.start):
                self._durably("offsets", batch, f"v1\n{{}}\n{json.dumps({'batch': batch})}")
                return True
            upto = self.upto or self.planner.current_ends()
            had = self.had(upto)
            due_ms = None if self.upto else self.planner.next_absence_check_ms(self.mark)
            end = self.planner.advance_mark(self.mark, self.settings.max_batch_records, self.upto, due_ms)
            if end == self.mark and batch:  # the first one Spark runs also of nothing
                return False
            numbers = {"number": self.mark["number"] + 1, "epoch": self.mark["epoch"] + 1}
            self._durably("offsets", batch, f"v1\n{{}}\n{json.dumps(end | numbers)}")
            if batch == 0:
                self.shop.begun = self.mark
            self.shop.had.append(had)
            self.world.step("after offsets")
        self.pending = True
        self.world.step("planned")
        return True

    def batch(self, seed: int, faults: list) -> bool:
        """One micro-batch; `faults`: of its tasks, (task, kind, step)."""
        if not self.plan():
            return False
        batch, rng = self.number + 1, random.Random(seed)
        end = planned_end(self.shop.checkpoint, batch)
        if runs_loop(end):
            self._task(
                partial(
                    self._run_loop, batch, self._epochs(seed), random.Random(f"{seed}/pauses"), bool(seed % 2)
                ),
                0,
                rng,
                faults,
            )
        else:
            lines = self._stages(self.planner.plan_reading(self.mark, end), rng, faults)
            self._deliver(Cut(end["number"], self.mark, end), lines, frozenset())
        self._durably("commits", batch, "v1\n{}")
        self.world.step("after commits")
        self.number, self.pending = batch, False
        self._settle()
        self.world.step("committed")
        return True

    def _epochs(self, seed: int) -> list[int]:
        """How many cuts each epoch of a micro-batch may have: none if this driver only finishes what another has begun."""
        rng = random.Random(seed)
        if not self.loops:
            return [0]
        return [rng.choice(STEPS) for _ in range(rng.choice(EPOCHS))] if seed >= 0 else [3]

    def _run_loop(self, batch: int, epochs: list[int], pauses: random.Random, reads_ahead: bool) -> int:
        job = replace(self.job, settings=replace(self.settings, parallelism=1))
        events, control = (self.shop.logs.feed(name) for name in READ)
        planner = WatchedPlanner(events, control, job.folder, job.settings)
        planner.driver = self
        before = planned_end(job.checkpoint, batch - 1) if batch else planner.mark_at_start_of_logs()
        if not self.loops and is_closed_to_tasks(job.folder / cuts.FOLDER, self.start):
            return 0
        running, taken = CutLog(job.folder, None if runs_loop(before) else before, self.start), 0
        ahead = ReadAtOnce(job, planner) if reads_ahead else None
        for steps in epochs:
            with running_epoch(job, planner, running, self._deliver, ahead) as one:
                for _ in range(steps):
                    for _ in range(pauses.choice(PAUSES)):
                        one.pause(0)
                    taken += one.step()
                for _ in range(pauses.choice(PAUSES)):
                    one.pause(0)
        if not self.loops:
            running.close_to_tasks()
        return taken

    def _deliver(self, cut: Cut, output: TaskOutput, redelivered: frozenset[CutId]) -> None:
        numbered = Batch(writer_id(self.writer), cut.number, batch_fingerprint(cut.end), redelivered)
        self.shop.sink.deliver(numbered, output, self.world)

    def _stages(self, works: list, rng: random.Random, faults: list) -> TaskOutput:
        tasks = self.settings.parallelism
        if tasks == 1:
            results = [self._task(lambda: run_single_task(self.job, works[0]), 0, rng, faults)]
        else:
            read = [
                self._task(lambda n=n: list(route_to_payloads(self.job, n, works[n])), -1 - n, rng, faults)
                for n in range(len(works))
            ]
            payloads = [pair for pairs in read for pair in pairs]
            rng.shuffle(payloads)
            order = rng.sample(range(tasks), tasks)
            results = []
            for task in order:
                mine = [payload for to, payload in payloads if to == task]
                results.append(
                    self._task(lambda t=task, m=mine: evaluate_payloads(self.job, t, m), task, rng, faults)
                )
        lines: TaskOutput = {}
        for result in results:
            for name, of_log in result.items():
                lines.setdefault(name, KeyedLines([], JoinedLines())).extend(of_log)
        return lines

    def _task(self, run, number: int, rng: random.Random, faults: list):
        """A task until it succeeds; then the twins that the faults ask for."""
        mine = [fault for fault in faults if fault[0] % self.settings.parallelism == max(number, 0)]
        for fault in [fault for fault in mine if fault[1] in ("kill", "fail", "linger")]:
            self._attempt(run, rng, fault)
        for attempt in range(ATTEMPTS):
            found = self._attempt(run, rng, None)
            if found is not None:
                break
            if attempt == ATTEMPTS // 2:  # both hosts wait for a suspended task
                self.shop.resume()
        else:
            raise Stuck(f"task {number} failed {ATTEMPTS} times")
        for fault in [fault for fault in mine if fault[1] in ("twin", "twin killed", "twin lingers")]:
            again = self._attempt(run, rng, fault)
            if fault[1] == "twin" and again is not None and isinstance(found, dict):
                assert _plain(found) == _plain(again), "a twin gives other rows"
        return found

    def _attempt(self, run, rng: random.Random, fault):
        """An attempt on some host and worker; None if it did not succeed."""
        if self.epoch < self.shop.epoch:  # as the lease tells a task, too, before it evaluates
            raise Fenced
        host, worker = rng.randrange(HOSTS), rng.randrange(WORKERS)
        outer = self.world.context
        mine = self.workers[host][worker]
        context = Context(host, mine)
        kind, at = (fault[1], fault[2]) if fault else ("", None)
        result = []
        if "linger" in kind:
            context.fuse = at
            self.workers[host][worker] = Worker()  # that one is lost to us
            suspended = Suspended(self.world, context, lambda: result.append(run()), mine.end)
            self.shop.lingering.append(suspended)
            if suspended.done:
                mine.end()
            return result[0] if result else None
        # what befalls the driver befalls all that it waits for
        context.fuse, context.blows = outer.fuse, outer.blows
        driver_first = outer.fuse is not None and (at is None or outer.fuse <= at)
        if kind and kind != "twin" and not driver_first:
            context.fuse, context.blows = at, _kill if kind != "fail" else _fail
        try:
            with self.world.running(context):
                return run()
        except Failed:
            return None
        except Killed:
            if kind in ("kill", "twin killed") and not driver_first:
                mine.end()
                self.workers[host][worker] = Worker()
                return None
            raise
        finally:
            if driver_first or not kind or kind == "twin":
                outer.fuse = context.fuse

    def run(self, seed: int, faults: list, die: int | None, how: str) -> bool:
        """A micro-batch in which the driver may be killed at a step, or suspended there and taken for dead. False: it is gone."""
        context = Context(0, Worker(), die, _kill)
        if how == "suspend" and die is not None:
            suspended = Suspended(self.world, context, lambda: self.batch(seed, faults), self._end_late)
            if not suspended.done:
                self.is_suspended = True
                self.shop.lingering.append(suspended)
                return False
            return suspended.error is None
        try:
            with self.world.running(context):
                self.batch(seed, faults)
        except Killed:
            return False
        return True

    def end(self, is_killed: bool) -> None:
        """Its processes end; unless they are killed, they remove what nobody can use any more."""
        if self.is_suspended:  # they go on
            return
        for worker in (worker for of in self.workers for worker in of):
            worker.end()
        for host in range(HOSTS) if self.world.machines and not is_killed else ():
            with self.world.running(Context(host)):
                shared.leave_private_folder(self.start)

    def _end_late(self) -> None:
        self.is_suspended = False
        self.end(is_killed=True)


def _kill() -> None:
    raise Killed


def _fail() -> None:
    raise Failed


def _plain(lines: TaskOutput) -> dict:
    return {
        log: [line.rsplit(',"alertTime"', 1)[0] for line in of[1]]
        for log, of in lines.items()
        if log != "stats"
    }


def new_parallelism(shop: Shop, to: int, record: dict) -> None:
    """As `lab.state.rescale` leaves the checkpoint's record."""
    record["parallelism"] = to
    write_record(shop.checkpoint, record)


def new_id(shop: Shop) -> None:
    """As `lab.state.reprocess` leaves the checkpoint's record."""
    record = read_record(shop.checkpoint)
    write_record(shop.checkpoint, record | {"id": f"id{shop.epoch}"})
