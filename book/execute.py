"""Runs the lessons for the book: notebooks with outputs in build/lessons. A lesson that has not changed is not run again.

    python -m book.execute [LESSON …]      LESSON: the beginning of a name, such as 03

A widget goes on changing after its cell, and is emptied when it ends. So after each cell all widgets are looked at, and of each
the book shows what it looked like when there was most to see.
"""

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

from book.widgets import MODELS, VIEW, picture, reachable
from lab.teach.lessons import FOLDER, build_notebook, lesson_sources

OUT = FOLDER.parent / "build" / "lessons"
PATIENCE_S = 600  # for a cell
LOOK = "__import__('pathlib').Path({!r}).write_text(__import__('json').dumps(__import__('ipywidgets').Widget.get_manager_state(), default=str));"


def execute(source: Path) -> None:
    """Runs a lesson with its solutions. Raises CellExecutionError."""
    notebook, copy = build_notebook(source, with_solutions=True), OUT / f"{source.stem}.ipynb"
    version = hashlib.sha256(nbformat.writes(notebook).encode()).hexdigest()
    if copy.exists() and nbformat.read(copy, as_version=4).metadata.get("version") == version:
        return
    print(f"running {source.stem}", flush=True)
    os.environ["PYTHONPATH"] = str(FOLDER.parent)
    os.environ["LAB_DATA"] = str(OUT / "progress")  # nothing is solved when a lesson of the book begins
    shutil.rmtree(OUT / "progress", ignore_errors=True)
    client = NotebookClient(notebook, timeout=PATIENCE_S, resources={"metadata": {"path": FOLDER}})
    with TemporaryDirectory(prefix="lab-book-") as folder, client.setup_kernel():
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)
            if views := _views(notebook.cells[: index + 1]):
                _look(client, views, Path(folder, "widgets.json"))
    notebook.metadata["version"] = version
    nbformat.write(notebook, copy)


def _views(cells: list) -> list[dict]:
    """The data of the outputs that show a widget."""
    outputs = (output.get("data", {}) for cell in cells for output in cell.get("outputs", []))
    return [data for data in outputs if VIEW in data]


def _look(client: NotebookClient, views: list[dict], file: Path) -> None:
    """Keeps a widget's state beside its view, if it shows no less than before."""
    probe = nbformat.v4.new_code_cell(LOOK.format(str(file)))
    client.nb.cells.append(probe)
    client.execute_cell(probe, len(client.nb.cells) - 1, store_history=False)
    client.nb.cells.pop()
    models = json.loads(file.read_text())["state"]
    for data in views:
        own = reachable(data[VIEW]["model_id"], models)
        before = picture(data[VIEW]["model_id"], data.get(MODELS, {}))
        if len(picture(data[VIEW]["model_id"], own)) >= len(before):
            data[MODELS] = own


def all_lessons(names: tuple[str, ...] = ("",)) -> None:
    """Runs the lessons whose names begin so."""
    OUT.mkdir(parents=True, exist_ok=True)
    for path in lesson_sources():
        if path.stem.startswith(names):
            execute(path)


if __name__ == "__main__":
    all_lessons(tuple(sys.argv[1:]) or ("",))
