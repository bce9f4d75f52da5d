"""Slides for a talk, generated from a lesson: `make slides` writes slides/*.html, each complete in itself, for a room without network.

    heading                 a slide; ### one below it
    picture, list, table    on the slide
    paragraph               its first sentence and its questions on the slide, all of it in the speaker's notes (key S)
    exercise                its paragraphs, whole
    lab.predict(…)          the question and its options; the answer at the next key
    code that draws         the picture of a scope; for a plot, when to run its cell in the notebook, beside the slides
    other code              is run in the notebook

The full text stays in the notes, so that the slides say no more than a room can read.
"""

import ast
import re
import sys
from base64 import b64encode
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import jupytext
import nbformat
from nbconvert import SlidesExporter
from nbformat import NotebookNode

from lab.teach.lessons import FOLDER, lesson_sources, parse_prediction

REVEAL = FOLDER / "slides" / "reveal"  # as its authors publish it, with its licence
LEFT_OUT = ("When you are done", "Where this comes from")
FENCE, HEADING, LIST = "```", re.compile(r"(#+) (.*)"), re.compile(r"([-*]|\d+\.) ")
ENTRY = re.compile(r"\n(?=[-*] |\d+\. )")
SENTENCE = re.compile(r".+?(?:[.?!][*_)]*(?=\s|$)|$)\s*")
EXERCISE = "Exercise "
PICTURES = FOLDER.parent / "docs" / "pictures"  # of scopes, as a browser showed them
SCOPES = {"WindowScope": "window-scope.png", "KeyGroupScope": "key-group-scope.png"}
# that a slide holds, that a line holds; a picture's line beside one of text
LINES, LETTERS, SMALL = 14, 76, 0.62
WIDTH, HEIGHT = 1366, 768
MORE = " (more)"


def slide_notebook(source: Path) -> NotebookNode:
    """The notebook of a lesson's slides: markdown cells with their places in the talk."""
    made = nbformat.v4.new_notebook()
    made.cells = list(_cells(source))
    for number, cell in enumerate(made.cells):
        cell["id"] = f"slide-{number}"
    made.metadata["title"] = source.stem
    return made


def slides_page(source: Path) -> str:
    """A self-contained page."""
    exporter = SlidesExporter(
        extra_template_paths=[str(REVEAL.parent)], template_file="slides.html.j2", exclude_input_prompt=True
    )
    files = {path.name.replace(".", "_"): path.read_text() for path in REVEAL.iterdir() if path.suffix}
    return exporter.from_notebook_node(
        slide_notebook(source), resources=files | {"width": WIDTH, "height": HEIGHT}
    )[0]


def _cells(source: Path) -> Iterator[NotebookNode]:
    for cell in jupytext.read(source).cells:
        if cell.cell_type == "markdown":
            for level, title, blocks in _sections(cell.source):
                yield from _section(level, title, blocks)
        elif asked := parse_prediction(cell.source):
            question, options, right, because = asked
            listed = "\n".join(f"- {option}" for option in options)
            yield _cell("subslide", f"### What do you think?\n\n{question}\n\n{listed}")
            yield _cell("fragment", f"**{right}** {because}")
        else:
            yield from _drawn(cell.source)


def _cell(kind: str, text: str) -> NotebookNode:
    return nbformat.v4.new_markdown_cell(text, metadata={"slideshow": {"slide_type": kind}})


def _drawn(code: str) -> Iterator[NotebookNode]:
    """A slide for each picture that code draws: `lab.pictures.bars(…, "Alerts")`, `lab.WindowScope(…)`, …"""
    for call in (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func).removeprefix("lab.")
        if file := SCOPES.get(name):
            data = b64encode((PICTURES / file).read_bytes()).decode()
            yield _cell("subslide", f'<img class="scope" alt="{name}" src="data:image/png;base64,{data}">')
        elif name.startswith("pictures.") or name in ("compare_rules", "RuleTuningScope"):
            texts = [each.value for each in call.args if isinstance(each, ast.Constant)]
            title = next((text for text in texts if isinstance(text, str)), "A plot")
            yield _cell(
                "subslide", f"### {title}\n\nRun the cell in the notebook, and look at its plot together."
            )


def _sections(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Level, title and blocks of each heading; what comes before the first has level 0.

    >>> list(_sections("# A\\n\\nb\\nc\\n\\n## D"))
    [(1, 'A', ['b\\nc']), (2, 'D', [])]
    """
    level, title, blocks = 0, "", []
    for block in _blocks(text):
        if heading := HEADING.fullmatch(block):
            if level or blocks:
                yield level, title, blocks
            level, title, blocks = len(heading[1]), heading[2], []
        else:
            blocks.append(block)
    if level or blocks:
        yield level, title, blocks


def _blocks(text: str) -> Iterator[str]:
    """What blank lines separate, but for those within a fence."""
    block: list[str] = []
    fenced = False
    for line in [*text.splitlines(), ""]:
        fenced ^= line.startswith(FENCE)
        if line.strip() or fenced:
            block.append(line)
        elif block:
            yield "\n".join(block)
            block = []


def _section(level: int, title: str, blocks: list[str]) -> Iterator[NotebookNode]:
    """The slides of one heading, as many as its blocks need, and the notes to them."""
    if title in LEFT_OUT:
        return
    kind = "slide" if level in (1, 2) else "subslide"
    heading = f"{'#' * max(level, 2)} {title}" if level else ""
    page: list[str] = []
    notes: list[str] = []
    for block in chain.from_iterable(map(_pieces, blocks)):
        shown = _shown(block, whole=title.startswith(EXERCISE))
        if page and shown and sum(map(_height, page)) + _height(shown) > LINES:
            yield from _slide(kind, heading, page, notes)
            kind, heading, page, notes = "subslide", heading.removesuffix(MORE) + MORE * bool(heading), [], []
        page += [shown] if shown else []
        notes.append(block)
    if page or level:
        yield from _slide(kind, heading, page, notes)


def _slide(kind: str, heading: str, page: list[str], notes: list[str]) -> Iterator[NotebookNode]:
    yield _cell(kind, "\n\n".join([heading, *page]).strip())
    if notes:
        yield _cell("notes", "\n\n".join(notes))


def _pieces(block: str) -> list[str]:
    """A list's entries, which may go on different slides; all else is one piece."""
    return ENTRY.split(block) if LIST.match(block) else [block]


def _shown(block: str, whole: bool = False) -> str:
    """What of a block a room sees: pictures, lists and tables whole; of a paragraph the first sentence and all questions,
    or the `whole` of it; no table of words.

    >>> _shown("One: a *pair*. Two. *Which one?* It is said below.")
    'One: a *pair*. *Which one?*'
    """
    if block.startswith((FENCE, "|")) or LIST.match(block):
        return "" if block.startswith(("| term", "| word")) else block
    if block.startswith(("**Words**", "*Time needed", "<")):
        return ""
    first, *others = SENTENCE.findall(" ".join(block.split()))
    shown = [first, *(each for each in others if whole or each.rstrip(" *_)").endswith("?"))]
    return "".join(f"{each.rstrip()} " for each in shown).rstrip()


def _height(block: str) -> float:
    """Lines on the slide: letters of a picture are smaller, and what is long takes several."""
    lines = block.splitlines()
    if block.startswith(FENCE):
        return 1 + SMALL * len(lines)
    if block.startswith("|"):
        return 0.5 + 1.15 * len(lines)
    return 1.3 + len(" ".join(lines)) // LETTERS


def main(folder: Path) -> None:
    """Writes the slides of all lessons into a folder."""
    folder.mkdir(exist_ok=True)
    for source in lesson_sources():
        if source.stem[0].isdigit():
            (folder / f"{source.stem}.html").write_text(slides_page(source))
            print(folder / f"{source.stem}.html")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
