"""Texts with which rules compare fields and which no event has: such a condition is true of none, and the rule is silent.

Kind = "refnd"   ──►   no event has Kind "refnd"; the values are purchase, refund
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lab.model.formatting import short_json
from lab.model.rule import Rule
from lab.model.schema import Schema
from lab.model.when import AllOf, AnyOf, Comparison, When

MOST_WANTED = 50  # values that are looked for
SHOWN = 5  # values of a field that are named instead
MOST_KEPT = 1_000  # different values of a field
WITHOUT_ESCAPES = re.compile(r"[ !#-.0-\[\]-~]{1,100}")  # a text that JSON has in one form only


class WantedValues:
    """Looks for the texts that rules compare fields with: in all lines for those of records' own fields, else in some events.

    >>> from lab.model.rules import parse_message
    >>> from lab.model.schema import LOGINS
    >>> rule = parse_message('1: COUNT(events) where action = "lgin" per userId over 1 h > 3', LOGINS).rule
    >>> wanted = WantedValues([rule], LOGINS)
    >>> lines = list(wanted.through([b'{"eventId": 1, "eventTime": 5, "action": "login"}']))
    >>> wanted.note(LOGINS.parse(lines[0]))
    >>> list(wanted.hints())
    ['rule 1: no event has action "lgin"; the values are login']
    """

    def __init__(self, rules: Iterable[Rule], schema: Schema):
        self._unseen: dict[tuple[str, str], int] = {}  # field and text -> the first rule that wants it
        for rule in rules:
            for field, text in _compared(rule, schema):
                if len(self._unseen) < MOST_WANTED:
                    self._unseen.setdefault((field, text), rule.rule_id)
        derived = {each.field.name for each in schema.derivations}
        self._searched = {
            pair: json.dumps(pair[1]).encode()
            for pair in self._unseen
            if pair[0] not in derived and WITHOUT_ESCAPES.fullmatch(pair[1])
        }
        self._left = dict(self._searched)
        self._values: dict[str, Counter[str]] = defaultdict(Counter)
        self._events = 0

    def through(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The lines of JSON as they are; a text that is in one of them is not missing, whatever the field."""
        left = iter(lines)
        while self._left and (line := next(left, None)) is not None:
            for pair in [pair for pair, text in self._left.items() if text in line]:
                del self._left[pair], self._unseen[pair]
            yield line
        yield from left

    @property
    def searches(self) -> bool:
        """Whether there are texts for which the other lines must go `through`, too."""
        return bool(self._left)

    def note(self, event: Mapping[str, Any]) -> None:
        """Takes in the values of one of the events."""
        self._events += 1
        for field in {field for field, _ in self._unseen}:
            value = event[field]
            self._unseen.pop((field, value), None)
            if isinstance(value, str) and (len(counts := self._values[field]) < MOST_KEPT or value in counts):
                counts[value] += 1

    def hints(self, all_lines: bool = True) -> Iterator[str]:
        """A sentence for each text that was not found. `all_lines`: whether all lines went `through`."""
        for (field, text), rule_id in self._unseen.items():
            if not self._events:
                return
            certain = all_lines and (field, text) in self._searched
            who = "no event has" if certain else f"none of {self._events:,} events that were looked at has"
            values = [value for value, _ in self._values[field].most_common(SHOWN)]
            more = len(self._values[field]) > SHOWN
            there = (
                f"; {'frequent values' if more else 'the values'} are {', '.join(values)}" if values else ""
            )
            yield f"rule {rule_id}: {who} {field} {short_json(text)}{there}"


def _compared(rule: Rule, schema: Schema) -> Iterator[tuple[str, str]]:
    """The fields that are compared with texts, and these."""
    for condition in rule.event_conditions:
        for part in _comparisons(condition):
            values = part.operand if isinstance(part.operand, tuple) else (part.operand,)
            if part.operator in ("=", "!=", "in", "not in") and schema.field(part.field).type == "string":
                yield from ((part.field, value) for value in values if isinstance(value, str))


def _comparisons(condition: When | None) -> Iterator[Comparison]:
    match condition:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from _comparisons(part)
        case Comparison():
            yield condition
