"""Reads the conditions of a rule in words: what is aggregated, the sign, the limit; `lab.model.sentence` has the grammar.

SUM(amount) per payer over 1 h > 5 × SUM(amount) over 30 d ÷ 30   ──►   {"aggregatorFunctionType": "SUM", …, "limitOf": {…}}
"""

import re
from decimal import Decimal
from typing import Any

from lab.model.aggregates import AGGREGATES
from lab.model.aggregation import SYMBOLS
from lab.model.attributes import MAX_WINDOW_SECONDS
from lab.model.conditions import BadConditions, Token
from lab.model.field import Field
from lab.model.filters import filter_json_value
from lab.model.refusals import CLAUSES
from lab.model.rule import UNIT_SECONDS
from lab.model.times import duration_words, parse_duration_ms
from lab.model.when import when_text
from lab.model.whenreader import WhenReader

STORED_UNITS = {"s": "s", "min": "m", "m": "m", "h": "h", "d": "d"}
TIMES, DIVIDED = ("×", "*", "x"), ("÷", "/")
NAMES = {symbol: name for name, symbol in SYMBOLS.items()}
EXAMPLE = "SUM(amount) per userId over 1 h > 500"
_UNIT = r"(?:[^\W\d_]{1,3}|[$€£¥₩₹])"
_WITH_UNIT = re.compile(rf"{_UNIT}?([0-9]{{1,30}}(\.[0-9]{{1,30}})?)({_UNIT}?)")
# 20.000 and 1.500.000, as Europeans write 20,000 and 1,500,000
POINTS_BETWEEN_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(\.[0-9]{3}){0,9}\.[0-9]{2}0")
_ZEROS = {"k": "000", "m": "000000"}  # what people write instead of them


class ConditionReader(WhenReader):
    """Reads from left to right, each token once; what it gives is attributes of a message."""

    def read_condition(self, with_route: bool = False) -> dict[str, Any]:
        condition = self.read_aggregation(with_route)
        sign = self.take_token()
        if instead := self.sign_instead(sign):
            raise self.error_at(f"write {instead}: {instead} 500", sign)
        if sign.kind != "sign" or sign.text not in NAMES:
            raise self.error_at(f"expected one of {' '.join(NAMES)} and a limit", sign)
        return condition | {"limitOperatorType": NAMES[sign.text]} | self.read_limit()

    def _inside_brackets(self) -> dict[str, Any]:
        """`where`, if there is one, and the closing bracket."""
        of = {}
        if self.upcoming_token.is_word("where"):
            self.take_token()
            of["where"] = when_text(self.read_event_condition())
            if not self.upcoming_token.is_sign(")") and not self._ends_brackets():
                self.raise_for_rest()
        self._sign(")", "expected where and conditions, or ), after what it is of")
        return of

    def _ends_brackets(self) -> bool:
        """Whether the next token is one that follows brackets, or the end: then only the closing bracket is missing."""
        return self.upcoming_token.kind == "end" or self.upcoming_token.is_word(
            "where", "per", "over", "within"
        )

    def _of_route(self) -> dict[str, Any]:
        """The filter and the keys."""
        of: dict[str, Any] = {}
        if self.upcoming_token.is_word("where"):
            self.take_token()
            of["filter"] = filter_json_value(self.read_filter())
            if not self.upcoming_token.is_word("per", "over", "within"):
                self.raise_for_rest()
        if self.upcoming_token.is_word("per"):
            self.take_token()
            of["groupingKeyNames"] = self._names()
        return of

    def read_aggregation(self, with_route: bool = False) -> dict[str, Any]:
        name = self.take_token()
        if name.kind != "word" or name.text.upper() not in AGGREGATES:
            if name.kind == "word" and name.text in self.schema.names and not with_route:
                raise self.error_at(
                    f"a condition on the event itself follows a comma: , when {name.text} …", name
                )
            known = ", ".join(AGGREGATES)
            raise self.error_at(
                f"expected a function with what it is of, as in {EXAMPLE}; there are {known}", name
            )
        function = name.text.upper()
        self._sign("(", f"expected ( after {function}, as in {function}(…)")
        of: dict[str, Any] = {"aggregatorFunctionType": function} | self._of(function)
        of |= self._inside_brackets()
        if with_route:
            of |= self._of_route()
        expected = "expected over and a window, such as over 10 min"
        if with_route and "groupingKeyNames" not in of:
            expected = "expected per and fields, or over and a window, such as over 10 min"
        self._words(expected, "over")
        of["window"] = self.read_duration()
        if self.upcoming_token.is_word("without"):
            self._words("expected without the current event", "without", "the", "current", "event")
            of["excludeCurrent"] = True
        return of

    def _of(self, function: str) -> dict[str, Any]:
        if AGGREGATES[function].argument_kind == "events" and self.upcoming_token.is_word("events"):
            self.take_token()
            return {}
        self._refuse_foreign_argument(function)
        first = self.upcoming_token
        names = self._names()
        if AGGREGATES[function].argument_kind == "unique":
            return {"unique": names}
        if len(names) > 1:
            raise self.error_at(f"{function} takes one field")
        if (
            AGGREGATES[function].argument_kind == "field"
            and not self.schema.field(names[0]).is_number_or_time
        ):
            numeric = ", ".join(field.name for field in self.schema.fields if field.is_number_or_time)
            raise self.error_at(f"expected a numeric field for {function}: {numeric}", first)
        return {"aggregateFieldName": names[0]}

    def _refuse_foreign_argument(self, function: str) -> None:
        """Refuses counts of other languages, COUNT(*) and COUNT(DISTINCT ip), and says what to write."""
        token = self.upcoming_token
        if token.text in self.schema.names:
            return
        if token.is_word("distinct"):
            raise self.error_at("distinct values are counted by UNIQUE_COUNT(…)", token)
        if AGGREGATES[function].argument_kind == "events" and (
            token.is_sign(")") or token.is_word("*", "event")
        ):
            raise self.error_at(f"write {function}(events)", token)

    def _names(self) -> list[str]:
        """Fields with commas between them; the first word of a clause is none of them, unless it is a field."""
        names = [self._name()]
        while self.upcoming_token.is_sign(",") and (
            self.token_ahead(1).text in self.schema.names or not self.token_ahead(1).is_word(*CLAUSES)
        ):
            self.take_token()
            token = self.upcoming_token
            names.append(self._name())
            if names[-1] in names[:-1]:
                raise self.error_at("expected each field once", token)
        return names

    def _name(self) -> str:
        if not self.upcoming_token.is_word_or_quoted:
            raise self.error_at("expected the name of a field")
        return self._field(self.take_token()).name

    def read_limit(self) -> dict[str, Any]:
        limit: dict[str, Any] = {"limit": "1"}
        if not self.token_ahead(1).is_sign("("):
            limit = {"limit": self._amount("a limit")}
            if not self.upcoming_token.is_word(*TIMES):
                if self.upcoming_token.kind == "word" and not self.upcoming_token.is_word(
                    "and", "or", *CLAUSES
                ):
                    raise self.error_at(
                        "expected and, or, × or a comma after the limit, a number without blanks and units"
                    )
                return limit
            self.take_token()
        of = limit["limitOf"] = self.read_aggregation()
        if self.upcoming_token.is_word(*DIVIDED):
            self.take_token()
            of["dividedBy"] = self._whole("a divisor")
        if self.upcoming_token.is_word("+", "-"):
            minus = self.take_token().text.strip("+")
            if self.upcoming_token.text.startswith(("+", "-")):
                raise self._not_plain("a number", self.upcoming_token)
            of["plus"] = minus + self._amount("a number")
        return limit

    def _amount(self, what: str) -> str:
        number, token = self._number(what), self.tokens[self.place - 1]
        self._refuse_points_between_thousands(token.text, token)
        group = token.text.lstrip("+-")
        while self.is_comma_before_digits():
            digits = self.token_ahead(1).text
            if not re.fullmatch("[0-9]{1,3}", group) or not re.fullmatch(r"[0-9]{3}(\.[0-9]{1,60})?", digits):
                raise self.error_at("expected commas only before three digits each, such as 20,000,000.5")
            self.take_token()
            group = self.take_token().text
            number += group
        return number

    def _value(self, field: Field, token: Token) -> str | int | Decimal:
        if field.is_number_or_time and field.scale != 3:  # with three decimals, 20.000 is how 20 is shown
            self._refuse_points_between_thousands(token.text, token)
        return super()._value(field, token)

    def _refuse_points_between_thousands(self, number: str, token: Token) -> None:
        if POINTS_BETWEEN_THOUSANDS.fullmatch(number) and not self.is_comma_before_digits():
            whole = number.replace(".", "")
            either = f"{number.rstrip('0').rstrip('.')} or {whole}" if number.count(".") == 1 else whole
            raise self.error_at(
                f"a point stands before decimals, not between thousands: write {either}", token
            )

    def _whole(self, what: str) -> int:
        number = self._number(f"{what}, a whole number")
        if not re.fullmatch("[0-9]{1,18}", number):
            raise self.error_at("expected a whole number", self.tokens[self.place - 1])
        return int(number)

    def _number(self, what: str) -> str:
        token = self.take_token()
        if token.kind != "word" or not re.fullmatch(r"[+-]?[0-9][0-9_]{0,60}(\.[0-9]{1,60})?", token.text):
            raise self._not_plain(what, token)
        return token.text.replace("_", "")

    def _not_plain(self, what: str, token: Token) -> BadConditions:
        if re.fullmatch("[0-9.]{1,60}%", token.text):
            return self.error_at("a percentage is written as a number: 0.3 for 30 %", token)
        self._refuse_points_between_thousands(token.text, token)
        if number := self._without_unit(token):
            self._refuse_points_between_thousands(number, token)
            return self.error_at(f"a number has no unit and no currency: write {number}", token)
        return self.error_at(
            f"expected {what}, such as 500, without units and without signs between the digits", token
        )

    def _without_unit(self, token: Token) -> str:
        """The number in $1,000, EUR 500, 500EUR or 20M; empty if the token is none of these."""
        text = token.text
        if re.fullmatch(_UNIT, text):
            text = self.take_token().text
        while self.is_comma_before_digits():
            self.take_token()
            text += self.take_token().text
        match = _WITH_UNIT.fullmatch(text)
        zeros = _ZEROS.get(match[3].lower(), "") if match else ""
        return "" if not match or zeros and match[2] else match[1] + zeros

    def read_duration(self) -> str:
        duration, more = self._one_duration(), self.upcoming_token
        ms = parse_duration_ms(duration)
        while self.upcoming_token.kind == "word" and re.match("[0-9]", self.upcoming_token.text):
            ms += parse_duration_ms(self._one_duration())
        if self.upcoming_token is not more:
            raise self.error_at(f"expected one number and one unit: write {duration_words(ms)}", more)
        return duration

    def _one_duration(self) -> str:
        token = number = self.take_token()
        match = re.fullmatch("([0-9]{1,12})([a-z]*)", token.text.lower()) if token.kind == "word" else None
        unit = match[2] if match else ""
        if match and not unit and self.upcoming_token.kind == "word":
            unit = self.upcoming_token.text.lower()
            token = self.take_token()
        if not match or unit not in STORED_UNITS:
            raise self.error_at("expected a duration in whole s, min, h or d, such as 90 min", token)
        if not 0 < int(match[1]) * UNIT_SECONDS[STORED_UNITS[unit]] <= MAX_WINDOW_SECONDS:
            raise self.error_at("expected a duration from 1 s to 3660 d", number)
        return f"{match[1]}{STORED_UNITS[unit]}"

    def _words(self, reason: str, *words: str) -> None:
        for word in words:
            if not (token := self.take_token()).is_word(word):
                raise self.error_at(reason, token)

    def _sign(self, sign: str, reason: str) -> None:
        if not self.upcoming_token.is_sign(sign):
            raise self.error_at(reason)
        self.take_token()
