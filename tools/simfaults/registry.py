"""The planted faults by their names."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

Mutant = Callable[[], AbstractContextManager]
MUTANTS: dict[str, Mutant] = {}


def mutant(function: Callable[[], Iterator[None]]) -> Mutant:
    """Goes by the function's name, with spaces."""
    planted = contextmanager(function)
    MUTANTS[function.__name__.replace("_", " ")] = planted
    return planted
