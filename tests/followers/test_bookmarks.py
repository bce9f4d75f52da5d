"""Where a reader stands in a log of alerts, after that log has become another one."""

from contextlib import nullcontext
from decimal import Decimal
from threading import Event

import pytest

from lab.cli.main import FAILED, OK, main
from lab.engine.loop.filelogs import FileLogs
from lab.followers.bookmarks import bookmark_file, load_bookmark
from lab.followers.notify import notify
from lab.logs.cluster import TopicMadeAnew
from lab.logs.config import AlertReceiver
from lab.logs.kafka import KafkaLog
from lab.model.alerts import Alert
from lab.running.target import locate
from tests.topics import delete_topic

OTHER = (
    "is not the topic that was read before: it was deleted and created again, or this is another cluster; "
)


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def made(kafka, name: str, count: int) -> KafkaLog:
    """A topic of alerts with so many of them, made anew if there was one."""
    log = KafkaLog(kafka.address, name)
    log.create()
    given = (1, 2, "{payeeId=25}", Decimal("50.10"), "GREATER", Decimal(50))
    lines = [Alert(*given, number, 1_356_998_400_000, 1, 2).to_json() for number in range(count)]
    log.publish(lines, ["key"] * count)
    log.close()
    return log


@pytest.mark.slow
def test_saved_alerts_of_a_topic_that_was_made_anew_are_not_read_from_its_middle(kafka, capsys):
    log = made(kafka, "alerts-saved", 3)
    command = ["alerts", "--json", "--alerts", repr(log), "--from", "saved"]

    def shown() -> int:
        assert main(command) == OK
        return len(capsys.readouterr().out.splitlines())

    assert (shown(), shown()) == (3, 0)
    delete_topic(log)
    made(kafka, "alerts-saved", 5)
    assert main(command) == FAILED
    said = capsys.readouterr()
    assert f"topic alerts-saved on {kafka.address} {OTHER}delete {bookmark_file(log)}, which" in said.err
    assert said.out == ""
    bookmark_file(log).unlink()
    assert (shown(), shown()) == (5, 0)


class AfterOneLook(Event):
    """Set once somebody has waited for it."""

    def wait(self, timeout=None):
        self.set()
        return True


@pytest.mark.slow
def test_alerts_of_a_topic_that_was_made_anew_are_not_sent_from_its_middle(kafka, monkeypatch):
    monkeypatch.setattr("lab.followers.notify.stop_signals", lambda: nullcontext(AfterOneLook()))
    log, receiver = (
        made(kafka, "alerts-sent", 3),
        AlertReceiver("audit", "http://127.0.0.1:1", webhook_secret="x"),
    )
    target, reader = locate(places={"alerts": repr(log)}), "notify audit"
    notify(target, receiver)
    assert load_bookmark(log, reader) == {0: 3}
    delete_topic(log)
    made(kafka, "alerts-sent", 5)
    with pytest.raises(
        TopicMadeAnew, match=f"topic alerts-sent on .* {OTHER}delete {bookmark_file(log, reader)}"
    ):
        notify(target, receiver)
    notify(target, receiver, {0: 5})
    notify(target, receiver)
    assert load_bookmark(log, reader) == {0: 5}


def test_alerts_of_a_topic_that_was_made_anew_are_not_exported_from_its_middle(kafka, tmp_path, capsys):
    log, database = made(kafka, "alerts-exported", 3), f"sqlite:///{tmp_path}/alerts.db"
    command = ["export", "--alerts", repr(log), "--to", database]

    def exported(*arguments: str) -> str:
        assert main([*command, *arguments]) == OK
        return capsys.readouterr().err.partition(" from ")[0]

    assert exported() == "3 alerts"
    made(kafka, "alerts-exported", 2)
    assert exported() == "2 alerts"
    delete_topic(log)
    made(kafka, "alerts-exported", 6)
    assert main(command) == FAILED
    assert f"topic alerts-exported on {kafka.address} {OTHER}say --from 0 once" in capsys.readouterr().err
    assert exported("--from", "0") == "6 alerts" and exported() == "0 alerts"


def test_a_folder_has_no_id_and_is_read_on(tmp_path, capsys):
    logs = FileLogs(tmp_path / "a\nb\nlogs")  # a name of several lines is a name
    logs.create()
    logs.log("alerts").append(["{}"])
    command = ["alerts", "--logs", str(logs.folder), "--from", "saved"]
    assert main(command) == OK and "1 unreadable line left out" in capsys.readouterr().err
    assert main(command) == OK and "left out" not in capsys.readouterr().err
