"""The engine on the topics of a real broker."""

import json
import time
from dataclasses import replace

import pytest

from lab.engine import pipeline
from lab.engine.cut import Planner
from lab.engine.durable import Durable
from lab.engine.settings import Settings
from lab.logs.cluster import NoBroker
from lab.machine import broker
from tests.topics import RULES, append, assert_equal, counted, events, expected, publish, topics

SETTINGS = Settings(key_groups=4)


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
    read_all(spark, logs, tmp_path)
    letters = [json.loads(line) for line in logs.log("deadLetters").read()]
    assert [letter["place"].split(":")[1] for letter in letters] == ["1", "4", "5"]
    assert letters[0]["raw"] == "{" and letters[0]["place"] == "events-bad/0:1"
    assert counted(logs)["records"] == 7 and counted(logs)["duplicates"] == 1
    assert_equal(logs, expected(logs, key_groups=SETTINGS.key_groups))
    rejected = [ack for ack in map(json.loads, logs.log("acks").read()) if ack["status"] == "rejected"]
    assert [ack["message"] for ack in rejected] == ["no rule"]


def test_several_partitions_are_read_in_order_of_append_time(kafka, spark, tmp_path):
    logs = topics(kafka.address, "wide", partitions=3)
    publish(logs, RULES[0].replace("(60)", "(0)"))
    log = logs.log("events")
    for line in events(60):  # one at a time: no two records of one append time in different partitions
        log.publish([line], [line])
        time.sleep(0.002)
    read_all(spark, logs, tmp_path)
    assert_equal(logs, expected(logs, key_groups=SETTINGS.key_groups))


def test_a_flood_of_bad_records_does_not_stop_good_ones(kafka, spark, tmp_path):
    logs, good = topics(kafka.address, "flood"), events(200)
    publish(logs, RULES[0])
    append(logs, good[:100] + ["{"] * 100_000 + good[100:])
    read_all(spark, logs, tmp_path)
    assert counted(logs) == {**counted(logs), "records": 100_200, "deadLetters": 100_000}
    assert_equal(logs, expected(logs, key_groups=SETTINGS.key_groups))


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


def test_a_broker_that_goes_away_is_waited_for_once_the_engine_runs(kafka, tmp_path, monkeypatch):
    monkeypatch.setattr("lab.logs.cluster.ANSWER_S", 1.0)
    logs = topics(kafka.address, "away")
    append(logs, events(3))
    planners = [Planner(logs.feed("events"), logs.feed("control"), Durable(tmp_path), SETTINGS) for _ in "ab"]
    running, starting = planners
    beginning = running.initial()
    mark = running.latest(beginning, None)
    upto = running.target()
    broker.status(kafka.folder).kill()
    assert running.latest(mark, None) == mark
    for planner, until in ((starting, None), (running, upto)):
        with pytest.raises(NoBroker, match="no Kafka broker answers at"):
            planner.latest(beginning, None, until)
    kafka.restart()
    monkeypatch.setattr("lab.logs.cluster.ANSWER_S", 20.0)
    append(logs, events(3))
    while mark["events"] != {"0": 6}:
        mark = running.latest(mark, None)
