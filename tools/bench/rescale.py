"""What a change of parallelism takes, by size of the state: `python -m tools.bench.rescale --mb 10 100 [--restore]`.

For each size the engine makes a checkpoint of that much state at parallelism 3 (nothing expires). Then it is started again
twice: as it is, and rescaled to 4; each time it reads one more event, for which its tasks have to read their state.
Prints two tables in Markdown, seconds against size and state against events; with `--restore`, the storage model on the keys
of the largest checkpoint too. 1000 MB take some ten million events and several minutes.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from lab.contrast.restore import Keys, compare_restores
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.filelogs import FileLogs
from lab.engine.spark import pipeline
from lab.machine.session import session
from lab.state.rescale import rescale
from tests.state.groupsizes import group_sizes
from tools.bench.data import Payments, logs_of, rule

EVENT_BYTES = 85  # about, in state files: three routes, each keyed by a string among others
GROUPINGS = (
    ["payeeId", "paymentType"],
    ["beneficiaryId", "paymentType"],
    ["payeeId", "beneficiaryId", "paymentType"],
)
RULES = [rule(number, keys, "90d", 10**6) for number, keys in enumerate(GROUPINGS, 1)]
BATCH = 400_000  # events


def keys_of(checkpoint: Path, key_groups: int = 128) -> Keys:
    """The keys of a checkpoint that the engine made, on all routes, and the bytes of the events that each holds."""
    sizes = group_sizes(checkpoint)
    return Keys.from_arrays(sizes.hashes, sizes.stored_bytes, key_groups)


def run(spark: SparkSession, logs: FileLogs, folder: Path, parallelism: int) -> float:
    """Has the engine read all there is; returns the seconds of its last micro-batch."""
    settings = Settings(parallelism=parallelism, max_batch_records=BATCH, short_batches=False)
    engine = pipeline.start(spark, logs, folder / "checkpoint", settings, once=True)
    try:
        engine.query.awaitTermination()
    finally:
        engine.stop()
    return engine.query.lastProgress.durationMs["triggerExecution"] / 1000


def growth(logs: FileLogs) -> list[tuple[int, int, int]]:
    """(events so far, bytes of state, files) after each micro-batch."""
    found, events, last = {}, 0, {}
    for stats in map(json.loads, logs.log("stats").read()):  # a line for each task
        events += stats.get("records", 0)
        last[stats["keyGroups"][0]] = stats
        size, files = (sum(of[name] for of in last.values()) for name in ("stateBytes", "files"))
        found[stats["batch"]] = events, size, files
    return list(found.values())


def one_more(logs: FileLogs, number: int) -> None:
    """An event after all others."""
    event = {
        "transactionId": 10**9 + number,
        "eventTime": 1_740_000_000_000,
        "payeeId": 1,
        "beneficiaryId": 1,
    }
    logs.log("events").append([json.dumps(event | {"paymentType": "CSH", "paymentAmount": 5})])


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench.rescale", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--mb", type=int, nargs="+", default=[10, 100], help="sizes of state (10 100)")
    parser.add_argument(
        "--restore", action="store_true", help="also the storage model on the largest checkpoint"
    )
    options = parser.parse_args()
    print(
        "| state, MB | events | files | changes tasks, MB | `lab rescale`, s | first micro-batch at 4, s | first micro-batch at 3, s | creating the checkpoint, s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for megabytes in sorted(options.mb):
        with tempfile.TemporaryDirectory(prefix="lab-rescale-") as name, session("local[4]") as spark:
            folder = Path(name)
            payments = Payments.make(folder / "made", megabytes * 1_000_000 // EVENT_BYTES, 100_000)
            logs = logs_of(folder, payments, RULES)
            started = time.monotonic()
            run(spark, logs, folder, 3)
            making, grown = time.monotonic() - started, growth(logs)
            events, size, files = grown[-1]
            one_more(logs, 1)
            again = run(spark, logs, folder, 3)
            started = time.monotonic()
            move = rescale(folder / "checkpoint", 4).move
            asked = time.monotonic() - started
            one_more(logs, 2)
            after = run(spark, logs, folder, 4)
            cells = [f"{size / 1e6:,.0f}", f"{events:,}", str(files), f"{move.bytes / 1e6:,.0f}"]
            cells += [f"{asked:.1f}", f"{after:.1f}", f"{again:.1f}", f"{making:.0f}"]
            print("| " + " | ".join(cells) + " |", flush=True)
            if megabytes == max(options.mb):
                largest = grown
                if options.restore:
                    keys = keys_of(folder / "checkpoint")
                    costs = compare_restores(folder / "model", keys, 3, 4)
    print("\n| events | state MB | bytes an event |\n|---|---|---|")
    for events, size, _ in largest[:: max(len(largest) // 8, 1)]:
        print(f"| {events:,} | {size / 1e6:,.1f} | {size / events:.0f} |")
    if options.restore:
        print(f"\n{len(keys.size):,} keys, {keys.total_bytes / 1e6:,.0f} MB, 3 to 4 subtasks\n")
        print("| way | MB read | MB kept | seeks | index KB | seconds |\n|---|---|---|---|---|---|")
        for cost in costs:
            print("| " + " | ".join(cost.as_texts()) + " |")


if __name__ == "__main__":
    main()
