"""What `mutants.toml` explains is there: an entry that no longer applies would hide nothing, and explain nothing."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools.mutants import HERE, stale_entries

MODULES = tomllib.loads((HERE / "mutants.toml").read_text())["module"]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module["name"])
def test_each_explained_mutant_is_of_code_that_is_there(module):
    source = HERE.parent / f"{module['name'].replace('.', '/')}.py"
    assert stale_entries(module, source.read_text()) == []
    for test in module["tests"]:
        if test.endswith(".py") or "::" in test:
            assert Path(HERE.parent, test.split("::")[0]).exists()


def test_an_entry_that_no_longer_applies_is_named():
    module = {
        "equivalent": [{"gone": "a = 1  # one"}, {"gone": "a = 2"}, {"function": "f"}, {"function": "g"}]
    }
    assert stale_entries(module, "a = 1    # one\ndef f():\n    pass\n") == ["a = 2", "g"]


def test_an_example_may_take_long_beside_other_programs():
    """Else the tests fail without a fault, and each mutant counts as found."""
    program = "from tools.mutants import EXAMPLES; assert EXAMPLES.deadline is None"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=HERE.parent)  # without conftest's profile
