"""A rule as one sentence for people to read and type: `parse_rule_sentence` reads what `Rule.describe` writes.

    COUNT(events where action = "failed") per userId over 10 min >= 5, when action = "login"
    SUM(amount) per payer over 1 h > 5 × SUM(amount) over 30 d ÷ 30 and COUNT(events) over 30 d >= 10
    NO(events where action = "confirm") per userId within 15 min after, when action = "order"
    COUNT(events) per ip over 1 min > 9, at most 1 per 1 h, severity high, title "Scan", labels team = "web", with userId of the event

sentence:    (condition [joined] | absence) {"," clause}          each clause once, in any order
clause:      "when" when | "at" "most" number "per" duration | "then" action "for" duration | "severity" severity
             | "title" text | "labels" label "=" text {"," label "=" text} | "with" field {"," field} "of" "the" "event"
joined:      "and" condition {"and" condition} | "or" condition {"or" condition}
condition:   aggregation operator limit          limit: number | multiple ["+" | "-" multiple] ["+" | "-" number]
multiple:    [number "×"] aggregation ["÷" number]
aggregation: function "(" ("events" | field {"," field} | steps) ["where" when] ")" ["where" filter] ["per" field {"," field}]
             ["over" window ["without the current event"]]        filter and per: of the first condition
             VALUE, the event's own value, has no window; every other function has one
window:      [number "events" "within"] duration ["ending" duration "before"]
             | "a" "session" "with" "gaps" "up" "to" duration "within" duration
absence:     "NO" "(" "events" ["where" when] ")" ["where" filter] ["per" field {"," field}] "within" duration "after"

What it gives is the attributes of a message, conditions on events as the trees that were read; `lab.model.messages` checks them all.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any, cast

from lab.model.aggregates import AGGREGATES, aggregates_of
from lab.model.aggregation import SYMBOLS
from lab.model.attributes import ACTIONS, ATTRIBUTES, MAX_LAST_EVENTS, clause_attributes
from lab.model.conditions import BadConditions, Token
from lab.model.field import Field
from lab.model.formatting import expected_message
from lab.model.kinds import MAX_WINDOW_SECONDS, BadRule, Carried
from lab.model.rule import UNIT_SECONDS
from lab.model.schema import Schema
from lab.model.times import DURATION_UNITS, duration_words, parse_duration_ms
from lab.model.whenreader import WhenReader

MAX_CONDITIONS = 4  # of a rule
OFTEN = {"once": 1, "one": 1, "twice": 2, "two": 2}  # what people write for a number of alerts
_OF_ALERTS = ("alert", "alerts", "time", "times")  # and what they write after it
NAMES = {symbol: name for name, symbol in SYMBOLS.items()}
EXAMPLE = "SUM(amount) per userId over 1 h > 500"
# of functions in other languages
OTHER_NAMES = {other: each.name for each in AGGREGATES.values() for other in each.other_names}
TIMES, DIVIDED = ("×", "*", "x"), ("÷", "/")
# what is no exact number of days -> the days to write instead
_ABOUT_DAYS = {"month": 30, "months": 30, "year": 365, "years": 365}
_UNIT = r"(?:[^\W\d_]{1,3}|[$€£¥₩₹])"
_WITH_UNIT = re.compile(rf"{_UNIT}?([0-9]{{1,30}}(\.[0-9]{{1,30}})?)({_UNIT}?)")
# 20.000 and 1.500.000, as Europeans write 20,000 and 1,500,000
POINTS_BETWEEN_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(\.[0-9]{3}){0,9}\.[0-9]{2}0")
_ZEROS = {"k": "000", "m": "000000"}  # what people write instead of them


def parse_rule_sentence(text: str, schema: Schema) -> dict[str, Any]:
    """The attributes of a rule, without id and state. Raises BadConditions, which says where, and what would be right.

    >>> from lab.model.schema import LOGINS
    >>> parse_rule_sentence("COUNT(events) per userId over 10 min >= 5", LOGINS)["window"]
    '10m'
    >>> parse_rule_sentence("COUNT(events) per userId for 10 min >= 5", LOGINS)
    Traceback (most recent call last):
    lab.model.conditions.BadConditions: expected over and a window, such as over 10 min (at "for", character 26)
    """
    reader = SentenceReader(text, schema)
    if reader.upcoming_token.is_word("no"):
        rule = reader.absence()
    else:
        rule = reader.read_condition(with_route=True)
        rule |= reader.more()
    while reader.upcoming_token.is_sign(","):
        reader.take_token()
        rule |= reader.rest(rule)
    reader.end(rule)
    return rule


def parse_further_conditions(text: str, schema: Schema) -> dict[str, Any]:
    """The attribute `and` or `or` that further conditions in words mean; {} for none.

    >>> from lab.model.schema import LOGINS
    >>> parse_further_conditions("and UNIQUE_COUNT(ip) over 1 d >= 3", LOGINS)["and"][0]["unique"]
    ['ip']
    """
    return _read_part(SentenceReader.more, text, schema)


def parse_at_most(text: str, schema: Schema) -> dict[str, Any]:
    """The attribute `atMost` that `1 per 10 min` means.

    >>> from lab.model.schema import LOGINS
    >>> parse_at_most("1 per 10 min", LOGINS)
    {'atMost': {'alerts': 1, 'per': '10m'}}
    """
    return _read_part(SentenceReader.at_most, text, schema)


def parse_window(text: str, schema: Schema) -> dict[str, Any]:
    """The attributes of a window in words.

    >>> from lab.model.schema import LOGINS
    >>> parse_window("10 events within 24 h", LOGINS)
    {'lastEvents': 10, 'window': '24h'}
    """
    return _read_part(SentenceReader.read_window, text, schema)


def parse_limit(text: str, schema: Schema) -> dict[str, Any]:
    """The attributes `limit` and perhaps `limitOf` of a limit in words.

    >>> from lab.model.schema import LOGINS
    >>> parse_limit("5 × SUM(amount) over 30 d ÷ 30", LOGINS)["limitOf"]["dividedBy"]
    30
    """
    return _read_part(SentenceReader.read_limit, text, schema)


def parse_carried(name: str, text: str, schema: Schema) -> dict[str, Any]:
    """The attribute of this name, which alerts carry, that its clause without the name means.

    >>> from lab.model.schema import LOGINS
    >>> parse_carried("labels", 'team = fraud, desk = "2, left"', LOGINS)
    {'labels': {'team': 'fraud', 'desk': '2, left'}}
    """
    kind = cast(Carried, ATTRIBUTES[name].kind)
    return _read_part(lambda reader: {name: kind.read_clause(name, reader)}, text, schema)


def _read_part(
    part: Callable[["SentenceReader"], dict[str, Any]], text: str, schema: Schema
) -> dict[str, Any]:
    reader = SentenceReader(text, schema)
    read = part(reader)
    reader.end()
    return read


def of_clauses() -> str:
    """The words with which clauses begin, for messages."""
    *words, last = (row.clause.begins for row in clause_attributes().values() if row.clause)
    return f"{', '.join(words)} or {last}"


class SentenceReader(WhenReader):
    """Reads from left to right, each token once."""

    def absence(self) -> dict[str, Any]:
        self.take_token()
        of: dict[str, Any] = {"absence": True, "aggregatorFunctionType": "COUNT"}
        self._sign("(", "what is not to come stands as NO(events), or as NO(events where …)")
        self.refuse_comparison_in("NO")
        self._words("expected events, as in NO(events)", "events")
        of |= self._inside_brackets()
        of |= self._of_route()
        self._words("expected within, how long, and after, such as within 10 min after", "within")
        of["window"] = self.read_duration()
        self._words("expected after, as in within 10 min after", "after")
        return of

    def more(self) -> dict[str, Any]:
        if not self.upcoming_token.is_word("and", "or"):
            return {}
        joined = self.upcoming_token.text.lower()
        conditions = []
        while self.upcoming_token.is_word("and", "or"):
            if len(conditions) == MAX_CONDITIONS - 1:
                raise self.error_at(f"expected at most {MAX_CONDITIONS} conditions")
            if not self.upcoming_token.is_word(joined):
                raise self.error_at("conditions are joined by and, or by or: not by both")
            self.take_token()
            conditions.append(self.read_condition())
        return {joined: conditions}

    def rest(self, rule: dict[str, Any]) -> dict[str, Any]:
        """The clause that follows a comma."""
        first = self.take_token()
        clause = first.text.lower()
        if first.is_word("where", "filter"):
            raise self.misplaced_where(first)
        if first.kind != "word" or clause not in self.clauses:
            raise self.error_at(f"expected {of_clauses()} after the comma", first)
        attribute = self.clauses[clause]
        if attribute.name in rule:
            raise self.error_at(f"{first.text} is given twice", first)
        if isinstance(attribute.kind, Carried):
            return {attribute.name: attribute.kind.read_clause(attribute.name, self)}
        match clause:
            case "when":
                when = self.read_event_condition()
                if self.upcoming_token.kind != "end" and not (
                    self.upcoming_token.is_sign(",") or self.upcoming_token.is_word(*self.clauses)
                ):
                    self.refuse_route()
                    self.raise_for_rest()
                return {"when": when}
            case "at":
                if rule.get("absence"):
                    raise self.error_at(
                        "at most: not beside absence, which is about the events after one, and has no other condition",
                        first,
                    )
                self._words("expected at most and how often, such as at most 1 per 10 min", "most")
                return self.at_most()
            case "then":
                action = self.take_token()
                self.check(action, read_action, {"action": action.text}, rule.get("groupingKeyNames"))
                self._words("expected for and how long, such as for 24 h", "for")
                return {"action": action.text, "ttl": self.read_duration()}
        names = self._names()
        self._words(
            "expected of the event after the fields, as in with ip of the event", "of", "the", "event"
        )
        return {"eventFields": names}

    def read_texts(self, attribute: str, read: Callable[..., object]) -> dict[str, str]:
        """Names with texts; after a comma the first word of a clause is none of them, unless = follows it."""
        labels: dict[str, str] = {}
        while not labels or (
            self.upcoming_token.is_sign(",")
            and (self.token_ahead(2).is_sign("=") or not self.token_ahead(1).is_word(*self.clauses))
        ):
            if labels:
                self.take_token()
            name = self.take_token()
            if name.kind != "word" or not self.upcoming_token.is_sign("="):
                raise self.error_at('expected a name, = and a text, such as team = "fraud"', name)
            self.take_token()
            text = self._one(name)
            if name.text in labels:
                raise self.error_at("expected each label once", name)
            self.check(name, read, attribute, labels | {name.text: ""})
            self.check(text, read, attribute, {name.text: text.text})
            labels[name.text] = text.text
        if self.upcoming_token.is_word_or_quoted:
            raise self.error_at("expected a comma or the end; a text with blanks goes in quotes")
        return labels

    def check(self, token: Token, read: Callable[..., object], *given: object) -> None:
        """Refuses at the token what `read` refuses of attributes."""
        try:
            read(*given)
        except BadRule as error:
            raise self.error_at(str(error), token) from None

    def at_most(self) -> dict[str, Any]:
        # `at most`, unless what is read is only what follows it
        said = "".join(f"{token.text.lower()} " for token in self.tokens[: self.place][-2:])
        self._refuse_often(said)
        alerts = self._whole("how many alerts")
        self._words("expected per and a duration, such as per 10 min", "per")
        return {"atMost": {"alerts": alerts, "per": self.read_duration(f"{said}{alerts} per ")}}

    def _refuse_often(self, said: str) -> None:
        """Refuses `once per hour`, `twice a day`, `3 alerts per day`, and says how it is written."""
        token = self.upcoming_token
        alerts = OFTEN.get(token.text.lower()) if token.kind == "word" else None
        if token.is_number(1, 999_999_999) and self.token_ahead(1).is_word(*_OF_ALERTS):
            alerts = int(self.take_token().text)
        if not alerts:
            return
        self.take_token()
        if self.upcoming_token.is_word("per", "every", "each", "in", "within"):
            self.take_token()
        count, unit, *_ = self.take_duration()
        per = duration_words_as_given(count, unit) if unit else "1 h"
        raise self.error_at(f"write {said}{alerts} per {per}", token)

    def end(self, rule: dict[str, Any] | None = None) -> None:
        """Refuses anything after the end. `rule`: the rule so far; after a clause or an absence, no further condition may follow."""
        if self.upcoming_token.kind == "end":
            return
        self.refuse_route()
        if rule and "when" not in rule:
            self.refuse_condition_on_event()
        if rule and (rule.get("absence") or any(row.name in rule for row in self.clauses.values())):
            raise self.error_at(f"expected a comma and {of_clauses()}, or the end")
        raise self.error_at(f"expected and, or, a comma and {of_clauses()}, or the end")

    # -- conditions: what is aggregated, the sign, the limit -----------------------------------------------------------

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
            self._refuse_two_roots(first, condition, limit["limitOf"], limit["limitOf"].get("plusOf"))
        return condition | {"limitOperatorType": NAMES[sign.text]} | limit

    def _refuse_two_roots(self, first: Token, *compared: dict[str, Any] | None) -> None:
        functions = [each["aggregatorFunctionType"] for each in compared if each]
        roots = [name for name in functions if AGGREGATES[name].is_root]
        if len(roots) > 1:
            raise self.error_at(two_roots_message(roots[0]), first)

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
                f"to compare an event with an aggregate write VALUE({name}) per … > 3 × AVG({name}) over 30 d without the current event"
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

    def _of_route(self, has_window: bool = True) -> dict[str, Any]:
        """The filter and the keys. Without a window, a sign that compares may follow them."""
        of: dict[str, Any] = {}
        if self.upcoming_token.is_word("where"):
            self.take_token()
            of["filter"] = self.read_filter()
            is_end = self.upcoming_token.is_sign(*NAMES) and not has_window
            if not (is_end or self.upcoming_token.is_word("per", "over", "within")):
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
        has_window = AGGREGATES[function].has_window
        if with_route:
            of |= self._of_route(has_window)
        self.refuse_route()
        if not has_window:
            if self.upcoming_token.is_word("over", "without"):
                raise self.error_at(f"{function} is of the event itself: it has no window")
            return of
        expected = "expected over and a window, such as over 10 min"
        if with_route and "groupingKeyNames" not in of:
            if self.upcoming_token.is_word("by"):
                raise self.error_at(f"write per {self.token_ahead(1).text}")
            expected = "expected per and fields, or over and a window, such as over 10 min"
        self._words(expected, "over")
        of |= self.read_window()
        if self.upcoming_token.is_word("without"):
            self._words("expected without the current event", "without", "the", "current", "event")
            of["excludeCurrent"] = True
        return of

    def read_window(self) -> dict[str, Any]:
        """What follows `over`."""
        of: dict[str, Any] = {}
        if self.token_ahead(1).is_word("event", "events"):
            of["lastEvents"] = self._last_events()
        if "session" in (self.upcoming_token.text.lower(), self.token_ahead(1).text.lower()):
            expected = "a session is written as in over a session with gaps up to 30 min within 1 d"
            self._words(expected, "a", "session", "with", "gaps", "up", "to")
            of["sessionGap"] = self.read_duration()
            self._words(expected, "within")
            return of | {"window": self.read_duration()}
        of["window"] = self.read_duration()
        if self.upcoming_token.is_word("ending"):
            self.take_token()
            of["endsBefore"] = self.read_duration()
            self._words("expected before, as in over 10 min ending 1 h before", "before")
        return of

    def _last_events(self) -> int:
        number = self.upcoming_token
        count = self._whole("a number of events")
        if not 0 < count <= MAX_LAST_EVENTS:
            raise self.error_at(f"expected a number of events from 1 to {MAX_LAST_EVENTS:,}", number)
        self.take_token()
        self._words(
            "expected within and how far back these events may lie, as in over 10 events within 1 d", "within"
        )
        return count

    def _of(self, function: str) -> dict[str, Any]:
        if AGGREGATES[function].argument_kind == "events" and self.upcoming_token.is_word("events"):
            self.take_token()
            return {}
        if AGGREGATES[function].argument_kind == "steps":
            return {"steps": self.read_steps()}
        self._refuse_foreign_argument(function)
        first = self.upcoming_token
        names = self._names()
        if AGGREGATES[function].argument_kind == "unique":
            return {"unique": names}
        if len(names) > 1:
            raise self.error_at(f"{function} takes one field")
        field = self.schema.field(names[0])
        if AGGREGATES[function].argument_kind == "field" and not field.is_number_or_time:
            raise self.error_at(no_number_message(function, field, self.schema), first)
        if AGGREGATES[function].of_place and names[0] not in self.schema.place_names:
            raise self.error_at(no_place_message(function), first)
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
        if token.text.upper() in AGGREGATES and self.token_ahead(1).is_sign("("):
            raise self.error_at(f"{function} is of a field, not of another function", token)
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
        of = limit["limitOf"] = self._multiple_of()
        while True:
            if self.upcoming_token.kind == "word" and re.match("[+-][0-9]", self.upcoming_token.text):
                sign = self.upcoming_token.text[0]
                raise self.error_at(f"write a blank after {sign}, as in {sign} 5")
            if not self.upcoming_token.is_word("+", "-"):
                return limit
            self._add(of, self.take_token().text.strip("+"))

    def _add(self, limit_of: dict[str, Any], minus: str) -> None:
        """What follows + or - in a limit; `minus`: "-", or "" after +."""
        number, what = self.upcoming_token, "a number"
        if number.text.startswith(("+", "-")):
            raise self._not_plain(what, number)
        is_multiple = self.token_ahead(1).is_sign("(")
        said = "1" if is_multiple else self._amount(what)
        if self.upcoming_token.is_word(*TIMES):
            is_multiple = bool(self.take_token())
        name = "plusOf" if is_multiple else "plus"
        if name in limit_of:
            raise self.error_at("a limit adds up at most two multiples of aggregates and one number", number)
        if not is_multiple:
            limit_of["plus"] = minus + said
            return
        if not Decimal(said):
            raise self.error_at("expected a factor that is not 0", number)
        limit_of["plusOf"] = self._multiple_of() | {"times": minus + said}

    def _multiple_of(self) -> dict[str, Any]:
        """An aggregate in a limit, and what it is divided by."""
        self._refuse_brackets_of_limit()
        aggregate = AGGREGATES.get(self.upcoming_token.text.upper())
        if aggregate and aggregate.resets and self.upcoming_token.kind == "word":
            raise self.error_at(f"{aggregate.name} is no limit: take {aggregate.instead}")
        of = self.read_aggregation()
        self._refuse_factor(of["aggregatorFunctionType"])
        if self.upcoming_token.is_word(*DIVIDED):
            self.take_token()
            of["dividedBy"] = self._whole("a divisor")
            self._refuse_factor(of["aggregatorFunctionType"])
        return of

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

    # -- numbers and durations, and what to write instead of those that people write otherwise -------------------------

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
        """A duration as JSON has it, such as `90m`. `before`: what to write before it, if it is to be written otherwise."""
        duration, more = self._one_duration(before), self.upcoming_token
        ms = parse_duration_ms(duration)
        while self.upcoming_token.kind == "word" and re.match("[0-9]", self.upcoming_token.text):
            ms += parse_duration_ms(self._one_duration())
        if self.upcoming_token is not more:
            raise self.error_at(f"expected one number and one unit: write {duration_words(ms)}", more)
        return duration

    def _one_duration(self, before: str = "") -> str:
        number = self.upcoming_token
        count, unit, is_exact, token = self.take_duration()
        if not unit:
            raise self.error_at("expected a duration in whole s, min, h or d, such as 90 min", token)
        if not 0 < count * UNIT_SECONDS[unit] <= MAX_WINDOW_SECONDS:
            raise self.error_at("expected a duration from 1 s to 3660 d", number)
        if not is_exact:
            words = duration_words_as_given(count, unit)
            raise self.error_at(f"expected a duration in whole s, min, h or d: write {before}{words}", token)
        return f"{count}{unit}"

    def take_duration(self) -> tuple[int, str, bool, Token]:
        """How many of which stored unit, "" if none is meant; whether it is a number with an exact unit; and its last token."""
        token = self.take_token()
        text = token.text.lower() if token.kind == "word" else ""
        match = re.fullmatch("([0-9]{1,12})([a-z]*)", text)
        count, unit = (int(match[1]), match[2]) if match else (1, text)
        if self.upcoming_token.kind == "word" and (match and not unit or unit in ("a", "an", "one")):
            unit = self.upcoming_token.text.lower()
            token = self.take_token()
        if days := _ABOUT_DAYS.get(unit):
            return count * days, "d", False, token
        times, stored = DURATION_UNITS.get(unit, (1, ""))
        return count * times, stored if stored in UNIT_SECONDS else "", match is not None, token


def two_roots_message(function: str) -> str:
    """Refuses a condition that compares two roots."""
    return f"{function} twice in a condition cannot be compared exactly: take {AGGREGATES[function].instead}"


def no_number_message(function: str, field: Field, schema: Schema) -> str:
    """Refuses a field that is no number. Suggests only decimals: integers may be ids, whose sum says nothing."""
    if amounts := ", ".join(name for name in schema.names if schema.field(name).is_decimal):
        return f"{field.name} is a {field.type} in the schema, and {function} takes a numeric field, such as {amounts}"
    if field.type == "string":
        return (
            f"{field.name} is a string in the schema, and {function} takes a numeric field; if its texts are numbers, "
            "it needs the type decimal(18,2) there, or numbers in the events: column.astype(float) in pandas"
        )
    return f"{field.name} is a {field.type} in the schema, and {function} takes a numeric field"


def no_place_message(function: str) -> str:
    """Refuses a field that is no place."""
    return f'{function} takes a place, a derived field of the schema such as here = "place(lat, lon)"'


def duration_words_as_given(count: int, unit: str) -> str:
    """A duration in words, in the stored unit that was meant.

    >>> duration_words_as_given(24, "h"), duration_words_as_given(90, "m")
    ('24 h', '90 min')
    """
    return f"{count} {'min' if unit == 'm' else unit}"


def read_action(given: dict, keys: tuple[str, ...]) -> str:
    action = given.get("action")
    if action not in ACTIONS:
        raise BadRule(expected_message("action", action, f"one of {', '.join(ACTIONS)}"))
    if action != "notify" and not keys:
        raise BadRule(
            expected_message("action", action, "notify: without groupingKeyNames it would be for everybody")
        )
    return action
