"""Histories by their seeds: what each shows, and after how many a planted fault is found."""

import faulthandler
import multiprocessing
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NamedTuple

from tests.sim.directed import DIRECTED, ON_A_DISK
from tests.sim.history import BEGIN, Action, History, random_history
from tests.sim.machines import remove_of_process
from tests.sim.shrink import shrunk
from tests.sim.simulate import Simulation, run
from tests.sim.world import installed
from tools.simfaults import MUTANTS
from tools.simfaults.disk import DISK_FAULTS

PATIENCE_S = 60  # a history takes a twentieth of a second; one that takes so long does not come to an end
SHRINK_S = 4.0  # CPU time for making a history short
# such an error says that a planted fault no longer fits the code that it is planted in
UNFIT = ("AttributeError", "NameError", "TypeError")


def appended(history: History) -> list[Action]:
    """The appends of a history."""
    return [action for action in history.actions if action[0] == "append"]


class Outcome(NamedTuple):
    """What a history shows: what is wrong, if anything, and whether the engine's loop took a cut.

    `reused`: how often windows on a disk were found again, and an epoch undone in them. `covered_s`: the log time that it covers. `cpu_s`: the CPU time that it took.
    """

    seed: int
    wrong: list[str]
    ran_loop: bool
    reused: Mapping[str, int]
    covered_s: float
    cpu_s: float


def outcomes(seeds: range, kind: str = "") -> list[Outcome]:
    """Runs the histories of some seeds, of a kind that `random_history` draws."""
    found = []
    with installed():
        for seed in seeds:
            begun, history = time.process_time(), random_history(seed, kind)
            times = [action[3] for action in appended(history)]
            simulation = Simulation(history)
            wrong = simulation.run()
            ran_loop = any("cut" in record for record in simulation.shop.records())
            machines, cpu_s = simulation.world.machines, time.process_time() - begun
            reused = machines.reused if machines else {}
            found.append(Outcome(seed, wrong, ran_loop, reused, (max(times) - BEGIN) / 1000, cpu_s))
    return found


@dataclass(frozen=True)
class Found:
    """A planted fault that was found: after how many random histories (0: in its own one), as what, and how many records a short one has."""

    after: int
    wrong: str
    records: int | None = None


def found_after(
    name: str, seed: int, histories: int, short: bool = False, patience_s: float = PATIENCE_S
) -> Found | None:
    """How many random histories it took to find a planted fault, None if it was not found; `short`: it is made short, too.

    `patience_s`: how long one may take. They run in a process of their own, as a fault may make compiled code go round for ever.
    """
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    seeds = range(seed, seed + histories)
    process = fork.Process(target=_plant, args=(name, seeds, short, there), daemon=True)
    process.start()
    there.close()
    first = int(name not in DIRECTED)
    number = first - 1
    try:
        for number, wrong in enumerate(_told(here, patience_s), first):
            if wrong:
                return Found(number, wrong, here.recv() if short and here.poll(PATIENCE_S) else None)
    except EOFError:  # it ended: all histories are done, or compiled code looked where nothing is
        process.join()
        return Found(number + 1, "the process crashes") if process.exitcode else None
    finally:
        process.kill()
        process.join()
        remove_of_process(process.pid)
    return Found(number + 1, "it does not come to an end")


def histories_for(name: str, seeds: range) -> Iterator[History]:
    """The history that was made for a planted fault, if there is one, or those for windows on a disk; then random ones."""
    if name in DIRECTED:
        yield DIRECTED[name]
    if name in DISK_FAULTS:
        yield from ON_A_DISK
    kind = "disk" if name in DISK_FAULTS else ""
    yield from (random_history(seed, kind) for seed in seeds)


def planted(name: str, histories: Iterable[History]) -> Iterator[str]:
    """What a planted fault makes wrong in each history, empty if nothing. Raises AssertionError if the fault itself does not run."""
    with installed(), (MUTANTS | DISK_FAULTS)[name]():
        for history in histories:
            wrong = "".join(run(history)[:1])
            assert not wrong.startswith(UNFIT), f"{name!r} does not fit the code any more: {wrong}"
            yield wrong


def _plant(name: str, seeds: range, short: bool, there: Connection) -> None:
    faulthandler.disable()  # that it crashes is expected
    for history, wrong in zip(
        histories_for(name, seeds), planted(name, histories_for(name, seeds)), strict=True
    ):
        there.send(wrong)
        if wrong and short:
            there.send(len(appended(shrunk(history, SHRINK_S))))
        if wrong:
            return


def _told(here: Connection, patience_s: float) -> Iterator[str]:
    """What is wrong in each history, empty if nothing is; ends at one that does not end. Raises EOFError after the last."""
    while here.poll(patience_s):
        yield here.recv()
