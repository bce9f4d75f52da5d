"""`lab.toml`: the Kafka cluster of a company, and what its topics are called. Secrets come from the environment or files.

[kafka]
bootstrap = ["b1.example.com:9093", "b2.example.com:9093"]
topics = { events = "shop.orders.v1" }

[kafka.client]
security.protocol = "SASL_SSL"
sasl.password = { file = "/run/secrets/kafka" }
"""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.logs.places import checked_address
from lab.model.times import duration_ms

if TYPE_CHECKING:
    from lab.logs.cluster import Cluster

NAME = "lab.toml"
LOGS = ("events", "control", "alerts", "acks", "deadLetters", "stats", "restrictions")
KEYS = ("bootstrap", "topics", "client", "group", "replication", "retention")
PEM = {f"ssl.{what}.location": f"ssl.{what}.pem" for what in ("ca", "certificate", "key")}
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class BadConfig(ValueError):
    """What is wrong in a lab.toml; never a value of a client's property."""


@dataclass(frozen=True)
class Config:
    """What a lab.toml says.

    >>> Config().cluster("127.0.0.1:9092")
    Cluster(address='127.0.0.1:9092', replication=-1, keep_ms=604800000, group='lab')
    """

    kafka: "Cluster | None" = None
    topics: Mapping[str, str] = field(default_factory=dict)  # log -> topic

    def cluster(self, address: str) -> "Cluster":
        """The cluster at an address: the file's, if the address is "" or one of its brokers, else one without properties."""
        from lab.logs.cluster import Cluster

        if self.kafka and set(address.split(",")) <= {"", *self.kafka.address.split(",")}:
            return self.kafka
        if not address:
            raise BadConfig(
                f"kafka:/// is the cluster of {NAME}, expected one in this folder with [kafka] bootstrap, or --config FILE"
            )
        return Cluster(address)


def found(named: Path | None) -> Config:
    """The file named, or `lab.toml` in the working directory, if there is one. Raises BadConfig, OSError."""
    path = named or Path(NAME)
    return read(path) if named or path.is_file() else Config()


def read(path: Path) -> Config:
    """A lab.toml. Raises BadConfig, OSError."""
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadConfig(f"{path}: not TOML: {error}") from None
    try:
        _only(tables, ("kafka",), "")
        return _config(tables.get("kafka", {}), path.absolute().parent)
    except BadConfig as error:
        raise BadConfig(f"{path}: {error}") from None


def _config(kafka: dict, folder: Path) -> Config:
    from lab.logs.cluster import Cluster

    _only(kafka, KEYS, "kafka.")
    topics = _table(kafka, "topics")
    _only(topics, LOGS, "kafka.topics.")
    topics = {log: _text(f"kafka.topics.{log}", topic, folder) for log, topic in topics.items()}
    named = kafka.get("bootstrap", [])
    addresses = [
        _text("kafka.bootstrap", each, folder) for each in ([named] if isinstance(named, str) else named)
    ]
    if not addresses:
        raise BadConfig(
            'kafka.bootstrap is missing, expected brokers, such as ["b1.example.com:9093", "b2.example.com:9093"]'
        )
    try:
        address = ",".join(checked_address(each.strip()) for named in addresses for each in named.split(","))
        given: dict[str, Any] = (
            {"keep_ms": duration_ms(_text("kafka.retention", kafka["retention"], folder))}
            if "retention" in kafka
            else {}
        )
    except ValueError as error:
        raise BadConfig(str(error)) from None
    if "group" in kafka:
        given["group"] = _text("kafka.group", kafka["group"], folder)
    if "replication" in kafka:
        given["replication"] = kafka["replication"]
        if type(kafka["replication"]) is not int or not 1 <= kafka["replication"] <= 99:
            raise BadConfig(
                f"kafka.replication: {kafka['replication']!r}, expected a whole number, such as 3"
            )
    client = dict(_properties(_table(kafka, "client"), folder))
    _check(client)
    return Config(Cluster(address, tuple(sorted(client.items())), **given), topics)


def _table(kafka: dict, name: str) -> dict:
    if not isinstance(table := kafka.get(name, {}), dict):
        raise BadConfig(f"kafka.{name}: expected a table")
    return table


def _only(table: dict, names: tuple[str, ...], where: str) -> None:
    for name in table:
        if name not in names:
            raise BadConfig(
                f"{where}{name} is not known, expected {', '.join(where + each for each in names)}"
            )


def _properties(client: dict, folder: Path) -> Iterator[tuple[str, str]]:
    """Names with dots and their values; of files with keys and certificates, what is in them."""
    from lab.logs.cluster import SPELLINGS

    known = (set(SPELLINGS) - set(PEM.values())) | set(PEM)
    for name, value in _flat(client):
        if name not in known:
            raise BadConfig(f"kafka.client.{name} is not known, expected one of {', '.join(sorted(known))}")
        text = _text(f"kafka.client.{name}", value, folder)
        if name in PEM:
            yield PEM[name], _content(f"kafka.client.{name}", text, folder)
        else:
            yield name, text


def _flat(table: dict, before: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict) and "file" not in value:
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def _text(name: str, value: object, folder: Path) -> str:
    """A text with `${NAME}` replaced by what the environment has, or the content of `{ file = "…" }`."""
    if isinstance(value, dict) and list(value) == ["file"]:
        return _content(name, _text(name, value["file"], folder), folder).rstrip("\r\n")
    if not isinstance(value, str):
        raise BadConfig(
            f'{name}: expected a text, which may have ${{NAME}} of the environment in it, or {{ file = "…" }}'
        )

    def of_environment(match: re.Match) -> str:
        if match[1] not in os.environ:
            raise BadConfig(f"{name}: the environment has no {match[1]}")
        return os.environ[match[1]]

    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", of_environment, value)


def _content(name: str, file: str, folder: Path) -> str:
    try:
        return (folder / file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(
            f"{name}: {folder / file}: {getattr(error, 'strerror', None) or 'not UTF-8'}"
        ) from None


def _check(client: dict[str, str]) -> None:
    """Raises BadConfig for properties that do not fit together."""
    from lab.logs.cluster import LOGINS

    protocol, mechanism = client.get("security.protocol", "PLAINTEXT"), client.get("sasl.mechanism")
    if protocol not in PROTOCOLS:
        raise BadConfig(f"kafka.client.security.protocol: expected one of {', '.join(PROTOCOLS)}")
    if protocol.startswith("SASL") and mechanism not in LOGINS:
        raise BadConfig(f"kafka.client.sasl.mechanism: expected one of {', '.join(LOGINS)} with {protocol}")
    needed = {"sasl.username", "sasl.password"} if protocol.startswith("SASL") else set()
    for name in sorted(needed - client.keys()):
        raise BadConfig(f"kafka.client.{name} is missing, {protocol} needs it")
    for start in ("sasl.", "ssl."):
        for name in client:
            if name.startswith(start) and start[:-1].upper() not in protocol:
                name = name.replace(".pem", ".location")
                raise BadConfig(f"kafka.client.{name} is of no use with security.protocol {protocol}")
    if ("ssl.certificate.pem" in client) != ("ssl.key.pem" in client):
        raise BadConfig(
            "kafka.client.ssl.certificate.location and ssl.key.location: expected both or neither"
        )
