"""`when`: a condition on an event itself, read into a small tree and evaluated on one event at a time.

    amount > 500 and ip in 10.0.0.0/8   ──parse_when──►   AllOf((Comparison("amount", ">", 500), Comparison("ip", "in", (…,))))
                                         ◄──when_text──

any:   all {"or" all}            all: term {"and" term}            term: "(" any ")" | comparison
comparison:  field ("=" | "!=" | "<" | "<=" | ">" | ">=") (value | field)     field ["not"] "startsWith" value
             field ["not"] "in" (network | "(" value {"," value} ")")         field "is" ["not"] "null"

A comparison with null is false, whichever it is, and nothing negates a whole condition: so null never passes by accident.
"""

import json
import operator as compare
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, NoReturn

from lab.model.conditions import BadConditions, Reader, Token, value_of, written
from lab.model.field import Field, Value
from lab.model.schema import Schema
from lab.model.words import plain, visible

MAX_COMPARISONS, MAX_BRACKETS, MAX_VALUES = (
    100,
    10,
    1_000,
)  # of one `when`; brackets in brackets; values of one list
EXAMPLES = 'amount > 500, country in (KR, CN), name startsWith "A", ip in 10.0.0.0/8, country is null'
RELATIONS = {
    "=": compare.eq,
    "!=": compare.ne,
    ">": compare.gt,
    ">=": compare.ge,
    "<": compare.lt,
    "<=": compare.le,
}
Network = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Other:
    """Another field of the same event."""

    name: str


@dataclass(frozen=True)
class Comparison:
    """A field of the event compared with a value, several values or networks, another field, or null."""

    field: str
    operator: str
    operand: Value | Other | tuple = None


@dataclass(frozen=True)
class AllOf:
    """Every part is true."""

    parts: tuple["When", ...]


@dataclass(frozen=True)
class AnyOf:
    """At least one part is true."""

    parts: tuple["When", ...]


When = Comparison | AllOf | AnyOf


# -- evaluation --------------------------------------------------------------------------------------------------------


def is_true(when: When, event: Mapping[str, Any]) -> bool:
    """Whether the condition is true of an event.

    >>> from lab.model.schema import LOGINS
    >>> when = parse_when("amount > 500 or country not in (KR, CN)", LOGINS)
    >>> [is_true(when, {"amount": amount, "country": country}) for amount, country in ((501, "KR"), (500, "US"), (500, None))]
    [True, True, False]
    """
    match when:
        case AllOf(parts):
            return all(is_true(part, event) for part in parts)
        case AnyOf(parts):
            return any(is_true(part, event) for part in parts)
        case Comparison(field, "is null"):
            return event[field] is None
        case Comparison(field, "is not null"):
            return event[field] is not None
        case Comparison(field, operator, Other(name)):
            return _compares(operator, event[field], event[name])
        case Comparison(field, operator, operand):
            return _compares(operator, event[field], operand)


def _compares(operator: str, value: Any, operand: Any) -> bool:
    if value is None or operand is None:
        return False
    if operator in RELATIONS:
        return RELATIONS[operator](value, operand)
    found = value.startswith(operand) if operator.endswith("startsWith") else _is_in(value, operand)
    return found != operator.startswith("not ")


def _is_in(value: Any, operand: tuple) -> bool:
    if not are_networks(operand):
        return value in operand
    address = address_of(value)
    return address is not None and any(address in network for network in operand)


def are_networks(values: tuple) -> bool:
    """Whether the operand of `in` is networks instead of values."""
    return isinstance(values[0], IPv4Network | IPv6Network)


def address_of(text: str) -> IPv4Address | IPv6Address | None:
    """The IP address that a text is, or None: such a text lies in no network.

    >>> address_of("10.1.2.3"), address_of("010.1.2.3"), address_of("::1")
    (IPv4Address('10.1.2.3'), None, IPv6Address('::1'))
    """
    try:
        return ip_address(text)
    except ValueError:
        return None


def fields_of(when: When | None) -> tuple[str, ...]:
    """The fields that the condition looks at, in their order."""
    return tuple(dict.fromkeys(_fields_of(when))) if when else ()


def _fields_of(when: When) -> Iterator[str]:
    if isinstance(when, Comparison):
        yield when.field
        if isinstance(when.operand, Other):
            yield when.operand.name
    else:
        for part in when.parts:
            yield from _fields_of(part)


# -- text --------------------------------------------------------------------------------------------------------------


def when_text(when: When) -> str:
    """The condition in words, the same for equal conditions; `parse_when` reads it back.

    >>> from lab.model.schema import LOGINS
    >>> when_text(parse_when("country=KR and (amount>=5 OR ip in (10.0.0.0/8)) and userId NOT in(7,8)", LOGINS))
    'country = "KR" and (amount >= 5.00 or ip in 10.0.0.0/8) and userId not in (7, 8)'
    """
    match when:
        case AllOf(parts):
            return " and ".join(
                f"({when_text(part)})" if isinstance(part, AnyOf) else when_text(part) for part in parts
            )
        case AnyOf(parts):
            return " or ".join(map(when_text, parts))
        case Comparison(field, "is null" | "is not null" as operator):
            return f"{field} {operator}"
        case Comparison(field, operator, Other(name)):
            return f"{field} {operator} {name}"
        case Comparison(field, operator, tuple(operand)):
            listed = ", ".join(str(each) if are_networks(operand) else _in_list(each) for each in operand)
            alone = are_networks(operand) and len(operand) == 1
            return f"{field} {operator} {listed}" if alone else f"{field} {operator} ({listed})"
        case Comparison(field, operator, operand):
            return f"{field} {operator} {_quoted(operand) if isinstance(operand, str) else plain(operand)}"


def _quoted(text: str) -> str:
    """In quotes, as without them it may be the name of a field, today or when the schema has one more."""
    return visible(json.dumps(text, ensure_ascii=False))


def _in_list(value: int | str | Decimal) -> str:
    return _quoted(value) if isinstance(value, str) and value.lower() == "null" else written(value)


def takes_back(event: Mapping[str, Any], schema: Schema) -> bool:
    """Whether a record takes back an event that came before.

    >>> from dataclasses import replace
    >>> from lab.model.schema import LOGINS
    >>> takes_back({"action": "returned"}, replace(LOGINS, taken_back="action = returned"))
    True
    """
    condition = taken_back(schema)
    return condition is not None and is_true(condition, event)


def still_there(events: Iterable[dict[str, Any]], schema: Schema) -> list[dict[str, Any]]:
    """Of the records of one group, in order of arrival, the events that count: without duplicates, and what was taken back."""
    there: dict[tuple, dict[str, Any]] = {}
    for event in events:
        same = schema.id_of(event), event[schema.time_field]
        if takes_back(event, schema):
            there.pop(same, None)
        else:
            there.setdefault(same, event)
    return list(there.values())


@lru_cache(maxsize=100)
def taken_back(schema: Schema) -> When | None:
    """Which of its events take one back that came before; None if none do. Raises BadConditions."""
    return parse_when(schema.taken_back, schema) if schema.taken_back else None


def parse_when(text: str, schema: Schema) -> When:
    """The condition that a text means. Raises BadConditions, which says where, and what would be right.

    >>> from lab.model.schema import LOGINS
    >>> parse_when("amount > 500", LOGINS)
    Comparison(field='amount', operator='>', operand=Decimal('500.00'))
    >>> parse_when("amount > 500 and contry = KR", LOGINS)
    Traceback (most recent call last):
    lab.model.conditions.BadConditions: unknown logins field "contry", did you mean country? ... (at "contry", character 18)
    """
    reader = WhenReader(text, schema)
    when = reader.any(0)
    if reader.next.kind != "end":
        reader.refuse_rest()
    return when


class WhenReader(Reader):
    """Reads a condition from left to right, each token once."""

    def __init__(self, text: str, schema: Schema):
        super().__init__(text)
        self.schema, self.comparisons = schema, 0

    def any(self, brackets: int) -> When:
        parts = [self._all(brackets)]
        while self.next.is_word("or"):
            self.take()
            parts.append(self._all(brackets))
        return _joined(AnyOf, parts)

    def _all(self, brackets: int) -> When:
        parts = [self._term(brackets)]
        while self.next.is_word("and"):
            self.take()
            parts.append(self._term(brackets))
        return _joined(AllOf, parts)

    def _term(self, brackets: int) -> When:
        if not self.next.is_sign("("):
            return self._comparison()
        opened = self.take()
        if brackets == MAX_BRACKETS:
            raise self.refuse(f"expected at most {MAX_BRACKETS} brackets in each other", opened)
        when = self.any(brackets + 1)
        if not self.next.is_sign(")"):
            if self.next.kind == "end":
                raise self.refuse("this bracket is not closed", opened)
            self.refuse_rest()
        self.take()
        return when

    def _comparison(self) -> Comparison:
        if self.next.is_word("not") and self.after(1).kind in ("word", "sign"):
            either = "write field not in (…), field not startsWith …, field != …, field is not null"
            raise self.refuse(f"not stands beside the comparison: {either}")
        if self.next.kind != "word":
            raise self.refuse(f"expected the name of a field, as in {EXAMPLES}")
        name = self.take()
        field = self._field(name)
        self.comparisons += 1
        if self.comparisons > MAX_COMPARISONS:
            raise self.refuse(f"expected at most {MAX_COMPARISONS} comparisons", name)
        sign = self.take()
        negated = sign.is_word("not")
        if negated:
            sign = self.take()
        prefix = "not " if negated else ""
        if sign.is_word("in"):
            return Comparison(field.name, f"{prefix}in", self._values(field, name))
        if sign.is_word("startswith"):
            if field.type != "string":
                raise self.refuse(f"{field.name} is no text: startsWith is for texts", sign)
            return Comparison(field.name, f"{prefix}startsWith", value_of(self.text, field, self._one(name)))
        if sign.is_word("is") and not negated:
            return self._null(field)
        if sign.kind == "sign" and sign.text in RELATIONS and not negated:
            return Comparison(field.name, sign.text, self._operand(field, name, sign))
        self._refuse_sign(field, sign, negated)

    def _refuse_sign(self, field: Field, sign: Token, negated: bool) -> NoReturn:
        instead = {"==": "=", "<>": "!="}.get(sign.text) if sign.kind == "sign" else None
        if instead:
            raise self.refuse(f"write {instead}: {field.name} {instead} …", sign)
        if negated:
            raise self.refuse(f"expected in or startsWith after {field.name} not", sign)
        allowed = "=, !=, <, <=, >, >=, in, not in, startsWith, not startsWith, is null or is not null"
        raise self.refuse(f"expected {allowed} after {field.name}", sign)

    def _field(self, name: Token) -> Field:
        try:
            return self.schema.field(name.text)
        except ValueError as error:
            raise self.refuse(str(error), name) from None

    def _null(self, field: Field) -> Comparison:
        negated = self.next.is_word("not")
        if negated:
            self.take()
        if not self.next.is_word("null"):
            raise self.refuse(f"expected null: {field.name} is null, {field.name} is not null")
        self.take()
        return Comparison(field.name, "is not null" if negated else "is null")

    def _one(self, name: Token) -> Token:
        if not self.next.is_value:
            raise self.refuse(f"expected a value for {name.text}; one with signs goes in quotes")
        if self.next.is_word("null"):
            raise self.refuse(f"nothing equals null: write {name.text} is null or {name.text} is not null")
        return self.take()

    def _operand(self, field: Field, name: Token, sign: Token) -> Value | Other:
        if field.type == "boolean" and sign.text not in ("=", "!="):
            raise self.refuse(f"{field.name} is true or false: compare it with = or !=", sign)
        token = self._one(name)
        if other := self._other(field, token):
            return other
        if field.type == "time":
            raise self.refuse(f"{field.name} is a time: only other times compare with it, or is null", token)
        if token.kind == "word" and field.type == "string" and _network(token.text):
            raise self.refuse(
                f"a network is compared with in: {field.name} {'not ' * (sign.text == '!=')}in {token.text}",
                token,
            )
        return value_of(self.text, field, token)

    def _other(self, field: Field, token: Token) -> Other | None:
        """The field that a word names, if it does not read as a number where a number is expected."""
        if token.kind != "word" or token.text not in self.schema.names:
            return None
        if field.numeric and field.type != "time":
            try:
                value_of(self.text, field, token)
                return None
            except BadConditions:
                pass
        other = self.schema.field(token.text)
        if _kind(field) != _kind(other):
            also = '; a text goes in quotes: "' + token.text + '"' if _kind(field) == "text" else ""
            raise self.refuse(f"{field.name} is a {_kind(field)}, {other.name} a {_kind(other)}{also}", token)
        return Other(other.name)

    def _values(self, field: Field, name: Token) -> tuple:
        if field.type == "time":
            raise self.refuse(f"{field.name} is a time: only other times compare with it, or is null", name)
        if self.next.kind == "word" and field.type == "string" and _network(self.next.text):
            return (self._exact_network(self.take()),)
        if not self.next.is_sign("("):
            raise self.refuse(f"the values of in stand in brackets: {name.text} in (…, …)")
        self.take()
        tokens = [self._one(name)]
        while not (sign := self.take()).is_sign(")"):
            if not sign.is_sign(","):
                raise self.refuse(
                    "expected , or ) after a value; one with blanks or signs goes in quotes", sign
                )
            tokens.append(self._one(name))
            if len(tokens) > MAX_VALUES:
                raise self.refuse(f"expected at most {MAX_VALUES:,} values", tokens[-1])
        bare = (token for token in tokens if token.kind == "word")
        if field.type == "string" and any(_network(token.text) for token in bare):
            networks = {self._exact_network(token) for token in tokens}
            return tuple(sorted(networks, key=lambda each: (each.version, each)))
        return tuple(sorted({value_of(self.text, field, token) for token in tokens}))

    def _exact_network(self, token: Token) -> Network:
        try:
            return ip_network(token.text)
        except ValueError:
            network = _network(token.text)
        right = f"write {network}" if network else "networks and other texts do not go into one list"
        raise self.refuse(f"expected a network such as 10.0.0.0/8: {right}", token)

    def refuse_rest(self) -> NoReturn:
        """Says what is wrong with the token after a complete condition."""
        sign = self.next
        for word, signs in (("and", ("&", "&&", ",", ";")), ("or", ("|", "||"))):
            if sign.is_sign(*signs):
                raise self.refuse(f"write {word} between two conditions")
        if sign.is_sign(")"):
            raise self.refuse("no bracket is open here")
        raise self.refuse("expected and or or; a value with blanks or signs goes in quotes")


def _joined(of: type[AllOf] | type[AnyOf], parts: list[When]) -> When:
    """Several parts as one condition; brackets that change nothing leave no trace."""
    flat: list[When] = []
    for part in parts:
        flat += part.parts if isinstance(part, of) else (part,)
    return of(tuple(flat)) if len(flat) > 1 else flat[0]


def _kind(field: Field) -> str:
    if field.type in ("time", "boolean"):
        return field.type
    return "number" if field.numeric else "text"


def _network(text: str) -> Network | None:
    """What a word with a / in it is, if that is a network, be it with bits that the network does not have."""
    try:
        return ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None
