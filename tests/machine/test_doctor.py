import socket
import sys

import pytest

from lab.machine import doctor
from tests.machine.test_java import fake_java, look_in


def only(check) -> doctor.Check:
    (row,) = check()
    return row


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
