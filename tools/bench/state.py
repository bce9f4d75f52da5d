"""How much state a long replay keeps: flat once old events go, and few files while none do."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.inprocess import InProcessEngine
from lab.model.times import HOUR_MS
from tools.bench.data import Payments, logs_of, same_window_rules
from tools.bench.drive import Json, replay

ROUTES = 3


@dataclass(frozen=True)
class Replay:
    """A replay of `hours` of payments under windows of one hour, in even micro-batches."""

    stats: list[Json]
    hours: int
    held: float  # events within reach of a window, on each route: what the contract makes the engine keep

    @property
    def settled(self) -> list[Json]:
        """The batches that end after twice the widest window."""
        return self.stats[-(-2 * len(self.stats) // self.hours) :]

    def points(self) -> list[Json]:
        """Every second hour from then on."""
        step = max(1, 2 * len(self.stats) // self.hours)
        return self.settled[::step]

    def per_event(self, name: str) -> tuple[float, float]:
        """Least and most bytes for each held event, in the batches after twice the widest window."""
        values = [stats[name] / self.held for stats in self.settled]
        return min(values), max(values)


def long_replay(spark: SparkSession, folder: Path, hours: int, batches: int, events: int) -> Replay:
    """Windows of one hour over many hours."""
    payments = Payments.make(folder, events, 1000, hours * HOUR_MS)
    settings = Settings(max_batch_records=payments.per_batch(batches))
    reach_ms = HOUR_MS + settings.max_out_of_orderness_ms
    run = replay(spark, payments, same_window_rules("60m"), settings)
    return Replay(run.stats, hours, ROUTES * events * reach_ms / (hours * HOUR_MS))


def files_kept(folder: Path, batches: int) -> dict[int, int]:
    """Micro-batches so far -> most state files that there were by then, while nothing expires; without Spark."""
    payments = Payments.make(folder, 200 * batches, 1000)
    settings = Settings(max_batch_records=payments.per_batch(batches))
    kept, most, done = {}, 0, 0
    with (
        tempfile.TemporaryDirectory(prefix="lab-bench-") as name,
        InProcessEngine(settings, logs_of(Path(name), payments, same_window_rules("90d"))) as stages,
    ):
        while stages.step():
            most, done = max(most, json.loads(stages.out["stats"][-1])["files"]), stages.mark["number"] + 1
            if done & (done - 1) == 0:
                kept[done] = most
        return kept | {done: most}
