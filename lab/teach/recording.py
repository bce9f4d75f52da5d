"""Runs lessons on this computer and records the cells that a browser cannot run: `make recorded`.

lessons/source ──► run with the solutions ──► outputs of the native cells ──► lab/teach/recorded.json
"""

import json
import os
import sys
from typing import Any

from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from lab.teach.lessons import FOLDER, build_notebook, lesson_sources
from lab.teach.recorded import FIGURE, RECORDED, native_only_cells

PATIENCE_S = 600
FIGURES = f"""
import json
from lab.widgets.figures import Figure

def figure_as_json(figure, **_):
    return {{"text/plain": "", "{FIGURE}": json.loads(figure.to_json()) | {{"config": figure._config}}}}

Figure._repr_mimebundle_ = figure_as_json
"""
KINDS = (FIGURE, "text/html", "text/plain")  # of an output's, the first is kept
WIDGET = "(A widget, which only the lesson on a computer can show.)"


def record_lessons(name_prefixes: tuple[str, ...]) -> None:
    """Records the lessons whose names begin with one of the prefixes, such as "03"; without prefixes, all lessons."""
    os.environ["PYTHONPATH"] = str(FOLDER.parent)
    before, found = json.loads(RECORDED.read_text()), {}
    for source in lesson_sources():
        notebook = build_notebook(source, with_solutions=True)
        if name_prefixes and not source.stem.startswith(name_prefixes):
            found |= {name: cells for name, cells in before.items() if name == source.stem}
            continue
        if cells := native_only_cells(notebook.cells):
            print(f"{source.stem}: {len(cells)} cells")
            run_cells(notebook)
            found[source.stem] = [recorded_cell(cell) for cell in cells]
    RECORDED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def run_cells(notebook: NotebookNode) -> None:
    """Runs the cells; figures become data."""
    before = new_code_cell(FIGURES)
    client = NotebookClient(notebook, timeout=PATIENCE_S, resources={"metadata": {"path": FOLDER}})
    notebook.cells.insert(0, before)
    client.execute()
    notebook.cells.remove(before)


def recorded_cell(cell: NotebookNode) -> dict[str, Any]:
    """A cell's source, and of its outputs what can be shown again."""
    outputs: list[dict[str, Any]] = []
    is_check = "check" in cell.metadata.get("tags", [])
    for output in () if is_check else cell.outputs:
        if output.output_type == "stream":
            if output.name == "stdout":
                outputs.append({"text": output.text})
        elif "application/vnd.jupyter.widget-view+json" in output.data:
            outputs.append({"text": WIDGET})
        else:
            kind = next(kind for kind in KINDS if kind in output.data)
            outputs.append({"data": {kind: output.data[kind]}})
    return {"source": cell.source, "check": is_check, "outputs": outputs}


if __name__ == "__main__":
    record_lessons(tuple(sys.argv[1:]))
