"""Aggregates compared with multiples of others: exactly, however near and however large."""

from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from lab.engine.compiled.aggregates.forms import SCRATCH
from lab.engine.compiled.conditions import compare_with_sum
from lab.engine.compiled.layout import CONDITION_COLUMNS, MORE, NOTHING, PLUS, ROOT, TIMES
from lab.engine.compiled.limits import Measure
from lab.engine.compiled.rulenumbers import NO_MULTIPLE, plus_to_int64s
from lab.model.aggregates import WithRoot
from lab.model.messages import MAX_DIVIDED_BY, MAX_MULTIPLE

NOTHING_MORE = plus_to_int64s(Decimal(0), 0)
DENOMINATORS = st.integers(1, 1 << 60)
FACTORS = st.integers(1, MAX_MULTIPLE * 10**12), st.integers(1, MAX_DIVIDED_BY * 10**12)


def measure_of(value: Fraction) -> Measure:
    """As the loop has it: rounded down, and a fraction of at most 60 bits."""
    whole, rest = divmod(value.numerator, value.denominator)
    low = whole & (1 << 64) - 1
    halves = np.int64(whole >> 64), np.int64(low - (low >> 63 << 64))
    return Measure(*halves, np.int64(rest), np.int64(value.denominator))


def compared(value, multiples, plus=NOTHING_MORE, root=NOTHING) -> int:
    """How a value compares with multiples, each (value, times, by, tens), and a number."""
    row = np.zeros(CONDITION_COLUMNS, np.int64)
    row[MORE : MORE + 4], row[ROOT], row[PLUS:] = NO_MULTIPLE, root, plus
    for number, (_, *factor) in enumerate(multiples):
        row[TIMES + 4 * number - 1 : TIMES + 4 * number + 3] = number, *factor
    base, more = (measure_of(of) for of in (*(of for of, *_ in multiples), value)[:2])
    return compare_with_sum(np.zeros(SCRATCH, np.int64), measure_of(value), base, more, row)


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
    found = compared(value, [(other, times, by, tens)])
    assert found == (value > limit) - (value < limit)


@given(values(), st.integers(1, 1000), st.integers(1, 1000), st.integers(-1, 1))
def test_what_is_next_to_the_limit_too(other, times, by, off):
    """Floats cannot tell these apart."""
    limit = other * times / by
    if limit.denominator > 1 << 60 or not -(1 << 126) < limit < 1 << 126:
        return
    value = limit + Fraction(off, limit.denominator)
    found = compared(value, [(other, times, by, 0)])
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
    found = compared(value, [(other, times, by, tens)], plus_to_int64s(plus, scale))
    assert found == (value > limit) - (value < limit)


SIGNED = st.tuples(st.sampled_from([1, -1]), FACTORS[0]).map(lambda two: two[0] * two[1])
TENS = st.one_of(st.just(0), st.integers(-36, 36))
LARGEST = (Fraction((1 << 126) - 1, 1), MAX_MULTIPLE * 10**12, MAX_DIVIDED_BY * 10**12 - 1)


@given(
    values(),
    st.tuples(values(), *FACTORS, TENS),
    st.tuples(values(), SIGNED, FACTORS[1], TENS),
    st.one_of(st.just(Decimal(0)), decimals(10**36 - 1), decimals(10**13)),
    st.sampled_from([NOTHING, NOTHING, 0, 1, 2]),
    st.integers(0, 36),
    st.integers(-1, 1),
)
@example(LARGEST[0], (*LARGEST, 36), (*LARGEST, 36), Decimal(10**24 - 1), NOTHING, 36, 0)
@example(LARGEST[0] + Fraction(1, 1 << 60), (*LARGEST, -36), (*LARGEST, 36), Decimal(10**24 - 1), 2, 36, 0)
@example(LARGEST[0] + Fraction(1, 1 << 60), (*LARGEST, 36), (*LARGEST, -36), -Decimal(10**24 - 1), 1, 36, 0)
@example(LARGEST[0], (*LARGEST, -36), (*LARGEST, -36), Decimal(10**24 - 1), 0, 36, 0)
def test_what_is_compared_with_two_multiples_of_which_one_may_be_a_root_is_compared_exactly(
    value, first, second, plus, root, scale, off
):
    """`off`: instead of any value one that is off the limit by the smallest fraction, if there is one."""
    measures = [value, first[0], second[0]]
    if root != NOTHING:  # of a variance, which is the square of something if that is what decides
        measures[root] = abs(measures[root])
        if off and measures[root] < 1 << 60 and measures[root].denominator < 1 << 30:
            measures[root] **= 2
    factors = [Fraction(times, by) * Fraction(10) ** tens for _, times, by, tens in (first, second)]
    limit = WithRoot(Fraction(plus) * 10**scale)
    for number, factor in enumerate(factors, 1):
        limit = limit.plus(factor, measures[number], number == root)
    nearest = limit.to_6_places if root == NOTHING or off else Decimal(0)
    if root != 0 and limit.square == 0 and limit.fraction.denominator <= 1 << 60 and abs(nearest) < 1 << 126:
        measures[0] = limit.fraction + Fraction(off, limit.fraction.denominator)
    difference = WithRoot(-limit.fraction, -limit.square).plus(Fraction(1), measures[0], root == 0)
    of = [(measures[1], *first[1:]), (measures[2], *second[1:])]
    assert compared(measures[0], of, plus_to_int64s(plus, scale), root) == difference.sign


@given(
    st.integers(0, 10**6),
    st.integers(-(10**6), 10**6),
    st.integers(1, 10**6),
    st.integers(0, 2),
    st.integers(-1, 1),
)
def test_a_root_that_is_a_whole_number_is_equal_to_it(whole, other, times, root, off):
    """`off`: the square is next to that of the number."""
    square = Fraction(max((whole * times) ** 2 + off, 0), times**2)
    if root == 0:  # √square ⋛ 3 · other + (whole − 3 · other)
        found = compared(square, [(Fraction(other), 3, 1, 0), (Fraction(whole - 3 * other), 1, 1, 0)], root=0)
        assert found == (square > whole**2) - (square < whole**2)
        return
    # other + 2 · whole ⋛ other + 2 · √square, in either order
    multiples = [(Fraction(other), 1, 1, 0), (square, 2, 1, 0)]
    found = compared(Fraction(other + 2 * whole), multiples if root == 2 else multiples[::-1], root=root)
    assert found == (whole**2 > square) - (whole**2 < square)
