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
    LIMITS,
    LOW_HALF,
    MORE_DIGITS,
    NOT_EQUAL,
    POSITIONS,
    bare,
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


def limit_row(limit: Fraction) -> tuple[int, int, int, int]:
    """A limit in units of the aggregate's last digit as int64s. ValueError if it has more than 24 digits after the point.

    >>> limit_row(Fraction("2.5"))
    (0, 2, 500000000000, 0)
    >>> limit_row(Fraction(-1, 10))  # -1 + 0.9
    (-1, -1, 900000000000, 0)
    """
    limit = min(max(limit, Fraction(-TOO_LARGE)), Fraction(TOO_LARGE - 1))
    whole = limit.numerator // limit.denominator
    digits, beyond = divmod((limit - whole) * FRACTION**2, 1)
    if beyond:
        raise ValueError(f"limit {limit}: expected at most {2 * PLACES} digits after the point")
    high, low = whole >> 64, whole & (1 << 64) - 1
    return high, low - (low >> 63 << 64), *divmod(digits, FRACTION)


@bare
def next_decimal_digits(numerator, denominator):
    """The next 12 decimal digits of a fraction less than 1, and the numerator of what remains."""
    digits = np.int64(0)
    rest, by = np.uint64(numerator), np.uint64(denominator)
    for _ in range(PLACES):
        rest *= np.uint64(10)
        digit = rest // by
        rest -= digit * by
        digits = 10 * digits + np.int64(digit)
    return digits, np.int64(rest)


@bare
def compare_with_limit(measure, limit):
    """-1, 0 or 1: the measure is less than the limit, equal to it, greater."""
    if measure.high != limit[HIGH_HALF]:
        return 1 if measure.high > limit[HIGH_HALF] else -1
    if measure.low != limit[LOW_HALF]:
        return 1 if np.uint64(measure.low) > np.uint64(limit[LOW_HALF]) else -1
    rest = measure.numerator
    for column in (DIGITS, MORE_DIGITS):
        digits, rest = next_decimal_digits(rest, measure.denominator)
        if digits != limit[column]:
            return 1 if digits > limit[column] else -1
    return 1 if rest > 0 else 0


@bare
def search(rules, a, measure):
    """How many of the aggregate's limits are less than the measure, and how many are not greater."""
    first = rules.aggregate[a, LIMITS]
    below, upto = first, first + limits_of(rules, a)
    while below < upto:
        middle = (below + upto) >> 1
        sign = compare_with_limit(measure, rules.limit[middle])
        if sign == 0:
            return middle - first, middle - first + 1
        if sign > 0:
            below = middle + 1
        else:
            upto = middle
    return below - first, below - first


@bare
def limits_of(rules, a):
    """How many different limits an aggregate has."""
    end = rules.aggregate[a + 1, LIMITS] if a + 1 < len(rules.aggregate) else len(rules.limit)
    return end - rules.aggregate[a, LIMITS]


@bare
def fire(rules, a, less, upto, out, fired):
    """Writes the rules that a measure fires into `out` from `fired` on, and returns where it got to.

    `less`, `upto`: how many of the aggregate's limits are less than the measure, and how many are not greater.
    """
    first = rules.aggregate[a, POSITIONS]
    last = first + limits_of(rules, a)
    less, upto = first + less, first + upto
    fired = _fire(rules, EQUAL, less, upto, out, fired)
    fired = _fire(rules, NOT_EQUAL, first, less, out, fired)
    fired = _fire(rules, NOT_EQUAL, upto, last, out, fired)
    fired = _fire(rules, GREATER, first, less, out, fired)
    fired = _fire(rules, GREATER_EQUAL, first, upto, out, fired)
    fired = _fire(rules, LESS, upto, last, out, fired)
    return _fire(rules, LESS_EQUAL, less, last, out, fired)


@bare
def _fire(rules, operator, begin, end, out, fired):
    for row in range(rules.upto[begin, operator], rules.upto[end, operator]):
        out[fired] = rules.firing[row]
        fired += 1
    return fired
