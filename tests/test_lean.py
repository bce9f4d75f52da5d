"""`pip install .` alone, without Jupyter, Kafka or databases: what runs on files runs."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lab.running.errormessage import EXTRAS
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BLOCKED = f"""
import sys
from importlib.machinery import PathFinder

class Lean(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        absent = name.partition(".")[0] in {sorted({*EXTRAS, "jupyterlab", "voila", "pytest", "kafka"} - {"google"})!r}
        return None if absent else super().find_spec(name, path, target)

sys.meta_path = [Lean if finder is PathFinder else finder for finder in sys.meta_path]
"""


@pytest.fixture
def lean(tmp_path):
    """Runs `lab` in an environment, its workers' too, that has not the extras' modules."""
    (tmp_path / "absent").mkdir()
    (tmp_path / "absent" / "sitecustomize.py").write_text(BLOCKED)
    path = os.pathsep.join([str(tmp_path / "absent"), str(ROOT)])

    def lab(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", "lab", *words],
            check=False,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": path},
            timeout=PATIENCE_S,
        )

    return lab


@pytest.mark.slow
def test_files_are_replayed_and_other_places_name_the_extra(lean, tmp_path):
    (tmp_path / "events.csv").write_text("1,2013-01-01 00:00:00,25,12,CSH,51\n")
    (tmp_path / "rules.txt").write_text("1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)\n")
    done = lean("replay", "events.csv", "--rules", "rules.txt", "--out", "alerts.jsonl")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["alerts"] == 1
    assert lean("rules", "add", "rules.txt", "--rules", "control", "--timeout", "0").returncode == 0
    topics = lean("run", "--logs", "kafka://127.0.0.1:1")
    assert topics.returncode == 1 and "pip install 'rules-lab[kafka]'" in topics.stderr
    assert lean("run", "--help").returncode == 0


def test_each_extra_that_an_error_names_is_there():
    assert set(EXTRAS.values()) <= PROJECT["optional-dependencies"].keys()
    assert {"lessons", "kafka", "dev"} <= PROJECT["optional-dependencies"].keys()


def test_each_range_allows_the_pinned_version():
    from packaging.requirements import Requirement

    pins = {}
    for name in ("requirements.txt", "requirements-dev.txt"):
        for line in (ROOT / name).read_text().splitlines():
            if found := re.match(r"([\w.-]+)==([\w.]+)", line):
                pins[found[1].lower().replace("_", "-")] = found[2]
    every = [
        *PROJECT["dependencies"],
        *(r for extra in PROJECT["optional-dependencies"].values() for r in extra),
    ]
    for requirement in map(Requirement, every):
        if requirement.name != "rules-lab":
            assert requirement.specifier.contains(pins[requirement.name.lower().replace("_", "-")]), (
                requirement
            )
