"""Reading control messages: text ──► attributes ──► each attribute checked ──► Message

Attributes are named as in the Flink demo (`com.ververica.field.dynamicrules.Rule`): its rules load unchanged.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeVar

from lab.model import jsontext
from lab.model.aggregates import AGGREGATES, aggregates_of
from lab.model.aggregation import FUNCTIONS, OPERATORS, Aggregation, Condition, Multiple
from lab.model.attributes import (
    ATTRIBUTES,
    CONTROLS,
    COUNT_WORDS,
    MAX_EVENT_FIELDS,
    MAX_KEYS,
    MAX_LAST_EVENTS,
    OPERATOR_ALIASES,
    STATES,
    carried_attributes,
    note_attributes,
)
from lab.model.conditions import BadConditions
from lab.model.field import Field
from lab.model.formatting import expected_message, plain_text, short_json, unknown_name_message
from lab.model.jsontext import BadRecord
from lab.model.kinds import MAX_WINDOW_SECONDS, BadRule
from lab.model.listmessages import (
    ListChange,
    is_list_object,
    is_list_sentence,
    parse_list_sentence,
    read_list_object,
)
from lab.model.rule import UNIT_SECONDS, Rule
from lab.model.schema import Schema
from lab.model.sentence import (
    EXAMPLE,
    MAX_CONDITIONS,
    no_number_message,
    no_place_message,
    parse_rule_sentence,
    read_action,
    two_roots_message,
)
from lab.model.times import DURATION_UNITS, parse_duration_ms
from lab.model.when import Steps, When, filter_of_values
from lab.model.whenreader import parse_filter, parse_steps, parse_when

MAX_MESSAGE_BYTES = 64 << 10
REMEMBERED, REMEMBERED_BYTES = 4096, 4096  # messages, and the longest of them
GROWS = 16  # times that a rule, as it is written, may be as long as its message
AGGREGATION = (
    *("aggregateFieldName", "aggregatorFunctionType", "unique", "steps", "window", "where", "excludeCurrent"),
    *("lastEvents", "endsBefore", "sessionGap"),
)
CONDITION = (*AGGREGATION, "limitOperatorType", "limit", "limitOf")  # attributes of one in `and` or `or`
LIMIT_OF = (*AGGREGATION, "dividedBy", "plus", "plusOf")
PLUS_OF = (*AGGREGATION, "times", "dividedBy")
JOINED = ("and", "or")
OTHER_WINDOWS = (
    "lastEvents",
    "endsBefore",
    "sessionGap",
)  # that make a window another one than the time up to the event
WINDOWS, SHORTEST_MS = ("windowMinutes", "window"), 1_000
MAX_MULTIPLE, MAX_DIVIDED_BY = 1_000_000, 1_000_000
STEPS_EXAMPLE = "action = reset, action = pay"
ABSENCE = {"aggregatorFunctionType": "COUNT", "limitOperatorType": "EQUAL", "limit": 0}
AT_MOST = ("alerts", "per")
MAX_ALERTS = 1_000_000  # that a rule gives at most in some time
T = TypeVar("T")


@dataclass(frozen=True)
class Message:
    """What a control message asks for: a "rule", a new "state" for a rule, a "delete", a "control", or a change of a "list"."""

    kind: str
    rule: Rule | None = None
    rule_id: int = 0
    state: str = ""
    control: str = ""
    list_change: ListChange | None = None
    author: str | None = None
    reason: str | None = None


def parse_message(text: str | bytes, schema: Schema, new_id: int | None = None) -> Message:
    """Read a control message against the schema of its events. Raises BadRule.

    It is JSON, or a rule's id, perhaps its state, a colon and the rule as a sentence, or the plain text of
    `com.ververica.field.dynamicrules.RuleParser`: id, state, keys, unique, field, function, operator, limit, minutes.
    `new_id`: the id of a sentence that has none; if it is not given, such a sentence is refused.

    >>> from lab.model.schema import PAYMENTS
    >>> parse_message('{"ruleId": 1, "ruleState": "PAUSE"}', PAYMENTS)
    Message(kind='state', rule=None, rule_id=1, state='PAUSE', control='', list_change=None, author=None, reason=None)
    >>> parse_message("7: SUM(paymentAmount) per payeeId over 20 min > 50", PAYMENTS).rule.first.limit
    Decimal('50')
    >>> parse_message('{"ruleId": 1, "windowMinuts": 5}', PAYMENTS)
    Traceback (most recent call last):
    lab.model.kinds.BadRule: unknown attribute "windowMinuts", did you mean windowMinutes?...
    """
    try:
        text = jsontext.decode_text(as_bytes(text), "message", MAX_MESSAGE_BYTES)
        if is_list_sentence(text):
            return Message("list", list_change=parse_list_sentence(text, schema))
        if jsontext.looks_like_json_object(text):
            given = jsontext.parse_json_object(text)
        elif sentence := SENTENCE.match(text):
            given = sentence_attributes(sentence, schema)
        else:
            given = attributes_without_id(text, schema, new_id) or line_attributes(text)
        message = build_message(given, schema)
        if message.rule and len(text) > MAX_MESSAGE_BYTES // GROWS:
            _check_reads_back(message.rule)
    except (BadRecord, BadConditions) as error:
        raise BadRule(str(error)) from None
    return message


def message_or_refusal(text: bytes, schema: Schema) -> Message | BadRule:
    """What `parse_message` gives or raises: driver and tasks in one process apply the same messages, and read each once."""
    if type(text) is bytes and len(text) <= REMEMBERED_BYTES:
        return _remembered(text, schema)
    return _outcome(text, schema)


def _outcome(text: bytes, schema: Schema) -> Message | BadRule:
    try:
        return parse_message(text, schema)
    except BadRule as error:
        return BadRule(str(error))


_remembered = lru_cache(maxsize=REMEMBERED)(_outcome)


def _check_reads_back(rule: Rule) -> None:
    """Raises BadRecord if it is too long as it is written: JSON in ASCII, amounts with all their decimal places."""
    for text, form in (
        (json.dumps(rule.to_dict()), "JSON"),
        (f"{rule.rule_id}: {rule.describe()}", "a sentence"),
    ):
        jsontext.decode_text(text.encode(), f"rule as {form}", MAX_MESSAGE_BYTES)


def as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode(errors="surrogatepass")


def build_message(given: dict, schema: Schema) -> Message:
    """The message with these attributes. Raises BadRule."""
    if is_list_object(given):
        return Message("list", list_change=read_list_object(given, schema))
    for name in given:
        if name not in ATTRIBUTES:
            raise BadRule(unknown_name_message("attribute", name, ATTRIBUTES))
    notes = {name: kind.read(name, given.get(name)) for name, kind in note_attributes()}
    return replace(_message_about_rules(given, schema), **notes)


def _message_about_rules(given: dict, schema: Schema) -> Message:
    state = read_one_of(given, "ruleState", STATES)
    if state == "CONTROL":
        return Message("control", state=state, control=read_one_of(given, "controlType", CONTROLS))
    rule_id = given.get("ruleId")
    if isinstance(rule_id, str) and re.fullmatch("[0-9]{1,19}", rule_id):  # as the demo's backend sends it
        rule_id = int(rule_id)
    if type(rule_id) is not int or not 0 < rule_id < 1 << 63:
        raise BadRule(expected_message("ruleId", rule_id, "a positive integer below 2^63"))
    if state == "DELETE":
        return Message("delete", rule_id=rule_id, state=state)
    if given.get("controlType") is not None:
        raise BadRule(
            expected_message("controlType", given["controlType"], "nothing unless ruleState is CONTROL")
        )
    if state == "SHADOW" and schema.taken_back:
        allowed = (
            "ACTIVE or PAUSE: events of this schema can be taken back, and the shadow log withdraws no alerts"
        )
        raise BadRule(expected_message("ruleState", state, allowed))
    if all(given.get(row.name) is None for row in ATTRIBUTES.values() if row.defines):
        return Message("state", rule_id=rule_id, state=state)
    return Message("rule", _build_rule(given, rule_id, state, schema), rule_id, state)


def _build_rule(given: dict, rule_id: int, state: str, schema: Schema) -> Rule:
    """The rule that the attributes define, each of them read in the order in which its mistakes are told."""
    keys = _at_most_fields(given, "groupingKeyNames", MAX_KEYS, schema)
    filter = read_filter(given, schema)
    absence = read_flag("absence", given)
    conditions: tuple[Condition, ...] = (_condition(_of_absence(given) if absence else given, schema),)
    joined_by = None
    for joined in JOINED:
        if given.get(joined) is not None:
            joined_by, conditions = joined, (*conditions, *_more(given, joined, schema))
    when = read_condition("when", given, schema)
    at_most, per_ms = None, 0
    if given.get("atMost") is not None:
        at_most, per_ms = _inside("atMost", given["atMost"], AT_MOST, _at_most, schema)
    action, ttl_ms = None, 0
    if any(given.get(name) is not None for name in ("action", "ttl")):
        action, ttl_ms = read_action(given, keys), 1000 * read_duration_seconds("ttl", given.get("ttl"))
    said = [(name, kind.read(name, given.get(name))) for name, kind in carried_attributes()]
    return Rule(
        *(rule_id, state, keys, filter, conditions, joined_by),
        action=action,
        ttl_ms=ttl_ms,
        when=when,
        carried=tuple((name, value) for name, value in said if value is not None),
        at_most=at_most,
        at_most_per_ms=per_ms,
        absence=absence,
        event_fields=_at_most_fields(given, "eventFields", MAX_EVENT_FIELDS, schema),
    )


def _at_most_fields(given: dict, name: str, most: int, schema: Schema) -> tuple[str, ...]:
    names = read_fields(given, name, schema)
    if len(names) > most:
        raise BadRule(f"{name}: {len(names)} fields, expected at most {most}")
    return names


# -- conditions --------------------------------------------------------------------------------------------------------


def _condition(given: dict, schema: Schema) -> Condition:
    """The condition that a rule has itself, or one of those in `and` or `or`."""
    function, field, unique = _aggregation(given, schema)
    operator = read_one_of(given, "limitOperatorType", OPERATORS, OPERATOR_ALIASES)
    limit, window_ms = read_decimal("limit", given), _window_ms(function, given)
    of = Aggregation(function, field, unique, window_ms, *_which_events(function, given, schema))
    if given.get("limitOf") is None:
        return Condition(of, operator, limit)
    if not 0 < limit <= MAX_MULTIPLE:
        allowed = f"above 0 and at most {MAX_MULTIPLE:,} beside limitOf, of which it is a multiple"
        raise BadRule(expected_message("limit", given["limit"], allowed))
    of_limit = _inside("limitOf", given["limitOf"], LIMIT_OF, _limit_of, schema)
    condition = Condition(of, operator, limit, *of_limit)
    roots = [each.function for each in condition.aggregations if each and each.is_root]
    if len(roots) > 1:
        raise BadRule(f"limitOf: {two_roots_message(roots[0])}")
    return condition


def _window_ms(function: str, given: dict) -> int:
    """The window of an aggregation; of one that is of the judged event alone the shortest, which need not be given."""
    if AGGREGATES[function].has_window:
        return read_window_ms(given)
    for name in OTHER_WINDOWS:
        if given.get(name) is not None:
            raise BadRule(f"{name}: not for {function}, which is of the event itself: leave it out")
    if given.get("excludeCurrent"):
        raise BadRule(f"excludeCurrent: not for {function}, which is of the current event")
    if any(given.get(name) is not None for name in WINDOWS) and read_window_ms(given) != SHORTEST_MS:
        raise BadRule(f"window: not for {function}, which is of the event itself: leave it out")
    return SHORTEST_MS


def _which_events(
    function: str, given: dict, schema: Schema
) -> tuple[When | None, bool, int, int, int, Steps | None]:
    """Which events count: `where`, `excludeCurrent`, `lastEvents`, `endsBefore`, `sessionGap`; and which are `steps`."""
    before_ms, gap_ms = (
        0 if given.get(name) is None else 1000 * read_duration_seconds(name, given[name])
        for name in ("endsBefore", "sessionGap")
    )
    for name in ("lastEvents", "endsBefore"):
        if gap_ms and given.get(name) is not None:
            raise BadRule(
                f"{name}: not beside sessionGap, as a session is all events up to the one that is judged"
            )
    excluded = read_flag("excludeCurrent", given) or AGGREGATES[function].of_events_before or before_ms > 0
    last = given.get("lastEvents")
    for name in ("excludeCurrent", *OTHER_WINDOWS) if AGGREGATES[function].of_pair else ():
        if given.get(name):
            raise BadRule(f"{name}: not for {function}, which is of the event and the one before it")
    if last is not None and (type(last) is not int or not 0 < last <= MAX_LAST_EVENTS):
        raise BadRule(expected_message("lastEvents", last, f"a whole number from 1 to {MAX_LAST_EVENTS:,}"))
    where = read_condition("where", given, schema)
    return where, excluded, last or 0, before_ms, gap_ms, _steps(function, given, schema)


def _steps(function: str, given: dict, schema: Schema) -> Steps | None:
    steps = given.get("steps")
    if AGGREGATES[function].argument_kind != "steps":
        if steps is not None:
            raise BadRule(f"steps: not for {function}: only {', '.join(aggregates_of('steps'))} has steps")
        return None
    if steps is None:
        raise BadRule(
            expected_message("steps", steps, f"the steps of {function}: {short_json(STEPS_EXAMPLE)}")
        )
    return _in_words("steps", steps, Steps, parse_steps, STEPS_EXAMPLE, schema)


def _of_absence(given: dict) -> dict:
    """What a rule says that counts the events after one: COUNT = 0, of which it need say nothing."""
    for name in ("excludeCurrent", *OTHER_WINDOWS, "limitOf", *JOINED, "atMost"):
        if given.get(name):
            raise BadRule(
                f"{name}: not beside absence, which is about the events after one, and has no other condition"
            )
    said = ABSENCE | {name: value for name, value in given.items() if value is not None}
    function = read_one_of(said, "aggregatorFunctionType", FUNCTIONS, COUNT_WORDS)
    operator = read_one_of(said, "limitOperatorType", OPERATORS, OPERATOR_ALIASES)
    counts_all = said.get("aggregateFieldName") in (None, "COUNT", "COUNT_FLINK")
    if (function, operator, counts_all, read_decimal("limit", said)) != ("COUNT", "EQUAL", True, 0):
        raise BadRule(
            "absence: COUNT = 0 is all that such a rule can say; leave out function, field, operator and limit"
        )
    return said


def _limit_of(given: dict, schema: Schema) -> tuple[Aggregation, int, Decimal, Multiple | None]:
    of, divided_by = _in_limit(given, schema)
    plus = Decimal(0) if given.get("plus") is None else read_decimal("plus", given)
    if given.get("plusOf") is None:
        return of, divided_by, plus, None
    return of, divided_by, plus, _inside("plusOf", given["plusOf"], PLUS_OF, _plus_of, schema)


def _plus_of(given: dict, schema: Schema) -> Multiple:
    of, divided_by = _in_limit(given, schema)
    times = Decimal(1) if given.get("times") is None else read_decimal("times", given)
    if not 0 < abs(times) <= MAX_MULTIPLE:
        allowed = f"a number from -{MAX_MULTIPLE:,} to {MAX_MULTIPLE:,} that is not 0"
        raise BadRule(expected_message("times", given["times"], allowed))
    return Multiple(of, times, divided_by)


def _in_limit(given: dict, schema: Schema) -> tuple[Aggregation, int]:
    """An aggregate in a limit, and what it is divided by."""
    function, field, unique = _aggregation(given, schema)
    if AGGREGATES[function].resets:
        raise BadRule(
            expected_message(
                "aggregatorFunctionType", function, "another function: a limit is no multiple of this one"
            )
        )
    of = Aggregation(
        function, field, unique, _window_ms(function, given), *_which_events(function, given, schema)
    )
    divided_by = given.get("dividedBy")
    if divided_by is not None and (type(divided_by) is not int or not 0 < divided_by <= MAX_DIVIDED_BY):
        raise BadRule(
            expected_message("dividedBy", divided_by, f"a whole number from 1 to {MAX_DIVIDED_BY:,}")
        )
    return of, divided_by or 1


def _at_most(given: dict, schema: Schema) -> tuple[int, int]:
    alerts = given.get("alerts")
    if type(alerts) is not int or not 0 < alerts <= MAX_ALERTS:
        raise BadRule(expected_message("alerts", alerts, f"a whole number from 1 to {MAX_ALERTS:,}"))
    return alerts, 1000 * read_duration_seconds("per", given.get("per"))


def _more(given: dict, joined: str, schema: Schema) -> tuple[Condition, ...]:
    """The conditions in `and` or `or`."""
    listed, (other,) = given[joined], {*JOINED} - {joined}
    if given.get(other) is not None:
        raise BadRule("and, or: both are given, expected one of them")
    if not isinstance(listed, list) or not 0 < len(listed) < MAX_CONDITIONS:
        allowed = f"a list of 1 to {MAX_CONDITIONS - 1} conditions beside the rule's own"
        raise BadRule(expected_message(joined, listed, allowed))
    return tuple(
        _inside(f"{joined} {number}", each, CONDITION, _condition, schema)
        for number, each in enumerate(listed, 1)
    )


def _inside(
    where: str, given: object, allowed: tuple[str, ...], read: Callable[[dict, Schema], T], schema: Schema
) -> T:
    """Reads an object inside a message; what is wrong with it says where."""
    if not isinstance(given, dict):
        example = '{"aggregatorFunctionType": "COUNT", "window": "10m", ...}'
        if allowed is AT_MOST:
            example = '{"alerts": 1, "per": "10m"}'
        raise BadRule(expected_message(where, given, f"an object such as {example}"))
    try:
        for name in given:
            if name not in allowed:
                raise BadRule(unknown_name_message("attribute", name, allowed))
        return read(given, schema)
    except BadRule as error:
        raise BadRule(f"{where}: {error}") from None


def _aggregation(given: dict, schema: Schema) -> tuple[str, str | None, tuple[str, ...]]:
    """The function, its field and its unique fields."""
    name: Any = given.get("aggregateFieldName")
    unique = read_fields(given, "unique", schema)
    counts = COUNT_WORDS.get(name, "") if isinstance(name, str) else ""
    function = counts
    if not counts or given.get("aggregatorFunctionType") is not None:
        function = read_one_of(given, "aggregatorFunctionType", FUNCTIONS, COUNT_WORDS)
    if counts:  # whatever the function: the demo writes SUM beside COUNT_FLINK, and counts
        return counts, None, ()
    field = None if name is None else read_field("aggregateFieldName", name, schema)
    if AGGREGATES[function].argument_kind == "unique":
        if field and given.get("unique") is None:
            unique = (name,)
        if not unique:
            raise BadRule(
                expected_message("unique", given.get("unique"), "the fields whose distinct values to count")
            )
        return function, None, unique
    if AGGREGATES[function].argument_kind == "steps":
        if field:
            raise BadRule(f"aggregateFieldName: not for {function}, which has steps: leave it out")
        return function, None, ()
    if AGGREGATES[function].argument_kind == "field":
        if field is None:
            raise BadRule(expected_message("aggregateFieldName", None, f"a numeric field for {function}"))
        if not field.is_number_or_time:
            raise BadRule(f"aggregateFieldName: {no_number_message(function, field, schema)}")
    if AGGREGATES[function].of_place and name not in schema.place_names:
        raise BadRule(f"aggregateFieldName: {no_place_message(function)}")
    return function, name, ()


# -- attributes in JSON ------------------------------------------------------------------------------------------------
# Each is read by itself: what is wrong with one is said with its name, its value and what is right.

_OF_SENTENCE = re.compile("([0-9]{1,12}) *([a-z]{1,10})")  # a duration as sentences have it
_WINDOW_ALLOWED = 'whole minutes, or text such as "10s", "10m", "24h", "90d"; from 1 s to 3660 d'


def read_one_of(given: dict, name: str, words: tuple[str, ...], aliases: dict[str, str] | None = None) -> str:
    """The attribute as one of the words, whatever its case."""
    known = {word: word for word in words} | (aliases or {})
    word = given.get(name)
    if not isinstance(word, str) or word.upper() not in known:
        raise BadRule(expected_message(name, word, f"one of {', '.join(known)}"))
    return known[word.upper()]


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
    return None if words is None else _in_words(name, words, When, parse_when, "amount > 500", schema)


def _in_words(
    name: str, words: Any, of: Any, parse: Callable[[str, Schema], T], example: str, schema: Schema
) -> T:
    if isinstance(words, of):
        return words
    if not isinstance(words, str):
        raise BadRule(expected_message(name, words, f"a text such as {short_json(example)}"))
    try:
        return parse(words, schema)
    except BadConditions as error:
        raise BadRule(f"{name}: {error}") from None


def read_flag(name: str, given: dict) -> bool:
    """Whether an attribute is true; it may be missing."""
    value = given.get(name)
    if not isinstance(value, bool | None):
        raise BadRule(expected_message(name, value, "true or false"))
    return bool(value)


def read_decimal(name: str, given: dict) -> Decimal:
    """`limit`, `plus` or `times`."""
    number = jsontext.exact_decimal(given.get(name), precision=36, scale=12)
    if number is None:
        allowed = "a decimal number below 10^24, with at most 12 digits after the point"
        raise BadRule(expected_message(name, given.get(name), allowed))
    return Decimal(plain_text(number).rstrip("0").rstrip("."))


def read_window_ms(given: dict) -> int:
    names = [name for name in WINDOWS if given.get(name) is not None]
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
    spaced = None if seconds else _OF_SENTENCE.fullmatch(text)
    times, unit = DURATION_UNITS.get(spaced[2], (1, "")) if spaced else (1, "")
    if spaced and unit in UNIT_SECONDS:
        code = f"{int(spaced[1]) * times}{unit}"
        if 0 < parse_duration_ms(code) <= 1000 * MAX_WINDOW_SECONDS:
            raise BadRule(
                expected_message(name, window, f"a number and one letter: write {short_json(code)}")
            )
    if not 0 < seconds <= MAX_WINDOW_SECONDS:
        raise BadRule(expected_message(name, window, _WINDOW_ALLOWED))
    return seconds


# -- forms that are not JSON -------------------------------------------------------------------------------------------
# A sentence after the rule's id, and the demo's line of text.

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
    """Whether a message can only be a rule's sentence without its id: neither JSON nor a line begins with a letter.

    >>> lacks_id("SUM(amount) over 1 h > 500"), lacks_id("7: SUM(amount) over 1 h > 500"), lacks_id('{"ruleId": 7}')
    (True, False, False)
    """
    return text.lstrip()[:1].isalpha() and not is_list_sentence(text)


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
    if not text.strip():
        raise BadRule(
            "an empty message, such as a tombstone (a record without a value), which deletes nothing: "
            'send {"ruleId": 7, "ruleState": "DELETE"} to delete rule 7'
        )
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
