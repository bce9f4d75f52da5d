"""The planted faults by their names."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

Mutant = Callable[[], AbstractContextManager]
MUTANTS: dict[str, Mutant] = {}


def mutant_of(faults: dict[str, Mutant]) -> Callable[[Callable[[], Iterator[None]]], Mutant]:
    """Adds a fault to others; it goes by the function's name, with spaces."""

    def add(function: Callable[[], Iterator[None]]) -> Mutant:
        planted = faults[function.__name__.replace("_", " ")] = contextmanager(function)
        return planted

    return add


mutant = mutant_of(MUTANTS)
