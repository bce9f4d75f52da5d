"""How clients connect to a Kafka cluster: one set of properties for librdkafka and for Java, and the meaning of errors.

lab.toml ──► Cluster ──► librdkafka   (the engine's source, people's tools)
                └──────► Java         (Spark's sink)
"""

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from lab.logs.loopback import NoLoopback, check_loopback
from lab.logs.protocol import NoLog
from lab.model.times import DAY_MS

T = TypeVar("T")
ANSWER_S = 10.0  # how long brokers may take to answer
RECENT_S = 30.0
# how often errors are looked at before a broker has answered, and how long others of the cluster may still accept a client
HEARD_S, REFUSED_S = 0.05, 1.0
NOT_SAID = "a broker that expects TLS or SASL does not answer either: lab.toml says how to speak to it, see docs/kafka.md"
# librdkafka's name of a property -> Java's; "": only a part of another Java property
SPELLINGS = {
    "security.protocol": "security.protocol",
    "client.id": "client.id",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.username": "",
    "sasl.password": "",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.key.password": "ssl.key.password",
    "ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm",
}
LOGINS = {"PLAIN": "plain.PlainLoginModule"} | dict.fromkeys(
    ("SCRAM-SHA-256", "SCRAM-SHA-512"), "scram.ScramLoginModule"
)
PATIENT = {"delivery.timeout.ms": str((1 << 31) - 1), "max.block.ms": str((1 << 31) - 1)}
# the broker is unavailable, or it is back and its partitions have no leader yet (_NOENT)
AWAY_NAMES = """
_ALL_BROKERS_DOWN _AUTHENTICATION _DESTROY_BROKER _MSG_TIMED_OUT _NOENT _RESOLVE _SSL _TIMED_OUT _TIMED_OUT_QUEUE _TRANSPORT _UNKNOWN_PARTITION _UNKNOWN_TOPIC _WAIT_COORD
BROKER_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE FENCED_LEADER_EPOCH KAFKA_STORAGE_ERROR
LEADER_NOT_AVAILABLE NETWORK_EXCEPTION NOT_CONTROLLER NOT_COORDINATOR NOT_ENOUGH_REPLICAS NOT_LEADER_FOR_PARTITION
OFFSET_NOT_AVAILABLE REPLICA_NOT_AVAILABLE REQUEST_TIMED_OUT UNKNOWN_LEADER_EPOCH
"""
AWAY = {getattr(KafkaError, name) for name in AWAY_NAMES.split()}

# the topic does not have this offset, or no longer
GONE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
REFUSALS = {  # why a topic refuses a record -> how to fix it
    KafkaError.MSG_SIZE_TOO_LARGE: "set its max.message.bytes to at least 1048588, Kafka's default, which every line of an engine fits",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "this user needs Write on it",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "this user needs Write on it, and before Kafka 3.0 also IdempotentWrite on the cluster",
    KafkaError._UNKNOWN_TOPIC: "if it was deleted, `lab run` makes it at its next start, and continues",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "if it was deleted, `lab run` makes it at its next start, and continues",
}
CHECKS = {  # why a broker that answers does not accept a client -> what to check in lab.toml
    KafkaError._AUTHENTICATION: "check sasl.mechanism, sasl.username and sasl.password in lab.toml",
    KafkaError._SSL: "check security.protocol, ssl.ca.location and the client's own certificate and key in lab.toml",
}


class NoBroker(ConnectionError):
    """No Kafka broker answers at an address, or none accepts this client. The message says what to do."""


class ClientRefused(NoBroker):
    """A broker answers, and does not accept this client, such as for a wrong password. The message says what to check."""


class UnusableTopic(ValueError):
    """A topic's settings do not fit its purpose. The message says why."""


class NoTopic(UnusableTopic, NoLog):
    """A topic does not exist. The message says what helps."""


class NotAllowed(UnusableTopic):
    """This user lacks a right. The message names the right, and the topic or group."""


class TopicMadeAnew(UnusableTopic):
    """A topic was deleted and another one has its name, so offsets mean other records. The message says what to do."""


@dataclass(frozen=True)
class Cluster:
    """A cluster's brokers, the settings of clients and of new topics, and the consumer group that shows the engine's progress.

    `client`: librdkafka properties, limited to those in SPELLINGS; never printed.

    >>> Cluster("b1:9093,b2:9093", (("sasl.password", "secret"),))
    Cluster(address='b1:9093,b2:9093', replication=-1, retention_ms=604800000, consumer_group='lab')
    """

    address: str
    client: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    replication: int = -1  # the brokers' own default
    retention_ms: int = 7 * DAY_MS  # of new topics
    consumer_group: str = "lab"
    retention_ms_by_log: tuple[tuple[str, int], ...] = field(
        default=(), repr=False
    )  # of new topics of these logs

    def retention_ms_of(self, log: str) -> int:
        """How long a new topic of a log keeps its records."""
        return dict(self.retention_ms_by_log).get(log, self.retention_ms)

    @property
    def librdkafka_properties(self) -> dict[str, str]:
        """Properties for confluent-kafka."""
        return {"bootstrap.servers": self.address, **dict(self.client)}

    @property
    def java_properties(self) -> dict[str, str]:
        """Properties for Spark's sink. It waits for unavailable brokers instead of failing."""
        given = dict(self.client)
        java = {SPELLINGS[name]: value for name, value in given.items() if SPELLINGS[name]}
        if "sasl.username" in given:
            module = f"org.apache.kafka.common.security.{LOGINS[given['sasl.mechanism']]}"
            user, password = (_quoted(given.get(name, "")) for name in ("sasl.username", "sasl.password"))
            java["sasl.jaas.config"] = f"{module} required username={user} password={password};"
        java |= {
            f"ssl.{store}.type": "PEM"
            for store in ("truststore", "keystore")
            if f"ssl.{store}." in " ".join(java)
        }
        if java.get("ssl.endpoint.identification.algorithm") == "none":
            java["ssl.endpoint.identification.algorithm"] = ""
        return {"bootstrap.servers": self.address, **PATIENT, **java}

    @property
    def admin_client(self) -> AdminClient:
        """The admin client, shared within this process."""
        return _admin(self).client

    @property
    def was_accepted(self) -> bool:
        """Whether a broker has answered a client of this process."""
        return _admin(self).was_accepted

    def result_of(self, asked: Future[T]) -> T:
        """The result of a request of the admin client. Raises ClientRefused as soon as brokers refuse this client and none has accepted it.

        Once one has, it waits for the result: brokers that start again may not know their users yet.
        """
        admin, refused_at = _admin(self), 0.0
        while not admin.was_accepted and not asked.done():
            wait([asked], HEARD_S)
            admin.client.poll(0)  # delivers the errors that wait
            if admin.said and _what_to_check(admin.said[-1][1]):
                refused_at = refused_at or time.monotonic()
                if time.monotonic() > refused_at + REFUSED_S and not asked.done():
                    raise self.no_broker_error(admin.said[-1][1])
        return asked.result()

    @property
    def non_fetching_consumer(self) -> Consumer:
        """A client that reads nothing, shared within this process: no fetch that waits for records delays its requests."""
        return _metadata_client(self)

    def group_has_members(self) -> bool:
        """Whether programs have joined the consumer group: brokers then refuse the commits of others. False if this user may not know."""
        try:
            asked = self.admin_client.describe_consumer_groups(
                [self.consumer_group], request_timeout=ANSWER_S
            )
            return bool(asked[self.consumer_group].result().members)
        except KafkaException:
            return False

    def no_broker_error(self, error: object) -> NoBroker:
        """The exception to raise when no broker answers, or none accepts this client."""
        admin = _admin(self)
        admin.client.poll(0)  # delivers the errors that wait
        heard = [each for at, each in admin.said if at > time.monotonic() - RECENT_S]
        why = [each.str() for each in heard]
        if why and (check := _what_to_check(heard[-1])):
            return ClientRefused(
                f"the Kafka broker at {self.address} does not accept this client ({why[-1]}): {check}"
            )
        hints = [] if self.client else [NOT_SAID]
        if self.address.startswith(("127.0.0.1:", "localhost:")):
            try:
                check_loopback()
            except NoLoopback as missing:
                return NoBroker(f"no Kafka broker answers at {self.address}: {missing}")
            hints.append("`lab broker start` starts one on this machine")
        return NoBroker(
            f"no Kafka broker answers at {self.address} ({why[-1] if why else error})"
            + "".join(f"; {hint}" for hint in hints)
        )

    def reading_error(self, topic: str, error: KafkaError) -> Exception:
        """The exception to raise for a topic that cannot be read: NotAllowed, or KafkaException."""
        needed = {
            KafkaError.TOPIC_AUTHORIZATION_FAILED: f"topic {topic} on {self.address}: this user needs Read and Describe on it",
            KafkaError.GROUP_AUTHORIZATION_FAILED: f"consumer group {self.consumer_group} on {self.address}: this user needs Read on "
            "it, or lab.toml another group",
        }.get(error.code())
        return NotAllowed(needed) if needed else KafkaException(error)

    def delivery_error(self, topic: str, error: KafkaError) -> Exception:
        """The exception to raise for a record that a topic refused: UnusableTopic, NoBroker, or KafkaException."""
        if error.code() in REFUSALS:
            return UnusableTopic(
                f"topic {topic} on {self.address} did not take a record ({error.str()}): {REFUSALS[error.code()]}"
            )
        return self.no_broker_error(error.str()) if error.code() in AWAY else KafkaException(error)

    def made_anew_error(self, topic: str, remedy: str) -> TopicMadeAnew:
        """The exception to raise for a topic with another id than the one that was read before; `remedy`: what its reader can do."""
        return TopicMadeAnew(
            f"topic {topic} on {self.address} is not the topic that was read before: it was deleted and created again, or this is "
            f"another cluster; {remedy}"
        )

    @contextmanager
    def translate_fatal_errors(self, topic: str) -> Iterator[None]:
        """Raises `delivery_error` for an error that ends a producer.

        While it is being raised, the producer calls delivery callbacks, and Python makes it the cause of a SystemError when a callback
        that is a bound method, a `partial`, or written in C returns.
        """
        try:
            yield
        except (KafkaException, SystemError) as failure:
            fatal = failure if isinstance(failure, KafkaException) else failure.__cause__
            if not isinstance(fatal, KafkaException):
                raise
            raise self.delivery_error(topic, fatal.args[0]) from None

    @contextmanager
    def translate_errors(self, topic: str) -> Iterator[None]:
        """Raises NoBroker if the brokers do not answer, and NoTopic."""
        try:
            yield
        except KafkaException as failure:
            error = failure.args[0]
            if error.code() in AWAY:
                raise self.no_broker_error(error.str()) from None
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise NoTopic(
                    f"there is no topic {topic} on {self.address}; `lab run` makes those it needs, except an events topic that somebody named"
                ) from None
            raise
        admin = _admin(self)
        admin.client.poll(0)
        admin.said.clear()  # it answers: what was wrong before explains nothing that comes after
        admin.was_accepted = True


def to_cluster(where: str | Cluster) -> Cluster:
    """Returns a cluster unchanged; turns an address (host:port) into a cluster without properties."""
    return where if isinstance(where, Cluster) else Cluster(where)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _what_to_check(error: KafkaError) -> str:
    """What to check in lab.toml if an error says that a broker answers and does not accept the client; "" if it does not say this."""
    # after the handshake of TLS 1.3, a missing certificate is an error of the transport
    code = KafkaError._SSL if "SSL alert" in error.str() else error.code()
    return CHECKS.get(code, "")


@dataclass
class _Admin:
    """An admin client, the last error that it heard, when, and whether a broker has ever answered it."""

    client: AdminClient
    said: deque[tuple[float, KafkaError]]
    was_accepted: bool = False


@lru_cache(maxsize=8)
def _admin(cluster: Cluster) -> _Admin:
    said: deque[tuple[float, KafkaError]] = deque(maxlen=1)

    def heard(error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # the error before it says more
            said.append((time.monotonic(), error))

    settings: dict[str, Any] = {**cluster.librdkafka_properties, "error_cb": heard, "log_level": 0}
    return _Admin(AdminClient(settings), said)


@lru_cache(maxsize=8)
def _metadata_client(cluster: Cluster) -> Consumer:
    settings = {
        "group.id": cluster.consumer_group,
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    return Consumer({**cluster.librdkafka_properties, **settings, "log_level": 0})
