"""Rules as data: reading control messages, and the book of the rules in force.

    {"ruleId": 1, "ruleState": "ACTIVE", ...} ──► RuleBook.apply ──► {"status": "accepted", "version": 1, ...}

Attributes are named as in the Flink demo (`com.ververica.field.dynamicrules.Rule`): its rules load unchanged.
"""

import json
import operator as compare
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

from lab.model import jsontext
from lab.model.aggregates import AGGREGATES, Exact
from lab.model.deadletters import SHOWN, fingerprint
from lab.model.field import Field
from lab.model.jsontext import BadRecord
from lab.model.schema import Schema
from lab.model.words import expected, html_table, plain, shown, unknown

_OPERATORS = {
    "EQUAL": ("=", compare.eq),
    "NOT_EQUAL": ("!=", compare.ne),
    "GREATER": (">", compare.gt),
    "GREATER_EQUAL": (">=", compare.ge),
    "LESS": ("<", compare.lt),
    "LESS_EQUAL": ("<=", compare.le),
}
OPERATORS = tuple(_OPERATORS)
FUNCTIONS = tuple(AGGREGATES)
STATES = ("ACTIVE", "PAUSE", "DELETE", "CONTROL")
ACTIONS = ("block_login", "hold_payment", "notify")  # what a restriction that follows an alert does
CONTROLS = ("CLEAR_STATE_ALL", "CLEAR_STATE_ALL_STOP", "DELETE_RULES_ALL", "EXPORT_RULES_CURRENT")
MAX_MESSAGE_BYTES = 64 << 10
MAX_RULES = 20_000

# sorted by field, values sorted and distinct
Filter = tuple[tuple[str, tuple[str | int | Decimal, ...]], ...]


class BadRule(ValueError):
    """A control message that is refused; its text names the attribute, its value and what is allowed."""


@dataclass(frozen=True)
class Route:
    """Where events go: rules with the same set of keys (sorted here) and the same filter share one copy.

    >>> Route(("userId",), (("action", ("login",)), ("country", ("CN", "KR")))).id
    'userId|action=login&country=CN,KR'
    """

    keys: tuple[str, ...]
    filter: Filter

    @property
    def id(self) -> str:
        """Short text, the same in every process and different for every route; `{}` stands for no keys."""
        keys = ",".join(self.keys) or "{}"
        return f"{keys}|{_filter_text(self.filter, '&', '=', ',')}" if self.filter else keys


@dataclass(frozen=True)
class Rule:
    """Alert when `function` of `field` over the last `window_ms` of a group is `operator` than `limit`.

    `field` None: every event counts. `unique` is for UNIQUE_COUNT only. `version` 0: not yet in a book.
    `action`: what to do with the group of an alert, for `ttl_ms`; the engine keeps both and acts on neither.

    >>> from lab.model.schema import PAYMENTS
    >>> message = "1,(active),(payeeId&beneficiaryId),,(paymentAmount),(SUM),(>),(50),(20)"
    >>> rule = parse_message(message, PAYMENTS).rule
    >>> rule.describe()
    'SUM(paymentAmount) per payeeId, beneficiaryId over 20 min > 50'
    >>> rule.route.id, rule.needs, rule.holds(Decimal("50.01")), rule.holds(50)
    ('beneficiaryId,payeeId', ('paymentAmount',), True, False)
    """

    rule_id: int
    state: str
    keys: tuple[str, ...]
    filter: Filter
    function: str
    field: str | None
    unique: tuple[str, ...]
    operator: str
    limit: Decimal
    window_ms: int
    version: int = 0
    action: str | None = None
    ttl_ms: int | None = None

    @cached_property
    def route(self) -> Route:
        return Route(tuple(sorted(self.keys)), self.filter)

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """The event fields to keep for its aggregate, sorted."""
        return tuple(sorted({*self.unique, self.field} - {None}))

    @property
    def symbol(self) -> str:
        """Its operator, short: `>`."""
        return symbol(self.operator)

    @property
    def relation(self) -> Callable:
        """Its operator as a function of aggregate and limit; numbers or NumPy arrays."""
        return _OPERATORS[self.operator][1]

    def holds(self, measure: Exact) -> bool:
        """Whether what its aggregate measures is in the rule's relation to the limit, exactly; for STDDEV that is the variance."""
        limit = AGGREGATES[self.function].compared(Fraction(self.limit))
        return self.relation(Fraction(measure), limit)

    def to_dict(self) -> dict[str, Any]:
        """The attributes as a message gives them, ready for `json.dumps`; `parse_message` reads them back."""
        lists = {name: [_json_value(value) for value in values] for name, values in self.filter}
        filter = {name: values if len(values) > 1 else values[0] for name, values in lists.items()}
        attributes = {
            "ruleId": self.rule_id,
            "ruleState": self.state,
            "groupingKeyNames": list(self.keys),
            "filter": filter or None,
            "aggregateFieldName": self.field,
            "aggregatorFunctionType": self.function,
            "unique": list(self.unique) or None,
            "limitOperatorType": self.operator,
            "limit": _json_value(self.limit),
            "window": "".join(_duration(self.window_ms)),
            "action": self.action,
            "ttl": "".join(_duration(self.ttl_ms)) if self.action else None,
            "version": self.version or None,
        }
        return {name: value for name, value in attributes.items() if value is not None}

    def describe(self) -> str:
        """The rule in plain English."""
        of = ", ".join(self.unique) or self.field or "events"
        where = f" where {_filter_text(self.filter, ' and ', ' = ', ' or ')}" if self.filter else ""
        per = f" per {', '.join(self.keys)}" if self.keys else ""
        then = f", then {self.action} for {_duration_text(self.ttl_ms)}" if self.action else ""
        over = _duration_text(self.window_ms)
        return f"{self.function}({of}){where}{per} over {over} {self.symbol} {plain(self.limit)}{then}"

    def _repr_html_(self) -> str:
        return _table([self])


@dataclass(frozen=True)
class Message:
    """What a control message asks for: a "rule", a new "state" for a rule, a "delete", or a "control"."""

    kind: str
    rule: Rule | None = None
    rule_id: int | None = None
    state: str | None = None
    control: str | None = None


@dataclass
class RuleBook:
    """The rules in force and how many versions each id has had: the state that every operator replicates.

    >>> from lab.model.schema import PAYMENTS
    >>> book = RuleBook(PAYMENTS)
    >>> book.apply("1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)")
    {'status': 'accepted', 'ruleId': 1, 'version': 1, 'ruleState': 'ACTIVE'}
    >>> book.apply("2,(pause)")["reason"]
    'ruleId: 2, expected a rule in force (there are: 1)'
    """

    schema: Schema
    rules: dict[int, Rule] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)

    def apply(self, text: str | bytes) -> dict[str, Any]:
        """Carry out a control message and return its acknowledgement; a rejected one changes nothing.

        Of a long one that is rejected the acknowledgement holds the beginning, the number of `bytes` and their `sha256`.
        """
        try:
            return {"status": "accepted", **self._carry_out(parse_message(text, self.schema))}
        except BadRule as error:
            raw = _as_bytes(text)
            as_it_came = raw.decode(errors="backslashreplace")
            answer = {"status": "rejected", "reason": str(error), "message": as_it_came[:SHOWN]}
            return answer | (fingerprint(raw) if len(as_it_came) > SHOWN else {})

    def _carry_out(self, message: Message) -> dict[str, Any]:
        if message.kind == "control":
            return {"controlType": message.control, **self._control(message.control)}
        rule_id = message.rule_id
        if message.kind != "rule" and rule_id not in self.rules:
            ids = [str(rule.rule_id) for rule in self.sorted()]
            known = ", ".join(ids[:20] + ["..."] * (len(ids) > 20)) or "none"
            raise BadRule(expected("ruleId", rule_id, f"a rule in force (there are: {known})"))
        if rule_id not in self.rules and len(self.rules) >= MAX_RULES:
            raise BadRule(
                f"ruleId: {rule_id} is new, but at most {MAX_RULES} rules are allowed; delete one first"
            )
        version = self.versions[rule_id] = self.versions.get(rule_id, 0) + 1
        if message.kind == "delete":
            del self.rules[rule_id]
        else:
            rule = message.rule or self.rules[rule_id]
            self.rules[rule_id] = replace(rule, state=message.state, version=version)
        return {"ruleId": rule_id, "version": version, "ruleState": message.state}

    def _control(self, control: str) -> dict[str, Any]:
        """What the book itself does for a control; the windows are the evaluator's to clear."""
        if control == "EXPORT_RULES_CURRENT":
            return {"rules": [rule.to_dict() for rule in self.sorted()]}
        if control == "DELETE_RULES_ALL":
            deleted = sorted(self.rules)
            self.rules.clear()
            return {"ruleIds": deleted}
        return {}

    def sorted(self) -> list[Rule]:
        """The rules by id."""
        return [self.rules[rule_id] for rule_id in sorted(self.rules)]

    def routes(self) -> dict[Route, tuple[Rule, ...]]:
        """The rules of each route, ACTIVE and PAUSE, by id; routes in the order of their lowest rule id."""
        routes: dict[Route, list[Rule]] = {}
        for rule in self.sorted():
            routes.setdefault(rule.route, []).append(rule)
        return {route: tuple(rules) for route, rules in routes.items()}

    def to_json(self) -> str:
        """The whole book as JSON text; `from_json` gives an equal book."""
        rules = [rule.to_dict() for rule in self.sorted()]
        return json.dumps({"rules": rules, "versions": sorted(self.versions.items())})

    @classmethod
    def from_json(cls, text: str, schema: Schema) -> "RuleBook":
        """The book that `to_json` wrote. Raises BadRule when the schema no longer has what a rule needs."""
        book = json.loads(text)
        rules = [replace(_message(given, schema).rule, version=given["version"]) for given in book["rules"]]
        return cls(schema, {rule.rule_id: rule for rule in rules}, dict(book["versions"]))

    def _repr_html_(self) -> str:
        return _table(self.sorted())


def symbol(operator: str) -> str:
    """An operator, short; unknown text stays as it is.

    >>> symbol("GREATER_EQUAL")
    '>='
    """
    return _OPERATORS[operator][0] if operator in _OPERATORS else operator


def parse_message(text: str | bytes, schema: Schema) -> Message:
    """Read a control message against the schema of its events. Raises BadRule.

    It is JSON, or the plain text of `com.ververica.field.dynamicrules.RuleParser`: id, state, keys, unique,
    field, function, operator, limit, minutes.

    >>> from lab.model.schema import PAYMENTS
    >>> parse_message('{"ruleId": 1, "ruleState": "PAUSE"}', PAYMENTS)
    Message(kind='state', rule=None, rule_id=1, state='PAUSE', control=None)
    >>> parse_message('{"ruleId": 1, "windowMinuts": 5}', PAYMENTS)
    Traceback (most recent call last):
    lab.model.rules.BadRule: unknown attribute "windowMinuts", did you mean windowMinutes?...
    """
    try:
        text = jsontext.read_text(_as_bytes(text), "message", MAX_MESSAGE_BYTES)
        given = jsontext.read_object(text) if jsontext.is_object(text) else _read_plain(text)
        return _message(given, schema)
    except BadRecord as error:
        raise BadRule(str(error)) from None


# How parse_message reads: text -> attributes -> each attribute checked -> Message

_PLAIN_CELLS = (
    *("ruleId", "ruleState", "groupingKeyNames", "unique", "aggregateFieldName"),
    *("aggregatorFunctionType", "limitOperatorType", "limit", "window"),
)
_DEFINITION = (*_PLAIN_CELLS[2:], "windowMinutes", "filter", "action", "ttl")
# changeId: which change of a rule store the message carries (lab.rulestore.capture); the book leaves it alone
ATTRIBUTES = ("ruleId", "ruleState", *_DEFINITION, "controlType", "version", "changeId")
COUNT_WORDS = {"COUNT": "COUNT", "COUNT_WITH_RESET": "COUNT_WITH_RESET"}
COUNT_WORDS |= {f"{word}_FLINK": function for word, function in COUNT_WORDS.items()}
OPERATOR_ALIASES = {symbol: name for name, (symbol, _) in _OPERATORS.items()}
OPERATOR_ALIASES |= {"GT": "GREATER", "LT": "LESS"}
_UNIT_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
MAX_WINDOW_SECONDS = 3660 * 86_400
_WINDOW_ALLOWED = 'whole minutes, or text such as "10s", "10m", "24h", "90d"; from 1 s to 3660 d'


def _as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode(errors="surrogatepass")


def _read_plain(text: str) -> dict[str, Any]:
    cells = [re.sub(r"^\((.*)\)$", r"\1", cell.strip()).strip() for cell in text.split(",")]
    if len(cells) > len(_PLAIN_CELLS) or not re.fullmatch("[+-]?[0-9]{1,30}", cells[0]):
        example = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)"
        raise BadRule(f"{shown(text)} is neither a JSON object nor plain text such as {example}")
    given: dict = {name: cell for name, cell in zip(_PLAIN_CELLS, cells, strict=False) if cell}
    if given.get("ruleState", "").upper() == "CONTROL":
        raise BadRule(
            'ruleState: no plain text for control, send {"ruleState": "CONTROL", "controlType": ...}'
        )
    given["ruleId"] = int(cells[0])
    for name in {"groupingKeyNames", "unique"} & given.keys():
        given[name] = [part.strip() for part in given[name].split("&")]
    return given


def _message(given: dict, schema: Schema) -> Message:
    for name in given:
        if name not in ATTRIBUTES:
            raise BadRule(unknown("attribute", name, ATTRIBUTES))
    state = _one_of(given, "ruleState", STATES)
    if state == "CONTROL":
        return Message("control", state=state, control=_one_of(given, "controlType", CONTROLS))
    rule_id = given.get("ruleId")
    if isinstance(rule_id, str) and re.fullmatch("[0-9]{1,19}", rule_id):  # as the demo's backend sends it
        rule_id = int(rule_id)
    if type(rule_id) is not int or not 0 < rule_id < 1 << 63:
        raise BadRule(expected("ruleId", rule_id, "a positive integer below 2^63"))
    if state == "DELETE":
        return Message("delete", rule_id=rule_id, state=state)
    if given.get("controlType") is not None:
        raise BadRule(expected("controlType", given["controlType"], "nothing unless ruleState is CONTROL"))
    if all(given.get(name) is None for name in _DEFINITION):
        return Message("state", rule_id=rule_id, state=state)
    keys = _field_names(given, "groupingKeyNames", schema)
    filter = _filter(given, schema)
    function, field_name, unique = _aggregation(given, schema)
    operator = _one_of(given, "limitOperatorType", OPERATORS, OPERATOR_ALIASES)
    limit, window_ms = _limit(given), _window_ms(given)
    rule = Rule(rule_id, state, keys, filter, function, field_name, unique, operator, limit, window_ms)
    if any(given.get(name) is not None for name in ("action", "ttl")):
        rule = replace(rule, action=_action(given, keys), ttl_ms=1000 * _seconds("ttl", given.get("ttl")))
    return Message("rule", rule, rule_id, state)


def _one_of(given: dict, name: str, words: tuple[str, ...], aliases: dict[str, str] | None = None) -> str:
    """The attribute as one of the words, whatever its case."""
    known = {word: word for word in words} | (aliases or {})
    word = given.get(name)
    if not isinstance(word, str) or word.upper() not in known:
        raise BadRule(expected(name, word, f"one of {', '.join(known)}"))
    return known[word.upper()]


def _action(given: dict, keys: tuple[str, ...]) -> str:
    action = given.get("action")
    if action not in ACTIONS:
        raise BadRule(expected("action", action, f"one of {', '.join(ACTIONS)}"))
    if action != "notify" and not keys:
        raise BadRule(
            expected("action", action, "notify: without groupingKeyNames it would be for everybody")
        )
    return action


def _field(attribute: str, name: object, schema: Schema) -> Field:
    if not isinstance(name, str):
        raise BadRule(expected(attribute, name, "the name of an event field"))
    try:
        return schema.field(name)
    except ValueError as error:
        raise BadRule(f"{attribute}: {error}") from None


def _field_names(given: dict, attribute: str, schema: Schema) -> tuple[str, ...]:
    listed = given.get(attribute)
    if not isinstance(listed, list | None):
        raise BadRule(expected(attribute, listed, "a list of event fields"))
    names = tuple(_field(attribute, name, schema).name for name in listed or ())
    if len(set(names)) < len(names):
        raise BadRule(f"{attribute}: {shown(', '.join(names))}, expected each field once")
    return names


def _filter(given: dict, schema: Schema) -> Filter:
    wanted = given.get("filter")
    if not isinstance(wanted, dict | None):
        raise BadRule(expected("filter", wanted, 'an object such as {"action": "login"}'))
    filter = []
    for name, value in sorted((wanted or {}).items()):
        field = _field("filter", name, schema)
        if field.type == "time":
            raise BadRule(expected(f"filter.{name}", value, "a field that is no time"))
        try:
            values = {field.parse(each) for each in (value if isinstance(value, list) else [value])}
        except BadRecord as error:
            raise BadRule(f"filter.{error}") from None
        if not values or None in values:
            raise BadRule(expected(f"filter.{name}", value, "a value or a list of values, none of them null"))
        filter.append((name, tuple(sorted(values))))
    return tuple(filter)


def _aggregation(given: dict, schema: Schema) -> tuple[str, str | None, tuple[str, ...]]:
    """The function, its field and its unique fields."""
    name = given.get("aggregateFieldName")
    unique = _field_names(given, "unique", schema)
    counts = COUNT_WORDS.get(name) if isinstance(name, str) else None
    function = counts
    if not counts or given.get("aggregatorFunctionType") is not None:
        function = _one_of(given, "aggregatorFunctionType", FUNCTIONS, COUNT_WORDS)
    if counts:  # whatever the function: the demo writes SUM beside COUNT_FLINK, and counts
        return counts, None, ()
    field = None if name is None else _field("aggregateFieldName", name, schema)
    if AGGREGATES[function].of == "unique":
        if field and given.get("unique") is None:
            unique = (name,)
        if not unique:
            raise BadRule(
                expected("unique", given.get("unique"), "the fields whose distinct values to count")
            )
        return function, None, unique
    if AGGREGATES[function].of == "field" and not (field and field.numeric):
        numeric = ", ".join(each.name for each in schema.fields if each.numeric)
        raise BadRule(expected("aggregateFieldName", name, f"a numeric field for {function}: {numeric}"))
    return function, name, ()


def _limit(given: dict) -> Decimal:
    limit = jsontext.exact_decimal(given.get("limit"), precision=36, scale=12)
    if limit is None:
        allowed = "a decimal number below 10^24, with at most 12 digits after the point"
        raise BadRule(expected("limit", given.get("limit"), allowed))
    return Decimal(plain(limit).rstrip("0").rstrip("."))


def _window_ms(given: dict) -> int:
    names = [name for name in ("windowMinutes", "window") if given.get(name) is not None]
    if not names:
        raise BadRule(expected("window", None, _WINDOW_ALLOWED))
    if len(seconds := {_seconds(name, given[name]) for name in names}) > 1:
        windows = " and ".join(f"{name}: {shown(given[name])}" for name in names)
        raise BadRule(f"{windows} differ, expected one of them or the same in both")
    return 1000 * seconds.pop()


def _seconds(name: str, window: object) -> int:
    match = re.fullmatch("([0-9]{1,12})([smhd]?)", str(window)) if isinstance(window, int | str) else None
    seconds = int(match[1]) * _UNIT_SECONDS[match[2] or "m"] if match else 0
    if not 0 < seconds <= MAX_WINDOW_SECONDS:
        raise BadRule(expected(name, window, _WINDOW_ALLOWED))
    return seconds


# How rules are written


def _duration(ms: int) -> tuple[str, str]:
    """In the largest unit that divides it: 86,400,000 ms is ("1", "d")."""
    seconds = ms // 1000
    unit = next(unit for unit, size in _UNIT_SECONDS.items() if seconds % size == 0)
    return str(seconds // _UNIT_SECONDS[unit]), unit


def _duration_text(ms: int) -> str:
    number, unit = _duration(ms)
    return f"{number} {'min' if unit == 'm' else unit}"


def _json_value(value: str | int | Decimal) -> str | int:
    """Ready for `json.dumps`, exactly: a whole number as int, another decimal as text."""
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else plain(value)
    return value


def _filter_text(filter: Filter, and_: str, equals: str, or_: str) -> str:
    return and_.join(f"{name}{equals}{or_.join(map(_word, values))}" for name, values in filter)


def _word(value: str | int | Decimal) -> str:
    """As it is when that cannot be misread, else as a JSON string."""
    text = plain(value)
    return text if re.fullmatch(r"[\w.-]+", text) else json.dumps(text, ensure_ascii=False)


def _table(rules: list[Rule]) -> str:
    rows = [(rule.rule_id, rule.version, rule.state, rule.describe()) for rule in rules]
    return html_table(("rule", "version", "state", "alerts when"), rows)
