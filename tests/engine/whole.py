"""The whole engine on files against the reference: the random logs of `tests.engine.direct`, cut, read, decoded, routed, saved.

`python -m tests.engine.whole --logs 1000 --processes 2`. Some workers lose their memory between two cuts, or another one goes on. A
failing seed is printed and can be run again: `--seed 17 --logs 1`. With `--spark` the engine runs on Spark (`tests.engine.onspark`).
"""

import argparse
import multiprocessing
import random
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from unittest.mock import patch

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.inprocess import InProcessEngine
from lab.engine.records import parallel
from lab.engine.windows import alertlines, arrays, mergeplan, shared, store, waits, windowstate
from lab.machine.session import session
from lab.model import horizon
from lab.model.reference import Reference
from tests.engine import onspark
from tests.engine.direct import drawn
from tests.engine.test_inprocess import Dated
from tests.strategies import LOG_STEPS, PAUSES

AT_ONCE = 100  # logs that a process takes


def check(seed: int) -> None:
    """Runs the log of a seed through both. Raises AssertionError if they differ."""
    of, rng = drawn(seed, short=True), random.Random(f"{seed}/whole")
    cut, loss, steps = rng.choice([0.02, 0.2, 0.6]), rng.choice([0, 0.3]), rng.choice(LOG_STEPS)
    room = rng.choice([2, 1024])
    with (
        patch.object(horizon, "WITNESSES", of.witnesses),
        patch.object(parallel, "WORTH_ROWS", rng.choice([0, parallel.WORTH_ROWS])),
        patch.object(alertlines, "NOT_WORTH_ARROW", seed // 2 % 2 * alertlines.NOT_WORTH_ARROW),
        patch.object(arrays, "ROOM_AT_FIRST", room),
        patch.object(arrays, "SPARE_ROWS", room),
        patch.object(shared, "GROWTH", 4),
        patch.object(store, "STEP_ROWS", room),
        patch.object(waits, "ROOM_AT_FIRST", room),
        patch.object(mergeplan, "MERGED_AT_ONCE", rng.choice([2, 3])),
        InProcessEngine(Settings(of.schema, parallelism=1, **of.settings)) as stages,
    ):
        both = Dated(stages, Reference(of.schema, **of.settings))
        for kind, text in of.log:
            # a control message is logged later than what came before
            both.take(kind, text, max(rng.choice(steps), kind == "control"))
            if rng.random() < cut:
                both.cut(rng.choice(PAUSES))
                if rng.random() < loss:
                    stages.lose_memory()
                if rng.random() < loss:  # another worker goes on with what shared memory holds
                    windowstate._open.clear()
        both.assert_same_at_end()


def first_difference(seeds: range) -> str:
    """What is wrong with the first of these logs that differs; empty if none does."""
    for seed in seeds:
        try:
            check(seed)
        except AssertionError as error:
            return f"seed {seed}: {str(error)[:2000]}"
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make logs", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first log")
    parser.add_argument("--logs", type=int, default=1000, help="how many (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--spark", action="store_true", help="on Spark, in one process")
    chosen = parser.parse_args()
    seeds, done = range(chosen.seed, chosen.seed + chosen.logs), 0
    parts = [seeds[at : at + AT_ONCE] for at in range(0, len(seeds), AT_ONCE)]
    with ExitStack() as until_done:
        if chosen.spark:
            spark = until_done.enter_context(session())
            found: Iterable[str] = map(partial(onspark.first_difference, spark), parts)
        else:
            pool = until_done.enter_context(multiprocessing.get_context("spawn").Pool(chosen.processes))
            found = pool.imap(first_difference, parts)
        for part, wrong in zip(parts, found):
            if wrong:
                print(wrong)
                return 1
            done += len(part)
            if done % (10 * AT_ONCE) == 0 or done == len(seeds):
                print(f"{done:,} logs from seed {chosen.seed}: none differs from the reference", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
