"""Shares of key-groups and tasks are those of the engine's placement."""

import pytest

from lab.contrast.skew import fullest_task_share, key_group_shares, replace_with_heavy_value
from lab.model.keygroups import flink_range, key_group_of


def test_shares_are_counted_in_the_key_groups_that_the_engine_takes():
    payees, types = [25, 26, 27, 25], ["CSH", "CRD", "CRD", "CSH"]
    expected = [0.0] * 16
    for group in zip(payees, types):
        expected[key_group_of(group, 16)] += 0.25
    assert key_group_shares([payees, types], 16) == expected


def test_the_fullest_task_is_the_one_whose_range_has_the_most():
    given = key_group_shares([list(range(100))], 16)
    for parallelism in (1, 2, 3, 5, 8):
        most = max(
            sum(given[group] for group in flink_range(task, 16, parallelism)) for task in range(parallelism)
        )
        assert fullest_task_share(given, parallelism) == pytest.approx(most)


def test_a_heavy_value_takes_its_share_and_leaves_the_others_in_place():
    heavy = replace_with_heavy_value(list(range(1000)), 0.3, -1)
    assert heavy.count(-1) == 300
    assert all(value in (-1, i) for i, value in enumerate(heavy))
