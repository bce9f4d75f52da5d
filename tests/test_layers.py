"""The rooms of the house: what may import what, by the rooms' names, and no circle of modules."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import lab

ROOT = Path(lab.__file__).parent
BELOW = {  # room -> what it may import beside itself
    "model": "",
    "logs": "model",
    "engine": "model logs",
    "state": "model engine",
    "stream": "model",
    "machine": "logs engine",
    "rulestore": "model logs",
    "restrict": "model logs",
    "apps": "model logs engine state stream machine rulestore restrict",
    "cli": "model logs engine state stream machine rulestore restrict apps teach",
    "contrast": "model logs engine state stream machine apps",
    "widgets": "model engine state stream apps contrast",
    "teach": "model engine stream apps widgets",
    "page": "model engine stream apps widgets",
}


@cache
def modules() -> dict[str, ast.Module]:
    files = {
        ".".join(path.relative_to(ROOT.parent).with_suffix("").parts): path for path in ROOT.rglob("*.py")
    }
    return {name.removesuffix(".__init__"): ast.parse(path.read_text()) for name, path in files.items()}


def imported(nodes: Iterator[ast.AST]) -> set[str]:
    """The modules of ours that statements import."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            within = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in modules() else node.module for name in within}
    return names & modules().keys()


@pytest.mark.parametrize("room", BELOW)
def test_a_room_imports_only_what_is_below_it(room):
    """Wherever the import stands: within a function, too."""
    allowed = {room, *BELOW[room].split()}
    wrong = {
        f"{name} imports {other}"
        for name, tree in modules().items()
        if name.startswith(f"lab.{room}.") or name == f"lab.{room}"
        for other in imported(ast.walk(tree))
        if other.split(".")[1:2] and other.split(".")[1] not in allowed
    }
    assert not wrong


def test_every_room_is_on_the_plan():
    assert {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()} == BELOW.keys()


def at_run_time(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING`."""
    typing = {
        id(below)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for below in ast.walk(node)
    }
    return (node for node in ast.walk(tree) if id(node) not in typing)


def test_no_modules_import_each_other_in_a_circle():
    """Wherever the import stands, but for types."""
    TopologicalSorter(
        {name: imported(at_run_time(tree)) - {name} for name, tree in modules().items()}
    ).prepare()


def test_the_plan_itself_has_no_circle():
    TopologicalSorter({room: below.split() for room, below in BELOW.items()}).prepare()


def test_only_the_command_line_knows_its_options():
    """Everything else takes values, so that notebooks call what commands call. `doctor` runs where nothing is installed."""
    users = {
        name
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module == "argparse"
        or isinstance(node, ast.Import)
        and "argparse" in [alias.name for alias in node.names]
    }
    assert "lab.cli.options" in users
    assert {name for name in users if not name.startswith("lab.cli.")} == {"lab.machine.doctor"}
