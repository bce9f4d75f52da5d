"""Topics as logs, on a real broker."""

import time
from contextlib import closing
from threading import Timer
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition
from kafka import KafkaAdminClient

from lab.engine.loop.kafkalogs import KafkaLogs
from lab.engine.loop.kafkaoutlet import KafkaOutlet
from lab.engine.records.keyedlines import JoinedLines, KeyedLines
from lab.logs import cluster as clusters
from lab.logs import partitions
from lab.logs.cluster import Cluster, NoBroker, TopicMadeAnew, UnusableTopic
from lab.logs.config import Config
from lab.logs.kafka import COMPACTED, KEPT, KafkaLog
from lab.logs.offsets import PartitionOffsets, topic_end_offsets
from lab.logs.positions import Record
from lab.model.enginelogs import LOGS
from lab.model.times import DAY_MS
from tests.topics import delete_topic, topics
from tests.waiting import wait_until


def topic(kafka, name: str) -> KafkaLog:
    log = KafkaLog(kafka.address, name)
    log.create()
    return log


def test_published_records_have_places_keys_and_append_times(kafka):
    log = topic(kafka, "published")
    assert log.publish(["one", "two"], ["1", "2"]) == ["published/0:0", "published/0:1"]
    with closing(log.tail()) as tail:
        first, second = tail.records()
    assert (first.key, first.line, second.line) == ("1", "one", "two")
    assert 0 < first.log_time_ms <= second.log_time_ms and isinstance(first, Record)


def test_a_tail_gives_each_record_once_and_a_new_one_only_those_to_come(kafka):
    log = topic(kafka, "tailed")
    log.append(["one"])
    log.flush()
    with closing(log.tail()) as old, closing(log.tail(new=True)) as new:
        log.append([b"two"])
        log.close()
        assert (old.read(), old.read(), new.read()) == (["one", "two"], [], ["two"])


@pytest.mark.parametrize("records", [0, 2, 9])
def test_a_part_of_a_topic_that_ends_at_offsets_is_read(kafka, records):
    log = KafkaLog(kafka.address, f"part-{records}")
    log.create(partitions=2)
    log.publish([str(number) for number in range(40)], [str(number) for number in range(40)])
    with closing(log.tail(new=True)) as new:
        upto = new.positions
    log.publish(["later"] * 9, [str(number) for number in range(9)])
    with closing(log.tail()) as tail:
        before = [record for record in tail.records() if record.line != "later"]
    with closing(log.tail(at=log.earlier(upto, records))) as tail:
        found = []
        while came := tail.records(1, upto):
            found += came
        assert tail.positions == upto
    assert sorted(found, key=str) == sorted(
        (
            record
            for record in before
            for partition, offset in [map(int, record.place.rpartition("/")[2].split(":"))]
            if offset >= upto[partition] - records
        ),
        key=str,
    )


def test_the_log_is_in_order_of_append_time_over_its_partitions(kafka):
    log = KafkaLog(kafka.address, "wide")
    log.create(partitions=3)
    for number in range(60):
        log.publish([str(number)], [str(number)])
    with closing(log.tail()) as tail:
        times = [record.log_time_ms for record in tail.records()]
    assert times == sorted(times) and sorted(map(int, log.read())) == list(range(60))


@pytest.mark.parametrize(
    "made, asked, said",
    [
        (
            {"configs": COMPACTED, "num_partitions": 2},
            {"config": COMPACTED},
            "expected one: rules have one order",
        ),
        ({"configs": COMPACTED, "num_partitions": 1}, {}, "cleanup.policy is compact, expected delete"),
    ],
)
def test_a_topic_made_otherwise_is_refused(made, asked, said, kafka, request):
    name = f"otherwise-{abs(hash(said))}"
    with KafkaAdminClient(bootstrap_servers=kafka.address) as admin:
        admin.create_topics({name: {"replication_factor": 1, **made}})
        admin.wait_for_topics([name])
    with pytest.raises(UnusableTopic, match=f"topic {name}: .*{said}"):
        KafkaLog(kafka.address, name).create(**asked)


class Deaf:
    """A consumer that waits for ever, as librdkafka's does now and then for a broker that is back."""

    def __init__(self, _settings: dict):
        self.assigned = self.closed = False

    def assign(self, _partitions: list) -> None:
        self.assigned = True

    def consume(self, _most: int, timeout: float) -> list:
        time.sleep(timeout)
        return []

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("patience_s", [0.3, float("inf")])
def test_a_consumer_that_hears_nothing_any_more_is_replaced(patience_s, kafka, monkeypatch):
    log = topic(kafka, f"deaf-{patience_s}")
    log.append(["one", "two"])
    log.flush()
    monkeypatch.setattr(clusters, "ANSWER_S", 0.5)
    with monkeypatch.context() as deaf:
        deaf.setattr(partitions, "Consumer", Deaf)
        reader = partitions.PartitionReader(log.cluster, log.topic)
        consumer = reader._consumer
    with closing(reader):
        if patience_s < 1:
            with pytest.raises(NoBroker, match="no record of deaf-0.3 for 0.3 s"):
                list(reader.read({0: (0, 2)}, patience_s))
        found = [(number, len(came)) for number, came in reader.read({0: (0, 2)})]
    assert consumer.assigned and consumer.closed
    assert sum(count for _, count in found) == 2 and {number for number, _ in found} == {0}


def test_an_error_from_before_an_answer_explains_no_silence_after_it(kafka):
    log = topic(kafka, "answered")
    clusters._admin(log.cluster).said.append(
        (time.monotonic(), KafkaError(KafkaError._TRANSPORT, "connection refused"))
    )
    assert "(connection refused)" in str(log.cluster.no_broker_error("no record"))
    log.tail().close()
    assert "(no record)" in str(log.cluster.no_broker_error("no record"))


def test_a_topic_that_is_not_there_is_not_made_by_reading(kafka):
    with pytest.raises(UnusableTopic, match="there is no topic nowhere on"):
        KafkaLogs.open_log(f"kafka://{kafka.address}/nowhere", Config()).read()


def test_a_topic_that_was_made_anew_is_another_one(kafka):
    log = topic(kafka, "anew")
    log.publish(["one", "two", "three"], "abc")
    running = PartitionOffsets(log.cluster, log.topic)
    assert running.end_offsets() == {0: 3}
    first = running.topic_id()
    with closing(log.tail()) as tail:
        assert tail.read() == ["one", "two", "three"]
        delete_topic(log)
        topic(kafka, "anew").publish(["four", "five"], "de")
        with pytest.raises(TopicMadeAnew, match="topic anew on .* is not the topic that was read before"):
            running.end_offsets()  # shorter, so it is looked at now
        assert tail.read() == ["four", "five"]
        assert tail.read() == []
    log.publish(["six", "seven"], "fg")
    stopped = PartitionOffsets(log.cluster, log.topic, first)
    with pytest.raises(TopicMadeAnew):  # although it is longer
        stopped.end_offsets()


def test_a_reader_whose_records_expire_goes_on_with_those_that_are_kept_and_tells_what_it_missed(kafka):
    log = topic(kafka, "expiring")
    log.publish(["one", "two", "three", "four", "five"], "abcde")
    with closing(log.tail()) as running:
        futures = log.cluster.admin_client.delete_records([TopicPartition(log.topic, 0, 3)])
        for future in futures.values():
            future.result()
        assert running.read() == ["four", "five"]
        assert running.expired == f"{log} from 0 up to 3: expired before it was read"
    with closing(log.tail(at={0: 2})) as stopped:
        assert stopped.expired == f"{log} from 2 up to 3: expired before it was read"
        assert stopped.read() == ["four", "five"]
    with closing(log.tail(at={0: 3})) as tail:
        assert tail.read() == ["four", "five"] and tail.expired == ""


def test_of_two_topics_the_one_that_is_gone_is_named(kafka):
    two = [topic(kafka, name) for name in ("gone-1", "gone-2")]
    asked = [PartitionOffsets(log.cluster, log.topic) for log in two]
    assert topic_end_offsets(asked) == [{0: 0}, {0: 0}]
    delete_topic(two[1])
    with pytest.raises(UnusableTopic, match="topic gone-2 is no longer on"):
        topic_end_offsets(asked)


def test_a_record_that_a_topic_does_not_take_is_told_with_the_topic_and_what_helps(kafka):
    log = KafkaLog(kafka.address, "narrow")
    log.create(config={**KEPT, "max.message.bytes": "200"})
    log.append(["x" * 300])
    said = "topic narrow on .* did not take a record .*too large.*: set its max.message.bytes to at least"
    with pytest.raises(UnusableTopic, match=said):
        log.flush()
    outlet = KafkaOutlet(log.cluster, {"alerts": log.topic})
    with pytest.raises(UnusableTopic, match=said):
        outlet.put(None, {"alerts": KeyedLines(["1"], JoinedLines(["y" * 300]))}, frozenset())
        outlet.flush()


def test_no_broker_is_said(monkeypatch):
    monkeypatch.setattr("lab.logs.cluster.ANSWER_S", 0.5)
    said = "no Kafka broker answers at 127.0.0.1:1 .*refused.* expects TLS or SASL .*; `lab broker start` starts one"
    with pytest.raises(NoBroker, match=said):
        KafkaLog("127.0.0.1:1", "events").create()


def test_the_ends_of_two_topics_are_asked_for_with_one_request(kafka, monkeypatch):
    two = [topic(kafka, name) for name in ("asked-1", "asked-2")]
    two[1].append(["one", "two"])
    two[1].flush()
    asked = [PartitionOffsets(log.cluster, log.topic) for log in two]
    asker, requests = two[0].cluster.non_fetching_consumer, []

    class Counting:
        def offsets_for_times(self, wanted, timeout):
            requests.append(wanted)
            return asker.offsets_for_times(wanted, timeout)

    monkeypatch.setattr(type(two[0].cluster), "non_fetching_consumer", Counting())
    assert topic_end_offsets(asked) == [{0: 0}, {0: 2}] and len(requests) == 1
    assert asked[1].end_offsets() == asked[1].end_offsets(committed=False) == {0: 2}
    assert asked[1].offsets_since(0) == {0: 0} and asked[1].offsets_since(1 << 45) == {0: -1}


def test_the_leaders_of_each_topic_that_was_asked_about_are_looked_up_anew(kafka, monkeypatch):
    """After a restart of its broker a client knows the epoch of a leader that is gone, and each request with it fails."""
    two = [topic(kafka, name) for name in ("anew-1", "anew-2")]
    asked = [PartitionOffsets(log.cluster, log.topic) for log in two]

    class Restarted:
        def __init__(self):
            self.stale = {log.topic for log in two}

        def offsets_for_times(self, wanted, timeout):
            gone = KafkaError(KafkaError.FENCED_LEADER_EPOCH)
            return [
                SimpleNamespace(
                    topic=each.topic,
                    partition=each.partition,
                    offset=7,
                    error=gone if each.topic in self.stale else None,
                )
                for each in wanted
            ]

        def list_topics(self, topic, timeout):
            self.stale.discard(topic)

    client = Restarted()
    monkeypatch.setattr(type(two[0].cluster), "non_fetching_consumer", client)
    monkeypatch.setattr(clusters, "ANSWER_S", 0.5)
    assert topic_end_offsets(asked) == [{0: 7}, {0: 7}]
    client.stale = {log.topic for log in two}
    monkeypatch.setattr(clusters, "ANSWER_S", -1)  # as if the request had lasted until its end
    with pytest.raises(NoBroker):
        topic_end_offsets(asked)
    assert not client.stale


def test_a_reader_that_waits_wakes_with_the_first_record_and_knows_when_it_was_logged(kafka):
    log = topic(kafka, "woken")
    with closing(partitions.PartitionReader(log.cluster, log.topic)) as reader:
        assert not reader.wait_for_records({0: 0}, 0.2)
        Timer(0.3, lambda: (log.append(["one"]), log.flush())).start()
        wait_until(lambda: reader.wait_for_records({0: 0}, 60))  # it also wakes when it has reached the end
        log.append(["two", "three"])
        log.flush()
        [(_, first)] = reader.read({0: (0, 1)})
        logged = first[0].timestamp()[1]
        assert reader.fetched_ends_before(logged, {0: 0}, {0: 3}) is None  # where it has read already
        wait_until(lambda: reader.fetched_ends_before(logged, {0: 1}, {0: 3}) == {0: 1})
        assert reader.fetched_ends_before(logged + 100_000, {0: 1}, {0: 3}) == {0: 3}
        assert reader.fetched_ends_before(logged, {0: 1}, {0: 1}) == {0: 1}
        assert sum(len(came) for _, came in reader.read({0: (1, 3)})) == 2


def test_a_new_record_of_another_topic_ends_a_wait_and_is_not_read(kafka):
    mine, other = topic(kafka, "waits"), topic(kafka, "wakes")
    other.append(["before"])
    other.flush()
    with closing(partitions.PartitionReader(mine.cluster, mine.topic)) as reader:
        wakes = ((other.topic, 0),)
        assert not any(reader.wait_for_records({0: 0}, 0.2, wakes) for _ in range(5))
        Timer(0.3, lambda: (other.append(["one"]), other.flush())).start()
        begun = time.monotonic()
        wait_until(lambda: reader.wait_for_records({0: 0}, 60, wakes))
        assert 0.2 < time.monotonic() - begun < 30
        assert not reader.wait_for_records({0: 0}, 0.2, wakes)
        other.append(["two"])
        other.flush()
        mine.append(["three", "four"])
        mine.flush()
        came = [message.value() for _, of in reader.read({0: (0, 2)}) for message in of]
        assert came == [b"three", b"four"]


def test_a_closed_reader_holds_no_records_and_reads_on_later(kafka):
    log = KafkaLog(kafka.address, "closed")
    log.create(1)
    log.append([f"{n}" for n in range(10)])
    with closing(partitions.PartitionReader(log.cluster, log.topic)) as reader:
        assert [message.value() for _, of in reader.read({0: (0, 4)}) for message in of] == list(
            map(b"%d".__mod__, range(4))
        )
        assert reader.wait_for_records({0: 4}, 10)
        reader.close()
        assert not reader._waiting and reader._is_closed
        assert [message.value() for _, of in reader.read({0: (4, 10)}) for message in of] == list(
            map(b"%d".__mod__, range(4, 10))
        )


def test_a_reader_has_the_broker_asked_where_many_records_wait(kafka, monkeypatch):
    log = topic(kafka, "many")
    log.append(["one"] * 10)
    log.flush()
    monkeypatch.setattr(partitions, "SOON", 9)
    with closing(partitions.PartitionReader(log.cluster, log.topic)) as reader:
        assert reader.wait_for_records({0: 0}, 60)
        assert reader.fetched_ends_before(0, {0: 0}, {0: 10}) is None


@pytest.mark.parametrize("ends_with", ["commit", "abort"])
def test_a_range_that_ends_with_offsets_without_records_is_read_at_once(ends_with, kafka, monkeypatch):
    """A transaction ends with a marker; a consumer that waits for the record after it is told so when its request ends."""
    log = topic(kafka, f"marked-{ends_with}")
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": ends_with, "log_level": 0})
    producer.init_transactions()
    offsets = PartitionOffsets(log.cluster, log.topic)
    patient = {**partitions.READING, "fetch.wait.max.ms": 300_000, "socket.timeout.ms": 300_000}
    monkeypatch.setattr(partitions, "READING", patient)
    with closing(partitions.PartitionReader(log.cluster, log.topic)) as reader:
        start = 0
        for _ in range(3):
            producer.begin_transaction()
            producer.produce(log.topic, "one", partition=0)
            producer.flush()
            producer.commit_transaction() if ends_with == "commit" else producer.abort_transaction()
            wait_until(lambda start=start: offsets.end_offsets()[0] > start)
            end = offsets.end_offsets()[0]
            records = [message for _, came in reader.read({0: (start, end)}, 20) for message in came]
            assert len(records) == (ends_with == "commit")
            start = end
        log.publish(["two"], ["2"])
        assert sum(len(came) for _, came in reader.read({0: (start, start + 1)}, 20)) == 1


def test_a_reader_of_a_few_records_at_once_does_not_take_aborted_ones_for_the_end(kafka):
    """Else `lab export`, which ends at the end and saves how far it read only with records, would not get past them."""
    log = topic(kafka, "aborted")
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": "aborted", "log_level": 0})
    producer.init_transactions()
    producer.begin_transaction()
    for _ in range(50):
        producer.produce(log.topic, "none", partition=0)
    producer.flush()
    producer.abort_transaction()
    log.publish(["one"] * 3, ["1"] * 3)
    with closing(log.tail()) as tail:
        found = []
        while records := tail.records(2):
            assert len(records) <= 2
            found += records
        assert [record.line for record in found] == ["one"] * 3
        assert tail.positions == {0: 54}


def test_a_start_asks_for_each_topic_once(kafka, monkeypatch):
    logs, asked, ask = topics(kafka.address, "once"), [], PartitionOffsets._list

    def counting(self):
        asked.append(self.topic)
        return ask(self)

    monkeypatch.setattr(PartitionOffsets, "_list", counting)
    assert not logs.create(named_events=False)
    assert sorted(asked) == sorted(f"{name}-once" for name in LOGS)


def test_acknowledgements_and_rules_do_not_expire_and_alerts_do(kafka):
    logs = topics(Cluster(kafka.address, retention_ms_by_log=(("stats", DAY_MS),)), "kept")
    names = ("acks", "control", "alerts", "stats")
    kept = {name: logs.log(name).topic_config()["retention.ms"] for name in names}
    assert kept == {"acks": "-1", "control": "-1", "alerts": str(7 * DAY_MS), "stats": str(DAY_MS)}


def test_a_control_topic_keeps_every_message_and_one_that_is_compacted_will_do(kafka):
    """So versions, and with them the ids of alerts, are the same for an engine with a new checkpoint."""
    assert topics(kafka.address, "whole").log("control").topic_config()["cleanup.policy"] == "delete"
    KafkaLog(kafka.address, "control-compacted").create(config=COMPACTED)
    logs = topics(kafka.address, "compacted")
    assert logs.control_to_write().topic_config()["cleanup.policy"] == "compact"
    KafkaLog(kafka.address, "control-forgets").create()
    with pytest.raises(UnusableTopic, match="is delete, expected compact, or retention.ms=-1"):
        topics(kafka.address, "forgets")


def test_an_events_topic_of_others_may_be_compacted(kafka):
    logs = topics(kafka.address, "theirs")
    compacted = KafkaLogs(kafka.address, {**logs.topics, "events": "compacted-theirs"})
    KafkaLog(kafka.address, "compacted-theirs").create(2, {"cleanup.policy": "compact"})
    assert not compacted.create(named_events=False)
