"""The engine on the topics of a real broker."""

import json
import shutil
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from threading import Thread
from types import SimpleNamespace
from uuid import uuid4

import pytest
from confluent_kafka import KafkaException, TopicPartition

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop import kafkaoutlet
from lab.engine.loop.cut import Planner
from lab.engine.loop.job import EngineId, Job
from lab.engine.loop.kafkaoutlet import KafkaOutlet
from lab.engine.records import kafkafeed
from lab.engine.records.feeds import LogLost
from lab.engine.spark import pipeline, runner
from lab.engine.windows import shared
from lab.logs.cluster import NoBroker, TopicMadeAnew, UnusableTopic
from lab.logs.kafka import WRITING, KafkaLog
from lab.logs.offsets import PartitionOffsets
from lab.machine import broker
from tests.answers import only_answers
from tests.topics import RULES, append, assert_equal, counted, events, expected, publish, topics
from tests.waiting import PATIENCE_S, wait_until

SETTINGS = Settings(key_groups=4)
ATTEMPTS = 4  # of Spark's at a task
AWAY_S = 12  # enough for all of them


def read_all(spark, logs, folder) -> None:
    engine = pipeline.start(spark, logs, folder, SETTINGS, once=True)
    engine.query.awaitTermination()
    engine.stop()


def test_rules_that_change_while_it_runs_and_a_restart_give_the_alerts_of_the_reference(
    kafka, spark, tmp_path
):
    logs, lines = topics(kafka.address, "live"), events(900)
    publish(logs, *RULES)
    append(logs, lines[:300])
    read_all(spark, logs, tmp_path)
    append(logs, lines[300:450])  # while it is down
    publish(logs, "1,(pause)", '{"ruleId": 3}', RULES[1].replace("(4)", "(3)"))
    append(logs, lines[450:600])
    read_all(spark, logs, tmp_path)
    publish(logs, "1,(active)", "2,(delete)")
    append(logs, lines[600:])
    read_all(spark, logs, tmp_path)
    assert assert_equal(logs, expected(logs, key_groups=SETTINGS.key_groups)) > 100


def test_bad_records_become_dead_letters_that_name_reason_and_place(kafka, spark, tmp_path):
    logs = topics(kafka.address, "bad")
    good = events(3)
    publish(logs, RULES[0].replace("(60)", "(0)"), "no rule")
    lines = [good[0], "{", good[1], good[1].replace("{", "{\n"), "", good[2] + good[2], good[2]]
    append(logs, lines)
    logs.log("events").publish(["}"], ["order-7\x1b"])
    read_all(spark, logs, tmp_path)
    letters = [json.loads(line) for line in logs.log("deadLetters").read()]
    assert [letter["place"].split(":")[1] for letter in letters] == ["1", "4", "5", "7"]
    assert letters[3]["key"] == "order-7\x1b" and letters[3]["logTime"] >= letters[0]["logTime"] > 0
    assert letters[0]["raw"] == "{" and letters[0]["place"] == "events-bad/0:1"
    assert counted(logs)["records"] == 8 and counted(logs)["duplicates"] == 1
    assert_equal(logs, expected(logs, key_groups=SETTINGS.key_groups))
    rejected = [ack for ack in map(json.loads, logs.log("acks").read()) if ack["status"] == "rejected"]
    assert [ack["message"] for ack in rejected] == ["no rule"]


@pytest.mark.slow
def test_groups_and_rules_longer_than_a_record_may_be_do_not_stop_it(kafka, spark, tmp_path):
    logs, events_of = topics(kafka.address, "long"), json.loads(events(1)[0])
    publish(logs, "1,(active),(paymentType),,(COUNT_FLINK),(SUM),(>),(0),(10)")
    long_filter = {"paymentType": [f"{n:02}" + "x" * 1_600 for n in range(25)]}
    for number in range(2, 34):
        rule = {
            "ruleId": number,
            "ruleState": "PAUSE",
            "aggregatorFunctionType": "COUNT",
            "limit": 1,
            "window": "1m",
        }
        publish(logs, json.dumps({**rule, "limitOperatorType": ">", "filter": long_filter}))
    publish(logs, '{"ruleState": "CONTROL", "controlType": "EXPORT_RULES_CURRENT"}')
    kinds = ["é" * 2_000, "é" * 1_999 + "!", "CSH"]
    lines = [
        json.dumps(events_of | {"transactionId": number, "paymentType": kind}, ensure_ascii=False)
        for number, kind in enumerate(kinds)
    ]
    append(logs, lines)
    read_all(spark, logs, tmp_path)
    assert assert_equal(logs, expected(logs, key_groups=SETTINGS.key_groups)) == 3
    keys = {json.loads(line)["key"] for line in logs.log("alerts").read()}
    assert len(keys) == 3 and max(map(len, keys)) < 2_100
    (ack,) = [ack for ack in map(json.loads, logs.log("acks").read()) if "rules" in ack]
    assert 3 < len(ack["rules"]) < 33 and len(ack["rules"]) + ack["leftOut"] == 33


def test_several_partitions_are_read_in_order_of_append_time(kafka, spark, tmp_path):
    logs = topics(kafka.address, "wide", partitions=3)
    publish(logs, RULES[0].replace("(60)", "(0)"))
    log = logs.log("events")
    for line in events(60):  # one at a time: no two records of one append time in different partitions
        log.publish([line], [line])
        time.sleep(0.002)
    read_all(spark, logs, tmp_path)
    assert_equal(logs, expected(logs, key_groups=SETTINGS.key_groups))


@pytest.mark.slow
def test_a_flood_of_bad_records_does_not_stop_good_ones(kafka, spark, tmp_path):
    logs, good = topics(kafka.address, "flood"), events(200)
    publish(logs, RULES[0])
    append(logs, good[:100] + ["{"] * 100_000 + good[100:])
    read_all(spark, logs, tmp_path)
    assert counted(logs) == {**counted(logs), "records": 100_200, "deadLetters": 100_000}
    assert_equal(logs, expected(logs, key_groups=SETTINGS.key_groups))


@pytest.mark.slow
def test_a_backlog_is_taken_in_bounded_batches_that_do_not_change_the_alerts(kafka, spark, tmp_path):
    logs, lines = topics(kafka.address, "backlog", partitions=2), events(900)
    publish(logs, *RULES)
    append(logs, lines[:450])
    publish(logs, "1,(pause)", RULES[1].replace("(4)", "(3)"))
    append(logs, lines[450:])
    settings = replace(SETTINGS, max_batch_records=100)
    engine = pipeline.start(spark, logs, tmp_path, settings, once=True)
    engine.query.awaitTermination()
    engine.stop()
    stats = list(map(json.loads, logs.log("stats").read()))
    assert len(stats) >= 9 and max(line["records"] for line in stats) <= 100
    assert assert_equal(logs, expected(logs, key_groups=SETTINGS.key_groups)) > 100


def test_records_that_have_expired_are_missed_by_name_before_and_while_they_are_read(kafka, tmp_path):
    logs = topics(kafka.address, "expired")
    append(logs, events(5))
    planner = Planner(logs.feed("events"), logs.feed("control"), CheckpointFolder(tmp_path), SETTINGS)
    beginning = planner.initial_mark()
    upto = TopicPartition(logs.log("events").topic, 0, 3)
    for future in logs.cluster.admin_client.delete_records([upto]).values():
        future.result()
    assert planner.initial_mark()["events"] == {"0": 3}, "nothing has been planned yet"
    with pytest.raises(LogLost, match="events-expired/0: .* expired before the engine read them"):
        list(logs.feed("events").read({0: (1, 5)}, 0))
    with pytest.raises(LogLost, match="events-expired/0: records from 0 up to 3 have expired"):
        planner.advance_mark(beginning, None)


def test_a_topic_that_is_deleted_and_made_anew_is_told_from_one_whose_records_have_expired(kafka, tmp_path):
    logs = topics(kafka.address, "anew")
    append(logs, events(3))
    planner = Planner(logs.feed("events"), logs.feed("control"), CheckpointFolder(tmp_path), SETTINGS)
    beginning = planner.initial_mark()
    wait_until(lambda: planner.advance_mark(beginning, None)["events"] == {"0": 3})
    mark = planner.advance_mark(beginning, None)
    logs.cluster.admin_client.delete_topics(["events-anew"])["events-anew"].result()
    wait_until(partial(is_made_empty, logs.log("events")))
    append(logs, events(1))
    with pytest.raises(TopicMadeAnew, match="topic events-anew on .* was deleted and created again"):
        planner.advance_mark(mark, None)
    with pytest.raises(
        LogLost, match="events-anew/0: the brokers have lost records that the engine has read"
    ):
        list(logs.feed("events").read({0: (3, 4)}, 0))  # where brokers tell no ids


def is_made_empty(log: KafkaLog) -> bool:
    """Makes a topic, and says whether it is there without records: one that is deleted goes a moment later."""
    with suppress(KafkaException, UnusableTopic):
        log.create()
        return PartitionOffsets(log.cluster, log.topic).end_offsets() == {0: 0}
    return False


def test_a_first_batch_that_runs_again_begins_where_it_began_whatever_has_expired(kafka, tmp_path):
    logs = topics(kafka.address, "again")
    append(logs, events(5))
    first, again = (
        Planner(logs.feed("events"), logs.feed("control"), CheckpointFolder(tmp_path), SETTINGS) for _ in "ab"
    )
    beginning = first.initial_mark()
    end = first.advance_mark(beginning, None, first.current_ends())
    for written in (beginning, end):  # as Spark does, also if there is nothing
        CheckpointFolder(tmp_path / "offsets").write("0", f"v1\n{{}}\n{json.dumps(written)}".encode())
        assert again.initial_mark() == beginning
    upto = TopicPartition(logs.log("events").topic, 0, 3)
    for future in logs.cluster.admin_client.delete_records([upto]).values():
        future.result()
    assert again.initial_mark() == beginning
    (work,) = again.plan_reading(again.initial_mark(), end)
    with pytest.raises(LogLost, match="events-again/0: .* expired before the engine read them"):
        list(logs.feed("events").read(work.event_ranges, 0))


def test_a_checkpoint_goes_on_with_the_topics_that_it_has_read_and_no_others(kafka, tmp_path):
    """Also if the other ones are longer than those were, as those of another cluster are."""
    logs = topics(kafka.address, "first")
    append(logs, events(5))
    Settings(key_groups=4).bind(tmp_path)
    bound = logs.bound_to(tmp_path)
    assert logs.bound_to(tmp_path) == bound and bound.feed("events").ends() == {0: 5}
    other = topics(kafka.address, "second")
    append(other, events(9))
    for log in ("events", "control"):
        mixed = replace(logs, topics={**logs.topics, log: other.topics[log]})
        with pytest.raises(TopicMadeAnew, match=f"topic {log}-second on .* start with a new checkpoint"):
            mixed.bound_to(tmp_path)
        with pytest.raises(TopicMadeAnew):  # a task that starts later
            replace(mixed, topic_ids=bound.topic_ids).feed(log).ends()


@pytest.mark.slow
def test_a_broker_that_goes_away_is_waited_for_once_the_engine_runs(kafka, tmp_path, monkeypatch):
    logs = topics(kafka.address, "away")
    append(logs, events(3))
    planners = [
        Planner(logs.feed("events"), logs.feed("control"), CheckpointFolder(tmp_path), SETTINGS) for _ in "ab"
    ]
    running, starting = planners
    beginning = running.initial_mark()
    mark = running.advance_mark(beginning, None)
    upto = running.current_ends()
    monkeypatch.setattr("lab.logs.cluster.ANSWER_S", 1.0)
    broker.status(kafka.folder).kill()
    assert running.advance_mark(mark, None) == mark
    for planner, until in ((starting, None), (running, upto)):
        with pytest.raises(NoBroker, match="no Kafka broker answers at"):
            planner.advance_mark(beginning, None, until)
    kafka.restart()
    monkeypatch.setattr("lab.logs.cluster.ANSWER_S", PATIENCE_S)
    append(logs, events(3))
    while mark["events"] != {"0": 6}:
        mark = running.advance_mark(mark, None)


@pytest.fixture
def attempts(kafka, tmp_path, monkeypatch):
    """Starts a thread with Spark's attempts at a batch, each in a new worker; they end with a broker that answers."""
    logs = topics(kafka.address, f"attempts-{uuid4().hex[:8]}")
    publish(logs, RULES[0])
    job = Job(SETTINGS, logs, str(tmp_path), f"test-{uuid4().hex[:8]}", engine_id=EngineId("id", 0))
    monkeypatch.setattr("lab.logs.cluster.ANSWER_S", 1.0)
    monkeypatch.setitem(WRITING, "message.timeout.ms", 2_000)
    before = runner._before(job, runner._planner(job), 0)
    monkeypatch.setattr(
        runner, "_before", lambda *of: before
    )  # as in a later batch, in which nobody is asked
    monkeypatch.setattr(runner, "BATCH_S", inf)
    shared.private_folder(job.start_id)
    failures = []

    def attempt():
        while len(failures) < ATTEMPTS:
            kafkaoutlet.process_outlet.cache_clear()
            runner._planners.clear()
            try:
                return runner.run_loop(job, 1)
            except NoBroker as error:
                failures.append(error)

    threads = []

    def start():
        threads.append(Thread(target=attempt, daemon=True))
        threads[-1].start()

    yield SimpleNamespace(logs=logs, start=start, failures=failures)
    if not broker.status(kafka.folder):
        kafka.restart()
    runner.tell_to_stop(job)
    for thread in threads:
        thread.join(PATIENCE_S)
    shutil.rmtree(shared.private_folder(job.start_id), ignore_errors=True)


@pytest.mark.slow
def test_an_answer_that_a_broker_did_not_take_before_it_went_away_waits_for_it(kafka, attempts, monkeypatch):
    """Its cut has no events, which would be read again first, and wait."""
    put = KafkaOutlet.put

    def kill_and_put(*of):
        monkeypatch.setattr(KafkaOutlet, "put", put)
        broker.status(kafka.folder).kill()
        put(*of)

    monkeypatch.setattr(KafkaOutlet, "put", kill_and_put)
    attempts.start()
    wait_until(lambda: attempts.failures)
    time.sleep(AWAY_S)
    assert len(attempts.failures) == 1
    kafka.restart()
    wait_until(lambda: only_answers(attempts.logs.log("acks").read()))


@pytest.mark.slow
def test_an_attempt_that_begins_while_the_broker_is_away_waits_for_it(kafka, attempts):
    broker.status(kafka.folder).kill()
    attempts.start()
    time.sleep(AWAY_S)
    assert not attempts.failures
    kafka.restart()
    wait_until(lambda: only_answers(attempts.logs.log("acks").read()))


def test_a_commit_that_a_broker_lost_is_made_again_while_nothing_new_comes(monkeypatch):
    commits = []

    def commit(offsets, asynchronous):
        commits.append([offset.offset for offset in offsets])
        if len(commits) == 1:
            raise KafkaException("lost")

    client = SimpleNamespace(poll=lambda timeout: None, commit=commit)
    follower = kafkafeed.ConsumerGroupFollower(SimpleNamespace(non_fetching_consumer=client), "events")
    follower.commit_progress({0: 7})
    follower.commit_progress({0: 7})
    assert commits == [[7]]
    monkeypatch.setattr(kafkafeed, "COMMIT_AGAIN_S", 0)
    follower.commit_progress({0: 7})
    assert commits == [[7], [7]]
