"""Users with the rights of docs/kafka.md, and with one of them less: the message says which."""

from collections.abc import Iterable
from contextlib import closing

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from lab.engine.loop.kafkaoutlet import KafkaOutlet, TransactionalOutlet
from lab.engine.records.keyedlines import JoinedLines, KeyedLines
from lab.logs.cluster import Cluster, NotAllowed, UnusableTopic
from lab.logs.kafka import KafkaLog
from lab.logs.offsets import PartitionOffsets
from lab.logs.partitions import PartitionReader
from tests.waiting import wait_until

Right = tuple[ResourceType, str, AclOperation]
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
RIGHTS: list[Right] = [(TOPIC, "alerts", READ), (TOPIC, "alerts", DESCRIBE), (TOPIC, "alerts", WRITE)]
RIGHTS.append((GROUP, "lab", READ))


def cluster(address: str, user: str) -> Cluster:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": user}
    return Cluster(address, tuple(sorted({"security.protocol": "SASL_PLAINTEXT", **login}.items())))


@pytest.fixture
def address(with_users) -> str:
    KafkaLog(cluster(with_users.address, "owner"), "alerts").create()
    return with_users.address


def allow(address: str, rights: Iterable[Right]) -> Cluster:
    """The cluster as the engine's user sees it, who has these rights from now on and no others."""
    admin = cluster(address, "owner").admin_client
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, "User:engine", None, AclOperation.ANY,
        AclPermissionType.ANY,
    )  # fmt: skip
    for future in admin.delete_acls([every]).values():
        future.result()
    bindings = [
        AclBinding(*right[:2], ResourcePatternType.LITERAL, "User:engine", "*", right[2], AclPermissionType.ALLOW)
        for right in rights
    ]  # fmt: skip
    for future in admin.create_acls(bindings).values() if bindings else ():
        future.result()
    wait_until(lambda: len(admin.describe_acls(every).result()) == len(bindings))
    return cluster(address, "engine")


def write_and_read(where: Cluster) -> None:
    log = KafkaLog(where, "alerts")
    log.create()
    log.publish(["one"], ["1"])
    with closing(log.tail()) as tail:
        assert tail.read()[-1] == "one"
    consumer: Consumer = where.non_fetching_consumer
    assert consumer.list_topics("alerts", 10).topics["alerts"].error is None


@pytest.mark.slow
def test_the_rights_that_the_documentation_names_are_enough(address):
    write_and_read(allow(address, RIGHTS))


@pytest.mark.parametrize(
    "lacking, kind, says",
    [
        ([(TOPIC, "alerts", WRITE)], UnusableTopic, "topic alerts on .*: this user needs Write on it"),
        ([(TOPIC, "alerts", READ)], NotAllowed, "topic alerts on .*: this user needs Read and Describe on it"),
        (RIGHTS[:3], NotAllowed, "topic alerts on .*: this user needs Read and Describe on it"),
    ],
)  # fmt: skip
def test_a_right_that_is_lacking_is_named(lacking, kind, says, address):
    where = allow(address, [right for right in RIGHTS if right not in lacking])
    with pytest.raises(kind, match=says):
        write_and_read(where)


def test_the_right_on_the_consumer_group_is_named_once_the_brokers_have_told(address):
    where = allow(address, RIGHTS[:-1])
    says = "consumer group lab on .*: this user needs Read on it, or lab.toml another group"
    end = PartitionOffsets(where, "alerts").end_offsets()
    with closing(PartitionReader(where, "alerts")) as reader, pytest.raises(NotAllowed, match=says):
        wait_until(lambda: reader.wait_for_records(end, 0.1))


def test_an_engine_that_may_write_to_none_of_its_topics_is_told_which(address):
    outlet = KafkaOutlet(allow(address, [RIGHTS[1]]), {"alerts": "alerts"})
    with pytest.raises(UnusableTopic, match="topic alerts on .*: this user needs Write on it"):
        outlet.put(None, {"alerts": KeyedLines(["1"], JoinedLines(["one"]))}, frozenset())
        outlet.flush()


def test_the_right_on_the_transactional_id_is_named(address):
    where = allow(address, RIGHTS)
    says = "transactional id lab-7-0-3 on .*: this user needs Write and Describe on it"
    with pytest.raises(NotAllowed, match=says):
        TransactionalOutlet(where, {"alerts": "alerts"}, "lab-7-0-3", lambda: None)
