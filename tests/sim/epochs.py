"""The engine's loop in the simulated world: a driver names epochs, a task runs each as a number of cuts, and delivers at each cut.

epoch ─► offsets/N ─► a task, with retries and twins: cut, write ahead, evaluate, deliver, …, end, state file ─► commits/N
"""

import json
import random

from lab.engine import cuts
from lab.engine.checkpoint import Batches, fingerprint
from lab.engine.cut import Mark, Planner
from lab.engine.cuts import Cut
from lab.engine.ends import READ
from lab.engine.loop import Again, epoch
from lab.engine.windows import TaskOutput
from lab.logs.index import Batch, writer_id
from tests.sim.protocol import Driver, Fenced

STEPS = (0, 1, 1, 2, 3, 5)  # of an epoch


class WatchedPlanner(Planner):
    """Notes how many records each source has when a cut is chosen."""

    driver: "LoopDriver"

    def latest(self, *given) -> Mark:
        self.driver.world.context.had = self.driver.had(self.target())
        return super().latest(*given)


class LoopDriver(Driver):
    """One start of an engine whose epochs have many cuts. `done`: how many cuts are committed."""

    def find(self) -> None:
        batches = Batches.read(self.shop.checkpoint)
        self.number = -1 if batches.done is None else batches.done
        self.pending = batches.planned is not None and batches.planned > self.number
        self._settle()

    def _settle(self) -> None:
        """The driver stands at the end of its last committed epoch."""
        self.done, self.mark = 0, self.planner.beginning()
        if self.number < 0 and (records := self.shop.records()):
            self.mark = records[0]["begin"]
        if self.number >= 0:
            self.mark, self.done = cuts.end_of(self.job.folder / cuts.FOLDER, self.number)

    def batch(self, seed: int, faults: list) -> bool:
        number, rng = self.number + 1, random.Random(seed)
        if not self.pending:
            if self.epoch < self.shop.epoch:  # as the lease tells
                raise Fenced
            self._durably("offsets", number, f"v1\n{{}}\n{json.dumps({'epoch': number})}")
        self.pending = True
        self.world.step("planned")
        steps = rng.choice(STEPS) if seed >= 0 else 3
        self._task(lambda: self._run(number, steps), 0, rng, faults)
        self._durably("commits", number, "v1\n{}")
        self.number, self.pending = number, False
        self._settle()
        self.world.step("committed")
        return True

    def _run(self, number: int, steps: int) -> int:
        events, control = (self.shop.logs.feed(name) for name in READ)
        planner = WatchedPlanner(events, control, self.job.folder, self.settings)
        planner.driver = self
        with epoch(self.job, planner, number, self._deliver) as running:
            return sum(running.step() for _ in range(steps))

    def _deliver(self, cut: Cut, output: TaskOutput, again: Again) -> None:
        numbered = Batch(writer_id(self.writer), cut.number, fingerprint(cut.end), again)
        self.shop.sink.deliver(numbered, output, self.world)
