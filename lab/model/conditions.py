"""Words and signs, of which conditions and rules in words are made: read with the place of each mistake.

    country in (KR, "New York")  ──tokens──►  country  in  (  KR  ,  New York  )

word: everything but blanks and the signs " = < > , ( ) ; | &        value: word | "text as in JSON" | 'text as it stands'
"""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple, cast

from lab.model.field import Field
from lab.model.formatting import escape_control_characters, plain_text, short_json
from lab.model.jsontext import BadRecord

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<quoted> "[^"\\]*(?:\\.[^"\\]*)*" | '[^']*' )
    | (?P<sign> == | != | <> | <= | >= | [=<>,();] | \|\|? | &&? )
    | (?P<word> (?!["'`“”„‘’]) (?: [^\s"=<>,();|&!] | !(?!=) )+ )
    | (?P<open> ["'`“”„‘’] )
    )""",
    re.VERBOSE | re.DOTALL,
)


OTHER_SIGNS = {"==": "=", "<>": "!=", "=>": ">=", "=<": "<=", "≥": ">=", "≤": "<=", "≠": "!="}


class BadConditions(ValueError):
    """Conditions that cannot be read: the text says why, `start` and `end` where."""

    def __init__(self, reason: str, text: str, start: int, end: int):
        self.start, self.end = start, end
        where = f"{short_json(text[start:end])}, character {start + 1}" if end > start else "the end"
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

    def is_number(self, least: int, most: int) -> bool:
        """Whether the token is a whole number from `least` to `most`."""
        return re.fullmatch(r"\+?[0-9]{1,9}", self.text) is not None and least <= int(self.text) <= most

    @property
    def is_word_or_quoted(self) -> bool:
        return self.kind in ("word", "quoted")


def tokenize(text: str) -> Iterator[Token]:
    """The words and signs of a text, in one pass; the last one is of the kind "end". Raises BadConditions.

    >>> [token.text for token in tokenize('device="Mozilla/5.0 (X11)"')]
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
                else f"{part} is no quote here, write \" or ' around a text, and nothing around a field"
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


def parse_token_value(whole_text: str, field: Field, token: Token) -> str | int | Decimal:
    """The value of a field that a token of `whole_text` means. Raises BadConditions."""
    try:
        value = field.parse_csv_cell(token.text) if field.is_number_or_time else field.parse(token.text)
    except BadRecord as error:
        raise BadConditions(str(error), whole_text, token.start, token.end) from None
    if value is None:
        raise BadConditions(
            f"{field.label} is a number, not an empty text", whole_text, token.start, token.end
        )
    return value


class TokenReader:
    """Reads a text from left to right, each token once."""

    def __init__(self, text: str):
        self.text, self.tokens = text, list(tokenize(text))
        self.place = 0

    @property
    def upcoming_token(self) -> Token:
        return self.tokens[self.place]

    def token_ahead(self, count: int) -> Token:
        return self.tokens[min(self.place + count, len(self.tokens) - 1)]

    def take_token(self) -> Token:
        token = self.upcoming_token
        self.place = min(self.place + 1, len(self.tokens) - 1)
        return token

    def is_comma_before_digits(self) -> bool:
        """Whether a comma and digits follow without blanks, as in 20,000 or 5,50."""
        comma, digits = self.upcoming_token, self.token_ahead(1)
        close = self.tokens[self.place - 1].end == comma.start and comma.end == digits.start
        return comma.is_sign(",") and close and digits.text[:1] in tuple("0123456789")

    def sign_instead(self, sign: Token) -> str | None:
        """The sign to write instead of a sign of other languages; if that has two tokens, `sign` is the first."""
        if (
            sign.kind == "sign"
            and self.upcoming_token.kind == "sign"
            and self.upcoming_token.start == sign.end
        ):
            return OTHER_SIGNS.get(sign.text + self.upcoming_token.text)
        return (
            None
            if sign.kind == "quoted"
            else OTHER_SIGNS.get(sign.text[:2]) or OTHER_SIGNS.get(sign.text[:1])
        )

    def error_at(self, reason: str, token: Token | None = None) -> BadConditions:
        token = token or self.upcoming_token
        return BadConditions(reason, self.text, token.start, token.end)


def quote_if_needed(value: str | int | Decimal) -> str:
    """A value as it is when that cannot be misread, else in quotes."""
    text = plain_text(value)
    return text if re.fullmatch(r"[\w.-]+", text) else quote_text(text)


def quote_text(text: str) -> str:
    """A text in quotes, as JSON has it: whatever is in it, it is one token that reads back as the text."""
    return escape_control_characters(json.dumps(text, ensure_ascii=False))
