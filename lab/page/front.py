"""The page's front half, which runs in Pyodide: it reads, judges and describes rules, and gives them to JavaScript as JSON.

    text ──► lab.model ──► the acknowledgement, and the rule as the engine of the page takes it

Whole numbers that a float may not hold exactly are {"$": "123"}.
"""

import json
import re
from dataclasses import replace
from decimal import Decimal
from ipaddress import IPv4Network, IPv6Network
from typing import Any, cast

import lab.page.withoutnumpy  # noqa: F401  # the loop's modules come after it
from lab.engine.compiled.layout import AGGREGATE_FIELDS
from lab.engine.compiled.measures import exact_value, measured_conditions
from lab.engine.compiled.rulenumbers import distinct_whens, rules_to_arrays, value_columns
from lab.model.aggregates import AGGREGATES
from lab.model.aggregation import Aggregation, MeasuredCondition, operator_symbol
from lab.model.alerts import Alert, conditions_member, event_for_alert, event_id_text, event_member
from lab.model.conditions import BadConditions
from lab.model.formatting import plain_text
from lab.model.group import group_for_alert, group_key
from lab.model.kinds import BadRule
from lab.model.messages import Message, as_bytes, build_message, message_or_refusal, parse_message
from lab.model.rule import Rule, readable_rule_sentence, readable_rule_summary
from lab.model.rules import RuleBook
from lab.model.schema import Schema
from lab.model.sentence import parse_rule_sentence
from lab.model.times import duration_words
from lab.model.when import AllOf, AnyOf, Comparison, OtherField, When, filter_text, when_text
from lab.page.reader import Reader, exact, pack_int64s

MESSAGE = re.compile(
    r"\s*[\d{]"
)  # the beginning of a whole one: JSON, a line of text, or a sentence after the rule's id

NO_SHADOW = "the page keeps no shadow log; lab run and lab replay do"
NO_LISTS = "the page keeps no lists; lab run and lab replay do"


class Book:
    """The rules in force on events of a schema, which is given as JSON."""

    def __init__(self, schema: str):
        self.reader = Reader(schema)
        self.schema = self.reader.schema
        self.book = RuleBook(self.schema)
        self.accepted: list[Rule] = []  # each version of a rule, by the number that JavaScript knows it by

    def carry_out(self, text: str) -> str:
        """Carries out a control message: its acknowledgement, the rule that is in force by it, and the ids of those that no longer are."""
        before = set(self.book.rules)
        ack = self._apply(text)
        rule = self.book.rules.get(ack.get("ruleId", 0)) if ack["status"] == "accepted" else None
        if "ruleId" in ack:
            ack["ruleId"] = str(ack["ruleId"])
        self.accepted += [rule] if rule else []
        deleted = [exact(rule_id) for rule_id in before - set(self.book.rules)]
        return json.dumps({"ack": ack, "rule": rule and self._for_page(rule), "deleted": deleted})

    def _apply(self, text: str) -> dict[str, Any]:
        message = message_or_refusal(as_bytes(text), self.schema)
        if not isinstance(message, BadRule) and (reason := reason_of_page(message)):
            return {"status": "rejected", "reason": reason}
        return self.book.apply(text)

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
            if reason := reason_of_page(asked):
                raise BadRule(reason)
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

    def reported(self, function: str, field: str, measures: str) -> str:
        """Values of an aggregate as alerts show them; `measures`: lists in JSON, in units of the last digit of what is measured."""
        of = Aggregation(function, field or None, (), 0)
        exact_values = [exact_value([*map(int, each)], of, self.schema) for each in json.loads(measures)]
        return json.dumps([plain_text(AGGREGATES[function].to_reported(value)) for value in exact_values])

    def numbers(self, route_id: str, fields: str) -> str:
        """The rules of a route as numbers for the loop: its arrays, and what its stores need; `fields`: what events keep, a list in JSON."""
        rules = tuple(rule for rule in self.book.sorted() if rule.route.id == route_id)
        stored = json.loads(fields)
        keys, arrays = rules_to_arrays(rules, stored, self.schema)
        rows = [getattr(row, name) for row in arrays.aggregates for name in AGGREGATE_FIELDS]
        flat = {name: array.ravel() for name, array in arrays._asdict().items()} | {"aggregates": rows}
        sizes = {
            "aggregateCount": len(keys),
            "queues": sum(key.accumulator.queues for key in keys),
            "distinct": sum(bool(key.unique) for key in keys),
            "lanes": sum(key.accumulator.lanes for key in keys),
            "own": sum(key.rule_id is not None for key in keys),
            "whens": [when_text(when) for when in distinct_whens(rules)],
            "columns": value_columns(stored, self.schema),
        }
        return json.dumps(sizes | {"arrays": {name: pack_int64s(each) for name, each in flat.items()}})


def reason_of_page(message: Message) -> str:
    """Why the page refuses a message that the engine takes; empty if it does not."""
    rule = message.rule
    if message.state == "SHADOW":
        return NO_SHADOW
    return NO_LISTS if message.list_change or rule and rule.list_names else ""


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
        "route": {"id": rule.route.id, "keys": rule.route.keys},
        "conditions": [
            {"of": _aggregation(of.aggregation, schema), "text": of.describe()} for of in rule.conditions
        ],
        "aggregations": [_aggregation(each, schema) for each in rule.aggregations],
        "when": condition_for_page(rule.when, schema),
        "whenText": when_text(rule.when) if rule.when else None,
        "atMost": rule.at_most,
        "absent": absence_for_page(rule),
        "isPlain": rule.is_plain,
        "needs": rule.stored_field_names,
        "fields": rule.field_names,
        "widestMs": rule.widest_ms,
        "eventFields": rule.event_fields,
    }


def _aggregation(of: Aggregation, schema: Schema) -> dict[str, Any]:
    return {
        "function": of.function,
        "field": of.field,
        "unique": of.unique,
        "windowMs": of.window_ms,
        "window": duration_words(of.window_ms),
        "where": condition_for_page(of.where, schema),
        "steps": of.steps
        and {
            "taken": [condition_for_page(step, schema) for step in of.steps.conditions],
            "without": condition_for_page(of.steps.without, schema),
        },
        "truths": {name: condition_for_page(each, schema) for name, each in of.event_conditions.items()},
        "excludes": of.exclude_current,
        "lastEvents": of.last_events,
        "endsBeforeMs": of.ends_before_ms,
        "sessionGapMs": of.session_gap_ms,
        "needs": of.stored_field_names,
        "text": of.describe(),
    }


def condition_for_page(when: When | None, schema: Schema) -> dict[str, Any] | None:
    """A condition on an event: {all: […]}, {any: […]}, or a comparison with a value, {values}, {networks} or {other: field}."""
    match when:
        case AllOf(parts):
            return {"all": [condition_for_page(part, schema) for part in parts]}
        case AnyOf(parts):
            return {"any": [condition_for_page(part, schema) for part in parts]}
        case Comparison(name, operator, operand, clock):
            shows = clock and {"shows": clock.part, "zone": clock.zone}
            scale = 0 if clock else schema.field(name).scale
            return {"field": name, "clock": shows, "operator": operator, "operand": _operand(operand, scale)}
    return None


def _operand(operand: Any, scale: int) -> Any:
    """`scale`: digits after the point of the field."""
    match operand:
        case OtherField(name):
            return {"other": name}
        case (IPv4Network() | IPv6Network(), *_):
            return {"networks": [_network(each) for each in operand]}
        case tuple(values):
            return {"values": [_operand(each, scale) for each in values]}
    return operand if operand is None or isinstance(operand, str) else exact(operand, scale)


def _network(of: IPv4Network | IPv6Network) -> dict[str, Any]:
    number, host = int(of.network_address), of.max_prefixlen - of.prefixlen
    return {"version": of.version, "number": exact(number), "host": exact(host)}


def alert_for_page(alert: Alert, rule: Rule) -> dict[str, Any]:
    """An alert as its line of JSON, and what the page shows of it."""
    event = [(name, "–" if value is None else str(value)) for name, value in alert.event]
    return {
        "json": alert.to_json(),
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
    }
