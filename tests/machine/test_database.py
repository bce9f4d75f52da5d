"""`lab db`: a real PostgreSQL that keeps what was committed, listens on the loopback only and says why it did not start."""

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import psutil
import psycopg2
import pytest

from lab.cli.main import FAILED, OK, main
from lab.machine import database, ports
from tests.postgresql import running_database


@pytest.fixture(scope="module")
def db():
    try:
        database.programs_folder()
    except database.DatabaseError as error:
        pytest.skip(f"NO TEST THAT NEEDS POSTGRESQL RAN: {error}")
    with running_database() as one:
        yield one


def ask(url: str, question: str) -> object:
    connection = psycopg2.connect(url)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(question)
            return cursor.fetchone()[0] if cursor.description else None
    finally:
        connection.close()


@pytest.mark.slow
def test_what_was_committed_is_there_after_a_stop_and_after_a_kill(db):
    ask(db.url(), "CREATE TABLE kept (n int)")
    for number, end in enumerate((database.Database.stop, database.Database.kill), start=1):
        running = database.status(db.folder)
        ask(running.url(), f"INSERT INTO kept VALUES ({number})")
        end(running)
        assert not running.is_alive and database.status(db.folder) is None
        again = database.start(db.folder, db.port)
        assert again.port == db.port and again.pid != running.pid
        assert ask(again.url(), "SELECT count(*) FROM kept") == number


def test_it_listens_on_the_loopback_only_and_runs_as_an_unprivileged_user(db):
    server = psutil.Process(database.status(db.folder).pid)
    sockets = [
        each for each in server.net_connections("all") if each.status == psutil.CONN_LISTEN or not each.raddr
    ]
    assert {each.laddr.ip for each in sockets if each.family != socket.AF_UNIX} <= {"127.0.0.1"}
    assert server.uids().effective != 0


def test_who_asks_needs_the_password_which_only_the_owner_reads(db, capsys):
    files = [*(db.folder / "passwords").iterdir()]
    assert {file.name for file in files} == {"lab", "capture", "analyst", "reader"}
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert all(len(file.read_text().splitlines()) == 1 for file in files), "who has one has no other"
    with pytest.raises(psycopg2.OperationalError, match="password"):
        psycopg2.connect(db.url().partition("?")[0], passfile=os.devnull)
    assert main(["db", "status", "--folder", str(db.folder)]) == OK
    words = [file.read_text().strip().split(":")[-1] for file in files]
    said = capsys.readouterr().out
    assert len(set(words)) == 4 and not any(word in said for word in words)
    assert ask(db.url(database.READER), "SELECT session_user") == "reader"


@pytest.mark.parametrize("step", ["_run", "_write_secret"])
def test_a_first_start_that_was_killed_is_begun_again(step, db, monkeypatch):
    """At any step: initdb writes its version first, so the data look complete long before they are."""
    folder = Path(tempfile.mkdtemp(prefix="lab-db-"))
    folder.chmod(0o755)
    done = getattr(database, step)

    def killed(*arguments: object, **more: object) -> None:
        done(*arguments, **more)
        raise InterruptedError

    try:
        with monkeypatch.context() as patched, pytest.raises(InterruptedError):
            patched.setattr(database, step, killed)
            database.start(folder, 0)
        again = database.start(folder, 0)
        assert ask(again.url(), "SELECT session_user") == "lab"
    finally:
        if still := database.status(folder):
            still.kill()
        shutil.rmtree(folder)


def test_its_log_is_fit_for_logical_replication(db):
    assert ask(db.url(), "SHOW wal_level") == "logical"


def test_a_second_start_finds_it_and_another_port_is_refused(db):
    assert database.start(db.folder, 0) == database.status(db.folder)
    with pytest.raises(database.DatabaseError, match="runs on port .*: stop it first"):
        database.start(db.folder, ports.free_port())


def test_a_taken_port_is_refused_with_what_would_help(db, tmp_path):
    with pytest.raises(database.DatabaseError, match=f"port {db.port} of 127.0.0.1 is taken"):
        database.start(tmp_path / "other", db.port)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts it as another user")
def test_a_folder_that_its_user_may_not_enter_is_refused(db, tmp_path):
    tmp_path.chmod(0o700)
    with pytest.raises(database.DatabaseError, match="PostgreSQL does not run as root, and .* may not enter"):
        database.start(tmp_path / "inside", 0)


def test_once_started_an_analyst_edits_and_a_reader_reads(db, capsys):
    assert main(["db", "start", "--folder", str(db.folder), "--port", str(db.port)]) == OK
    assert "analyst  edits rules" in capsys.readouterr().out
    rule = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)"
    assert main(["rules", "add", rule, "--store", db.url(database.ANALYST)]) == OK
    assert main(["rules", "list", "--store", db.url(database.READER)]) == OK
    assert "[waiting; analyst]" in capsys.readouterr().out
    assert main(["rules", "pause", "1", "--store", db.url(database.READER)]) == FAILED
    assert "permission denied for table rules" in capsys.readouterr().err


def test_without_its_programs_the_message_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(database, "PROGRAMS", ())
    monkeypatch.setenv("PATH", "")
    assert main(["db", "start"]) == FAILED
    assert "`apt-get install postgresql`" in capsys.readouterr().err


def test_status_and_stop_say_when_none_runs(tmp_path, capsys):
    where = ["--folder", str(tmp_path)]
    assert main(["db", "status", *where]) == FAILED
    assert f"no database runs in {tmp_path}; `lab db start` starts one" in capsys.readouterr().err
    assert main(["db", "stop", *where]) == OK


def test_the_programs_are_found_by_their_version(db):
    found = database.programs_folder()
    said = subprocess.run(
        [found / "postgres", "--version"], check=False, capture_output=True, text=True
    ).stdout
    assert int(said.split()[2].split(".")[0]) >= database.OLDEST
