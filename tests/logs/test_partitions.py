"""What a reader of partitions takes for all that is there, from records that come a few at a time. Without a broker."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
from confluent_kafka import OFFSET_END, KafkaError

from lab.logs import partitions
from lab.logs.cluster import Cluster, NoBroker, NotAllowed
from lab.logs.partitions import PartitionReader

TOPIC = "events"


@dataclass(frozen=True)
class FakeMessage:
    """A record as confluent-kafka gives it; with `code`: an error, or the end of a partition."""

    at: int
    log_time: int = 0
    number: int = 0
    code: int | None = None
    of: str = TOPIC

    def offset(self) -> int:
        return self.at

    def partition(self) -> int:
        return self.number

    def topic(self) -> str:
        return self.of

    def timestamp(self) -> tuple[int, int]:
        return 2, self.log_time

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)


def end_at(offset: int) -> FakeMessage:
    return FakeMessage(offset, code=KafkaError._PARTITION_EOF)


class Arriving:
    """A consumer to which records come in the given parts, one for each call; `looks`: those for one that does not wait."""

    parts: ClassVar[list[list[FakeMessage]]] = []
    looks: ClassVar[list[list[FakeMessage]]] = []

    def __init__(self, settings: dict):
        self.assigned: list = []
        self.closed, self._waits = 0, "fetch.wait.max.ms" not in settings

    def assign(self, places: list) -> None:
        self.assigned = [(place.partition, place.offset) for place in places]

    def unassign(self) -> None: ...

    def consume(self, _most: int, timeout: float) -> list[FakeMessage]:
        parts = self.parts if self._waits else self.looks
        return parts.pop(0) if parts else []

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def reader(monkeypatch) -> PartitionReader:
    monkeypatch.setattr(partitions, "Consumer", Arriving)
    monkeypatch.setattr(partitions, "Message", FakeMessage)
    return PartitionReader(Cluster("127.0.0.1:1"), TOPIC)


def arriving(monkeypatch, *parts: list[FakeMessage]) -> None:
    monkeypatch.setattr(Arriving, "parts", list(parts))


def test_the_first_record_of_a_partition_alone_is_not_all_that_is_there(reader, monkeypatch):
    arriving(monkeypatch, [FakeMessage(0, 100)], [FakeMessage(1, 200)])
    assert reader.wait_for_records({0: 0}, 1)
    assert reader.fetched_ends_before(150, {0: 0}, {0: 2}) == {0: 1}


@pytest.mark.parametrize(("log_time", "end"), [(99, 5), (100, 5), (101, 6), (200, 6), (201, 7)])
def test_the_first_record_of_a_log_time_is_where_a_cut_ends(log_time, end, reader, monkeypatch):
    arriving(monkeypatch, [FakeMessage(5, 100), FakeMessage(6, 200)])
    assert reader.wait_for_records({0: 5}, 1)
    assert reader.fetched_ends_before(log_time, {0: 5}, {0: 7}) == {0: end}


def test_the_broker_is_asked_if_the_records_are_not_here_and_do_not_come(reader, monkeypatch):
    arriving(monkeypatch, [FakeMessage(5, 100)])
    assert reader.wait_for_records({0: 5}, 1)
    assert reader.fetched_ends_before(150, {0: 5}, {0: 7}) is None
    assert reader.fetched_ends_before(150, {0: 4}, {0: 7}) is None, "it does not stand there"
    assert reader.fetched_ends_before(150, {0: 5}, {0: 5 + partitions.SOON + 1}) is None, (
        "too many to wait for"
    )


def test_nobody_is_asked_about_a_partition_to_which_nothing_came(reader, monkeypatch):
    arriving(monkeypatch, [FakeMessage(5, 100), FakeMessage(6, 200)])
    assert reader.wait_for_records({0: 5}, 1)
    assert reader.fetched_ends_before(150, {0: 5, 1: 3}, {0: 7, 1: 3}) == {0: 6, 1: 3}


def test_a_partition_without_a_start_is_read_from_its_first_record(reader, monkeypatch):
    arriving(monkeypatch, [FakeMessage(0, 100), FakeMessage(1, 200)])
    assert reader.wait_for_records({0: 0}, 1)
    assert reader.fetched_ends_before(150, {}, {0: 2}) == {0: 1}


def test_a_range_of_the_first_record_alone_has_that_record(reader, monkeypatch):
    arriving(monkeypatch, [FakeMessage(0), FakeMessage(1)])
    read = [[each.offset() for each in came] for _, came in reader.read({0: (0, 1)}, patience_s=0.3)]
    assert read == [[0]]


def test_what_waited_of_another_partition_is_fetched_again_from_its_first_record(reader, monkeypatch):
    arriving(monkeypatch, [FakeMessage(5, number=1), FakeMessage(6, number=1)])
    assert reader.wait_for_records({0: 3, 1: 5}, 1)
    reader.wait_for_records({0: 9}, 0)
    assert reader._consumer.assigned == [(0, 9), (1, 5)]


def test_a_partition_that_ends_before_its_first_record_has_not_all_of_a_range(reader, monkeypatch):
    arriving(monkeypatch, [end_at(0)])
    reader.wait_for_records({0: 0}, 1)
    assert reader.fetched_ends_before(150, {0: 0}, {0: 1}) is None
    monkeypatch.setattr(Arriving, "looks", [[end_at(0)]])
    with pytest.raises(NoBroker):
        list(reader.read({0: (0, 1)}, patience_s=0.3))


def test_a_record_of_another_topic_wakes_once_and_is_not_read(reader, monkeypatch):
    wakes = (("control", 0),)
    arriving(monkeypatch, [FakeMessage(7, of="control")])
    assert reader.wait_for_records({0: 5}, 1, wakes)
    assert reader._consumer.assigned == [(0, 5), (0, OFFSET_END)]
    assert not reader.wait_for_records({0: 5}, 0, wakes)
    arriving(monkeypatch, [FakeMessage(5), FakeMessage(8, of="control")])
    assert [len(came) for _, came in reader.read({0: (5, 6)}, patience_s=1)] == [1]
    assert not reader.wait_for_records({0: 6}, 0) and reader._consumer.assigned == [(0, 6)]


def test_offsets_without_records_at_the_end_of_a_partition_are_here(reader, monkeypatch):
    arriving(monkeypatch, [FakeMessage(5, 100)], [end_at(7)])
    assert reader.wait_for_records({0: 5}, 1)
    assert reader.fetched_ends_before(150, {0: 5}, {0: 7}) == {0: 7}


def test_a_range_ends_before_its_end_and_the_next_one_begins_with_what_has_come(reader, monkeypatch):
    arriving(monkeypatch, [FakeMessage(0), FakeMessage(1), FakeMessage(2)], [FakeMessage(3)])
    read = [
        [(number, [each.offset() for each in came]) for number, came in reader.read({0: bounds})]
        for bounds in ((0, 2), (2, 4))
    ]
    assert read == [[(0, [0, 1])], [(0, [2]), (0, [3])]]


def test_a_range_ends_where_its_partition_does_though_its_last_offsets_have_no_records(reader, monkeypatch):
    arriving(monkeypatch, [FakeMessage(0)], [end_at(3)])
    read = [(number, len(came)) for number, came in reader.read({0: (0, 3)}, patience_s=0.3)]
    assert read == [(0, 1)]


@pytest.mark.parametrize("found", [FakeMessage(5), end_at(3)])
def test_a_second_consumer_finds_the_end_of_a_range_that_the_first_one_waits_for(found, reader, monkeypatch):
    arriving(monkeypatch, [FakeMessage(0)])
    monkeypatch.setattr(Arriving, "looks", [[found]])
    read = [(number, len(came)) for number, came in reader.read({0: (0, 3)}, patience_s=5)]
    assert read == [(0, 1)]


def test_what_waits_of_other_partitions_comes_again_from_where_it_begins(reader, monkeypatch):
    arriving(monkeypatch, [FakeMessage(4, number=1), FakeMessage(8, number=1)], [FakeMessage(7, number=0)])
    assert len(list(reader.read({1: (4, 6)}))) == 1
    assert [number for number, _ in reader.read({0: (7, 8)})] == [0]
    assert sorted(reader._consumer.assigned) == [(0, 7), (1, 8)]


def test_a_closed_reader_closes_its_consumer_once_and_has_another_when_it_reads_on(reader, monkeypatch):
    first = reader._consumer
    arriving(monkeypatch, [FakeMessage(0)], [FakeMessage(1)])
    assert len(list(reader.read({0: (0, 1)}))) == 1
    reader.close(), reader.close()
    assert first.closed == 1
    assert len(list(reader.read({0: (1, 2)}))) == 1
    assert reader._consumer is not first and reader._consumer.closed == 0
    reader.close()
    assert reader._consumer.closed == 1


def test_partitions_are_read_each_to_its_own_end(reader, monkeypatch):
    arriving(monkeypatch, [FakeMessage(0, number=1), FakeMessage(4, number=0)], [FakeMessage(1, number=1)])
    read = sorted(
        (number, each.offset()) for number, came in reader.read({0: (4, 5), 1: (0, 2)}) for each in came
    )
    assert read == [(0, 4), (1, 0), (1, 1)]
    assert sorted(reader._consumer.assigned) == [(0, 4), (1, 0)]


def test_an_error_that_passes_is_waited_for_and_another_one_is_raised(reader, monkeypatch):
    away = FakeMessage(-1, code=KafkaError._TRANSPORT)
    arriving(monkeypatch, [away], [FakeMessage(0)])
    assert [number for number, _ in reader.read({0: (0, 1)})] == [0]
    arriving(monkeypatch, [FakeMessage(-1, code=KafkaError.TOPIC_AUTHORIZATION_FAILED)])
    with pytest.raises(NotAllowed, match=f"topic {TOPIC} on .* needs Read and Describe"):
        list(reader.read({0: (1, 2)}))


def test_a_consumer_tells_the_end_of_a_partition_and_never_skips_expired_records(reader):
    assert reader._settings["enable.partition.eof"] is True
    assert reader._settings["auto.offset.reset"] == "error"
    assert reader._settings["enable.auto.commit"] is False
