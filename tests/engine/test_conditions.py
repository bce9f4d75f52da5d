"""Aggregates compared with multiples of others: exactly, however near and however large."""

from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from lab.engine.compiled.aggregates.forms import SCRATCH
from lab.engine.compiled.conditions import compare_with_multiple
from lab.engine.compiled.limits import Measure
from lab.engine.compiled.rulenumbers import plus_to_int64s
from lab.model.messages import MAX_DIVIDED_BY, MAX_MULTIPLE

NOTHING_MORE = np.array(plus_to_int64s(Decimal(0), 0), np.int64)
DENOMINATORS = st.integers(1, 1 << 60)
FACTORS = st.integers(1, MAX_MULTIPLE * 10**12), st.integers(1, MAX_DIVIDED_BY * 10**12)


def measure_of(value: Fraction) -> Measure:
    """As the loop has it: rounded down, and a fraction of at most 60 bits."""
    whole, rest = divmod(value.numerator, value.denominator)
    low = whole & (1 << 64) - 1
    halves = np.int64(whole >> 64), np.int64(low - (low >> 63 << 64))
    return Measure(*halves, np.int64(rest), np.int64(value.denominator))


@st.composite
def values(draw):
    whole = draw(st.one_of(st.integers(-20, 20), st.integers(-(1 << 126), 1 << 126)))
    denominator = draw(st.one_of(st.integers(1, 9), DENOMINATORS))
    return whole + Fraction(draw(st.integers(0, denominator - 1)), denominator)


@given(values(), values(), *FACTORS, st.integers(-36, 36))
@example(Fraction(-1, 1 << 60), Fraction(-1, 1 << 60), 1, 1, 0)
@example(Fraction(-1, 1 << 60), Fraction(-1, (1 << 60) - 1), 1, 1, 0)
@example(Fraction(0), Fraction(0), 1, 1, 36)
@example(Fraction((1 << 126) - 1), Fraction(1 << 126), 1, 1, 0)
def test_what_is_compared_with_a_multiple_is_compared_exactly(value, other, times, by, tens):
    limit = other * times / by * Fraction(10) ** tens
    found = compare_with_multiple(
        np.zeros(SCRATCH, np.int64), measure_of(value), measure_of(other), times, by, tens, NOTHING_MORE
    )
    assert found == (value > limit) - (value < limit)


@given(values(), st.integers(1, 1000), st.integers(1, 1000), st.integers(-1, 1))
def test_what_is_next_to_the_limit_too(other, times, by, off):
    """Floats cannot tell these apart."""
    limit = other * times / by
    if limit.denominator > 1 << 60 or not -(1 << 126) < limit < 1 << 126:
        return
    value = limit + Fraction(off, limit.denominator)
    found = compare_with_multiple(
        np.zeros(SCRATCH, np.int64), measure_of(value), measure_of(other), times, by, 0, NOTHING_MORE
    )
    assert found == off


def decimals(largest: int):
    return st.integers(-largest, largest).map(lambda number: Decimal(number).scaleb(-12, Context(prec=99)))


@given(
    values(),
    values(),
    *FACTORS,
    st.tuples(st.integers(0, 36), st.integers(0, 36)),
    st.one_of(decimals(10**36 - 1), decimals(10**13)),
    st.integers(-1, 1),
)
@example(Fraction(1 << 126), Fraction(-(1 << 126)), 10**18, 1, (36, 0), Decimal(10**24 - 1), 0)
@example(Fraction(-(1 << 126)), Fraction(1 << 126), 1, 10**18, (0, 36), -Decimal(10**24 - 1), 0)
@example(Fraction(0), Fraction(0), 1, 1, (0, 0), Decimal("-10000000000000000.000000000001"), 0)
@example(
    Fraction(0), Fraction(-(10**23) // 7), 1, 1, (0, 0), Decimal("123456789012345678901234.123456789012"), 0
)
def test_what_is_compared_with_a_multiple_and_something_more_is_compared_exactly(
    value, other, times, by, scales, plus, off
):
    """`off`: instead of any value one that is off the limit by the smallest fraction, if there is one."""
    scale, tens = scales[0], scales[0] - scales[1]
    limit = other * times / by * Fraction(10) ** tens + Fraction(plus) * 10**scale
    if limit.denominator <= 1 << 60 and -(1 << 126) < limit < 1 << 126:
        value = limit + Fraction(off, limit.denominator)
    more = np.array(plus_to_int64s(plus, scale), np.int64)
    found = compare_with_multiple(
        np.zeros(SCRATCH, np.int64), measure_of(value), measure_of(other), times, by, tens, more
    )
    assert found == (value > limit) - (value < limit)
