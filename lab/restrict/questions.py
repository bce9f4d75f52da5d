"""What clients ask the enforcement service: its form, and what makes a question invalid.

    {"questions": [{"action": "payment", "payeeId": 7, "paymentAmount": 12.5}]}

A question is an event that has not happened yet: its action, and its fields with the names of the schema.

    {"questions": [{"transactionId": 7, "eventTime": 1738024200000, "payeeId": 7, "paymentAmount": 12.5}], "maxAgeMs": 1000}

What rules would make of events is asked in the same form; such a question is the whole record.
"""

import json
from decimal import Decimal
from typing import Any

from lab.model.formatting import expected_message, short_json
from lab.model.jsontext import BadRecord, decode_text, is_valid_unicode, parse_json_object
from lab.restrict.client import AT_ONCE, MAX_BODY
from lab.restrict.restrictions import KNOWN, MAX_DIGITS, is_short_number
from lab.restrict.standing import BadQuestion

# how old the state may be that judges an event: unless the request says, and at most
MAX_AGE_MS, MOST_AGE_MS = 1_000, 86_400_000


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
    return _read(body)[0]


def read_events(body: bytes) -> tuple[list[Any], int]:
    """The events of a request, not validated yet, and how old the state may be that judges them, ms. Raises BadRecord."""
    questions, more = _read(body, "maxAgeMs")
    max_age_ms = more.get("maxAgeMs", MAX_AGE_MS)
    if type(max_age_ms) is not int or not 0 <= max_age_ms <= MOST_AGE_MS:
        raise BadRecord(expected_message("maxAgeMs", max_age_ms, f"a whole number from 0 to {MOST_AGE_MS:,}"))
    return questions, max_age_ms


def _read(body: bytes, *more: str) -> tuple[list[Any], dict[str, Any]]:
    """The questions, and the other members, which may have these names."""
    asked = parse_json_object(decode_text(body, "request", MAX_BODY), members=_unique_members)
    questions = asked.get("questions") if type(asked) is dict and {*asked} <= {"questions", *more} else None
    if not isinstance(questions, list) or not 1 <= len(questions) <= AT_ONCE:
        allowed = ", ".join((f'{{"questions": [...]}} with 1 to {AT_ONCE} questions', *more))
        raise BadRecord(f"expected {allowed}, and nothing else")
    return questions, asked


def event_line(question: Any) -> bytes:
    """An event of a request as the record that a log would have, every number as it was sent. Raises BadQuestion."""
    if not isinstance(question, dict):
        raise BadQuestion(expected_message("question", question, "the record of an event, an object"))
    return _text(question).encode()


def _text(value: Any) -> str:
    match value:
        case TwiceNamed():
            raise BadQuestion(f"{short_json(value.name)} comes twice, expected each field once")
        case dict():
            return f"{{{', '.join(f'{json.dumps(name)}: {_text(each)}' for name, each in value.items())}}}"
        case list():
            return f"[{', '.join(map(_text, value))}]"
        case Decimal():
            return str(value)
        case bytes():  # a number that no Decimal can hold
            return value.decode()
    return json.dumps(value)


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
