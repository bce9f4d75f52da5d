"""Reads a condition on an event: text ──parse_when──► the tree of `lab.model.when`, or why it cannot be read, and what was probably meant.

any:   all {"or" all}            all: term {"and" term}            term: "(" any ")" | comparison
comparison:  field ("=" | "!=" | "<" | "<=" | ">" | ">=") (value | field)     field "is" ["not"] "null"
             field ["not"] "in" (network | "@" list | "(" value {"," value} ")")
             field ["not"] ("startsWith" | "contains" | "endsWith" | "matches") (value | "(" value {"," value} ")")
steps: any "," any {"," any} ["without" any]
field: name | ("hour" | "weekday") "(" name of a time ["," zone] ")", which is compared with numbers

hour(eventTime) between 22 and 6   ──►   write (hour(eventTime) >= 22 or hour(eventTime) <= 6)
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from ipaddress import ip_network
from typing import Any, NoReturn

from lab.model.aggregates import MAX_STEPS
from lab.model.attributes import clause_attributes
from lab.model.conditions import BadConditions, Token, TokenReader, parse_token_value, quote_if_needed
from lab.model.field import Field, Value
from lab.model.formatting import short_json
from lab.model.lists import NAME, NAME_ALLOWED, ListOperand
from lab.model.operators import (
    OPERATORS,
    RELATIONS,
    Network,
    Operator,
    first_words,
    operator_named,
    parse_ip_address,
)
from lab.model.schema import Schema
from lab.model.times import DURATION_UNITS, parse_duration_ms
from lab.model.when import (
    SHOWS,
    AllOf,
    AnyOf,
    Comparison,
    LocalTimePart,
    OtherField,
    Steps,
    When,
    canonical_filter,
    field_values,
    is_true,
    join_conditions,
    list_names,
)

# comparisons of one condition; brackets in brackets; values of one list
MAX_COMPARISONS, MAX_BRACKETS, MAX_VALUES = 100, 10, 1_000
LOCAL_TIME_FIELDS = {part: Field(part, "long") for part in SHOWS}  # what a clock shows, as fields of its name
CALCULATES = ("+", "-", "*", "/", "%", "×", "÷")
AFTER_CONDITION = (
    "and",
    "or",
    "where",
    "per",
    "over",
    "within",
    "without",
)  # words of a rule's sentence, beside those of its clauses
EXAMPLES = 'amount > 500, country in (KR, CN), name startsWith "A", ip in 10.0.0.0/8, country is null'
_LIKE_NETWORK = re.compile(r"[0-9A-Fa-f:.]{0,60}[:.][0-9A-Fa-f:.]{0,60}/[0-9.]{1,20}")


def parse_when(text: str, schema: Schema) -> When:
    """The condition that a text means. Raises BadConditions, which says where, and what would be right.

    >>> from lab.model.schema import LOGINS
    >>> parse_when("amount > 500", LOGINS).operand
    Decimal('500.00')
    >>> parse_when("amount > 500 and contry = KR", LOGINS)
    Traceback (most recent call last):
    lab.model.conditions.BadConditions: unknown logins field "contry", did you mean country? ... (at "contry", character 18)
    """
    reader = WhenReader(text, schema)
    when = reader.read_event_condition()
    if reader.upcoming_token.kind != "end":
        reader.raise_for_rest()
    return when


def parse_steps(text: str, schema: Schema) -> Steps:
    """The steps that a text means. Raises BadConditions.

    >>> from lab.model.schema import LOGINS
    >>> parse_steps("action = reset, amount > 5 without action = login", LOGINS).text
    'action = "reset", amount > 5.00 without action = "login"'
    """
    reader = WhenReader(text, schema)
    steps = reader.read_steps()
    if reader.upcoming_token.kind != "end":
        reader.raise_for_rest()
    return steps


def parse_filter(text: str, schema: Schema) -> When | None:
    """The filter that a condition in words means; none: None. Raises BadConditions.

    >>> from lab.model.schema import LOGINS
    >>> parse_filter("country = KR", LOGINS).operand
    'KR'
    """
    if not text.strip():
        return None
    reader = WhenReader(text, schema)
    filter = reader.read_filter()
    if reader.upcoming_token.kind != "end":
        reader.raise_for_rest()
    return filter


class WhenReader(TokenReader):
    """Reads a condition from left to right, each token once."""

    def __init__(self, text: str, schema: Schema):
        super().__init__(text)
        self.schema = schema
        self.clauses = clause_attributes()
        # the name of the field that was compared last, as a condition has it: `amount`, `hour(eventTime)`
        self.compared: Token | None = None
        self.last: tuple[Token, Token] | None = None  # such a name, and the last value of that comparison
        self.texts_operator = ""  # the operator of that comparison, if it is one that takes texts
        self.comparisons, self.most_values = 0, MAX_VALUES
        self.too_many: Token | None = None  # the first comparison beyond those that a condition has

    def read_event_condition(self) -> When:
        """A whole condition, as far as it goes."""
        when = self._any_size()
        if self.too_many:
            raise self.error_at(f"expected at most {MAX_COMPARISONS} comparisons", self.too_many)
        return when

    def read_steps(self) -> Steps:
        """Conditions with commas between them, and perhaps what must not come in between."""
        conditions, without = [self._step()], None
        while self.upcoming_token.is_sign(","):
            self.take_token()
            conditions.append(self._step())
        if not 2 <= len(conditions) <= MAX_STEPS:
            raise self.error_at(f"expected 2 to {MAX_STEPS} steps, with commas between them")
        if self.upcoming_token.is_word("without"):
            self.take_token()
            without = self.read_event_condition()
        return Steps(tuple(conditions), without)

    def _step(self) -> When:
        if not (
            self.is_comparison_ahead() or self.token_ahead(1).is_sign("(") or self.upcoming_token.is_sign("(")
        ):
            raise self.error_at(
                "a step is a condition on an event, as in SEQUENCE(action = reset, action = pay)"
            )
        return self.read_event_condition()

    def _any_size(self) -> When:
        self.comparisons = 0
        self.too_many = self.compared = self.last = None
        return self._any(0)

    def read_filter(self) -> When:
        """A filter; one that says which values fields must have is as long as a message has room for, as an object is."""
        self.most_values = sys.maxsize
        filter = canonical_filter(self._any_size())
        self.most_values = MAX_VALUES
        if self.too_many and field_values(filter) is None:
            raise self.error_at(f"expected at most {MAX_COMPARISONS} comparisons", self.too_many)
        return filter

    def _any(self, brackets: int) -> When:
        parts = [self._all(brackets)]
        while self.upcoming_token.is_word("or"):
            self.take_token()
            parts.append(self._all(brackets))
        return join_conditions(AnyOf, parts)

    def _all(self, brackets: int) -> When:
        parts = [self._term(brackets)]
        while self.upcoming_token.is_word("and"):
            self.take_token()
            parts.append(self._term(brackets))
        return join_conditions(AllOf, parts)

    def _term(self, brackets: int) -> When:
        if not self.upcoming_token.is_sign("("):
            return self._comparison()
        opened = self.take_token()
        if brackets == MAX_BRACKETS:
            raise self.error_at(f"expected at most {MAX_BRACKETS} brackets in each other", opened)
        when = self._any(brackets + 1)
        if not self.upcoming_token.is_sign(")"):
            if self.upcoming_token.kind == "end":
                raise self.error_at("this bracket is not closed", opened)
            self.raise_for_rest()
        self.take_token()
        return when

    def _comparison(self) -> Comparison:
        negates = self.upcoming_token.is_word("not") and self.upcoming_token.text not in self.schema.names
        if negates and self.token_ahead(1).kind in ("word", "sign"):
            known = (each for each in OPERATORS.values() if each.follows_not)
            either = ", ".join(
                f"field {each.negation} {'(…)' if each.takes == 'values' else '…'}" for each in known
            )
            raise self.error_at(
                f"not stands beside the comparison: write {either}, field != …, field is not null"
            )
        if self.upcoming_token.kind != "word":
            self.refuse_no_name()
        name = self.take_token()
        self.comparisons += 1
        if self.comparisons > MAX_COMPARISONS:
            self.too_many = self.too_many or name
        if self.upcoming_token.is_sign("(") and name.is_word(*SHOWS):
            return self._clock_comparison(name)
        if name.text not in self.schema.names:
            self.refuse_name(name)
        return self._compared(name, self._field(name))

    def _clock_comparison(self, name: Token) -> Comparison:
        """What a clock shows, compared with numbers."""
        self.take_token()
        field = self._field(of := self.take_token())
        if field.type != "time" and field.name != self.schema.time_field:
            raise self.error_at(f"{field.name} is no time: {name.text} is of a time", of)
        zone = ["UTC"]
        if self.upcoming_token.is_sign(","):
            self.take_token()
            zone = [self._one(name).text]
        if not (closed := self.take_token()).is_sign(")"):
            raise self.error_at(f"expected ) after {name.text}({field.name}, zone", closed)
        try:
            clock = LocalTimePart(name.text.lower(), *zone)
        except ValueError as error:
            raise self.error_at(str(error), self.tokens[self.place - 2]) from None
        shown = name._replace(text=clock.condition_text(field.name))
        compared = self._compared(shown, LOCAL_TIME_FIELDS[clock.part])
        if compared.operand is None or isinstance(compared.operand, OtherField):
            raise self._no_local_time(clock.part, self.tokens[self.place - 1])
        return replace(compared, field=field.name, local_time_part=clock)

    def _no_local_time(self, part: str, token: Token) -> BadConditions:
        if part == "weekday":
            return self.error_at("weekday is compared with numbers from 1 (Monday) to 7 (Sunday)", token)
        return self.error_at("hour is compared with numbers from 0 to 23", token)

    def _value(self, field: Field, token: Token) -> str | int | Decimal:
        if field is LOCAL_TIME_FIELDS.get(field.name) and not token.is_number(*SHOWS[field.name]):
            raise self._no_local_time(field.name, token)
        return parse_token_value(self.text, field, token)

    def _compared(self, name: Token, field: Field) -> Comparison:
        """The rest of a comparison. `name` is what a condition calls the field: `amount`, `hour(eventTime)`."""
        self.compared, sign = name, self.take_token()
        if instead := self.sign_instead(sign):
            raise self.error_at(f"write {instead}: {name.text} {instead} …", sign)
        negated = sign.is_word("not")
        if negated:
            sign = self.take_token()
        if sign.is_word("is") and not negated:
            return self._null(field, name)
        operator = operator_named(f"not {sign.text}" if negated else sign.text)
        if operator is None or sign.kind not in ("word", "sign"):
            self.refuse_sign(name, sign, negated)
        self.texts_operator = operator.words if operator.takes == "texts" else ""
        operand: Value | OtherField | ListOperand | tuple
        if operator.takes == "values":
            operand = self._values(field, name, operator.words)
        elif operator.takes == "texts":
            if field.type != "string":
                raise self.error_at(f"{name.text} is no text: {operator.name} is for texts", sign)
            operand = self._texts(field, name, operator)
        else:
            operand = self._operand(field, name, sign)
        return Comparison(field.name, operator.words, operand)

    def _field(self, name: Token) -> Field:
        try:
            return self.schema.field(name.text)
        except ValueError as error:
            raise self.error_at(str(error), name) from None

    def _null(self, field: Field, name: Token) -> Comparison:
        negated = self.upcoming_token.is_word("not")
        if negated:
            self.take_token()
        if self.upcoming_token.is_word("in"):
            within = "not in" if negated else "in"
            raise self.error_at(f"write {name.text} {within} …")
        if not self.upcoming_token.is_word("null"):
            raise self.error_at(f"expected null: {name.text} is null, {name.text} is not null")
        self.take_token()
        return Comparison(field.name, "is not null" if negated else "is null")

    def _one(self, name: Token) -> Token:
        if not self.upcoming_token.is_word_or_quoted:
            raise self.error_at(f"expected a value for {name.text}; one with signs goes in quotes")
        if self.upcoming_token.is_word("null"):
            raise self.error_at(f"nothing equals null: write {name.text} is null or {name.text} is not null")
        self.last = name, self.upcoming_token
        return self.take_token()

    def _operand(self, field: Field, name: Token, sign: Token) -> Value | OtherField:
        if field.type == "boolean" and sign.text not in ("=", "!="):
            raise self.error_at(f"{field.name} is true or false: compare it with = or !=", sign)
        token = self._one(name)
        if other := self._other(field, token):
            return other
        if field.type == "time":
            raise self.error_at(
                f"{field.name} is a time: only other times compare with it, or is null", token
            )
        if token.kind == "word" and field.type == "string" and _network(token.text):
            within = "not in" if sign.text == "!=" else "in"
            raise self.error_at(f"a network is compared with in: {field.name} {within} {token.text}", token)
        if field.type == "boolean" and token.text != (lower := token.text.lower()) in ("true", "false"):
            raise self.error_at(f"write {name.text} {sign.text} {lower}", token)
        if field.is_number_or_time and self.is_comma_before_digits():
            raise self.error_at("a number in a condition has no commas, and a point before decimals")
        return self._value(field, token)

    def _other(self, field: Field, token: Token) -> OtherField | None:
        """The field that a word names, if it does not read as a number where a number is expected."""
        if token.kind != "word" or token.text not in self.schema.names:
            return None
        if field.is_number_or_time and field.type != "time":
            try:
                self._value(field, token)
                return None
            except BadConditions:
                pass
        other = self.schema.field(token.text)
        if _kind(field) != _kind(other):
            if _kind(field) == "text":
                raise self.error_at(
                    f'{field.name} is a text, {other.name} a {_kind(other)}; a text goes in quotes: "{token.text}"',
                    token,
                )
            raise self.error_at(f"{field.name} is a {_kind(field)}, {other.name} a {_kind(other)}", token)
        return OtherField(other.name)

    def _values(self, field: Field, name: Token, operator: str) -> ListOperand | tuple:
        if field.type == "time":
            raise self.error_at(f"{field.name} is a time: only other times compare with it, or is null", name)
        if self.upcoming_token.kind == "word" and self.upcoming_token.text.startswith("@"):
            return self._named_list()
        if (
            self.upcoming_token.kind == "word"
            and field.type == "string"
            and _network(self.upcoming_token.text)
        ):
            return (self._exact_network(self.take_token()),)
        if not self.upcoming_token.is_sign("("):
            self.refuse_values(name, operator, field.type == "string")
        tokens = self._listed(name, self.most_values)
        bare = (token for token in tokens if token.kind == "word")
        if field.type == "string" and any(_network(token.text) for token in bare):
            networks = {self._exact_network(token) for token in tokens}
            return tuple(sorted(networks, key=lambda each: (each.version, each)))
        return tuple(sorted({self._value(field, token) for token in tokens}))

    def _named_list(self) -> ListOperand:
        self.last = None
        named = self.take_token().text[1:]
        if not re.fullmatch(NAME, named):
            raise self.error_at(f"expected @ and {NAME_ALLOWED}", self.tokens[self.place - 1])
        return ListOperand(named, self.schema.time_field)

    def _texts(self, field: Field, name: Token, operator: Operator) -> Value | tuple:
        """One text, or several in brackets of which one is enough; a list of one is that text."""
        tokens = self._listed(name, MAX_VALUES) if self.upcoming_token.is_sign("(") else [self._one(name)]
        texts = tuple(sorted({self._text(field, token, operator) for token in tokens}))
        return texts if len(texts) > 1 else texts[0]

    def _text(self, field: Field, token: Token, operator: Operator) -> str:
        text = str(self._value(field, token))
        try:
            operator.check(text)
        except ValueError as error:
            raise self.error_at(str(error), token) from None
        return text

    def _listed(self, name: Token, most: int) -> list[Token]:
        """The values between the brackets that come next."""
        self.take_token()
        tokens = [self._one(name)]
        while not (sign := self.take_token()).is_sign(")"):
            if not sign.is_sign(","):
                raise self.error_at(
                    "expected , or ) after a value; one with blanks or signs goes in quotes", sign
                )
            tokens.append(self._one(name))
            if len(tokens) > most:
                raise self.error_at(f"expected at most {MAX_VALUES:,} values", tokens[-1])
        return tokens

    def _exact_network(self, token: Token) -> Network:
        try:
            return ip_network(token.text)
        except ValueError:
            network = _network(token.text)
        right = f"write {network}" if network else "networks and other texts do not go into one list"
        raise self.error_at(f"expected a network such as 10.0.0.0/8: {right}", token)

    # -- why it cannot be read, and what was probably meant ------------------------------------------------------------

    def is_comparison_ahead(self) -> bool:
        """Whether a word and a sign or word that compares follow."""
        return self.upcoming_token.kind == "word" and _compares(self.token_ahead(1))

    def refuse_no_name(self) -> NoReturn:
        """Refuses what is no word where a condition begins."""
        if self.upcoming_token.is_sign(*RELATIONS):
            self._refuse_comparison_without_name(self.upcoming_token)
        raise self.error_at(f"expected the name of a field, as in {EXAMPLES}")

    def refuse_name(self, name: Token) -> None:
        """Refuses a word in the place of a field, if it is clear what was meant, and says what to write."""
        if name.is_word(*SHOWS):
            raise self.error_at(f"write {name.text.lower()}({self.schema.time_field})", name)
        if name.is_word(*first_words()):
            self._refuse_comparison_without_name(name)
        if self.upcoming_token.is_sign("("):
            raise self._no_calculation(name)
        before = self.tokens[self.place - 2]
        if before.is_word("and", "or") and name.is_word(*AFTER_CONDITION, *self.clauses):
            raise self.error_at(f"expected a condition after {before.text}, not {name.text}", name)
        if self.last and before.is_word("and", "or") and not _compares(self.upcoming_token):
            of, value = self.last
            both = f"{quote_if_needed(value.text)}, {quote_if_needed(name.text)}"
            several = f"{of.text} {self.texts_operator or 'in'} ({both})"
            raise self.error_at(
                f"write and or or between two conditions; one of several values: {several}", name
            )

    def _refuse_comparison_without_name(self, compares: Token) -> None:
        before = self.tokens[max(self.tokens.index(compares) - 1, 0)]
        if self.compared and before.is_word("and", "or"):
            again = f"{before.text} {self.compared.text} {compares.text}"
            raise self.error_at(f"repeat the field: … {again} …", compares)

    def refuse_sign(self, name: Token, sign: Token, negated: bool) -> NoReturn:
        """Refuses what compares nothing after the name of a field, and perhaps `not`."""
        if sign.is_word(*CALCULATES):
            raise self._no_calculation(sign)
        if sign.is_word("between"):
            raise self.error_at(f"write {self._between(name, negated)}", sign)
        if negated:
            *most, last = (each.name for each in OPERATORS.values() if each.follows_not)
            raise self.error_at(f"expected {', '.join(most)} or {last} after {name.text} not", sign)
        *most, last = OPERATORS
        raise self.error_at(f"expected {', '.join(most)} or {last} after {name.text}", sign)

    def _no_calculation(self, token: Token) -> BadConditions:
        return self.error_at(
            'a condition does not calculate: make it a derived field of the schema, such as rest = "amount % 100"',
            token,
        )

    def _between(self, name: Token, negated: bool) -> str:
        """What `between`, after which the reader stands, means; of a clock, 22 and 6 are the hours around midnight."""
        low, also, high = self.upcoming_token, self.token_ahead(1), self.token_ahead(2)
        least = most = "…"
        turns = False
        if low.is_word_or_quoted and also.is_word("and") and high.is_word_or_quoted:
            least, most = quote_if_needed(low.text), quote_if_needed(high.text)
            shown = SHOWS.get(name.text.partition("(")[0]) if "(" in name.text else None
            turns = bool(shown and low.is_number(*shown) and high.is_number(*shown)) and int(low.text) > int(
                high.text
            )
        from_least, to_most = ("<", ">") if negated else (">=", "<=")
        if negated == turns:
            return f"{name.text} {from_least} {least} and {name.text} {to_most} {most}"
        return f"({name.text} {from_least} {least} or {name.text} {to_most} {most})"

    def refuse_values(self, name: Token, operator: str, is_text: bool) -> NoReturn:
        """Refuses what is neither a list nor a network after `in` or `not in`."""
        token = self.upcoming_token
        address = parse_ip_address(token.text) if is_text and token.kind == "word" else None
        if address and "%" not in token.text:
            raise self.error_at(f"write {name.text} {operator} {token.text}/{address.max_prefixlen}")
        if is_text and token.kind == "word" and _LIKE_NETWORK.fullmatch(token.text):
            raise self.error_at(
                "no network: expected an address, / and a number up to 32, or up to 128 for IPv6, as in 10.0.0.0/8"
            )
        raise self.error_at(f"the values of {operator} stand in brackets: {name.text} {operator} (…, …)")

    def raise_for_rest(self) -> NoReturn:
        """Says what is wrong with the token after a complete condition, and what is probably meant."""
        sign = self.upcoming_token
        if sign.is_sign(")"):
            raise self.error_at("no bracket is open here")
        goes_on = self.token_ahead(1).kind == "word" and _compares(self.token_ahead(2))
        for word, signs in (("and", ("&", "&&", ",", ";")), ("or", ("|", "||"))):
            if sign.is_sign(*signs) and (goes_on or not self.last):
                raise self.error_at(f"write {word} between two conditions")
        if sign.kind == "word" and self.token_ahead(1).is_sign(*RELATIONS):
            raise self.error_at(
                f"write and between two conditions: … and {sign.text} {self.token_ahead(1).text} …"
            )
        if not self.last:
            raise self.error_at("expected and or or")
        name, value = self.last
        if sign.is_sign(",", ";", "|", "||", "&", "&&"):
            several = f"{name.text} {self.texts_operator or 'in'} ({quote_if_needed(value.text)}, …)"
            raise self.error_at(f"write and or or between two conditions; one of several values: {several}")
        is_clock = "(" in name.text
        if is_clock or (name.text in self.schema.names and self.schema.field(name.text).is_number_or_time):
            self._refuse_after_number(value, sign, is_clock)
        both = short_json(self.text[value.start :].strip())
        such = f"{name.text} {self.texts_operator or '='} {both}"
        raise self.error_at(
            f"expected and or or; a value with blanks or signs goes in quotes, such as {such}"
        )

    def _refuse_after_number(self, value: Token, sign: Token, is_clock: bool) -> NoReturn:
        if sign.is_word(*CALCULATES):
            raise self._no_calculation(sign)
        if not is_clock and value.is_number(0, 999_999_999) and sign.is_word(*DURATION_UNITS):
            ms = parse_duration_ms(f"{int(value.text)} {sign.text.lower()}")
            raise self.error_at(
                f"a number has no unit; the difference of two times is in ms: {value.text} {sign.text} is {ms}"
            )
        raise self.error_at("expected and or or after a number, which has no unit")


def _kind(field: Field) -> str:
    if field.type in ("time", "boolean"):
        return field.type
    return "number" if field.is_number_or_time else "text"


def _network(text: str) -> Network | None:
    """The network that a word with a / names, even if bits outside its mask are set; None if it names none."""
    try:
        return ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def _compares(token: Token) -> bool:
    return token.is_sign(*RELATIONS) or token.is_word(*first_words())


# -- events that are taken back ----------------------------------------------------------------------------------------


def takes_back(event: Mapping[str, Any], schema: Schema) -> bool:
    """Whether a record takes back an event that came before.

    >>> from dataclasses import replace
    >>> from lab.model.schema import LOGINS
    >>> takes_back({"action": "returned"}, replace(LOGINS, taken_back="action = returned"))
    True
    """
    if not schema.taken_back:  # quicker than to look the schema up
        return False
    condition = taken_back_condition(schema)
    return condition is not None and is_true(condition, event)


@lru_cache(maxsize=100)
def taken_back_condition(schema: Schema) -> When | None:
    """Which of its events take one back that came before; None if none do. Raises BadConditions."""
    condition = parse_when(schema.taken_back, schema) if schema.taken_back else None
    for name in list_names(condition):
        at = schema.taken_back.index(f"@{name}")
        reason = "a schema names no list, as which records take back others must not change"
        raise BadConditions(reason, schema.taken_back, at, at + len(name) + 1)
    return condition
