"""A company's Kafka: TLS and SASL by lab.toml, as a user would run it, and no secret anywhere."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from shutil import which

import psutil
import pytest

from lab.cli.main import FAILED, OK, main
from lab.engine.checkpoint.settings import Settings
from lab.engine.spark import pipeline
from lab.logs.config import read_config
from lab.running.target import locate
from tests.secured import PASSWORD, USER, secured
from tests.topics import RULES, append, assert_equal, events, expected, publish, topics
from tests.waiting import PATIENCE_S

SASL = """
[kafka]
bootstrap = "{address}"
group = "fraud"
topics = {{ events = "shop.payments", alerts = "fraud.alerts" }}

[kafka.client]
security.protocol = "SASL_SSL"
sasl.mechanism = "SCRAM-SHA-512"
sasl.username = "${{KAFKA_USER}}"
sasl.password = {{ file = "password" }}
ssl.ca.location = "{folder}/ca.pem"
"""
TLS = """
[kafka]
bootstrap = "{address}"

[kafka.client]
security.protocol = "SSL"
ssl.ca.location = "ca.pem"
ssl.certificate.location = "client.crt"
ssl.key.location = "client.key"
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    if not which("openssl"):
        pytest.skip("there is no openssl to make keys with")
    with secured(tmp_path_factory.mktemp("guarded") / "broker") as one:
        yield one


@pytest.fixture
def place(guarded, tmp_path, monkeypatch):
    (tmp_path / "lab.toml").write_text(SASL.format(address=guarded.sasl, folder=guarded.folder))
    (tmp_path / "password").write_text(PASSWORD + "\n")
    (tmp_path / "password").chmod(0o600)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAFKA_USER", USER)
    return tmp_path


def command_lines(process: psutil.Process) -> str:
    lines = ""
    for each in [process, *process.children(recursive=True)]:
        with suppress(psutil.Error):  # it has just ended
            lines += " ".join(each.cmdline()) + "\n"
    return lines


def holds(folder: Path, secret: str) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()]


@pytest.mark.slow
def test_from_lab_toml_to_alerts_with_sasl_over_tls(place, capsys):
    lab = [sys.executable, "-m", "lab"]
    locate().logs.create()
    assert (
        main(["rules", "add", "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(0),(10)", "--timeout", "0"])
        == OK
    )
    with (place / "said").open("w") as said:
        engine = subprocess.Popen(
            [*lab, "run"], stdout=said, stderr=said, env={**os.environ, "COLUMNS": "500"}
        )
    try:
        assert (
            main(["simulate", "payments", "--to", "kafka:///shop.payments", "--seconds", "1", "--rate", "50"])
            == OK
        )
        deadline, alerts, lines = time.monotonic() + PATIENCE_S, "", ""
        while not alerts or " events behind" not in (place / "said").read_text():
            assert engine.poll() is None and time.monotonic() < deadline, (place / "said").read_text()
            capsys.readouterr()
            assert main(["alerts", "--json"]) == OK
            alerts, lines = capsys.readouterr().out, lines + command_lines(psutil.Process(engine.pid))
            time.sleep(0.5)
        assert json.loads(alerts.splitlines()[0])["ruleId"] == 1
    finally:
        engine.send_signal(signal.SIGINT)
        engine.wait(PATIENCE_S)
    told = (place / "said").read_text()
    assert f"reading kafka://{read_config(place / 'lab.toml').kafka.address}/shop.payments" in told
    assert " events behind" in told and engine.returncode == OK
    for secret in (PASSWORD, PASSWORD.replace("\\", "\\\\").replace('"', '\\"')):
        assert secret not in told + lines + "".join(capsys.readouterr())
        assert holds(place / "checkpoint", secret) == []
    assert lines.count("java") > 0


@pytest.mark.slow
def test_who_does_not_speak_tls_is_told_what_may_be_wrong(guarded, place, capsys, monkeypatch):
    monkeypatch.setattr("lab.logs.cluster.ANSWER_S", 3.0)
    assert main(["alerts", "--logs", f"kafka://127.0.0.1:{guarded.tls.rpartition(':')[2]}"]) == FAILED
    assert "a broker that expects TLS or SASL does not answer either: lab.toml" in capsys.readouterr().err
    (place / "password").write_text("wrong")
    monkeypatch.setattr("lab.logs.cluster.ANSWER_S", 10.0)
    began = time.monotonic()
    assert main(["alerts"]) == FAILED
    assert time.monotonic() - began < 5.0
    told = capsys.readouterr().err
    assert "Authentication failed" in told and "wrong" not in told
    assert "does not accept this client" in told and "sasl.password in lab.toml" in told
    assert "no Kafka broker answers" not in told and "lab broker start" not in told


@pytest.mark.slow
def test_who_has_no_certificate_is_told_to_check_it(guarded, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    config = TLS.format(address=guarded.tls).replace("ca.pem", f"{guarded.folder}/ca.pem")
    (tmp_path / "lab.toml").write_text(config.partition("ssl.certificate")[0])
    monkeypatch.setattr("lab.logs.cluster.ANSWER_S", 3.0)
    assert main(["alerts"]) == FAILED
    told = capsys.readouterr().err
    assert "does not accept this client" in told and "the client's own certificate and key" in told


@pytest.mark.slow
@pytest.mark.parametrize("way", ["tls", "sasl"])
def test_certificates_and_passwords_of_clients_reach_spark_and_its_plans_do_not_show_them(
    way, guarded, spark, place, tmp_path
):
    if way == "tls":
        (guarded.folder / "lab.toml").write_text(TLS.format(address=guarded.tls))
    config = (guarded.folder if way == "tls" else place) / "lab.toml"
    logs = topics(read_config(config).kafka, way)
    publish(logs, *RULES)
    append(logs, events(200))
    engine = pipeline.start(spark, logs, tmp_path / "checkpoint", Settings(key_groups=4), once=True)
    engine.query.awaitTermination()
    shown = engine.query._jsq.explainInternal(True) + "".join(map(str, engine.query.recentProgress))
    engine.stop()
    assert assert_equal(logs, expected(logs, key_groups=4)) > 10
    key = (guarded.folder / "client.key").read_text().splitlines()[3]
    for secret in (key, PASSWORD, repr(PASSWORD)[1:-1], PASSWORD.replace("\\", "\\\\").replace('"', '\\"')):
        assert secret not in shown and secret not in repr((logs, logs.log("events")))
        assert holds(tmp_path / "checkpoint", secret) == []
