"""Limits: searched instead of tried one by one, and compared exactly, by integer part and fraction.

    limits of an aggregate, ascending     1   2.5   5   5   20       aggregate 5: greater than 2 of 4 different limits,
    position                            0   1    2        3    4     not less than 3

`>` fires the rules of the limits below the position, `<` those from it on, `=` those in between: so the work for an event goes
with the logarithm of the limits and with what fires. No float decides anything.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from lab.engine.compiled.layout import (
    DIGITS,
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    HIGH_HALF,
    LESS,
    LESS_EQUAL,
    LOW_HALF,
    MORE_DIGITS,
    NOT_EQUAL,
    njit_without_allocation,
)

PLACES = 12  # of a limit, which `lab.model.rules` sees to; its square has twice as many
FRACTION = 10**PLACES
TOO_LARGE = 1 << 127  # above all aggregates, in absolute value


class Measure(NamedTuple):
    """An aggregate, exactly: high · 2⁶⁴ + low (unsigned) + numerator / denominator, with 0 ≤ numerator < denominator ≤ 2⁶⁰."""

    high: int
    low: int
    numerator: int
    denominator: int


def limit_to_int64s(limit: Fraction) -> tuple[int, int, int, int]:
    """A limit in units of the aggregate's last digit as int64s. ValueError if it has more than 24 digits after the point.

    >>> limit_to_int64s(Fraction("2.5"))
    (0, 2, 500000000000, 0)
    >>> limit_to_int64s(Fraction(-1, 10))  # -1 + 0.9
    (-1, -1, 900000000000, 0)
    """
    limit = min(max(limit, Fraction(-TOO_LARGE)), Fraction(TOO_LARGE - 1))
    whole = limit.numerator // limit.denominator
    digits, beyond = divmod((limit - whole) * FRACTION**2, 1)
    if beyond:
        raise ValueError(f"limit {limit}: expected at most {2 * PLACES} digits after the point")
    high, low = whole >> 64, whole & (1 << 64) - 1
    return high, low - (low >> 63 << 64), *divmod(digits, FRACTION)


@njit_without_allocation
def next_12_decimal_digits(numerator, denominator):
    """The next 12 decimal digits of a fraction less than 1, and the numerator of what remains."""
    digits = np.int64(0)
    rest, by = np.uint64(numerator), np.uint64(denominator)
    for _ in range(PLACES):
        rest *= np.uint64(10)
        digit = rest // by
        rest -= digit * by
        digits = 10 * digits + np.int64(digit)
    return digits, np.int64(rest)


@njit_without_allocation
def compare_with_limit(measure, limit):
    """-1, 0 or 1: the measure is less than the limit, equal to it, greater."""
    if measure.high != limit[HIGH_HALF]:
        return 1 if measure.high > limit[HIGH_HALF] else -1
    if measure.low != limit[LOW_HALF]:
        return 1 if np.uint64(measure.low) > np.uint64(limit[LOW_HALF]) else -1
    rest = measure.numerator
    for column in (DIGITS, MORE_DIGITS):
        digits, rest = next_12_decimal_digits(rest, measure.denominator)
        if digits != limit[column]:
            return 1 if digits > limit[column] else -1
    return 1 if rest > 0 else 0


@njit_without_allocation
def count_limits_below_and_up_to(rules, aggregate, measure):
    """How many of the aggregate's limits are less than the measure, and how many are not greater."""
    first = rules.aggregates[aggregate].limits
    below, upto = first, first + limit_count(rules, aggregate)
    while below < upto:
        middle = (below + upto) >> 1
        sign = compare_with_limit(measure, rules.limits[middle])
        if sign == 0:
            return middle - first, middle - first + 1
        if sign > 0:
            below = middle + 1
        else:
            upto = middle
    return below - first, below - first


@njit_without_allocation
def limit_count(rules, aggregate):
    """How many different limits an aggregate has."""
    end = (
        rules.aggregates[aggregate + 1].limits if aggregate + 1 < len(rules.aggregates) else len(rules.limits)
    )
    return end - rules.aggregates[aggregate].limits


@njit_without_allocation
def append_rules_that_fire(rules, aggregate, limits_below, limits_up_to, out, count):
    """Appends the rules that a measure fires to the `count` entries of `out`, and returns the new number of entries.

    `limits_below`, `limits_up_to`: how many of the aggregate's limits are less than the measure, and how many are not greater.
    """
    first = rules.aggregates[aggregate].positions
    last = first + limit_count(rules, aggregate)
    limits_below, limits_up_to = first + limits_below, first + limits_up_to
    count = _fire(rules, EQUAL, limits_below, limits_up_to, out, count)
    count = _fire(rules, NOT_EQUAL, first, limits_below, out, count)
    count = _fire(rules, NOT_EQUAL, limits_up_to, last, out, count)
    count = _fire(rules, GREATER, first, limits_below, out, count)
    count = _fire(rules, GREATER_EQUAL, first, limits_up_to, out, count)
    count = _fire(rules, LESS, limits_up_to, last, out, count)
    return _fire(rules, LESS_EQUAL, limits_below, last, out, count)


@njit_without_allocation
def _fire(rules, operator, begin, end, out, count):
    for row in range(rules.firing_bounds[begin, operator], rules.firing_bounds[end, operator]):
        out[count] = rules.firing_rules[row]
        count += 1
    return count
