"""The picture of a rescale shows what `lab.state.placement` counts."""

from dataclasses import dataclass

import numpy as np
import pytest

from lab.contrast.restore import Keys, Snapshot
from lab.state.placement import PLACEMENTS, by_range, compare
from lab.widgets.keygroupscope import MOVES, STAYS, KeyGroupScope, count_contiguous_reads

SIZES = [100, 0, 250, 30, 90, 60, 10, 400, 70, 20, 55, 5, 160, 80, 40, 130]


@dataclass
class Read:
    """As much of a `lab.state.read.State` as the widget takes."""

    parallelism: int

    def widget_data(self) -> dict[str, list]:
        return {"bytes": SIZES}


def drawn(scope: KeyGroupScope, name: str) -> list[tuple[float, float, float]]:
    """(row, start, width) of the cells of a trace."""
    bar = next(bar for bar in scope.figure.data if bar.name == name)
    return list(zip(bar.y, bar.base, bar.x))


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_what_is_marked_as_moving_is_what_moves(placement):
    scope = KeyGroupScope(SIZES, placement=placement)
    for p, q in [(3, 4), (4, 2), (8, 1), (1, 8)]:
        scope.before.value, scope.after.value = p, q
        move = compare(p, q, len(SIZES), SIZES)[placement]
        moving, staying = drawn(scope, MOVES), drawn(scope, STAYS)
        assert (len(moving), len(staying)) == (2 * move.key_groups, 2 * (16 - move.key_groups))
        assert sum(width for _, _, width in moving) == 2 * move.bytes
        assert (
            f"{p} → {q}: {move.key_groups} of 16 key-groups move, {move.share:.0%}"[:-1] in scope.said.value
        )


def test_cells_of_a_task_lie_side_by_side_and_add_up_to_its_bytes():
    scope = KeyGroupScope(SIZES, 3, 4, "ranges")
    rows: dict[float, list[tuple[float, float]]] = {}
    for row, start, width in drawn(scope, MOVES) + drawn(scope, STAYS):
        rows.setdefault(row, []).append((start, width))
    assert len(rows) == 3 + 4
    filled = [sum(width for _, width in sorted(rows[row])) for row in sorted(rows)]
    for row in rows.values():
        ends = np.cumsum([0, *(width for _, width in sorted(row))])
        assert [start for start, _ in sorted(row)] == ends[:-1].tolist()
    partition = [by_range(16, p) for p in (3, 4)]
    assert filled == [*np.bincount(partition[0], SIZES), *np.bincount(partition[1], SIZES)]


def test_colour_is_not_the_only_mark_of_a_move():
    stays, moving = KeyGroupScope(SIZES).figure.data
    assert stays.marker.pattern.shape != moving.marker.pattern.shape


def test_it_starts_where_the_state_stands():
    scope = KeyGroupScope(Read(2))
    assert (scope.before.value, scope.after.value, scope.placement.value) == (2, 3, "ranges")
    assert scope.sizes == SIZES
    assert KeyGroupScope(Read(8)).after.value == 7
    assert KeyGroupScope(Read(2), before=4, after=1, placement="modulo").before.value == 4


def test_stretches_are_those_that_the_storage_model_reads(tmp_path):
    for p, q in [(3, 4), (4, 2), (2, 5)]:
        read = Snapshot(tmp_path / f"{p}-{q}", Keys.generate(5000, 10), p).restore("ranges", q).seeks
        assert (
            read
            == count_contiguous_reads(by_range(128, p), by_range(128, q))
            == KeyGroupScope(before=p, after=q).contiguous_reads
        )


def test_nothing_moves_when_nothing_changes_and_bad_arguments_are_named():
    scope = KeyGroupScope(SIZES, 5, 5)
    assert not drawn(scope, MOVES) and "5 → 5: nothing moves." in scope.said.value
    assert KeyGroupScope([7]).after.value == KeyGroupScope([7]).before.max == 1
    with pytest.raises(ValueError, match="no key-groups"):
        KeyGroupScope([])
    with pytest.raises(ValueError, match="placement: 'ring', expected one of modulo, ranges, rendezvous"):
        KeyGroupScope(placement="ring")
