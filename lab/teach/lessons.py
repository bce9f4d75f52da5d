"""Generates the notebooks of the lessons from `notebooks/source/*.md`: prose, and code in fences.

    ```python tags=["exercise"]      the learner's: a stub
    ```python tags=["solution"]      not in the notebook: `lab.solution` shows it; the tests run it in the stub's place
    ```python tags=["check"]         judges the answer, with a hint if it is wrong
    lab.predict(…, right=…, because=…)      the notebook has the question and its options only

`make lessons` writes `notebooks/*.ipynb`, which are never edited, and the answers apart from them, `lab/teach/answers.json`;
and docs/glossary.md. A lesson that has a translation is also written in its language, `notebooks/ko/*.ipynb`.
Nothing is run and no output is written.
"""

import ast
import json
import re
import sys
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

import jupytext
import nbformat
from nbformat import NotebookNode

from lab.model.language import ENGLISH
from lab.teach import ANSWERS, glossary, pages, sentences, translations

FOLDER = Path(__file__).parent.parent.parent / "notebooks"
GLOSSARY = FOLDER.parent / "docs" / "glossary.md"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
GRADED: dict[str, dict[str, Any]] = {  # what nbgrader reads
    "exercise": {"grade": False, "locked": False, "solution": True},
    "check": {"grade": True, "locked": True, "solution": False, "points": 1},
}
LESSON_LINK = re.compile(r"(?<=\]\()([^/()\s]+\.ipynb)")
FIRST_CALL = re.compile(r"^(?=lab\.(?:running_time|ControlRoomLauncher)\(\))", re.MULTILINE)
ASKED = "lab.predict("
WIDEST = 102  # columns of a question in a cell
WORD = re.compile(r"[\u3000-\u9fff\uff00-\uffef]\s*|[^\s\u3000-\u9fff\uff00-\uffef]+\s*|\s+")
SENTENCES = {"words": sentences.sentences_given_to_say, "messages": sentences.error_templates}
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
EXERCISE = re.compile(r"^#+ Exercise (\d+)(?::| ·) (.+)$", re.MULTILINE)


def build_notebook(source: Path, with_solutions: bool = False, language: str = ENGLISH) -> NotebookNode:
    """The notebook of a source; `with_solutions`: solutions follow the exercises' stubs."""
    cells, lesson, exercises = [], lesson_number(source), 0
    translated = translations.read_translations(language, source.stem)
    for number, cell in enumerate(_cells(source, with_solutions)):
        tags = _tags(cell)
        exercises += "exercise" in tags
        cell.source = _without_answer(translated.get(cell.source, cell.source))
        if language != ENGLISH:
            cell.source = LESSON_LINK.sub(lambda link: _link(link[1], language), cell.source)
            if translations.read_translations(language, "words"):
                cell.source = FIRST_CALL.sub(f'lab.speak("{language}")\n', cell.source)
        cell.metadata = {"tags": tags} if tags else {}
        if graded := GRADED.get(next(iter(tags), "")):
            name = f"{tags[0]}-{lesson}-{exercises}"
            cell.metadata["nbgrader"] = {"grade_id": name, "schema_version": 3, "task": False, **graded}
        cell["id"] = f"cell-{number}"
        cells.append(cell)
    made = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL})
    made.metadata["language_info"] = {"name": "python"}
    return made


def titles_solutions_and_predictions() -> dict[str, dict]:
    """What the notebooks do not tell: solutions by exercise, each prediction in each language with its answer; and titles."""
    found: dict[str, dict] = {"titles": {}, "solutions": {}, "predictions": {}}
    for source in lesson_sources():
        cells = _cells(source, with_solutions=True)
        solutions = [cell.source for cell in cells if "solution" in _tags(cell)]
        lesson = lesson_number(source)
        found["solutions"] |= {f"{lesson}.{n}": code for n, code in enumerate(solutions, 1)}
        text = source.read_text()
        if solutions:
            found["titles"][lesson] = text.splitlines()[0].partition(" · ")[2]
        found["titles"] |= {f"{lesson}.{number}": title for number, title in EXERCISE.findall(text)}
        spoken: dict[str, dict[str, str]] = {ENGLISH: {}} | {
            language: translations.read_translations(language, source.stem)
            for language in translations.languages()
        }
        number, section = 0, ""
        for cell in cells:
            if cell.cell_type == "markdown" and SECTION.search(cell.source):
                section = cell.source
            elif ASKED in cell.source:
                number += 1
                found["predictions"][f"{lesson}.{number}"] = {
                    language: (parse_prediction(pairs.get(cell.source, cell.source)) or {})
                    | {"section": SECTION.findall(pairs.get(section, section))[-1]}
                    for language, pairs in spoken.items()
                    if language == ENGLISH or cell.source in pairs
                }
    return found


def lesson_number(source: Path) -> str:
    """The number of a lesson, as its exercises have it.

    >>> lesson_number(Path("03-custom-windows.md")), lesson_number(Path("10-rules-that-say-more.md"))
    ('3', '10')
    """
    return source.stem.partition("-")[0].lstrip("0") or "0"


def _cells(source: Path, with_solutions: bool) -> list[NotebookNode]:
    found = source.stat()
    cells = _parse_source(source, found.st_mtime_ns, found.st_size)
    return [deepcopy(cell) for cell in cells if with_solutions or "solution" not in _tags(cell)]


@lru_cache(maxsize=64)
def _parse_source(path: Path, mtime_ns: int, size: int) -> list[NotebookNode]:
    """Parses a source once for each state of it: each language and each reader of the answers needs it."""
    return jupytext.read(path).cells


def _tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def parse_prediction(code: str) -> dict[str, Any] | None:
    """What a cell lets the reader predict: question, options, the number of the right one, why; None if nothing.

    >>> parse_prediction('lab.predict("Odd?", ["1", "2"], right=0, because="It is.")')
    {'question': 'Odd?', 'options': ['1', '2'], 'right': 0, 'because': 'It is.'}
    """
    if ASKED not in code:
        return None
    call = _call(code)
    question, options = map(ast.literal_eval, call.args)
    arguments = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    return {"question": question, "options": options, **arguments}


def _without_answer(code: str) -> str:
    """A cell without the answer to its prediction."""
    if ASKED not in code:
        return code
    at = code.index(ASKED)
    question, options = (ast.get_source_segment(code[at:], argument) or "" for argument in _call(code).args)
    return f"{code[:at]}{ASKED}\n    {_in_lines(question)},\n    {options},\n)"


def _in_lines(literal: str) -> str:
    """A text literal, in several lines if one is wider than a cell at 1366 pixels, beside the list of files.

    >>> _in_lines("'How many?'")
    "'How many?'"
    >>> print(_in_lines(repr("word " * 21 + "end")))
    (
            "word word word word word word word word word word word word word word word word word word word word "
            "word end"
        )
    """
    lines = [""]
    for piece in WORD.findall(ast.literal_eval(literal)):
        if columns(lines[-1] + piece.rstrip()) > WIDEST:
            lines.append("")
        lines[-1] += piece
    if len(lines) == 1:
        return literal
    return "(\n" + "".join(f"        {json.dumps(line, ensure_ascii=False)}\n" for line in lines) + "    )"


def columns(text: str) -> int:
    """How wide a text is, in characters of the Latin alphabet.

    >>> columns("key"), columns("键")
    (3, 2)
    """
    return sum(2 if east_asian_width(sign) in "WF" else 1 for sign in text)


def _call(code: str) -> ast.Call:
    statement: Any = ast.parse(code[code.index(ASKED) :]).body[0]
    return statement.value


def lesson_sources() -> list[Path]:
    """The lessons, in order."""
    return sorted((FOLDER / "source").glob("*.md"))


def notebook_path(source: Path, language: str = ENGLISH) -> Path:
    """The path of a source's notebook."""
    return (FOLDER if language == ENGLISH else FOLDER / language) / f"{source.stem}.ipynb"


def languages_of(source: Path) -> list[str]:
    """English, and the languages that a lesson is translated into."""
    return [
        ENGLISH,
        *(name for name in translations.languages() if translations.read_translations(name, source.stem)),
    ]


def kinds_of_translatable_texts(lesson: str) -> dict[str, str]:
    """The cells of a lesson that hold words, each with its kind; of a page, its paragraphs; of the glossary, what no lesson says."""
    if lesson in pages.PAGES:
        return dict.fromkeys(pages.translatable_paragraphs(lesson), "markdown")
    if lesson == "glossary":
        return dict.fromkeys(glossary.own_texts(), "markdown")
    cells = _cells(FOLDER / "source" / f"{lesson}.md", with_solutions=True)
    return {
        cell.source: cell.cell_type for cell in cells if translations.has_words(cell.source, cell.cell_type)
    }


def _link(notebook: str, language: str) -> str:
    """Where a lesson is, seen from a translated one: beside it, or in English above it."""
    return notebook if translations.read_translations(language, Path(notebook).stem) else f"../{notebook}"


def write_generated_files() -> None:
    """Writes the notebooks, the glossary, the answers and the catalogs of words."""
    translations.write_json_catalogs()
    for path in lesson_sources():
        for language in languages_of(path):
            notebook = notebook_path(path, language)
            notebook.parent.mkdir(exist_ok=True)
            nbformat.write(build_notebook(path, language=language), notebook)
            print(notebook.relative_to(FOLDER.parent))
    for language in translations.languages():
        for page, path in pages.PAGES.items():
            if translations.read_translations(language, page):
                pages.in_language(path, language).write_text(pages.translated_page(page, language))
        if translations.read_translations(language, "glossary"):
            page = glossary.glossary_page(lesson_sources(), language)
            pages.in_language(GLOSSARY, language).write_text(page)
    GLOSSARY.write_text(glossary.glossary_page(lesson_sources()))
    ANSWERS.write_text(json.dumps(titles_solutions_and_predictions(), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    _, *named = sys.argv
    for lesson in named[1:]:
        if lesson == "page":
            found = translations.page_catalog_texts(named[0])
        else:
            found = SENTENCES[lesson]() if lesson in SENTENCES else list(kinds_of_translatable_texts(lesson))
        print(translations.update_po_file(named[0], lesson, found))
    if not named:
        write_generated_files()
