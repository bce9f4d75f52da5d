"""A rule as one sentence for people to read and type: `parse_rule_sentence` reads what `Rule.describe` writes.

    COUNT(events where action = "failed") per userId over 10 min >= 5, when action = "login"
    SUM(amount) per payer over 1 h > 5 × SUM(amount) over 30 d ÷ 30 and COUNT(events) over 30 d >= 10
    NO(events where action = "confirm") per userId within 15 min after, when action = "order"
    COUNT(events) per ip over 1 min > 9, at most 1 per 1 h, severity high, title "Scan", labels team = "web", with userId of the event

sentence:    (condition [joined] | absence) {"," clause}          each clause once, in any order
clause:      "when" when | "at" "most" number "per" duration | "then" action "for" duration | "severity" severity
             | "title" text | "labels" label "=" text {"," label "=" text} | "with" field {"," field} "of" "the" "event"
joined:      "and" condition {"and" condition} | "or" condition {"or" condition}
condition:   aggregation operator limit          limit: number | [number "×"] aggregation ["÷" number] ["+" | "-" number]
aggregation: function "(" ("events" | field {"," field}) ["where" when] ")" ["where" filter] ["per" field {"," field}]
             "over" duration ["without the current event"]          filter and per: of the first condition
absence:     "NO" "(" "events" ["where" when] ")" ["where" filter] ["per" field {"," field}] "within" duration "after"

What it gives is the attributes of a message, conditions on events as the trees that were read; `lab.model.messages` checks them all.
"""

from collections.abc import Callable
from typing import Any, cast

from lab.model.attributereaders import read_action
from lab.model.attributes import ATTRIBUTES, clause_attributes
from lab.model.conditionreader import ConditionReader
from lab.model.conditions import Token
from lab.model.kinds import BadRule, Carried
from lab.model.numberreader import duration_words_as_given
from lab.model.schema import Schema

MAX_CONDITIONS = 4  # of a rule
OFTEN = {"once": 1, "one": 1, "twice": 2, "two": 2}  # what people write for a number of alerts
_OF_ALERTS = ("alert", "alerts", "time", "times")  # and what they write after it


def parse_rule_sentence(text: str, schema: Schema) -> dict[str, Any]:
    """The attributes of a rule, without id and state. Raises BadConditions, which says where, and what would be right.

    >>> from lab.model.schema import LOGINS
    >>> parse_rule_sentence("COUNT(events) per userId over 10 min >= 5", LOGINS)["window"]
    '10m'
    >>> parse_rule_sentence("COUNT(events) per userId for 10 min >= 5", LOGINS)
    Traceback (most recent call last):
    lab.model.conditions.BadConditions: expected over and a window, such as over 10 min (at "for", character 26)
    """
    reader = _SentenceReader(text, schema)
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
    return _read_part(_SentenceReader.more, text, schema)


def parse_at_most(text: str, schema: Schema) -> dict[str, Any]:
    """The attribute `atMost` that `1 per 10 min` means.

    >>> from lab.model.schema import LOGINS
    >>> parse_at_most("1 per 10 min", LOGINS)
    {'atMost': {'alerts': 1, 'per': '10m'}}
    """
    return _read_part(_SentenceReader.at_most, text, schema)


def parse_limit(text: str, schema: Schema) -> dict[str, Any]:
    """The attributes `limit` and perhaps `limitOf` of a limit in words.

    >>> from lab.model.schema import LOGINS
    >>> parse_limit("5 × SUM(amount) over 30 d ÷ 30", LOGINS)["limitOf"]["dividedBy"]
    30
    """
    return _read_part(_SentenceReader.read_limit, text, schema)


def parse_carried(name: str, text: str, schema: Schema) -> dict[str, Any]:
    """The attribute of this name, which alerts carry, that its clause without the name means.

    >>> from lab.model.schema import LOGINS
    >>> parse_carried("labels", 'team = fraud, desk = "2, left"', LOGINS)
    {'labels': {'team': 'fraud', 'desk': '2, left'}}
    """
    kind = cast(Carried, ATTRIBUTES[name].kind)
    return _read_part(lambda reader: {name: kind.read_clause(name, reader)}, text, schema)


def _read_part(
    part: Callable[["_SentenceReader"], dict[str, Any]], text: str, schema: Schema
) -> dict[str, Any]:
    reader = _SentenceReader(text, schema)
    read = part(reader)
    reader.end()
    return read


def of_clauses() -> str:
    """The words with which clauses begin, for messages."""
    *words, last = (row.clause.begins for row in clause_attributes().values() if row.clause)
    return f"{', '.join(words)} or {last}"


class _SentenceReader(ConditionReader):
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
