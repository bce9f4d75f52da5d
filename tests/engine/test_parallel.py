"""Work that is done in steps, by two threads."""

from unittest.mock import patch

import pytest

from lab.engine.records import parallel
from lab.engine.records.parallel import Steps, parallel_steps


def counted(name: str, rows: int, order: list[str]) -> Steps[str]:
    for left in range(rows, 0, -1):
        order.append(name)
        yield left - 1
    return name


def test_what_has_most_left_goes_on_so_that_all_end_at_the_same_time():
    order: list[str] = []
    works = [(rows, counted(name, rows, order)) for name, rows in (("a", 2), ("b", 4), ("c", 1))]
    with patch.object(parallel, "THREADS", 1), patch.object(parallel, "WORTH_ROWS", 0):
        assert parallel_steps(works) == ["a", "b", "c"]
    assert order == ["b", "b", "a", "b", "a", "b", "c"]


@pytest.mark.parametrize("worth_rows", [0, 10_000])
def test_an_error_in_a_step_is_that_of_the_whole(worth_rows):
    def fails() -> Steps[str]:
        yield 1
        raise IndexError("no such row")

    works = [(1, counted("a", 5, [])), (1, fails()), (1, counted("b", 5, []))]
    with patch.object(parallel, "WORTH_ROWS", worth_rows), pytest.raises(IndexError, match="no such row"):
        parallel_steps(works)
