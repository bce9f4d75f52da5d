"""Many histories of the engine's protocol in a simulated world, without Spark: crashes, twins, lost memory, wrong clocks, rule storms.

Each history is made from its seed. One that differs from the reference is made short and printed as a timeline.
"""

import argparse
import multiprocessing
import sys
from collections.abc import Iterator
from itertools import chain

from tests.sim.history import random_history
from tests.sim.many import Found, found_after, outcomes
from tests.sim.mutants import MUTANTS
from tests.sim.shrink import shrunk
from tests.sim.simulate import run
from tests.sim.world import installed

AT_ONCE = 50  # histories that a process takes


def _all(seeds: range, processes: int) -> Iterator[tuple[int, list[str], float, float]]:
    parts = [seeds[at : at + AT_ONCE] for at in range(0, len(seeds), AT_ONCE)]
    if processes == 1:
        yield from chain.from_iterable(map(outcomes, parts))
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from chain.from_iterable(pool.imap(outcomes, parts))


def _mutants(seed: int, histories: int) -> int:
    """Prints when each planted fault is found; returns how many are not."""
    found: list[Found | None] = []
    print(f"{'planted fault':66} histories  records of a short one  found as")
    for name in MUTANTS:
        found.append(one := found_after(name, seed, histories, short=True))
        told = (
            f"{one.after or 'its own':>9}  {one.records or '':22}  {one.wrong[:60]}" if one else "NOT FOUND"
        )
        print(f"{name:66} {told}", flush=True)
    missed = found.count(None)
    own = sum(one is not None and one.after == 0 for one in found)
    print(
        f"{len(found) - missed} of {len(found)} planted faults found: {own} each in a history of its own, "
        f"the others within {histories:,} random ones"
    )
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(prog="make sim", description=__doc__)
    parser.add_argument("--histories", type=int, default=1000, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first history")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--mutants", action="store_true", help="plant faults instead, and tell when each is found"
    )
    chosen = parser.parse_args()
    if chosen.mutants:
        return min(_mutants(chosen.seed, chosen.histories), 1)
    covered = spent = 0.0
    seeds = range(chosen.seed, chosen.seed + chosen.histories)
    for number, (seed, wrong, seconds, cpu) in enumerate(_all(seeds, chosen.processes), 1):
        covered, spent = covered + seconds, spent + cpu
        if wrong:
            print(f"history {seed} differs: {wrong[0]}\nmaking it short ...", flush=True)
            with installed():
                short = shrunk(random_history(seed))
                print(short.timeline(), *run(short), sep="\n")
            return 1
        if number % 500 == 0 or number == len(seeds):
            rate = (
                f"{number / spent:.0f} a second of CPU time, {covered / spent:,.0f} times real time on a core"
            )
            print(f"{number:,} histories, none differs from the reference; {rate}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
