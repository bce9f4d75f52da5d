"""In which order the workers of a run get the tests."""

import os
from types import SimpleNamespace
from typing import Any

from tests.conftest import LONGEST, dealt, kind_of


def test_one_worker_gets_what_shares_a_spark_and_the_others_begin_with_the_longest():
    shared = [SimpleNamespace(nodeid=f"spark{n}", fixturenames=["tmp_path", "spark"]) for n in range(4)]
    longest = [SimpleNamespace(nodeid=f"{LONGEST[0]}{n}", fixturenames=[]) for n in range(4)]
    others = [SimpleNamespace(nodeid=f"quick{n}") for n in range(22)]
    items: list[Any] = [*others[:11], *longest, *shared, *others[11:]]
    order: list[Any] = dealt(items, 3)
    assert sorted(order, key=id) == sorted(items, key=id)
    parts = [order[:10], order[10:20], order[20:]]
    assert parts[0][:4] == shared
    assert [part[:2] for part in parts[1:]] == [longest[::2], longest[1::2]]
    assert dealt(items, 1)[:8] == longest + shared


def test_in_this_run_all_workers_but_the_first_begin_with_the_longest_tests(request):
    """If deselected tests were dealt too, the parts of the workers would begin elsewhere."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    kinds = list(map(kind_of, request.session.items))
    part = len(kinds) // workers
    begins = [kinds[part * worker] for worker in range(1, workers)]
    few = kinds.count("shared") > part  # tests were chosen by hand
    assert few or begins.count("longest") == min(kinds.count("longest"), workers - 1)
