"""Reading text, JSON and numbers exactly: no float anywhere, and nothing that a hostile line can make slow."""

import json
import re
from base64 import b64encode
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import lru_cache
from itertools import accumulate
from typing import Any

MAX_LINE_BYTES = 1 << 20
REGISTRY_BYTES = 5  # that Confluent's serializers put before a value: 0 and the number of its schema
MAX_DEPTH = 200  # objects and lists inside each other; Python's own limit depends on who calls

# Both read each character once, whatever the text: no two ways to read it, and `++`, `*+` never go back.
DECIMAL_TEXT = re.compile(r"[+-]?([0-9]++(\.[0-9]*+)?|\.[0-9]++)([eE][+-]?[0-9]++)?")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


class BadRecord(ValueError):
    """A record that cannot be read; its text names the field, the value and what is allowed."""


class LongLine(bytes):
    """Stands for a line of more than 1 MiB that is not in memory; no schema accepts this text, because it is not UTF-8.

    `size`, `sha256`, `beginning`: those of the line itself.
    """

    size: int
    sha256: str
    beginning: bytes

    @classmethod
    def of(cls, size: int, digest: str, beginning: bytes) -> "LongLine":
        """The stand-in for a line with this size, hash and beginning."""
        line = cls(b"\xff a line of %d bytes, sha256 %s" % (size, digest.encode()))
        line.size, line.sha256, line.beginning = size, digest, beginning
        return line

    @property
    def reason(self) -> str:
        """Why the line is refused."""
        return too_long("line", self.size, MAX_LINE_BYTES)


def too_long(what: str, size: int, max_bytes: int) -> str:
    """The message about text of too many bytes."""
    return f"{what} of {size} bytes, at most {max_bytes} are allowed"


def text_of_bytes(value: bytes) -> str:
    """A value of bytes as JSON can have it: as UTF-8 if it is that, or else in base 64."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return b64encode(value).decode()


def refuse_non_json_number(literal: str) -> None:
    """Refuses NaN and the like."""
    raise BadRecord(f"not one JSON object: {literal} is not a JSON number")


def decode_text(raw: bytes, what: str, max_bytes: int) -> str:
    """The bytes as text, without a byte order mark. Raises BadRecord if they are too long, not UTF-8, or in the format of a Schema Registry."""
    size = raw.size if isinstance(raw, LongLine) else len(raw)
    if size > max_bytes:
        raise BadRecord(too_long(what, size, max_bytes))
    if raw[:2] == b"\x1f\x8b":
        raise BadRecord(
            "gzip inside a record, expected JSON: compression.type of a producer packs records on their way"
        )
    if raw[:1] == b"\0" and len(raw) > REGISTRY_BYTES:
        number = int.from_bytes(raw[1:REGISTRY_BYTES])
        raise BadRecord(
            f"Schema Registry format (schema {number}), expected plain JSON: convert the topic, for example with Kafka Connect"
        )
    try:
        return raw.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise BadRecord(f"not UTF-8: byte 0x{raw[error.start]:02x} at offset {error.start}") from None


def refuse_no_value(text: str) -> None:
    """Raises BadRecord for a tombstone, a record without a value; `lab.sources.sources.TopicSource` returns it as null."""
    if text.strip() in ("", "null"):
        raise BadRecord("no value (a tombstone, as compacted topics have them), expected an event")


def looks_like_json_object(text: str) -> bool:
    """Whether the text is meant as a JSON object: its first character that is not blank is `{`."""
    return text.lstrip(" \t\r\n").startswith("{")


def parse_json_object(
    text: str,
    parse_constant: Callable[[str], Any] = refuse_non_json_number,
    members: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> dict[str, Any]:
    """The text as exactly one JSON object, its numbers int or Decimal, never float. Raises BadRecord.

    `parse_constant` returns the value for NaN, Infinity and -Infinity, which are not JSON; by default it refuses them.
    `members` makes an object of its members; by default it is a dict with the last of two members of the same name.
    """
    if text.count("{") + text.count("[") > MAX_DEPTH and nesting_depth(text) > MAX_DEPTH:
        raise BadRecord(f"not readable: JSON nested too deeply, more than {MAX_DEPTH} levels")
    try:
        return _decoder(parse_constant, members).decode(text)
    except json.JSONDecodeError as error:
        raise BadRecord(f"not one JSON object: {error}") from None


@lru_cache(maxsize=8)
def _decoder(
    parse_constant: Callable[[str], Any], members: Callable[[list[tuple[str, Any]]], Any] | None
) -> json.JSONDecoder:
    return json.JSONDecoder(
        parse_int=parse_integer,
        parse_float=_decimal,
        parse_constant=parse_constant,
        object_pairs_hook=members,
    )


def nesting_depth(text: str) -> int:
    """How many objects and lists are inside each other.

    >>> nesting_depth('{"a": [{}, "[[["]}')
    3
    """
    brackets = re.findall(r"[\[\]{}]", _STRING.sub("", text))
    return max(accumulate((1 if bracket in "[{" else -1 for bracket in brackets), initial=0))


def exact_decimal(value: Any, precision: int, scale: int) -> Decimal | None:
    """An int, a Decimal or a number in text as a Decimal of exactly `scale` digits after the point.

    None when it is none of these, or does not fit `precision` digits unrounded. Huge exponents cost nothing.

    >>> exact_decimal(Decimal("2e1"), 18, 2), exact_decimal("0.005", 18, 2)
    (Decimal('20.00'), None)
    """
    is_number = type(value) is int or (isinstance(value, Decimal) and value.is_finite())
    if not is_number and not (isinstance(value, str) and DECIMAL_TEXT.fullmatch(value)):
        return None
    try:
        number = _exact_context(precision).quantize(Decimal(value), Decimal(1).scaleb(-scale))
    except (InvalidOperation, Inexact):
        return None
    return number or abs(number)  # -0 becomes 0


@lru_cache(maxsize=64)
def _exact_context(precision: int) -> Context:
    return Context(prec=precision, traps=[InvalidOperation, Inexact])


def parse_integer(literal: str) -> int | Decimal:
    """An integer literal; past 40 digits it stays a Decimal, as a million digits take int() half a minute."""
    if len(literal) <= 40:  # nearly all; a Decimal in between takes three times as long
        return int(literal)
    number = Decimal(literal)
    return int(number) if number.adjusted() < 40 else number


def _decimal(literal: str) -> Decimal | bytes:
    """A number with a fraction or exponent; bytes, which no field takes, when even Decimal cannot hold it."""
    try:
        return Decimal(literal)
    except InvalidOperation:
        return literal.encode()


def is_valid_unicode(text: str) -> bool:
    """Whether it can be written as UTF-8; a lone surrogate cannot."""
    try:
        return text.encode() is not None
    except UnicodeEncodeError:
        return False


def compact_json(value: object) -> str:
    """A value as JSON in ASCII, without blanks."""
    return json.dumps(value, separators=(",", ":"))
