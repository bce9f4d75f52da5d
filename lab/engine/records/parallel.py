"""Work of one task on more than one core: most of it is Arrow's and compiled, and holds no interpreter."""

from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from heapq import heapify, heappop, heappush
from itertools import chain, islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS = 2
WORTH_ROWS = 10_000  # below, threads cost more than they give: a third of a millisecond


def parallel_map(
    function: Callable[[Item], Result], items: Iterable[Item], rows: int = WORTH_ROWS
) -> list[Result]:
    """`map`, two at a time while the next items are made; here and one after the other if that is not worth it.

    >>> parallel_map(str, range(3))
    ['0', '1', '2']
    """
    items = iter(items)
    first = list(islice(items, 2))
    if len(first) < 2 or rows < WORTH_ROWS:
        return [function(item) for item in chain(first, items)]
    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(function, chain(first, items)))


Steps = Generator[int, None, Result]  # work in steps; between two of them it says how many rows are left


def finish_steps(steps: Steps[Result]) -> Result:
    """Does all steps and returns the result.

    >>> def steps(rows):
    ...     while rows:
    ...         yield (rows := rows - 1)
    ...     return "done"
    >>> finish_steps(steps(2))
    'done'
    """
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def parallel_steps(works: Sequence[tuple[int, Steps[Result]]]) -> list[Result]:
    """Does work in steps, two at a time, and always what has most rows left, so that both threads end at about the same time. `works`: each with its rows.

    >>> def steps(name):
    ...     yield 1
    ...     return name
    >>> parallel_steps([(20_000, steps("a")), (10_000, steps("b")), (10_000, steps("c"))])
    ['a', 'b', 'c']
    """
    if len(works) < 2 or sum(rows for rows, _ in works) < WORTH_ROWS:
        return [finish_steps(steps) for _, steps in works]
    waiting = [(-rows, number) for number, (rows, _) in enumerate(works)]
    heapify(waiting)
    results: dict[int, Result] = {}

    def take_largest() -> int | None:
        try:
            return heappop(waiting)[1]
        except IndexError:  # the other thread does all that is left
            return None

    def work() -> None:
        while (number := take_largest()) is not None:
            try:
                heappush(waiting, (-next(works[number][1]), number))
            except StopIteration as end:
                results[number] = end.value

    with ThreadPoolExecutor(THREADS) as threads:
        for done in [threads.submit(work) for _ in range(THREADS)]:
            done.result()
    return [results[number] for number in range(len(works))]
