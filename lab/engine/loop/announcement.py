"""The schema of the events belongs to the logs: an engine writes it to its answers, where every command finds it.

    acks   ───●───────○──○────○───●────○──►     ● {"status": "schema", "events": "events", "schema": {…}}   ○ answers

The answers are a log that the engine may write, that keeps every record, and that is not compacted. So the schema is found
from any folder, wherever the checkpoint is.
"""

from contextlib import closing, suppress

from lab.engine.loop.ends import Logs
from lab.logs.protocol import Log
from lab.model.schema import Schema
from lab.model.statuslines import SCHEMA_STATUS, parse_ack, schema_announcement

AT_FIRST = 1_000  # records of the answers that are looked through, from the end


def announce_schema(logs: Logs, schema: Schema) -> None:
    """Writes the schema of an engine's events to its answers, unless it is the newest one there. Raises NoBroker, UnusableTopic."""
    line = schema_announcement(schema, logs.log_name("events"))
    if newest_announcement(logs) != parse_ack(line):
        with closing(logs.log("acks")) as acks:
            acks.publish([line], [SCHEMA_STATUS])


def announced_schema(logs: Logs) -> Schema | None:
    """The schema of the engine that answers on these logs; None if nobody has announced one. Raises as `newest_announcement` does."""
    found = newest_announcement(logs)
    return found["schema"] if found else None


def newest_announcement(logs: Logs) -> dict | None:
    """The newest announcement, with the name of its events log; None if there is none, or if this user cannot read the answers.

    Raises NoBroker.
    """
    try:
        return _newest(logs.log("acks"))
    except (ValueError, PermissionError):  # no such topic, or not for this user
        return None


def _newest(log: Log) -> dict | None:
    asked = AT_FIRST
    with closing(log.tail(new=True)) as tail:
        end = tail.positions
    beginning = log.earlier(end, 1 << 60)
    while True:
        start = log.earlier(end, asked)
        with closing(log.tail(at=start)) as tail:
            lines = [record.line for record in tail.records(upto=end)]
        for line in reversed(lines):
            with suppress(ValueError):
                if (ack := parse_ack(line))["status"] == SCHEMA_STATUS:
                    return ack
        if start == beginning:
            return None
        asked *= 10
