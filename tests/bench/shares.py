"""Where the time of a run goes, in ms for 100,000 events."""

from collections.abc import Sequence
from statistics import median

from tests.bench.drive import OURS, Json, Run

PER = 100_000  # events
PLANNING = ("latestOffset", "getBatch", "queryPlanning")
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
    """Spark runs a micro-batch's two stages one after the other; what lies between them is planning and scheduling."""
    assert len(run.stages) == 2 * len(run.batches), f"{len(run.stages)} stages in {len(run.batches)} batches"
    batches = run.batches[1:] or run.batches
    stages = run.stages[-2 * len(batches) :]
    took = [sum(stage["end"] - stage["start"] for stage in stages[place::2]) for place in range(2)]
    commits = sum(operator["commitTimeMs"] for batch in batches for operator in batch["stateOperators"])
    durations = {
        name: sum(batch["durationMs"].get(name, 0) for batch in batches)
        for name in (*PLANNING, *LOGGING, "triggerExecution")
    }
    planning, logging = (sum(durations[name] for name in names) for names in (PLANNING, LOGGING))
    tasks = 2  # that commit their state at the same time
    parts = {
        "planning": planning,
        "offset log": logging,
        "decode and route stage": took[0],
        "evaluate stage, without commits": took[1] - commits / tasks,
        "state commits": commits / tasks,
        "between stages": durations["triggerExecution"] - planning - logging - sum(took),
    }
    events = sum(stats["records"] for stats in run.stats[-len(batches) :])
    return {name: spent * PER / events for name, spent in parts.items()}
