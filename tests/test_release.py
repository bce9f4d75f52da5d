"""What a wheel contains, tried outside the repository on a copy that is laid out as a wheel installs it. `make release` builds the wheel."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_distribution_has_a_name_of_its_own_and_its_extras_name_it():
    project = PROJECT["project"]
    assert project["name"] == "rules-lab"
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    assert not [each for each in extras if each.startswith("lab")]


def test_a_wheel_has_every_file_of_the_package_that_is_no_module():
    package = ROOT / "lab"
    kept = {
        file
        for pattern in PROJECT["tool"]["setuptools"]["package-data"]["lab"]
        for file in package.glob(pattern)
    }
    there = {file for file in package.rglob("*") if file.is_file() and "__pycache__" not in file.parts} - set(
        package.rglob("*.py")
    )
    assert there == kept


@pytest.fixture
def installed(tmp_path) -> Path:
    """The package as a wheel installs it, with the data sets inside, in a folder with a space."""
    folder = tmp_path / "a folder"
    shutil.copytree(ROOT / "lab", folder / "lab", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "datasets", folder / "lab" / "datasets")
    return folder


@pytest.mark.slow
def test_away_from_the_repository_its_data_sets_are_found_and_evaluated(installed, tmp_path):
    bare = {"PATH": os.environ["PATH"], "PYTHONPATH": str(installed), "LANG": "C"}

    def lab(*words: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "lab", *words]
        return subprocess.run(
            command, env=bare, cwd=tmp_path, check=False, capture_output=True, text=True, umask=0o077
        )

    files = lab("datasets").stdout.splitlines()
    (payments,) = [file for file in files if file.endswith("payments.jsonl.gz")]
    (rules,) = [file for file in files if file.endswith("payments/rules.json")]
    assert payments.startswith(str(installed))
    done = lab("replay", payments, "--rules", rules, "--engine", "reference", "--out", "alerts.jsonl")
    assert done.returncode == 0 and '"alerts": 1482' in done.stdout, done.stderr
    assert (tmp_path / "alerts.jsonl").stat().st_mode & 0o077 == 0


def test_where_another_project_s_package_has_overwritten_ours_the_command_says_so(installed, tmp_path):
    (installed / "lab" / "__init__.py").write_text("__version__ = '8.10'\n")
    done = subprocess.run(
        [sys.executable, "-m", "lab", "--version"],
        env=os.environ | {"PYTHONPATH": str(installed)},
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "pip uninstall lab rules-lab, then pip install rules-lab" in done.stderr
