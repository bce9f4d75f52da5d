"""The page of threats names files and tests that there are."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "threat-model.md").read_text().partition("\n## ")[0].splitlines()
    if line.startswith("|") and "`" in line
]


def test_each_who_has_a_row():
    told = {row[0] for row in ROWS}
    assert {
        "producer of events",
        "analyst",
        "local user",
        "learner on a hub",
        "web page",
        "owner of a broker",
    } <= told
    assert all(len(row) == 4 for row in ROWS) and len(ROWS) > 20


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1][:60])
def test_what_holds_it_and_what_tries_it_exist(row):
    (holder,), (test,) = (re.findall(r"`([^`]+)`", cell) for cell in row[2:])
    assert (ROOT / holder).is_file()
    file, _, name = test.partition("::")
    functions = {
        node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)
    }
    assert any(each.startswith("test_") for each in functions)
    assert not name or name in functions, f"{file} has no {name}"
