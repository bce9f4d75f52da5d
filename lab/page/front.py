"""The page's front half, which runs in Pyodide: it reads, judges and describes rules, and gives them to JavaScript as JSON.

    text ──► lab.model ──► the acknowledgement, and the rule as the engine of the page takes it

Whole numbers that a float may not hold exactly are {"$": "123"}.
"""

import json
import re
from dataclasses import replace
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import lab.page.withoutnumpy  # noqa: F401  # the loop's modules come after it
from lab.engine.checkpoint.ledger import Ledger
from lab.engine.compiled.measures import measured_conditions
from lab.model.aggregation import MeasuredCondition, operator_symbol
from lab.model.alerts import Alert, conditions_member, event_for_alert, event_id_text, event_member
from lab.model.conditions import BadConditions, quote_if_needed
from lab.model.formatting import expected_message, plain_text
from lab.model.group import group_for_alert, group_json, group_key, sorted_group
from lab.model.kinds import BadRule
from lab.model.listmessages import muted_entry
from lab.model.lists import FOREVER, NAME, NAME_ALLOWED, NamedList
from lab.model.messages import build_message, parse_message
from lab.model.rule import Rule, readable_rule_sentence, readable_rule_summary
from lab.model.rules import RuleBook
from lab.model.schema import Schema
from lab.model.schemafile import schema_from_toml
from lab.model.sentence import parse_rule_sentence
from lab.model.times import duration_words
from lab.model.when import (
    AnyOf,
    Comparison,
    filter_text,
    list_names,
    with_lists,
)
from lab.model.whenreader import parse_filter, parse_when
from lab.page.conditions import condition_for_page, verdicts
from lab.page.derivation import Deriver, columns_of
from lab.page.reader import Reader, described, exact
from lab.page.routes import Routes

if TYPE_CHECKING:
    from lab.page.windows import Windows

NO_DERIVED = "expected a name, = and what it is, such as day = date(time)"
MOST_ENTRIES = 50  # of a list that are shown
MESSAGE = re.compile(
    r"\s*[\d{]"
)  # the beginning of a whole one: JSON, a line of text, or a sentence after the rule's id


class Book:
    """The rules and lists in force on events of a schema, which is given as JSON; `late_ms`, `late_policy`: which events are late, and by number what becomes of them."""

    def __init__(self, schema: str, late_ms: int = 300_000, late_policy: int = 0):
        self.late = late_ms, late_policy
        self.reader = Reader(schema)
        self.schema = self.reader.schema
        self.deriver = Deriver(self.schema)
        self.ledger = Ledger(RuleBook(self.schema))
        self.book = self.ledger.book
        self.routes = Routes(self.ledger, late_ms)
        self.accepted: list[Rule] = []  # each version of a rule, by the number that JavaScript knows it by
        self.messages: list[
            tuple[str, int, list[int]]
        ] = []  # those that `windows` does not know yet, as of `carry_out`

    def carry_out(self, text: str, events: int = 0, newest: str = "[]") -> str:
        """Carries out a control message: its acknowledgement, the rule that is in force by it, the ids of those that no longer are, a list that it changed, and the `Routes` after it.

        `events`: how many came before it; `newest`: a list in JSON of the newest of their times, in ms.
        """
        before, times = set(self.book.rules), json.loads(newest)
        ack = self.ledger.apply(text)
        rule = self.book.rules.get(ack.get("ruleId", 0)) if ack["status"] == "accepted" else None
        if ack["status"] == "accepted":
            self.messages.append((text, events, times))
        if "ruleId" in ack:
            ack["ruleId"] = str(ack["ruleId"])
        self.accepted += [rule] if rule else []
        deleted = [exact(rule_id) for rule_id in before - set(self.book.rules)]
        changed = list_for_page(ack["list"], self.book.lists[ack["list"]]) if "list" in ack else None
        shown = {"ack": ack, "rule": rule and self._for_page(rule), "deleted": deleted, "list": changed}
        return json.dumps(shown | {"routes": self.routes.after(times)})

    def _for_page(self, rule: Rule) -> dict[str, Any]:
        return {"number": len(self.accepted) - 1, **rule_for_page(rule, self.schema)}

    def judge(self, text: str, rule_id: str, state: str) -> str:
        """What a form shows of a text, which is a whole message, or a sentence that gets this id and state; or what is wrong with it."""
        try:
            if whole := bool(MESSAGE.match(text)):
                asked = parse_message(text, self.schema)
            else:
                attributes = parse_rule_sentence(text, self.schema)
                asked = build_message(
                    {"ruleId": rule_id.strip(), "ruleState": state, **attributes}, self.schema
                )
            # what is about a rule, but says none, is refused as a rule that says nothing
            nothing = {"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": []}
            rule = cast(Rule, asked.rule or build_message(nothing, self.schema).rule)
        except (BadRule, BadConditions) as error:
            return json.dumps({"error": str(error)})
        message = text if whole else f"{rule.rule_id} {state}: {text}"
        return json.dumps({"message": message, "whole": whole, **rule_for_form(rule)})

    def alerts(self, given: str) -> str:
        """Alerts, of what JavaScript noted: the rule's number, the event's id, time, keys and fields, and its measures by condition."""
        return json.dumps([self._alert(*each) for each in json.loads(given)])

    def _alert(
        self, number: int, event_id: Any, time: int, keys: list, told: list, measures: dict[str, list[str]]
    ) -> dict[str, Any]:
        rule = self.accepted[number]
        values = [self._value(*pair) for pair in zip(rule.keys, keys)]
        event = {name: self._value(name, value) for name, value in zip(rule.event_fields, told)}
        by_condition = {int(place): [*map(int, each)] for place, each in measures.items()}
        (aggregate, operator, limit), conditions = measured_conditions(self.schema, rule, by_condition)
        assert aggregate is not None and limit is not None, "a condition that holds has both"
        alert = Alert(
            *(rule.rule_id, rule.version, group_key(rule.keys, values), aggregate, operator, limit),
            *(tuple(event_id) if isinstance(event_id, list) else event_id, time),
            group=group_for_alert(rule.keys, values),
            carried=rule.carried,
            conditions=conditions,
            event=event_for_alert(rule.event_fields, event),
        )
        return alert_for_page(alert, rule)

    def _value(self, name: str, value: Any) -> Any:
        return Decimal(value) if value is not None and self.schema.field(name).is_decimal else value

    @cached_property
    def windows(self) -> "Windows":
        """The windows behind alerts; they come when the first is asked for, so that the page is there sooner."""
        from lab.page.windows import Windows

        return Windows(self.schema, *self.late)

    def window(self, alert: str, numbers: Any, columns: Any, texts: str) -> str:
        """What the page shows of the window behind an alert, which is given as its log has it; all in JSON.

        `numbers`: JavaScript's, as float64s, of events of its key-group up to it how many came before each; `columns`, `texts`: of
        all their fields, see `lab.page.derivation.columns_of`.
        """
        self.windows.carry_out(self.messages)
        self.messages.clear()
        of, before = Alert.from_json(alert), [*map(int, memoryview(numbers.to_bytes()).cast("d"))]
        values = dict(zip(self.schema.names, columns_of(columns, texts), strict=True))
        return json.dumps(self.windows.behind(of, before, values))

    def judged(self, text: str, values: str) -> str:
        """Of which values a comparison is true; if it is with a named list, until when each is there, ms.

        `values`: a list in JSON, of what its fields have, numbers as texts, or of quarters of an hour.
        """
        comparison = with_lists(parse_when(text, self.schema), self.book.lists)
        assert isinstance(comparison, Comparison), "condition_for_page gives nothing else"
        return json.dumps(verdicts(comparison, json.loads(values), self.schema))

    def condition_on_list(self, filter: str, field: str, operator: str, name: str) -> str:
        """What the form's filter is with a condition on a named list."""
        return json.dumps(condition_on_list(self.schema, filter, field, operator, name))

    def muted(self, given: str) -> str:
        """Of alerts, as `alerts` takes them, which are muted."""
        return json.dumps([self._is_muted(*each) for each in json.loads(given)])

    def _is_muted(self, number: int, event_id: Any, time: int, keys: list, *_: Any) -> bool:
        rule = self.accepted[number]
        group = group_for_alert(rule.keys, [self._value(*pair) for pair in zip(rule.keys, keys)])
        return self.book.is_muted(muted_entry(rule.rule_id, group), time)


# -- rules as the page's engine takes them -----------------------------------------------------------------------------


def rule_for_page(rule: Rule, schema: Schema) -> dict[str, Any]:
    """A rule: what is computed, and how it is said."""
    return {
        "id": exact(rule.rule_id),
        "version": rule.version,
        "state": rule.state,
        "message": json.dumps(replace(rule, version=0).to_dict()),
        "summary": readable_rule_summary(rule),
        "keys": rule.keys,
        "filter": condition_for_page(rule.filter, schema),
        "filterSeesLists": bool(list_names(rule.filter)),
        "route": {"keys": rule.route.keys},
        "absent": absence_for_page(rule),
        "reachMs": rule.aggregation.reach_ms,
        "eventFields": rule.event_fields,
    }


def alert_for_page(alert: Alert, rule: Rule) -> dict[str, Any]:
    """An alert as its line of JSON, and what the page shows of it."""
    event = [(name, "–" if value is None else str(value)) for name, value in alert.event]
    return {
        "json": alert.to_json(),
        "mute": mute_message(alert),
        "severity": rule.carries("severity"),
        "title": rule.carries("title"),
        "labels": rule.carries("labels") or [],
        "event": event,
        "asJson": {
            "conditions": conditions_member(alert.conditions).removeprefix(',"conditions":'),
            "event": event_member(alert.event).removeprefix(',"event":'),
        },
        "absent": absence_for_page(rule),
        "measured": [each.aggregation.describe() for each in rule.conditions],
        "ruleId": str(rule.rule_id),
        "version": rule.version,
        "key": alert.key,
        "eventId": event_id_text(alert.event_id),
        "eventTime": alert.event_time,
        **_measured(alert.own_condition),
        "conditions": [_measured(each) for each in alert.conditions],
        "firstHolding": alert.conditions.index(alert.own_condition) if alert.conditions else 0,
    }


def mute_message(alert: Alert) -> str:
    """The control message that mutes the group of an alert."""
    return f'{{"mute": {alert.rule_id}, "group": {group_json(sorted_group(alert.group))}}}'


def absence_for_page(rule: Rule) -> dict[str, Any] | None:
    """What a rule that says `absence` waits for, for how long; None of any other."""
    of = rule.aggregation
    is_some = bool(rule.filter or of.where)
    return {"isSome": is_some, "time": duration_words(of.window_ms)} if rule.absence else None


def _measured(of: MeasuredCondition) -> dict[str, Any]:
    aggregate, limit = (None if each is None else plain_text(each) for each in (of.aggregate, of.limit))
    return {"aggregate": aggregate, "operator": operator_symbol(of.operator), "limit": limit}


# -- rules as a form shows them ----------------------------------------------------------------------------------------


def rule_for_form(rule: Rule) -> dict[str, Any]:
    """`then`: what its sentence says after the condition, but for `when`; `fields`: what the fields show, if they can show it."""
    bare = replace(rule, when=None, at_most=None, action=None)
    shown = {
        "keys": rule.keys,
        "filter": filter_text(rule.filter),
        "function": rule.aggregation.function,
        "field": rule.aggregation.field or "events",
        "unique": rule.aggregation.unique,
        "operator": rule.first.symbol,
        "limit": plain_text(rule.first.limit),
        "window": duration_words(rule.aggregation.window_ms),
        "when": filter_text(rule.when),
    }
    return {
        "id": str(rule.rule_id),
        "state": rule.state,
        "sentence": readable_rule_sentence(rule),
        "then": readable_rule_sentence(replace(rule, when=None))[len(readable_rule_summary(bare)) :],
        "fields": shown if rule.is_plain else None,
        "lists": sorted(rule.list_names),
    }


# -- lists and schemas -------------------------------------------------------------------------------------------------


def list_for_page(name: str, entries: NamedList) -> dict[str, Any]:
    """A named list: the values that came last, and until when each is there, ms; null: it does not expire."""
    newest = [*entries.until_by_value.items()][-MOST_ENTRIES:][::-1]
    shown = [(value, None if until == FOREVER else until) for value, until in newest]
    return {"name": name, "count": len(entries), "entries": shown}


def condition_on_list(schema: Schema, filter: str, field: str, operator: str, name: str) -> dict[str, str]:
    """A filter that also asks whether a field's value is in a named list, or why it cannot."""
    name = name.strip().removeprefix("@")
    if not re.fullmatch(NAME, name):
        return {"error": expected_message("list", name or None, NAME_ALLOWED)}
    asked = f"{quote_if_needed(field)} {operator} @{name}"
    try:
        before = parse_filter(filter, schema) if filter.strip() else None
    except BadConditions:  # which its own field says
        before = None
    around = f"({filter.strip()})" if isinstance(before, AnyOf) else filter.strip()
    return {"filter": f"{around} and {asked}" if around else asked}


def schema_for_page(schema: str) -> str:
    """A schema, given as JSON, with the fields that it derives, or what is wrong with these; both in JSON."""
    try:
        return json.dumps({"schema": described(json.loads(schema))})
    except ValueError as error:
        return json.dumps({"error": str(error)})


def with_derived(schema: str, text: str) -> str:
    """A schema, given as JSON, with the fields that a text derives: a name, = and an expression a line; or what is wrong with them."""
    derived = []
    for number, line in enumerate(text.split("\n"), 1):
        name, sign, expression = line.partition("=")
        if line.strip() and not (sign and name.strip()):
            return json.dumps({"error": f"line {number}: {NO_DERIVED}"})
        derived += [(name.strip(), expression.strip())] if line.strip() else []
    return schema_for_page(json.dumps(json.loads(schema) | {"derived": derived}))


def schema_of_file(text: str) -> str:
    """The same for the text of a schema's file."""
    try:
        schema = schema_from_toml(text)
    except ValueError as error:
        return json.dumps({"error": str(error)})
    needed = {*schema.id_fields, schema.time_field}
    optional = [field.name for field in schema.fields if field.name not in needed]
    records = (
        "json" if schema.records == "csv" else schema.records
    )  # rows of CSV have no header, which the page needs
    return schema_for_page(json.dumps(schema.to_dict() | {"records": records, "optional": optional}))
