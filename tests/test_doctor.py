import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lab.machine import doctor


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


def only(check) -> doctor.Check:
    (row,) = check()
    return row


@pytest.mark.parametrize(("printed", "major"), [("17.0.15", 17), ("21", 21), ("25-ea", 25)])
def test_java_on_path_is_found_with_its_major_version(monkeypatch, tmp_path, printed, major):
    look_in(monkeypatch, fake_java(tmp_path, printed))
    assert doctor.java() == doctor.Java(str(tmp_path / "bin" / "java"), major)


def test_java_home_goes_before_path(monkeypatch, tmp_path):
    look_in(monkeypatch, fake_java(tmp_path / "a", "11.0.2"), home=fake_java(tmp_path / "b", "21.0.1"))
    assert doctor.java() == doctor.Java(str(tmp_path / "b" / "bin" / "java"), 21)


@pytest.mark.parametrize(("printed", "major"), [("11.0.2", 11), ("1.8.0_402", 8)])
def test_java_that_is_too_old_is_named_with_its_version_and_the_fix(monkeypatch, tmp_path, printed, major):
    look_in(monkeypatch, fake_java(tmp_path, printed))
    with pytest.raises(doctor.JavaMissing) as error:
        doctor.java()
    assert f"{tmp_path}/bin/java, Java {major}" in str(error.value)
    assert "apt install openjdk-17-jre-headless" in str(error.value)


def test_without_java_the_message_says_where_was_looked_and_how_to_install(monkeypatch, tmp_path):
    look_in(monkeypatch, tmp_path)
    with pytest.raises(doctor.JavaMissing) as error:
        doctor.java()
    message = str(error.value)
    assert "JAVA_HOME:     not set" in message and "java on PATH:  nothing" in message
    assert "apt install" in message and "brew install" in message and "WSL" in message


def test_java_home_without_java_is_a_problem_even_when_path_has_one(monkeypatch, tmp_path):
    """Spark looks into JAVA_HOME only, once it is set."""
    look_in(monkeypatch, fake_java(tmp_path / "a", "17.0.1"), home=tmp_path / "gone")
    with pytest.raises(doctor.JavaMissing, match="unset JAVA_HOME"):
        doctor.java()


def test_the_java_check_runs_as_a_plain_file_and_exits_1_without_java(tmp_path):
    done = subprocess.run(
        [sys.executable, "-I", doctor.__file__, "--java-only"],
        check=False,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "Spark needs Java 17 or newer" in done.stderr


def test_untested_java_is_a_warning(monkeypatch, tmp_path):
    look_in(monkeypatch, fake_java(tmp_path, "25.0.1"))
    assert only(doctor.check_java).state == "warning"


def test_a_taken_port_is_a_warning_and_a_free_one_is_not(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setattr(doctor, "PORTS", {port: "JupyterLab"})
        taken = only(doctor.check_ports)
    assert (taken.name, taken.state) == (f"port {port}", "warning")
    assert "JupyterLab" in taken.fix
    assert only(doctor.check_ports).state == "ok"


def test_a_package_that_is_missing_is_a_problem_and_one_of_another_version_a_warning(monkeypatch, tmp_path):
    pins = tmp_path / "requirements.txt"
    pins.write_text("# pins\npytest==0.1  # old\nno-such-package==1.0\nabsent==1 ; sys_platform == 'none'\n")
    monkeypatch.setattr(doctor, "REQUIREMENTS", pins)
    missing, other = doctor.check_packages()
    assert (missing.state, missing.found) == ("problem", "missing: no-such-package")
    assert other.state == "warning" and f"pytest {pytest.__version__} (pinned ==0.1)" in other.found


def test_away_from_the_checkout_the_pins_come_from_the_installed_package(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "REQUIREMENTS", tmp_path / "absent")
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: {"lab": ["no-such-package==1.0"]}[name])
    assert only(doctor.check_packages).found == "missing: no-such-package"


def test_worker_python_of_another_installation_is_a_warning_and_an_absent_one_a_problem(
    monkeypatch, tmp_path
):
    other = tmp_path / "python"
    other.touch(mode=0o755)

    def state(chosen) -> str:
        monkeypatch.setenv("PYSPARK_PYTHON", str(chosen))
        return only(doctor.check_worker_python).state

    assert [state(sys.executable), state(other), state(tmp_path / "absent")] == ["ok", "warning", "problem"]


def test_little_room_is_a_warning_and_hardly_any_a_problem():
    def state(free_gib):
        return doctor._room("memory", int(free_gib * doctor.GIB), "", enough=3, least=1, fix="").state

    assert [state(4), state(2), state(0.5)] == ["ok", "warning", "problem"]


def test_a_check_that_lacks_a_package_is_a_problem_not_a_crash(monkeypatch):
    monkeypatch.setitem(sys.modules, "psutil", None)
    row = next(row for row in doctor.run(quick=True) if row.name == "memory")
    assert (row.state, row.fix) == ("problem", "make setup")


def test_doctor_exits_1_only_when_a_problem_remains(monkeypatch, capsys):
    rows = [doctor.Check("Java", "ok", "17"), doctor.Check("port 1", "warning", "[taken]", "stop it")]
    monkeypatch.setattr(doctor, "run", lambda quick: rows)
    assert doctor.main([]) == 0
    assert "[taken]" in capsys.readouterr().out
    rows.append(doctor.Check("Spark", "problem", "dead"))
    assert doctor.main([]) == 1


def test_quick_does_not_start_spark(monkeypatch):
    monkeypatch.setattr(doctor, "check_spark", pytest.fail)
    monkeypatch.setattr(doctor, "CHECKS", (doctor.check_python, doctor.check_spark))
    assert [row.name for row in doctor.run(quick=True)] == ["Python"]


def test_a_notebook_shows_the_report_as_a_table_with_its_text_escaped():
    html = doctor.Checks([doctor.Check("Java", "problem", "<none>", "install it")])._repr_html_()
    assert html.count("<tr>") == 2
    assert "&lt;none&gt;" in html and "<none>" not in html


@pytest.mark.slow
def test_the_spark_check_starts_spark_and_runs_python():
    assert only(doctor.check_spark).state == "ok"


def test_no_quick_check_of_this_machine_is_a_problem_of_our_own():
    assert [check for check in doctor.run(quick=True) if check.state == "problem"] == []
