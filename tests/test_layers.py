"""The rooms of the house: what may import what, by the rooms' names, and no circle of modules."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import lab

ROOT = Path(lab.__file__).parent
LONGEST = 70  # lines of a function
BELOW = {  # room -> what it may import beside itself; `engine` is all of the engine's rooms
    "model": "",
    "logs": "model",
    "engine": "",
    "engine.compiled": "model",
    "engine.records": "model logs engine.compiled",
    "engine.checkpoint": "model logs",
    "engine.windows": "model logs engine.compiled engine.records engine.checkpoint",
    "engine.loop": "model logs engine.compiled engine.records engine.checkpoint engine.windows",
    "engine.spark": "model logs engine.compiled engine.checkpoint engine.windows engine.loop",
    "state": "model engine.compiled engine.checkpoint engine.windows",
    "stream": "model",
    "machine": "model logs engine.compiled engine.windows",
    "rulestore": "model logs",
    "restrict": "model logs",
    "sources": "model logs engine.loop",
    "past": "model logs engine stream machine sources",
    "desk": "model engine.checkpoint engine.loop stream sources past",
    "running": "model logs engine stream machine rulestore sources past",
    "followers": "model logs engine.loop machine rulestore restrict desk running",
    "studio": "model logs engine stream machine rulestore restrict sources past desk running followers",
    "cli": "model logs engine.checkpoint engine.loop state stream machine rulestore restrict sources past desk running followers studio teach",
    "contrast": "model logs engine state stream machine past running",
    "widgets": "model state stream past desk running followers studio contrast",
    "teach": "model engine.checkpoint engine.loop engine.spark stream running widgets",
    "page": "model engine.compiled engine.records engine.checkpoint stream sources past desk studio widgets teach",
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


def room_of(module: str) -> str | None:
    """The room on the plan that a module is in, None for `lab` itself."""
    parts = module.split(".")[1:]
    return next((room for room in (".".join(parts[:2]), parts[0]) if room in BELOW), None) if parts else None


def allowed(room: str) -> set[str]:
    below = BELOW[room].split()
    return {other for other in BELOW if other in below or other.split(".")[0] in below}


@pytest.mark.parametrize("room", BELOW)
def test_a_room_imports_only_what_is_below_it(room):
    """Wherever the import stands: within a function, too."""
    wrong = {
        f"{name} imports {other}"
        for name, tree in modules().items()
        if room_of(name) == room
        for other in imported(ast.walk(tree))
        if room_of(other) not in {None, room, *allowed(room)}
    }
    assert not wrong


def test_every_room_is_on_the_plan():
    halls = (ROOT, ROOT / "engine")
    rooms = {path.parent.relative_to(ROOT) for hall in halls for path in hall.glob("*/__init__.py")}
    assert {".".join(room.parts) for room in rooms} == BELOW.keys()


def test_no_module_of_the_engine_stands_outside_its_rooms():
    assert [path.name for path in (ROOT / "engine").glob("*.py")] == ["__init__.py"]


def test_no_arrow_of_the_plan_is_unused():
    used = {
        (room_of(name), room_of(other))
        for name, tree in modules().items()
        for other in imported(ast.walk(tree))
    }
    used |= {(room, "engine") for room, other in used if other and other.startswith("engine.")}
    assert {(room, other) for room in BELOW for other in BELOW[room].split()} - used == set()


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
    TopologicalSorter({room: allowed(room) for room in BELOW}).prepare()


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


def test_no_function_is_longer_than_70_lines():
    """A module is as long as its one concern needs. The loop of all windows is one function, which the compiler sees whole."""
    longer = {name: lines for name, lines in lengths() if lines > LONGEST}
    assert longer.keys() <= {"lab.engine.compiled.window.evaluate_batch"}, longer


def lengths() -> Iterator[tuple[str, int]]:
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{name}.{node.name}", (node.end_lineno or 0) - node.lineno + 1
