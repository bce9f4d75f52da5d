"""The broker: a real Kafka. It keeps what it acknowledged, is on the loopback only, and says why it did not start."""

import json
import os
import re
import socket
import subprocess
import sys

import psutil
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from lab.cli.main import FAILED, OK, main
from lab.machine import broker, doctor, ports
from tests.waiting import PATIENCE_S, program


def produce(one: broker.Broker, topic: str, value: bytes) -> None:
    """Writes one record and returns when the broker has acknowledged it."""
    admin = KafkaAdminClient(bootstrap_servers=one.address)
    if topic not in admin.list_topics():
        admin.create_topics([NewTopic(topic, 1, 1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=one.address, acks="all")
    producer.send(topic, value).get(20)
    producer.close()


def consume(one: broker.Broker, topic: str) -> list[bytes]:
    consumer = KafkaConsumer(
        bootstrap_servers=one.address, auto_offset_reset="earliest", enable_auto_commit=False
    )
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    end, values = consumer.end_offsets([partition])[partition], []
    while consumer.position(partition) < end:
        for records in consumer.poll(timeout_ms=500).values():
            values += [record.value for record in records]
    consumer.close()
    return values


def listens_at(pid: int) -> set[str]:
    sockets = psutil.Process(pid).net_connections()
    return {socket.laddr.ip for socket in sockets if socket.status == psutil.CONN_LISTEN}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_what_was_acknowledged_is_there_after_a_stop_or_a_kill(kafka, how):
    produce(kafka, how, b"one")
    assert consume(kafka, how) == [b"one"]
    here = broker.status(kafka.folder)
    if how == "killed":
        here.kill()
        assert not here.is_alive and broker.status(kafka.folder) is None
    again = here.restart()
    assert (again.folder, again.port) == (here.folder, here.port) and again.pid != here.pid
    assert consume(again, how) == [b"one"]


def test_it_listens_on_the_loopback_only(kafka):
    assert listens_at(broker.status(kafka.folder).pid) == {"127.0.0.1"}


def test_it_is_there_for_others_who_look_and_for_a_second_start(kafka, capsys):
    here = broker.status(kafka.folder)
    assert here.answers() and broker.broker_on_port(here.port) == here
    assert broker.start(here.folder, here.port) == here == broker.start(here.folder, 0)
    where = ["--folder", str(here.folder)]
    assert main(["broker", "start", *where, "--port", str(here.port)]) == OK
    assert f"Kafka already runs at {here.address} (pid {here.pid})" in capsys.readouterr().out
    assert main(["broker", "status", *where]) == OK
    assert capsys.readouterr().out.startswith(f"Kafka runs at {here.address} (pid {here.pid})")


def test_a_lost_pid_file_is_written_again(kafka):
    here = broker.status(kafka.folder)
    (here.folder / "broker.json").unlink()
    assert broker.status(here.folder) is None
    assert broker.start(here.folder, here.port) == here == broker.status(here.folder)


@pytest.mark.slow
def test_a_folder_serves_one_broker_and_a_port_one_program(kafka, tmp_path, capsys):
    here = broker.status(kafka.folder)
    with pytest.raises(broker.BrokerError, match=f"{here.folder} is in use by a broker on port {here.port}"):
        broker.start(here.folder, ports.free_port())
    with pytest.raises(broker.BrokerError, match=f"port {here.port} is taken by the broker of {here.folder}"):
        broker.start(tmp_path, here.port)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert main(["broker", "start", "--folder", str(tmp_path), "--port", str(port)]) == FAILED
        assert not broker.broker_answers(port)
    assert f"port {port} is taken by python (pid {os.getpid()}): stop it" in capsys.readouterr().err


def test_the_doctor_is_content_with_the_port_when_it_is_our_broker_that_has_it(kafka):
    check = doctor.check_port(kafka.port, "the Kafka broker")
    assert check.state == "ok" and str(kafka.folder) in check.found


@pytest.mark.slow
def test_the_command_ends_and_its_broker_goes_on_until_it_is_stopped(kafka, tmp_path):
    """In a folder with a space and letters beyond ASCII: they go into no file of properties."""
    folder, port = tmp_path / "my dàta, €", str(ports.free_port())

    def lab(*words: str) -> str:
        command = [sys.executable, "-m", "lab", "broker", *words, "--folder", str(folder)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == OK, done.stderr
        return done.stdout

    said = lab("start", "--port", port)
    started = broker.status(folder)
    try:
        assert f"Kafka runs at 127.0.0.1:{port} (pid {started.pid})" in said and "lab broker stop" in said
        assert psutil.Process(started.pid).ppid() != os.getpid() and os.getsid(started.pid) == started.pid
    finally:
        said = lab("stop")
    assert said == f"stopped; data in {folder}\n" and not started.is_alive
    assert "no broker runs in" in lab("stop")


def test_one_that_dies_while_starting_says_why_and_leaves_nothing_behind(kafka, tmp_path):
    properties = tmp_path / "data" / "meta.properties"
    properties.parent.mkdir()
    properties.write_text("version=1\nnode.id=2\ncluster.id=x\n")
    with pytest.raises(broker.BrokerError) as error:
        broker.start(tmp_path, 0)
    said = str(error.value)
    assert said.startswith(f"the broker died while starting. Its log {tmp_path}/broker.log says:")
    assert "Stored node id 2 doesn't match previous node id 1" in said and len(said.splitlines()) <= 6
    assert broker.status(tmp_path) is None


def test_a_stale_pid_file_is_no_broker_and_its_pid_is_never_signalled(tmp_path, capsys):
    with program(["sleep", "60"]) as other:
        (tmp_path / "broker.json").write_text(json.dumps({"pid": other.pid, "port": 9}))
        assert broker.status(tmp_path) is None
        stale = broker.Broker(tmp_path, 9, other.pid)
        assert stale.stop() == "stopped" and stale.kill() is None and not stale.answers()
        where = ["--folder", str(tmp_path)]
        assert main(["broker", "stop", *where]) == OK
        assert main(["broker", "status", *where]) == FAILED
        assert other.poll() is None
    out, err = capsys.readouterr()
    assert f"no broker runs in {tmp_path}; `lab broker start` starts one" in out and "no broker runs" in err
    (tmp_path / "broker.json").write_text("{")
    assert broker.status(tmp_path) is None


def test_one_that_does_not_stop_in_time_is_killed(monkeypatch, tmp_path):
    monkeypatch.setattr(broker, "STOP_S", 0.2)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    command = [sys.executable, "-c", deaf, f"{broker.MARK}{tmp_path}"]
    with program(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert broker.Broker(tmp_path, 9, process.pid).stop() == "killed"
        assert not psutil.pid_exists(process.pid) or process.poll() is not None


def test_without_java_nothing_is_written_but_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(doctor.JavaMissing, match="Java 17 or newer"):
        broker.start(tmp_path / "broker", 0)


def test_the_controller_never_gets_the_port_of_the_broker(tmp_path, monkeypatch):
    given = iter([29_092, 29_092, 29_093])
    monkeypatch.setattr(broker.ports, "free_port", lambda: next(given))
    monkeypatch.setattr(broker.ports, "is_free", lambda port: True)
    monkeypatch.setattr(broker, "_format", lambda *of: (_ for _ in ()).throw(InterruptedError()))
    with pytest.raises(InterruptedError):
        broker.start(tmp_path, 0)
    said = (tmp_path / "server.properties").read_text()
    [listeners] = re.findall("^listeners=(.*)$", said, re.MULTILINE)
    assert re.findall(":([0-9]+)", listeners) == ["29092", "29093"]


def test_a_folder_that_kafka_cannot_format_says_why(tmp_path):
    (tmp_path / "own.properties").write_text("listeners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:1\n")
    with pytest.raises(broker.BrokerError) as error:
        broker.start(tmp_path, 0)
    assert str(error.value).endswith("port: 1")


def test_users_that_cannot_be_written_leave_those_that_were_there(tmp_path, monkeypatch):
    """A broker without its users would serve everybody of the host at its next start."""
    broker.restrict_to_users(tmp_path, {"ann": "secret-of-ann"})
    opened = broker.private_file_opener

    def full(path: str, flags: int) -> int:
        os.close(opened(path, flags))
        return os.open("/dev/full", os.O_WRONLY)

    with monkeypatch.context() as disk, pytest.raises(OSError, match="No space left"):
        disk.setattr(broker, "private_file_opener", full)
        broker.restrict_to_users(tmp_path, {"bob": "secret-of-bob"})
    assert 'user_ann="secret-of-ann"' in (tmp_path / "own.properties").read_text()
    broker.restrict_to_users(tmp_path, {"bob": "secret-of-bob"})
    assert 'user_bob="secret-of-bob"' in (tmp_path / "own.properties").read_text()
    assert (tmp_path / "own.properties").stat().st_mode & 0o777 == 0o600
