"""Rules that learners write."""

import json

from lab.model.rules import BadRule, Rule, parse_message
from lab.model.schema import PAYMENTS, Schema
from lab.teach.judge import Refused, cut


def text_of(message: object, name: str) -> str:
    """A control message as text; `name`: what the learner calls it. Raises Refused.

    >>> text_of({"ruleId": 1}, "rule_1")
    '{"ruleId": 1}'
    """
    if isinstance(message, dict):
        return json.dumps(message, default=str)
    if isinstance(message, str):
        return message
    raise Refused(f"{name} is a whole rule, a text or a dictionary, not {cut(message)}")


def rule_of(message: object, name: str, schema: Schema = PAYMENTS) -> Rule:
    """The rule that a message adds. Raises Refused, with the rule book's reason."""
    try:
        rule = parse_message(text_of(message, name), schema).rule
    except BadRule as error:
        raise Refused(f"{name} is rejected: {error}") from None
    if rule is None:
        raise Refused(f"{name} is a control message, but it adds no rule")
    return rule
