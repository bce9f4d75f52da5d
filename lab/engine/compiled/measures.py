"""What the loop measured, back as exact values: the columns of an alert's rows from HIGH_PART on."""

from collections.abc import Mapping, Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction

from lab.engine.compiled.layout import VALUES_OF_CONDITION
from lab.engine.compiled.rulenumbers import measure_scale
from lab.model.aggregates import AGGREGATES, Exact
from lab.model.aggregation import Aggregation, MeasuredCondition
from lab.model.rule import Rule
from lab.model.schema import Schema


def measured_conditions(
    schema: Schema, rule: Rule, measures: Mapping[int, Sequence[int]]
) -> tuple[MeasuredCondition, tuple[MeasuredCondition, ...]]:
    """What `Rule.conditions_for_alert` gives for an alert; `measures`: of its rows by their CONDITION."""
    if rule.is_plain:
        (own,) = rule.conditions
        return own.measured_condition(exact_value(measures[0], own.aggregation, schema)), ()
    of_conditions = [
        [
            exact_value(measures.get(VALUES_OF_CONDITION * place + number), of, schema)
            for number, of in enumerate(each.aggregations)
        ]
        for place, each in enumerate(rule.conditions)
    ]
    with localcontext(prec=100):
        for_alert = rule.conditions_for_alert(of_conditions)
    assert for_alert is not None, "only what fired is here"
    return for_alert


def exact_value(measure: Sequence[int] | None, of: Aggregation | None, schema: Schema) -> Exact | None:
    """The value that an aggregation measured: a decimal if that is exact, otherwise a fraction."""
    if measure is None or of is None:
        return None
    scale = measure_scale(of, schema)
    if AGGREGATES[of.function].to_reported is Decimal:
        return Decimal(join_halves(*measure[:2])).scaleb(-scale, Context(prec=100))
    return exact_fraction(measure, scale)


def join_halves(high: int, low: int) -> int:
    """Two halves of 64 bits as one number.

    >>> join_halves(-1, -5), join_halves(1, -1) == (1 << 65) - 1
    (-5, True)
    """
    return (high << 64) + low % (1 << 64)


def exact_fraction(measure: Sequence[int], scale: int) -> Fraction:
    """The value in units of the last of so many digits after the point."""
    high, low, numerator, denominator = measure
    return (join_halves(high, low) + Fraction(numerator, denominator)) / 10**scale
