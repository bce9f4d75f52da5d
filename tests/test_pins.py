"""What is installed is what was tried: pins, their hashes, jars that fit Spark, licences of what is copied."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from lab.machine import doctor

ROOT = Path(__file__).parents[1]


def pins(text: str) -> set[str]:
    """`name==version ; marker` of a file of requirements, spelled as pip compares them."""
    found = re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE)
    return {f"{re.sub('[-_.]+', '-', name).lower()}=={version}" for name, version in found}


WHOLE = [
    "requirements",
    "requirements-dev",
    "requirements-build",
    "requirements-node",
    "requirements-page",
    "book/requirements",
]
WITH_WHAT_THEY_NEED = ["requirements-tools", "requirements-lite"]


@pytest.mark.parametrize("name", [*WHOLE, *WITH_WHAT_THEY_NEED])
def test_each_pin_has_its_hashes_and_no_index_is_named(name):
    text, lock = (ROOT / f"{name}.txt").read_text(), (ROOT / f"{name}.lock").read_text()
    more = (ROOT / "requirements.txt").read_text() if "-r requirements.txt" in text else ""
    wanted = pins(text) | pins(more)
    assert pins(lock) == wanted if name in WHOLE else pins(lock) > wanted, "make hashes"
    blocks = re.split(r"^(?=\w)", lock, flags=re.MULTILINE)[1:]
    assert len(blocks) >= len(wanted) and all("--hash=sha256:" in block for block in blocks)
    assert "://" not in lock and "--index" not in lock


def installations(text: str) -> list[str]:
    """The commands of a Makefile or a script that install or build with pip, one a line."""
    lines = text.replace("\\\n", " ").splitlines()
    return [line for line in lines if re.search(r"\bpip (install|wheel)\b|-m build\b", line)]


def test_nothing_is_built_with_a_setuptools_that_an_index_chooses():
    """Its setup.py runs with the user's rights, so it is pinned with its hashes like all else."""
    scripts = [(ROOT / name).read_text() for name in ("Makefile", ".binder/postBuild", "docker/Dockerfile")]
    found = [line for text in scripts for line in installations(text)]
    assert len(found) > 5
    for line in found:
        assert "isolation" in line or "requirements-build.lock" in line, line
    makefile = scripts[0]
    for stamp in ("engine", "spark", "packages"):
        assert re.search(rf"^\.venv/\.{stamp}: \.venv/\.pip ", makefile, re.MULTILINE)
    installed = {f"{each}=={metadata.version(each)}" for each in ("pip", "setuptools")}
    assert installed == pins((ROOT / "requirements-build.txt").read_text()), "make setup"
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    (pinned,) = re.findall(
        r"^setuptools==([\d.]+)", (ROOT / "requirements-build.txt").read_text(), re.MULTILINE
    )
    assert [each.name for each in map(Requirement, oldest)] == ["setuptools"]
    assert all(Requirement(each).specifier.contains(pinned) for each in oldest)


def test_what_runs_in_a_browser_is_pinned_as_elsewhere():
    page, others = (pins((ROOT / f"requirements{name}.txt").read_text()) for name in ("-page", ""))
    others |= pins((ROOT / "requirements-dev.txt").read_text())
    assert page and page - others == {"micropip==0.11.1"}


def test_the_oldest_python_that_is_named_is_one_that_all_pins_take():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=")
    wanted = {
        each.name: each.metadata["Requires-Python"]
        for each in metadata.distributions()
        if f"{re.sub('[-_.]+', '-', each.name).lower()}=={each.version}"
        in pins((ROOT / "requirements.txt").read_text() + (ROOT / "requirements-dev.txt").read_text())
    }
    assert len(wanted) > 100
    too_new = {name: text for name, text in wanted.items() if oldest not in SpecifierSet(text or "")}
    assert not too_new, f"{too_new} do not take Python {oldest}"
    assert ".".join(map(str, doctor.OLDEST_PYTHON)) == oldest
    makefile, readme = (ROOT / "Makefile").read_text(), (ROOT / "README.md").read_text()
    assert f"sys.version_info < {doctor.OLDEST_PYTHON}" in makefile
    assert f"--python-version {oldest} " in makefile
    assert f"Python {oldest} or newer" in makefile and f"Python {oldest} or newer" in readme


def test_what_the_package_imports_is_declared():
    """By the engine without extras: the doctor's `packaging` came along with others' for years."""
    declared = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[0]
    assert '"packaging>=' in declared


def test_make_installs_first_what_the_engine_alone_needs():
    """So its kernels are compiled, and Spark's classes laid out, while the rest is installed."""
    needed, waiting = set[str](), ["rules-lab"]
    while waiting:
        for each in map(Requirement, metadata.requires(waiting.pop()) or []):
            name = re.sub("[-_.]+", "-", each.name).lower()
            if name not in needed and (not each.marker or each.marker.evaluate({"extra": ""})):
                needed.add(name)
                waiting.append(name)
    makefile = (ROOT / "Makefile").read_text()
    (engine,), (spark,) = (
        re.findall(rf"^{name} := /\^\(?([^)=]+)", makefile, re.MULTILINE) for name in ("ENGINE", "SPARK")
    )
    assert {*engine.split("|"), spark} == needed


def test_scripts_that_were_copied_have_their_licence_beside_them():
    copied = [
        path
        for folder in ("notebooks", "docker", "lab")
        for kind in ("*.js", "*.css")
        for path in (ROOT / folder).rglob(kind)
        if len(path.read_text()) > 30_000 and "node_modules" not in path.parts and ".venv" not in path.parts
    ]
    assert {path.name for path in copied} == {"notes.js", "reveal.js", "reveal.css"}
    for path in copied:
        assert "Permission is hereby granted" in (path.parent / "LICENSE").read_text()
