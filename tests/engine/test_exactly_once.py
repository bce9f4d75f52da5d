"""Cuts in transactions of a real broker: killed anywhere, or beside a twin, a reader of committed records gets each alert once."""

import json
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing import get_context
from pathlib import Path
from threading import Thread
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from lab.cli.main import FAILED, main
from lab.engine.checkpoint.cuts import Cut, TakenOver
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.record import batch_fingerprint
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop import kafkaoutlet
from lab.engine.loop.ends import check_transactions_possible
from lab.engine.loop.inprocess import compile_kernels
from lab.engine.loop.job import EngineId, Job
from lab.engine.loop.kafkalogs import KafkaLogs
from lab.engine.spark import pipeline, runner
from lab.engine.windows import shared
from lab.logs import kafka
from lab.machine import broker
from tests.topics import RULES, append, assert_equal, count_appended, events, expected, publish, topics
from tests.waiting import PATIENCE_S, wait_until

SETTINGS = Settings(key_groups=4, exactly_once=True)
EACH = RULES[0].replace("(60)", "(0)")  # alerts for each event
KILLED_AT = 3  # of its commits
processes = get_context("spawn")  # a client of Kafka does not survive a fork


def job_of(logs: KafkaLogs, checkpoint: Path) -> Job:
    job = Job(SETTINGS, logs, str(checkpoint), f"test-{uuid4().hex[:8]}", engine_id=EngineId("id", 1))
    shared.private_folder(job.start_id)
    return job


def attempt(job: Job, killed: str) -> None:
    """Runs the loop; kills itself before or after it commits."""

    class Mortal(Producer):
        commits = 0

        def commit_transaction(self, *arguments) -> None:
            self.commits += 1
            if killed == "before" and self.commits == KILLED_AT:
                self.flush()
                os.kill(os.getpid(), signal.SIGKILL)
            super().commit_transaction(*arguments)
            if killed == "after" and self.commits == KILLED_AT:
                os.kill(os.getpid(), signal.SIGKILL)

    kafka.Producer = Mortal  # type: ignore[misc]
    compile_kernels()
    runner.run_loop(job, 0)


@contextmanager
def attempted(job: Job, killed: str = "") -> Iterator:
    process = processes.Process(target=attempt, args=(job, killed))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()
        shutil.rmtree(shared.private_folder(job.start_id), ignore_errors=True)


def assert_read(logs: KafkaLogs, ids: list[str]) -> None:
    """A commit shows a moment after it was answered."""
    wait_until(lambda: len(alert_ids(logs)) >= len(ids))
    assert alert_ids(logs) == ids


def alert_ids(logs: KafkaLogs) -> list[str]:
    return [json.loads(line)["alertId"] for line in logs.log("alerts").read()]


def uncommitted(logs: KafkaLogs) -> list[str]:
    """The ids of all alerts in the topic, also of those that were never committed."""
    consumer = Consumer({"bootstrap.servers": logs.address, "group.id": "all", "isolation.level": "read_uncommitted", "enable.partition.eof": True})  # fmt: skip
    consumer.assign([TopicPartition(logs.topic("alerts"), 0, 0)])
    found = []
    while message := consumer.poll(PATIENCE_S):
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF
            break
        found.append(json.loads(message.value())["alertId"])
    consumer.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["before", "after"])
def test_killed_at_its_commit_the_next_attempt_delivers_what_was_not_committed(kafka, tmp_path, killed):
    """
    before   commit  commit  8 in the topic ┊            8 aborted  8 commit …
    after    commit  commit  8 committed ┊               8 stays            9 …
    """
    logs, lines = topics(kafka.address, f"once-{killed}"), events(40)
    publish(logs, EACH)
    with attempted(job_of(logs, tmp_path), killed) as first:
        with closing(logs.log("alerts").tail()) as alerts:
            for line in lines[:20]:
                append(logs, [line])
                wait_until(lambda: not first.is_alive() or alerts.read())
        first.join(PATIENCE_S)
    assert first.exitcode == -signal.SIGKILL
    # an open transaction keeps no reader waiting
    wait_until(lambda: len(uncommitted(logs)) - len(alert_ids(logs)) == (killed == "before"))
    last = job_of(logs, tmp_path)
    with attempted(last) as second:
        append(logs, lines[20:])
        wait_until(lambda: len(set(alert_ids(logs))) == len(lines), alive=second.is_alive)
        runner.tell_to_stop(last)
        second.join(PATIENCE_S)
    assert second.exitcode == 0
    assert_equal(logs, expected(logs, key_groups=SETTINGS.key_groups))
    assert Counter(alert_ids(logs)).most_common(1)[0][1] == 1
    batches = [json.loads(line)["batch"] for line in logs.log("stats").read()]
    assert batches == list(range(len(batches)))


def cut_of(number: int) -> Cut:
    def mark(end: int) -> dict:
        return {"cut": end, "at": end, "events": {"0": end}, "control": {"0": 0}, "ledger": "", "number": end}

    return Cut(number, mark(number - 1), mark(number))


def output_of(cut: Cut) -> dict:
    told = {"from": 0, "to": cut.end["cut"], "events": {"0": cut.number}, "control": {"0": 0}}
    engine = {"id": "id", "since": 0, "exactlyOnce": True}
    stats = {"batch": cut.number, "keyGroups": [0, 3], "times": {"end": 10**9}, "engine": engine, "cut": told}
    return {
        "alerts": (["key"], [json.dumps({"alertId": str(cut.number)})]),
        "stats": (["0"], [json.dumps(stats)]),
    }


def outlet_of(logs: KafkaLogs, *taken: Cut, check=lambda: None) -> kafkaoutlet.TransactionalOutlet:
    return logs.transactional_outlet("id", 4, taken, check)


def put(outlet, cut: Cut) -> None:
    outlet.put(cut, output_of(cut), frozenset())


def open_transaction(logs: KafkaLogs, line: str) -> Producer:
    """Somebody else's, which has written a line to the stats log."""
    producer = Producer({"bootstrap.servers": logs.address, "transactional.id": "other", "log_level": 0})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(logs.topic("stats"), line)
    producer.flush()
    return producer


def test_an_attempt_that_was_taken_for_dead_is_fenced_by_the_broker(kafka):
    logs = topics(kafka.address, "once-twin")
    first, cuts = outlet_of(logs), list(map(cut_of, range(3)))
    put(first, cuts[0])
    second = outlet_of(logs, *cuts[:2])
    assert second.committed == {(0, batch_fingerprint(cuts[0].end))}
    with pytest.raises(TakenOver, match="the broker has fenced this attempt"):
        put(first, cuts[1])
    for cut in cuts:
        put(second, cut)
    assert_read(logs, ["0", "1", "2"])


def test_a_twin_that_wakes_up_late_neither_fences_the_owner_nor_delivers(kafka):
    logs = topics(kafka.address, "once-late")
    owner = outlet_of(logs)

    def taken_over() -> None:
        raise TakenOver("by the owner")

    with pytest.raises(TakenOver, match="by the owner"):
        outlet_of(logs, check=taken_over)
    put(owner, cut_of(0))
    # it slept in between: the owner is fenced, but the twin does not go on
    answers = iter([None, taken_over])

    def check() -> None:
        if answer := next(answers):
            answer()

    with pytest.raises(TakenOver, match="by the owner"):
        outlet_of(logs, check=check)
    with pytest.raises(TakenOver, match="fenced"):
        put(owner, cut_of(1))
    put(again := outlet_of(logs, cut_of(0), cut_of(1)), cut_of(0))
    put(again, cut_of(1))
    assert_read(logs, ["0", "1"])


def test_what_was_committed_is_known_also_behind_the_open_transaction_of_somebody_else(kafka, monkeypatch):
    monkeypatch.setattr(kafkaoutlet, "MARKED_S", 0.1)
    logs, cut = topics(kafka.address, "once-hidden"), cut_of(0)
    other = open_transaction(logs, "{}")
    put(outlet_of(logs), cut)
    known: list = []
    asking = Thread(target=lambda: known.append(outlet_of(logs, cut).committed))
    asking.start()
    asking.join(1)
    assert logs.log("stats").read() == [] and not known
    other.commit_transaction()
    asking.join(PATIENCE_S)
    assert known == [{(0, batch_fingerprint(cut.end))}]


def test_a_cut_whose_commit_a_restarting_broker_forgot_to_mark_is_not_delivered_again(kafka, monkeypatch):
    monkeypatch.setattr(kafkaoutlet, "MARKED_S", 0.1)
    logs, cut = topics(kafka.address, "once-unmarked"), cut_of(0)
    # by another id, as the initialization would end the transaction of the checkpoint's own: only a broker in haste forgets it
    unmarked = open_transaction(logs, output_of(cut)["stats"][1][0])
    assert outlet_of(logs, cut).committed == {(0, batch_fingerprint(cut.end))}
    unmarked.abort_transaction()


def test_what_was_delivered_without_a_transaction_is_delivered_again(kafka):
    """Its line of the stats log may have arrived without its alerts."""
    logs, cut = topics(kafka.address, "once-untransacted"), cut_of(0)
    [stats] = output_of(cut)["stats"][1]
    logs.log("stats").publish([stats.replace(', "exactlyOnce": true', "")], ["0"])
    put(outlet_of(logs, cut), cut)
    assert_read(logs, ["0"])


@pytest.mark.slow
def test_on_spark_it_delivers_in_transactions_and_goes_on_after_a_restart(kafka, spark, tmp_path):
    logs, lines = topics(kafka.address, "once-spark"), events(60)
    publish(logs, EACH)
    for part in (lines[:30], lines[30:]):
        append(logs, part)
        count = len(alert_ids(logs)) + len(part)
        engine = pipeline.start(spark, logs, tmp_path, SETTINGS)
        wait_until(
            lambda count=count: len(alert_ids(logs)) == count,
            alive=lambda engine=engine: engine.query.isActive,
        )
        engine.stop()
    assert len(set(alert_ids(logs))) == len(alert_ids(logs)) == 60
    assert all(json.loads(line)["engine"]["exactlyOnce"] for line in logs.log("stats").read())
    stats = logs.log("stats")
    assert count_appended(stats) > len(stats.read())  # the marks of commits take offsets, too


def test_where_it_cannot_be_kept_it_is_refused_with_the_way_out(tmp_path, capsys):
    with pytest.raises(ValueError, match="use parallelism 1, or .* drop repeated alerts by alertId"):
        Settings(parallelism=2, exactly_once=True)
    topics = KafkaLogs("localhost:1")
    with pytest.raises(ValueError, match="s3a://bucket/x: there Spark's sink delivers, at least once"):
        check_transactions_possible(topics, CheckpointFolder("s3a://bucket/x"))
    with pytest.raises(ValueError, match="stops when it has read all: there Spark's sink delivers"):
        check_transactions_possible(topics, CheckpointFolder(tmp_path), stops_at_end=True)
    assert main(["run", "--logs", str(tmp_path / "logs"), "--exactly-once"]) == FAILED
    assert "they get each alert once without it, so leave it out" in capsys.readouterr().err


@pytest.mark.slow
def test_a_stop_does_not_wait_for_a_broker_that_is_away(kafka, tmp_path, monkeypatch):
    logs = topics(kafka.address, "once-away")
    job = job_of(logs, tmp_path)
    before = runner._before(job, runner._planner(job), 0)
    monkeypatch.setattr(runner, "_before", lambda *of: before)
    monkeypatch.setattr("lab.logs.cluster.ANSWER_S", 1.0)
    broker.status(kafka.folder).kill()
    attempt = Thread(target=runner.run_loop, args=(job, 1), daemon=True)
    try:
        attempt.start()
        time.sleep(2)
        runner.tell_to_stop(job)
        attempt.join(15)
        assert not attempt.is_alive()
    finally:
        kafka.restart()
        attempt.join(PATIENCE_S)
        shutil.rmtree(shared.private_folder(job.start_id), ignore_errors=True)
