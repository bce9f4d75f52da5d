"""What tests on Kafka topics share."""

import json
from collections import Counter
from contextlib import closing

from lab.engine.ends import LOGS, KafkaLogs
from lab.logs.cluster import Cluster
from lab.model.reference import COUNTS, Reference
from lab.model.schema import PAYMENTS
from lab.stream.simulate import payments, to_json

RULES = [
    "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(60),(10)",
    "2,(active),(beneficiaryId),,(COUNT_WITH_RESET_FLINK),(SUM),(>=),(4),(30)",
]


def topics(where: str | Cluster, name: str, partitions: int = 1) -> KafkaLogs:
    """Topics of their own for a test."""
    logs = KafkaLogs(where, {log: f"{log}-{name}" for log in LOGS})
    logs.create(partitions)
    return logs


def events(count: int, seed: int = 3) -> list[str]:
    return [to_json(event) for event in payments(seed=seed, events=count, start_ms=0, rate_per_s=1, payees=9)]


def publish(logs: KafkaLogs, *messages: str) -> list[str]:
    from lab.apps.control import key_of
    from lab.model.rules import BadRule

    def key(message: str) -> str:
        try:
            return key_of(message, PAYMENTS)
        except BadRule:
            return "bad"

    return logs.log("control").publish(messages, [key(message) for message in messages])


def append(logs: KafkaLogs, lines: list[str]) -> None:
    log = logs.log("events")
    log.append(lines)
    log.close()


def expected(logs: KafkaLogs, **settings) -> Reference:
    """The reference over what the topics hold, in order of append time, control first."""
    entries = []
    for order, kind in enumerate(("control", "events")):
        with closing(logs.log(kind).tail()) as tail:
            entries += [(record.append_ms, order, record.line.encode()) for record in tail.records()]
    reference = Reference(PAYMENTS, **settings)
    for append_ms, order, line in sorted(entries, key=lambda entry: entry[:2]):
        reference.event(line, log_time=append_ms) if order else reference.control(line)
    return reference


def assert_equal(logs: KafkaLogs, reference: Reference) -> int:
    """Compares what the engine wrote, each alert and count taken once, with the reference; returns how many alerts."""
    alerts = {json.loads(line)["alertId"] for line in logs.log("alerts").read()}
    wanted = {alert.alert_id for alert in reference.alerts}
    assert alerts == wanted, (
        f"{len(wanted - alerts)} of {len(wanted)} missing, {len(alerts - wanted)} too many"
    )
    reasons = {
        json.loads(line)["place"]: json.loads(line)["reason"] for line in logs.log("deadLetters").read()
    }
    assert sorted(reasons.values()) == sorted(letter["reason"] for letter in reference.dead_letters)
    acks = {json.loads(line)["place"]: json.loads(line) for line in logs.log("acks").read()}
    statuses = [ack["status"] for ack in sorted(acks.values(), key=lambda ack: ack["logTime"])]
    assert statuses == [ack["status"] for ack in reference.acks]
    assert counted(logs) == reference.counts
    return len(alerts)


def counted(logs: KafkaLogs) -> Counter[str]:
    """The counts of the stats log; a micro-batch that was run again tells its own again."""
    lines = map(json.loads, logs.log("stats").read())
    once = {(line["batch"], line["keyGroups"][0]): line for line in lines}
    return Counter({name: sum(line.get(name, 0) for line in once.values()) for name in COUNTS})
