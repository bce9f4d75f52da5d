"""A receiver of alerts is one file: a Unix socket, added by this file alone, gets what `lab notify` sends, once each."""

import json
import os
import signal
import socket
import sys
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from threading import Event, Thread

import pytest

from lab.cli.main import OK, main
from lab.engine.loop.filelogs import FileLogs
from lab.followers import alertmessages
from lab.followers.alertmessages import Message, NotAccepted, time_limit
from lab.followers.alerttext import AbsenceRules
from lab.logs.config import AlertReceiver, BadConfig
from lab.model.alerts import Alert, Withdrawal
from tests.waiting import wait_until

SCHEME = "unix://"
RUN = "import sys; from tests.drills.test_receiver import run; run()"


class SocketMessage(Message):
    """Alerts as JSON lines to a Unix socket, whose program answers with the number of lines that it has."""

    def __init__(self, receiver: AlertReceiver, absences: AbsenceRules | None = None):
        self._path = receiver.url.removeprefix(SCHEME)
        self._lines: list[str] = []

    @classmethod
    def is_for(cls, receiver: AlertReceiver) -> bool:
        if not receiver.url.startswith(SCHEME):
            return False
        if not receiver.url.removeprefix(f"{SCHEME}/"):
            raise BadConfig(f"notify.{receiver.name}.url: expected unix:///PATH")
        return True

    @property
    def alert_count(self) -> int:
        return len(self._lines)

    @property
    def is_full(self) -> bool:
        return self.alert_count >= 50

    def add(self, alert: Alert | Withdrawal) -> None:
        self._lines.append(alert.to_json())

    def send(self, stopped: Event | None = None) -> None:
        try:
            with socket.socket(socket.AF_UNIX) as there, time_limit(self._path, stopped):
                there.connect(self._path)
                there.sendall("".join(f"{line}\n" for line in self._lines).encode())
                there.shutdown(socket.SHUT_WR)
                if there.recv(20) != str(self.alert_count).encode():
                    raise NotAccepted(f"{self._path} took only some")
        except OSError as error:
            raise NotAccepted(f"{self._path} does not answer ({type(error).__name__})") from None


def run() -> None:
    """`lab notify`, with this kind of receiver."""
    alertmessages.KINDS.insert(0, SocketMessage)
    sys.exit(main(sys.argv[1:]))


class Program:
    """What listens at the socket. It forgets an alert that it has already, by its alertId, as a receiver of copies does."""

    def __init__(self, path: Path):
        self.alerts: dict[str, dict] = {}
        self.repeated_messages = 0
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with connection, connection.makefile() as file:
                lines = file.readlines()
                alerts = {alert["alertId"]: alert for alert in map(json.loads, lines)}
                self.repeated_messages += not alerts.keys().isdisjoint(self.alerts)
                self.alerts |= alerts
                connection.sendall(str(len(alerts)).encode())


@pytest.fixture
def place(tmp_path, monkeypatch) -> FileLogs:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("lab.toml").write_text(f'[notify.socket]\nurl = "{SCHEME}{tmp_path}/s"\n')
    Path("lab.toml").chmod(0o600)
    logs = FileLogs(tmp_path / "logs")
    logs.create()
    return logs


def alert(number: int) -> str:
    limit = Decimal(50)
    key, group = f"{{payeeId={number}}}", (("payeeId", number),)
    return Alert(1, 1, key, limit + 1, ">", limit, number, 0, group=group, log_time=number).to_json()


@contextmanager
def notifying(*arguments: str):
    """`lab notify` in a process that can be killed."""
    command = [sys.executable, "-c", RUN, "notify", "--to", "socket", "--logs", "logs", *arguments]
    root = str(Path(__file__).parents[2])
    pid = os.posix_spawn(sys.executable, command, os.environ | {"PYTHONPATH": root})
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_each_alert_arrives_once_and_in_order_also_after_kills(place, tmp_path):
    program, count, kills = Program(tmp_path / "s"), 600, 3
    for kill in range(kills):
        here = range(count * kill // kills, count * (kill + 1) // kills)
        place.log("alerts").append(map(alert, here))
        with notifying(*(["--from", "0"] if kill == 0 else [])):
            wait_until(lambda first=here[0]: len(program.alerts) > first)
    with notifying():
        wait_until(lambda: len(program.alerts) == count)
    assert [each["eventId"] for each in program.alerts.values()] == list(range(count))
    assert program.repeated_messages <= kills  # of each kill, at most the message on its way


def test_without_it_the_url_is_refused(place, capsys, monkeypatch):
    assert main(["notify", "--to", "socket", "--logs", "logs"]) != OK
    assert "not a URL that apprise knows" in capsys.readouterr().err
    monkeypatch.setattr(alertmessages, "KINDS", [SocketMessage, *alertmessages.KINDS])
    Path("lab.toml").write_text(f'[notify.socket]\nurl = "{SCHEME}/"\n')
    assert main(["notify", "--to", "socket", "--logs", "logs"]) != OK
    assert "expected unix:///PATH" in capsys.readouterr().err
