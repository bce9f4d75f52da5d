"""Reads the conditions of a rule in words: what is aggregated, the sign, the limit; `lab.model.sentence` has the grammar.

SUM(amount) per payer over 1 h > 5 × SUM(amount) over 30 d ÷ 30   ──►   {"aggregatorFunctionType": "SUM", …, "limitOf": {…}}
"""

import re
from itertools import pairwise
from typing import Any

from lab.model.aggregates import AGGREGATES, aggregates_of
from lab.model.aggregation import SYMBOLS
from lab.model.conditions import BadConditions, Token
from lab.model.numberreader import DIVIDED, TIMES, NumberReader

NAMES = {symbol: name for name, symbol in SYMBOLS.items()}
EXAMPLE = "SUM(amount) per userId over 1 h > 500"
# of functions in other languages
OTHER_NAMES = {other: each.name for each in AGGREGATES.values() for other in each.other_names}


class ConditionReader(NumberReader):
    """Reads from left to right, each token once; what it gives is attributes of a message, conditions on events as trees."""

    def read_condition(self, with_route: bool = False) -> dict[str, Any]:
        first = self.upcoming_token
        if with_route:
            self._refuse_condition_alone()
        if first.is_sign("("):
            raise self.error_at(
                "conditions have no brackets: join all by and, or all by or; or write several rules", first
            )
        condition = self.read_aggregation(with_route)
        self.refuse_route()
        sign = self.take_token()
        if sign.is_word(*DIVIDED):
            raise self.error_at(
                "a share is written with a factor: SUM(amount) over 1 h > 0.2 × SUM(amount) over 30 d", sign
            )
        if instead := self.sign_instead(sign):
            raise self.error_at(f"write {instead}: {instead} 500", sign)
        if sign.kind != "sign" or sign.text not in NAMES:
            raise self.error_at(f"expected one of {' '.join(NAMES)} and a limit", sign)
        limit = self.read_limit()
        if "limitOf" in limit:
            self._refuse_root(first)
        return condition | {"limitOperatorType": NAMES[sign.text]} | limit

    def _refuse_root(self, function: Token) -> None:
        aggregate = AGGREGATES.get(function.text.upper()) if function.kind == "word" else None
        if aggregate and aggregate.is_root:
            raise self.error_at(
                f"{aggregate.name} is a root, which is not compared with another aggregate: take {aggregate.instead}",
                function,
            )

    def refuse_route(self) -> None:
        """Refuses `per` and `where` in places where they cannot stand, and says where they do."""
        if self.upcoming_token.is_word("per"):
            raise self.error_at(
                f"per and its fields stand once, before the first over or within, as in {EXAMPLE}"
            )
        if self.upcoming_token.is_word("where"):
            raise self.misplaced_where(self.upcoming_token)

    def misplaced_where(self, where: Token) -> BadConditions:
        return self.error_at(
            "where and its conditions stand in the brackets, as in COUNT(events where …), or before per and over; "
            "a condition on the event that alerts follows a comma: , when …",
            where,
        )

    def refuse_condition_on_event(self) -> None:
        """Refuses a comparison of a field, and says that it is a clause."""
        if self.upcoming_token.text in self.schema.names and self.is_comparison_ahead():
            raise self._not_in_when(self.upcoming_token)

    def _refuse_condition_alone(self) -> None:
        """Refuses a rule that begins with a condition on the event, and says what to write before it."""
        name = self.upcoming_token.text
        is_comparison = name in self.schema.names and self.is_comparison_ahead()
        if is_comparison and self.schema.field(name).is_number_or_time and self._is_aggregate_ahead():
            raise self.error_at(
                f"to compare an event with an aggregate write MAX({name}) per … over 1 s > 3 × AVG({name}) over 30 d without the current event"
            )
        if is_comparison or self.upcoming_token.is_word("when"):
            raise self.error_at(
                "for a condition on the event alone write COUNT(events) over 1 s >= 1, when …"
            )

    def _is_aggregate_ahead(self) -> bool:
        return any(
            name.text.upper() in {**AGGREGATES, **OTHER_NAMES} and bracket.is_sign("(")
            for name, bracket in pairwise(self.tokens[self.place :])
        )

    def _not_in_when(self, name: Token) -> BadConditions:
        return self.error_at(f"a condition on the event itself follows a comma: , when {name.text} …", name)

    def _inside_brackets(self) -> dict[str, Any]:
        """`where`, if there is one, and the closing bracket."""
        of = {}
        if self.upcoming_token.is_word("where"):
            self.take_token()
            of["where"] = self.read_event_condition()
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
            of["filter"] = self.read_filter()
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
                raise self._not_in_when(name)
            known = ", ".join(AGGREGATES)
            if name.kind == "word" and (meant := OTHER_NAMES.get(name.text.upper())):
                raise self.error_at(f"here it is called {meant}; there are {known}", name)
            raise self.error_at(
                f"expected a function with what it is of, as in {EXAMPLE}; there are {known}", name
            )
        function = name.text.upper()
        argument = "events" if AGGREGATES[function].argument_kind == "events" else "…"
        self._sign("(", f"expected ( after {function}, as in {function}({argument})")
        of: dict[str, Any] = {"aggregatorFunctionType": function} | self._of(function)
        of |= self._inside_brackets()
        if with_route:
            of |= self._of_route()
        self.refuse_route()
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
        """Refuses COUNT(action = pay), and counts of other languages, COUNT(*) and COUNT(DISTINCT ip), and says what to write."""
        token = self.upcoming_token
        if AGGREGATES[function].argument_kind == "events":
            self.refuse_comparison_in(function)
        if token.text in self.schema.names:
            return
        if token.is_word("distinct"):
            (counts_values,) = aggregates_of("unique")
            raise self.error_at(f"distinct values are counted by {counts_values}(…)", token)
        if AGGREGATES[function].argument_kind == "events" and (
            token.is_sign(")") or token.is_word("*", "event")
        ):
            raise self.error_at(f"write {function}(events)", token)

    def refuse_comparison_in(self, function: str) -> None:
        """Refuses a comparison in the brackets of a count."""
        token = self.upcoming_token
        if self.is_comparison_ahead() and (token.text in self.schema.names or not token.is_word("events")):
            raise self.error_at(f"write {function}(events where {token.text} …)", token)

    def _names(self) -> list[str]:
        """Fields with commas between them; the first word of a clause is none of them, unless it is a field."""
        names = [self._name()]
        while self.upcoming_token.is_sign(",") and (
            self.token_ahead(1).text in self.schema.names or not self.token_ahead(1).is_word(*self.clauses)
        ):
            self.take_token()
            token = self.upcoming_token
            names.append(self._name())
            if names[-1] in names[:-1]:
                raise self.error_at("expected each field once", token)
        if self.upcoming_token.is_word("and") or self.upcoming_token.is_sign("&"):
            raise self.error_at("write a comma between two fields")
        return names

    def _name(self) -> str:
        if not self.upcoming_token.is_word_or_quoted:
            raise self.error_at("expected the name of a field")
        return self._field(self.take_token()).name

    def read_limit(self) -> dict[str, Any]:
        limit: dict[str, Any] = {"limit": "1"}
        self._refuse_brackets_of_limit()
        if not self.token_ahead(1).is_sign("("):
            limit = {"limit": self._amount("a limit")}
            if not self.upcoming_token.is_word(*TIMES):
                if self.upcoming_token.text.startswith("%"):
                    raise self.percentage(self.upcoming_token)
                if self.upcoming_token.kind == "word" and not self.upcoming_token.is_word(
                    "and", "or", *self.clauses
                ):
                    self.refuse_route()
                    self.refuse_condition_on_event()
                    raise self.error_at(
                        "expected and, or, × or a comma after the limit, a number without blanks and units"
                    )
                return limit
            self.take_token()
        self._refuse_brackets_of_limit()
        self._refuse_root(self.upcoming_token)
        aggregate = AGGREGATES.get(self.upcoming_token.text.upper())
        if aggregate and aggregate.instead and self.upcoming_token.kind == "word":
            raise self.error_at(f"{aggregate.name} is no limit: take {aggregate.instead}")
        of = limit["limitOf"] = self.read_aggregation()
        self._refuse_factor(of["aggregatorFunctionType"])
        if self.upcoming_token.is_word(*DIVIDED):
            self.take_token()
            of["dividedBy"] = self._whole("a divisor")
            self._refuse_factor(of["aggregatorFunctionType"])
        if self.upcoming_token.kind == "word" and re.match("[+-][0-9]", self.upcoming_token.text):
            sign = self.upcoming_token.text[0]
            raise self.error_at(f"write a blank after {sign}, as in {sign} 5")
        if self.upcoming_token.is_word("+", "-"):
            minus = self.take_token().text.strip("+")
            if self.upcoming_token.text.startswith(("+", "-")):
                raise self._not_plain("a number", self.upcoming_token)
            if self.token_ahead(1).is_sign("(") or self.token_ahead(1).is_word(*TIMES):
                raise self.error_at("a limit is a multiple of one aggregate, plus or minus a number")
            of["plus"] = minus + self._amount("a number")
        return limit

    def _refuse_brackets_of_limit(self) -> None:
        if self.upcoming_token.is_sign("("):
            raise self.error_at("a limit has no brackets: write > 5 × SUM(amount) over 30 d ÷ 30")

    def _refuse_factor(self, function: str) -> None:
        """Refuses a factor after the aggregate."""
        if self.upcoming_token.is_word(*TIMES):
            number = self.token_ahead(1).text
            factor = number if re.fullmatch(r"[0-9]{1,30}(\.[0-9]{1,30})?", number) else "5"
            raise self.error_at(f"the factor stands first: {factor} × {function}(…)")

    def _words(self, reason: str, *words: str) -> None:
        for word in words:
            if not (token := self.take_token()).is_word(word):
                raise self.error_at(reason, token)

    def _sign(self, sign: str, reason: str) -> None:
        if not self.upcoming_token.is_sign(sign):
            raise self.error_at(reason)
        self.take_token()
