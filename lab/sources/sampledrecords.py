"""The records at the beginning of a source that `lab infer` looks at: what is in them, and why some are no events."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from lab.model.formatting import short_json
from lab.model.jsontext import (
    MAX_LINE_BYTES,
    BadRecord,
    decode_text,
    looks_like_json_object,
    parse_json_object,
)
from lab.model.schema import NO_EVENT
from lab.sources.inferredfields import InferredField, Path, collect_values
from lab.sources.inferwords import InferWords

SAMPLE, NO_VALUE = 50_000, b"null"  # records, and one without a value as `TopicSource` gives it


@dataclass
class SampledRecords:
    """What is at each path of records; how many are objects, and why the others are none. `event_path`: where an envelope has the event."""

    fields: dict[Path, InferredField] = field(default_factory=dict)
    record_count: int = 0
    bad_record_reasons: list[str] = field(default_factory=list)
    first_bad_record: int = 0  # its number, from 1
    event_path: Path | None = None
    delete_count: int = 0  # of Debezium's envelopes: they have no event
    has_packed_decimals: bool = False  # decimals as bytes in base64
    tombstone_count: int = 0

    @property
    def tombstones(self) -> str:
        """How many records have no value, in words; "" if all have one."""
        count = self.tombstone_count
        return f"{count:,} tombstone{'s' * (count > 1)}" if count else ""

    def envelope_doubts(self, time_path: Path, words: InferWords) -> list[str]:
        """What an envelope makes of its events, whose times are at that path."""
        doubts = []
        if self.event_path:
            doubts.append(f"the records are envelopes; the event is in {'.'.join(self.event_path)}")
        if self.delete_count:
            deletes = f"{self.delete_count:,} records are deletes, which have no event and become dead letters; an update is read as the row after it"
            row = self.event_path or ()
            own = time_path[: len(row)] == row
            doubts.append(
                f'{deletes}. With taken_back = "op = d", a delete and an update take back the row before'
                if own
                else f"{deletes}. They could take back the row before if the event time were one of the row's own fields: {words.time.format('NAME')}"
            )
        if self.has_packed_decimals:
            doubts.append(
                "decimals are packed bytes: set decimal.handling.mode=string at the connector to get numbers"
            )
        return doubts


def read_sample(lines: Iterable[bytes], texts: bool = False, envelopes: bool = True) -> SampledRecords:
    """Looks at the first 50,000 records with a value. The first one decides whether they are envelopes."""
    read = SampledRecords()

    def counted(line: bytes) -> bytes:
        read.tombstone_count += line.strip() == NO_VALUE
        return line

    for number, line in enumerate(_sample(map(counted, lines)), 1):
        try:
            text = decode_text(line, "line", MAX_LINE_BYTES)
            if not looks_like_json_object(text):
                raise BadRecord(f"{short_json(text.strip())} is not a JSON object")
            record = parse_json_object(text, float)
        except BadRecord as error:
            read.first_bad_record = read.first_bad_record or number
            read.bad_record_reasons.append(str(error))
            continue
        if read.event_path is None:
            read.event_path = find_event_path(record) if envelopes else ()
            read.has_packed_decimals = bool(read.event_path) and "connect.data.Decimal" in text
        envelope: Any = None
        event: Any = record
        for key in read.event_path:
            envelope, event = event, event.get(key) if isinstance(event, dict) else None
        if not isinstance(event, dict):
            if isinstance(envelope, dict) and envelope.get("op") in (*NO_EVENT,):
                read.delete_count += 1
            else:
                read.first_bad_record = read.first_bad_record or number
                read.bad_record_reasons.append(f"{'.'.join(read.event_path)} is not an object")
            continue
        read.record_count += 1
        collect_values(event, read.record_count, read.fields, read.event_path, texts)
        if envelope and "op" in envelope:
            around = {name: envelope[name] for name in ("op", "ts_ms") if name in envelope}
            collect_values(around, read.record_count, read.fields, read.event_path[:-1])
    return read


def _sample(lines: Iterable[bytes]) -> Iterator[bytes]:
    return islice((line for line in lines if line.strip() not in (b"", NO_VALUE)), SAMPLE)


def sampled_values(lines: Iterable[bytes], paths: list[Path]) -> list[list]:
    """For each path, the values there of all the records that `read_sample` looked at."""
    columns: list[list] = [[] for _ in paths]
    for line in _sample(lines):
        with suppress(BadRecord):
            record = parse_json_object(decode_text(line, "line", MAX_LINE_BYTES), float)
            for path, column in zip(paths, columns):
                value: Any = record
                for key in path:
                    value = value.get(key) if isinstance(value, dict) else None
                # of a list or an object, which is no id, only whether it is another one counts
                column.append(str(value) if isinstance(value, list | dict) else value)
    return columns


def find_event_path(record: dict) -> Path:
    """Where a record has its event, if it is an envelope of Kafka Connect or of Debezium; else nowhere.

    >>> find_event_path({"schema": {}, "payload": {"before": None, "after": {"id": 1}, "op": "c"}}), find_event_path({"id": 1})
    (('payload', 'after'), ())
    """
    root: Path = ()
    if record.keys() == {"schema", "payload"} and isinstance(record["payload"], dict):
        root, record = ("payload",), record["payload"]
    if {"op", "after"} <= record.keys() and record.keys() & {"before", "source"}:
        root = (*root, "after")
    return root
