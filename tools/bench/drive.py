"""Runs the whole engine over a finished log and keeps what it reports."""

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.ends import Logs
from lab.engine.spark import pipeline
from lab.model.statuslines import STAGES
from tools.bench.data import Payments, logs_of

Json = dict[str, Any]

OURS = ("Python workers", "JVM", "driver")
STAGE_MS = ("planMs", "decodeMs", "routeMs", "evaluateMs")


@dataclass(frozen=True)
class Run:
    """One replay: Spark's progress and the engine's stats of each micro-batch, the CPU seconds and Spark's stages."""

    batches: list[Json]
    stats: list[Json]
    cpu: dict[str, float]  # process -> seconds
    stages: list[Json]

    @property
    def seconds(self) -> float:
        """From the first batch's start to the last one's end, state files included."""
        return self._end() - self._start(0)

    @property
    def events(self) -> int:
        return sum(stats["records"] for stats in self.stats)

    @property
    def alerts(self) -> int:
        return sum(stats.get("alerts", 0) for stats in self.stats)

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds

    @property
    def cpu_rate(self) -> float:
        """Events a second if the CPU seconds spent were spread evenly over two cores that never wait."""
        return self.events / (sum(self.cpu[name] for name in OURS) / 2)

    @property
    def disturbance(self) -> float:
        """CPU seconds of other processes for each of ours: well above 0, the rates are not this machine's."""
        return max(0.0, self.cpu["others"]) / sum(self.cpu[name] for name in OURS)

    @property
    def warm_rate(self) -> float:
        """Events a second without the first batch, which also starts Python workers and compiles."""
        if len(self.stats) < 2:
            return self.rate
        return (self.events - self.stats[0]["records"]) / (self._end() - self._start(1))

    def _start(self, batch: int) -> float:
        return datetime.fromisoformat(self.batches[batch]["timestamp"]).timestamp()

    def _end(self) -> float:
        return self._start(-1) + self.batches[-1]["durationMs"]["triggerExecution"] / 1000


def replay(spark: SparkSession, payments: Payments, rules: Sequence[str], settings: Settings) -> Run:
    """The engine from a fresh checkpoint over all payments, all rules in force before the first event."""
    with tempfile.TemporaryDirectory(prefix="lab-bench-") as name:
        folder = Path(name)
        logs = logs_of(folder / "logs", payments, rules)
        one = run(spark, logs, folder / "checkpoint", settings)
    assert one.events == payments.events, f"{one.events} of {payments.events} events evaluated"
    return one


def run(spark: SparkSession, logs: Logs, checkpoint: Path, settings: Settings) -> Run:
    """The engine from a fresh checkpoint over all that the logs have; its own logs are new."""
    stages_before = len(stages(spark))
    with cpu_seconds() as cpu, pipeline.start(spark, logs, checkpoint, settings, once=True) as engine:
        engine.query.awaitTermination()
    batches = [json.loads(progress.json) for progress in engine.query.recentProgress]
    stats = by_batch(logs.log("stats").read())
    return Run(
        [batch for batch in batches if batch["numInputRows"]], stats, dict(cpu), stages(spark)[stages_before:]
    )


def by_batch(lines: Iterable[str]) -> list[Json]:
    """The counts in lines of the stats log and the ms of each stage, added up over the tasks of each micro-batch."""
    batches: dict[int, Counter[str]] = {}
    for line in map(json.loads, lines):
        counts = batches.setdefault(line["batch"], Counter())
        counts.update({name: n for name, n in line.items() if isinstance(n, int) and name != "batch"})
        times = [line["times"][stage] for stage in STAGES if stage in line["times"]]
        if len(times) == len(STAGES):
            counts.update(dict(zip(STAGE_MS, (end - begin for begin, end in pairwise(times)))))
    return [{"batch": batch, **counts} for batch, counts in batches.items()]


@contextmanager
def cpu_seconds() -> Iterator[dict[str, float]]:
    """Fills in the CPU seconds of this process, the JVM, the Python workers and all others until the end of the `with`."""
    before, spent = _cpu_times(), {}
    yield spent
    for name, seconds in _cpu_times().items():
        spent[name] = round(seconds - before.get(name, 0.0), 3)


def _cpu_times() -> dict[str, float]:
    times: dict[str, float] = {}
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            words = " ".join(process.cmdline())
            spent = process.cpu_times()
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        name = "driver" if process == me else "JVM" if "java" in words.split(" ")[0] else "Python workers"
        times[name] = times.get(name, 0.0) + spent.user + spent.system
    machine = psutil.cpu_times()
    times["others"] = machine.user + machine.system + getattr(machine, "nice", 0.0) - sum(times.values())
    return times


def stages(spark: SparkSession) -> list[Json]:
    """The stages of Spark's queries so far, oldest first: times in ms, executor CPU (the JVM's threads) included."""
    store = spark.sparkContext._jsc.sc().statusStore()
    quantiles = getattr(store, "stageList$default$4")()
    listed = store.stageList(None, False, False, quantiles, None)
    found = []
    for i in range(listed.size()):
        stage = listed.apply(i)
        of_query = stage.description().isDefined() and "batch = " in stage.description().get()
        if not of_query or not stage.completionTime().isDefined():
            continue
        found.append(
            {
                "id": stage.stageId(),
                "start": stage.submissionTime().get().getTime(),
                "end": stage.completionTime().get().getTime(),
                "tasks": stage.numTasks(),
                "cpuMs": stage.executorCpuTime() / 1e6,
                "runMs": stage.executorRunTime(),
                "shuffleReadBytes": stage.shuffleReadBytes(),
                "shuffleWriteBytes": stage.shuffleWriteBytes(),
            }
        )
    return sorted(found, key=lambda stage: stage["id"])
