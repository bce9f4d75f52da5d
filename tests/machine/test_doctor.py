import getpass
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from pathlib import Path
from shlex import quote

import pytest

from lab.cli.main import OK, main
from lab.machine import database, doctor, jars
from lab.model import language as speaking
from tests.machine.test_access import as_stranger, only_root
from tests.machine.test_java import fake_java, look_in
from tests.waiting import wait_until


def test_untested_java_is_a_warning(monkeypatch, tmp_path):
    look_in(monkeypatch, fake_java(tmp_path, "25.0.1"))
    assert doctor.check_java().state == "warning"


def test_a_taken_port_is_a_warning_and_a_free_one_is_not(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setattr(doctor, "CHECKS", [("port {port}", doctor.check_port, port, "JupyterLab")])
        (taken,) = doctor.run()
    assert (taken.name, taken.state) == (f"port {port}", "warning")
    assert "JupyterLab" in taken.fix
    assert doctor.check_port(port, "JupyterLab").state == "ok"


def test_without_postgresql_the_line_says_how_to_get_it_and_is_no_problem(monkeypatch):
    monkeypatch.setattr(database, "PROGRAMS", ())
    monkeypatch.setenv("PATH", "")
    row = doctor.check_postgresql()
    assert row.state == "ok" and row.found == database.NOT_HERE
    assert "`apt-get install postgresql`" in row.fix and "--store sqlite:///" in row.fix


def test_postgresql_that_is_found_is_named_with_its_version(monkeypatch, tmp_path):
    monkeypatch.setattr(database, "PROGRAMS", ())
    for name in ("initdb", "pg_ctl", "postgres"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 99.1'\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert doctor.check_postgresql().found == f"99: {tmp_path}"
    (tmp_path / "postgres").write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 9.6.24'\n")
    assert doctor.check_postgresql().found == database.NOT_HERE


def test_a_package_that_is_missing_is_a_problem_and_one_of_another_version_a_warning(monkeypatch, tmp_path):
    pins = tmp_path / "requirements.txt"
    pins.write_text("# pins\npytest==0.1  # old\nno-such-package==1.0\nabsent==1 ; sys_platform == 'none'\n")
    monkeypatch.setattr(doctor, "REQUIREMENTS", pins)
    missing, other = doctor.check_missing_packages(), doctor.check_versions()
    assert (missing.state, missing.found) == ("problem", "missing: no-such-package")
    assert missing.fix.endswith("-m pip install -r requirements.txt")
    assert other.state == "warning" and f"pytest {pytest.__version__} (pinned ==0.1)" in other.found


def test_away_from_the_checkout_the_pins_come_from_the_installed_package(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "REQUIREMENTS", tmp_path / "absent")
    monkeypatch.setattr(
        doctor.metadata, "requires", lambda name: {"rules-lab": ["no-such-package==1.0"]}[name]
    )
    missing = doctor.check_missing_packages()
    assert missing.found == "missing: no-such-package"
    assert missing.fix.endswith("-m pip install --force-reinstall rules-lab")


def test_another_project_that_installs_a_package_of_our_name_is_a_problem(monkeypatch):
    assert doctor.check_package_name().state == "ok"
    both = {"lab": ["rules-lab", "lab", "lab"]}
    monkeypatch.setattr(doctor.metadata, "packages_distributions", lambda: both)
    clash = doctor.check_package_name()
    assert clash.state == "problem" and "also installed by lab:" in clash.found
    assert clash.fix == "pip uninstall lab rules-lab, then pip install rules-lab"


def test_a_spark_home_that_is_not_the_installed_spark_is_a_problem(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    found = doctor.check_spark_home()
    assert found.state == "problem" and "has no Spark in it" in found.found
    monkeypatch.delenv("SPARK_HOME")
    assert doctor.check_spark_home() is None


def test_worker_python_of_another_installation_is_a_warning_and_an_absent_one_a_problem(
    monkeypatch, tmp_path
):
    other = tmp_path / "python"
    other.touch(mode=0o755)

    def state(chosen) -> str:
        monkeypatch.setenv("PYSPARK_PYTHON", str(chosen))
        return doctor.check_worker_python().state

    assert [state(sys.executable), state(other), state(tmp_path / "absent")] == ["ok", "warning", "problem"]


def test_little_room_is_a_warning_and_hardly_any_a_problem():
    def state(free_gib):
        return doctor.rate_free_space(int(free_gib * doctor.GIB), "", enough_gib=3, fix="").state

    assert [state(4), state(2), state(0.5)] == ["ok", "warning", "problem"]


def test_a_check_that_lacks_a_package_is_a_problem_not_a_crash(monkeypatch):
    monkeypatch.setitem(sys.modules, "psutil", None)
    row = next(row for row in doctor.run(quick=True) if row.name == "memory")
    assert (row.state, row.fix) == ("problem", "make setup")


def test_doctor_exits_1_only_when_a_problem_remains(monkeypatch, capsys):
    rows = doctor.Checks(
        [doctor.Check("Java", "ok", "17"), doctor.Check("port 1", "warning", "[taken]", "stop it")]
    )
    monkeypatch.setattr(doctor, "run", lambda quick: rows)
    assert doctor.main([]) == 0
    assert "[taken]" in capsys.readouterr().out
    rows.append(doctor.Check("Spark", "problem", "dead"))
    assert doctor.main([]) == 1


def test_quick_does_not_start_spark(monkeypatch):
    monkeypatch.setattr(doctor, "check_spark", pytest.fail)
    rows = ("Python", doctor.check_python), ("Spark", doctor.check_spark)
    monkeypatch.setattr(doctor, "CHECKS", rows)
    assert [row.name for row in doctor.run(quick=True)] == ["Python"]


def test_a_notebook_shows_the_report_as_a_table_with_its_text_escaped():
    html = doctor.Checks([doctor.Check("Java", "problem", "<none>", "install it")])._repr_html_()
    assert html.count("<tr>") == 2
    assert "&lt;none&gt;" in html and "<none>" not in html


@pytest.mark.slow
def test_the_spark_check_starts_spark_and_runs_python():
    assert doctor.check_spark().state == "ok"


def test_no_quick_check_of_this_machine_is_a_problem_of_our_own():
    assert [check for check in doctor.run(quick=True) if check.state == "problem"] == []


# -- the usual troubles, each provoked ---------------------------------------------------------------------------------


@pytest.fixture
def clone(monkeypatch, tmp_path):
    """A folder that stands for the kit's, with a .venv of this Python."""
    folder = tmp_path / "kit"
    folder.mkdir()
    (folder / "Makefile").write_text("demo:\n")
    monkeypatch.setattr(doctor, "ROOT", folder)
    return folder


def venv(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / ".venv"], check=True)
    return folder / ".venv"


def settings_changed(venv: Path, pattern: str, by: str) -> None:
    file = venv / "pyvenv.cfg"
    file.write_text(re.sub(pattern, by, file.read_text()))


def test_without_a_venv_the_fix_is_make_setup(clone):
    row = doctor.check_venv()
    assert (row.state, row.fix) == ("problem", "make setup")


def test_a_venv_that_was_moved_with_its_folder_is_a_problem(clone, monkeypatch):
    venv(clone)
    moved = clone.rename(clone.with_name("kit of today"))
    monkeypatch.setattr(doctor, "ROOT", moved)
    row = doctor.check_venv()
    assert row.state == "problem" and f"made in {clone / '.venv'} and moved" in row.found
    assert row.fix == "rm -r .venv && make setup"


def test_a_venv_whose_python_has_gone_is_a_problem(clone):
    made = venv(clone)
    settings_changed(made, "home = .*", "home = /opt/python3.9/bin")
    python = made / "bin" / "python"
    python.unlink()
    python.symlink_to("/opt/python3.9/bin/python")
    row = doctor.check_venv()
    assert row.state == "problem" and "/opt/python3.9/bin has none any more" in row.found


def test_a_venv_whose_python_became_another_version_is_a_problem(clone):
    made = venv(clone)
    settings_changed(made, "version = .*", "version = 3.9.2")
    next((made / "lib").iterdir()).rename(made / "lib" / "python3.9")
    row = doctor.check_venv()
    now = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert row.state == "problem" and f"made with Python 3.9.2, which is {now} now" in row.found


def test_a_doctor_outside_the_venv_is_a_warning(clone):
    venv(clone)
    row = doctor.check_venv()
    assert row.state == "warning" and sys.prefix in row.found and ".venv/bin/lab doctor" in row.fix


@pytest.mark.skipif(
    not Path("/sys/kernel").is_dir(), reason="a folder that not even root can write to: Linux's /sys"
)
def test_a_folder_that_cannot_be_written_to_is_a_problem(monkeypatch):
    monkeypatch.setattr(doctor, "ROOT", Path("/sys/kernel"))
    assert doctor.check_folder().state == "ok"  # of a package that is installed there
    monkeypatch.setattr(doctor, "IN_A_CLONE", "uevent_seqnum")
    row = doctor.check_folder()
    assert row.state == "problem" and "cannot be written to" in row.found and "cp -r" in row.fix


@pytest.mark.parametrize("name", ["kit:2", "kit#2", "kit%202", "Übung", "kit*"])
def test_a_folder_with_odd_characters_is_a_problem(monkeypatch, tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "Makefile").touch()
    monkeypatch.setattr(doctor, "ROOT", tmp_path / name)
    row = doctor.check_folder()
    assert row.state == "problem" and "plain name" in row.fix


def test_the_drive_of_windows_is_a_warning_in_wsl(monkeypatch, clone):
    monkeypatch.setattr(doctor, "WINDOWS_DRIVE", re.compile(re.escape(f"{clone}/")))
    assert doctor.check_folder().state == "ok"
    monkeypatch.setattr(doctor.platform, "release", lambda: "5.15.153.1-microsoft-standard-WSL2")
    row = doctor.check_folder()
    assert row.state == "warning" and "slow from WSL" in row.found


def git(folder: Path, *words: str) -> None:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org", *words]
    subprocess.run(command, check=True, capture_output=True)


def test_line_ends_of_windows_are_a_problem_and_the_fix_mends_them(clone):
    git(clone, "init", "-q")
    git(clone, "add", "Makefile")
    git(clone, "commit", "-qm", "kit")
    git(clone, "config", "core.autocrlf", "true")
    (clone / "Makefile").unlink()
    git(clone, "checkout", "Makefile")
    row = doctor.check_line_ends()
    assert row.state == "problem" and "Makefile" in row.found
    subprocess.run(row.fix.partition("  (")[0], shell=True, check=True, cwd=clone)
    assert doctor.check_line_ends().state == "ok"


def test_line_ends_stay_plain_in_a_clone_that_asks_for_those_of_windows(tmp_path):
    """.gitattributes sees to it."""
    attributes = doctor.ROOT / ".gitattributes"
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitattributes").write_text(attributes.read_text())
    (tmp_path / "Makefile").write_text("demo:\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "config", "core.autocrlf", "true")
    (tmp_path / "Makefile").unlink()
    git(tmp_path, "checkout", "Makefile")
    assert b"\r" not in (tmp_path / "Makefile").read_bytes()


Usage = namedtuple("Usage", "total used free")


def test_a_full_disk_is_a_problem_that_names_the_folder_and_the_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda place: Usage(10 << 30, 10 << 30, 0))
    temporary, cache = doctor.check_temporary_files(), doctor.check_cache()
    assert temporary.state == cache.state == "problem"
    assert "TMPDIR" in temporary.fix and "LAB_CACHE" in cache.fix and str(tmp_path) in cache.found


@only_root
def test_caches_that_this_user_cannot_write_are_problems_that_name_what_to_set(monkeypatch):
    with tempfile.TemporaryDirectory() as closed:  # of root, which nobody else may enter
        monkeypatch.setenv("LAB_CACHE", f"{closed}/lab")
        monkeypatch.setenv("XDG_CACHE_HOME", f"{closed}/cache")
        monkeypatch.setenv("HOME", closed)
        rows = as_stranger(lambda: [doctor.check_cache(), doctor.check_code_cache(), doctor.check_jars()])
    jars, code, absent = rows
    assert (jars.state, code.state, absent.state) == ("problem", "problem", "warning")
    assert f"{closed}/lab/jars cannot be written to" in jars.found and "set LAB_CACHE to" in jars.fix
    assert f"{closed}/cache/numba" in code.found and "set NUMBA_CACHE_DIR to" in code.fix


@only_root
def test_a_command_that_needs_no_cache_runs_where_the_home_is_somebody_else_s(monkeypatch, capfd):
    with tempfile.TemporaryDirectory() as closed:
        monkeypatch.setenv("HOME", closed)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        assert as_stranger(main, ["datasets"]) == OK
    assert "payments.jsonl.gz" in capfd.readouterr().out


def test_little_memory_is_a_problem(monkeypatch):
    memory = namedtuple("Memory", "available")(doctor.GIB // 2)
    monkeypatch.setattr("psutil.virtual_memory", lambda: memory)
    row = doctor.check_memory()
    assert row.state == "problem" and row.found == "0.5 GiB free" and "close other programs" in row.fix


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="only Linux has /dev/shm")
def test_a_small_dev_shm_is_a_warning(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda place: Usage(64 << 20, 0, 64 << 20))
    row = doctor.check_shared_memory()
    assert row.state == "warning" and "0.06 GiB free in /dev/shm" in row.found and "--shm-size" in row.fix


def test_jars_that_are_missing_and_jars_that_are_damaged_are_told_apart(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    assert "not fetched yet" in doctor.check_jars().found
    coordinates = next(iter(jars.GROUPS["filesystem"]))
    jars.jar_path(coordinates).parent.mkdir()
    jars.jar_path(coordinates).write_bytes(b"half a jar")
    row = doctor.check_jars()
    assert row.state == "warning" and row.found == f"damaged in {tmp_path / 'jars'}: {coordinates}"
    assert row.fix.startswith(f"{quote(sys.executable)} -m lab.machine.jars")


@pytest.fixture
def unreachable(monkeypatch, tmp_path):
    """Jars to fetch, and an index behind a proxy that nobody has."""
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("PIP_INDEX_URL", "https://127.0.0.1:1/simple")


def test_no_network_is_a_warning_that_names_the_proxy_while_something_is_to_be_fetched(unreachable):
    row = doctor.check_network()
    assert row.state == "warning" and "through the proxy of HTTPS_PROXY" in row.found
    assert "JAVA_TOOL_OPTIONS" in row.fix and "make prefetch" in row.fix


def test_a_proxy_that_java_does_not_know_of_is_a_warning(unreachable, monkeypatch):
    done = subprocess.CompletedProcess([], 0)
    monkeypatch.setattr(doctor.subprocess, "run", lambda *_, **__: done)
    assert "Java does not know of it" in doctor.check_network().found
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1")
    assert doctor.check_network().state == "ok"


def test_java_that_outlived_its_program_is_a_warning_with_its_number(monkeypatch):
    # a process with Java's words whose parent ends at once
    starter = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], stdout=-3, stderr=-3).pid)"
    java = ["sh", "-c", "sleep 60; true", *doctor.STARTED_BY_PYTHON]
    said = subprocess.run([sys.executable, "-c", starter, *java], check=True, capture_output=True, text=True)
    pid = said.stdout.strip()
    try:
        row = doctor.check_leftover_java()
        assert row.state == "warning" and pid in row.fix.split()
    finally:
        subprocess.run(["kill", pid], check=True)
    wait_until(lambda: pid not in doctor.check_leftover_java().fix.split())


def test_every_check_that_is_not_ok_has_a_fix(clone, unreachable, monkeypatch, tmp_path):
    look_in(monkeypatch, tmp_path)
    report = doctor.run(quick=True)
    wrong = [row for row in report if row.state != "ok"]
    assert {"Java", ".venv", "jars", "network"} <= {row.name for row in wrong}
    assert [row for row in wrong if not row.fix] == []


@pytest.mark.parametrize("language, script", [("ko", "[가-힣]"), ("zh", "[\u4e00-\u9fff]")])
def test_the_table_is_in_the_readers_language_and_the_report_in_english(
    clone, unreachable, monkeypatch, tmp_path, capsys, language, script
):
    look_in(monkeypatch, tmp_path)
    monkeypatch.setattr(speaking, "_chosen", [language])
    rows = doctor.run(quick=True)
    assert [row for row in rows if row.state != "ok" and not re.search(script, row.found)] == []
    products = {"Python", ".venv", "Java", "PYSPARK_PYTHON", "SPARK_HOME", "jars", "PostgreSQL"}
    assert {row.name for row in rows if not re.search(script, row.name)} <= products
    for line in next(row.fix for row in rows if row.name == "Java").splitlines():
        assert re.search(script, line) or "brew install" in line or "JAVA_HOME" in line
    states = re.findall('color:[^"]*">([^<]*)<', rows._repr_html_())
    assert len(states) == len(rows) and all(re.match(script, state) for state in states)
    monkeypatch.setattr(doctor, "CHECKS", ((".venv", doctor.check_venv), ("Java", doctor.check_java)))
    doctor.main([])
    assert re.search(script, capsys.readouterr().out)
    doctor.main(["--report"])
    said = capsys.readouterr().out
    assert "problem  .venv: there is no " in said and not re.search(script, said)


# -- the report for an issue -------------------------------------------------------------------------------------------


def test_the_report_tells_versions_and_every_check_and_keeps_secrets(monkeypatch, capsys):
    home, user, machine = str(Path.home()), getpass.getuser(), socket.gethostname()
    row = doctor.Check("jars", "warning", f"in {home}/x of //{user}:secret1@proxy, on {machine}", "fix")
    monkeypatch.setattr(doctor, "run", lambda quick: doctor.Checks([row]))
    monkeypatch.setenv("JAVA_HOME", f"{home}/java")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:secret2@proxy:1")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyPassword=secret3")
    assert doctor.main(["--report"]) == 0
    said = capsys.readouterr().out
    assert "warning  jars: in ~/x of //…@proxy, on MACHINE" in said
    assert "JAVA_HOME=~/java" in said and "HTTPS_PROXY is set" in said
    assert f"Python {sys.version.split()[0]}" in said and "lab 0" in said
    assert [word for word in (home + "/", "secret", machine) if word in said] == []


def test_secrets_are_cut_in_no_time_however_they_are_called():
    began = time.process_time()
    assert doctor.redact("key" * 100_000) == "key" * 100_000
    assert doctor.redact("MyKey_1=x, a=b,password=c") == "MyKey_1=… a=b,password=…"
    assert time.process_time() - began < 2


def test_the_name_of_the_user_is_cut_from_paths(monkeypatch):
    monkeypatch.setattr(doctor.getpass, "getuser", lambda: "ada")
    assert doctor.redact("/mnt/c/Users/ada/lab, /data/adam") == "/mnt/c/Users/USER/lab, /data/adam"
