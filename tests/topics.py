"""What tests on Kafka topics share."""

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing, suppress

from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.kafkalogs import KafkaLogs
from lab.logs.cluster import Cluster, UnusableTopic
from lab.logs.kafka import KafkaLog
from lab.logs.offsets import PartitionOffsets
from lab.logs.positions import Record
from lab.model.enginelogs import LOGS
from lab.model.reference import COUNTS, Reference
from lab.model.schema import PAYMENTS
from lab.stream.simulate import payments, to_json
from tests.answers import only_answers
from tests.waiting import wait_until

RULES = [
    "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(60),(10)",
    "2,(active),(beneficiaryId),,(COUNT_WITH_RESET_FLINK),(SUM),(>=),(4),(30)",
]


def topics(where: str | Cluster, name: str, partitions: int = 1) -> KafkaLogs:
    """Topics of their own for a test."""
    logs = KafkaLogs(where, {log: f"{log}-{name}" for log in LOGS})
    logs.create(partitions)
    return logs


def delete_topic(log: KafkaLog) -> None:
    """Deletes a topic and waits until it is gone."""
    log.cluster.admin_client.delete_topics([log.topic])[log.topic].result()

    def is_gone() -> bool:
        with suppress(UnusableTopic):
            return not PartitionOffsets(log.cluster, log.topic).numbers()
        return True

    wait_until(is_gone)


def events(count: int, seed: int = 3) -> list[str]:
    return [to_json(event) for event in payments(seed=seed, events=count, start_ms=0, rate_per_s=1, payees=9)]


def publish(logs: KafkaLogs, *messages: str) -> list[str]:
    from lab.model.rules import BadRule
    from lab.running.control import compaction_key

    def key(message: str) -> str:
        try:
            return compaction_key(message, PAYMENTS)
        except BadRule:
            return "bad"

    return logs.log("control").publish(messages, [key(message) for message in messages])


def append(logs: KafkaLogs, lines: list[str]) -> None:
    log = logs.log("events")
    log.append(lines)
    log.close()


def count_appended(log: KafkaLog) -> int:
    """The number of offsets taken so far, also by marks of transactions."""
    return sum(PartitionOffsets(log.cluster, log.topic).end_offsets().values())


Entry = tuple[int, int, int, int, int, Record]  # batch, effective log time, control first, source, offset


def entries(logs: KafkaLogs) -> Iterator[Entry]:
    """Each record with its effective log time, by the cuts that the stats log tells; what no batch has taken comes last."""
    told = {line["batch"]: line["cut"] for line in map(json.loads, logs.log("stats").read()) if "cut" in line}
    cuts = [cut for _, cut in sorted(told.items())]
    for order, kind in enumerate(("control", "events")):
        sources: defaultdict[int, list[tuple[int, Record]]] = defaultdict(list)
        with closing(logs.log(kind).tail()) as tail:
            for record in tail.records():
                source, offset = map(int, record.place.rpartition("/")[2].split(":"))
                sources[source].append((offset, record))
        for source, records in sources.items():
            newest, ends = 0, [cut[kind].get(str(source), 0) for cut in cuts]
            for offset, record in sorted(records, key=lambda each: each[0]):
                batch = bisect_right(ends, offset)
                newest = max(newest, record.log_time_ms, cuts[batch]["from"] if batch < len(cuts) else 0)
                yield batch, newest, order, source, offset, record


def in_log_order(logs: KafkaLogs) -> Iterator[tuple[int, bool, str]]:
    """Effective log time, whether it is an event, and the record: events and control messages as an engine has taken them."""
    found = list(entries(logs))
    ordered = sorted(found, key=lambda entry: entry[1:5])
    assert ordered == sorted(found, key=lambda entry: entry[:5]), (
        "the order is not one: it depends on the cuts"
    )
    for _, log_time, order, *_, record in ordered:
        yield log_time, bool(order), record.line


def expected(logs: KafkaLogs, kind: type[Reference] = Reference, **settings) -> Reference:
    """The reference over what the topics hold, in the effective log order; `kind`: a quicker one, for many events."""
    reference = kind(PAYMENTS, **settings)
    for log_time, is_event, line in in_log_order(logs):
        reference.event(line.encode(), log_time=log_time) if is_event else reference.control(line, log_time)
    return reference


def turned_up_late(logs: KafkaLogs) -> int:
    """How many records turned up after the cut that they belonged to, or behind a later one."""
    return sum(effective > record.log_time_ms for _, effective, *_, record in entries(logs))


def assert_equal(logs: KafkaLogs, reference: Reference) -> int:
    """Compares what the engine wrote, each alert and count taken once, with the reference; returns how many alerts."""
    alerts = {json.loads(line)["alertId"] for line in logs.log("alerts").read()}
    wanted = {alert.alert_id for alert in reference.alerts}
    assert alerts == wanted, (
        f"{len(wanted - alerts)} of {len(wanted)} missing, {len(alerts - wanted)} too many; missing are, among others, "
        f"{[alert for alert in reference.alerts if alert.alert_id not in alerts][:3]}"
    )
    reasons = {
        json.loads(line)["place"]: json.loads(line)["reason"] for line in logs.log("deadLetters").read()
    }
    assert sorted(reasons.values()) == sorted(letter["reason"] for letter in reference.dead_letters)
    acks = {json.loads(line)["place"]: json.loads(line) for line in only_answers(logs.log("acks").read())}
    statuses = [ack["status"] for ack in sorted(acks.values(), key=lambda ack: ack["logTime"])]
    assert statuses == [ack["status"] for ack in reference.acks]
    assert counted(logs) == reference.counts
    return len(alerts)


def counted(logs: KafkaLogs | FileLogs) -> Counter[str]:
    """The counts of the stats log; a micro-batch that was run again tells its own again."""
    lines = map(json.loads, logs.log("stats").read())
    once = {(line["batch"], line["keyGroups"][0]): line for line in lines}
    return Counter({name: sum(line.get(name, 0) for line in once.values()) for name in COUNTS})
