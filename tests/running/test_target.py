"""Where an engine is, and commands that a notebook calls with it."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.kafkalogs import KafkaLogs
from lab.followers import watch
from lab.model.rules import BadRule
from lab.model.schema import LOGINS, PAYMENTS
from lab.running import control
from lab.running.target import Target, Usage, locate, target_of_existing_logs
from tests.machine.test_access import as_stranger, only_root

RULE = '{"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "aggregatorFunctionType": "COUNT", "limitOperatorType": ">", "limit": 5, "window": "1h"}'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_logs_checkpoint_and_schema_have_defaults_beside_each_other(folder):
    assert locate() == Target(FileLogs(Path("logs")), Path("logs/checkpoint"))
    beside = locate(places={"alerts": "out/alerts"})
    assert (
        beside.logs.log_folder("stats") == folder / "out" / "stats"
        and beside.checkpoint == folder / "out/checkpoint"
    )
    topics = locate("kafka://127.0.0.1:9092", {"events": "kafka://127.0.0.1:9092/shop"}, checkpoint="here")
    assert isinstance(topics.logs, KafkaLogs) and topics.logs.topic("events") == "shop"
    assert topics.checkpoint == "here" and locate("kafka://127.0.0.1:9092").checkpoint == Path("checkpoint")


@only_root
def test_where_logs_may_be_is_told_though_folders_of_other_users_are_beside():
    def told(folder: Path) -> str:
        with pytest.raises(FileNotFoundError) as error:
            FileLogs(folder / "none").existing("alerts")
        return str(error.value)

    with TemporaryDirectory() as shared:
        Path(shared).chmod(0o755)
        Path(shared, "private").mkdir(mode=0o700)
        Path(shared, "open", "alerts").mkdir(parents=True)
        said = as_stranger(told, Path(shared))
    assert said == f"{shared}/none/alerts: no such log; logs are in {shared}/open"


def test_the_schema_is_the_one_given_or_that_of_the_checkpoint_or_payments():
    assert locate("logs").effective_schema == PAYMENTS
    Settings(LOGINS).bind("logs/checkpoint")
    assert (
        locate("logs").effective_schema == LOGINS
        and locate("logs", schema=PAYMENTS).effective_schema == PAYMENTS
    )
    FileLogs(Path("logs")).create()
    assert (
        target_of_existing_logs("logs").effective_schema == LOGINS
        and target_of_existing_logs("logs", "payments").effective_schema == PAYMENTS
    )


def test_an_engine_has_its_logs_in_folders_or_on_one_cluster():
    with pytest.raises(Usage, match="the logs are in different places"):
        locate("logs", {"events": "kafka://127.0.0.1:9092/events"})
    with pytest.raises(Usage, match="the logs are in different places"):
        locate("kafka://127.0.0.1:9092", {"events": "kafka://127.0.0.1:9093/events"})


def test_a_notebook_calls_what_the_commands_call(capsys):
    target = locate("logs")
    control.send_rules(target, [RULE], timeout_s=0)
    assert "queued in logs/control" in capsys.readouterr().out
    control.print_rules(target)
    assert capsys.readouterr().out.startswith("     1  v1   ACTIVE")
    with pytest.raises(BadRule, match="groupingKeyNames"):
        control.send_rules(locate("logs", schema=LOGINS), [RULE], timeout_s=0)
    watch.print_alerts(target, as_json=True)
    assert capsys.readouterr().out == ""
