"""docs/semantics.md cannot rot: each of its rows names tests that exist, and what tests/model/test_contract.py tries is on the page."""

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "semantics.md"
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


@cache
def functions(file: str) -> set[str]:
    """The tests of a file; none if there is no such file."""
    path = TESTS / file
    if not path.is_file():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def rows() -> list[str]:
    """The rows of the page's tables, without their heads."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("| ") and not line.startswith("| |")]


def test_each_test_that_the_page_names_exists():
    named = NAMED.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) > 80
    assert [f"{file}::{test}" for file, test in named if test not in functions(file)] == []


def test_each_row_of_the_page_names_the_tests_that_hold_it():
    assert len(rows()) > 60
    assert [row for row in rows() if not NAMED.search(row.rsplit(" | ", 1)[-1])] == []


def test_what_the_tests_of_the_contract_try_is_on_the_page():
    named = {test for _, test in NAMED.findall(PAGE.read_text(encoding="utf-8"))}
    tests = {name for name in functions("model/test_contract.py") if name.startswith("test_")}
    assert tests and tests - named == set()
