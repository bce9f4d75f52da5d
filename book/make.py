"""Makes the book: one static site of all lessons, documents and the API, in build/book.

    lessons ──executed──► build/lessons ──widgets drawn──┐
    docs/, README, CHANGELOG, … ──links to pages only────┼──► build/book-source ──Sphinx──► build/book ──► checked
    docstrings ──────────────────────────────────────────┘

`make book` calls it; `--no-execute` takes lessons as they were last run, without outputs where there are none.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import plotly

from book import api, check, execute, widgets
from lab.teach.lessons import build_notebook, lesson_sources

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build"
SOURCE, SITE, SPHINX = BUILD / "book-source", BUILD / "book", BUILD / "book-env" / "bin" / "sphinx-build"
FILES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "datasets/README.md", "docker/README.md")
PICTURES = (".png", ".svg")
LINK = re.compile(r"(?<!!)\[([^\[\]]*(?:\[[^\]]*\][^\[\]]*)*)\]\(([^()\s:#]+)(#[^()\s]*)?\)")
PARTS = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<summary aria-label="Toggle hidden content">': "<summary>",
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Contents">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="On this page">',
    "<th></th>": "<td></td>",
    '<th class="head"><p></p></th>': "<td></td>",
    '<div id="search-results"></div>': '<h1>Search</h1><div id="search-results"></div>',
}
BESIDE = {  # what `make page` and `make lite` made goes into the site if it is there, and the first page links to it
    "control-room.html": (
        "control-room.html",
        "Try it in this browser, without installing anything: the control room",
    ),
    "lite": ("lite/index.html", "Work through lessons 0, 1, 3, 5 and 9 in this browser"),
}
HIDDEN = {"solution": "Show a solution", "check": "Show its check"}


def documents() -> list[Path]:
    """The Markdown files of the book, from the root; the book is in English."""
    found = (path for path in (ROOT / "docs").rglob("*.md") if not Path(path.stem).suffix)
    return [Path(name) for name in FILES] + sorted(path.relative_to(ROOT) for path in found)


def wanted() -> list[str]:
    """The pages that the site must have."""
    lessons = [f"notebooks/{path.stem}.html" for path in lesson_sources()]
    modules = ["index", "lab", *api.modules([ROOT / path for path in documents()])]
    return [
        "index.html",
        "search.html",
        *lessons,
        *(str(path.with_suffix(".html")) for path in documents()),
        *(f"api/{name}.html" for name in modules),
    ]


def write_sources() -> None:
    """Puts everything that Sphinx reads into build/book-source."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    here = Path(__file__).parent
    shutil.copytree(here / "static", SOURCE / "_static")
    shutil.copy(Path(plotly.__file__).parent / "package_data" / "plotly.min.js", SOURCE / "_static")
    # a page opened from disk loads no modules
    plot_text = (ROOT / "lab" / "widgets" / "plottext.js").read_text().replace("export ", "")
    (SOURCE / "_static" / "plottext.js").write_text(plot_text)
    for name in ("figure.css", "lab.css"):
        shutil.copy(ROOT / "lab" / "widgets" / name, SOURCE / "_static" / f"widgets-{name}")
    shutil.copy(here / "conf.py", SOURCE)
    _write(Path("index.md"), with_beside((here / "index.md").read_text()))
    shutil.copytree(ROOT / "docs" / "pictures", SOURCE / "docs" / "pictures")
    pages = {*documents(), *(Path("notebooks", f"{path.stem}.ipynb") for path in lesson_sources())}
    for path in documents():
        _write(path, with_links_to(pages, path, (ROOT / path).read_text()))
    for name, text in api.pages([ROOT / path for path in documents()]).items():
        _write(Path("api", f"{name}.md"), text)
    for source in lesson_sources():
        _write(Path("notebooks", f"{source.stem}.ipynb"), nbformat.writes(lesson(source)))


def with_beside(index: str) -> str:
    """The first page, with links to what other targets made."""
    there = (link for name, link in BESIDE.items() if (BUILD / name).exists())
    links = "".join(f'- <a href="{address}">{told}</a>\n' for address, told in there)
    return index.replace("- New here:", f"{links}- New here:")


def copy_beside() -> None:
    """Puts what other targets made into the site."""
    for name in BESIDE:
        made = BUILD / name
        if made.is_dir():
            shutil.copytree(made, SITE / name)
        elif made.exists():
            shutil.copy(made, SITE)


def _write(path: Path, text: str) -> None:
    (SOURCE / path).parent.mkdir(parents=True, exist_ok=True)
    (SOURCE / path).write_text(text)


def with_links_to(pages: set[Path], path: Path, text: str) -> str:
    """A document without its links to files that are no pages of the book; their text stays."""

    def kept(link: re.Match) -> str:
        target = Path(*_flat((path.parent / link[2]).parts))
        return link[0] if target in pages or target.suffix in PICTURES else link[1]

    return LINK.sub(kept, text)


def _flat(parts: tuple[str, ...]) -> list[str]:
    """The parts of a path without `..`."""
    flat: list[str] = []
    for part in parts:
        flat = flat[:-1] if part == ".." else [*flat, part]
    return flat


def name_parts(site: Path) -> None:
    """Gives the theme's parts the names and levels that screen readers need."""
    for page in site.rglob("*.html"):
        text = page.read_text()
        for was, better in PARTS.items():
            text = text.replace(was, better)
        page.write_text(text)


def lesson(source: Path) -> nbformat.NotebookNode:
    """A lesson as it was last run; solutions, checks and answers are folded."""
    run = execute.OUT / f"{source.stem}.ipynb"
    notebook = (
        nbformat.read(run, as_version=4) if run.exists() else build_notebook(source, with_solutions=True)
    )
    widgets.make_static(notebook)
    for cell in notebook.cells:
        tags = cell.metadata.setdefault("tags", [])
        for tag in HIDDEN.keys() & set(tags):
            tags.append("hide-cell")
            cell.metadata["mystnb"] = {
                "code_prompt_show": HIDDEN[tag],
                "code_prompt_hide": HIDDEN[tag].replace("Show", "Hide"),
            }
        if "lab.predict(" in cell.source and cell.source.lstrip().startswith(("lab.predict(", "import lab")):
            tags.append("remove-input")
            if not cell.get("outputs"):
                cell["outputs"] = [
                    nbformat.v4.new_output("display_data", {"text/html": widgets.asked(cell.source)})
                ]
    return notebook


if __name__ == "__main__":
    options = argparse.ArgumentParser(prog="make book", description=__doc__.partition("\n")[0])
    options.add_argument("--no-execute", action="store_true", help="take the lessons as they were last run")
    if not options.parse_args().no_execute:
        execute.all_lessons()
    write_sources()
    shutil.rmtree(SITE, ignore_errors=True)
    subprocess.run([SPHINX, "-q", "-b", "html", "-j", "2", SOURCE, SITE], check=True)
    name_parts(SITE)
    copy_beside()
    if told := check.faults(SITE, wanted(), tuple(BESIDE)):
        sys.exit("\n".join(told))
    print(f"{len(list(SITE.rglob('*.html')))} pages; open {SITE / 'index.html'}")
