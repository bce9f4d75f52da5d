"""Makes the notebooks of the lessons out of their one source, `notebooks/source/*.md`: prose, and code in fences.

    ```python tags=["exercise"]      the learner's: a stub
    ```python tags=["solution"]      the learner sees it folded, below the check; the tests run it in its place
    ```python tags=["check"]         says what was expected and what came

`make lessons` writes `notebooks/*.ipynb`, which are never edited. Nothing is run and no output is written.
"""

from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

FOLDER = Path(__file__).parent.parent.parent / "notebooks"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def built(source: Path, solved: bool = False) -> NotebookNode:
    """The notebook of a source; `solved`: with the solutions run after the exercises' stubs."""
    notebook = jupytext.read(source)
    cells, solution = [], None
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = {"tags": tags} if tags else {}
        if "solution" in tags and not solved:
            solution = cell.source
            continue
        cells.append(cell)
        if "check" in tags and solution:
            folded = f"<details><summary>Solution</summary>\n\n```python\n{solution}\n```\n</details>"
            cells.append(new_markdown_cell(folded))
            solution = None
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    made = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL})
    made.metadata["language_info"] = {"name": "python"}
    return made


def sources() -> list[Path]:
    """The lessons, in order."""
    return sorted((FOLDER / "source").glob("*.md"))


def notebook_of(source: Path) -> Path:
    """Where the notebook of a source is."""
    return FOLDER / f"{source.stem}.ipynb"


if __name__ == "__main__":
    for path in sources():
        nbformat.write(built(path), notebook_of(path))
        print(notebook_of(path).relative_to(FOLDER.parent))
