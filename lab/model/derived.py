"""Fields that a schema derives from each record: how an expression is read and typed, and its exact value.

    left = "oldbalance - amount"    ──►    Call("-", (Name("oldbalance"), Name("amount")))    ──►    its value of each event

sum: product {("+" | "-") product}          product: term {("*" | "%") term}
term: "(" sum ")" | function "(" sum {"," sum} ")" | field | number | "text"

The reader, the value of one event, that of columns (`lab.engine.records.derived`), refusals and the table in docs/own-events.md
take a function from its row in FUNCTIONS; nothing that stands in a schema is executed. Here values are as columns have them:
a decimal is an integer in units of its last digit, a time is in ms.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from lab.model.conditions import Token, TokenReader, quote_text
from lab.model.distance import DEGREE, QUARTER, metres_between, pack_place
from lab.model.field import MAX_TEXT, Field, Value
from lab.model.formatting import expected_message, unknown_name_message
from lab.model.jsontext import BadRecord
from lab.model.times import DAY_MS, EPOCH, check_zone, offset_ms
from lab.model.when import SHOWS, LocalTimePart

# derived fields of a schema; characters of one expression; brackets in brackets; values that a function takes
MAX_DERIVED, MAX_CHARACTERS, MAX_BRACKETS, MAX_ARGUMENTS = 32, 500, 10, 8
MAX_DIGITS = 18  # of a decimal
MAX_LEGS, MAX_ID_PART = 8, 32
NAME_OF_LEG = re.compile(rf"[A-Za-z0-9_]{{1,{MAX_ID_PART}}}")
FIRST_DAY = EPOCH.toordinal()

Stored = int | str


# -- expressions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Name:
    """A field of the event. `is_time`: also of the event time, whose type may be long."""

    name: str
    type: str
    is_time: bool


@dataclass(frozen=True)
class Constant:
    """A number or a text that stands in the expression."""

    value: Stored
    type: str


@dataclass(frozen=True)
class Call:
    """A function, or a sign between two values, with its arguments; `type` is that of a field."""

    function: str
    arguments: tuple["Expression", ...]
    type: str


Expression = Name | Constant | Call


@dataclass(frozen=True)
class Derivation:
    """A derived field and what it is derived from."""

    field: Field
    expression: Expression


@lru_cache(maxsize=1_000)
def scale_of(type: str) -> int:
    """Digits after the point of a number of this type."""
    return Field("number", type, unit="ms").scale


@lru_cache(maxsize=1_000)
def factors(call: Call) -> tuple[int, ...]:
    """What arguments are multiplied by so that all have as many digits after the point as the one that has most."""
    scales = [scale_of(each.type) for each in call.arguments]
    return tuple(10 ** (max(scales) - scale) for scale in scales)


def names_in(expression: Expression) -> Iterator[str]:
    """The fields that an expression looks at."""
    if isinstance(expression, Name):
        yield expression.name
    elif isinstance(expression, Call):
        for each in expression.arguments:
            yield from names_in(each)


def expression_text(expression: Expression) -> str:
    """The expression in words, the same for equal expressions; it reads back."""
    match expression:
        case Name(name):
            return name
        case Constant(value, type):
            return quote_text(value) if isinstance(value, str) else _plain(value, type)
        case Call(function, arguments):
            texts = [expression_text(each) for each in arguments]
            if function not in SIGNS:
                return f"{function}({', '.join(texts)})"
            is_sign = [isinstance(each, Call) and each.function in SIGNS for each in arguments]
            return f" {function} ".join(
                f"({text})" if sign else text for text, sign in zip(texts, is_sign, strict=True)
            )


def _plain(value: int, type: str) -> str:
    """A number as text, with all digits that its type has after the point."""
    scale = scale_of(type)
    digits = str(abs(value)).rjust(scale + 1, "0")
    point = len(digits) - scale
    return f"{'-' * (value < 0)}{digits[:point]}{'.' * (scale > 0)}{digits[point:]}"


# -- values ------------------------------------------------------------------------------------------------------------


class OutOfRange(ValueError):
    """A value does not fit its type: `str` is the value and what is allowed."""


def most_of(type: str) -> int:
    """The largest value of a type of numbers, as columns have it."""
    return 10**MAX_DIGITS - 1 if type.startswith("decimal") else (1 << 63) - 1


def check_range(call: Call, value: Any) -> Any:
    """The value of a call if it fits its type. Raises OutOfRange."""
    if isinstance(value, int):
        most = most_of(call.type)
        if not -most - (call.type == "long") <= value <= most:
            allowed = "an integer of signed 64 bit" if call.type == "long" else f"{MAX_DIGITS} digits"
            raise OutOfRange(f"{_plain(value, call.type)}, expected {allowed}")
    elif isinstance(value, str) and len(value) > MAX_TEXT:
        raise OutOfRange(f"a text of {len(value):,} characters, expected at most {MAX_TEXT:,}")
    return value


def stored_value(expression: Expression, values: Mapping[str, Stored | None]) -> Stored | None:
    """The value of an expression, exactly; null if it needs a value that is null. Raises OutOfRange if any step does not fit its type."""
    match expression:
        case Name(name):
            return values[name]
        case Constant(value):
            return value
    return call_value(expression, [stored_value(each, values) for each in expression.arguments])


def call_value(call: Call, arguments: Sequence[Stored | None]) -> Stored | None:
    """The value of a call, from those of its arguments. Raises OutOfRange."""
    function = FUNCTIONS[call.function]
    if None in arguments and not function.takes_null:
        return None
    values: list[Any] = list(arguments)
    if function.takes == "aligned" and call.type not in ("string", "boolean"):
        values = [
            each if each is None else each * factor
            for each, factor in zip(values, factors(call), strict=True)
        ]
    elif function.takes == "texts":
        values = [
            each if isinstance(each, str) else _plain(each, of.type)
            for each, of in zip(values, call.arguments, strict=True)
        ]
    elif function.takes == "angles":
        values = [
            round(Fraction(each * DEGREE, 10 ** scale_of(of.type)))
            for each, of in zip(values, call.arguments, strict=True)
        ]
    return check_range(call, function.compute(*values))


def derive(event: dict[str, Any], derivations: tuple[Derivation, ...]) -> None:
    """Adds its derived fields to an event. Raises BadRecord if one cannot be computed: it is never null for that, and never another value."""
    stored: dict[str, Stored | None] = {name: stored_form(value) for name, value in event.items()}
    for each in derivations:
        try:
            stored[each.field.name] = stored_value(each.expression, stored)
        except OutOfRange as error:
            text = expression_text(each.expression)
            raise BadRecord(f"{each.field.name}: {error} as the value of {text}") from None
        value = stored[each.field.name]
        is_decimal = isinstance(value, int) and each.field.is_decimal
        # a decimal has at most 18 digits, so this is exact
        event[each.field.name] = Decimal(value or 0).scaleb(-each.field.scale) if is_decimal else value


def stored_form(value: Value) -> Stored | None:
    """A value of an event as columns have it: a decimal in units of its last digit."""
    return int(value.scaleb(-int(value.as_tuple().exponent))) if isinstance(value, Decimal) else value


# -- functions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Function:
    """A function, or a sign between two values.

    `parameters`: words of PARAMETERS; the last one may be repeated up to `most` arguments. `least`: how many there must be.
    `type`: the type of its value, or what tells it from the arguments, and raises ValueError if they do not go together.
    `compute`: its value; no argument is null, unless it `takes_null`. `takes`: numbers as "stored", "aligned" to equally many digits
    after the point, as "angles" in units of `lab.model.distance`, or as "texts". `of_local`: of a clock, what it shows as an integer where local time is so far, in ms; also of an
    array. `bound`: how large its value can be if the two arguments are so large; with it, `compute` also takes arrays. `example`, `of`, `gives`, `meaning`: a row of the documentation's table.
    """

    name: str
    parameters: tuple[str, ...]
    type: str | Callable[[tuple[Expression, ...]], str]
    compute: Callable[..., Any]
    example: str
    of: Mapping[str, str]
    gives: str
    meaning: str
    least: int = 2
    most: int = 2
    takes: str = "stored"
    takes_null: bool = False
    bound: Callable[[int, int], int] | None = None
    of_local: Callable[[Any], Any] | None = None


def is_number(expression: Expression) -> bool:
    return expression.type == "long" or expression.type.startswith("decimal")


def is_place(expression: Expression) -> bool:
    """Whether it is what the function `place` gives."""
    return isinstance(expression, Call) and expression.function == "place"


def is_time(expression: Expression) -> bool:
    """Whether an expression is a time, as are fields of that type and the event time."""
    return expression.type == "time" or isinstance(expression, Name) and expression.is_time


def _is_zone(expression: Expression) -> bool:
    if not _is_part(expression):
        return False
    check_zone(str(expression.value))  # type: ignore[union-attr]
    return True


def _is_part(expression: Expression) -> bool:
    return isinstance(expression, Constant) and isinstance(expression.value, str) and expression.value != ""


def _is_divisor(expression: Expression) -> bool:
    return isinstance(expression, Constant) and isinstance(expression.value, int) and expression.value > 0


# what an argument must be -> whether it is, which may raise ValueError for a reason of its own
PARAMETERS: dict[str, Callable[[Expression], bool]] = {
    "a time": is_time,
    'a zone such as "Europe/Berlin"': _is_zone,
    "a text": lambda each: each.type in ("string", "boolean"),
    'a text in quotes, such as "@"': _is_part,
    "a number": is_number,
    "a number or a time": lambda each: is_number(each) or is_time(each),
    "a number above 0, not a field": _is_divisor,
    "an integer or a text": lambda each: each.type in ("long", "string", "boolean"),
    "a value": lambda each: True,
    "a value that is no time": lambda each: each.type != "time",
}
TIME, ZONE, TEXT, PART, NUMBER, NUMBER_OR_TIME, DIVISOR, KEY, ANY, NO_TIME = PARAMETERS


def _widest(arguments: tuple[Expression, ...]) -> str:
    """The type of numbers with as many digits after the point as the argument that has most."""
    if all(each.type == "long" for each in arguments):
        return "long"
    return f"decimal({MAX_DIGITS},{max(scale_of(each.type) for each in arguments)})"


def _of_product(arguments: tuple[Expression, ...]) -> str:
    scale = sum(scale_of(each.type) for each in arguments)
    if scale > MAX_DIGITS:
        raise ValueError(f"a product of {scale} digits after the point, expected at most {MAX_DIGITS}")
    return "long" if all(each.type == "long" for each in arguments) else f"decimal({MAX_DIGITS},{scale})"


def _of_sum(arguments: tuple[Expression, ...]) -> str:
    if any(each.type == "time" for each in arguments):
        raise ValueError("times are not added: expected numbers, or one time - another time")
    return _widest(arguments)


def _of_difference(arguments: tuple[Expression, ...]) -> str:
    if any(each.type == "time" for each in arguments):
        if not all(map(is_time, arguments)):
            raise ValueError(
                "a time and a number: expected two times, whose difference is in ms, or two numbers"
            )
        return "long"
    return _widest(arguments)


def _of_values(arguments: tuple[Expression, ...]) -> str:
    """The type of one of several values."""
    types = {each.type for each in arguments}
    if len(types) == 1:
        return types.pop()
    if types == {"string", "boolean"}:
        return "string"
    if all(map(is_time, arguments)):
        return "time"
    if all(map(is_number, arguments)):
        return _widest(arguments)
    raise ValueError(f"expected values of one type, not {', '.join(sorted(types))}")


def _of_sorted(arguments: tuple[Expression, ...]) -> str:
    if len({each.type == "long" for each in arguments}) > 1:
        raise ValueError("expected integers or texts, not both")
    return "string"


def _sorted_text(*values: Stored) -> str:
    return json.dumps(sorted(values), ensure_ascii=False, separators=(",", ":"))


def _after(text: str, part: str) -> str | None:
    _, found, rest = text.partition(part)
    return rest if found else None


def _before(text: str, part: str) -> str | None:
    rest, found, _ = text.partition(part)
    return rest if found else None


def _day(local_ms: Any) -> Any:
    return local_ms // DAY_MS


def date_text(day: int) -> str:
    """A day since 1970 as text. Raises OutOfRange for one beyond the years that have dates.

    >>> date_text(19_844)
    '2024-05-01'
    """
    try:
        return date.fromordinal(FIRST_DAY + day).isoformat()
    except (ValueError, OverflowError):
        raise OutOfRange(f"a day {day:,} days from 1970, expected the years 1 to 9999") from None


def _place(latitude: int, longitude: int) -> int:
    for angle, most, name in ((latitude, QUARTER, "latitude"), (longitude, 2 * QUARTER, "longitude")):
        if abs(angle) > most:
            degrees = f"{Decimal(angle) / DEGREE:f}"
            raise OutOfRange(f"{name} {degrees}, expected one from -{most // DEGREE} to {most // DEGREE}")
    return pack_place(latitude, longitude)


def _distance(*angles: int) -> int:
    return metres_between(_place(*angles[:2]), _place(*angles[2:]))


def _clock(name: str, of_local: Callable[[Any], Any], type: str, **more: Any) -> Function:
    """A function of what clocks in a zone show."""

    def compute(time: int, zone: str = "UTC") -> Stored:
        shown = of_local(time + offset_ms(zone, time))
        return date_text(shown) if type == "string" else shown

    return Function(name, (TIME, ZONE), type, compute, least=1, of_local=of_local, **more)


_HOUR, _WEEKDAY = (LocalTimePart(part).value_at_local for part in SHOWS)
_T = {"ts": "2024-05-01T22:30:00Z"}
_SEVERAL = MAX_ARGUMENTS
FUNCTIONS = {
    function.name: function
    for function in (
        Function(
            *("+", (NUMBER,), _of_sum, operator.add),
            *("amount + fee", {"amount": "21.50", "fee": "1"}, "22.50"),
            *("the sum of two numbers",),
            takes="aligned",
            bound=operator.add,
        ),
        Function(
            *("-", (NUMBER_OR_TIME,), _of_difference, operator.sub),
            *("ts - created", {"ts": "2024-05-01T22:30:00Z", "created": "2024-05-01T22:29:00Z"}, "60000"),
            *("the difference of two numbers; of two times, in ms",),
            takes="aligned",
            bound=operator.add,
        ),
        Function(
            *("*", (NUMBER,), _of_product, operator.mul),
            *("price * quantity", {"price": "2.50", "quantity": "3"}, "7.50"),
            *("the product of two numbers, with all its digits after the point",),
            bound=operator.mul,
        ),
        Function(
            *("%", (NUMBER, DIVISOR), _widest, operator.mod),
            *("amount % 1000", {"amount": "2500.50"}, "500.50"),
            *("what is left when as many whole 1000 as possible are taken away; it is never negative",),
            takes="aligned",
            bound=lambda value, divisor: divisor,
        ),
        _clock(
            *("date", _day, "string"),
            example='date(ts, "Europe/Berlin")',
            of=_T,
            gives="2024-05-02",
            meaning="the day that clocks in a zone show; without a zone, in UTC",
        ),
        _clock(
            *("hour", _HOUR, "long"),
            example='hour(ts, "Europe/Berlin")',
            of=_T,
            gives="0",
            meaning="their hour, 0 to 23",
        ),
        _clock(
            *("weekday", _WEEKDAY, "long"),
            example='weekday(ts, "Europe/Berlin")',
            of=_T,
            gives="4",
            meaning="their day of the week, 1 (Monday) to 7",
        ),
        Function(
            *("sorted", (KEY,), _of_sorted, _sorted_text),
            *("sorted(giver, taker)", {"giver": "kim", "taker": "ann"}, '["ann","kim"]'),
            *("2 to 8 texts or integers as a JSON list, the smallest first: the same in either order",),
            most=_SEVERAL,
        ),
        Function(
            *("concat", (NO_TIME,), "string", lambda *texts: "".join(texts)),
            *('concat(country, "-", branch)', {"country": "KR", "branch": "7"}, "KR-7"),
            *("2 to 8 values as one text",),
            most=_SEVERAL,
            takes="texts",
        ),
        Function(
            *("after", (TEXT, PART), "string", _after),
            *('after(email, "@")', {"email": "Ann@Example.com"}, "Example.com"),
            *("what comes after the first `@`; null if there is none",),
        ),
        Function(
            *("before", (TEXT, PART), "string", _before),
            *('before(email, "@")', {"email": "Ann@Example.com"}, "Ann"),
            *("what comes before the first `@`; null if there is none",),
        ),
        Function(
            *("lower", (TEXT,), "string", str.lower),
            *("lower(email)", {"email": "Ann@Example.com"}, "ann@example.com"),
            *("the text in small letters",),
            least=1,
            most=1,
        ),
        Function(
            *("length", (TEXT,), "long", len),
            *("length(email)", {"email": "Ann@Example.com"}, "15"),
            *("the number of its characters",),
            least=1,
            most=1,
        ),
        Function(
            *(
                "coalesce",
                (ANY,),
                _of_values,
                lambda *values: next((v for v in values if v is not None), None),
            ),
            *('coalesce(country, "none")', {}, "none"),
            *("the first of 2 to 8 values that is not null",),
            most=_SEVERAL,
            takes="aligned",
            takes_null=True,
        ),
        Function(
            *("place", (NUMBER,), "long", _place),
            *("place(lat, lon)", {"lat": "52.52", "lon": "13.405"}, "5130720003359250000"),
            *("a latitude and a longitude in degrees as one integer, for `DISTANCE` in rules",),
            takes="angles",
        ),
        Function(
            *("distance", (NUMBER,), "long", _distance),
            *("distance(lat, lon, 53.55, 9.993)", {"lat": "52.52", "lon": "13.405"}, "255240"),
            *("whole metres between two places, given as latitude, longitude, latitude, longitude",),
            least=4,
            most=4,
            takes="angles",
        ),
    )
}
SIGNS = tuple(name for name in FUNCTIONS if not name.isalpha())
OTHER_SIGNS = {"−": "-", "–": "-", "×": "*", "·": "*"}


def markdown_rows() -> list[str]:
    """The rows of the table in docs/own-events.md."""
    return [
        f"| `{each.example}` | {', '.join(f'{name} {value}' for name, value in each.of.items()) or 'no country'} | {each.gives} | {each.meaning} |"
        for each in FUNCTIONS.values()
    ]


# -- reading -----------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"[+-]?([0-9]+)(?:\.([0-9]+))?")


class ExpressionReader(TokenReader):
    """Reads an expression from left to right, each token once."""

    def __init__(self, text: str, fields: Mapping[str, Field], time_field: str, below: tuple[str, ...]):
        super().__init__(text)
        self._fields, self._time_field, self._below = fields, time_field, below
        self._brackets = 0

    def read(self) -> Expression:
        """The whole text as one expression. Raises BadConditions."""
        if len(self.text) > MAX_CHARACTERS:
            raise self.error_at(
                f"{len(self.text):,} characters, expected at most {MAX_CHARACTERS}", self.tokens[-1]
            )
        expression = self._sum()
        if self.upcoming_token.kind != "end":
            self._refuse_rest()
        if not any(names_in(expression)):
            raise self.error_at("the same for every record: expected the name of a field", self.tokens[0])
        return expression

    def _sum(self) -> Expression:
        return self._signs(("+", "-"), lambda: self._signs(("*", "%"), self._term))

    def _signs(self, signs: tuple[str, ...], part: Callable[[], Expression]) -> Expression:
        expression = part()
        while self.upcoming_token.is_word(*signs):
            sign = self.take_token()
            expression = self._call(sign, (expression, part()))
        return expression

    def _term(self) -> Expression:
        token = self.take_token()
        if token.is_sign("("):
            inner = self._bracketed(token, self._sum)
            self._close(token)
            return inner
        if token.kind == "quoted":
            return Constant(token.text, "string")
        if token.kind != "word" or token.text in SIGNS:
            raise self.error_at("expected a field, a number, a text in quotes or a function", token)
        if self.upcoming_token.is_sign("("):
            return self._function(token)
        if number := _NUMBER.fullmatch(token.text):
            return self._number(token, number)
        if field := self._fields.get(token.text):
            is_time = field.type == "time" or field.name == self._time_field
            return Name(field.name, field.type, is_time)
        raise self._unknown(token)

    def _bracketed(self, token: Token, inside: Callable[[], Any]) -> Any:
        self._brackets += 1
        if self._brackets > MAX_BRACKETS:
            raise self.error_at(f"expected at most {MAX_BRACKETS} brackets in brackets", token)
        found = inside()
        self._brackets -= 1
        return found

    def _close(self, opened: Token) -> None:
        if self.upcoming_token.kind == "end":
            raise self.error_at("this bracket is not closed", opened)
        if not self.upcoming_token.is_sign(")"):
            self._refuse_rest()
        self.take_token()

    def _function(self, name: Token) -> Expression:
        known = [each for each in FUNCTIONS if each not in SIGNS]
        if name.text.lower() not in known:
            raise self.error_at(unknown_name_message("function", name.text, known), name)
        opened = self.take_token()
        arguments = self._bracketed(opened, self._arguments)
        self._close(opened)
        return self._call(name, arguments)

    def _arguments(self) -> tuple[Expression, ...]:
        arguments = [self._sum()]
        while self.upcoming_token.is_sign(","):
            if self.is_comma_before_digits() and isinstance(arguments[-1], Constant):
                raise self.error_at("a number has no commas, and a point before decimals")
            self.take_token()
            arguments.append(self._sum())
        return tuple(arguments)

    def _call(self, name: Token, arguments: tuple[Expression, ...]) -> Call | Constant:
        function = FUNCTIONS[name.text.lower()]
        if not function.least <= len(arguments) <= function.most:
            counts = " to ".join(map(str, sorted({function.least, function.most})))
            allowed = f"{counts} value{'s' * (function.most > 1)} in brackets, such as {function.example}"
            raise self.error_at(f"{function.name} has {len(arguments)}, expected {allowed}", name)
        try:
            for place, argument in enumerate(arguments):
                parameter = function.parameters[min(place, len(function.parameters) - 1)]
                if not PARAMETERS[parameter](argument):
                    given = f"{expression_text(argument)} is of type {argument.type}"
                    raise ValueError(f"{given}, expected {parameter}: {function.example}")
            type = function.type if isinstance(function.type, str) else function.type(arguments)
        except ValueError as error:
            raise self.error_at(str(error), name) from None
        call = Call(function.name, arguments, type)
        return call if any(names_in(call)) else self._constant(name, call)

    def _constant(self, name: Token, call: Call) -> Constant:
        """The value of a call without a field, which is the same for every record."""
        try:
            value = call_value(call, [each.value for each in call.arguments if isinstance(each, Constant)])
        except OutOfRange as error:
            raise self.error_at(str(error), name) from None
        if value is None:
            raise self.error_at("null for every record", name)
        return Constant(value, call.type)

    def _number(self, token: Token, number: re.Match) -> Constant:
        whole, part = number[1], number[2] or ""
        if len(whole + part) > MAX_DIGITS:
            raise self.error_at(f"expected a number of at most {MAX_DIGITS} digits", token)
        value = int(whole + part) * (-1 if token.text[0] == "-" else 1)
        return Constant(value, f"decimal({MAX_DIGITS},{len(part)})" if part else "long")

    def _unknown(self, token: Token) -> Exception:
        """Why a word is no field, and what was probably meant."""
        text = token.text
        if text in self._below:
            return self.error_at(f"{text} stands below: a derived field sees only those above it", token)
        if text.lower() in FUNCTIONS:
            return self.error_at(f"write {FUNCTIONS[text.lower()].example}", token)
        parts = re.split(r"([-+*%/])", text)
        if len(parts) > 2 and all(part in self._fields or _NUMBER.fullmatch(part) for part in parts[::2]):
            return self.error_at(f"a sign stands between blanks: write {' '.join(parts)}", token)
        return self.error_at(unknown_name_message("field", text, self._fields), token)

    def _refuse_rest(self) -> None:
        """Says what is wrong with the token after a complete expression."""
        token = self.upcoming_token
        if token.text in ("/", "÷", "//"):
            raise self.error_at("there is no division, as it is not exact: compare with a multiple instead")
        if token.text in OTHER_SIGNS:
            raise self.error_at(f"write {OTHER_SIGNS[token.text]}")
        if token.is_sign(")"):
            raise self.error_at("no bracket is open here")
        if token.kind == "word" and token.text[0] in "+-*%":
            raise self.error_at(f"a sign stands between blanks: write {token.text[0]} {token.text[1:]}")
        if token.kind == "word" and token.is_word("and", "or", "if", "when"):
            raise self.error_at("a condition belongs into a rule; a derived field is a value")
        raise self.error_at(f"expected one of {' '.join(SIGNS)} between two values")


@dataclass(frozen=True)
class Leg:
    """One of the events that each record is, for a role that it has in it: its name and its own fields."""

    name: str
    derivations: tuple[Derivation, ...]


LEG = "leg"  # the field that says which leg an event is


def read_legs(
    legs: tuple[tuple[str, tuple[tuple[str, str], ...]], ...], fields: tuple[Field, ...], time_field: str
) -> tuple[Leg, ...]:
    """The legs of a schema. `fields`: those that each leg sees, also derived ones. Raises ValueError.

    >>> of = (Field("payer", "string"), Field("payee", "string"), Field("at", "long"))
    >>> [leg.name for leg in read_legs((("out", (("account", "payer"),)), ("in", (("account", "payee"),))), of, "at")]
    ['out', 'in']
    >>> read_legs((("out", (("account", "payer"),)), ("in", (("account", "at"),))), of, "at")
    Traceback (most recent call last):
    ValueError: legs.in.account: a long, in legs.out it is a string: expected one type
    """
    if legs and not 2 <= len(legs) <= MAX_LEGS:
        raise ValueError(expected_message("legs", len(legs), f"2 to {MAX_LEGS} legs"))
    if legs and LEG in {field.name for field in fields}:
        raise ValueError(f"there is a field {LEG} already, which says of an event which leg it is")
    found: list[Leg] = []
    for name, derived in legs:
        if not NAME_OF_LEG.fullmatch(name):
            raise ValueError(
                f"legs.{name}: expected letters, digits and _ as the name of a leg, at most {MAX_ID_PART}"
            )
        leg = Leg(name, read_derivations(derived, fields, time_field, f"legs.{name}"))
        _check_alike(leg, found[0] if found else leg)
        found.append(leg)
    return tuple(found)


def _check_alike(leg: Leg, first: Leg) -> None:
    """Raises ValueError unless both legs have the same fields."""
    names, of_first = ([each.field.name for each in of.derivations] for of in (leg, first))
    if not names:
        raise ValueError(f"legs.{leg.name}: no field, expected one or more, such as account")
    if names != of_first:
        allowed = f"the fields {', '.join(of_first)}, as legs.{first.name}"
        raise ValueError(expected_message(f"legs.{leg.name}", ", ".join(names), allowed))
    for mine, other in zip(leg.derivations, first.derivations, strict=True):
        if mine.field.type != other.field.type:
            raise ValueError(
                f"legs.{leg.name}.{mine.field.name}: a {mine.field.type}, in legs.{first.name} it is a {other.field.type}: expected one type"
            )


def read_derivations(
    derived: tuple[tuple[str, str], ...], fields: tuple[Field, ...], time_field: str, table: str = "derived"
) -> tuple[Derivation, ...]:
    """The derived fields of a schema, in their order: each sees the fields of the record and the derived ones above it.

    Raises ValueError, which names the derived field and says what is wrong, where, and what would be right.

    >>> of = (Field("email", "string"), Field("at", "long"))
    >>> [each.field.type for each in read_derivations((("domain", 'after(email, "@")'), ("size", "length(domain)")), of, "at")]
    ['string', 'long']
    >>> read_derivations((("next", "at+1"),), of, "at")
    Traceback (most recent call last):
    ValueError: derived.next: a sign stands between blanks: write at + 1 (at "at+1", character 1)
    """
    if len(derived) > MAX_DERIVED:
        raise ValueError(expected_message(table, len(derived), f"at most {MAX_DERIVED} derived fields"))
    known = {field.name: field for field in fields}
    derivations = []
    for place, (name, text) in enumerate(derived):
        try:
            if name in known:
                raise ValueError("there is a field of this name already")
            below = tuple(name for name, _ in derived[place:])
            expression = ExpressionReader(text, known, time_field, below).read()
            # the unit of a time is that of the value; of other types there is none
            unit = "ms" * (expression.type == "time")
            known[name] = Field(name, expression.type, expression_text(expression), unit=unit)
        except ValueError as error:
            raise ValueError(f"{table}.{name}: {error}") from None
        derivations.append(Derivation(known[name], expression))
    return tuple(derivations)
