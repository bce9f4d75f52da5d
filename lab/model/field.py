"""One field of an event: its name, its type, and how its values are read."""

import re
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

from lab.model.formatting import escape_control_characters, expected_message, short_json
from lab.model.jsontext import BadRecord, exact_decimal, is_valid_unicode, parse_integer
from lab.model.times import EPOCH, UNITS, check_zone, expected_time, local_to_utc_ms, time_ms

Value = int | Decimal | str | None
Id = int | str | tuple[int | str, ...]  # of an event; a tuple where several fields are the id
MAX_TEXT = (
    2_000  # characters of a text: with 16 grouping keys an alert, and what follows it, fits a record of Kafka
)
MAX_NAME = 100  # characters of a field's name

_INTEGER = re.compile(r"[+-]?[0-9]+")
# 900,00 and 1.234,5, as they are written with a decimal comma
_WITH_COMMA = re.compile(r"([+-]?[0-9]{1,18}|[+-]?[0-9]{1,3}(?:\.[0-9]{3}){1,5}),([0-9]{1,18})")
_DECIMAL_TYPE = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")
_TIME_TEXT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3})?")
_BOOLEANS = {True: "true", False: "false", "true": "true", "false": "false"}


@dataclass(frozen=True)
class Field:
    """One field of an event: its name in rules, its type, and the path at which records have it.

    | `type` | in records | in rules and events |
    |---|---|---|
    | `long` | an integer of signed 64 bit | int |
    | `decimal(P,S)` | a number or its text, P <= 18 digits, S of them after the point | Decimal |
    | `string` | a string of at most 2,000 characters | str |
    | `boolean` | true or false | the text "true" or "false" |
    | `time` | as `unit` says: `s`, `ms`, `us`, `ns`, `m`, `h`, `d` since the epoch; `iso`: with a zone; `utc`, `local`: without | int, ms since the epoch |

    `path`: the names of the objects around it, then its own; without one, it is at the top under its name. Of other types
    than time, `unit` is for people, like `doc`. `examples`: some of its values as text, for people and simulated events.
    `zone`: of the clocks that local times are on. If these show a time twice, it is the first of the two.

    >>> amount = Field("amount", "decimal(18,2)", path=("order", "total", "amount"))
    >>> amount.parse("21.5"), amount.parse(20), amount.parse(None)
    (Decimal('21.50'), Decimal('20.00'), None)
    >>> amount.parse("21.505")
    Traceback (most recent call last):
    lab.model.jsontext.BadRecord: amount (order.total.amount): "21.505", expected a number with at most 16 digits before ...
    """

    name: str
    type: str
    doc: str = ""
    path: tuple[str, ...] = ()
    unit: str = ""
    examples: tuple[str, ...] = dataclass_field(default=(), compare=False)
    zone: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(rf"[\w.-]{{1,{MAX_NAME}}}", self.name):
            allowed = f"1 to {MAX_NAME} letters, digits, '_', '.' and '-'"
            raise ValueError(f"field name {short_json(self.name)}: use {allowed}")
        if self.type == "time" and self.unit not in UNITS:
            raise ValueError(
                expected_message(f"unit of {self.name}", self.unit or None, f"one of {', '.join(UNITS)}")
            )
        if (self.type == "time" and self.unit == "local") != bool(self.zone):
            allowed = 'a time zone with unit = "local", such as Europe/Berlin, and none with any other unit'
            raise ValueError(expected_message(f"zone of {self.name}", self.zone or None, allowed))
        if self.zone:
            check_zone(self.zone)
        if self.type not in ("long", "string", "boolean", "time"):
            match = _DECIMAL_TYPE.fullmatch(self.type)
            if not match or not int(match[2]) <= int(match[1]) <= 18 or int(match[1]) == 0:
                allowed = "long, string, boolean, time or decimal(P,S) with 1 <= P <= 18 and S <= P"
                raise ValueError(f"type of {self.name}: {short_json(self.type)}, expected {allowed}")

    @cached_property
    def record_path(self) -> tuple[str, ...]:
        """The names of the objects around it in a record, then its own."""
        return self.path or (self.name,)

    @cached_property
    def label(self) -> str:
        """What errors call it: its name, and its path if that says more."""
        return (
            self.name
            if self.record_path == (self.name,)
            else f"{self.name} ({escape_control_characters('.'.join(self.record_path))})"
        )

    @cached_property
    def precision(self) -> int:
        return int(_DECIMAL_TYPE.sub(r"\1", self.type))

    @cached_property
    def scale(self) -> int:
        """Digits after the point: S of a decimal, 0 for other types."""
        return int(_DECIMAL_TYPE.sub(r"\2", self.type)) if self.is_decimal else 0

    @property
    def is_decimal(self) -> bool:
        """Whether its values are decimals, which alerts have as text. A scale of 0 does not tell: a decimal may have it."""
        return self.type.startswith("decimal")

    @property
    def is_number_or_time(self) -> bool:
        """Whether SUM, AVG, MIN and MAX can work on it."""
        return self.type not in ("string", "boolean")

    def read(self, record: dict[str, Any]) -> Value | float:
        """The field's value in a record (of `parse_json_object`); None if it is null or missing. Raises BadRecord.

        A float is NaN, Infinity or -Infinity, at its path or around it.
        """
        *around, last = self.record_path
        inner: Any = record
        for depth, key in enumerate(around, 1):
            inner = inner.get(key)
            if inner is None or isinstance(inner, float):
                return inner
            if not isinstance(inner, dict):
                where = f"{self.name} ({'.'.join(self.record_path)}): {'.'.join(self.record_path[:depth])}"
                raise BadRecord(expected_message(where, inner, "an object"))
        value = inner.get(last)
        return value if isinstance(value, float) else self.parse(value)

    def is_in(self, record: dict[str, Any]) -> bool:
        """Whether a record (of `parse_json_object`) says something about the field, if only that it, or an object around it, is null.

        >>> ip = Field("ip", "string", path=("client", "ip"))
        >>> ip.is_in({"client": {"ip": "10.0.0.1"}}), ip.is_in({"client": None}), ip.is_in({"client": {"IP": "10.0.0.1"}})
        (True, True, False)
        """
        inner: Any = record
        for key in self.record_path:
            if not isinstance(inner, dict):
                return True
            if key not in inner:
                return False
            inner = inner[key]
        return True

    def parse(self, value: object) -> Value:
        """Converts a JSON value (of `parse_json_object`) to this field's type; None stays None. Raises BadRecord."""
        if value is None:
            return None
        parsed, allowed = self._parsed(value)
        if parsed is None:
            raise BadRecord(expected_message(self.label, value, allowed))
        return parsed

    def _parsed(self, value: Any) -> tuple[Value, str]:
        """The value, None if it is not of this type; and what is."""
        match self.type:
            case "long":
                fits = type(value) is int and -(1 << 63) <= value < 1 << 63
                return value if fits else None, "an integer of signed 64 bit"
            case "string":
                if isinstance(value, str) and len(value) > MAX_TEXT:
                    raise BadRecord(
                        f"{self.label}: {short_json(value)}, {len(value):,} characters, expected at most {MAX_TEXT:,}"
                    )
                fits = isinstance(value, str) and is_valid_unicode(value)
                return value if fits else None, "a string of valid Unicode"
            case "boolean":
                return _BOOLEANS.get(value) if isinstance(value, bool | str) else None, "true or false"
            case "time":
                return self._time(value)
            case _:
                whole, scale = self.precision - self.scale, self.scale
                allowed = f"a number with at most {whole} digits before the point and {scale} after it"
                number = exact_decimal(value, self.precision, scale)
                if number is None and isinstance(value, str) and (comma := _WITH_COMMA.fullmatch(value)):
                    plain = _with_point(*comma.groups())
                    allowed = f"a number with at most {whole} digits before the point and {scale} after it: write {plain}"
                return number, allowed

    def _time(self, value: Any) -> tuple[int | None, str]:
        allowed, ms = expected_time(self.unit), time_ms(value, self.unit)
        if ms is None or not self.zone:
            return ms, allowed
        found = local_to_utc_ms(ms, self.zone)
        return found, f"{allowed}, that clocks in {self.zone} show; these are turned forward over it"

    def parse_csv_cell(self, cell: str) -> Value:
        """One CSV cell; an empty one is null. Raises BadRecord."""
        if not cell:
            return None
        is_integer = self.type == "long" and _INTEGER.fullmatch(cell)
        return self.parse(parse_integer(cell) if is_integer else cell)


def _with_point(whole: str, fraction: str) -> str:
    """A number with a decimal comma as a schema's decimals are written; both numbers that it could be.

    >>> _with_point("1.234", "50"), _with_point("1", "234")
    ('1234.50', '1.234 or 1234')
    """
    is_unclear = len(fraction) == 3 and re.fullmatch("[+-]?[1-9][0-9]{0,2}", whole)
    digits = whole.replace(".", "")
    return f"{digits}.{fraction}{f' or {digits}{fraction}' if is_unclear else ''}"


def parse_time_text_or_ms(field: Field, cell: str) -> Value:
    """`yyyy-MM-dd HH:mm:ss[.SSS]` in UTC, or an integer, as ms since the epoch. Raises BadRecord."""
    try:
        if _TIME_TEXT.fullmatch(cell):
            return (datetime.fromisoformat(cell + "+00:00") - EPOCH) // timedelta(milliseconds=1)
        return field.parse_csv_cell(cell)
    except ValueError:
        allowed = "yyyy-MM-dd HH:mm:ss[.SSS] (UTC) or an integer of ms"
        raise BadRecord(expected_message(field.name, cell, allowed)) from None
