"""Rules that learners write."""

import json
import re
from contextlib import suppress
from decimal import ROUND_FLOOR, Decimal

from lab.model import jsontext
from lab.model.aggregates import AGGREGATES
from lab.model.jsontext import BadRecord
from lab.model.language import say, translated
from lab.model.rules import BadRule, Rule, parse_message
from lab.model.schema import PAYMENTS, Schema
from lab.teach.judge import AnswerRefused
from lab.teach.learner import answer_text

WITH_ID = re.compile(r"\s*(\{|[0-9]+\s*(,|:|$|PAUSE|ACTIVE))", re.IGNORECASE)


def control_message_text(message: object, variable_name: str, rule_id: int = 1) -> str:
    """A learner's control message as text; a dictionary becomes JSON. Raises AnswerRefused, which names the variable.

    `rule_id`: the id of a rule that has none. A dictionary without a state is an active rule, as a sentence without one is.

    >>> control_message_text({"groupingKeyNames": []}, "rule_1")
    '{"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": []}'
    >>> control_message_text("COUNT(events) per account over 1 h > 5", "rule_6", 6)
    '6: COUNT(events) per account over 1 h > 5'
    """
    if isinstance(message, str) and jsontext.looks_like_json_object(message):
        with suppress(BadRecord):  # the rule book says what is wrong with it
            found = jsontext.parse_json_object(message)
            message = message if {"ruleId", "ruleState"} <= found.keys() else found
    if isinstance(message, dict):
        defaults = {} if "controlType" in message else {"ruleId": rule_id, "ruleState": "ACTIVE"}
        return json.dumps(defaults | message, default=_json_number)
    if isinstance(message, str):
        colon = "," if message.lstrip().startswith("(") else ":"
        return message if WITH_ID.match(message) else f"{rule_id}{colon} {message}"
    raise AnswerRefused(
        say(
            "{name} must be a whole rule, a string or a dictionary, not {answer}",
            name=variable_name,
            answer=answer_text(message),
        )
    )


def _json_number(value: object) -> object:
    return float(value) if isinstance(value, Decimal) else str(value)


def rule_from_message(
    message: object, variable_name: str, schema: Schema = PAYMENTS, rule_id: int = 1
) -> Rule:
    """The rule that a learner's control message adds; `rule_id`: its id if it has none. Raises AnswerRefused, with the rule book's reason."""
    try:
        rule = parse_message(control_message_text(message, variable_name, rule_id), schema).rule
    except BadRule as error:
        raise AnswerRefused(
            say("{name} is rejected: {reason}", name=variable_name, reason=translated(str(error)))
        ) from None
    if rule is None:
        raise AnswerRefused(say("{name} is a control message, but it adds no rule", name=variable_name))
    return rule


def canonical_rule_text(rule: Rule, schema: Schema = PAYMENTS) -> str:
    """Everything a rule says, written alike for limits that mean the same: for a count, more than 4 is 5 or more.

    >>> canonical_rule_text(rule_from_message("1,(active),(payeeId),,,(COUNT),(>),(4),(20)", "it"))
    'rule 1, ACTIVE: COUNT(events) per payeeId over 20 min >= 5'
    >>> canonical_rule_text(rule_from_message("1,(pause),(payeeId),,(paymentAmount),(MAX),(>),(14.99),(20)", "it"))
    'rule 1, PAUSE: MAX(paymentAmount) per payeeId over 20 min >= 15'
    """
    step = _step(rule, schema)
    if rule.first.operator == "GREATER" and step:
        above = (rule.first.limit / step).to_integral_value(ROUND_FLOOR) * step + step
        rule = rule.with_first(operator="GREATER_EQUAL", limit=Decimal(f"{above.normalize():f}"))
    return f"rule {rule.rule_id}, {rule.state}: {rule.summarize()}"


def _step(rule: Rule, schema: Schema) -> Decimal | None:
    """How far apart the values of its aggregate are; None if there is no such step."""
    if AGGREGATES[rule.aggregation.function].argument_kind != "field":
        return Decimal(1)
    if not rule.aggregation.field or rule.aggregation.function not in ("SUM", "MIN", "MAX"):
        return None
    return Decimal(1).scaleb(-schema.field(rule.aggregation.field).scale)
