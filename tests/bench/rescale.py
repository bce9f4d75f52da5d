"""What a rescale takes, by size of the state: `python -m tests.bench.rescale --mb 10 100 [--restore]`.

For each size the engine makes a checkpoint of that much state at parallelism 3 (nothing expires), and it is rescaled to 4.
Prints two tables in Markdown, seconds against size and state against events; with `--restore`, the storage model on the keys
of the largest checkpoint too. 1000 MB take some ten million events, 5 GB of disk and several minutes.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from lab.contrast.restore import compare_restores, keys_of
from lab.engine import pipeline
from lab.engine.settings import Settings
from lab.machine.session import session
from lab.state.rescale import rescale
from tests.bench.data import Payments, rule

BYTES_PER_EVENT = 105  # measured: three routes, each keyed by a string among others
SEGMENT = 100_000
GROUPINGS = (
    ["payeeId", "paymentType"],
    ["beneficiaryId", "paymentType"],
    ["payeeId", "beneficiaryId", "paymentType"],
)


def made(spark, folder: Path, megabytes: int, settings: Settings) -> list[tuple[int, int]]:
    """Has the engine make a checkpoint; returns (events so far, bytes of state) after each micro-batch."""
    payments = Payments.make(
        folder / "made", megabytes * 1_000_000 // BYTES_PER_EVENT, 100_000, segment=SEGMENT
    )
    logs = pipeline.FileLogs(folder)
    rules = [rule(number, keys, "90d", 10**6) for number, keys in enumerate(GROUPINGS, 1)]
    logs.log("control").append(rules, log_time_ms=0)
    payments.link_into(logs.log("events"))
    engine = pipeline.start(spark, logs, folder / "checkpoint", settings, once=True)
    try:
        engine.query.awaitTermination()
    finally:
        engine.stop()

    growth: dict[int, tuple[int, int]] = {}  # by micro-batch
    events, sizes = 0, {}
    for stats in map(json.loads, logs.log("stats").read()):  # a line for each key-group
        events += stats.get("records", 0)
        sizes[stats["keyGroup"]] = stats["stateBytes"]
        growth[stats["batch"]] = events, sum(sizes.values())
    return list(growth.values())


def on_disk(checkpoint: Path) -> int:
    """Bytes of all files, old versions of the state included."""
    return sum(path.stat().st_size for path in checkpoint.rglob("*") if path.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.rescale", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--mb", type=int, nargs="+", default=[10, 100], help="sizes of state (10 100)")
    parser.add_argument(
        "--restore", action="store_true", help="also the storage model on the largest checkpoint"
    )
    options = parser.parse_args()
    settings = Settings(parallelism=3, max_segments_per_batch=4)
    print(
        "| state MB | events | on disk MB | moved MB | Spark's repartition s | with both looks s | making it s |"
    )
    print("|---|---|---|---|---|---|---|")
    for megabytes in sorted(options.mb):
        with tempfile.TemporaryDirectory(prefix="lab-rescale-") as name, session() as spark:
            started = time.monotonic()
            growth = made(spark, Path(name), megabytes, settings)
            making, checkpoint = time.monotonic() - started, Path(name, "checkpoint")
            disk = on_disk(checkpoint)
            told = rescale(checkpoint, 4, spark=spark)
            move = told.move
            numbers = (move.of_bytes / 1e6, growth[-1][0], disk / 1e6, move.bytes / 1e6)
            cells = [f"{number:,.0f}" for number in numbers]
            cells += [f"{told.seconds:.1f}", f"{told.all_seconds:.1f}", f"{making:.0f}"]
            print("| " + " | ".join(cells) + " |", flush=True)
            if megabytes == max(options.mb):
                largest = growth
                if options.restore:
                    keys = keys_of(checkpoint, spark)
                    costs = compare_restores(Path(name, "model"), keys, 3, 4)
    print("\n| events | state MB | bytes an event |\n|---|---|---|")
    for events, size in largest[:: max(len(largest) // 8, 1)]:
        print(f"| {events:,} | {size / 1e6:,.1f} | {size / events:.0f} |")
    if options.restore:
        print(f"\n{len(keys.size):,} keys, {keys.total / 1e6:,.0f} MB, 3 to 4 subtasks\n")
        print("| way | MB read | MB kept | seeks | index KB | seconds |\n|---|---|---|---|---|---|")
        for cost in costs:
            print("| " + " | ".join(cost.row()) + " |")


if __name__ == "__main__":
    main()
