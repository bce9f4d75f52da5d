"""Reads the numbers and durations of a rule in words, and says what to write instead of those that people write otherwise.

20,000,000.5   ──►   20000000.5          90 min   ──►   90m          24 hours   ──►   refused: write 24 h
"""

import re
from decimal import Decimal

from lab.model.conditions import BadConditions, Token
from lab.model.field import Field
from lab.model.kinds import MAX_WINDOW_SECONDS
from lab.model.rule import UNIT_SECONDS
from lab.model.times import duration_words, parse_duration_ms
from lab.model.whenreader import WhenReader

TIMES, DIVIDED = ("×", "*", "x"), ("÷", "/")
STORED_UNITS = {"s": "s", "min": "m", "m": "m", "h": "h", "d": "d"}
# what other units people write, without a plural's s -> how many of which stored unit to write instead
_OTHER_UNITS = {"sec": (1, "s"), "second": (1, "s"), "min": (1, "m"), "minute": (1, "m")}
_OTHER_UNITS |= {"hr": (1, "h"), "hour": (1, "h")}
_OTHER_UNITS |= {"day": (1, "d"), "w": (7, "d"), "week": (7, "d"), "month": (30, "d"), "year": (365, "d")}
_UNIT = r"(?:[^\W\d_]{1,3}|[$€£¥₩₹])"
_WITH_UNIT = re.compile(rf"{_UNIT}?([0-9]{{1,30}}(\.[0-9]{{1,30}})?)({_UNIT}?)")
# 20.000 and 1.500.000, as Europeans write 20,000 and 1,500,000
POINTS_BETWEEN_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(\.[0-9]{3}){0,9}\.[0-9]{2}0")
_ZEROS = {"k": "000", "m": "000000"}  # what people write instead of them


def duration_words_as_given(count: int, unit: str) -> str:
    """A duration in words, in the stored unit that was meant.

    >>> duration_words_as_given(24, "h"), duration_words_as_given(90, "m")
    ('24 h', '90 min')
    """
    return f"{count} {'min' if unit == 'm' else unit}"


class NumberReader(WhenReader):
    """Reads from left to right, each token once."""

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
            return self.percentage(token)
        self._refuse_points_between_thousands(token.text, token)
        if number := self._without_unit(token):
            self._refuse_points_between_thousands(number, token)
            return self.error_at(f"a number has no unit and no currency: write {number}", token)
        return self.error_at(
            f"expected {what}, such as 500, without units and without signs between the digits", token
        )

    def percentage(self, token: Token) -> BadConditions:
        return self.error_at("a percentage is written as a number: 0.3 for 30 %", token)

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

    def read_duration(self, before: str = "") -> str:
        """A duration such as `90m`. `before`: what to write before it, if it is to be written otherwise."""
        duration, more = self._one_duration(before), self.upcoming_token
        ms = parse_duration_ms(duration)
        while self.upcoming_token.kind == "word" and re.match("[0-9]", self.upcoming_token.text):
            ms += parse_duration_ms(self._one_duration())
        if self.upcoming_token is not more:
            raise self.error_at(f"expected one number and one unit: write {duration_words(ms)}", more)
        return duration

    def _one_duration(self, before: str = "") -> str:
        number = self.upcoming_token
        count, unit, is_written_so, token = self.take_duration()
        if not unit:
            raise self.error_at("expected a duration in whole s, min, h or d, such as 90 min", token)
        if not 0 < count * UNIT_SECONDS[unit] <= MAX_WINDOW_SECONDS:
            raise self.error_at("expected a duration from 1 s to 3660 d", number)
        if not is_written_so:
            words = duration_words_as_given(count, unit)
            raise self.error_at(f"expected a duration in whole s, min, h or d: write {before}{words}", token)
        return f"{count}{unit}"

    def take_duration(self) -> tuple[int, str, bool, Token]:
        """How many of which stored unit, "" if none is meant; whether it is written so; and its last token."""
        token = self.take_token()
        text = token.text.lower() if token.kind == "word" else ""
        match = re.fullmatch("([0-9]{1,12})([a-z]*)", text)
        count, unit = (int(match[1]), match[2]) if match else (1, text)
        if self.upcoming_token.kind == "word" and (match and not unit or unit in ("a", "an", "one")):
            unit = self.upcoming_token.text.lower()
            token = self.take_token()
        if unit in STORED_UNITS:
            return count, STORED_UNITS[unit], match is not None, token
        times, stored = _OTHER_UNITS.get(unit) or _OTHER_UNITS.get(unit.removesuffix("s")) or (1, "")
        return count * times, stored, False, token
