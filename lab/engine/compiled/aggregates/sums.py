"""Sums, means and variances of 64-bit values, exactly: long arithmetic with digits of 32 bits.

variance   (n · Σ value² − (Σ value)²) / n²        limbs    │ 0 │ 1 │ 2 │ 3 │ … each worth 2³² times the one before
"""

import numpy as np

from lab.engine.compiled.aggregates.counted import measure_of_value, no_measure
from lab.engine.compiled.layout import HIGH, LIMB, LOW, LOW_BITS, N, njit_without_allocation
from lab.engine.compiled.limits import Measure

LIMBS = 8  # the first places of Store.scratch, to calculate in


@njit_without_allocation
def add_value(store, rules, aggregate, accumulator, event, sign):
    value = store.events[event, rules.aggregates[aggregate].column]
    accumulator[N] += sign
    accumulator[HIGH] += sign * (value >> 32)
    accumulator[LOW] += sign * (value & LOW_BITS)


@njit_without_allocation
def add_value_and_square(store, rules, aggregate, accumulator, event, sign):
    add_value(store, rules, aggregate, accumulator, event, sign)
    add_square(accumulator, store.events[event, rules.aggregates[aggregate].column], sign)


@njit_without_allocation
def measure_of_sum(store, rules, aggregate, accumulator):
    if accumulator[N] == 0:
        return no_measure()
    high = accumulator[HIGH] + (accumulator[LOW] >> 32)
    return Measure(high >> 32, high << 32 | accumulator[LOW] & LOW_BITS, 0, 1)


@njit_without_allocation
def measure_of_mean(store, rules, aggregate, accumulator):
    if accumulator[N] == 0:
        return no_measure()
    quotient, rest = mean_with_remainder(accumulator)
    return measure_of_value(quotient, rest, accumulator[N])


@njit_without_allocation
def measure_of_squares(store, rules, aggregate, accumulator):
    if accumulator[N] == 0:
        return no_measure()
    return variance(accumulator, store.scratch)


@njit_without_allocation
def mean_with_remainder(accumulator):
    """The sum by the count: quotient (rounded down) and rest."""
    n = accumulator[N]
    high = accumulator[HIGH] + (accumulator[LOW] >> 32)
    low = (high % n) << 32 | accumulator[LOW] & LOW_BITS
    return (high // n << 32) + low // n, low % n


@njit_without_allocation
def add_square(accumulator, value, sign):
    """Adds value² = (a · 2³² + b)², limb by limb."""
    size = np.uint64(value if value >= 0 else -value)
    bits, half = np.uint64(LOW_BITS), np.uint64(32)
    a, b = size >> half, size & bits
    aa, ab, bb = a * a, a * b << np.uint64(1), b * b
    accumulator[LIMB] += sign * np.int64(bb & bits)
    accumulator[LIMB + 1] += sign * np.int64((bb >> half) + (ab & bits))
    accumulator[LIMB + 2] += sign * np.int64((ab >> half) + (aa & bits))
    accumulator[LIMB + 3] += sign * np.int64(aa >> half)


@njit_without_allocation
def variance(accumulator, limbs):
    """(n · Σ value² − (Σ value)²) / n², exactly: long multiplication and division with digits of 32 bits."""
    n = accumulator[N]
    high, low = accumulator[HIGH] + (accumulator[LOW] >> 32), accumulator[LOW] & LOW_BITS
    if high < 0:  # (Σ value)² = (−Σ value)²
        high, low = -high - (low > 0), -low & LOW_BITS
    limbs[:LIMBS] = 0
    carry = np.int64(0)
    for i in range(4):
        carry += accumulator[LIMB + i]
        add_product(limbs, i, carry & LOW_BITS, n, 1)
        carry >>= 32
    add_product(limbs, 4, carry, n, 1)
    for i in range(3):
        for k in range(3):
            add_product(limbs, i + k, limb_of(high, low, i), limb_of(high, low, k), -1)
    carry = np.int64(0)
    for i in range(LIMBS):
        carry += limbs[i]
        limbs[i] = carry & LOW_BITS
        carry >>= 32
    rest = divide_limbs(limbs, n)
    numerator = rest + n * divide_limbs(limbs, n)
    return Measure(limbs[3] << 32 | limbs[2], limbs[1] << 32 | limbs[0], numerator, n * n)


@njit_without_allocation
def limb_of(high, low, digit):
    """Digit 0, 1 or 2 of high · 2³² + low, to the base of 2³²."""
    return low if digit == 0 else high & LOW_BITS if digit == 1 else high >> 32


@njit_without_allocation
def add_product(limbs, digit, a, b, sign):
    """Adds ± a · b at a digit; a and b are below 2³²."""
    product = np.uint64(a) * np.uint64(b)
    limbs[digit] += sign * np.int64(product & np.uint64(LOW_BITS))
    limbs[digit + 1] += sign * np.int64(product >> np.uint64(32))


@njit_without_allocation
def divide_limbs(limbs, divisor):
    """Divides a number in digits of 32 bits by a divisor < 2³⁰ in place, and returns the remainder."""
    rest = np.int64(0)
    for i in range(LIMBS - 1, -1, -1):
        rest = rest << 32 | limbs[i]
        limbs[i] = rest // divisor
        rest %= divisor
    return rest
