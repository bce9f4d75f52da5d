"""One field of an event: its name, its type, and how its values are read."""

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from lab.model.jsontext import BadRecord, exact_decimal, integer, is_text
from lab.model.words import expected, shown

Value = int | Decimal | str | None

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL_TYPE = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")


@dataclass(frozen=True)
class Field:
    """One field of an event. `type` is `long` (signed 64 bit), `string`, or `decimal(P,S)`.

    A decimal holds at most P digits, S of them after the point; P <= 18, so its minor units fit an int64.

    >>> amount = Field("paymentAmount", "decimal(18,2)", "in the payer's currency")
    >>> amount.parse("21.5"), amount.parse(20), amount.parse(None)
    (Decimal('21.50'), Decimal('20.00'), None)
    >>> amount.parse("21.505")
    Traceback (most recent call last):
    lab.model.jsontext.BadRecord: paymentAmount: "21.505", expected a number with at most 16 digits before the point ...
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
        """Whether SUM, AVG, MIN and MAX can work on it."""
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
            if isinstance(value, str) and is_text(value):
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
        return self.parse(integer(cell) if is_integer else cell)
