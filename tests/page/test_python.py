"""The page's Python is whole: what it has imports nothing that it does not have."""

import ast
from pathlib import Path

import lab
from lab.page.python import OWN

ROOT = Path(lab.__file__).parent


def imported(module: ast.Module) -> set[str]:
    """The modules of ours that are imported when a module is: not in functions, nor for types alone."""
    names = set()
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lab."):
            names |= {node.module or "", *(f"{node.module}.{each.name}" for each in node.names)}
    return names


def test_each_module_of_the_page_finds_what_it_imports():
    files = [path for each in OWN for path in sorted(ROOT.glob(each))]
    own = {".".join(path.relative_to(ROOT.parent).with_suffix("").parts): path for path in files}
    everything = {
        ".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in ROOT.rglob("*.py")
    }
    missing = {
        (name, needed)
        for name, path in own.items()
        for needed in imported(ast.parse(path.read_text()))
        if needed in everything and needed not in own
    }
    assert missing == set()
