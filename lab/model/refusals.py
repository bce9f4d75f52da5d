"""Why a condition on an event cannot be read, and what was probably meant: `lab.model.whenreader` asks where it stops.

hour(eventTime) between 22 and 6   ──►   write (hour(eventTime) >= 22 or hour(eventTime) <= 6)
"""

import re
from typing import NoReturn

from lab.model.attributes import clause_attributes
from lab.model.clock import SHOWS
from lab.model.conditions import Token, TokenReader, quote_if_needed
from lab.model.operators import OPERATORS, RELATIONS, first_words, parse_ip_address
from lab.model.schema import Schema
from lab.model.words import short_json

AFTER_CONDITION = (
    "and",
    "or",
    "where",
    "per",
    "over",
    "within",
)  # words of a rule's sentence, beside those of its clauses
EXAMPLES = 'amount > 500, country in (KR, CN), name startsWith "A", ip in 10.0.0.0/8, country is null'
_LIKE_NETWORK = re.compile(r"[0-9A-Fa-f:.]{0,60}[:.][0-9A-Fa-f:.]{0,60}/[0-9.]{1,20}")


class RefusingReader(TokenReader):
    """Refuses tokens of a condition. The name of a field that it keeps is as a condition has it: `amount`, `hour(eventTime)`."""

    def __init__(self, text: str, schema: Schema):
        super().__init__(text)
        self.schema = schema
        self.clauses = clause_attributes()
        self.compared: Token | None = None  # the name of the field that was compared last
        self.last: tuple[Token, Token] | None = None  # such a name, and the last value of that comparison

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
        before = self.tokens[self.place - 2]
        if before.is_word("and", "or") and name.is_word(*AFTER_CONDITION, *self.clauses):
            raise self.error_at(f"expected a condition after {before.text}, not {name.text}", name)
        if self.last and before.is_word("and", "or") and not _compares(self.upcoming_token):
            of, value = self.last
            several = f"{of.text} in ({quote_if_needed(value.text)}, {quote_if_needed(name.text)})"
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
        if sign.is_word("between"):
            raise self.error_at(f"write {self._between(name, negated)}", sign)
        if negated:
            *most, last = (each.name for each in OPERATORS.values() if each.follows_not)
            raise self.error_at(f"expected {', '.join(most)} or {last} after {name.text} not", sign)
        *most, last = OPERATORS
        raise self.error_at(f"expected {', '.join(most)} or {last} after {name.text}", sign)

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
            several = f"{name.text} in ({quote_if_needed(value.text)}, …)"
            raise self.error_at(f"write and or or between two conditions; one of several values: {several}")
        is_clock = "(" in name.text
        if is_clock or (name.text in self.schema.names and self.schema.field(name.text).is_number_or_time):
            raise self.error_at("expected and or or after a number, which has no unit")
        both = short_json(self.text[value.start :].strip())
        raise self.error_at(
            f"expected and or or; a value with blanks or signs goes in quotes, such as {name.text} = {both}"
        )


def _compares(token: Token) -> bool:
    return token.is_sign(*RELATIONS) or token.is_word(*first_words())
