"""Kinds of values that attributes of a rule have: how each is read and refused, stored, and what its JSON Schema is.

Word(("low", "high"))      "high" ──► "high"        "up" ──► refused: expected one of low, high        CHECK (… IN ('low', 'high'))
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from lab.model import jsontext
from lab.model.conditions import quote_text
from lab.model.formatting import expected_message, plain_text, short_json
from lab.model.jsonschema import TEXT, Json, any_case_words_schema
from lab.model.schema import Schema
from lab.model.times import parse_duration_ms

MAX_LABELS, MAX_SAID = 16, 200  # MAX_SAID: characters of a title and of a label's value
LABEL = "[A-Za-z_][A-Za-z0-9_.-]{0,63}"
MAX_WINDOW_SECONDS = 3660 * 86_400
MAX_STORED = 50_000  # characters of a condition or a document in a database
_AROUND = "without blanks before and after it"


class BadRule(ValueError):
    """A control message that is refused; its text names the attribute, its value and what is allowed."""


class Check(NamedTuple):
    """A constraint of a column: its name, which clients see, says what is allowed, in the 63 bytes that PostgreSQL keeps."""

    name: str
    postgresql: str
    sqlite: str


def check(name: str, in_both: str) -> Check:
    """One that both databases write alike."""
    return Check(name, in_both, in_both)


@dataclass(frozen=True)
class Kind:
    """What the values of an attribute are. `sql_type`: how a database stores them: text, document, boolean, whole or exact."""

    sql_type = "text"

    def json_schema(self, schema: Schema) -> Json:
        return TEXT

    def checks(self, column: str) -> Iterator[Check]:
        """What a database requires of its column, as far as the value alone shows it."""
        yield from ()

    def to_column(self, value: Any) -> Any:
        """A value of `Rule.to_dict` as its column has it."""
        return value

    def from_column(self, value: Any) -> Any:
        """The other way round."""
        return value


@dataclass(frozen=True)
class Note(Kind):
    """A text of 1 to `most` characters about a message: the engine only checks it, and people read it in the log."""

    most: int = MAX_SAID

    def read(self, name: str, value: Any) -> Any:
        """The value of a message; None for none. Raises BadRule."""
        if value is not None and not (_is_said(value, self.most) and value):
            raise BadRule(expected_message(name, value, f"a text of 1 to {self.most} characters, {_AROUND}"))
        return value

    def json_schema(self, schema: Schema) -> Json:
        return {"type": "string", "maxLength": self.most, "minLength": 1}


# -- kinds that alerts carry: they know how each reader and writer has them ----------------------------------------------


@dataclass(frozen=True)
class Carried(Kind):
    """A kind of value that says something to readers of alerts, and nothing to the engine. None: it is not given."""

    def read(self, name: str, value: Any) -> Any:
        """The value of a message; None for none. Raises BadRule."""
        raise NotImplementedError

    def read_clause(self, name: str, reader: Any) -> Any:
        """The value that follows the name in a sentence. `reader`: that of sentences."""
        raise NotImplementedError

    def to_json(self, value: Any) -> Any:
        """The value in a message and in alerts."""
        return value

    def from_alert(self, value: Any) -> Any:
        """The value in the line of an alert, which anybody may have written. Raises ValueError."""
        return _checked_text(value)

    def describe(self, value: Any) -> str:
        """The value in a sentence."""
        return value

    def to_form_value(self, value: Any) -> str:
        """The value in a form."""
        return value

    def lines(self, value: Any) -> list[str]:
        """The value for people, in lines; no line if it is not given."""
        return [value] if value else []


@dataclass(frozen=True)
class Word(Carried):
    """One of some words."""

    words: tuple[str, ...]

    def read(self, name: str, value: Any) -> Any:
        if isinstance(value, str) and value not in self.words and (word := value.lower()) in self.words:
            raise BadRule(expected_message(name, value, f"lower case: write {short_json(word)}"))
        if value is not None and value not in self.words:
            raise BadRule(expected_message(name, value, f"one of {', '.join(self.words)}"))
        return value

    def read_clause(self, name: str, reader: Any) -> Any:
        token = reader.take_token()
        reader.check(token, self.read, name, word := token.text.lower())
        return word

    def json_schema(self, schema: Schema) -> Json:
        return {"enum": list(self.words)}

    def checks(self, column: str) -> Iterator[Check]:
        among = ", ".join(f"'{word}'" for word in self.words)
        yield check(f"{column} is {', '.join(self.words)} or null", f"{column} IN ({among})")


@dataclass(frozen=True)
class Text(Carried):
    """A text of 1 to `most` characters. `example`: one."""

    example: str
    most: int = MAX_SAID

    def read(self, name: str, value: Any) -> Any:
        return Note(self.most).read(name, value)

    def read_clause(self, name: str, reader: Any) -> Any:
        token = reader.take_token()
        if token.kind != "quoted":
            raise reader.error_at(
                f"expected the {name} in quotes, such as {f'{name} {quote_text(self.example)}'}", token
            )
        reader.check(token, self.read, name, token.text)
        return token.text

    def describe(self, value: Any) -> str:
        return quote_text(value)

    def json_schema(self, schema: Schema) -> Json:
        return Note(self.most).json_schema(schema)

    def checks(self, column: str) -> Iterator[Check]:
        yield check(
            f"{column} has 1 to {self.most} characters", f"length({column}) BETWEEN 1 AND {self.most}"
        )


@dataclass(frozen=True)
class Texts(Carried):
    """Texts with names: an object in JSON, pairs sorted by name in a rule."""

    sql_type = "document"

    def read(self, name: str, value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict) or len(value) > MAX_LABELS:
            raise BadRule(
                expected_message(
                    name, value, f'an object of at most {MAX_LABELS} texts, such as {{"team": "fraud"}}'
                )
            )
        for label, text in value.items():
            if not re.fullmatch(LABEL, label):
                allowed = "1 to 64 letters, digits and _ . -, the first a letter or _"
                raise BadRule(expected_message(name, label, f"names of {allowed}"))
            if not _is_said(text, MAX_SAID):
                allowed = f"a text of at most {MAX_SAID} characters, {_AROUND}"
                raise BadRule(expected_message(f"{name}.{label}", text, allowed))
        return tuple(sorted(value.items())) or None

    def read_clause(self, name: str, reader: Any) -> Any:
        return dict(reader.read_texts(name, self.read))

    def to_json(self, value: Any) -> Any:
        return dict(value)

    def from_alert(self, value: Any) -> Any:
        return tuple((_checked_text(name), _checked_text(text)) for name, text in value.items())

    def describe(self, value: Any) -> str:
        return ", ".join(f"{name} = {quote_text(text)}" for name, text in value)

    def to_form_value(self, value: Any) -> str:
        return self.describe(value)

    def lines(self, value: Any) -> list[str]:
        return [f"{name} = {text}" for name, text in value or ()]

    def json_schema(self, schema: Schema) -> Json:
        return {
            "type": "object",
            "propertyNames": {"pattern": f"^{LABEL}$"},
            "additionalProperties": {"type": "string", "maxLength": MAX_SAID},
            "maxProperties": MAX_LABELS,
        }

    def checks(self, column: str) -> Iterator[Check]:
        (of,) = Document("object").checks(column)
        texts = f"""AND ({column} IS NULL OR NOT {column} @? '$.* ? (@.type() != "string")')"""
        name = f"{column} is an object of texts of at most {MAX_STORED} characters"
        yield Check(name, f"({of.postgresql}) {texts}", of.sqlite)


def _checked_text(value: object) -> str:
    if not isinstance(value, str) or not jsontext.is_valid_unicode(value):
        raise ValueError("expected texts")
    return value


def _is_said(value: object, most: int) -> bool:
    return (
        isinstance(value, str)
        and len(value) <= most
        and value == value.strip(" ")
        and jsontext.is_valid_unicode(value)
    )


# -- the other kinds -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Name(Kind):
    """One of some words, in capitals or not."""

    words: tuple[str, ...]

    def json_schema(self, schema: Schema) -> Json:
        return any_case_words_schema(self.words)


@dataclass(frozen=True)
class EventField(Kind):
    """A field of events, or one of some words."""

    words: tuple[str, ...] = ()

    def json_schema(self, schema: Schema) -> Json:
        return {"enum": [*schema.names, *self.words]}


@dataclass(frozen=True)
class EventFields(Kind):
    """A list of fields of events, each once."""

    sql_type = "document"
    most: int | None = None
    description: str = ""

    def json_schema(self, schema: Schema) -> Json:
        names: Json = {"type": "array", "items": {"enum": list(schema.names)}, "uniqueItems": True}
        names |= {"maxItems": self.most} if self.most else {}
        return names | ({"description": self.description} if self.description else {})

    def checks(self, column: str) -> Iterator[Check]:
        yield Check(
            f"{column} is a list of texts",
            f"{column} IS NULL OR jsonb_typeof({column}) = 'array' "
            f"AND NOT {column} @? '$[*] ? (@.type() != \"string\")' AND length({column}::text) <= {MAX_STORED}",
            f"{column} IS NULL OR json_valid({column}) AND json_type({column}) = 'array' AND length({column}) <= {MAX_STORED}",
        )


@dataclass(frozen=True)
class ConditionText(Kind):
    """A condition on an event, in words."""

    description: str

    def json_schema(self, schema: Schema) -> Json:
        return TEXT | {"description": self.description}

    def checks(self, column: str) -> Iterator[Check]:
        yield check(f"{column} has at most {MAX_STORED} characters", f"length({column}) <= {MAX_STORED}")


@dataclass(frozen=True)
class Flag(Kind):
    """True or false."""

    sql_type = "boolean"
    description: str = ""

    def json_schema(self, schema: Schema) -> Json:
        return {"type": "boolean"} | ({"description": self.description} if self.description else {})

    def checks(self, column: str) -> Iterator[Check]:
        yield check(f"{column} is true, false or null", f"{column} IN (true, false)")


@dataclass(frozen=True)
class Duration(Kind):
    """Such as 10m; seconds in a database."""

    sql_type = "whole"

    def json_schema(self, schema: Schema) -> Json:
        return {"type": ["integer", "string"], "pattern": "^[0-9]{1,12}[smhd]?$"}

    def checks(self, column: str) -> Iterator[Check]:
        yield check(
            f"{column} is 1 to {MAX_WINDOW_SECONDS}",
            f"{column} IS NULL OR {column} BETWEEN 1 AND {MAX_WINDOW_SECONDS}",
        )

    def to_column(self, value: Any) -> Any:
        return value and parse_duration_ms(value) // 1000

    def from_column(self, value: Any) -> Any:
        return value and f"{value}s"


@dataclass(frozen=True)
class Whole(Kind):
    """A whole number from 1 to `most`."""

    sql_type = "whole"
    most: int

    def json_schema(self, schema: Schema) -> Json:
        return {"type": "integer", "minimum": 1, "maximum": self.most}

    def checks(self, column: str) -> Iterator[Check]:
        among = f"{column} BETWEEN 1 AND {self.most}"
        yield check(f"{column} is 1 to {self.most} or null", f"{column} IS NULL OR {among}")


@dataclass(frozen=True)
class Number(Kind):
    """A decimal number, exactly."""

    sql_type = "exact"

    def json_schema(self, schema: Schema) -> Json:
        return {"type": ["number", "string"]}

    def to_column(self, value: Any) -> Any:
        return plain_text(Decimal(value))

    def from_column(self, value: Any) -> Any:
        return str(value)


@dataclass(frozen=True)
class EventFilter(Kind):
    """An object of values that fields have; any other filter is a text, which stores have in a column of its own."""

    sql_type = "document"

    def json_schema(self, schema: Schema) -> Json:
        value: Json = {"type": ["string", "number", "boolean"]}
        values = {"anyOf": [value, {"type": "array", "items": value, "minItems": 1}]}
        names = {"enum": list(schema.names)}
        by_field = {"type": "object", "propertyNames": names, "additionalProperties": values}
        words = TEXT | {"description": "in the language of when: action = login and amount > 500"}
        return {"anyOf": [by_field, words]}


@dataclass(frozen=True)
class Document(Kind):
    """An object or an "array", of which `lab.model.spec` has the JSON Schema."""

    sql_type = "document"
    of: str

    def checks(self, column: str) -> Iterator[Check]:
        what = {"object": "an object", "array": "a list"}[self.of]
        yield Check(
            f"{column} is {what} of at most {MAX_STORED} characters",
            f"{column} IS NULL OR jsonb_typeof({column}) = '{self.of}' AND length({column}::text) <= {MAX_STORED}",
            f"{column} IS NULL OR json_valid({column}) AND json_type({column}) = '{self.of}' AND length({column}) <= {MAX_STORED}",
        )
