"""Dead letters: what was bad about a record, where it stood, and what it was."""

import base64
import codecs
import json
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import IO

from lab.model.jsontext import MAX_LINE_BYTES, LongLine

RECORD_KINDS = {  # beginning of a reason -> kind
    "not UTF-8": "not UTF-8",
    "not one JSON object|not readable": "not JSON",
    "not a CSV line|[0-9]+ cells": "not CSV",
    "[a-z ]+ of [0-9]+ bytes": "too long",
    "no value": "no value",
    "Schema Registry": "Schema Registry",
}
END_OF_NAME = re.compile("[ :]")
SHOWN_KEY = 200  # bytes of a record's key
SHOWN = 2_000  # bytes of a record, or characters of a message; JSON makes six times as many of some
BEGINNING = 4 * (SHOWN + 1)  # bytes; they contain more characters than are shown


def dead_letter(reason: str, place: str, raw: bytes, log_time_ms: int = 0, key: bytes | None = None) -> str:
    """One line of the dead-letter log, always below 64 kB: a log takes 1 MiB, and quoting could make a record longer than that.

    `raw` is the record as text, or `rawBase64` if that is not UTF-8; of more than 2,000 bytes only the beginning, beside
    the number of all its `bytes` and their `sha256`. The log time (0: not known) is `logTime`, the key of a record of Kafka `key`
    or `keyBase64`; of more than 200 bytes only the beginning, beside their number, `keyBytes`.

    >>> dead_letter("not one JSON object", "events/a:3", b"{")
    '{"reason": "not one JSON object", "place": "events/a:3", "raw": "{"}'
    >>> dead_letter("no value", "events/0:3", b"", 1714525200000, b"order-7")
    '{"reason": "no value", "place": "events/0:3", "logTime": 1714525200000, "key": "order-7", "raw": ""}'
    """
    letter: dict[str, int | str] = {"reason": reason, "place": place}
    if log_time_ms:
        letter["logTime"] = log_time_ms
    if key is not None:
        letter |= _shown("key", key, SHOWN_KEY)
        if len(key) > SHOWN_KEY:
            letter["keyBytes"] = len(key)
    letter |= _shown("raw", raw, SHOWN)
    if isinstance(raw, LongLine) or len(raw) > SHOWN:
        letter |= length_and_sha256(raw)
    return json.dumps(letter)


def _shown(name: str, data: bytes, most: int) -> dict[str, int | str]:
    """The first bytes as a text, without half a character at its end; in base64 if that is not UTF-8."""
    beginning, is_long = beginning_of(data)[:most], isinstance(data, LongLine) or len(data) > most
    try:
        return {name: codecs.getincrementaldecoder("utf-8")().decode(beginning, final=not is_long)}
    except UnicodeDecodeError:
        return {f"{name}Base64": base64.b64encode(beginning).decode()}


def beginning_of(raw: bytes) -> bytes:
    """The first bytes of a record, more than a dead letter shows."""
    return raw.beginning if isinstance(raw, LongLine) else raw[:BEGINNING]


def length_and_sha256(raw: bytes) -> dict[str, int | str]:
    """How long it is, and which one: for what is not shown whole.

    >>> length_and_sha256(b"x")["sha256"][:8]
    '2d711642'
    """
    if isinstance(raw, LongLine):
        return {"bytes": raw.size, "sha256": raw.sha256}
    return {"bytes": len(raw), "sha256": sha256(raw).hexdigest()}


def reason_without_value(reason: str) -> str:
    """A reason for a screen or a service's journal: what is wrong and what would be right, and no value of the record.

    >>> reason_without_value('paymentAmount (order.amount): "4111-1111", expected a number')
    'paymentAmount (order.amount): expected a number'
    >>> reason_without_value("not one JSON object: Expecting value"), reason_without_value("line of 9 bytes, at most 8 are allowed")
    ('not one JSON object', 'line of 9 bytes, at most 8 are allowed')
    """
    what, _, rest = reason.partition(": ")
    _, expected, right = rest.rpartition(", expected ")
    return f"{what}: expected {right}" if expected else what


def error_kind(reason: str) -> str:
    """What was bad, in a word: the name of the field, or one of RECORD_KINDS. So there are few kinds, whatever comes.

    >>> error_kind('paymentAmount (order.amount): "x", expected a number'), error_kind("not one JSON object: Expecting value")
    ('paymentAmount', 'not JSON')
    """
    for beginning, kind in RECORD_KINDS.items():
        if re.match(beginning, reason):
            return kind
    return END_OF_NAME.split(reason, maxsplit=1)[0]


# -- lines of a file, however long they are ----------------------------------------------------------------------------
# Of one that is too long, about two lines' worth is ever in memory.

CHUNK = 1 << 16
BATCH_BYTES = 1 << 26  # of lines that are passed on at once


def bounded_lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file without their ends; a LongLine for each that is too long.

    >>> import io
    >>> lines = list(bounded_lines(io.BytesIO(b"a\\r\\n" + b"x" * 3_000_000 + b"\\nb")))
    >>> lines[0], lines[1].size, lines[2]
    (b'a', 3000000, b'b')
    """
    while line := file.readline(MAX_LINE_BYTES + 3):
        if line.endswith(b"\n") or len(line) < MAX_LINE_BYTES + 3:
            text = line.rstrip(b"\r\n")
            if len(text) <= MAX_LINE_BYTES:
                yield text
                continue
        yield _long(line, file)


def _long(start: bytes, file: IO[bytes]) -> LongLine:
    """The rest of a line is read and hashed, without its end: the last two bytes wait until it is known what they are."""
    digest, size, waiting = sha256(), 0, start
    while not waiting.endswith(b"\n"):
        more = file.readline(CHUNK)
        if not more:
            break
        digest.update(waiting[:-2])
        size += max(len(waiting) - 2, 0)
        waiting = waiting[-2:] + more
    last = waiting.removesuffix(b"\n").removesuffix(b"\r")
    digest.update(last)
    return LongLine.of(size + len(last), digest.hexdigest(), start[:BEGINNING])


def line_batches(lines: Iterable[bytes], max_lines: int) -> Iterator[list[bytes]]:
    """Lines in lists of at most so many, and of 64 MiB and a line."""
    some: list[bytes] = []
    size = 0
    for line in lines:
        some.append(line)
        size += len(line)
        if len(some) == max_lines or size >= BATCH_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
