"""A hash table of groups that is filled in the order of its slots is searched as one that was filled group by group."""

from unittest.mock import patch

import numpy as np
import pytest

from lab.engine.compiled.groups import find_slot, row_in_slot
from lab.engine.compiled.layout import NOTHING
from lab.engine.windows import grouptable
from lab.engine.windows.grouptable import fill_group_table


@pytest.mark.parametrize("columns", [0, 1, 3])
@pytest.mark.parametrize(("groups", "at_once"), [(0, 8), (1, 8), (7, 2), (8, 1 << 20), (500, 64), (512, 7)])
def test_each_group_is_found_and_no_other(groups, at_once, columns):
    rng = np.random.default_rng(groups)
    groups = min(groups, 1) if columns == 0 else groups
    keys = rng.integers(-(1 << 62), 1 << 62, (groups, columns))
    rows = np.column_stack((rng.integers(0, 9, (groups, 2)), keys))
    table, salt = (
        np.full(max(2 * 512 if groups > 8 else 16, 2), NOTHING, np.int32),
        int(rng.integers(1 << 62)),
    )
    with (
        patch.object(grouptable, "ROWS_AT_ONCE", at_once),
        patch.object(grouptable, "GROUPS_A_PASS", at_once),
    ):
        fill_group_table(table, rows[:, 2:], salt)
    assert np.count_nonzero(table != NOTHING) == groups
    assert [row_in_slot(table, find_slot(table, rows, 2, salt, keys, row)) for row in range(groups)] == [
        *range(groups)
    ]
    if columns:
        others = keys + 1
        assert all(table[find_slot(table, rows, 2, salt, others, row)] == NOTHING for row in range(groups))


def test_what_finds_no_slot_at_the_end_goes_on_at_the_beginning():
    """Many groups, few slots: some run ends at the last one."""
    for salt in range(60):
        keys = np.arange(8).reshape(8, 1)
        rows, table = np.column_stack((keys, keys, keys)), np.full(8, NOTHING, np.int32)
        fill_group_table(table, keys, salt)
        assert sorted(entry & 7 for entry in table.tolist()) == [*range(8)]
        assert [row_in_slot(table, find_slot(table, rows, 2, salt, keys, row)) for row in range(8)] == [
            *range(8)
        ]
