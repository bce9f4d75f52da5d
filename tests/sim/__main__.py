"""Many histories of the engine's protocol in a simulated world, without Spark: crashes, twins, lost memory, wrong clocks, rule storms.

Each history is made from its seed. One that differs from the reference is made short and printed as a timeline.
With --loop, all histories are drawn to run the engine's loop, without it four in ten; with --disk, the windows of all lie on a disk, without
it of one in twenty. A seed gives another history of each kind. The output says in how many histories the loop took a cut, and in how many
windows on a disk were found again, and an epoch in them was undone.

    python -m tests.sim --loop --seed 60000000 --histories 1000
    python -m tests.sim --disk --histories 1000
    python -m tests.sim --power --histories 50000 --processes 2
"""

import argparse
import multiprocessing
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain

from tests.sim import power
from tests.sim.history import random_history
from tests.sim.many import Found, Outcome, found_after, outcomes
from tests.sim.shrink import shrunk
from tests.sim.simulate import run
from tests.sim.world import installed
from tools.simfaults import MUTANTS
from tools.simfaults.disk import DISK_FAULTS

AT_ONCE = 50  # histories that a process takes


def _all(seeds: range, kind: str, processes: int) -> Iterator[Outcome]:
    parts = [seeds[at : at + AT_ONCE] for at in range(0, len(seeds), AT_ONCE)]
    found = partial(outcomes, kind=kind)
    if processes == 1:
        yield from chain.from_iterable(map(found, parts))
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from chain.from_iterable(pool.imap(found, parts))


def _mutants(names: Iterable[str], seed: int, histories: int) -> int:
    """Prints when each planted fault is found; returns how many are not."""
    found: list[Found | None] = []
    print(f"{'planted fault':66} histories  records of a short one  found as")
    for name in names:
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


def _power_failures(seeds: range, mutants: bool, processes: int) -> int:
    """Runs the histories of `tests.sim.power`, with the faults planted one by one or without; returns whether something is wrong."""
    if mutants:
        found = {name: power.histories_until_found(name, seeds) for name in power.POWER_FAULTS}
        for name, one in found.items():
            print(f"{name:54} {f'found after {one[0]}: {one[1]}'[:140] if one else 'NOT FOUND'}")
        return int(None in found.values())
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        try:
            for sentence in power.told(seeds, pool.imap(power.outcome, seeds, AT_ONCE)):
                print(sentence, flush=True)
        except ValueError as error:
            print(error)
            return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="make sim", description=__doc__)
    parser.add_argument("--histories", type=int, default=1000, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first history")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--power", action="store_true", help="instead: the power fails, and the disk forgets what it may"
    )
    kinds = parser.add_mutually_exclusive_group()
    for kind, what in (("loop", "drawn to run the engine's loop"), ("disk", "whose windows lie on a disk")):
        kinds.add_argument(
            f"--{kind}",
            dest="kind",
            action="store_const",
            const=kind,
            default="",
            help=f"only histories {what}",
        )
    parser.add_argument(
        "--mutants", action="store_true", help="plant faults instead, and tell when each is found"
    )
    chosen = parser.parse_args()
    seeds = range(chosen.seed, chosen.seed + chosen.histories)
    if chosen.power:
        return _power_failures(seeds, chosen.mutants, chosen.processes)
    if chosen.mutants:
        names = DISK_FAULTS if chosen.kind == "disk" else MUTANTS
        return min(_mutants(names, chosen.seed, chosen.histories), 1)
    covered, spent, had = 0.0, 0.0, Counter[str]()
    for number, one in enumerate(_all(seeds, chosen.kind, chosen.processes), 1):
        covered, spent = covered + one.covered_s, spent + one.cpu_s
        had.update([*one.reused, *["loop"] * one.ran_loop])
        if one.wrong:
            name = f"--{chosen.kind} --seed {one.seed}" if chosen.kind else f"--seed {one.seed}"
            print(f"{name} differs: {one.wrong[0]}\nmaking it short ...", flush=True)
            with installed():
                short = shrunk(random_history(one.seed, chosen.kind))
                print(short.timeline(), *run(short), sep="\n")
            return 1
        if number % 500 == 0 or number == len(seeds):
            rate = (
                f"{number / spent:.0f} a second of CPU time, {covered / spent:,.0f} times real time on a core"
            )
            print(
                f"{number:,} histories, none differs from the reference; {had['loop']:,} ran the loop, {had['found again']:,} found windows on "
                f"a disk again, {had['undone']:,} undid an epoch there; {rate}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
