"""Another user of this machine, at the ports and files of an engine: kept out, and the engine goes on."""

import encodings.idna  # noqa: F401  (a stranger may not read where Python is installed)
import multiprocessing
import os
import re
import socket
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from lab.cli.main import main
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.kafkalogs import KafkaLogs
from lab.engine.spark import pipeline
from lab.logs.config import read_config
from lab.machine import broker, ports
from tests.waiting import PATIENCE_S

STRANGER = 60_003  # a number that nobody here has
REQUEST, RESPONSE, FAILURE = 3, 4, 5  # kinds of messages of Spark's RPC
only_root = pytest.mark.skipif(
    os.getuid() != 0, reason="NOT TRIED AS ANOTHER USER: only root can be another user for a test"
)


def as_stranger(work: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a process of another user."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()

    def live() -> None:
        try:
            os.setgroups([])
            os.setgid(STRANGER)
            os.setuid(STRANGER)
            theirs.send((True, work(*arguments)))
        except BaseException:  # noqa: BLE001  (told to the test)
            theirs.send((False, traceback.format_exc()))

    process = fork.Process(target=live, daemon=True)
    process.start()
    assert ours.poll(60), "no answer from the other user's process"
    fine, result = ours.recv()
    process.join()
    assert fine, result
    return result


def ask_spark(port: int, message: bytes) -> tuple[int, bytes]:
    """Sends one message of Spark's RPC without a secret; the kind of the answer, and its body."""
    with socket.create_connection((ports.HOST, port), timeout=PATIENCE_S) as client:
        client.sendall(struct.pack(">qbqi", 8 + 1 + 8 + 4 + len(message), REQUEST, 1, len(message)) + message)
        answer = client.makefile("rb")
        (length,) = struct.unpack(">q", answer.read(8) or bytes(8))
        frame = answer.read(max(0, length - 8))
    return (frame[0], frame[1:]) if frame else (FAILURE, b"closed")


def java_field(of: Any, name: str) -> Any:
    """The value of a private field of a Java object."""
    field = of.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(of)


def end_of_the_executor(spark) -> bytes:
    """The message by which Spark's driver ends its own executor, as the driver would send it."""
    java = spark.sparkContext._jvm
    # not from SparkEnv: Java cannot list its methods in Spark 4.3.0, whose jars lack a class that one of them names
    of_driver = java_field(spark.sparkContext._jsc.sc().schedulerBackend(), "localEndpoint")
    rpc = java_field(of_driver, "nettyEnv")
    end = java.Class.forName("org.apache.spark.scheduler.local.StopExecutor$").getField("MODULE$").get(None)
    buffer = java.org.apache.spark.rpc.netty.RequestMessage(None, of_driver, end).serialize(rpc)
    return bytes(buffer.array()[: buffer.limit()])


@only_root
def test_another_user_s_message_to_spark_is_refused_before_it_is_read_and_spark_goes_on(spark):
    assert spark.range(3).count() == 3
    message = end_of_the_executor(spark)
    kind, body = as_stranger(ask_spark, int(spark.conf.get("spark.driver.port")), message)
    assert kind == FAILURE and b"Unknown challenge message" in body, (kind, body[:300])
    assert spark.range(3).count() == 3


def ask_gateway(port: int) -> bytes:
    """Calls a method of Java's through PySpark's port, without the word that PySpark knows."""
    with socket.create_connection((ports.HOST, port), timeout=PATIENCE_S) as client:
        client.sendall(b"c\nz:java.lang.System\ngetProperties\ne\n")
        return client.makefile("rb").readline()


@only_root
def test_another_user_calls_no_java_through_pyspark_s_port(spark):
    gateway = spark.sparkContext._gateway
    assert as_stranger(ask_gateway, gateway.gateway_parameters.port).startswith(b"!x")  # refused, and hung up
    assert spark.range(3).count() == 3


def test_spark_listens_on_the_loopback_only_and_has_no_page(spark):
    import psutil

    spark.range(3).count()
    family = psutil.Process().children(recursive=True)
    java = [each for each in family if each.is_running() and each.name() == "java"]
    open_ports = [
        each.laddr for one in java for each in one.net_connections("tcp") if each.status == "LISTEN"
    ]
    assert len(open_ports) >= 3  # of the driver, of its blocks, of PySpark
    assert {place.ip.removeprefix("::ffff:") for place in open_ports} == {ports.HOST}
    assert spark.sparkContext.uiWebUrl is None


CLUSTER = """
from contextlib import suppress
import psutil
from lab.machine.session import session

def command_line(process):
    with suppress(psutil.Error):  # one that has ended has none
        return " ".join(process.cmdline())
    return ""

with session("local-cluster[1,1,1024]", conf={"spark.test.password": "hush-1"}) as spark:
    assert spark.range(3).repartition(2).mapInArrow(lambda rows: rows, "id long").count() == 3
    secrets = [spark.sparkContext.getConf().get(name) for name in ("spark.authenticate.secret", "spark.test.password")]
    assert len(secrets[0]) == 64 and secrets[1] == "hush-1"
    family = psutil.Process().children(recursive=True)
    shown = list(map(command_line, family))
    assert any("CoarseGrainedExecutorBackend" in each for each in shown), shown
    assert not [each for each in shown if secrets[0] in each or secrets[1] in each]
    print("SECRET", secrets[0])
"""


@pytest.mark.slow
def test_a_cluster_on_this_machine_has_a_secret_of_its_own_that_no_command_line_shows():
    done = subprocess.run([sys.executable, "-c", CLUSTER], check=False, capture_output=True, text=True)
    assert re.search(r"^SECRET [0-9a-f]{64}$", done.stdout, re.MULTILINE), done.stderr


@pytest.mark.slow
def test_a_cluster_of_several_hosts_without_a_secret_is_refused_with_what_to_do():
    program = "from lab.machine.session import session\nwith session('spark://127.0.0.1:1'): pass"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert (
        "spark://127.0.0.1:1 has no secret: `python -m lab.machine.clustersecret FOLDER` makes one"
        in done.stderr
    )


def test_a_secret_in_a_setting_on_the_command_line_is_refused_and_not_shown(capsys):
    for name in ("spark.authenticate.secret", "spark.hadoop.fs.s3a.secret.key", "spark.ssl.keyStorePassword"):
        with pytest.raises(SystemExit):
            main(["run", "--conf", f"{name}=hush-hush"])
        said = capsys.readouterr().err
        assert "everybody on this machine can see" in said and "hush-hush" not in said


def test_all_that_an_engine_writes_is_for_its_user_alone(spark, tmp_path):
    logs, before = FileLogs(tmp_path / "here" / "logs"), os.umask(0)
    try:
        logs.create()
        logs.log("control").append(["1,(active),(payeeId),,(paymentAmount),(SUM),(>),(1),(20)"])
        logs.log("events").append(
            [f"{number},2013-01-01 00:00:00,1001,1002,CSH,21.5,1" for number in range(9)] + ["bad"]
        )
        with pipeline.start(
            spark, logs, tmp_path / "here" / "checkpoint", Settings(parallelism=2), once=True
        ) as engine:
            engine.query.awaitTermination()
    finally:
        os.umask(before)
    made = [tmp_path / "here", *(tmp_path / "here").rglob("*")]
    assert {"commits", "offsets", "alerts", "deadLetters"} <= {path.name for path in made}
    assert len(logs.log("alerts").read()) == 9
    assert not [f"{path} {path.stat().st_mode:o}" for path in made if path.stat().st_mode & 0o077]


# -- the broker --------------------------------------------------------------------------------------------------------


def topics_seen(address: str, wait_s: float = PATIENCE_S, **login: str) -> list[str]:
    """What a client sees of a broker; raises KafkaException if the broker does not let it in for so long."""
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": address, "log_level": 0, **login})
    return sorted(client.list_topics(timeout=wait_s).topics)


def test_a_broker_with_users_serves_nobody_else_and_shows_no_password(with_users, monkeypatch, tmp_path):
    import psutil
    from confluent_kafka import KafkaException

    address, plain = with_users.address, {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    topics_seen(address, **plain, **{"sasl.username": "ana", "sasl.password": "ana-s-word"})
    controller = re.search(r"CONTROLLER://([\d.:]+)", (with_users.folder / "server.properties").read_text())[
        1
    ]
    for login in (
        {},
        plain | {"sasl.username": "ana", "sasl.password": "bob-s-word"},
        plain | {"sasl.username": "eve", "sasl.password": ""},
    ):
        for place in (address, controller):
            with pytest.raises(KafkaException):
                topics_seen(place, 1, **login)
    assert with_users.answers() and not broker.broker_answers(ports.free_port())
    shown = " ".join(psutil.Process(with_users.pid).cmdline())
    assert "s-word" not in shown
    for file in ("own.properties", "server.properties"):
        assert (with_users.folder / file).stat().st_mode & 0o077 == 0
    (tmp_path / "lab.toml").write_text(
        f'[kafka]\nbootstrap = "{address}"\n[kafka.client]\nsecurity.protocol = "SASL_PLAINTEXT"\n'
        'sasl.mechanism = "PLAIN"\nsasl.username = "ana"\nsasl.password = { file = "word" }\n'
    )
    (tmp_path / "word").write_text("ana-s-word\n")
    (tmp_path / "word").chmod(0o600)
    monkeypatch.chdir(tmp_path)
    logs = KafkaLogs(read_config(tmp_path / "lab.toml").kafka)
    logs.create()
    assert logs.log("events").publish(["{}"], ["1"]) == ["events/0:0"]


@pytest.mark.parametrize("text", ["", "ana\n", 'ana "quoted"\n', "ana {word}\n", "lab-broker x\n"])
def test_a_list_of_users_that_does_not_fit_is_refused_without_its_words(tmp_path, text):
    (tmp_path / "users").write_text(text)
    (tmp_path / "users").chmod(0o600)
    with pytest.raises(broker.BrokerError, match="expected a name and a password") as error:
        broker.read_users(tmp_path / "users")
    assert "quoted" not in str(error.value)
