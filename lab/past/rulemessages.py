"""Rules in whatever form a program has them, as messages of the control log."""

import json
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lab.model.messages import lacks_id
from lab.model.rules import BadRule, Rule, RuleBook, parse_message
from lab.model.schema import Schema
from lab.past.replay import read_rules, read_rules_argument


class RuleHint(UserWarning):
    """What is doubtful in a rule, such as a named list without values."""


def warn_of_hints(book: RuleBook, rules: Iterable[Rule]) -> None:
    """Warns of what is doubtful in some rules, with the lists as they are in a book."""
    for rule in rules:
        for hint in book.hints(rule):
            warnings.warn(f"rule {rule.rule_id}: {hint}", RuleHint, stacklevel=3)


def rule_messages(rules: Any, schema: Schema) -> list[str]:
    """Rules in whatever form as messages; a sentence without an id gets its place as its id. Raises BadRule, OSError.

    >>> from lab.model.schema import PAYMENTS
    >>> rule_messages(["COUNT(events) over 1 h > 5", {"ruleId": 7, "ruleState": "PAUSE"}], PAYMENTS)[1]
    '{"ruleId": 7, "ruleState": "PAUSE"}'
    """
    given = messages_of(rules)
    ids = [0 if lacks_id(text) else parse_message(text, schema).rule_id for text in given]
    for place, text in enumerate(given, 1):
        if lacks_id(text):
            if place in ids:
                raise BadRule(
                    f'rule {place} of {len(given)} has no id, and another one has the id {place}: give it one: "99: {text}"'
                )
            rule = parse_message(text, schema, place).rule
            given[place - 1] = json.dumps(rule.to_dict()) if rule else text
    return given


def messages_of(rules: Any) -> list[str]:
    """Rules in whatever form as messages, which may lack ids."""
    return [message for rule in _as_list(rules) for message in _messages_of(rule)]


def _as_list(rules: Any) -> list:
    if isinstance(rules, str | bytes | Path | dict | Rule):
        return [rules]
    try:
        return list(rules)
    except TypeError:
        raise TypeError(
            f"rules: a {type(rules).__name__}, expected a sentence, a dict, a Rule, a path, or a list of them"
        ) from None


def _messages_of(rule: Any) -> list[str]:
    match rule:
        case Rule():
            return [json.dumps(rule.to_dict())]
        case dict():
            return [json.dumps(rule, default=str)]
        case Path():
            return read_rules(rule)
        case bytes():
            return [rule.decode(errors="surrogateescape")]
        case str():
            return read_rules_argument(rule)
    raise TypeError(
        f"a {type(rule).__name__} in place of a rule, expected a sentence, a dict, a Rule or a path"
    )
