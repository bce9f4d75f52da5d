"""`lab class check`: runs lessons on this machine before the class, and names the cells that are slower than their text says.

    a notebook, with solutions ──► a kernel ──► seconds of each cell ──► compared with "takes about five seconds"

What a text says about time is for the code cells that follow, up to the next heading or the next time. A cell of which nothing is
said may take `QUIET_S`.
"""

import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from lab.teach import lesson_and_exercise_titles, solution

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
QUIET_S, SLOWER, SPARE_S = 10.0, 1.5, 2.0  # slower: more than so many times what is said, and so much more
NUMBERS = {
    "a": 1,
    "half a": 0.5,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "ten": 10,
    "fifteen": 15,
    "twenty": 20,
}
TAKES = re.compile(
    rf"\btakes? (?:about |some )?({'|'.join(sorted(NUMBERS, key=len, reverse=True))}|\d+)\s+(second|minute)s?\b"
)
UNIT_S = {"second": 1, "minute": 60}
SHOWN = 60  # characters of a cell
PATIENCE_S = 900  # for one cell


class Cell(NamedTuple):
    """A cell that has run. `seconds`: of a code cell; `error`: what it raised."""

    number: int
    kind: str
    source: str
    seconds: float = 0.0
    error: str = ""


def said_seconds(text: str) -> float | None:
    """How long a text says that the cells after it take; None if it says nothing.

    >>> said_seconds("The cell takes about half a minute: Spark starts."), said_seconds("It takes a while.")
    (30.0, None)
    """
    found = TAKES.findall(" ".join(text.split()))
    if not found:
        return None
    number, unit = found[-1]
    return float(NUMBERS.get(number) or number) * UNIT_S[unit]


def slower_cells(cells: Sequence[Cell]) -> Iterator[str]:
    """A sentence for each run of cells that was slower than the text before it says, and for each cell that failed."""
    said: float | None = None
    group: list[Cell] = []
    for cell in [*cells, Cell(0, "markdown", "# end")]:
        if cell.kind == "code":
            group.append(cell)
            if cell.error:
                yield f"cell {cell.number} failed: {cell.error} ({_first_line(cell)})"
            continue
        if re.search("^#", cell.source, re.MULTILINE) or said_seconds(cell.source):
            yield from _compared(group, said)
            said, group = said_seconds(cell.source), []


def _compared(group: Sequence[Cell], said: float | None) -> Iterator[str]:
    if said is None:
        for cell in group:
            if cell.seconds > QUIET_S:
                yield f"cell {cell.number}: {cell.seconds:.0f} s here, the text says nothing ({_first_line(cell)})"
    elif (seconds := sum(cell.seconds for cell in group)) > SLOWER * said + SPARE_S:
        slowest = max(group, key=lambda cell: cell.seconds)
        yield f"cell {slowest.number}: {seconds:.0f} s here, the text says {said:g} s ({_first_line(slowest)})"


def _first_line(cell: Cell) -> str:
    return cell.source.strip().partition("\n")[0][:SHOWN]


def run_lesson(lesson: int) -> list[Cell]:
    """Runs a lesson with the solutions of its exercises, in a kernel of its own. Raises FileNotFoundError if there is no such notebook."""
    import nbformat
    from nbclient import NotebookClient

    files = sorted(NOTEBOOKS.glob(f"{lesson:02}-*.ipynb"))
    if not files:
        raise FileNotFoundError(f"lesson {lesson}: there is no notebook of it in {NOTEBOOKS}")
    notebook = nbformat.read(files[0], as_version=4)
    client = NotebookClient(
        notebook, timeout=PATIENCE_S, allow_errors=True, resources={"metadata": {"path": str(NOTEBOOKS)}}
    )
    cells, exercises = [], 0
    with (
        TemporaryDirectory(prefix="lab-check-") as data,
        client.setup_kernel(env=os.environ | {"LAB_DATA": data}),  # nobody's progress changes
    ):
        for index, cell in enumerate(notebook.cells):
            if "exercise" in cell.metadata.get("tags", []):
                exercises += 1
                cell.source = solution(f"{lesson}.{exercises}").text
            begun, error = time.monotonic(), ""
            if cell.cell_type == "code":
                client.execute_cell(cell, index)
                failed = [each for each in cell.outputs if each.output_type == "error"]
                error = f"{failed[0].ename}: {failed[0].evalue}" if failed else ""
            cells.append(Cell(index + 1, cell.cell_type, cell.source, time.monotonic() - begun, error))
    return cells


def check_lessons(lessons: Sequence[int]) -> None:
    """Runs lessons, all if none is named, and prints which cells are slower here than the text says."""
    known = sorted(int(name) for name in lesson_and_exercise_titles() if name.isdigit())
    for lesson in lessons or known:
        cells = run_lesson(lesson)
        found = list(slower_cells(cells))
        total = sum(cell.seconds for cell in cells)
        verdict = "" if found else ", as the text says"
        print(f"lesson {lesson}: {total:.0f} s of computing{verdict}", flush=True)
        for sentence in found:
            print(f"  {sentence}", flush=True)
