"""Conditions on events as the page's JavaScript takes them, and what Python says of those that it does not judge itself.

when ──► condition_for_page ──JSON──► truth.js: numbers and nulls
              └── anything else ──► verdicts, of each different value once
"""

from decimal import Decimal
from typing import Any

from lab.model.lists import ListOperand
from lab.model.operators import OPERATORS
from lab.model.schema import MAX_TIME, Schema
from lab.model.times import offset_ms
from lab.model.when import AllOf, AnyOf, Comparison, OtherField, When, condition_fields, is_true, when_text
from lab.page.derivation import QUARTER_MS
from lab.page.reader import exact


def condition_for_page(when: When | None, schema: Schema) -> dict[str, Any] | None:
    """A condition on an event: {all: […]}, {any: […]}, or a comparison, of which JavaScript makes those with null and of numbers.

    What a number is compared with is exact, {values} or {other: field}; any other comparison is one that `Book.judged` knows.
    With `list` it is with what a named list has, which changes.
    """
    match when:
        case AllOf(parts):
            return {"all": [condition_for_page(part, schema) for part in parts]}
        case AnyOf(parts):
            return {"any": [condition_for_page(part, schema) for part in parts]}
        case Comparison(name, operator, operand, clock):
            of: dict[str, Any] = {"fields": condition_fields(when)}
            field = schema.field(name)
            if OPERATORS[operator].takes == "nothing":
                return of | {"operator": operator}
            if isinstance(operand, ListOperand):
                of["list"] = {"isNegated": OPERATORS[operator].is_negated}
            if clock or not field.is_number_or_time or "list" in of:
                return of | {"judged": when_text(when), "clock": bool(clock)}
            return of | {"operator": operator, "operand": _operand(operand, field.scale)}
    return None


def _operand(operand: Any, scale: int) -> Any:
    """`scale`: digits after the point of the field."""
    match operand:
        case OtherField(name):
            return {"other": name}
        case tuple(values):
            return {"values": [exact(each, scale) for each in values]}
    return exact(operand, scale)


def verdicts(comparison: Comparison, given: list, schema: Schema) -> list:
    """What is so of values of its fields, numbers as texts, or of quarters of an hour since 1970: see `Book.judged`."""
    if comparison.local_time_part:
        return [_verdicts_in_quarter(comparison, each) for each in given]
    fields = [schema.field(name) for name in condition_fields(comparison)]
    events = (
        {
            field.name: Decimal(value) if field.is_number_or_time else value
            for field, value in zip(fields, each)
        }
        for each in given
    )
    return [_verdict(comparison, event) for event in events]


def _verdict(comparison: Comparison, event: dict[str, Any]) -> bool | int:
    """Whether a comparison is true of an event; if it is with a named list, until when the event's value is there, as JavaScript's numbers can say it."""
    if not isinstance(comparison.operand, ListOperand):
        return is_true(comparison, event)
    value, clock = event[comparison.field], comparison.local_time_part
    until = comparison.operand.entries.until(clock.value_at(value) if clock else value)
    return min(max(until, 0), MAX_TIME)


def _verdicts_in_quarter(comparison: Comparison, quarter: int) -> bool | int | list[bool | int]:
    """The verdict on what a clock shows in a quarter of an hour since 1970; where that may change, in each second."""
    clock, begin = comparison.local_time_part, quarter * QUARTER_MS
    assert clock, "another comparison has no quarters"
    ends = (begin, begin + QUARTER_MS - 1)
    if len({(offset_ms(clock.zone, at), clock.value_at(at)) for at in ends}) == 1:
        return _verdict(comparison, {comparison.field: begin})
    return [_verdict(comparison, {comparison.field: at}) for at in range(begin, begin + QUARTER_MS, 1_000)]
