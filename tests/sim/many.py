"""Histories by their seeds: what each shows, and after how many a planted fault is found."""

import time

from tests.sim.history import BEGIN, random_history
from tests.sim.mutants import MUTANTS
from tests.sim.simulate import run
from tests.sim.world import installed


def outcomes(seeds: range) -> list[tuple[int, list[str], float, float]]:
    """Of each history: its seed, what is wrong, the log time that it covers and the CPU time that it took, in s."""
    found = []
    with installed():
        for seed in seeds:
            begun, history = time.process_time(), random_history(seed)
            times = [action[3] for action in history.actions if action[0] == "append"]
            wrong = run(history)
            found.append((seed, wrong, (max(times) - BEGIN) / 1000, time.process_time() - begun))
    return found


def found_after(name: str, seed: int, histories: int) -> tuple[int, list[str]] | None:
    """How many histories it took to find a planted fault, and as what; None: it was not found."""
    with installed(), MUTANTS[name]():
        for number in range(histories):
            if wrong := run(random_history(seed + number)):
                return number + 1, wrong
    return None
