"""`make sim`: many histories through the engine's protocol, see the package's modules."""

import argparse
import sys
import time

from tests.sim.history import BEGIN, random_history
from tests.sim.simulate import run, shrunk
from tests.sim.world import installed


def main() -> None:
    parser = argparse.ArgumentParser(prog="make sim", description=__doc__)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first history")
    parser.add_argument("--stop", type=int, default=1, help="after so many that fail")
    chosen = parser.parse_args()
    failed, covered, begun = 0, 0, time.process_time()
    with installed():
        for seed in range(chosen.seed, chosen.seed + chosen.histories):
            history = random_history(seed)
            times = [action[3] for action in history.actions if action[0] == "append"]
            covered += (max(times) - BEGIN) / 1000
            if found := run(history):
                failed += 1
                print(f"seed {seed}: {found}", flush=True)
                if failed >= chosen.stop:
                    short = shrunk(history)
                    print(short.timeline(), *run(short), sep="\n")
                    sys.exit(1)
    spent = time.process_time() - begun
    print(
        f"{chosen.histories} histories, {failed} differ, {spent / chosen.histories * 1000:.1f} ms each, {covered / spent:,.0f} x real time"
    )


if __name__ == "__main__":
    main()
