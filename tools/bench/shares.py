"""Where the time of a run goes, in ms for 100,000 events."""

from collections.abc import Sequence
from statistics import median

from tools.bench.drive import OURS, Json, Run

PER = 100_000  # events
PLANNING = ("latestOffset", "getBatch", "queryPlanning")  # a cut is made in the first
LOGGING = ("walCommit", "commitOffsets", "commitBatch")


def cpu_shares(runs: Sequence[Run], python: dict[str, float]) -> dict[str, float]:
    """CPU by part. `python`: CPU seconds an event that each stage takes without Spark; the workers' rest is Spark's."""
    spent = {name: median(run.cpu[name] / run.events for run in runs) for name in OURS}
    parts = {f"{stage} (Python)": seconds for stage, seconds in python.items()}
    parts["Spark's share of the Python workers"] = spent["Python workers"] - sum(python.values())
    parts["JVM"] = spent["JVM"]
    parts["driver (Python)"] = spent["driver"]
    return {name: seconds * 1000 * PER for name, seconds in parts.items()}


def wall_shares(runs: Sequence[Run]) -> dict[str, float]:
    """Elapsed time by part, in the batches after the first."""
    each = [_wall(run) for run in runs]
    return {name: median(parts[name] for parts in each) for name in each[0]}


def _wall(run: Run) -> Json:
    """With parallelism 1 a micro-batch is one stage; what it gives is written to the logs after it."""
    assert len(run.stages) == len(run.batches), f"{len(run.stages)} stages in {len(run.batches)} batches"
    batches, stages = run.batches[1:] or run.batches, run.stages[1:] or run.stages
    took = sum(stage["end"] - stage["start"] for stage in stages)
    durations = {
        name: sum(batch["durationMs"].get(name, 0) for batch in batches)
        for name in (*PLANNING, *LOGGING, "triggerExecution")
    }
    planning, logging = (sum(durations[name] for name in names) for names in (PLANNING, LOGGING))
    parts = {
        "cut and plan": planning,
        "offset log": logging,
        "the stage": took,
        "to the stage and back, appends": durations["triggerExecution"] - planning - logging - took,
    }
    events = sum(stats["records"] for stats in run.stats[-len(batches) :])
    return {name: spent * PER / events for name, spent in parts.items()}
