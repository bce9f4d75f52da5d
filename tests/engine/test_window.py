"""The comparison with a limit, where floats nearly tie."""

import operator as op
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.engine import window
from lab.engine.window import Rules

COMPARE = (op.eq, op.ne, op.gt, op.ge, op.lt, op.le)  # in the order of lab.rules.OPERATORS


def rules(function: int, operator: int, limit: Fraction) -> Rules:
    whole = np.zeros((1, window.QUEUE + 1), np.int64)
    whole[0, window.FUNCTION], whole[0, window.OPERATOR] = function, operator
    whole[0, window.LIMIT] = np.uint64(limit.numerator % (1 << 64)).astype(np.int64)
    whole[0, window.UNIT] = limit.denominator
    return Rules(whole, np.array([[float(limit.numerator), float(limit.denominator)]]), np.zeros(0, np.int64))


@settings(max_examples=1000, deadline=None)
@given(
    limit=st.fractions(-(10**18), 10**18, max_denominator=10**8),
    count=st.integers(1, 10**5),
    beside=st.integers(-3, 3),
    operator=st.integers(0, 5),
)
def test_a_mean_is_compared_exactly_however_close_to_the_limit(limit, count, beside, operator):
    total = round(limit * count) + beside
    got = window.holds(rules(window.AVG, operator, limit), 0, total >> 32, total & window.LOW_BITS, count)
    assert got == COMPARE[operator](total, limit * count)
