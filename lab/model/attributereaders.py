"""Attributes of control messages in JSON, each read by itself: what is wrong with one is said with its name, its value and what is right."""

import re
from decimal import Decimal
from typing import Any

from lab.model import jsontext
from lab.model.attributes import ACTIONS
from lab.model.conditions import BadConditions
from lab.model.field import Field
from lab.model.filters import filter_of_values
from lab.model.jsontext import BadRecord
from lab.model.kinds import MAX_WINDOW_SECONDS, BadRule
from lab.model.rule import UNIT_SECONDS
from lab.model.schema import Schema
from lab.model.times import parse_duration_ms
from lab.model.when import When
from lab.model.whenreader import parse_filter, parse_when
from lab.model.words import expected_message, plain_text, short_json

_OF_SENTENCE = re.compile("([0-9]{1,12}) *([smhd]|min)")  # a duration as sentences have it
_WINDOW_ALLOWED = 'whole minutes, or text such as "10s", "10m", "24h", "90d"; from 1 s to 3660 d'


def read_one_of(given: dict, name: str, words: tuple[str, ...], aliases: dict[str, str] | None = None) -> str:
    """The attribute as one of the words, whatever its case."""
    known = {word: word for word in words} | (aliases or {})
    word = given.get(name)
    if not isinstance(word, str) or word.upper() not in known:
        raise BadRule(expected_message(name, word, f"one of {', '.join(known)}"))
    return known[word.upper()]


def read_action(given: dict, keys: tuple[str, ...]) -> str:
    action = given.get("action")
    if action not in ACTIONS:
        raise BadRule(expected_message("action", action, f"one of {', '.join(ACTIONS)}"))
    if action != "notify" and not keys:
        raise BadRule(
            expected_message("action", action, "notify: without groupingKeyNames it would be for everybody")
        )
    return action


def read_field(attribute: str, name: object, schema: Schema) -> Field:
    if not isinstance(name, str):
        raise BadRule(expected_message(attribute, name, "the name of an event field"))
    try:
        return schema.field(name)
    except ValueError as error:
        raise BadRule(f"{attribute}: {error}") from None


def read_fields(given: dict, attribute: str, schema: Schema) -> tuple[str, ...]:
    listed = given.get(attribute)
    if not isinstance(listed, list | None):
        raise BadRule(expected_message(attribute, listed, "a list of event fields"))
    names = tuple(read_field(attribute, name, schema).name for name in listed or ())
    if len(set(names)) < len(names):
        raise BadRule(f"{attribute}: {short_json(', '.join(names))}, expected each field once")
    return names


def read_filter(given: dict, schema: Schema) -> When | None:
    wanted = given.get("filter")
    if isinstance(wanted, When):
        return wanted
    if isinstance(wanted, str):
        try:
            return parse_filter(wanted, schema)
        except BadConditions as error:
            raise BadRule(f"filter: {error}") from None
    if not isinstance(wanted, dict | None):
        allowed = f'an object such as {{"action": "login"}}, or a text such as {short_json("amount > 500")}'
        raise BadRule(expected_message("filter", wanted, allowed))
    pairs = []
    for name, value in sorted((wanted or {}).items()):
        field = read_field("filter", name, schema)
        if field.type == "time":
            raise BadRule(expected_message(f"filter.{name}", value, "a field that is no time"))
        try:
            values: Any = {field.parse(each) for each in (value if isinstance(value, list) else [value])}
        except BadRecord as error:
            raise BadRule(f"filter.{error}") from None
        if not values or None in values:
            raise BadRule(
                expected_message(f"filter.{name}", value, "a value or a list of values, none of them null")
            )
        pairs.append((name, tuple(sorted(values))))
    return filter_of_values(pairs)


def read_condition(name: str, given: dict, schema: Schema) -> When | None:
    """`when` or `where`, in words, or as a sentence has read it."""
    words = given.get(name)
    if words is None or isinstance(words, When):
        return words
    if not isinstance(words, str):
        raise BadRule(expected_message(name, words, f"a text such as {short_json('amount > 500')}"))
    try:
        return parse_when(words, schema)
    except BadConditions as error:
        raise BadRule(f"{name}: {error}") from None


def read_flag(name: str, given: dict) -> bool:
    """Whether an attribute is true; it may be missing."""
    value = given.get(name)
    if not isinstance(value, bool | None):
        raise BadRule(expected_message(name, value, "true or false"))
    return bool(value)


def read_decimal(name: str, given: dict) -> Decimal:
    """`limit` or `plus`."""
    number = jsontext.exact_decimal(given.get(name), precision=36, scale=12)
    if number is None:
        allowed = "a decimal number below 10^24, with at most 12 digits after the point"
        raise BadRule(expected_message(name, given.get(name), allowed))
    return Decimal(plain_text(number).rstrip("0").rstrip("."))


def read_window_ms(given: dict) -> int:
    names = [name for name in ("windowMinutes", "window") if given.get(name) is not None]
    if not names:
        raise BadRule(expected_message("window", None, _WINDOW_ALLOWED))
    if len(seconds := {read_duration_seconds(name, given[name]) for name in names}) > 1:
        windows = " and ".join(f"{name}: {short_json(given[name])}" for name in names)
        raise BadRule(f"{windows} differ, expected one of them or the same in both")
    return 1000 * seconds.pop()


def read_duration_seconds(name: str, window: object) -> int:
    text = str(window) if isinstance(window, int | str) else ""
    try:
        seconds = parse_duration_ms(text + "m" * text.isdecimal(), UNIT_SECONDS) // 1000
    except ValueError:
        seconds = 0
    if not seconds and (spaced := _OF_SENTENCE.fullmatch(text)):
        code = spaced[1] + spaced[2][0]
        if 0 < parse_duration_ms(code) <= 1000 * MAX_WINDOW_SECONDS:
            raise BadRule(
                expected_message(name, window, f"a number and one letter: write {short_json(code)}")
            )
    if not 0 < seconds <= MAX_WINDOW_SECONDS:
        raise BadRule(expected_message(name, window, _WINDOW_ALLOWED))
    return seconds
