"""What an event is: named, typed fields, read exactly from JSON or CSV.

    line of bytes ──► Schema.parse ──► {"transactionId": 1, "paymentAmount": Decimal("21.50"), ...}
                          └──────────► BadRecord: the field, its value and what is allowed

A new kind of event is one more `Schema` at the end of this file; nothing else changes.
"""

import csv
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from difflib import get_close_matches
from functools import cached_property
from html import escape

MAX_LINE_BYTES = 1 << 20
MAX_TIME = 7_289_654_400_000  # 2201-01-01 in ms since the epoch: event times are below it

Value = int | Decimal | str | None

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL_TEXT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DECIMAL_TYPE = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")
_TIME_TEXT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3})?")


class BadRecord(ValueError):
    """A record that cannot be read; its text names the field, the value and what is allowed."""


@dataclass(frozen=True)
class Field:
    """One field of an event. `type` is `long` (signed 64 bit), `string`, or `decimal(P,S)`.

    A decimal holds at most P digits, S of them after the point; P <= 18, so its minor units fit an int64.

    >>> amount = Field("paymentAmount", "decimal(18,2)", "in the payer's currency")
    >>> amount.parse("21.5"), amount.parse(20), amount.parse(None)
    (Decimal('21.50'), Decimal('20.00'), None)
    >>> amount.parse("21.505")
    Traceback (most recent call last):
    lab.model.schema.BadRecord: paymentAmount: "21.505", expected a number with at most 16 digits before the point ...
    """

    name: str
    type: str
    doc: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w.-]+", self.name):
            raise ValueError(f"field name {shown(self.name)}: use letters, digits, '_', '.' and '-'")
        if self.type not in ("long", "string"):
            match = _DECIMAL_TYPE.fullmatch(self.type)
            if not match or not int(match[2]) <= int(match[1]) <= 18 or int(match[1]) == 0:
                allowed = "long, string or decimal(P,S) with 1 <= P <= 18 and S <= P"
                raise ValueError(f"type of {self.name}: {shown(self.type)}, expected {allowed}")

    @cached_property
    def precision(self) -> int:
        return int(_DECIMAL_TYPE.fullmatch(self.type)[1])

    @cached_property
    def scale(self) -> int | None:
        """Digits after the point: S of a decimal, 0 for a long, None for a string."""
        if self.type == "string":
            return None
        return 0 if self.type == "long" else int(_DECIMAL_TYPE.fullmatch(self.type)[2])

    @property
    def numeric(self) -> bool:
        """Whether aggregates can work on its values."""
        return self.type != "string"

    def parse(self, value: object) -> Value:
        """One JSON value (of `read_object`) in this field's type; None stays None. Raises BadRecord."""
        if value is None:
            return None
        if self.type == "long":
            if type(value) is int and -(1 << 63) <= value < 1 << 63:
                return value
            raise BadRecord(expected(self.name, value, "an integer of signed 64 bit"))
        if self.type == "string":
            if isinstance(value, str) and _is_text(value):
                return value
            raise BadRecord(expected(self.name, value, "a string of valid Unicode"))
        number = exact_decimal(value, self.precision, self.scale)
        if number is None:
            whole = self.precision - self.scale
            allowed = f"a number with at most {whole} digits before the point and {self.scale} after it"
            raise BadRecord(expected(self.name, value, allowed))
        return number

    def parse_text(self, cell: str) -> Value:
        """One CSV cell; an empty one is null. Raises BadRecord."""
        if not cell:
            return None
        is_integer = self.type == "long" and _INTEGER.fullmatch(cell)
        return self.parse(_integer(cell) if is_integer else cell)


@dataclass(frozen=True)
class Schema:
    """The fields of one kind of event, in CSV order, and which of them are its id and its time.

    PAYMENTS is `com.ververica.field.dynamicrules.Transaction` of the Flink demo.

    >>> event = PAYMENTS.parse(b"1,2013-01-01 00:00:00,1001,1002,CSH,21.5,1")
    >>> event["eventTime"], event["paymentAmount"]
    (1356998400000, Decimal('21.50'))
    >>> LOGINS.parse(b'{"eventId": 1, "eventTime": 1356998400000, "userId": "7"}')
    Traceback (most recent call last):
    lab.model.schema.BadRecord: userId: "7", expected an integer of signed 64 bit
    """

    name: str
    fields: tuple[Field, ...]
    id_field: str
    time_field: str

    def __post_init__(self) -> None:
        if len(self._by_name) < len(self.fields):
            raise ValueError(f"schema {self.name}: two fields have the same name: {', '.join(self.names)}")
        for name in (self.id_field, self.time_field):
            if self.field(name).type != "long":
                raise ValueError(f"{self.name}: {name} is the id or the time, so it must be a long")

    @cached_property
    def _by_name(self) -> dict[str, Field]:
        return {field.name: field for field in self.fields}

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def field(self, name: str) -> Field:
        """The field of that name; raises ValueError naming the fields there are."""
        if name not in self._by_name:
            raise ValueError(unknown(f"{self.name} field", name, self.names))
        return self._by_name[name]

    def parse(self, line: bytes) -> dict[str, Value]:
        """One JSON object, or one CSV line in the order of `fields`, as {field: value}. Raises BadRecord.

        The id and the time (ms since the epoch) are required, all else may be absent: None.
        """
        text = read_text(line, "line", MAX_LINE_BYTES)
        if is_object(text):
            values = read_object(text)
            event = {field.name: field.parse(values.get(field.name)) for field in self.fields}
        else:
            event = self._parse_csv(text)
        if event[self.id_field] is None:
            raise BadRecord(expected(self.id_field, None, "the id of the event, an integer"))
        time = event[self.time_field]
        if time is None or not 0 <= time < MAX_TIME:
            allowed = f"the event time, 0 to {MAX_TIME - 1} ms since the epoch (1970 to 2200)"
            raise BadRecord(expected(self.time_field, time, allowed))
        return event

    def _parse_csv(self, text: str) -> dict[str, Value]:
        try:
            rows = list(csv.reader([text]))
        except csv.Error as error:
            raise BadRecord(f"not a CSV line: {error}") from None
        cells = rows[0] if rows else []
        if len(cells) > len(self.fields):
            raise BadRecord(f"{len(cells)} cells, at most {len(self.fields)}: {','.join(self.names)}")
        cells += [""] * (len(self.fields) - len(cells))
        return {
            field.name: _parse_time(field, cell) if field.name == self.time_field else field.parse_text(cell)
            for field, cell in zip(self.fields, cells, strict=True)
        }

    def _repr_html_(self) -> str:
        roles = {self.id_field: "id", self.time_field: "event time"}
        rows = [(field.name, field.type, roles.get(field.name, ""), field.doc) for field in self.fields]
        return html_table(("field", "type", "role", "meaning"), rows)


def _parse_time(field: Field, cell: str) -> Value:
    """`yyyy-MM-dd HH:mm:ss[.SSS]` in UTC, or an integer, as ms since the epoch."""
    try:
        if _TIME_TEXT.fullmatch(cell):
            return (datetime.fromisoformat(cell + "+00:00") - _EPOCH) // timedelta(milliseconds=1)
        return field.parse_text(cell)
    except ValueError:
        allowed = "yyyy-MM-dd HH:mm:ss[.SSS] (UTC) or an integer of ms"
        raise BadRecord(expected(field.name, cell, allowed)) from None


# Reading text, JSON and numbers exactly


def read_text(raw: bytes, what: str, at_most: int) -> str:
    """The bytes as text, without a byte order mark; raises BadRecord when too long or not UTF-8."""
    if len(raw) > at_most:
        raise BadRecord(f"{what} of {len(raw)} bytes, at most {at_most} are allowed")
    try:
        return raw.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise BadRecord(f"not UTF-8: byte 0x{raw[error.start]:02x} at offset {error.start}") from None


def is_object(text: str) -> bool:
    """Whether the text is meant as a JSON object: its first character that is not blank is `{`."""
    return text.lstrip(" \t\r\n").startswith("{")


def read_object(text: str) -> dict[str, object]:
    """The text as exactly one JSON object, its numbers int or Decimal, never float. Raises BadRecord."""
    try:
        return json.loads(text, parse_int=_integer, parse_float=_decimal, parse_constant=_not_json)
    except json.JSONDecodeError as error:
        raise BadRecord(f"not one JSON object: {error}") from None
    except RecursionError:
        raise BadRecord("not readable: JSON nested too deeply") from None


def exact_decimal(value: object, precision: int, scale: int) -> Decimal | None:
    """An int, a Decimal or a number in text as a Decimal of exactly `scale` digits after the point.

    None when it is none of these, or does not fit `precision` digits unrounded. Huge exponents cost nothing.

    >>> exact_decimal(Decimal("2e1"), 18, 2), exact_decimal("0.005", 18, 2)
    (Decimal('20.00'), None)
    """
    is_number = type(value) is int or (isinstance(value, Decimal) and value.is_finite())
    if not is_number and not (isinstance(value, str) and _DECIMAL_TEXT.fullmatch(value)):
        return None
    try:
        context = Context(prec=precision, traps=[InvalidOperation, Inexact])
        number = context.quantize(Decimal(value), Decimal(1).scaleb(-scale))
    except (InvalidOperation, Inexact):
        return None
    return number or abs(number)  # -0 becomes 0


def _integer(literal: str) -> int | Decimal:
    """An integer literal; past 40 digits it stays a Decimal, as a million digits take int() half a minute."""
    number = Decimal(literal)
    return int(number) if number.adjusted() < 40 else number


def _decimal(literal: str) -> Decimal | bytes:
    """A number with a fraction or exponent; bytes, which no field takes, when even Decimal cannot hold it."""
    try:
        return Decimal(literal)
    except InvalidOperation:
        return literal.encode()


def _not_json(literal: str) -> None:
    raise BadRecord(f"not one JSON object: {literal} is not a JSON number")


def _is_text(text: str) -> bool:
    """Whether it can be written as UTF-8; a lone surrogate cannot."""
    try:
        return text.encode() is not None
    except UnicodeEncodeError:
        return False


# Saying what is wrong, showing what there is


def expected(name: str, value: object, allowed: str) -> str:
    """The text of an error: what is wrong where, and what is allowed there."""
    return f"{name}: {'nothing' if value is None else shown(value)}, expected {allowed}"


def shown(value: object) -> str:
    """A value as it reads in JSON, cut to 60 characters."""
    match value:
        case dict():
            return "an object"
        case list() | tuple():
            return "a list" if value else "an empty list"
        case str() | bool() | None:
            text = json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode()
        case int():
            text = str(Decimal(value))  # str(int) refuses thousands of digits
        case _:
            text = str(value)
    return text if len(text) <= 60 else text[:59] + "…"


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The text of an error about a name: the closest known one, then all of them."""
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(name[:100].lower(), by_lower, n=1)
    guess = f", did you mean {by_lower[close[0]]}?" if close else ""
    return f"unknown {what} {shown(name)}{guess} (known: {', '.join(by_lower.values())})"


def plain(value: Value) -> str:
    """A value as text; a decimal without an exponent."""
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def html_table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A small HTML table for notebooks, every cell escaped."""
    head = "".join(f"<th>{escape(str(cell))}</th>" for cell in header)
    cells = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


PAYMENTS = Schema(
    "payments",
    (
        Field("transactionId", "long"),
        Field("eventTime", "long", "ms since the epoch"),
        Field("payeeId", "long", "who pays"),
        Field("beneficiaryId", "long", "who is paid"),
        Field("paymentType", "string", "CSH (cash) or CRD (card)"),
        Field("paymentAmount", "decimal(18,2)"),
        Field("ingestionTimestamp", "long", "ms since the epoch"),
    ),
    id_field="transactionId",
    time_field="eventTime",
)
LOGINS = Schema(
    "logins",
    (
        Field("eventId", "long"),
        Field("eventTime", "long", "ms since the epoch"),
        Field("userId", "long"),
        Field("action", "string", "login, login_failed, password_reset, payment, ..."),
        Field("ip", "string"),
        Field("device", "string"),
        Field("country", "string", "two letters, such as KR"),
        Field("amount", "decimal(18,2)", "of a payment"),
    ),
    id_field="eventId",
    time_field="eventTime",
)
FLIGHTS = Schema(
    "flights",
    (
        Field("flightId", "long"),
        Field("eventTime", "long", "actual departure, ms since the epoch"),
        Field("carrier", "string"),
        Field("flight", "long", "flight number"),
        Field("tailnum", "string"),
        Field("origin", "string"),
        Field("dest", "string"),
        Field("departureDelay", "decimal(9,2)", "minutes, negative: early"),
        Field("arrivalDelay", "decimal(9,2)", "minutes, negative: early"),
        Field("airTime", "decimal(9,2)", "minutes"),
        Field("distance", "long", "miles"),
    ),
    id_field="flightId",
    time_field="eventTime",
)
SCHEMAS: dict[str, Schema] = {schema.name: schema for schema in (PAYMENTS, LOGINS, FLIGHTS)}
