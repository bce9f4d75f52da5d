"""A route's rules as numbers for the compiled loop: rules that differ only in limit, operator, version share an aggregate.

1  SUM(amount) over 1 h > 50     ┐
2  SUM(amount) over 1 h > 70     ├─►  SUM(amount) over 1 h   limits 50, 70        >: rules 1, 2    <: rule 3
3  SUM(amount) over 1 h < 50     ┘
4  MAX(amount) over 1 h >= 9    ───►  MAX(amount) over 1 h   limits 9            >=: rule 4
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from lab.engine.compiled import layout
from lab.engine.compiled.aggregates.counted import COUNT_SINCE
from lab.engine.compiled.aggregates.forms import ACCUMULATOR_LAYOUTS, OTHER_WINDOW_LANES, AccumulatorLayout
from lab.engine.compiled.layout import LOW_BITS, NOTHING, Rules
from lab.engine.compiled.limits import PLACES, limit_to_int64s
from lab.model.aggregates import AGGREGATES
from lab.model.aggregation import ONE_BIT, OPERATORS, SPOKE, Aggregation, Condition
from lab.model.field import Field
from lab.model.formatting import plain_text
from lab.model.rule import Rule
from lab.model.schema import Schema
from lab.model.when import When

STATE = ":state"  # the column that says whether an event has been taken back, where that can be; no field is called so
NO_MULTIPLE = [NOTHING, 1, 1, 0]  # in a row of `Rules.conditions`
BITS = 63  # of an int64 column that say what is not null


class AggregateKey(NamedTuple):
    """Identifies a running aggregate. `rule_id`: only if the aggregate is a rule's own, because it is reset when the rule fires."""

    accumulator: AccumulatorLayout
    field: str | None
    unique: tuple[str, ...]
    window_ms: int
    where: str | None
    excludes_current: bool
    rule_id: int | None
    last_events: int = 0
    ends_before_ms: int = 0
    session_gap_ms: int = 0
    steps: tuple[str | None, ...] = ()

    @classmethod
    def for_aggregation(cls, of: Aggregation, rule_id: int) -> "AggregateKey":
        accumulator = ACCUMULATOR_LAYOUTS[of.function]
        own = rule_id if accumulator.kind == COUNT_SINCE else None
        other = of.last_events, of.ends_before_ms, of.session_gap_ms
        if any(other):
            accumulator = accumulator._replace(lanes=accumulator.lanes + OTHER_WINDOW_LANES)
        unique = tuple(sorted(of.unique))
        # the event of a pair is added to what came before
        excludes = of.exclude_current or accumulator.pair > 0
        events = of.window_ms, of.where_result_name, excludes
        return cls(accumulator, of.field, unique, *events, own, *other, of.step_names)

    @classmethod
    def for_alert_count(cls, rule: Rule, fields: Sequence[str]) -> "AggregateKey | None":
        """The count of a rule's alerts, if it says `atMost`; events keep them under the name of the last time it joined."""
        if not rule.at_most:
            return None
        name = next(name for name in reversed(fields) if name.startswith(f"{SPOKE}{rule.rule_id}."))
        return cls(AccumulatorLayout.of_form("count"), None, (), rule.at_most_per_ms, name, False, None)

    @classmethod
    def from_json(cls, saved: list) -> "AggregateKey":
        """Out of what JSON makes of one."""
        accumulator, field, unique, *others, steps = saved
        key = cls(AccumulatorLayout(*accumulator), field, tuple(unique), *others)
        return key._replace(steps=tuple(steps))


def int64_columns(schema: Schema, field_name: str) -> list[str]:
    """The int64 columns that hold a field: itself, or the two halves of a string's digest; none for what is only a bit."""
    if field_name.startswith(ONE_BIT):
        return []
    return (
        [field_name] if schema.field(field_name).is_number_or_time else [f"{field_name}/0", f"{field_name}/1"]
    )


def transport_columns(schema: Schema, field_name: str) -> list[str]:
    """The columns in which a field is sent to tasks: as it is stored, but a bit as 1 or null."""
    return int64_columns(schema, field_name) or [field_name]


def not_null_bit(field_number: int) -> tuple[str, int]:
    """The column that says whether a kept field is null, by the field's number, and its bit there.

    >>> not_null_bit(2), not_null_bit(63)
    (('not null/0', 4), ('not null/1', 1))
    """
    return f"not null/{field_number // BITS}", 1 << field_number % BITS


def distinct_whens(rules: Iterable[Rule]) -> list[When]:
    """The conditions of rules on the event that may alert, each once."""
    return list(dict.fromkeys(rule.when for rule in rules if rule.when))


def when_bit(number: int) -> tuple[str, int]:
    """The column that says of which events a route's condition is true, by its number, and its bit there."""
    return f"when:{number // BITS}", 1 << number % BITS


def value_columns(fields: Sequence[str], schema: Schema) -> list[str]:
    """The int64 columns in which events keep fields; another field at the end adds columns at the end."""
    columns: list[tuple[str, ...]] = [(STATE,)] if schema.taken_back else []
    columns += [(not_null_bit(number)[0], *int64_columns(schema, name)) for number, name in enumerate(fields)]
    return list(dict.fromkeys(column for of in columns for column in of))


def readable_value(field: Field, int64s: Sequence[int]) -> int | str:
    """A value as people read it, out of its int64 columns: an integer, a decimal as text, of a text its digest in hex."""
    if not field.is_number_or_time:
        return "".join(f"{number % (1 << 64):016x}" for number in int64s)
    return plain_text(Decimal(f"{int64s[0]}E-{field.scale}")) if field.is_decimal else int64s[0]


def measure_scale(of: Aggregation, schema: Schema) -> int:
    """Digits after the point of what it measures, in minor units: of a variance twice those of the field."""
    power = AGGREGATES[of.function].unit_power
    return power * schema.field(of.field).scale if power and of.field else 0


def value_scale(of: Aggregation, schema: Schema) -> int:
    """Digits after the point of what it gives: of a root half of those of what it measures."""
    return measure_scale(of, schema) // (2 if of.is_root else 1)


def rules_to_arrays(
    rules: tuple[Rule, ...], fields: list[str], schema: Schema, kept_aggregates: tuple[AggregateKey, ...] = ()
) -> tuple[list[AggregateKey], Rules]:
    """The distinct aggregates of a route's ACTIVE rules, and all as numbers. `fields`: what an event keeps, in order.

    `kept_aggregates`: aggregates that come first, whether or not a rule needs them.
    """
    by_key, compared_keys = _rows_by_aggregate_and_limit(rules, fields, schema, kept_aggregates)
    columns = value_columns(fields, schema)
    aggregates = np.zeros(len(by_key), layout.AGGREGATE_ROW).view(np.recarray)
    needs: list[tuple[int, int]] = []
    unique: list[int] = []
    limits: list[tuple[int, ...]] = []
    upto: list[list[int]] = []
    firing: list[int] = []
    queues = 0
    for a, (key, rows_at) in enumerate(by_key.items()):
        compared = [
            layout.VALUES + columns.index(half) for name in key.unique for half in int64_columns(schema, name)
        ]
        aggregate, needed = aggregates[a], Counter[str]()
        if schema.taken_back:
            needed[STATE] = layout.COUNTS
        for name in filter(None, {*key.unique, key.field, key.where}):
            column, bit = not_null_bit(fields.index(name))
            needed[column] += bit
        aggregate.kind = key.accumulator.kind
        aggregate.rule_id = key.rule_id or NOTHING
        aggregate.percent, aggregate.pair = key.accumulator.percent, key.accumulator.pair
        other = key.last_events, key.ends_before_ms, key.session_gap_ms
        aggregate.other_window = any(other)
        aggregate.last_events, aggregate.ends_before, aggregate.gap = other
        aggregate.window = key.window_ms
        if key.field:
            aggregate.column = layout.VALUES + columns.index(int64_columns(schema, key.field)[0])
        aggregate.needs, aggregate.needs_end = len(needs), len(needs) + len(needed)
        steps = [not_null_bit(fields.index(name)) if name else ("", 0) for name in key.steps]
        aggregate.first = aggregate.needs_end if steps else len(unique)
        aggregate.last = aggregate.first + len(compared) + len(steps)
        aggregate.queue = queues
        aggregate.width = key.accumulator.lanes
        aggregate.limits, aggregate.positions = len(limits), len(upto)
        aggregate.compared, aggregate.excludes = key in compared_keys, key.excludes_current
        queues += key.accumulator.queues
        bits = [*needed.items(), *steps]
        needs += [(layout.VALUES + columns.index(column) if column else 0, bit) for column, bit in bits]
        unique += compared
        ascending = sorted(rows_at)
        limits += map(limit_to_int64s, ascending)
        positions = [[0] * len(OPERATORS) for _ in range(len(ascending) + 1)]
        for operator in range(len(OPERATORS)):
            for position, limit in zip(positions, ascending):
                position[operator] = len(firing)
                firing += rows_at[limit][operator]
            positions[-1][operator] = len(firing)
        upto += positions
    places = {when: (number // BITS, 1 << number % BITS) for number, when in enumerate(distinct_whens(rules))}
    return list(by_key), Rules(
        aggregates,
        np.array(needs, np.int64).reshape(-1, 2),
        np.array(unique, np.int64),
        np.array(limits, np.int64).reshape(-1, 4),
        np.array(upto, np.int64).reshape(-1, len(OPERATORS)),
        np.array(firing, np.int64),
        np.array([places[rule.when] if rule.when else (NOTHING, 0) for rule in rules], np.int64).reshape(
            -1, 2
        ),
        *_conditions(rules, list(by_key), fields, schema),
        np.zeros((len(by_key), 4), np.int64),
    )


RowsByLimit = dict[Fraction, list[list[int]]]  # limit -> of each operator the rows of the rules that have it


def _rows_by_aggregate_and_limit(
    rules: tuple[Rule, ...], fields: list[str], schema: Schema, kept_aggregates: tuple[AggregateKey, ...]
) -> tuple[dict[AggregateKey, RowsByLimit], set[AggregateKey]]:
    """Each aggregate with the rows of the plain rules that compare it with a limit, and the aggregates that other rules compare."""
    by_key: dict[AggregateKey, RowsByLimit] = {key: {} for key in kept_aggregates}
    compared_keys: set[AggregateKey] = set()
    for row, rule in enumerate(rules):
        if rule.state == "ACTIVE" and not rule.absence:
            keys = [AggregateKey.for_aggregation(each, rule.rule_id) for each in rule.aggregations]
            if rule.is_plain and not rule.at_most:
                limit = _limit(rule.conditions[0], schema)
                at = by_key.setdefault(keys[0], {}).setdefault(limit, [[] for _ in OPERATORS])
                at[OPERATORS.index(rule.first.operator)].append(row)
            else:
                alerts = AggregateKey.for_alert_count(rule, fields)
                keys += [alerts] if alerts else []
                compared_keys.update(keys)
                by_key |= {key: by_key.get(key, {}) for key in keys}
    return by_key, compared_keys


def _limit(of: Condition, schema: Schema) -> Fraction:
    """What a condition compares its aggregate with, in units of that one's last digit."""
    aggregation = of.aggregation
    limit = AGGREGATES[aggregation.function].to_compared_limit(Fraction(of.limit))
    return limit * 10 ** measure_scale(aggregation, schema)


def plus_to_int64s(plus: Decimal, scale: int) -> tuple[int, ...]:
    """The number that is added to a limit, in the form of `Rules.conditions`; `scale`: digits after the point of the measured field.

    >>> plus_to_int64s(Decimal("-0.5"), 1)[:4]
    (-1, 658067456, 1164, 0)
    """
    whole = int(plus.copy_abs().scaleb(PLACES + scale, Context(prec=100)))
    limbs = tuple(whole >> 32 * limb & LOW_BITS for limb in range(layout.PLUS_LIMBS))
    return ((plus > 0) - (plus < 0), *limbs)


def _conditions(
    rules: tuple[Rule, ...], keys: list[AggregateKey], fields: list[str], schema: Schema
) -> tuple[np.ndarray, np.ndarray]:
    """`Rules.conditions` and `Rules.rules_with_conditions`."""
    conditions: list[tuple[int, ...]] = []
    joined: list[tuple[int, ...]] = []
    place_of = {key: number for number, key in enumerate(keys)}
    for row, rule in enumerate(rules):
        if (rule.is_plain and not rule.at_most) or rule.state != "ACTIVE" or rule.absence:
            continue
        first = len(conditions)
        for of in rule.conditions:
            a = place_of[AggregateKey.for_aggregation(of.aggregation, rule.rule_id)]
            relation, limit = OPERATORS.index(of.operator), limit_to_int64s(_limit(of, schema))
            scale = value_scale(of.aggregation, schema)
            multiples = []
            for each in of.multiples:
                place = place_of[AggregateKey.for_aggregation(each.aggregation, rule.rule_id)]
                tens = scale - value_scale(each.aggregation, schema)
                multiples += [place, each.factor.numerator, each.factor.denominator, tens]
            multiples += NO_MULTIPLE * (2 - len(of.multiples))
            roots = [number for number, one in enumerate(of.aggregations) if one and one.is_root]
            root = roots[0] if roots and of.limit_of else NOTHING
            plus = plus_to_int64s(of.plus, scale)
            conditions.append((a, relation, *limit, *multiples, root, *plus))
        must_count = conditions[first][0] if rule.is_plain else NOTHING
        most: tuple[int, ...] = (NOTHING, 0, 0, 0)
        if alerts := AggregateKey.for_alert_count(rule, fields):
            column, bit = not_null_bit(fields.index(alerts.where or ""))
            at = layout.VALUES + value_columns(fields, schema).index(column)
            most = (place_of[alerts], rule.at_most or 0, at, bit)
        joined.append((row, first, len(conditions), rule.joined_by == "or", must_count, *most))
    return (
        np.array(conditions, np.int64).reshape(-1, layout.CONDITION_COLUMNS),
        np.array(joined, np.int64).reshape(-1, layout.SPOKE_BIT + 1),
    )
