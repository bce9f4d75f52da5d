"""What clients ask the enforcement service: its form, and what makes a question invalid.

    {"questions": [{"action": "payment", "payeeId": 7, "paymentAmount": 12.5}]}

A question is an event that has not happened yet: its action, and its fields with the names of the schema.
"""

from typing import Any

from lab.model.formatting import expected_message, short_json
from lab.model.jsontext import BadRecord, decode_text, is_valid_unicode, parse_json_object
from lab.restrict.client import AT_ONCE, MAX_BODY
from lab.restrict.restrictions import KNOWN, MAX_DIGITS, is_short_number
from lab.restrict.standing import BadQuestion


class TwiceNamed(dict):
    """A JSON object that has two members of the same name, `name`: nobody can tell which one is meant."""

    name: str


def _unique_members(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in members:
        if name in found:
            found = TwiceNamed(members)
            found.name = name
            break
        found[name] = value
    return found


def read_questions(body: bytes) -> list[Any]:
    """The questions of a request, not validated yet. Raises BadRecord."""
    asked = parse_json_object(decode_text(body, "request", MAX_BODY), members=_unique_members)
    questions = asked.get("questions") if type(asked) is dict and len(asked) == 1 else None
    if not isinstance(questions, list) or not 1 <= len(questions) <= AT_ONCE:
        raise BadRecord(f'expected {{"questions": [...]}} with 1 to {AT_ONCE} questions, and nothing else')
    return questions


def check_question(question: Any) -> None:
    """Raises BadQuestion if nobody could judge the question, whoever is restricted."""
    if not isinstance(question, dict):
        raise BadQuestion(
            expected_message("question", question, 'an object such as {"action": "login", "userId": 7}')
        )
    if isinstance(question, TwiceNamed):
        raise BadQuestion(f"{short_json(question.name)} comes twice, expected each field once")
    action = question.get("action")
    if action not in KNOWN:  # whether any restriction forbids it cannot be said
        raise BadQuestion(expected_message("action", action, f"one of {', '.join(KNOWN)}"))
    allowed = f"a text of valid Unicode, a number of at most {MAX_DIGITS} digits, true, false or null"
    for name, value in question.items():
        is_text = isinstance(value, str) and is_valid_unicode(value)
        if not (value is None or isinstance(value, bool) or is_text or is_short_number(value)):
            raise BadQuestion(expected_message(short_json(name), value, allowed))
