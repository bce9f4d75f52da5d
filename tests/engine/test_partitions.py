"""Topics of many partitions, written by several producers while rules change: the alerts of the one log order."""

import json
from contextlib import closing
from threading import Event, Thread

import pytest
from confluent_kafka import Producer

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.kafkalogs import KafkaLogs
from lab.engine.spark import pipeline
from lab.logs.kafka import KEPT
from lab.model.times import now_ms
from lab.running.enginemonitor import EngineMonitor
from lab.stream.simulate import payments, to_json
from tests.answers import only_answers
from tests.topics import assert_equal, expected, publish, topics, turned_up_late
from tests.waiting import wait_until

SETTINGS = Settings(key_groups=4)
PARTITIONS, WRITERS, EVENTS_PER_APPEND, PAUSE_S = 12, 3, 10, 0.05
MOST = 2_000  # events of a writer
RULES = [
    "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(250),(10)",
    "2,(active),(beneficiaryId),,(COUNT_WITH_RESET_FLINK),(SUM),(>=),(15),(30)",
    "4,(active),(paymentType),,(paymentAmount),(AVG),(>),(12.55),(1)",
]
CHANGES = ["1,(pause)", "1,(active)", RULES[0].replace("250", "240"), "2,(delete)", RULES[1], "4,(pause)"]


class Writer(Thread):
    """Writes payments of its own as fast as PAUSE_S allows, until it is stopped."""

    def __init__(self, address: str, topic: str, number: int, stopped: Event):
        super().__init__(daemon=True)
        self.address, self.topic, self.number, self.stopped, self.sent = address, topic, number, stopped, 0

    def run(self) -> None:
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 2, "log_level": 0})
        stream = payments(
            seed=self.number, events=None, start_ms=0, rate_per_s=5, payees=25, beneficiaries=40
        )
        while not self.stopped.wait(PAUSE_S) and self.sent < MOST:
            for _ in range(EVENTS_PER_APPEND):
                event = next(stream)
                event["transactionId"] = event["transactionId"] * WRITERS + self.number
                producer.produce(self.topic, to_json(event), str(event["transactionId"]))
            self.sent += EVENTS_PER_APPEND
            producer.poll(0)
        producer.flush()


def wait_for(logs: KafkaLogs, records: int, engine, answers: int = 0) -> None:
    wait_until(
        lambda: (
            sum(json.loads(line).get("records", 0) for line in logs.log("stats").read()) >= records
            and len(only_answers(logs.log("acks").read())) >= answers
        ),
        pause_s=0.5,
        alive=lambda: engine.query.isActive,
        said=engine.query.exception,
    )


@pytest.mark.slow
def test_twelve_partitions_give_the_alerts_of_one_log_order(kafka, spark, tmp_path):
    logs = topics(kafka.address, "twelve", partitions=PARTITIONS)
    publish(logs, *RULES)
    engine = pipeline.start(spark, logs, tmp_path, SETTINGS)
    stopped = Event()
    writers = [Writer(kafka.address, logs.log("events").topic, n, stopped) for n in range(WRITERS)]
    try:
        for writer in writers:
            writer.start()
        for change in CHANGES:  # each among events that are being written and evaluated
            next_one = min(sum(writer.sent for writer in writers) + 1, WRITERS * MOST)
            wait_for(logs, next_one, engine)
            publish(logs, change)
        stopped.set()
        for writer in writers:
            writer.join()
        answers = len(RULES) + len(CHANGES)
        wait_for(logs, sum(writer.sent for writer in writers), engine, answers)
    finally:
        engine.stop()
    cuts = len({json.loads(line)["batch"] for line in logs.log("stats").read()})
    alerts = assert_equal(logs, expected(logs, key_groups=SETTINGS.key_groups))
    print(f"{alerts} alerts, {cuts} cuts, {turned_up_late(logs)} records turned up after their cut")
    assert alerts > 500 and cuts > len(CHANGES)


@pytest.mark.slow
def test_producers_times_are_an_order_too(kafka, spark, tmp_path):
    """Out of order, in seconds, a day ahead: read by them, each record once, and nobody waits for tomorrow."""
    now = now_ms()
    logs = KafkaLogs(kafka.address, {name: f"{name}-created" for name in ("events", "control", "alerts", "acks", "deadLetters", "stats")})  # fmt: skip
    created = KEPT | {
        "message.timestamp.type": "CreateTime",
        "message.timestamp.after.max.ms": str(2 * 86_400_000),
    }
    logs.log("events").create(2, created)
    logs.create()
    publish(logs, RULES[0].replace("250", "100"))
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    stream = payments(seed=5, events=None, start_ms=now, rate_per_s=5, payees=3, beneficiaries=9)
    ahead = [-5_000, 3_000 - now, -9_000, 0, (now // 1000) - now, -20]  # of `now`; some are in seconds

    def send(times: list[int], partition: int) -> None:
        for at in times:
            producer.produce("events-created", to_json(next(stream)), partition=partition, timestamp=at)
        producer.flush()

    for round in range(3):
        send([now + 100 * round + each for each in ahead] * 5, 0)
        send([now + 100 * round + each for each in reversed(ahead)] * 5, 1)
    with pipeline.start(spark, logs, tmp_path, SETTINGS) as engine:
        wait_for(logs, 180, engine)
        send([now + 86_400_000] + [now + 500] * 20, 0)  # the others must not wait until tomorrow
        send([now + 600] * 20, 1)
        wait_for(logs, 221, engine)
        publish(logs, RULES[0].replace("250", "50"))
        send([now + 700] * 20, 1)
        wait_for(logs, 241, engine)
    for once in range(2):  # a restart that finds the log's time a day ahead
        send([now + 800 + once] * 10, once)
        with pipeline.start(spark, logs, tmp_path, SETTINGS, once=True) as engine:
            engine.query.awaitTermination()
    assert assert_equal(logs, expected(logs, key_groups=SETTINGS.key_groups)) > 20
    assert turned_up_late(logs) > 20
    assert (
        logs.log("events")
        .time_notice()
        .startswith("topic events-created: records have their producers' times (CreateTime)")
    )
    with closing(EngineMonitor(logs, tmp_path)) as notes:
        assert "ahead of this computer's clock" in next(notes.due_notices())
