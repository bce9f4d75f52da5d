"""`lab.toml`: a company's Kafka cluster, its topic names, and the receivers of alerts. Secrets come from the environment or files.

[kafka]
bootstrap = ["b1.example.com:9093", "b2.example.com:9093"]
topics = { events = "shop.orders.v1" }

[kafka.client]
security.protocol = "SASL_SSL"
sasl.password = { file = "/run/secrets/kafka" }

[notify.oncall]
url = { file = "/run/secrets/slack" }
"""

import os
import re
import sys
import tomllib
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lab.logs.access import NotTrusted, may_others_read, read_trusted
from lab.logs.places import check_address
from lab.model.enginelogs import ALL_LOGS
from lab.model.times import parse_duration_ms

if TYPE_CHECKING:
    from lab.logs.cluster import Cluster

NAME = "lab.toml"
KEYS = ("bootstrap", "topics", "prefix", "client", "group", "replication", "retention")
PEM = {f"ssl.{what}.location": f"ssl.{what}.pem" for what in ("ca", "certificate", "key")}
_named: set[Path] = set()  # files that this process has already mentioned
BASE64_SECRET = "whsec_"  # how a secret of Standard Webhooks begins, if the rest is base64
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class BadConfig(ValueError):
    """An error in a lab.toml. The message never contains the value of a client property."""


@dataclass(frozen=True)
class AlertReceiver:
    """A receiver of `lab notify`: a webhook if it has a secret to sign with, otherwise a URL for apprise.

    `min_interval_ms`: the shortest time between two messages to people. `rule_ids`: the rules whose alerts are sent; empty: all rules.
    `proxy`: the URL of a proxy that requests go through; those that variables of the environment name are not used.

    >>> AlertReceiver("audit", "https://example.com/alerts", webhook_secret="hush")
    AlertReceiver(name='audit', min_interval_ms=60000, rule_ids=())
    """

    name: str
    url: str = field(repr=False)
    webhook_secret: str = field(default="", repr=False)
    min_interval_ms: int = 60_000
    rule_ids: tuple[int, ...] = ()
    proxy: str = field(default="", repr=False)


@dataclass(frozen=True)
class Config:
    """What a lab.toml says.

    >>> Config().cluster("127.0.0.1:9092")
    Cluster(address='127.0.0.1:9092', replication=-1, retention_ms=604800000, consumer_group='lab')
    """

    kafka: "Cluster | None" = None
    topics: Mapping[str, str] = field(default_factory=dict)  # log -> topic
    receivers: Mapping[str, AlertReceiver] = field(default_factory=dict)  # name -> receiver

    def cluster(self, address: str) -> "Cluster":
        """The cluster at an address: the one in this file if the address is "" or one of its brokers, otherwise one without properties."""
        from lab.logs.cluster import Cluster

        if self.kafka and set(address.split(",")) <= {"", *self.kafka.address.split(",")}:
            return self.kafka
        if not address:
            raise BadConfig(
                f"kafka:/// is the cluster of {NAME}, expected one in this folder with [kafka] bootstrap, or --config FILE"
            )
        return Cluster(address)


def load_config(named: Path | None) -> Config:
    """Reads the given file, or `lab.toml` in the working directory if it exists. Raises BadConfig, OSError."""
    path = (named or Path(NAME)).absolute()
    if not named and not path.is_file():
        return Config()
    config = read_config(path)
    if config.kafka and path not in _named:
        print(f"lab: the cluster is that of {path}", file=sys.stderr)
        _named.add(path)
    return config


def read_config(path: Path) -> Config:
    """Reads a lab.toml. Raises BadConfig, OSError."""
    try:
        tables = tomllib.loads(read_trusted(path))
    except NotTrusted as error:
        raise BadConfig(str(error)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadConfig(f"{path}: not TOML: {error}") from None
    try:
        _only(tables, ("kafka", "notify"), "")
        _check_secrets_are_private(path, tables)
        folder = path.absolute().parent
        notify = {name: _notify(name, table, folder) for name, table in _table(tables, "notify", "").items()}
        if notify and "kafka" not in tables:
            return Config(receivers=notify)
        return Config(*_kafka(_table(tables, "kafka", ""), folder), notify)
    except BadConfig as error:
        raise BadConfig(f"{path}: {error}") from None


def _check_secrets_are_private(path: Path, tables: dict) -> None:
    """Raises BadConfig if everybody may read this file and it has a secret, not only the name of a variable or a file."""
    if not may_others_read(path.stat()):
        return
    client = dict(_flat(_table(_table(tables, "kafka", ""), "client")))
    found = {f"kafka.client.{name}": client.get(name) for name in ("sasl.password", "ssl.key.password")}
    for name, table in _table(tables, "notify", "").items():
        for key, value in table.items() if isinstance(table, dict) else ():
            # apprise's URLs are the credentials; other addresses have some before an @
            if (
                key == "secret"
                or (key == "url" and "secret" not in table)
                or (key in ("url", "proxy") and "@" in str(value))
            ):
                found[f"notify.{name}.{key}"] = value
    for name, value in found.items():
        if isinstance(value, str) and value and "${" not in value:
            raise BadConfig(
                f'everybody may read it, and it has {name}: chmod o-r {quote(str(path))}, or write {{ file = "…" }} or "${{NAME}}"'
            )


def _notify(name: str, table: object, folder: Path) -> AlertReceiver:
    where = f"notify.{name}"
    if not isinstance(table, dict):
        raise BadConfig(f"{where}: expected a table with url")
    _only(table, ("url", "secret", "every", "rules", "proxy"), f"{where}.")
    if "url" not in table:
        raise BadConfig(f"{where}.url is missing, expected a URL of apprise's, or with a secret https://…")
    url, secret = (_text(f"{where}.{key}", table.get(key, ""), folder) for key in ("url", "secret"))
    if secret:
        _check_webhook(where, url, secret)
    elif "secret" in table:
        raise BadConfig(f"{where}.secret is empty")
    given: dict[str, Any] = {}
    if "every" in table:
        try:
            given["min_interval_ms"] = parse_duration_ms(_text(f"{where}.every", table["every"], folder))
        except ValueError as error:
            raise BadConfig(f"{where}.every: {error}") from None
        if secret:
            raise BadConfig(f"{where}.every is for people; a webhook gets every alert at once")
    if "rules" in table:
        rules = table["rules"]
        if (
            not isinstance(rules, list)
            or not rules
            or not all(type(each) is int and each > 0 for each in rules)
        ):
            raise BadConfig(f"{where}.rules: expected a list of rules' numbers, such as [1, 3]")
        given["rule_ids"] = tuple(rules)
    if "proxy" in table:
        given["proxy"] = _text(f"{where}.proxy", table["proxy"], folder)
        if not re.fullmatch(r"https?://[^/\s]+/?", given["proxy"]):
            raise BadConfig(f"{where}.proxy: expected http://HOST:PORT")
    return AlertReceiver(name, url, secret, **given)


def _check_webhook(where: str, url: str, secret: str) -> None:
    """Raises BadConfig for an address to which nothing can be sent, or should be, and for a secret that cannot sign."""
    try:
        address = urlsplit(url)
        host, _ = address.hostname, address.port  # which it parses only now
    except ValueError:
        host = None
    if not host or (address.scheme != "https" and (address.scheme, host) != ("http", "127.0.0.1")):
        raise BadConfig(
            f"{where}.url: expected https://HOST or https://HOST:PORT/…, as alerts travel there (or http://127.0.0.1)"
        )
    if secret.startswith(BASE64_SECRET):
        try:
            key = b64decode(secret.removeprefix(BASE64_SECRET), validate=True)
        except ValueError:
            key = b""
        if not key:  # anybody could sign with it
            raise BadConfig(
                f"{where}.secret: begins with {BASE64_SECRET}, expected base64 after that, as `openssl rand -base64 32` gives it"
            )


def _kafka(kafka: dict, folder: Path) -> "tuple[Cluster, dict[str, str]]":
    from lab.logs.cluster import Cluster

    _only(kafka, KEYS, "kafka.")
    topics = _table(kafka, "topics")
    _only(topics, ALL_LOGS, "kafka.topics.")
    topics = {log: _text(f"kafka.topics.{log}", topic, folder) for log, topic in topics.items()}
    if prefix := _text("kafka.prefix", kafka.get("prefix", ""), folder):
        topics = {log: prefix + log for log in ALL_LOGS} | topics
    named = kafka.get("bootstrap", [])
    addresses = [
        _text("kafka.bootstrap", each, folder) for each in ([named] if isinstance(named, str) else named)
    ]
    if not addresses:
        raise BadConfig(
            'kafka.bootstrap is missing, expected brokers, such as ["b1.example.com:9093", "b2.example.com:9093"]'
        )
    try:
        address = ",".join(check_address(each.strip()) for named in addresses for each in named.split(","))
        given: dict[str, Any] = _retention(kafka.get("retention", {}), folder)
    except ValueError as error:
        raise BadConfig(str(error)) from None
    if "group" in kafka:
        given["consumer_group"] = _text("kafka.group", kafka["group"], folder)
    if "replication" in kafka:
        given["replication"] = kafka["replication"]
        if type(kafka["replication"]) is not int or not 1 <= kafka["replication"] <= 99:
            raise BadConfig(
                f"kafka.replication: {kafka['replication']!r}, expected a whole number, such as 3"
            )
    client = dict(_properties(_table(kafka, "client"), folder))
    _check(client)
    return Cluster(address, tuple(sorted(client.items())), **given), topics


def _retention(given: object, folder: Path) -> dict[str, Any]:
    """The arguments of a Cluster: one duration for all logs that expire, or `{ stats = "1d", alerts = "90d" }`. Raises ValueError."""
    where = "kafka.retention"
    if not isinstance(given, dict) or "file" in given:
        return {"retention_ms": parse_duration_ms(_text(where, given, folder))}
    _only(given, [name for name, kind in ALL_LOGS.items() if not kind.is_kept], f"{where}.")
    by_log = {name: parse_duration_ms(_text(f"{where}.{name}", each, folder)) for name, each in given.items()}
    return {"retention_ms_by_log": tuple(by_log.items())} if by_log else {}


def _table(tables: dict, name: str, where: str = "kafka.") -> dict:
    if not isinstance(table := tables.get(name, {}), dict):
        raise BadConfig(f"{where}{name}: expected a table")
    return table


def _only(table: dict, names: Iterable[str], where: str) -> None:
    for name in table:
        if name not in names:
            raise BadConfig(
                f"{where}{name} is not known, expected {', '.join(where + each for each in names)}"
            )


def _properties(client: dict, folder: Path) -> Iterator[tuple[str, str]]:
    """Dotted property names and their values. Key and certificate files are replaced by their contents."""
    from lab.logs.cluster import SPELLINGS

    known = (set(SPELLINGS) - set(PEM.values())) | set(PEM)
    for name, value in _flat(client):
        if name not in known:
            raise BadConfig(f"kafka.client.{name} is not known, expected one of {', '.join(sorted(known))}")
        text = _text(f"kafka.client.{name}", value, folder)
        if name in PEM:
            yield (
                PEM[name],
                _content(f"kafka.client.{name}", text, folder, is_secret=name == "ssl.key.location"),
            )
        else:
            yield name, text


def _flat(table: dict, before: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict) and "file" not in value:
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def _text(name: str, value: object, folder: Path) -> str:
    """A text with `${NAME}` replaced by environment variables, or the contents of `{ file = "…" }`."""
    if isinstance(value, dict) and list(value) == ["file"]:
        return _content(name, _text(name, value["file"], folder), folder, is_secret=True).rstrip("\r\n")
    if not isinstance(value, str):
        raise BadConfig(
            f'{name}: expected a text, which may have ${{NAME}} of the environment in it, or {{ file = "…" }}'
        )

    def of_environment(match: re.Match) -> str:
        if match[1] not in os.environ:
            raise BadConfig(f"{name}: the environment has no {match[1]}")
        return os.environ[match[1]]

    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", of_environment, value)


def _content(name: str, file: str, folder: Path, is_secret: bool) -> str:
    try:
        return read_trusted(folder / file, is_secret)
    except NotTrusted as error:
        raise BadConfig(f"{name}: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(
            f"{name}: {folder / file}: {getattr(error, 'strerror', None) or 'not UTF-8'}"
        ) from None


def _check(client: dict[str, str]) -> None:
    """Raises BadConfig for properties that contradict each other."""
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
