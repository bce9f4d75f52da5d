"""Which task has which key-group before and after a rescale, and what moves: a picture with two sliders.

    from 3   task 0   ▕ 0 │ 1 │ 2 │ 3 ▏          to 4   task 0   ▕ 0 │ 1 │ 2 ▏
             task 1   ▕ 4 │ 5 │ 6 ▏                     task 1   ▕ 3̸ │ 4 ▏          hatched: it comes from another task
             task 2   ▕ 7 │ 8 │ 9 ▏                     …

Placements and counts are those of `lab.state.placement`. Source of the idea: figure 5 of "A Deep Dive into Rescalable State".
"""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol

import ipywidgets as widgets

from lab.model.colours import ORANGE, SKY
from lab.model.language import say
from lab.state.placement import PLACEMENTS, Move, moves
from lab.widgets.look import StylesAndAccessibility, figure, sentence_html

if TYPE_CHECKING:
    from lab.studio.studio import Studio

MOST_TASKS = 8
EQUAL_KEY_GROUPS = 128
NUMBERED_UP_TO = 32  # key-groups; the number of more of them would not fit into its cell
NAMES = {
    "modulo": "modulo parallelism",
    "ranges": "ranges, as in Flink and this engine",
    "rendezvous": "rendezvous hashing",
}
STAYS, MOVES = "stays", "moves (hatched)"
CELL = "key-group {number}: task {old} → {new}"
CELL_OF_BYTES = "key-group {number}: {size} bytes, task {old} → {new}"
OF_BYTES = (
    "{before} → {after}: {moved} of {all} key-groups move, {share} % of the bytes. "
    "The new tasks read {stretches} stretches of the old files; the fullest task has {fullest} bytes, {even} × the average."
)
OF_KEY_GROUPS = (
    "{before} → {after}: {moved} of {all} key-groups move. "
    "The new tasks read {stretches} stretches of the old files; the fullest task has {fullest} key-groups, {even} × the average."
)


class CheckpointState(Protocol):
    """What is taken from a `lab.state.read.State`."""

    parallelism: int

    def widget_data(self) -> dict[str, list]: ...


def cell_starts(partition: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Where the cell of each key-group starts in the row of its task, which holds its key-groups in order.

    >>> cell_starts([0, 0, 1, 0], [10, 20, 5, 1])
    [0, 10, 0, 30]
    """
    filled: dict[int, int] = {}
    starts = []
    for task, size in zip(partition, sizes):
        starts.append(filled.get(task, 0))
        filled[task] = starts[-1] + size
    return starts


def count_contiguous_reads(tasks_before: Sequence[int], tasks_after: Sequence[int]) -> int:
    """How many contiguous ranges the new tasks read from the old tasks' files, whose key-groups are in order. The arguments: the task of each key-group.

    >>> count_contiguous_reads([0, 0, 1, 1], [0, 1, 1, 2]), count_contiguous_reads([0, 1, 0, 1], [0, 1, 2, 3])
    (4, 4)
    """
    in_files = sorted(zip(tasks_before, tasks_after), key=itemgetter(0))
    return sum(1 for _ in groupby(in_files))


def describe_rescale(tasks_before: int, tasks_after: int, move: Move, reads: int, unit: str = "bytes") -> str:
    """The rescale in a line of text.

    >>> describe_rescale(3, 4, Move(6, 16, 41, 100, 30), 6)
    '3 → 4: 6 of 16 key-groups move, 41 % of the bytes. The new tasks read 6 stretches of the old files; the fullest task has 30 bytes, 1.20 × the average.'
    """
    if tasks_before == tasks_after:
        return say("{before} → {after}: nothing moves.", before=tasks_before, after=tasks_after)
    even = move.fullest * tasks_after / move.of_bytes if move.of_bytes else 1.0
    return say(
        OF_BYTES if unit == "bytes" else OF_KEY_GROUPS,
        before=tasks_before,
        after=tasks_after,
        moved=move.key_groups,
        all=move.of_key_groups,
        share=f"{100 * move.share:.0f}",
        stretches=reads,
        fullest=f"{move.fullest:,}",
        even=f"{even:.2f}",
    )


class KeyGroupScope(widgets.VBox):
    """Tasks and their key-groups at two parallelisms, with sliders for both and a choice of placement.

    `state`: a `lab.State`, bytes for each key-group, or nothing: 128 equal ones. `before`, `after`, `placement` (a key of
    `lab.state.placement.PLACEMENTS`): where the controls stand first; `before` is that of the state unless told.
    Raises ValueError without key-groups, or with a placement that is not there.

    >>> scope = KeyGroupScope([100] * 10)
    >>> scope.move.key_groups, scope.contiguous_reads
    (5, 6)
    >>> scope.placement.value = "modulo"
    >>> scope.move.key_groups
    7
    """

    def __init__(
        self,
        state: CheckpointState | Sequence[int] | None = None,
        before: int | None = None,
        after: int | None = None,
        placement: str = "ranges",
    ):
        read: Any = state if hasattr(state, "widget_data") else None
        sizes: Any = (
            read.widget_data()["bytes"] if read else [1] * EQUAL_KEY_GROUPS if state is None else state
        )
        self.sizes = [int(size) for size in sizes]
        self.unit = "key-groups" if state is None else "bytes"
        if not self.sizes:
            raise ValueError("state has no key-groups, expected one or more")
        if placement not in PLACEMENTS:
            raise ValueError(f"placement: {placement!r}, expected one of {', '.join(PLACEMENTS)}")
        most = min(MOST_TASKS, len(self.sizes))
        before = min(before or (read.parallelism if read else 3), most)
        after = min(after or (before + 1 if before < most else max(before - 1, 1)), most)
        how = {"style": {"description_width": "9em"}, "layout": {"width": "30em"}}
        self.before = widgets.IntSlider(before, 1, most, description=say("tasks, from"), **how)
        self.after = widgets.IntSlider(after, 1, most, description=say("tasks, to"), **how)
        options = [(say(NAMES[name]), name) for name in PLACEMENTS]
        self.placement = widgets.Dropdown(
            options=options, value=placement, description=say("placement"), **how
        )
        self.figure, self.said = figure(height=480), widgets.HTML()
        self._prepare()
        for control in (self.before, self.after, self.placement):
            control.observe(self._draw, "value")
        super().__init__(
            [self.before, self.after, self.placement, self.figure, self.said, StylesAndAccessibility()]
        )
        self._draw()

    @property
    def tasks_of_key_groups(self) -> tuple[list[int], list[int]]:
        """The task of each key-group, before and after, as the controls stand."""
        place, key_groups = PLACEMENTS[self.placement.value], len(self.sizes)
        return place(key_groups, self.before.value), place(key_groups, self.after.value)

    @property
    def move(self) -> Move:
        """What moves as the controls stand."""
        return moves(*self.tasks_of_key_groups, self.sizes)

    @property
    def contiguous_reads(self) -> int:
        """How many stretches of the old files the new tasks read."""
        return count_contiguous_reads(*self.tasks_of_key_groups)

    def update(self, studio: "Studio") -> None:
        """Shows the bytes of a studio's key-groups that its engine last reported; redraws if one has changed by a tenth."""
        reported = studio.report.state_bytes_by_key_group
        sizes = [reported.get(number, 0) for number in range(len(self.sizes))]
        if any(abs(new - old) > old / 10 for new, old in zip(sizes, self.sizes)):
            self.sizes = sizes
            self._draw()

    def _prepare(self) -> None:
        for name, colour, hatch in ((say(STAYS), SKY, ""), (say(MOVES), ORANGE, "/")):
            self.figure.add_bar(
                name=name,
                orientation="h",
                width=0.85,
                hoverinfo="text",
                textposition="inside",
                insidetextanchor="middle",
                insidetextfont={"color": "#111111"},
                textangle=0,
                marker={
                    "color": colour,
                    "pattern": {"shape": hatch, "fgcolor": "#222222", "size": 6, "solidity": 0.25},
                    "line": {"color": "rgba(255, 255, 255, 0.85)", "width": 1},
                },
            )
        title = say("bytes of state" if self.unit == "bytes" else "key-groups")
        self.figure.update_layout(barmode="overlay", bargap=0.15, xaxis={"title": {"text": title}})
        self.figure.update_layout(margin={"l": 110, "r": 20, "t": 40, "b": 45})

    def _draw(self, _change: dict | None = None) -> None:
        before, after = self.tasks_of_key_groups
        p, q = self.before.value, self.after.value
        first_after = p + 0.6  # the row of the first task after, below a gap
        rows = [*map(float, before), *(first_after + task for task in after)]
        bases = cell_starts(before, self.sizes) + cell_starts(after, self.sizes)
        texts = [
            say(CELL_OF_BYTES if self.unit == "bytes" else CELL, number=g, size=f"{size:,}", old=old, new=new)
            for g, (size, old, new) in enumerate(zip(self.sizes, before, after))
        ]
        numbers = [str(g) if len(self.sizes) <= NUMBERED_UP_TO else "" for g in range(len(self.sizes))]
        with self.figure.batch_update():
            for bar, moves_away in zip(self.figure.data, (False, True)):
                shown = [(old != new) == moves_away for old, new in zip(before, after)]
                mine = [row for row, is_shown in enumerate(shown * 2) if is_shown]
                groups = [row % len(self.sizes) for row in mine]
                bar.y, bar.base = [rows[row] for row in mine], [bases[row] for row in mine]
                bar.x = [self.sizes[g] for g in groups]
                bar.text, bar.hovertext = [numbers[g] for g in groups], [texts[g] for g in groups]
            ticks = [*range(p), *(first_after + task for task in range(q))]
            names = [say("from {count}: task {task}", count=p, task=task) for task in range(p)]
            names += [say("to {count}: task {task}", count=q, task=task) for task in range(q)]
            self.figure.update_layout(
                height=150 + 30 * (p + q),
                yaxis={"tickvals": ticks, "ticktext": names, "range": [ticks[-1] + 0.6, -0.6]},
            )
        text = describe_rescale(p, q, self.move, self.contiguous_reads, self.unit)
        self.said.value = sentence_html(text)
