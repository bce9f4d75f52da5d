"""Logs: where events, control messages, alerts, acknowledgements, dead letters and statistics live."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.logs.files import FileLog
    from lab.logs.kafka import KafkaLog

KAFKA = "kafka://"


@dataclass(frozen=True)
class Record:
    """A record as it was read: when it was appended (ms), its key, its value as text, its place in the log."""

    append_ms: int
    key: str
    line: str
    place: str = field(default="", compare=False)  # as `publish` returned it


def kafka_place(where: str) -> tuple[str, str]:
    """`kafka://host:port/topic` as address and topic; without a topic it is "". Raises ValueError.

    >>> kafka_place("kafka://127.0.0.1:9092/transactions")
    ('127.0.0.1:9092', 'transactions')
    """
    address, _, topic = where.removeprefix(KAFKA).partition("/")
    host, _, port = address.rpartition(":")
    if not where.startswith(KAFKA) or not host or not port.isdecimal() or "/" in topic:
        raise ValueError(
            f"{where!r}, expected kafka://HOST:PORT/TOPIC, such as kafka://127.0.0.1:9092/events"
        )
    return address, topic


def opened(where: str) -> "FileLog | KafkaLog":
    """The log at a place: a folder, or `kafka://host:port/topic`. What is appended is kept for a week. Raises ValueError."""
    if "://" in where:
        from lab.logs.kafka import KafkaLog

        address, topic = kafka_place(where)
        if not topic:
            raise ValueError(f"{where!r} names no topic, expected one, such as {where.rstrip('/')}/events")
        return KafkaLog(address, topic)
    from lab.logs.files import WEEK_MS, FileLog

    return FileLog(Path(where), keep_ms=WEEK_MS)
