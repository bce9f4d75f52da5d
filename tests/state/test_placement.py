"""What moves from p to q partitions."""

from collections import Counter
from itertools import product
from math import lcm

import pytest

from lab.state.placement import PLACEMENTS, by_range, compare, moves, round_robin, union

STEPS = [(3, 4), (4, 2), (2, 5), (5, 6), (8, 7)]


@pytest.mark.parametrize("p, q", STEPS)
def test_rendezvous_moves_no_more_than_it_must(p, q):
    """Growing: only to new partitions. Shrinking: only from those that go."""
    before, after = (PLACEMENTS["rendezvous"](1024, n) for n in (p, q))
    moved = [pair for pair in zip(before, after) if pair[0] != pair[1]]
    assert {pair[q > p] for pair in moved} == set(range(min(p, q), max(p, q)))
    assert abs(len(moved) / 1024 - abs(p - q) / max(p, q)) < 0.06


def test_ranges_move_less_than_modulo_only_between_neighbouring_parallelisms():
    """They are there for reading in sequence, not for moving the least."""
    moved = {step: {name: move.key_groups for name, move in compare(*step, 840).items()} for step in STEPS}
    for (p, q), by in moved.items():
        assert by["modulo"] == 840 - 840 * min(p, q) // lcm(p, q)
    assert [moved[step]["ranges"] - moved[step]["modulo"] for step in STEPS] == [-210, 210, 0, -280, -315]


@pytest.mark.parametrize("name, parallelism", [*product(["modulo", "ranges"], range(1, 9))])
def test_partitions_are_even_but_for_rendezvous(name, parallelism):
    load = Counter(PLACEMENTS[name](100, parallelism))
    assert len(load) == parallelism and max(load.values()) - min(load.values()) <= 1


def test_bytes_are_counted_where_key_groups_differ_in_size():
    move = moves([0, 1, 1], [0, 1, 2], [5, 10, 85])
    assert (move.key_groups, move.bytes, move.share, move.fullest) == (1, 85, 0.85, 85)


def test_the_number_of_key_groups_must_not_change():
    with pytest.raises(ValueError, match="12 key-groups before and 16 after"):
        moves(by_range(12, 3), by_range(16, 3))


def test_offsets_are_dealt_out_or_given_to_all():
    offsets = [[("p0", 1), ("p1", 2), ("p2", 3)], [("p3", 4)], []]
    entries = [entry for part in offsets for entry in part]
    for parallelism in (1, 2, 3, 6):
        dealt = round_robin(offsets, parallelism)
        assert sorted(entry for part in dealt for entry in part) == entries and len(dealt) == parallelism
        assert max(map(len, dealt)) - min(map(len, dealt)) <= 1
        assert union(offsets, parallelism) == [entries] * parallelism
    with pytest.raises(ValueError, match="parallelism: 0, expected 1 or more"):
        round_robin(offsets, 0)


def test_a_comparison_of_nothing_moves_nothing():
    assert moves([0], [1], [0]).share == 0
    assert moves([], []).fullest == 0
