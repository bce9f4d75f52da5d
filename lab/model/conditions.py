"""Conditions on an event's fields in words: read with the place of each mistake, and written so that they read back.

    action = login and country in (KR, "New York")  ──parse_conditions──►  (("action", ("login",)), ("country", ("KR", "New York")))
                                                    ◄──conditions_text──

conditions: condition {"and" condition}            word: everything but blanks and the signs " = < > , ( ) ; | &
condition:  field "=" value | field "in" "(" value {"," value} ")"       value: word | "text as in JSON" | 'text as it stands'

Of rules it is the part after `where`. `field=value|value; field=value`, as forms of earlier versions wrote it, is read, too.
"""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple, cast

from lab.model.field import Field
from lab.model.jsontext import BadRecord
from lab.model.schema import Schema
from lab.model.words import plain, shown, visible

# sorted by field, values sorted and distinct
Filter = tuple[tuple[str, tuple[str | int | Decimal, ...]], ...]

SYNTAX = "field = value, field in (value, value), joined by and; a value with blanks or signs goes in quotes"
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<quoted> "[^"\\]*(?:\\.[^"\\]*)*" | '[^']*' )
    | (?P<sign> == | != | <> | <= | >= | [=<>,();] | \|\|? | &&? )
    | (?P<word> (?!["'“”„‘’]) (?: [^\s"=<>,();|&!] | !(?!=) )+ )
    | (?P<open> ["'“”„‘’] )
    )""",
    re.VERBOSE | re.DOTALL,
)


class BadConditions(ValueError):
    """Conditions that cannot be read: the text says why, `start` and `end` where."""

    def __init__(self, reason: str, text: str, start: int, end: int):
        self.start, self.end = start, end
        where = f"{shown(text[start:end])}, character {start + 1}" if end > start else "the end"
        super().__init__(f"{reason} (at {where})")


class Token(NamedTuple):
    """A word, a quoted text or a sign; `text` is what it stands for, `start` and `end` are its place."""

    kind: str
    text: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.lower() in words

    def is_sign(self, *signs: str) -> bool:
        return self.kind == "sign" and self.text in signs

    @property
    def is_value(self) -> bool:
        return self.kind in ("word", "quoted")


class Condition(NamedTuple):
    """The event's field has one of these values."""

    field: Token
    values: tuple[Token, ...]


def tokens(text: str) -> Iterator[Token]:
    """The words and signs of a text, in one pass; the last one is of the kind "end". Raises BadConditions.

    >>> [token.text for token in tokens('device="Mozilla/5.0 (X11)"')]
    ['device', '=', 'Mozilla/5.0 (X11)', '']
    """
    place, stop = 0, len(text.rstrip())
    while place < stop:
        match = cast(re.Match, _TOKEN.match(text, place))
        kind, place = cast(str, match.lastgroup), match.end()
        start, part = match.start(kind), match[kind]
        if kind == "open":
            wrong = (
                "this quote is not closed"
                if part in "\"'"
                else f"{part} is no quote here, write \" or ' around a value"
            )
            raise BadConditions(wrong, text, start, place)
        if kind == "quoted":
            try:
                part = json.loads(part, strict=False) if part[0] == '"' else part[1:-1]
            except ValueError:
                raise BadConditions(
                    "\\ is a sign of its own within \"…\": write \\\\, or put the value into '…'",
                    text,
                    start,
                    place,
                ) from None
        yield Token(kind, part, start, place)
    yield Token("end", "", len(text), len(text))


def parse_conditions(text: str, schema: Schema) -> Filter:
    """The filter that conditions in words mean; none: (). Raises BadConditions, which says where, and what would be right.

    >>> from lab.model.schema import LOGINS
    >>> parse_conditions('country in (KR, CN) and device = "Mozilla/5.0 (X11; Linux)"', LOGINS)
    (('country', ('CN', 'KR')), ('device', ('Mozilla/5.0 (X11; Linux)',)))
    >>> parse_conditions("action=login, country=KR", LOGINS)
    Traceback (most recent call last):
    lab.model.conditions.BadConditions: conditions are joined by and: action = login and country … (at ",", character 13)
    """
    filter = {}
    for field, values in _Conditions(text).conditions():
        try:
            known = schema.field(field.text)
        except ValueError as error:
            raise BadConditions(str(error), text, field.start, field.end) from None
        if known.type == "time":
            raise BadConditions("a time cannot be in a condition", text, field.start, field.end)
        if field.text in filter:
            reason = f"{field.text} comes twice; for one of several values: {field.text} in (…, …)"
            raise BadConditions(reason, text, field.start, field.end)
        filter[field.text] = tuple(sorted({value_of(text, known, value) for value in values}))
    return tuple(sorted(filter.items()))


def value_of(text: str, field: Field, token: Token) -> str | int | Decimal:
    """The value of a field that a token of a text means. Raises BadConditions."""
    try:
        value = field.parse_text(token.text) if field.numeric else field.parse(token.text)
    except BadRecord as error:
        raise BadConditions(str(error), text, token.start, token.end) from None
    if value is None:
        raise BadConditions(f"{field.label} is a number, not an empty text", text, token.start, token.end)
    return value


class Reader:
    """Reads a text from left to right, each token once."""

    def __init__(self, text: str):
        self.text, self.tokens = text, list(tokens(text))
        self.place = 0

    @property
    def next(self) -> Token:
        return self.tokens[self.place]

    def after(self, count: int) -> Token:
        return self.tokens[min(self.place + count, len(self.tokens) - 1)]

    def take(self) -> Token:
        token = self.next
        self.place = min(self.place + 1, len(self.tokens) - 1)
        return token

    def refuse(self, reason: str, token: Token | None = None) -> BadConditions:
        token = token or self.next
        return BadConditions(reason, self.text, token.start, token.end)


class _Conditions(Reader):
    """The conditions of a filter."""

    def conditions(self) -> list[Condition]:
        old = any(token.is_sign(";", "|") for token in self.tokens)
        read: list[Condition] = []
        while self.next.kind != "end":
            if read:
                self._join(read[-1], old)
                if old and self.next.kind == "end":
                    break
            read.append(self._condition(old))
        return read

    def _condition(self, old: bool) -> Condition:
        if self.next.kind != "word":
            raise self.refuse(f"expected the name of a field: {SYNTAX}")
        field, comparison = self.take(), self.take()
        if comparison.is_sign("="):
            values = [self._one(field)]
            while old and self.next.is_sign("|"):
                self.take()
                values.append(self._one(field))
            return Condition(field, tuple(values))
        if comparison.is_word("in"):
            return Condition(field, tuple(self._list(field)))
        if comparison.is_sign("=="):
            raise self.refuse(f"write one =: {field.text} = …", comparison)
        if comparison.is_word("not") or comparison.is_sign("!=", "<>", "<", ">", "<=", ">="):
            only = f"only = and in compare so far: {field.text} = …, {field.text} in (…, …)"
            raise self.refuse(only, comparison)
        raise self.refuse(f"expected = or in after {shown(field.text)}: {SYNTAX}", comparison)

    def _one(self, field: Token) -> Token:
        if not self.next.is_value:
            raise self.refuse(f"expected a value of {field.text}; one with signs goes in quotes")
        return self.take()

    def _list(self, field: Token) -> Iterator[Token]:
        if not self.next.is_sign("("):
            raise self.refuse(f"the values of in stand in brackets: {field.text} in (…, …)")
        self.take()
        yield self._one(field)
        while not (sign := self.take()).is_sign(")"):
            if not sign.is_sign(","):
                reason = "expected , or ) after a value; one with blanks or signs goes in quotes"
                raise self.refuse(reason, sign)
            yield self._one(field)

    def _join(self, last: Condition, old: bool) -> None:
        """Takes what stands between two conditions; anything else is refused, with what is probably meant."""
        sign, follows = self.next, self.after(1)
        compares = self.after(2).is_sign("=") or self.after(2).is_word("in")
        goes_on = follows.kind == "word" and compares
        if sign.is_word("and") and not old:
            self.take()
            return
        if sign.is_sign(";") and (goes_on or follows.kind == "end"):
            self.take()
            return
        field, value = last.field.text, last.values[-1]
        both = f"{field} = {written(value.text)} and {follows.text} …"
        if sign.is_sign(",", "&", "&&") and goes_on:
            raise self.refuse(f"conditions are joined by and: {both}")
        if sign.kind == "word" and not sign.is_word("and", "or") and follows.is_sign("="):
            raise self.refuse(
                f"two conditions are joined by and: {field} = {written(value.text)} and {sign.text} …"
            )
        several = f"{field} in ({written(value.text)}, …)"
        if sign.is_word("and"):
            raise self.refuse(f"; and | do not go with and: join with and, and write {several}")
        if sign.is_word("or") or sign.is_sign("|", "||", ","):
            quoted = f', and a value with "{sign.text}" in it in quotes' * (sign.kind == "sign")
            raise self.refuse(f"one of several values is written {several}{quoted}")
        raise self.refuse(f"a value with blanks or signs goes in quotes: {field} = {self._quoted(value)}")

    def _quoted(self, value: Token) -> str:
        """What a value probably is, in quotes: all up to the next condition."""
        rest = self.tokens[self.place :]
        joins = (
            token.start for token, then in pairwise(rest) if token.is_word("and") and then.kind == "word"
        )
        return shown(self.text[value.start : next(joins, len(self.text))].strip())


def conditions_text(filter: Filter) -> str:
    """A filter in words; `parse_conditions` reads it back.

    >>> conditions_text((("action", ("login",)), ("country", ("CN", "New York")), ("userId", (7,))))
    'action = login and country in (CN, "New York") and userId = 7'
    """
    return " and ".join(
        f"{name} in ({', '.join(map(written, values))})"
        if len(values) > 1
        else f"{name} = {written(values[0])}"
        for name, values in filter
    )


def written(value: str | int | Decimal) -> str:
    """A value as it is when that cannot be misread, else as a JSON string."""
    text = plain(value)
    return text if re.fullmatch(r"[\w.-]+", text) else visible(json.dumps(text, ensure_ascii=False))


def example(schema: Schema) -> str:
    """Conditions that fit a schema, to show how they are written.

    >>> from lab.model.schema import LOGINS
    >>> example(LOGINS)
    'action = login and country in (KR, CN)'
    """
    roles = (*schema.id_fields, schema.time_field)
    texts = [field for field in schema.fields if field.name not in roles and not field.numeric]
    known = [field for field in texts if field.examples]
    parts = [f"{field.name} = {written(field.examples[0])}" for field in known[:1]]
    parts += [f"{f.name} in ({', '.join(map(written, f.examples[:2]))})" for f in known[1:] if f.examples[1:]]
    if not parts:
        field = next(iter(texts), schema.field(schema.id_fields[0]))
        parts = [f"{field.name} = {7 if field.numeric else written('some text')}"]
    return " and ".join(parts[:2])
