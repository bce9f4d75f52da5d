"""Work of one task on more than one core: most of it is Arrow's and compiled, and holds no interpreter."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
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
