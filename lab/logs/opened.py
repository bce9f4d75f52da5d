"""Opens a log by its place, in a folder or on Kafka."""

from pathlib import Path
from typing import TYPE_CHECKING

from lab.logs.places import KAFKA, split_kafka_place

if TYPE_CHECKING:
    from lab.logs.config import Config
    from lab.logs.files import FileLog
    from lab.logs.kafka import KafkaLog


def open_log(where: str, config: "Config | None" = None) -> "FileLog | KafkaLog":
    """The log at a place: a folder, or `kafka://host:port/topic`. Appended lines are kept for a week. Raises ValueError."""
    if "://" in where:
        from lab.logs.config import Config
        from lab.logs.kafka import KafkaLog

        address, topic = split_kafka_place(where)
        if not topic:
            raise ValueError(f"{where!r} names no topic, expected one, such as {KAFKA}{address}/events")
        return KafkaLog((config or Config()).cluster(address), topic)
    from lab.logs.files import WEEK_MS, FileLog

    return FileLog(Path(where), retention_ms=WEEK_MS)
