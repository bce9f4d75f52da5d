"""What rules can compute: a row for each aggregate, with its definition over a list of values.

Another aggregate is another row here and, for the engine, one in `lab.engine.compiled.aggregates`.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from math import isqrt
from typing import Any, NamedTuple

Exact = Decimal | Fraction | int
PLACES = 6  # after the point, of a reported value that is not exact


class Aggregate(NamedTuple):
    """An aggregate over the events of a window that count for a rule; there is at least one.

    `argument_kind`: what the aggregate uses of each event: "events" nothing, "field" the value of a numeric field, "unique" a tuple of fields.
    `measure`: from the list of these to the exact result. `measure ⋛ to_compared_limit(limit)` decides; an alert shows `to_reported(measure)`.
    `unit_power`: the power of the field's unit in the measure: 0 for a count, 1 for a sum in euros, 2 for a variance in euros².
    """

    name: str
    argument_kind: str
    unit_power: int
    measure: Callable[[Sequence], Exact]
    to_reported: Callable[[Any], Decimal] = Decimal
    to_compared_limit: Callable[[Fraction], Fraction] = lambda limit: limit


def mean(values: Sequence[Exact]) -> Fraction:
    return sum((Fraction(value) for value in values), Fraction()) / len(values)


def variance(values: Sequence[Exact]) -> Fraction:
    """Of the population: the mean of the squares less the square of the mean.

    >>> variance([1, 3])
    Fraction(1, 1)
    """
    return mean([Fraction(value) ** 2 for value in values]) - mean(values) ** 2


def round_to_6_places(value: Exact) -> Decimal:
    """Half-even to 6 places.

    >>> round_to_6_places(Fraction(1, 3)), round_to_6_places(Fraction(5, 10**7)), round_to_6_places(Fraction(15, 10**7))
    (Decimal('0.333333'), Decimal('0.000000'), Decimal('0.000002'))
    """
    return Decimal(f"{round(Fraction(value) * 10**PLACES)}E-{PLACES}")


def square_root_to_6_places(value: Exact) -> Decimal:
    """The square root, half-even to 6 places, without a float.

    >>> square_root_to_6_places(Fraction(2)), square_root_to_6_places(Fraction(25, 10**14)), square_root_to_6_places(Fraction(225, 10**14))
    (Decimal('1.414214'), Decimal('0.000000'), Decimal('0.000002'))
    """
    return Decimal(f"{square_root_in_millionths(*Fraction(value).as_integer_ratio())}E-{PLACES}")


def square_root_in_millionths(numerator: int, denominator: int) -> int:
    """`square_root_to_6_places` of a fraction, which need not be reduced, in units of the sixth place."""
    numerator *= 100**PLACES
    below = isqrt(numerator // denominator)
    above_middle = 4 * numerator - (2 * below + 1) ** 2 * denominator
    return below + (above_middle > 0 or (above_middle == 0 and below % 2 == 1))


def signed_square(limit: Fraction) -> Fraction:
    """What a variance is compared with instead of its root with the limit; below 0 every variance is greater."""
    return limit * abs(limit)


AGGREGATES = {
    row.name: row
    for row in (
        Aggregate("SUM", "field", 1, sum),
        Aggregate("AVG", "field", 1, mean, round_to_6_places),
        Aggregate("MIN", "field", 1, min),
        Aggregate("MAX", "field", 1, max),
        Aggregate("VARIANCE", "field", 2, variance, round_to_6_places),
        Aggregate("STDDEV", "field", 2, variance, square_root_to_6_places, signed_square),
        Aggregate("COUNT", "events", 0, len),
        Aggregate("COUNT_WITH_RESET", "events", 0, len),
        Aggregate("UNIQUE_COUNT", "unique", 0, lambda values: len(set(values))),
    )
}
