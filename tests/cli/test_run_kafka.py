"""`lab run` on a broker that sends odd things and goes away: said on its screen, and survived."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from threading import Event

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from lab.cli.main import FAILED, OK, main
from lab.logs.kafka import COMPACTED, KEPT, KafkaLog
from lab.machine import broker
from lab.model.times import now_ms
from lab.running import run as run_module
from lab.stream.simulate import payments, to_json
from tests.topics import RULES, append, counted, delete_topic, events, expected, publish, topics
from tests.waiting import PATIENCE_S, wait_until

BIG = 10 << 20  # bytes of a record
AWAY_S = int(os.environ.get("AWAY_S", "90"))  # how long the broker of the soak test is away


class Screen:
    """A running `lab run` and what it says."""

    def __init__(self, process: subprocess.Popen, file):
        self.process, self._file = process, file

    def text(self) -> str:
        return self._file.read_text()

    def stacks(self) -> str:
        """Where a worker has stood still for long, as it has written into Spark's log, innermost call first."""
        lines = (self._file.parent / "spark.log").read_text(errors="replace").splitlines()
        return "\n".join(
            [line for line in lines if line.lstrip().startswith("File ") and "/lab/" in line][-24:]
        )

    def wait_for(self, *words: str) -> str:
        def missing() -> list[str]:
            return [word for word in words if word not in self.text()]

        self.wait_until(lambda: not missing(), said=lambda: f"{missing()}: {self.text()}")
        return self.text()

    def wait_until(self, true, said=None) -> None:
        said = said or self.text
        alive = self.process.poll
        wait_until(
            true, pause_s=0.2, alive=lambda: alive() is None, said=lambda: f"{said()}\n{self.stacks()}"
        )


@contextmanager
def running(logs, folder, *arguments: str):
    topics = {f"--{option}": logs.log(log) for option, log in (("events", "events"), ("rules", "control"), ("alerts", "alerts"), ("acks", "acks"), ("dead-letters", "deadLetters"), ("stats", "stats"))}  # fmt: skip
    where = [word for option, log in topics.items() for word in (option, repr(log))]
    command = [sys.executable, "-m", "lab", "run", *where, "--checkpoint", str(folder / "checkpoint"), "--key-groups", "4"]  # fmt: skip
    command += ["--conf", f"spark.python.worker.tracebackDumpIntervalSeconds={PATIENCE_S - 100}"]
    with (folder / "screen").open("w") as screen:
        process = subprocess.Popen(
            [*command, *arguments], stdout=screen, stderr=screen, start_new_session=True
        )
    try:
        yield Screen(process, folder / "screen")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)


def written(logs, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": logs.address, "message.max.bytes": 2 * BIG, "log_level": 0})
    for value in values:
        producer.produce(logs.log("events").topic, value)
    producer.flush()


def committed(logs, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": logs.address, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(logs.log("events").topic, 0)], timeout=PATIENCE_S)
        return found.offset
    finally:
        consumer.close()


def lines_from(start_ms: int) -> list[str]:
    return [
        to_json(event) for event in payments(seed=3, events=400, start_ms=start_ms, rate_per_s=1, payees=9)
    ]


def odd_records() -> list[bytes]:
    """An event in seconds, one of 2140, one twice, a gzipped one, a long one: each is bad or doubtful in its own way."""
    event = json.loads(events(1)[0])
    now = now_ms()

    def event_at(number: int, time: int) -> bytes:
        return json.dumps(event | {"transactionId": 10_000 + number, "eventTime": time}).encode()

    fresh = event_at(1, now)
    late = event_at(5, now - 86_400_000)
    return [
        *(event_at(2, now // 1000), fresh, fresh, late, event_at(3, 5_364_662_400_000)),
        *(gzip.compress(event_at(4, now)), b'{"transactionId": "' + b"x" * BIG + b'"}'),
    ]


@pytest.fixture(scope="module")
def generous(tmp_path_factory):
    """A broker that makes a topic for whoever asks for one, as brokers do unless they are told otherwise."""
    folder = tmp_path_factory.mktemp("generous")
    (folder / "own.properties").write_text("auto.create.topics.enable=true\n")
    with broker.running_broker(folder) as one:
        yield one


def topics_of(one: broker.Broker) -> set[str]:
    found = KafkaLog(one.address, "").cluster.admin_client.list_topics(timeout=PATIENCE_S).topics
    return {name for name in found if not name.startswith("__")}


@pytest.mark.slow
def test_capture_and_restrictions_need_the_topics_that_they_read_and_make_those_that_they_write(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("lab.rulestore.capture.run_capture", lambda *_: None)
    monkeypatch.setattr("lab.followers.restrict.stop_signals", stopped_already)
    (tmp_path / "own.properties").write_text("auto.create.topics.enable=true\n")
    with broker.running_broker(tmp_path) as one:
        where = ["--logs", f"kafka://{one.address}", "--schema", "payments"]
        capture = ["cdc", "run", "--store", f"sqlite:///{tmp_path}/rules.db", *where]
        assert main(capture) == FAILED
        assert f"there is no topic acks on {one.address} (there are no topics)" in capsys.readouterr().err
        KafkaLog(one.address, "acks").create()
        assert main(capture) == OK and topics_of(one) == {"acks", "control"}
        KafkaLog(one.address, "alarts").create()
        assert main(["restrict", "run", *where]) == FAILED
        said = capsys.readouterr().err
        assert "there is no topic alerts" in said and "did you mean alarts?" in said and "`lab run`" in said
        assert topics_of(one) == {"acks", "control", "alarts"}
        KafkaLog(one.address, "alerts").create()
        assert main(["restrict", "run", *where]) == OK
        made = {"restrictions", "restrictionDeadLetters"}
        assert topics_of(one) == {"acks", "control", "alarts", "alerts"} | made


@contextmanager
def stopped_already():
    stopped = Event()
    stopped.set()
    yield stopped


@pytest.mark.slow
def test_an_events_topic_that_somebody_names_is_not_made_and_similar_ones_are_told(
    generous, tmp_path, monkeypatch, capsys
):
    def stop(_say):
        raise RuntimeError("it would start")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_module, "compile_window_loop", stop)
    where = f"kafka://{generous.address}"
    typo = ["run", "--logs", where, "--events", f"{where}/paymnts"]
    assert main(typo) == FAILED
    said = capsys.readouterr().err
    assert (
        f"there is no topic paymnts on {generous.address} (there are no topics). If the name is right" in said
    )
    named = f'[kafka]\nbootstrap = "{generous.address}"\ntopics = {{ events = "payments" }}\n'
    (tmp_path / "lab.toml").write_text(named)
    assert main(["run"]) == FAILED
    assert "there is no topic payments on" in capsys.readouterr().err and topics_of(generous) == set()
    simulate = ["simulate", "payments", "--seconds", "1", "--rate", "9", "--to", f"{where}/payments"]
    assert main(simulate) == OK and topics_of(generous) == {"payments"}
    for command in (typo, ["infer", f"{where}/paymnts"]):
        assert main(command) == FAILED
        assert f"topic paymnts on {generous.address} (did you mean payments?)" in capsys.readouterr().err
    KafkaLog(generous.address, "zoo").create()
    assert main(["infer", f"{where}/x"]) == FAILED
    assert "(topics there: payments, zoo)" in capsys.readouterr().err
    assert topics_of(generous) == {"payments", "zoo"}
    (tmp_path / "lab.toml").unlink()
    capsys.readouterr()
    # an events topic that nobody names is made, and that is said
    assert main(["run", "--logs", where]) == FAILED
    said = capsys.readouterr().err
    assert "it would start" in said and "events" in topics_of(generous)
    assert f"{where}/events was not there: created, and empty until something writes to it" in said
    assert main(["run", "--logs", where]) == FAILED and "was not there" not in capsys.readouterr().err


@pytest.mark.slow
def test_rules_need_only_their_topic_and_of_a_topic_that_is_not_there_similar_ones_are_told(
    generous, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    where = f"kafka://{generous.address}"
    KafkaLog(generous.address, "fraud.alerts").create()
    KafkaLog(generous.address, "fraud.rules").create(config=COMPACTED)
    there = topics_of(generous)
    (tmp_path / "lab.toml").write_text('[notify.oncall]\nurl = "json://127.0.0.1:1"\n')
    (tmp_path / "lab.toml").chmod(0o600)
    rules, alerts = ["--rules", f"{where}/fraud.rles"], ["--alerts", f"{where}/fraud.alrts"]
    for similar, command in [
        *(("fraud.rules", [*command, *rules]) for command in (["rules", "add", RULES[0]], ["rules", "pause", "1"], ["rules", "list"])),
        *(("fraud.alerts", [*command, *alerts]) for command in (["alerts"], ["export", "--to", "sqlite:///a.db"], ["notify", "--to", "oncall"])),
    ]:  # fmt: skip
        assert main(command) == FAILED
        said = capsys.readouterr().err
        assert f"{command[-1].rpartition('/')[2]} on {generous.address} (did you mean {similar}" in said
        assert "`lab run`" in said
    rule = ["rules", "add", RULES[0], "--rules", f"{where}/fraud.rules"]
    assert main(rule) == OK and main([*rule, "--timeout", "0"]) == OK
    assert "queued in kafka://" in capsys.readouterr().out and topics_of(generous) == there
    assert len(KafkaLog(generous.address, "fraud.rules").read()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_deleted_alerts_topic_ends_the_engine_and_the_next_one_creates_it(kafka, tmp_path, parallelism):
    """Several tasks deliver by Spark's sink, which waits for ever for a topic that is gone."""
    logs, lines = topics(kafka.address, f"deleted-{parallelism}"), lines_from(now_ms() - 400_000)
    publish(logs, *RULES)
    with running(logs, tmp_path, "--parallelism", str(parallelism)) as screen:
        append(logs, lines[:200])
        screen.wait_for("events behind")
        delete_topic(logs.log("alerts"))
        append(logs, lines[200:])
        wait_until(lambda: screen.process.poll() is not None, said=screen.text)
        assert screen.process.returncode == FAILED
        assert f"{logs.log('alerts')} was deleted while the engine ran; `lab run` creates it" in screen.text()
    with running(logs, tmp_path, "--parallelism", str(parallelism)):
        wait_until(lambda: logs.log("alerts").read() if logs.log("alerts").topic in topics_of(kafka) else ())


@pytest.mark.slow
@pytest.mark.parametrize("away_s", [25, pytest.param(AWAY_S, marks=pytest.mark.soak)])
def test_odd_records_a_broker_that_goes_away_and_a_second_engine_are_said_and_survived(
    kafka, tmp_path, away_s
):
    """Until the broker is away for longer than it was told to wait."""
    name, other = f"away-{away_s}", tmp_path / "other"
    KafkaLog(kafka.address, f"events-{name}").create(1, KEPT | {"max.message.bytes": str(2 * BIG)})
    logs, lines = topics(kafka.address, name), lines_from(now_ms() - 400_000)
    publish(logs, *RULES)
    with running(logs, tmp_path, "--give-up-after", f"{away_s + 35}s") as screen:
        append(logs, lines[:200])
        screen.wait_for("events behind")
        written(logs, odd_records())
        screen.wait_for(
            "1 event dated before March 1973: are their times in seconds?",
            "2 times an event had the id and time of an earlier one of its group on a route: it was not counted again",
            "4 times an event was too late for a route, and dropped there",
            "1 dead letter: gzip inside a record, expected JSON",
            f"1 dead letter: line of {BIG + 21} bytes, at most 1048576 are allowed",
            "1 dead letter: eventTime: expected at most 86400000 ms",
        )
        append(logs, lines[200:300])
        broker.status(kafka.folder).stop()
        time.sleep(away_s)
        screen.wait_for("waiting for Kafka for ", "nothing is lost: no Kafka broker answers at ")
        kafka.restart()
        screen.wait_for("Kafka answers again after ")
        append(logs, lines[300:])
        screen.wait_until(lambda: counted(logs)["records"] >= 407 and committed(logs, "lab") >= 407)
        reference, alerts = expected(logs, key_groups=4), map(json.loads, logs.log("alerts").read())
        assert {alert["alertId"] for alert in alerts} == {alert.alert_id for alert in reference.alerts}
        assert counted(logs) == reference.counts and len(reference.alerts) > 10
        other.mkdir()
        with running(logs, other) as second:
            second.wait_for("Ctrl-C stops it")
            append(logs, events(3))
            assert second.process.wait(PATIENCE_S) == FAILED
        assert "so each alert would come twice: stop one of the two" in second.text()
        publish(logs, RULES[1])  # whose answer cannot be written
        broker.status(kafka.folder).kill()
        try:
            assert screen.process.wait(PATIENCE_S) == FAILED
        finally:
            kafka.restart()
    assert "lab: gave up after " in screen.text() and "started again, it continues" in screen.text()
