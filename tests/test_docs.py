"""Names in pages, docstrings and messages exist: files, tests, modules, `make` targets, `lab` commands and their options, links."""

import argparse
import ast
import importlib
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from lab.cli.main import build_parser
from lab.sources.infer import infer
from tests.orders import orders

ROOT = Path(__file__).parents[1]
LESSONS = sorted((ROOT / "notebooks" / "source").glob("*.md"))
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / folder / "README.md" for folder in ("datasets", "docker")),
    *LESSONS,
]
CODE = [
    path
    for folder in ("lab", "tests", "tools", "datasets", "book")
    for path in sorted((ROOT / folder).rglob("*.py"))
]

LAB = build_parser()
FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
QUOTED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
FILE = re.compile(
    r"(?<![\w./~-])((?:lab|tests|tools|docs|docker|datasets|notebooks)/[\w./*-]*\w)(?:::(\w+))?"
)
DOTTED = re.compile(r"(?<![\w./-])(?:lab|tests|tools)(?:\.\w+)+(?![\w/{]|\.\w|-\w)")
NAMED_IN = re.compile(r"((?:`[\w.]+`(?:, | and )?)+) in `((?:lab|tests|tools)/[\w/]+\.py)`")
LINK = re.compile(r"\]\(([^)\s:#]*)(?:#([\w-]+))?\)")
LESSON = re.compile(r"lesson (\d), \*([^*]+)\*")

# of what a reader makes, and of pictures that commands draw
EXAMPLES = {"docs/pictures/steady.svg", "notebooks/source/NN-name.md", "lab.Name", "tools/fuzz/corpus/TARGET"}
EXAMPLES |= {"lab/widgets/name.py", "tests/widgets/test_name.py", "lab/teach/exercises/lessonN.py"}
# an option of `make policy`
OTHERS = {"--edits"}
# lab.toml and the like are files
NO_MODULES = {"toml", "json", "lock", "service", "css"}


def docstrings(path: Path) -> Iterator[str]:
    """The docstrings of a module; of a module of `lab` the whole text, because messages and comments name things, too."""
    text = path.read_text(encoding="utf-8")
    if path.is_relative_to(ROOT / "lab"):
        yield text
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""


@cache
def texts() -> list[tuple[str, str]]:
    """All (file, text) that the tests search."""
    pages = [(page, page.read_text(encoding="utf-8")) for page in PAGES]
    code = [(path, text) for path in CODE for text in docstrings(path)]
    return [(str(path.relative_to(ROOT)), text) for path, text in pages + code]


@cache
def definitions(file: Path) -> set[str]:
    """The words in the text of a module."""
    return set(re.findall(r"\w+", file.read_text(encoding="utf-8")))


def is_there(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part, None)
        return found is not None
    return False


def test_each_file_and_test_that_is_named_exists():
    wrong = []
    for where, text in texts():
        for file, test in FILE.findall(text):
            if file in EXAMPLES:
                continue
            found = list(ROOT.glob(file))
            if not found or test and test not in definitions(found[0]):
                wrong.append(f"{where}: {file}{test and '::'}{test}")
    assert wrong == []


def test_each_dotted_name_exists():
    wrong = {
        f"{where}: {name}"
        for where, text in texts()
        for name in DOTTED.findall(text)
        if name.split(".")[1] not in NO_MODULES and name not in EXAMPLES and not is_there(name)
    }
    assert sorted(wrong) == []


def test_a_name_said_to_be_in_a_file_is_in_it():
    wrong = []
    for where, text in texts():
        for names, file in NAMED_IN.findall(text):
            for name in re.findall(r"\w+(?=`)", names):
                if not (ROOT / file).is_file() or name not in definitions(ROOT / file):
                    wrong.append(f"{where}: {name} in {file}")
    assert wrong == []


def test_each_link_leads_somewhere():
    wrong = []
    for page in PAGES:
        # links in a lesson count from its notebook
        folder = page.parent.parent if page in LESSONS else page.parent
        for target, anchor in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
            to = (folder / target).resolve() if target else page
            if not to.exists() or anchor and anchor not in anchors(to):
                wrong.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert wrong == []


@cache
def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of the headings, and those that stand there; those of a notebook are in its source."""
    if page.suffix == ".ipynb":
        page = page.parent / "source" / f"{page.stem}.md"
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {*re.findall(r'<a id="([^"]+)"></a>', text)} | {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings
    }


def test_each_section_of_a_lesson_that_is_named_exists():
    wrong = []
    for where, text in texts():
        for number, title in LESSON.findall(text):
            (lesson,) = (path for path in LESSONS if path.name.startswith(f"0{number}-"))
            if not re.search(rf"^#.*{re.escape(title)}", lesson.read_text(encoding="utf-8"), re.MULTILINE):
                wrong.append(f"{where}: lesson {number}, {title}")
    assert wrong == []


def in_code(text: str) -> Iterator[str]:
    """The code in a text: in backticks, and the lines of its blocks without a language."""
    for language, block in FENCED.findall(text):
        if not language or language == "text":
            yield from (line.removeprefix(".venv/bin/") for line in block.replace("\\\n", " ").splitlines())
    yield from (code.removeprefix(".venv/bin/") for code in QUOTED.findall(FENCED.sub("", text)))


def test_each_target_of_make_that_is_named_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wrong = [
        f"{where}: make {name}"
        for where, text in texts()
        for code in in_code(text)
        for name in re.findall(r"^make ([a-z-]+)", code)
        if name not in targets
    ]
    assert wrong == []


def subcommands(command: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


@cache
def options_of(command: argparse.ArgumentParser) -> set[str]:
    """The options of a command and of its subcommands."""
    own = {option for action in command._actions for option in action.option_strings}
    return own.union(*(options_of(each) for each in subcommands(command).values()))


def fault(code: str) -> str:
    """The first unknown command or option of a line `lab …`, which need not be complete; empty if all are known."""
    command, words = LAB, re.split(r"\s+", code)[1:]
    while words and (known := subcommands(command)) and re.fullmatch(r"[a-z]+", words[0]):
        if words[0] not in known:
            return words[0]
        command, words = known[words[0]], words[1:]
    if code.startswith("lab doctor"):
        # it reads its own options
        return ""
    named = (word.partition("=")[0] for word in words if re.match(r"--[a-z]", word))
    return next((name for name in named if name not in options_of(command)), "")


def test_each_command_that_is_named_exists_with_its_options():
    wrong = [
        f"{where}: {code}: {bad}"
        for where, text in texts()
        for code in in_code(text)
        if re.match(r"lab [a-z]+($| )", code) and (bad := fault(code))
    ]
    assert wrong == []


def test_each_option_that_is_named_alone_exists():
    wrong = [
        f"{where}: {code}"
        for where, text in texts()
        if where.startswith(("README", "docs"))
        for code in in_code(text)
        if re.match(r"--[a-z]", code) and re.split(r"[ =]", code)[0] not in options_of(LAB) | OTHERS
    ]
    assert wrong == []


def commands(page: Path) -> list[str]:
    """The lines of a page's blocks that are commands: without comments, redirections and the continuation of lines."""
    lines = (
        "\n".join(block for _, block in FENCED.findall(page.read_text())).replace("\\\n", " ").splitlines()
    )
    return [line for line in lines if re.match(r"(\.venv/bin/)?lab [a-z]", line)]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_each_command_of_a_block_is_one(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("datasets").symlink_to(ROOT / "datasets")
    for schema in ("orders.toml", "cards.toml"):
        Path(schema).write_text(infer([line.encode() for line in orders(50)], "orders").toml())
    for command in commands(page):
        words = shlex.split(command, comments=True)[1:]
        words = words[: words.index(">")] if ">" in words else words
        if words[:1] == ["doctor"]:
            continue
        try:
            build_parser().parse_args([re.sub(r"\$\w*URL", "sqlite:///rules.db", word) for word in words])
        except SystemExit:
            pytest.fail(f"{page.name}: {command}")


def test_the_pages_have_commands():
    assert sum(len(commands(page)) for page in PAGES) > 30
