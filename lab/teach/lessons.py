"""Makes the notebooks of the lessons out of their one source, `notebooks/source/*.md`: prose, and code in fences.

    ```python tags=["exercise"]      the learner's: a stub
    ```python tags=["solution"]      not in the notebook: `lab.solution` shows it; the tests run it in the stub's place
    ```python tags=["check"]         judges the answer, with a hint if it is wrong
    lab.predict(…, right=…, because=…)      the notebook has the question and its options only

`make lessons` writes `notebooks/*.ipynb`, which are never edited, and the answers apart from them, `lab/teach/answers.json`;
and docs/glossary.md. Nothing is run and no output is written.
"""

import ast
import json
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode

from lab.teach import ANSWERS, glossary

FOLDER = Path(__file__).parent.parent.parent / "notebooks"
GLOSSARY = FOLDER.parent / "docs" / "glossary.md"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
ASKED = "lab.predict("


def built(source: Path, solved: bool = False) -> NotebookNode:
    """The notebook of a source; `solved`: with the solutions run after the exercises' stubs."""
    cells = []
    for number, cell in enumerate(_cells(source, solved)):
        cell.source = _asked(cell.source)[0]
        cell.metadata = {"tags": tags} if (tags := _tags(cell)) else {}
        cell["id"] = f"cell-{number}"
        cells.append(cell)
    made = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL})
    made.metadata["language_info"] = {"name": "python"}
    return made


def answers() -> dict[str, dict]:
    """What the notebooks do not tell: solutions by exercise, and of each prediction the right option and why."""
    found: dict[str, dict] = {"solutions": {}, "predictions": {}}
    for source in sources():
        cells = _cells(source, solved=True)
        solutions = [cell.source for cell in cells if "solution" in _tags(cell)]
        lesson = source.stem.partition("-")[0].lstrip("0") or "0"
        found["solutions"] |= {f"{lesson}.{n}": code for n, code in enumerate(solutions, 1)}
        for cell in cells:
            found["predictions"] |= _asked(cell.source)[1]
    return found


def _cells(source: Path, solved: bool) -> list[NotebookNode]:
    return [cell for cell in jupytext.read(source).cells if solved or "solution" not in _tags(cell)]


def _tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def _asked(code: str) -> tuple[str, dict[str, list[str]]]:
    """A cell without the answer to its prediction, and that answer: question -> right option, why."""
    at = code.find(ASKED)
    if at < 0:
        return code, {}
    statement: Any = ast.parse(code[at:]).body[0]
    call = statement.value
    question, options = (ast.get_source_segment(code[at:], argument) for argument in call.args)
    told = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    right = ast.literal_eval(call.args[1])[told["right"]]
    stripped = f"{code[:at]}{ASKED}\n    {question},\n    {options},\n)"
    return stripped, {ast.literal_eval(call.args[0]): [right, told["because"]]}


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
    GLOSSARY.write_text(glossary.page(sources()))
    ANSWERS.write_text(json.dumps(answers(), indent=1, ensure_ascii=False) + "\n")
