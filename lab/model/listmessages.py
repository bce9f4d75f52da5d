"""Reads the messages that change named lists: as JSON, or in words. A mute is an entry of the list @muted.

{"list": "highrisk", "add": ["KR", 7], "until": "2026-12-01T00:00:00Z"}    add KR, 7 to @highrisk until 2026-12-01T00:00:00Z
{"list": "highrisk", "remove": ["KR"]}                                     remove KR from @highrisk
{"list": "highrisk", "clear": true}                                        clear @highrisk
{"mute": 7, "group": {"payeeId": 25}, "until": 1764547200000}              mute rule 7 for payeeId=25 until 2025-12-01
{"unmute": 7, "group": {"payeeId": 25}}                                    unmute rule 7 for payeeId=25

7 {"payeeId":25}     ◄── how @muted names a group of rule 7; 7 alone: all groups of the rule
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2b
from typing import Any

from lab.model import jsontext
from lab.model.conditions import TokenReader, parse_token_value, quote_if_needed
from lab.model.field import MAX_TEXT, Value
from lab.model.formatting import expected_message, plain_text, unknown_name_message
from lab.model.group import Group, group_for_alert, group_json, sorted_group
from lab.model.jsontext import BadRecord
from lab.model.kinds import BadRule
from lab.model.lists import FOREVER, MUTED, NAME, NAME_ALLOWED
from lab.model.schema import MAX_TIME, Schema
from lab.model.times import time_ms

TIME_ALLOWED = "a time such as 2026-12-01T00:00:00Z, or ms since the epoch"
MAX_MUTED = 50_000  # characters of a rule's id and a group
ATTRIBUTES = ("list", "add", "remove", "clear", "until", "changeId")
MUTE_ATTRIBUTES = ("mute", "unmute", "group", "until", "changeId")
VERBS = ("add", "remove", "clear", "mute", "unmute")
_SENTENCE = re.compile(rf"\s*(?:{'|'.join(VERBS)})\b", re.IGNORECASE)
_MUTED = re.compile(r"([0-9]{1,19})(?: (\{.*\}))?", re.DOTALL)
AT_ONCE_BYTES = 32 << 10  # of the values in one message that the kit makes


@dataclass(frozen=True)
class ListChange:
    """What a message asks for: the list is emptied, values are removed, then others added until a time, ms."""

    name: str
    add: tuple[str, ...] = ()
    until: int = FOREVER
    remove: tuple[str, ...] = ()
    clear: bool = False


def is_list_sentence(text: str) -> bool:
    """Whether a message is meant as words about a list."""
    return _SENTENCE.match(text) is not None


def is_list_object(given: dict) -> bool:
    """Whether the attributes of a message are those of a change of a list."""
    return any(name in given for name in ("list", "mute", "unmute"))


def read_list_object(given: dict, schema: Schema) -> ListChange:
    """The change that the attributes ask for. Raises BadRule.

    >>> from lab.model.schema import PAYMENTS
    >>> read_list_object({"list": "highrisk", "add": ["KR"], "until": 5}, PAYMENTS)
    ListChange(name='highrisk', add=('KR',), until=5, remove=(), clear=False)
    """
    if "list" not in given:
        return _read_mute(given, schema)
    for name in given:
        if name not in ATTRIBUTES:
            raise BadRule(unknown_name_message("attribute", name, ATTRIBUTES))
    name = _name(given["list"])
    add, remove = (_values(given, each, name, schema) for each in ("add", "remove"))
    clear = given.get("clear")
    if not isinstance(clear, bool | None):
        raise BadRule(expected_message("clear", clear, "true or false"))
    if not (add or remove or clear):
        raise BadRule("list: nothing to change, expected add, remove or clear")
    return ListChange(name, add, _until(given.get("until"), bool(add)), remove, bool(clear))


def _name(given: object) -> str:
    if not isinstance(given, str) or not re.fullmatch(NAME, given):
        raise BadRule(expected_message("list", given, NAME_ALLOWED))
    return given


def _until(given: object, adds: bool) -> int:
    """The time until which events see what is added, ms."""
    if given is None:
        return FOREVER
    if not adds:
        raise BadRule("until: only for what is added")
    time = given if type(given) is int else time_ms(given, "iso") or time_ms(given, "utc")
    if time is None or not 0 <= time < MAX_TIME:
        raise BadRule(expected_message("until", given, TIME_ALLOWED))
    return time


def _values(given: dict, attribute: str, name: str, schema: Schema) -> tuple[str, ...]:
    listed = given.get(attribute)
    if not isinstance(listed, list | None):
        raise BadRule(expected_message(attribute, listed, "a list of texts and numbers"))
    return tuple(dict.fromkeys(_entry(attribute, each, name, schema) for each in listed or ()))


def _entry(attribute: str, value: object, name: str, schema: Schema) -> str:
    """A value as a list has it: a text, or a number as it is written without an exponent."""
    text = value if isinstance(value, str) else None
    if type(value) is int or isinstance(value, Decimal):
        number = jsontext.exact_decimal(value, precision=36, scale=12)
        text = None if number is None else plain_text(number).rstrip("0").rstrip(".")
    if name == MUTED and text:
        return _muted_entry(text, schema)
    if not text or len(text) > MAX_TEXT or not jsontext.is_valid_unicode(text):
        allowed = f"a text of 1 to {MAX_TEXT:,} characters, or a number below 10^24 with at most 12 digits after the point"
        raise BadRule(expected_message(attribute, value, allowed))
    return text


# -- mutes -------------------------------------------------------------------------------------------------------------


def muted_entry(rule_id: int, group: Group) -> str:
    """How @muted names a group of a rule, in whatever order its fields are.

    >>> muted_entry(7, (("payeeId", 25), ("beneficiaryId", 12)))
    '7 {"beneficiaryId":12,"payeeId":25}'
    """
    return f"{rule_id} {group_json(sorted_group(group))}"


def split_muted_entry(entry: str) -> tuple[int, tuple[str, ...] | None]:
    """The rule's id and the grouping fields of an entry of @muted; None: all groups of the rule.

    >>> split_muted_entry('7 {"payeeId":25}'), split_muted_entry("7")
    ((7, ('payeeId',)), (7, None))
    """
    rule_id, _, group = entry.partition(" ")
    return int(rule_id), tuple(json.loads(group)) if group else None


def _muted_entry(text: str, schema: Schema) -> str:
    found = _MUTED.fullmatch(text) if len(text) <= MAX_MUTED else None
    if not found:
        raise BadRule(expected_message("muted", text, 'a rule\'s id, or an id and a group: 7 {"payeeId":25}'))
    if found[2] is None:
        return found[1]
    try:
        group = jsontext.parse_json_object(found[2])
    except BadRecord as error:
        raise BadRule(f"muted: {error}") from None
    return _group_entry(int(found[1]), group, schema)


def _group_entry(rule_id: int, group: object, schema: Schema) -> str:
    if not isinstance(group, dict):
        raise BadRule(expected_message("group", group, 'an object such as {"payeeId": 25}'))
    values: dict[str, Value] = {}
    for name, value in sorted(group.items()):
        try:
            values[name] = schema.field(name).parse(value)
        except ValueError as error:
            raise BadRule(f"group: {error}") from None
        if values[name] is None:
            raise BadRule(f"group: {name} is null, and an event without a value is in no group")
    return muted_entry(rule_id, group_for_alert(values, values.values()))


def _read_mute(given: dict, schema: Schema) -> ListChange:
    for name in given:
        if name not in MUTE_ATTRIBUTES:
            raise BadRule(unknown_name_message("attribute", name, MUTE_ATTRIBUTES))
    if "mute" in given and "unmute" in given:
        raise BadRule("mute, unmute: both are given, expected one of them")
    mutes = "mute" in given
    verb = "mute" if mutes else "unmute"
    rule_id = given[verb]
    if type(rule_id) is not int or not 0 < rule_id < 1 << 63:
        raise BadRule(expected_message(verb, rule_id, "a rule's id: a positive integer below 2^63"))
    group = given.get("group")
    entry = str(rule_id) if group is None else _group_entry(rule_id, group, schema)
    until = _until(given.get("until"), mutes)
    return ListChange(MUTED, (entry,), until) if mutes else ListChange(MUTED, remove=(entry,))


# -- in words ----------------------------------------------------------------------------------------------------------


def parse_list_sentence(text: str, schema: Schema) -> ListChange:
    """The change that a sentence asks for. Raises BadConditions, BadRule.

    >>> from lab.model.schema import PAYMENTS
    >>> parse_list_sentence('add KR, "New York" to @highrisk', PAYMENTS).add
    ('KR', 'New York')
    >>> parse_list_sentence("mute rule 7 for payeeId = 25 until 2026-12-01", PAYMENTS).add
    ('7 {"payeeId":25}',)
    """
    return read_list_object(_ListReader(text, schema).read(), schema)


class _ListReader(TokenReader):
    """Reads a sentence as the attributes of the same message."""

    def __init__(self, text: str, schema: Schema):
        super().__init__(text)
        self.schema = schema

    def read(self) -> dict[str, Any]:
        verb = self.take_token().text.lower()
        if verb in ("mute", "unmute"):
            given = self._mute(verb)
        elif verb == "clear":
            given = {"list": self._list(), "clear": True}
        else:
            values = self._values(before := "to" if verb == "add" else "from")
            self._word(
                before, f"expected , or {before} @list after a value; one with blanks or signs goes in quotes"
            )
            given = {"list": self._list(), verb: values}
        if verb in ("add", "mute") and self.upcoming_token.is_word("until"):
            self.take_token()
            until = self.take_token().text
            given["until"] = int(until) if re.fullmatch("[0-9]{1,15}", until) else until
        if self.upcoming_token.kind != "end":
            raise self.error_at(
                "expected until and a time, or the end" if verb in ("add", "mute") else "expected the end"
            )
        return given

    def _word(self, word: str, reason: str) -> None:
        if not self.upcoming_token.is_word(word):
            raise self.error_at(reason)
        self.take_token()

    def _list(self) -> str:
        token = self.take_token()
        if token.kind != "word" or not token.text.startswith("@"):
            raise self.error_at("expected the name of a list with its @, such as @highrisk", token)
        return token.text[1:]

    def _values(self, before: str) -> list[str]:
        found = list[str]()
        while True:
            token = self.upcoming_token
            if not token.is_word_or_quoted or token.is_word(before):
                raise self.error_at("expected a value")
            found.append(self.take_token().text)
            if not self.upcoming_token.is_sign(","):
                return found
            self.take_token()

    def _mute(self, verb: str) -> dict[str, Any]:
        if self.upcoming_token.is_word("rule"):
            self.take_token()
        number = self.take_token()
        if number.kind != "word" or not re.fullmatch("[0-9]{1,19}", number.text):
            raise self.error_at(f"expected a rule's id: {verb} rule 7", number)
        given: dict[str, Any] = {verb: int(number.text)}
        if self.upcoming_token.is_word("for"):
            self.take_token()
            given["group"] = dict(self._group())
        return given

    def _group(self) -> Iterator[tuple[str, Value]]:
        while True:
            name = self.take_token()
            try:
                field = self.schema.field(name.text)
            except ValueError as error:
                raise self.error_at(str(error), name) from None
            if not self.upcoming_token.is_sign("="):
                raise self.error_at(f"expected = and a value after {name.text}")
            self.take_token()
            if not self.upcoming_token.is_word_or_quoted:
                raise self.error_at(f"expected a value for {name.text}; one with signs goes in quotes")
            yield name.text, parse_token_value(self.text, field, self.take_token())
            if not self.upcoming_token.is_sign(","):
                return
            self.take_token()


# -- written -----------------------------------------------------------------------------------------------------------


def list_messages(
    name: str, change: str, values: Sequence[str], until: int | str | None = None
) -> Iterator[str]:
    """Messages that add values to a list, or remove them, as `change` says; as many as it takes, and one if there are none.

    >>> list(list_messages("highrisk", "add", ["KR", "CN"], "2026-12-01"))
    ['{"list": "highrisk", "add": ["KR", "CN"], "until": "2026-12-01"}']
    """
    more = {} if until is None else {"until": until}
    for some in message_sized(values) if values else [values]:
        yield json.dumps({"list": name, change: some} | more)


def message_sized(values: Sequence[str]) -> Iterator[Sequence[str]]:
    """The values in parts that each fit a message, in their order.

    >>> [len(part) for part in message_sized(["x" * 2000] * 20)]
    [16, 4]
    """
    first, size = 0, 0
    for end, value in enumerate(values):
        size += (more := len(json.dumps(value)) + 2)
        if end > first and size > AT_ONCE_BYTES:
            yield values[first:end]
            first, size = end, more
    if values:
        yield values[first:]


def list_key(name: str, values: Iterable[str], clear: bool = False) -> str:
    """What a compacted control log keeps one message of, so that it keeps what makes the list: a newer message about the same values,
    whatever it says of them, settles all that an older one settled; messages about other values are kept beside it, in their order.

    >>> list_key("highrisk", ["KR", "CN"]) == list_key("highrisk", ["CN", "KR"]) != list_key("highrisk", ["KR"])
    True
    """
    about = json.dumps([clear, *sorted(values)])
    return f"@{name} {blake2b(about.encode(), digest_size=16).hexdigest()}"


def mute_sentence(verb: str, rule_id: int, group: dict[str, str], until: str | None = None) -> str:
    """The words that mute a rule, or a group of it, or end that.

    >>> mute_sentence("mute", 7, {"payeeId": "25"}, "2026-12-01")
    'mute rule 7 for payeeId=25 until 2026-12-01'
    """
    of = ", ".join(f"{name}={quote_if_needed(value)}" for name, value in group.items())
    return f"{verb} rule {rule_id}{f' for {of}' if of else ''}{f' until {until}' if until else ''}"
