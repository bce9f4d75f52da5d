"""A rule as one sentence that people read and type: `read_sentence` reads back what `Rule.describe` writes.

    COUNT(events where action = "failed") per userId over 10 min >= 5, when action = "login"
    SUM(amount) per payer over 1 h > 5 × SUM(amount) over 30 d ÷ 30 and COUNT(events) over 30 d >= 10
    NO(events where action = "confirm") per userId within 15 min after, when action = "order"

sentence:    (condition [joined] | absence) ["," "when" when] ["," "at" "most" number "per" duration] ["," "then" action "for" duration]
joined:      "and" condition {"and" condition} | "or" condition {"or" condition}
condition:   aggregation operator limit          limit: number | [number "×"] aggregation ["÷" number] ["+" | "-" number]
aggregation: function "(" ("events" | field {"," field}) ["where" when] ")" ["where" filter] ["per" field {"," field}]
             "over" duration ["without the current event"]          filter and per: of the first condition
absence:     "NO" "(" "events" ["where" when] ")" ["where" filter] ["per" field {"," field}] "within" duration "after"

What it gives is the attributes of a message, so whatever is refused is refused by `lab.model.messages`.
"""

import re
from typing import Any

from lab.model.aggregates import AGGREGATES
from lab.model.aggregation import SYMBOLS
from lab.model.filters import filter_value
from lab.model.schema import Schema
from lab.model.when import when_text
from lab.model.whenreader import WhenReader

UNITS = {"s": "s", "min": "m", "m": "m", "h": "h", "d": "d"}
TIMES, DIVIDED = ("×", "*", "x"), ("÷", "/")
WITHOUT = ("without", "the", "current", "event")
NAMES = {symbol: name for name, symbol in SYMBOLS.items()}
EXAMPLE = "SUM(amount) per userId over 1 h > 500"


def read_sentence(text: str, schema: Schema) -> dict[str, Any]:
    """The attributes of a rule, without id and state. Raises BadConditions, which says where, and what would be right.

    >>> from lab.model.schema import LOGINS
    >>> read_sentence("COUNT(events) per userId over 10 min >= 5", LOGINS)["window"]
    '10m'
    >>> read_sentence("COUNT(events) per userId for 10 min >= 5", LOGINS)
    Traceback (most recent call last):
    lab.model.conditions.BadConditions: expected over and a window, such as over 10 min (at "for", character 26)
    """
    reader = _SentenceReader(text, schema)
    if reader.next.is_word("no"):
        rule = reader.absence()
    else:
        rule = reader.condition(first=True)
        rule |= reader.more()
    while reader.next.is_sign(","):
        reader.take()
        rule |= reader.rest(rule)
    reader.end()
    return rule


def read_more(text: str, schema: Schema) -> dict[str, Any]:
    """The attribute `and` or `or` that further conditions in words mean; {} for none.

    >>> from lab.model.schema import LOGINS
    >>> read_more("and UNIQUE_COUNT(ip) over 1 d >= 3", LOGINS)["and"][0]["unique"]
    ['ip']
    """
    reader = _SentenceReader(text, schema)
    more = reader.more()
    reader.end()
    return more


def read_at_most(text: str, schema: Schema) -> dict[str, Any]:
    """The attribute `atMost` that `1 per 10 min` means.

    >>> from lab.model.schema import LOGINS
    >>> read_at_most("1 per 10 min", LOGINS)
    {'atMost': {'alerts': 1, 'per': '10m'}}
    """
    reader = _SentenceReader(text, schema)
    most = reader.at_most()
    reader.end()
    return most


def read_limit(text: str, schema: Schema) -> dict[str, Any]:
    """The attributes `limit` and perhaps `limitOf` of a limit in words.

    >>> from lab.model.schema import LOGINS
    >>> read_limit("5 × SUM(amount) over 30 d ÷ 30", LOGINS)["limitOf"]["dividedBy"]
    30
    """
    reader = _SentenceReader(text, schema)
    limit = reader.limit()
    reader.end()
    return limit


class _SentenceReader(WhenReader):
    """Reads from left to right, each token once."""

    def condition(self, first: bool = False) -> dict[str, Any]:
        condition = self.aggregation(first)
        sign = self.take()
        if sign.kind != "sign" or sign.text not in NAMES:
            raise self.refuse(f"expected one of {' '.join(NAMES)} and a limit", sign)
        return condition | {"limitOperatorType": NAMES[sign.text]} | self.limit()

    def absence(self) -> dict[str, Any]:
        self.take()
        of: dict[str, Any] = {"absence": True, "aggregatorFunctionType": "COUNT"}
        self._sign("(", "what is not to come stands as NO(events), or as NO(events where …)")
        if not self.next.is_word("events"):
            raise self.refuse("expected events, as in NO(events)")
        self.take()
        of |= self._inside_brackets()
        of |= self._of_route()
        if not self.next.is_word("within"):
            raise self.refuse("expected within, how long, and after, such as within 10 min after")
        self.take()
        of["window"] = self.duration()
        if not self.take().is_word("after"):
            raise self.refuse("expected after, as in within 10 min after", self.tokens[self.place - 1])
        return of

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
            of["filter"] = filter_value(self.filter())
            if not self.next.is_word("per", "over", "within"):
                self.refuse_rest()
        if self.next.is_word("per"):
            self.take()
            of["groupingKeyNames"] = self._names()
        return of

    def aggregation(self, first: bool = False) -> dict[str, Any]:
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
        if not self.next.is_word("over"):
            raise self.refuse("expected over and a window, such as over 10 min")
        self.take()
        of["window"] = self.duration()
        if self.next.is_word("without"):
            for word in WITHOUT:
                if not self.take().is_word(word):
                    raise self.refuse(f"expected {' '.join(WITHOUT)}", self.tokens[self.place - 1])
            of["excludeCurrent"] = True
        return of

    def _of(self, function: str) -> dict[str, Any]:
        if self.next.is_word("events") and "events" not in self.schema.names:
            self.take()
            return {}
        names = self._names()
        if AGGREGATES[function].of == "unique":
            return {"unique": names}
        if len(names) > 1:
            raise self.refuse(f"{function} takes one field")
        return {"aggregateFieldName": names[0]}

    def _names(self) -> list[str]:
        """Fields with commas between them; one before `when`, `at` or `then` is not theirs."""
        names = [self._name()]
        while self.next.is_sign(",") and not self.after(1).is_word("when", "at", "then"):
            self.take()
            names.append(self._name())
        return names

    def _name(self) -> str:
        if self.next.kind != "word":
            raise self.refuse("expected the name of a field")
        return self._field(self.take()).name

    def limit(self) -> dict[str, Any]:
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
            of["plus"] = minus + self._amount("a number")
        return limit

    def _amount(self, what: str) -> str:
        number = self._number(what)
        while self._is_thousands():
            self.take()
            number += self.take().text
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
            raise self.refuse(f"expected {what}, such as 500, without signs between the digits", token)
        return token.text.replace("_", "")

    def duration(self) -> str:
        token = self.take()
        match = re.fullmatch("([0-9]{1,12})([a-z]*)", token.text.lower()) if token.kind == "word" else None
        unit = match[2] if match else ""
        if match and not unit and self.next.kind == "word":
            unit = self.next.text.lower()
            token = self.take()
        if not match or unit not in UNITS:
            raise self.refuse("expected a duration in s, min, h or d, such as 10 min", token)
        return f"{match[1]}{UNITS[unit]}"

    def more(self) -> dict[str, Any]:
        if not self.next.is_word("and", "or"):
            return {}
        joined = self.next.text.lower()
        conditions = []
        while self.next.is_word("and", "or"):
            if not self.next.is_word(joined):
                raise self.refuse("conditions are joined by and, or by or: not by both")
            self.take()
            conditions.append(self.condition())
        return {joined: conditions}

    def rest(self, rule: dict[str, Any]) -> dict[str, Any]:
        """What follows a comma: `when`, `at most` or `then`."""
        if self.next.is_word("when") and "when" not in rule:
            self.take()
            return {"when": when_text(self.event_condition())}
        if self.next.is_word("at") and self.after(1).is_word("most") and "atMost" not in rule:
            self.take()
            self.take()
            return self.at_most()
        if self.next.is_word("then") and "action" not in rule:
            self.take()
            action = self.take().text
            if not self.next.is_word("for"):
                raise self.refuse("expected for and how long, such as for 24 h")
            self.take()
            return {"action": action, "ttl": self.duration()}
        raise self.refuse("expected when and a condition, at most and how often, or then and an action")

    def at_most(self) -> dict[str, Any]:
        alerts = self._whole("how many alerts")
        if not self.next.is_word("per"):
            raise self.refuse("expected per and a duration, such as per 10 min")
        self.take()
        return {"atMost": {"alerts": alerts, "per": self.duration()}}

    def end(self) -> None:
        if self.next.kind != "end":
            raise self.refuse("expected and, or, a comma with when or then, or the end")

    def _sign(self, sign: str, reason: str) -> None:
        if not self.next.is_sign(sign):
            raise self.refuse(reason)
        self.take()
