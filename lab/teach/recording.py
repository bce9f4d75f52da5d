"""Runs lessons on this computer and records the cells that a browser cannot run: `make recorded`.

lessons/source ──► run with the solutions ──► outputs of the native cells ──► lab/teach/recorded.json
"""

import json
import os
from typing import Any

from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from lab.teach.lessons import FOLDER, built, sources
from lab.teach.recorded import FIGURE, RECORDED, native

PATIENCE_S = 600
FIGURES = f"""
import json
from lab.widgets.figures import Figure

def told(figure, **_):
    return {{"text/plain": "", "{FIGURE}": json.loads(figure.to_json()) | {{"config": figure._config}}}}

Figure._repr_mimebundle_ = told
"""
KEPT = ("text/html", "text/plain", FIGURE)
WIDGET = "A widget, which a recording cannot show."


def main() -> None:
    """Records all lessons anew."""
    os.environ["PYTHONPATH"] = str(FOLDER.parent)
    found = {}
    for source in sources():
        notebook = built(source, solved=True)
        if cells := native(notebook.cells):
            print(f"{source.stem}: {len(cells)} cells")
            run(notebook)
            found[source.stem] = [recorded(cell) for cell in cells]
    RECORDED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def run(notebook: NotebookNode) -> None:
    """Runs the cells; figures become data."""
    before = new_code_cell(FIGURES)
    client = NotebookClient(notebook, timeout=PATIENCE_S, resources={"metadata": {"path": FOLDER}})
    notebook.cells.insert(0, before)
    client.execute()
    notebook.cells.remove(before)


def recorded(cell: NotebookNode) -> dict[str, Any]:
    """A cell's source, and of its outputs what can be shown again."""
    outputs: list[dict[str, Any]] = []
    for output in cell.outputs:
        if output.output_type == "stream":
            if output.name == "stdout":
                outputs.append({"text": output.text})
        elif "application/vnd.jupyter.widget-view+json" in output.data:
            outputs.append({"text": WIDGET})
        else:
            outputs.append({"data": {kind: output.data[kind] for kind in KEPT if kind in output.data}})
    return {"source": cell.source, "check": "check" in cell.metadata.get("tags", []), "outputs": outputs}


if __name__ == "__main__":
    main()
