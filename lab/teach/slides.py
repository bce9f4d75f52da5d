"""Slides for a talk, generated from a lesson: `make slides` writes slides/*.html, each complete in itself, for a room without network.

A lesson that has a translation also has slides in its language, slides/ko/*.html. The English cell says what is on a slide, the
translated one how it reads.

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

from lab.model.language import ENGLISH, say, speak
from lab.teach import translations
from lab.teach.lessons import FOLDER, columns, languages_of, lesson_sources, parse_prediction

REVEAL = FOLDER / "slides" / "reveal"  # as its authors publish it, with its licence
LEFT_OUT = ("When you are done", "Where this comes from")
FENCE, HEADING, LIST = "```", re.compile(r"(#+) (.*)"), re.compile(r"([-*]|\d+\.) ")
ENTRY = re.compile(r"\n(?=[-*] |\d+\. )")
SENTENCE = re.compile(r".+?(?:[.?!][*_)]*(?=\s|$)|[。？！][）”]*(?:[*_]+(?=\s|$))?|$)\s*")
EXERCISE = "Exercise "
PICTURES = FOLDER.parent / "docs" / "pictures"  # of scopes, as a browser showed them
SCOPES = {"WindowScope": "window-scope.png", "KeyGroupScope": "key-group-scope.png"}
# that a slide holds, that a line holds; a picture's line beside one of text
LINES, LETTERS, SMALL = 14, 76, 0.62
WIDTH, HEIGHT = 1366, 768
Section = tuple[int, str, list[str]]  # level, title and blocks of a heading


def slide_notebook(source: Path, language: str = ENGLISH) -> NotebookNode:
    """The notebook of a lesson's slides: markdown cells with their places in the talk."""
    speak(language)
    made = nbformat.v4.new_notebook()
    made.cells = list(_cells(source, translations.read_translations(language, source.stem)))
    for number, cell in enumerate(made.cells):
        cell["id"] = f"slide-{number}"
    made.metadata["title"] = source.stem
    return made


def slides_page(source: Path, language: str = ENGLISH) -> str:
    """A self-contained page."""
    exporter = SlidesExporter(
        extra_template_paths=[str(REVEAL.parent)], template_file="slides.html.j2", exclude_input_prompt=True
    )
    files = {path.name.replace(".", "_"): path.read_text() for path in REVEAL.iterdir() if path.suffix}
    resources = files | {"width": WIDTH, "height": HEIGHT, "language": language}
    return exporter.from_notebook_node(slide_notebook(source, language), resources=resources)[0]


def _cells(source: Path, translated: dict[str, str]) -> Iterator[NotebookNode]:
    for cell in jupytext.read(source).cells:
        text = translated.get(cell.source, cell.source)
        if cell.cell_type == "markdown":
            for of_source, of_text in zip(_sections(cell.source), _sections(text), strict=True):
                yield from _section(of_source, of_text)
        elif asked := parse_prediction(text):
            listed = "\n".join(f"- {option}" for option in asked["options"])
            yield _cell("subslide", f"### {say('What do you think?')}\n\n{asked['question']}\n\n{listed}")
            yield _cell("fragment", f"**{asked['options'][asked['right']]}** {asked['because']}")
        else:
            yield from _drawn(text)


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
            title = next((text for text in texts if isinstance(text, str)), say("A plot"))
            yield _cell(
                "subslide",
                f"### {title}\n\n{say('Run the cell in the notebook, and look at its plot together.')}",
            )


def _sections(text: str) -> Iterator[Section]:
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


def _section(source: Section, translated: Section) -> Iterator[NotebookNode]:
    """The slides of one heading, as many as its blocks need, and the notes to them."""
    (level, english, _), (_, title, _) = source, translated
    if english in LEFT_OUT:
        return
    kind = "slide" if level in (1, 2) else "subslide"
    heading = f"{'#' * max(level, 2)} {title}" if level else ""
    page: list[str] = []
    notes: list[str] = []
    pieces = (chain.from_iterable(map(_pieces, blocks)) for _, _, blocks in (source, translated))
    for of_source, block in zip(*pieces, strict=True):
        shown = _shown(block, whole=english.startswith(EXERCISE)) if _is_shown(of_source) else ""
        if page and shown and sum(map(_height, page)) + _height(shown) > LINES:
            yield from _slide(kind, heading, page, notes)
            more = say(" (more)")
            kind, heading, page, notes = "subslide", heading.removesuffix(more) + more * bool(heading), [], []
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


def _is_shown(block: str) -> bool:
    """Whether a room sees anything of a block: not of the table of words, nor of what only a reader needs."""
    return not block.startswith(("| term", "| word", "**Words**", "*Time needed", "<"))


def _shown(block: str, whole: bool = False) -> str:
    """What of a block a room sees: pictures, lists and tables whole; of a paragraph the first sentence and all questions,
    or the `whole` of it.

    >>> _shown("One: a *pair*. Two. *Which one?* It is said below."), _shown("一。*二*。三？四。")
    ('One: a *pair*. *Which one?*', '一。三？')
    """
    if block.startswith((FENCE, "|")) or LIST.match(block):
        return block
    first, *others = SENTENCE.findall(" ".join(block.split()))
    shown = [first, *(each for each in others if whole or each.rstrip(" *_)）”").endswith(("?", "？")))]
    return "".join(shown).rstrip()


def _height(block: str) -> float:
    """Lines on the slide: letters of a picture are smaller, and what is long takes several."""
    lines = block.splitlines()
    if block.startswith(FENCE):
        return 1 + SMALL * len(lines)
    if block.startswith("|"):
        return 0.5 + 1.15 * len(lines)
    return 1.3 + columns(" ".join(lines)) // LETTERS


def main(folder: Path) -> None:
    """Writes the slides of all lessons into a folder, and into one below it for each language."""
    for source in lesson_sources():
        for language in languages_of(source) if source.stem[0].isdigit() else ():
            page = folder / ("" if language == ENGLISH else language) / f"{source.stem}.html"
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(slides_page(source, language))
            print(page)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
