"""Generates the notebooks of the lessons from `notebooks/source/*.md`: prose, and code in fences.

    ```python tags=["exercise"]      the learner's: a stub
    ```python tags=["solution"]      not in the notebook: `lab.solution` shows it; the tests run it in the stub's place
    ```python tags=["check"]         judges the answer, with a hint if it is wrong
    lab.predict(…, right=…, because=…)      the notebook has the question and its options only

`make lessons` writes `notebooks/*.ipynb`, which are never edited, and the answers apart from them, `lab/teach/answers.json`;
and docs/glossary.md. Nothing is run and no output is written.
"""

import ast
import json
import re
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode

from lab.teach import ANSWERS, glossary

FOLDER = Path(__file__).parent.parent.parent / "notebooks"
GLOSSARY = FOLDER.parent / "docs" / "glossary.md"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
GRADED: dict[str, dict[str, Any]] = {  # what nbgrader reads
    "exercise": {"grade": False, "locked": False, "solution": True},
    "check": {"grade": True, "locked": True, "solution": False, "points": 1},
}
ASKED = "lab.predict("
EXERCISE = re.compile(r"^#+ Exercise (\d+)(?::| ·) (.+)$", re.MULTILINE)


def built(source: Path, solved: bool = False) -> NotebookNode:
    """The notebook of a source; `solved`: with the solutions run after the exercises' stubs."""
    cells, lesson, exercises = [], _lesson(source), 0
    for number, cell in enumerate(_cells(source, solved)):
        tags = _tags(cell)
        exercises += "exercise" in tags
        cell.source = _without_answer(cell.source)
        cell.metadata = {"tags": tags} if tags else {}
        if graded := GRADED.get(next(iter(tags), "")):
            name = f"{tags[0]}-{lesson}-{exercises}"
            cell.metadata["nbgrader"] = {"grade_id": name, "schema_version": 3, "task": False, **graded}
        cell["id"] = f"cell-{number}"
        cells.append(cell)
    made = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL})
    made.metadata["language_info"] = {"name": "python"}
    return made


def answers() -> dict[str, dict]:
    """What the notebooks do not tell: solutions by exercise, and of each prediction the right option and why; and titles."""
    found: dict[str, dict] = {"titles": {}, "solutions": {}, "predictions": {}}
    for source in sources():
        cells = _cells(source, solved=True)
        solutions = [cell.source for cell in cells if "solution" in _tags(cell)]
        lesson = _lesson(source)
        found["solutions"] |= {f"{lesson}.{n}": code for n, code in enumerate(solutions, 1)}
        text = source.read_text()
        if solutions:
            found["titles"][lesson] = text.splitlines()[0].partition(" · ")[2]
        found["titles"] |= {f"{lesson}.{number}": title for number, title in EXERCISE.findall(text)}
        for cell in cells:
            if asked := prediction(cell.source):
                question, _, right, because = asked
                found["predictions"][question] = [right, because]
    return found


def _lesson(source: Path) -> str:
    return source.stem.partition("-")[0].lstrip("0") or "0"


def _cells(source: Path, solved: bool) -> list[NotebookNode]:
    return [cell for cell in jupytext.read(source).cells if solved or "solution" not in _tags(cell)]


def _tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def prediction(code: str) -> tuple[str, list[str], str, str] | None:
    """What a cell lets the reader predict: question, options, the right one, why; None if nothing.

    >>> prediction('lab.predict("Odd?", ["1", "2"], right=0, because="It is.")')
    ('Odd?', ['1', '2'], '1', 'It is.')
    """
    if ASKED not in code:
        return None
    call = _call(code)
    question, options = map(ast.literal_eval, call.args)
    told = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    return question, options, options[told["right"]], told["because"]


def _without_answer(code: str) -> str:
    """A cell without the answer to its prediction."""
    if ASKED not in code:
        return code
    at = code.index(ASKED)
    question, options = (ast.get_source_segment(code[at:], argument) for argument in _call(code).args)
    return f"{code[:at]}{ASKED}\n    {question},\n    {options},\n)"


def _call(code: str) -> ast.Call:
    statement: Any = ast.parse(code[code.index(ASKED) :]).body[0]
    return statement.value


def sources() -> list[Path]:
    """The lessons, in order."""
    return sorted((FOLDER / "source").glob("*.md"))


def notebook_of(source: Path) -> Path:
    """The path of a source's notebook."""
    return FOLDER / f"{source.stem}.ipynb"


if __name__ == "__main__":
    for path in sources():
        nbformat.write(built(path), notebook_of(path))
        print(notebook_of(path).relative_to(FOLDER.parent))
    GLOSSARY.write_text(glossary.page(sources()))
    ANSWERS.write_text(json.dumps(answers(), indent=1, ensure_ascii=False) + "\n")
