"""The whole engine on files against the reference: the random logs of `tests.engine.drawn`, cut, read, decoded, routed, saved.

`python -m tests.engine.whole --logs 1000 --processes 2`. A failing seed is printed and can be run again: `--seed 17 --logs 1`. With
`--spark` the engine runs on Spark (`tests.engine.onspark`).
"""

import argparse
import multiprocessing
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial

from lab.machine.session import session
from tests.engine import onspark
from tests.engine.drawn import first_difference

AT_ONCE = 100  # logs that a process takes
AT_ONCE_ON_SPARK = 500  # where an engine takes the logs of a schema


def main() -> int:
    parser = argparse.ArgumentParser(prog="make logs", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first log")
    parser.add_argument("--logs", type=int, default=1000, help="how many (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--spark", action="store_true", help="on Spark, in one process")
    chosen = parser.parse_args()
    seeds, done = range(chosen.seed, chosen.seed + chosen.logs), 0
    at_once = AT_ONCE_ON_SPARK if chosen.spark else AT_ONCE
    parts = [seeds[at : at + at_once] for at in range(0, len(seeds), at_once)]
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
            if chosen.spark or done % (10 * AT_ONCE) == 0 or done == len(seeds):
                print(f"{done:,} logs from seed {chosen.seed}: none differs from the reference", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
