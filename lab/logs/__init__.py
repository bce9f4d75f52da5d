"""Logs: where events, control messages, alerts, acknowledgements, dead letters and statistics live."""

import re
from pathlib import Path


def opened(where: str | Path):
    """The log at a place: a folder, or `kafka://host:port/topic`. Raises ValueError for anything else.

    >>> import tempfile
    >>> opened(tempfile.mkdtemp()).append(["one"]).suffix
    '.jsonl'
    >>> opened("kafka://127.0.0.1/events")
    Traceback (most recent call last):
        ...
    ValueError: 'kafka://127.0.0.1/events', expected a folder or kafka://host:port/topic
    """
    kafka = re.fullmatch(r"kafka://([^/\s]+:[0-9]{1,5})/([A-Za-z0-9._-]{1,249})", str(where))
    if kafka:
        from lab.logs.kafka import KafkaLog

        return KafkaLog(kafka[1], kafka[2])
    if "://" in str(where) or not str(where).strip():
        raise ValueError(f"{str(where)!r}, expected a folder or kafka://host:port/topic")
    from lab.logs.files import FileLog

    return FileLog(where)
