"""Reads the conditions of a rule in words: what is aggregated, the sign, the limit; `lab.model.sentence` has the grammar.

SUM(amount) per payer over 1 h > 5 × SUM(amount) over 30 d ÷ 30   ──►   {"aggregatorFunctionType": "SUM", …, "limitOf": {…}}
"""

import re
from typing import Any

from lab.model.aggregates import AGGREGATES
from lab.model.aggregation import SYMBOLS
from lab.model.conditions import BadConditions, Token
from lab.model.filters import filter_json_value
from lab.model.when import when_text
from lab.model.whenreader import WhenReader

UNITS = {"s": "s", "min": "m", "m": "m", "h": "h", "d": "d"}
TIMES, DIVIDED = ("×", "*", "x"), ("÷", "/")
# the first word of a clause, and the attribute that it gives
CLAUSES = {"when": "when", "at": "atMost", "then": "action", "severity": "severity"}
CLAUSES |= {"title": "title", "labels": "labels", "with": "eventFields"}
NAMES = {symbol: name for name, symbol in SYMBOLS.items()}
EXAMPLE = "SUM(amount) per userId over 1 h > 500"


class ConditionReader(WhenReader):
    """Reads from left to right, each token once; what it gives is attributes of a message."""

    def read_condition(self, first: bool = False) -> dict[str, Any]:
        condition = self.aggregation(first)
        sign = self.take()
        if sign.kind != "sign" or sign.text not in NAMES:
            raise self.refuse(f"expected one of {' '.join(NAMES)} and a limit", sign)
        return condition | {"limitOperatorType": NAMES[sign.text]} | self.limit()

    def _inside_brackets(self) -> dict[str, Any]:
        """`where`, if there is one, and the closing bracket."""
        of = {}
        if self.next.is_word("where"):
            self.take()
            of["where"] = when_text(self.event_condition())
        self._sign(")", "expected where and conditions, or ), after what it is of")
        return of

    def _of_route(self) -> dict[str, Any]:
        """The filter and the keys."""
        of: dict[str, Any] = {}
        if self.next.is_word("where"):
            self.take()
            of["filter"] = filter_json_value(self.filter())
            if not self.next.is_word("per", "over", "within"):
                self.raise_for_rest()
        if self.next.is_word("per"):
            self.take()
            of["groupingKeyNames"] = self._names()
        return of

    def read_aggregation(self, first: bool = False) -> dict[str, Any]:
        name = self.take()
        if name.kind != "word" or name.text.upper() not in AGGREGATES:
            known = ", ".join(AGGREGATES)
            raise self.refuse(
                f"expected a function with what it is of, as in {EXAMPLE}; there are {known}", name
            )
        function = name.text.upper()
        self._sign("(", f"{function} and what it is of stand as {function}(…)")
        of: dict[str, Any] = {"aggregatorFunctionType": function} | self._of(function)
        of |= self._inside_brackets()
        if first:
            of |= self._of_route()
        self._words("expected over and a window, such as over 10 min", "over")
        of["window"] = self.duration()
        if self.next.is_word("without"):
            self._words("expected without the current event", "without", "the", "current", "event")
            of["excludeCurrent"] = True
        return of

    def _of(self, function: str) -> dict[str, Any]:
        if AGGREGATES[function].of == "events" and self.next.is_word("events"):
            self.take()
            return {}
        names = self._names()
        if AGGREGATES[function].of == "unique":
            return {"unique": names}
        if len(names) > 1:
            raise self.refuse(f"{function} takes one field")
        return {"aggregateFieldName": names[0]}

    def _names(self) -> list[str]:
        """Fields with commas between them; the first word of a clause is none of them, unless it is a field."""
        names = [self._name()]
        while self.next.is_sign(",") and (
            self.after(1).text in self.schema.names or not self.after(1).is_word(*CLAUSES)
        ):
            self.take()
            token = self.next
            names.append(self._name())
            if names[-1] in names[:-1]:
                raise self.refuse("expected each field once", token)
        return names

    def _name(self) -> str:
        if not self.next.is_word_or_quoted:
            raise self.refuse("expected the name of a field")
        return self._field(self.take()).name

    def read_limit(self) -> dict[str, Any]:
        limit: dict[str, Any] = {"limit": "1"}
        if not self.after(1).is_sign("("):
            limit = {"limit": self._amount("a limit")}
            if not self.next.is_word(*TIMES):
                return limit
            self.take()
        of = limit["limitOf"] = self.aggregation()
        if self.next.is_word(*DIVIDED):
            self.take()
            of["dividedBy"] = self._whole("a divisor")
        if self.next.is_word("+", "-"):
            minus = self.take().text.strip("+")
            if self.next.text.startswith(("+", "-")):
                raise self._not_plain("a number", self.next)
            of["plus"] = minus + self._amount("a number")
        return limit

    def _amount(self, what: str) -> str:
        number = self._number(what)
        group = self.tokens[self.place - 1].text.lstrip("+-")
        while self._is_thousands():
            if not re.fullmatch("[0-9]{1,3}", group):
                raise self.refuse("expected commas only before three digits each, such as 20,000,000.5")
            self.take()
            group = self.take().text
            number += group
        return number

    def _whole(self, what: str) -> int:
        number = self._number(f"{what}, a whole number")
        if not re.fullmatch("[0-9]{1,18}", number):
            raise self.refuse("expected a whole number", self.tokens[self.place - 1])
        return int(number)

    def _is_thousands(self) -> bool:
        """Whether a comma and three digits follow without blanks, as in 20,000,000.5."""
        comma, digits = self.next, self.after(1)
        close = self.tokens[self.place - 1].end == comma.start and comma.end == digits.start
        return (
            comma.is_sign(",")
            and close
            and re.fullmatch(r"[0-9]{3}(\.[0-9]{1,60})?", digits.text) is not None
        )

    def _number(self, what: str) -> str:
        token = self.take()
        if token.kind != "word" or not re.fullmatch(r"[+-]?[0-9][0-9_]{0,60}(\.[0-9]{1,60})?", token.text):
            raise self._not_plain(what, token)
        return token.text.replace("_", "")

    def _not_plain(self, what: str, token: Token) -> BadConditions:
        return self.refuse(f"expected {what}, such as 500, without signs between the digits", token)

    def read_duration(self) -> str:
        token = self.take()
        match = re.fullmatch("([0-9]{1,12})([a-z]*)", token.text.lower()) if token.kind == "word" else None
        unit = match[2] if match else ""
        if match and not unit and self.next.kind == "word":
            unit = self.next.text.lower()
            token = self.take()
        if not match or unit not in UNITS:
            raise self.refuse("expected a duration in s, min, h or d, such as 10 min", token)
        return f"{match[1]}{UNITS[unit]}"

    def _words(self, reason: str, *words: str) -> None:
        for word in words:
            if not (token := self.take()).is_word(word):
                raise self.refuse(reason, token)

    def _sign(self, sign: str, reason: str) -> None:
        if not self.next.is_sign(sign):
            raise self.refuse(reason)
        self.take()
