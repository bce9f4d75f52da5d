"""Topics as producers of others leave them: many partitions, some empty, odd times and keys, aborted transactions."""

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.kafkalogs import KafkaLogs
from lab.engine.spark import pipeline
from lab.logs.kafka import KEPT, KafkaLog
from lab.model.times import now_ms
from lab.stream.simulate import payments, to_json
from tests.topics import assert_equal, expected, publish, topics

SETTINGS = Settings(key_groups=4)
LONGEST = (1 << 63) - 1  # ms: the latest time that a record can have
RULE = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(60),(10)"


def created_topics(kafka, name: str, partitions: int) -> KafkaLogs:
    """Topics whose events have the producers' times, whatever these are."""
    any_time = {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": str(LONGEST)}
    long = {"max.message.bytes": str(4 << 20)}
    KafkaLog(kafka.address, f"events-{name}").create(partitions, KEPT | any_time | long)
    return topics(kafka.address, name)


def run_once(spark, logs: KafkaLogs, folder) -> None:
    with pipeline.start(spark, logs, folder, SETTINGS, once=True) as engine:
        engine.query.awaitTermination()


def test_odd_records_of_many_partitions_are_each_read_once(kafka, spark, tmp_path):
    logs = created_topics(kafka, "odd", 64)
    publish(logs, RULE)
    topic, now = logs.log("events").topic, now_ms()
    stream = payments(seed=5, events=None, start_ms=now, rate_per_s=5, payees=3, beneficiaries=9)
    committed = {"transactional.id": "odd-1"}
    for ends_with, count in (("abort", 7), ("commit", 9), ("abort", 5)):
        producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0, **committed})
        producer.init_transactions(60)
        producer.begin_transaction()
        for number in range(count):
            producer.produce(topic, to_json(next(stream)), partition=number % 3, timestamp=now + number)
        producer.flush()
        producer.commit_transaction() if ends_with == "commit" else producer.abort_transaction()
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0, "message.max.bytes": 4 << 20})
    oddities = [
        {},
        {"timestamp": -1},
        {"timestamp": -5_000},
        {"key": b"\xff\x00" * (1 << 19)},
        {"key": b""},
        {"headers": [("a", None), ("a", b"\xff"), ("", b"x" * 9000)]},
    ]
    for each in oddities * 4:
        producer.produce(topic, to_json(next(stream)), partition=63, **{"timestamp": now, **each})
    producer.flush()
    run_once(spark, logs, tmp_path)
    assert assert_equal(logs, expected(logs, key_groups=SETTINGS.key_groups)) > 5
    assert len(logs.log("events").read()) == 9 + 4 * len(oddities)


@pytest.mark.slow
def test_a_record_of_the_end_of_time_or_before_its_beginning_does_not_end_the_engine(kafka, spark, tmp_path):
    logs = created_topics(kafka, "endless", 2)
    publish(logs, RULE)
    topic, now = logs.log("events").topic, now_ms()
    stream = payments(seed=5, events=None, start_ms=now, rate_per_s=5, payees=1, beneficiaries=1)
    producer = KafkaProducer(bootstrap_servers=kafka.address)  # librdkafka takes no time below 0
    for time in (now, LONGEST, now, -LONGEST - 1, LONGEST - 1):
        for partition in (0, 1, 1, 0):
            producer.send(topic, to_json(next(stream)).encode(), partition=partition, timestamp_ms=time)
        producer.flush()
        run_once(spark, logs, tmp_path)
    producer.close()
    assert not logs.log("deadLetters").read()
    assert assert_equal(logs, expected(logs, key_groups=SETTINGS.key_groups)) > 1
