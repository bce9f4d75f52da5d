"""The forms of a control message that are not JSON: a sentence after the rule's id, and the demo's line of text.

7: SUM(amount) per userId over 1 h > 500   ──►   {"ruleId": 7, "ruleState": "ACTIVE", "groupingKeyNames": ["userId"], …}
"""

import re
from typing import Any

from lab.model.aggregation import FUNCTIONS
from lab.model.conditionreader import EXAMPLE
from lab.model.kinds import BadRule
from lab.model.schema import Schema
from lab.model.sentence import parse_rule_sentence
from lab.model.words import short_json

SENTENCE = re.compile(r"\s*(?P<id>[0-9]{1,19})(?:\s+(?P<state>[A-Za-z]{1,9}))?\s*:(?P<rule>.*)", re.DOTALL)
SENTENCE_EXAMPLE = f"7: {EXAMPLE}"
LINE_EXAMPLE = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)"
LINE_ATTRIBUTES = (
    *("ruleId", "ruleState", "groupingKeyNames", "unique", "aggregateFieldName"),
    *("aggregatorFunctionType", "limitOperatorType", "limit", "window"),
)
# a sentence without its id, or without the colon after it
_WITHOUT_ID = re.compile(
    rf"\s*(?P<id>[0-9]{{1,19}}\s+)?(?:(?:{'|'.join(FUNCTIONS)}|NO)\b\s*[\w(]|[A-Z_]{{1,40}}\s*\()",
    re.IGNORECASE,
)


def sentence_attributes(sentence: re.Match, schema: Schema) -> dict[str, Any]:
    """The attributes of `7: SUM(amount) over 1 h > 500`, or of `7 PAUSE: …`."""
    rule_id, state = sentence["id"], sentence["state"]
    in_place = " " * sentence.start("rule") + sentence["rule"]  # so that mistakes are told with their places
    return {"ruleId": int(rule_id), "ruleState": state or "ACTIVE"} | parse_rule_sentence(in_place, schema)


def lacks_id(text: str) -> bool:
    """Whether a message can only be a sentence without its id: neither JSON nor a line begins with a letter.

    >>> lacks_id("SUM(amount) over 1 h > 500"), lacks_id("7: SUM(amount) over 1 h > 500"), lacks_id('{"ruleId": 7}')
    (True, False, False)
    """
    return text.lstrip()[:1].isalpha()


def attributes_without_id(text: str, schema: Schema, new_id: int | None) -> dict[str, Any] | None:
    """The attributes of a sentence without its id, which `new_id` stands for; None if the text is no such sentence.

    Without a `new_id`, raises BadConditions for what else is wrong with the sentence, and then BadRule for the missing id.
    """
    if new_id and lacks_id(text):
        return {"ruleId": new_id, "ruleState": "ACTIVE"} | parse_rule_sentence(text, schema)
    if begins := _WITHOUT_ID.match(text):
        in_place = " " * begins.end("id") + text[max(begins.end("id"), 0) :]
        parse_rule_sentence(in_place, schema)
        raise BadRule(
            f"{short_json(text)}: expected the rule's id and a colon before the sentence, such as {SENTENCE_EXAMPLE}"
        )
    return None


def line_attributes(text: str) -> dict[str, Any]:
    """The attributes of `1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)`. Raises BadRule.

    >>> line_attributes("1,(pause)")
    {'ruleId': 1, 'ruleState': 'pause'}
    """
    cells = [re.sub(r"^\((.*)\)$", r"\1", cell.strip()).strip() for cell in text.split(",")]
    if len(cells) > len(LINE_ATTRIBUTES) or not re.fullmatch("[+-]?[0-9]{1,30}", cells[0]):
        raise BadRule(
            f"{short_json(text)} is neither a JSON object, nor a sentence such as {SENTENCE_EXAMPLE}, nor plain text such as {LINE_EXAMPLE}"
        )
    given: dict = {name: cell for name, cell in zip(LINE_ATTRIBUTES, cells, strict=False) if cell}
    if given.get("ruleState", "").upper() == "CONTROL":
        raise BadRule(
            'ruleState: no plain text for control, send {"ruleState": "CONTROL", "controlType": ...}'
        )
    given["ruleId"] = int(cells[0])
    for name in {"groupingKeyNames", "unique"} & given.keys():
        given[name] = [part.strip() for part in given[name].split("&")]
    return given
