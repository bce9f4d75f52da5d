"""How much state a long replay keeps: flat once old events go, and few chunks while none do."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from lab.engine.settings import Settings
from lab.logs.files import FileLog
from lab.model.schema import PAYMENTS
from lab.stream.simulate import HOUR_MS
from tests.bench.data import Payments, same_window_rules
from tests.bench.drive import Json, replay
from tests.bench.stages import TimedStages

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
        step = 2 * len(self.stats) // self.hours
        return self.settled[::step]

    def per_event(self, name: str) -> tuple[float, float]:
        """Least and most bytes for each held event, in the batches after twice the widest window."""
        values = [stats[name] / self.held for stats in self.settled]
        return min(values), max(values)


def long_replay(spark: SparkSession, folder: Path, hours: int, batches: int, events: int) -> Replay:
    """Windows of one hour over many hours."""
    settings = Settings(max_segments_per_batch=1)
    payments = Payments.make(folder, events, 1000, hours * HOUR_MS, events // batches)
    reach_ms = HOUR_MS + settings.max_out_of_orderness_ms
    run = replay(spark, payments, same_window_rules("60m"), settings)
    return Replay(run.stats, hours, ROUTES * events * reach_ms / (hours * HOUR_MS))


def chunks_kept(folder: Path, batches: int) -> dict[int, int]:
    """Micro-batches so far -> most chunks that a key-group had by then, while nothing expires; without Spark."""
    settings = Settings(PAYMENTS)
    payments = Payments.make(folder, 200 * batches, 1000, segment=200)
    kept, most = {}, 0
    with tempfile.TemporaryDirectory() as control, TimedStages(settings) as stages:
        stages.segments("control", [str(FileLog(control).append(same_window_rules("90d"), 0))])
        for number, path in enumerate(payments.segments, 1):
            stages.out.clear()
            stages.segments("events", [str(path)])
            most = max(most, stages.stats("chunks") // settings.key_groups)
            if number & (number - 1) == 0 or number == batches:
                kept[number] = most
    return kept
