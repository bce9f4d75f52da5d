"""Rules that are not plain: their conditions, compared at each event with what all aggregates measure there.

aggregate 0: 6    aggregate 1: 2 / 3        rule 4:  0 > 5  and  1 >= 1/2 · 0      two comparisons, no search
"""

import numpy as np

from lab.engine.compiled.aggregates import COUNT_SINCE, HUGE, has_values
from lab.engine.compiled.blocks import block_of, has_blocks
from lab.engine.compiled.groups import reset
from lab.engine.compiled.layout import (
    ALERTED,
    ANY,
    AT_MOST,
    BASE,
    BY,
    CONDITION,
    COUNTED_BY,
    DENOMINATOR,
    EQUAL,
    FIRST_OF,
    GREATER,
    GREATER_EQUAL,
    HIGH_PART,
    IN_GROUP,
    KIND,
    LAST_OF,
    LESS,
    LIMIT,
    LOW_BITS,
    LOW_PART,
    MEASURES,
    NOT_EQUAL,
    NOTHING,
    NUMERATOR,
    OF_RULE,
    PLUS,
    RELATION,
    RESET,
    RETURNS,
    ROW,
    RULE,
    RULE_ID,
    SEQ,
    SPOKE_BIT,
    SPOKE_COLUMN,
    SPOKEN,
    START,
    SUPPRESSED,
    TENS,
    TIME,
    TIMES,
    VALUES,
    N,
    bare,
)
from lab.engine.compiled.limits import FRACTION, Measure, compare_with_limit

# of 32 bits, in two's complement: room for 127 bits · 10^36 · three numbers of 60 bits · 10^12, and for 10^72 · three · 10^36
HUGE_LIMBS = 16
TWO_32 = 4294967296.0
TWO_64 = 18446744073709551616.0
NEARLY = 1e-9  # far more than what floats are wrong by


@bare
def keep_measure(rules, a, measure):
    """Notes what an aggregate measures at the event."""
    rules.measured[a, 0] = measure.high
    rules.measured[a, 1] = measure.low
    rules.measured[a, 2] = measure.numerator
    rules.measured[a, 3] = measure.denominator


@bare
def measure_of(rules, a):
    return Measure(rules.measured[a, 0], rules.measured[a, 1], rules.measured[a, 2], rules.measured[a, 3])


@bare
def judge_conditions(store, rules, batch, g, j, row, alerts, fired):
    """Writes the alerts of the rules whose conditions hold at event `j`, in row `row` of the batch; returns where `alerts` got to."""
    for n in range(len(rules.joined)):
        rule, first, last = rules.joined[n, OF_RULE], rules.joined[n, FIRST_OF], rules.joined[n, LAST_OF]
        column = rules.when[rule, 0]
        if column != NOTHING and not batch.when[row, column] & rules.when[rule, 1]:
            continue
        counted_by = rules.joined[n, COUNTED_BY]
        if counted_by != NOTHING and not has_values(store, rules, counted_by, j):
            continue
        enough = rules.joined[n, ANY] != 0
        holds = not enough
        for c in range(first, last):
            if holds_at(store, rules, c) == enough:
                holds = enough
                break
        if not holds:
            continue
        for c in range(first, last):
            begin_anew(store, rules, rules.condition[c, MEASURES], g, j)
        if count_alert_if_allowed(store, rules, n, g, j):
            if store.size[RETURNS]:
                store.event[j, VALUES] |= ALERTED
            for c in range(first, last):
                fired = write_measure(rules, c, MEASURES, rule, 2 * (c - first), row, g, alerts, fired)
                fired = write_measure(rules, c, BASE, rule, 2 * (c - first) + 1, row, g, alerts, fired)
        else:
            measure = measure_of(rules, rules.condition[first, MEASURES])
            write_alert(alerts, fired, row, rule, g, SUPPRESSED, measure)
            fired += 1
    return fired


@bare
def count_alert_if_allowed(store, rules, n, g, j):
    """Counts an alert at event `j` unless the rule has given as many as it may in the window that ends there; False if it has."""
    a = rules.joined[n, SPOKEN]
    if a == NOTHING:
        return True
    if rules.measured[a, 1] >= rules.joined[n, AT_MOST]:
        return False
    store.event[j, rules.joined[n, SPOKE_COLUMN]] |= rules.joined[n, SPOKE_BIT]
    # event `j` did not count for it before
    place = np.int64(store.place[g, a])
    if store.event[j, TIME] >= store.event[store.running[place + START], TIME]:
        store.running[place + N] += 1
    if has_blocks(store, g):
        store.total[block_of(store, g, store.event[j, TIME]), a, START] = 0
    return True


@bare
def write_measure(rules, c, which, rule, number, row, g, alerts, fired):
    """Writes one value of an alert, if there is one."""
    a = rules.condition[c, which]
    if a == NOTHING or rules.measured[a, 3] == 0:
        return fired
    write_alert(alerts, fired, row, rule, g, number, measure_of(rules, a))
    return fired + 1


@bare
def write_alert(alerts, at, row, rule, g, condition, measure):
    """Fills a row of `alerts`."""
    alerts[at, ROW] = row
    alerts[at, RULE] = rule
    alerts[at, IN_GROUP] = g
    alerts[at, CONDITION] = condition
    alerts[at, HIGH_PART] = measure.high
    alerts[at, LOW_PART] = measure.low
    alerts[at, NUMERATOR] = measure.numerator
    alerts[at, DENOMINATOR] = measure.denominator


@bare
def begin_anew(store, rules, a, g, j):
    """Has an aggregate that counts since its rule fired count from event `j` on."""
    if rules.aggregate[a, KIND] == COUNT_SINCE:
        place = np.int64(store.place[g, a])
        store.running[place + RESET] = store.event[j, SEQ]
        store.running[place + N] = 0
        reset(store, rules.aggregate[a, RULE_ID], g, store.event[j, SEQ])


# -- comparing ---------------------------------------------------------------------------------------------------------


@bare
def holds_at(store, rules, c):
    """Whether a condition holds; not if there is nothing to compare."""
    a, base = rules.condition[c, MEASURES], rules.condition[c, BASE]
    measure = measure_of(rules, a)
    if measure.denominator == 0:
        return False
    if base == NOTHING:
        return in_relation(
            rules.condition[c, RELATION], compare_with_limit(measure, rules.condition[c, LIMIT:BASE])
        )
    other = measure_of(rules, base)
    if other.denominator == 0:
        return False
    sign = compared_with(
        store.scratch,
        measure,
        other,
        rules.condition[c, TIMES],
        rules.condition[c, BY],
        rules.condition[c, TENS],
        rules.condition[c, PLUS:],
    )
    return in_relation(rules.condition[c, RELATION], sign)


@bare
def in_relation(relation, sign):
    """Whether what is less (sign -1), equal (0) or greater (1) is in a relation."""
    if relation == EQUAL:
        return sign == 0
    if relation == NOT_EQUAL:
        return sign != 0
    if relation == GREATER:
        return sign > 0
    if relation == GREATER_EQUAL:
        return sign >= 0
    if relation == LESS:
        return sign < 0
    return sign <= 0


@bare
def measure_as_float(measure):
    """A measure as a float."""
    if measure.high == measure.low >> 63:
        whole = np.float64(measure.low)
    else:
        whole = np.float64(measure.high) * TWO_64 + np.float64(np.uint64(measure.low))
    return whole + np.float64(measure.numerator) / np.float64(measure.denominator)


@bare
def plus_as_float(plus):
    """What is added to a limit as a float."""
    more = 0.0
    for limb in range(len(plus) - 1, 0, -1):
        more = more * TWO_32 + plus[limb]
    return plus[0] * more / FRACTION


@bare
def compared_with(scratch, measure, other, times, by, tens, plus):
    """-1, 0 or 1: the measure is less than other · times / by · 10^tens + plus, equal to it, greater.

    Floats say so where they are far apart; else both sides are multiplied out, to the last digit.
    """
    factor = np.float64(times) / np.float64(by)
    for _ in range(abs(tens)):  # no power: a page has none
        factor = factor * 10.0 if tens > 0 else factor / 10.0
    one, two, more = measure_as_float(measure), measure_as_float(other) * factor, plus_as_float(plus)
    if abs(one - two - more) > NEARLY * (abs(one) + abs(two) + abs(more) + factor + 1.0):
        return 1 if one > two + more else -1
    left, right = scratch[HUGE : HUGE + HUGE_LIMBS], scratch[HUGE + HUGE_LIMBS : HUGE + 2 * HUGE_LIMBS]
    write_improper_numerator(left, measure)
    write_improper_numerator(right, other)
    multiply(left, other.denominator)
    multiply(left, by)
    multiply(right, measure.denominator)
    multiply(right, times)
    for _ in range(abs(tens)):
        multiply(right if tens > 0 else left, 10)
    if plus[0] != 0:
        added = scratch[HUGE + 2 * HUGE_LIMBS : HUGE + 3 * HUGE_LIMBS]
        added[:] = 0
        for limb in range(1, len(plus)):
            added[limb - 1] = plus[limb]
        multiply(added, measure.denominator)
        multiply(added, other.denominator)
        multiply(added, by)
        for _ in range(-tens):
            multiply(added, 10)
        multiply(left, FRACTION)
        multiply(right, FRACTION)
        combine(left, added, -plus[0])
    combine(left, right, -1)
    return sign_of(left)


@bare
def write_improper_numerator(limbs, measure):
    """Fills limbs of 32 bits with whole · denominator + numerator of a measure."""
    low, high = np.uint64(measure.low), measure.high
    limbs[:] = LOW_BITS if high < 0 else 0
    limbs[0], limbs[1] = np.int64(low & np.uint64(LOW_BITS)), np.int64(low >> np.uint64(32))
    limbs[2], limbs[3] = high & LOW_BITS, (high >> 32) & LOW_BITS
    multiply(limbs, measure.denominator)
    add(limbs, 0, np.uint64(measure.numerator))


@bare
def sign_of(limbs):
    """-1, 0 or 1."""
    if limbs[len(limbs) - 1] >> 31:
        return -1
    for limb in limbs:
        if limb != 0:
            return 1
    return 0


@bare
def combine(limbs, others, sign):
    """Adds other limbs (sign 1), or subtracts them (-1)."""
    carry = np.int64(0)
    for at in range(len(limbs)):
        total = limbs[at] + sign * others[at] + carry
        limbs[at] = total & LOW_BITS
        carry = total >> 32


@bare
def add(limbs, at, value):
    """Adds an unsigned number of 64 bits, 32 · `at` bits up."""
    carry = value
    while carry != 0 and at < len(limbs):
        total = np.uint64(limbs[at]) + (carry & np.uint64(LOW_BITS))
        limbs[at] = np.int64(total & np.uint64(LOW_BITS))
        carry = (carry >> np.uint64(32)) + (total >> np.uint64(32))
        at += 1


@bare
def multiply(limbs, factor):
    """Multiplies by a number of 63 bits."""
    low, high = np.uint64(factor) & np.uint64(LOW_BITS), np.uint64(factor) >> np.uint64(32)
    for at in range(len(limbs) - 1, -1, -1):
        limb = np.uint64(limbs[at])
        limbs[at] = 0
        add(limbs, at, limb * low)
        add(limbs, at + 1, limb * high)
