"""The storage model: what each way of restoring reads."""

import pytest

from lab.contrast.restore import Keys, Snapshot, compare_restores


def test_each_way_finds_the_same_state_at_its_own_cost(tmp_path):
    keys = Keys.generate(20_000, 40)
    naive, index, ranges = compare_restores(tmp_path, keys, 3, 4)
    assert naive.kept_bytes == index.kept_bytes == ranges.kept_bytes == keys.total_bytes
    assert (naive.read_bytes, index.read_bytes, ranges.read_bytes) == (
        4 * keys.total_bytes,
        keys.total_bytes,
        keys.total_bytes,
    )
    assert naive.seeks == 3 * 4 and ranges.seeks == 6, "a new range overlaps one or two old ones"
    assert index.seeks > 5_000, "keys of two new subtasks lie mixed in an old file"
    assert ranges.index_bytes < index.index_bytes / 100


@pytest.mark.parametrize("before, after, overlaps", [(4, 2, 4), (2, 5, 6), (1, 1, 1)])
def test_ranges_are_read_in_one_run_from_each_old_file_that_has_some(tmp_path, before, after, overlaps):
    assert Snapshot(tmp_path, Keys.generate(5000, 10), before).restore("ranges", after).seeks == overlaps


def test_an_unknown_way_and_a_file_cut_short_are_errors(tmp_path):
    snapshot = Snapshot(tmp_path, Keys.generate(100, 10), 2)
    with pytest.raises(ValueError, match="way: 'magic', expected one of naive, index, ranges"):
        snapshot.restore("magic", 3)
    (tmp_path / "groups-1").write_bytes(b"")
    with pytest.raises(OSError, match="groups-1 ends at 0"):
        snapshot.restore("ranges", 3)
