"""Which java Spark starts, and what is said when there is none."""

import subprocess
import sys
from pathlib import Path

import pytest

from lab.machine import java


def fake_java(folder: Path, version: str) -> Path:
    """A folder with a bin/java that prints this version as the real one does, to stderr."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    program.chmod(0o755)
    return folder


def look_in(monkeypatch, path: Path, home: Path | None = None):
    monkeypatch.setenv("PATH", str(path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home:
        monkeypatch.setenv("JAVA_HOME", str(home))


@pytest.mark.parametrize(("printed", "major"), [("17.0.15", 17), ("21", 21), ("25-ea", 25)])
def test_java_on_path_is_found_with_its_major_version(monkeypatch, tmp_path, printed, major):
    look_in(monkeypatch, fake_java(tmp_path, printed))
    assert java.find_java() == java.Java(str(tmp_path / "bin" / "java"), major)


def test_java_home_goes_before_path(monkeypatch, tmp_path):
    look_in(monkeypatch, fake_java(tmp_path / "a", "11.0.2"), home=fake_java(tmp_path / "b", "21.0.1"))
    assert java.find_java() == java.Java(str(tmp_path / "b" / "bin" / "java"), 21)


@pytest.mark.parametrize(("printed", "major"), [("11.0.2", 11), ("1.8.0_402", 8)])
def test_java_that_is_too_old_is_named_with_its_version_and_the_fix(monkeypatch, tmp_path, printed, major):
    look_in(monkeypatch, fake_java(tmp_path, printed))
    with pytest.raises(java.JavaMissing) as error:
        java.find_java()
    assert f"{tmp_path}/bin/java, Java {major}" in str(error.value)
    assert "apt install openjdk-17-jre-headless" in str(error.value)


def test_without_java_the_message_says_where_was_looked_and_how_to_install(monkeypatch, tmp_path):
    look_in(monkeypatch, tmp_path)
    with pytest.raises(java.JavaMissing) as error:
        java.find_java()
    message = str(error.value)
    assert "JAVA_HOME:     not set" in message and "java on PATH:  nothing" in message
    assert "apt install" in message and "brew install" in message and "WSL" in message


def test_java_home_without_java_is_a_problem_even_when_path_has_one(monkeypatch, tmp_path):
    """Spark looks into JAVA_HOME only, once it is set."""
    look_in(monkeypatch, fake_java(tmp_path / "a", "17.0.1"), home=tmp_path / "gone")
    with pytest.raises(java.JavaMissing, match="unset JAVA_HOME"):
        java.find_java()


def test_the_java_check_runs_as_a_plain_file_and_exits_1_without_java(tmp_path):
    done = subprocess.run(
        [sys.executable, "-I", java.__file__],
        check=False,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "Spark and Kafka need Java 17 or newer" in done.stderr
