"""Hints: what a legal rule hardly means as it is written. A rule with hints is accepted all the same.

COUNT(events) per userId over 5 min = 0   ──►   COUNT = 0 is never true: …
"""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from math import inf, prod

from lab.model.aggregates import AGGREGATES
from lab.model.formatting import plain_text, short_json
from lab.model.jsontext import DECIMAL_TEXT
from lab.model.rule import Rule
from lab.model.schema import Schema
from lab.model.when import AllOf, AnyOf, Comparison, FieldValues, OtherField, When, required_values

FOREIGN = ("!", "~", "*")  # operators of other languages, at the beginning of a value


def condition_hints(rule: Rule, schema: Schema) -> list[str]:
    """Sentences about conditions that are never true, always true, or look like something else; most rules give none.

    >>> from lab.model.rules import parse_message
    >>> from lab.model.schema import LOGINS
    >>> condition_hints(parse_message("1,(active),(userId),,(COUNT),,(=),(0),(5)", LOGINS).rule, LOGINS)
    ['COUNT = 0 is never true: a rule is evaluated when an event arrives, and that event counts, so COUNT is at least 1']
    """
    return list(dict.fromkeys((*_of_limits(rule, schema), *_of_values(rule, schema))))


def _of_limits(rule: Rule, schema: Schema) -> Iterator[str]:
    if rule.is_plain:
        yield from _of_limit(rule, schema, never_only=AGGREGATES[rule.aggregation.function].of_pair)
    for each in () if rule.is_plain or rule.absence else rule.conditions:
        of = each.aggregation
        counts_all = AGGREGATES[of.function].argument_kind == "events" and not of.field
        if counts_all and not (each.limit_of or of.where or of.exclude_current):
            yield from _of_limit(Rule(0, "", (), None, (each,)), schema, never_only=True)


def _of_limit(rule: Rule, schema: Schema, never_only: bool = False) -> Iterator[str]:
    """Hints about a limit. `never_only`: no hint that the condition is always true, as it has others, `when` or `at most` beside it, or needs two events."""
    least, most, why = _range(rule)
    limit, step = Fraction(rule.first.limit), step_of_values(rule, schema)
    inside = least <= limit <= most
    reached = inside and (step is None or (limit / Fraction(step)).denominator == 1)
    # operator -> whether no value of the aggregate is in this relation to the limit, and whether every one is
    never, always = {
        "EQUAL": (not reached, least == most == limit),
        "NOT_EQUAL": (least == most == limit, not reached),
        "GREATER": (most <= limit, least > limit),
        "GREATER_EQUAL": (most < limit, least >= limit),
        "LESS": (least >= limit, most < limit),
        "LESS_EQUAL": (least > limit, most <= limit),
    }[rule.first.operator]
    said = f"{rule.aggregation.function} {rule.first.symbol} {plain_text(rule.first.limit)}"
    if never or (always and not (never_only or rule.when or rule.at_most)):
        because = why
        if inside and not reached:
            because = f"{rule.aggregation.function} is a multiple of {plain_text(step)}"
            if step == 1:
                because = f"{rule.aggregation.function} is a whole number"
        if never:
            yield f"{said} is never true: {because}"
        else:
            yield f"{said} is always true, so every event that counts alerts: {because}"
    elif rule.first.operator == "EQUAL" and step is None and limit:
        yield f"{said} compares exactly, without rounding, and is almost never true: did you mean >= or <=?"


def _range(rule: Rule) -> tuple[float, float, str]:
    """The least and the largest value that the aggregate can have, and why."""
    aggregate = AGGREGATES[rule.aggregation.function]
    if aggregate.argument_kind == "field":
        return (
            aggregate.least,
            inf,
            "" if aggregate.least == -inf else f"{aggregate.name} is never below {aggregate.least}",
        )
    if steps := rule.aggregation.steps:
        count = len(steps.conditions)
        return 0, count, f"{aggregate.name} is the number of steps that were taken, from 0 to {count}"
    values = {name: len(values) for name, values in required_values(rule.filter)} | dict.fromkeys(
        rule.keys, 1
    )
    most = prod(values.get(name, inf) for name in rule.aggregation.unique)
    if aggregate.argument_kind == "unique" and most < inf:
        return (
            1,
            most,
            (
                f"a rule is evaluated when an event arrives, and that event counts, so {rule.aggregation.function} is from 1 to {most} "
                "with these keys and this filter"
            ),
        )
    return (
        1,
        inf,
        (
            f"a rule is evaluated when an event arrives, and that event counts, so {rule.aggregation.function} is at least 1"
        ),
    )


def step_of_values(rule: Rule, schema: Schema) -> Decimal | None:
    """What all values of the aggregate are multiples of, if anything."""
    if AGGREGATES[rule.aggregation.function].argument_kind != "field" or not rule.aggregation.field:
        return Decimal(1)
    if not AGGREGATES[rule.aggregation.function].is_multiple:
        return None
    return Decimal(1).scaleb(-(schema.field(rule.aggregation.field).scale or 0))


def _of_values(rule: Rule, schema: Schema) -> Iterator[str]:
    for condition in rule.event_conditions:
        yield from _of_fields(condition, schema)
    yield from _of_required(required_values(rule.filter), "no event passes the filter")
    wheres = ((each.where, "no event counts") for each in rule.aggregations)
    for when, so in ((rule.when, "no event alerts"), *wheres):
        if when:
            yield from _of_required((*required_values(rule.filter), *required_values(when)), so)
    yield from _of_cleared_steps(rule)


def _of_cleared_steps(rule: Rule) -> Iterator[str]:
    """A hint that the events that may alert are those that end a sequence: their own value is 0."""
    of = rule.aggregation
    if not of.steps or not of.steps.without or not rule.when or of.where or of.exclude_current:
        return
    ending = of.steps.without.parts if isinstance(of.steps.without, AnyOf) else (of.steps.without,)
    needed = rule.when.parts if isinstance(rule.when, AllOf) else (rule.when,)
    if any(part in ending for part in needed):
        yield (
            "SEQUENCE is 0 at each event that may alert: `when` asks for what `without` names, and such an event clears the steps before it, "
            "also those that were all taken"
        )


def _of_fields(condition: When | None, schema: Schema) -> Iterator[str]:
    """Hints about two text fields that must be equal, and about texts compared with numbers: who writes this often means another thing."""
    match condition:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from _of_fields(part, schema)
        case Comparison(name, "=", OtherField(other)) if schema.field(name).type == "string":
            yield f'{name} = {other} compares two fields of the event: for the text write {name} = "{other}"'
        case Comparison(name, "<" | "<=" | ">" | ">=" as sign, str(text)) if (
            schema.field(name).type == "string"
        ):
            if DECIMAL_TEXT.fullmatch(text):
                yield (
                    f'{name} {sign} {text} compares texts by their characters, so "10" is less than "9": for numbers, {name} needs a numeric '
                    "type in the schema"
                )


def _of_required(pairs: FieldValues, so: str) -> Iterator[str]:
    """Hints about fields that must have two values at once; `so`: the consequence."""
    left: dict[str, set] = {}
    for name, values in pairs:
        possible = left[name] = left.get(name, {*values}) & {*values}
        if not possible:
            yield f"{name} never has two values at once, so {so}: for one of several write {name} in (…, …)"
        texts = (value for value in values if isinstance(value, str))
        foreign = (text for text in texts if text.startswith(FOREIGN) or text[1:].endswith("*"))
        if text := next(foreign, ""):
            yield f"{name} = {short_json(text)} is compared literally: there are no wildcards; say {name} != …, or {name} startsWith, contains or endsWith …"
