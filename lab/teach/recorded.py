"""In a browser, shows what cells gave on a computer if they need what a browser does not have: Spark, NumPy, processes.

    source of a lesson ──tag "native"──► on a computer: recorded.json ──► in a browser: `use_recorded_outputs` shows it in the cell's place

A cell has the tag "native" if it cannot run in a browser; cells that use its names follow by themselves. `make recorded`
runs the lessons and writes recorded.json.
"""

import ast
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from lab.model.colours import BLUE
from lab.model.language import ENGLISH, say, speak

RECORDED = Path(__file__).with_name("recorded.json")
DRIVE = Path("/drive")  # the notebooks' folder, which the browser keeps
FIGURE = "application/vnd.plotly.v1+json"
SAID = "This cell needs Spark or compiled packages, which a browser does not have. This is what it gave on a computer:"
SILENT = "This cell needs Spark or compiled packages, which a browser does not have. Cells that use its names show what they gave on a computer."
CHECK = "This exercise needs results of Spark or of compiled packages: only the lesson on a computer can check it."
STYLE = f"border-left:3px solid {BLUE};padding:2px 10px;margin:4px 0;opacity:.85"


def use_recorded_outputs(lesson: str, language: str = ENGLISH) -> None:
    """From the next cell on, cells of a lesson that a browser cannot run show what they gave on a computer."""
    from IPython import get_ipython

    with suppress(ValueError):  # of a language without a catalog, only the lessons are translated
        speak(language)
    if DRIVE.is_dir():
        os.environ.setdefault("LAB_DATA", str(DRIVE / "progress"))
    cells = _recorded().get(lesson, ())
    numbers = {cell.get(language, cell["source"]): number for number, cell in enumerate(cells)}

    def instead(lines: list[str]) -> list[str]:
        number = numbers.get("".join(lines).strip())
        return (
            lines if number is None else [f"lab.teach.recorded.show_recorded_output({lesson!r}, {number})\n"]
        )

    get_ipython().input_transformers_cleanup.insert(0, instead)


def show_recorded_output(lesson: str, cell_number: int) -> None:
    """Shows what a cell gave."""
    from IPython.display import HTML, display

    cell = _recorded()[lesson][cell_number]
    said = say(CHECK) if cell["check"] else say(SAID) if cell["outputs"] else say(SILENT)
    display(HTML(f'<div role="note" style="{STYLE}">{said}</div>'))
    for output in cell["outputs"]:
        if "text" in output:
            print(output["text"], end="")
        elif FIGURE in output["data"]:
            display(_figure(output["data"][FIGURE]))
        else:
            display(output["data"], raw=True)


def native_only_cells(cells: Iterable) -> list:
    """The code cells of a notebook that a browser cannot run: those with the tag, and those that use their names."""
    found, names = [], set()
    for cell in cells:
        if cell.cell_type != "code":
            continue
        uses, binds = _names(cell.source)
        if "native" in cell.metadata.get("tags", []) or (uses - binds) & names:
            found.append(cell)
            names |= binds
        else:
            names -= binds
    return found


def _names(code: str) -> tuple[set[str], set[str]]:
    """The names that code reads, and those that it binds.

    >>> uses, binds = _names("import os.path\\nrates = [run.rate for run in runs]")
    >>> sorted(uses), sorted(binds)
    (['run', 'runs'], ['os', 'rates', 'run'])
    """
    uses, binds = set(), set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name):
            (uses if isinstance(node.ctx, ast.Load) else binds).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            binds.add(node.name)
        elif isinstance(node, ast.arg):
            binds.add(node.arg)
        elif isinstance(node, ast.alias):
            binds.add((node.asname or node.name).partition(".")[0])
    return uses, binds


def _figure(recorded: dict):
    from lab.widgets.figures import Figure

    figure = Figure(recorded["data"], recorded["layout"])
    figure._config = recorded["config"]
    figure.add_class("lab")
    return figure


@cache
def _recorded() -> dict:
    return json.loads(RECORDED.read_text())
