"""Rules that are not plain: their conditions, compared at each event with what all aggregates measure there.

aggregate 0: 6    aggregate 1: 2 / 3        rule 4:  0 > 5  and  1 >= 1/2 · 0      two comparisons, no search
"""

import numpy as np

from lab.engine.compiled.aggregates.counted import COUNT_SINCE, has_values
from lab.engine.compiled.aggregates.forms import HUGE
from lab.engine.compiled.groups import record_reset
from lab.engine.compiled.layout import (
    ALERTED,
    ANY,
    AT_MOST,
    BASE,
    COMPARED_LIMIT,
    CONDITION,
    COUNTED_BY,
    DENOMINATOR,
    EQUAL,
    FIRST_OF,
    GREATER,
    GREATER_EQUAL,
    HIGH_PART,
    IN_GROUP,
    LAST_OF,
    LESS,
    LOW_BITS,
    LOW_PART,
    MEASURES,
    MORE,
    NOT_EQUAL,
    NOTHING,
    NUMERATOR,
    OF_RULE,
    PLUS,
    PLUS_LIMBS,
    RELATION,
    RESET,
    RETURNS,
    ROOT,
    ROW,
    RULE,
    SEQ,
    SPOKE_BIT,
    SPOKE_COLUMN,
    SPOKEN,
    START,
    SUPPRESSED,
    TIME,
    VALUES,
    VALUES_OF_CONDITION,
    N,
    njit_without_allocation,
)
from lab.engine.compiled.limits import FRACTION, Measure, compare_with_limit

# of 32 bits, in two's complement: room for 127 bits · 10^36 · three numbers of 60 bits · 10^12, and for 10^72 · three · 10^36
FEW_LIMBS = 16
# with two multiples or a root: for the square of 187 bits · two numbers of 60 bits and 10^36 · 10^12 twice, times three of 60 bits and 10^72
HUGE_LIMBS = 64
TWO_32 = 4294967296.0
TWO_64 = 18446744073709551616.0
NEARLY = 1e-9  # far more than what floats are wrong by


@njit_without_allocation
def save_measure(rules, aggregate, measure):
    """Saves the value of an aggregate at the current event, for the conditions."""
    rules.saved_measures[aggregate, 0] = measure.high
    rules.saved_measures[aggregate, 1] = measure.low
    rules.saved_measures[aggregate, 2] = measure.numerator
    rules.saved_measures[aggregate, 3] = measure.denominator


@njit_without_allocation
def saved_measure(rules, aggregate):
    return Measure(
        rules.saved_measures[aggregate, 0],
        rules.saved_measures[aggregate, 1],
        rules.saved_measures[aggregate, 2],
        rules.saved_measures[aggregate, 3],
    )


@njit_without_allocation
def append_alerts_of_conditions(store, rules, batch, group, event, batch_row, alerts, alert_rows):
    """Appends to `alerts` the alerts of the rules whose conditions are met at an event; `alert_rows`: the rows before. Returns the rows after."""
    for number in range(len(rules.rules_with_conditions)):
        rule = rules.rules_with_conditions[number, OF_RULE]
        first = rules.rules_with_conditions[number, FIRST_OF]
        last = rules.rules_with_conditions[number, LAST_OF]
        column = rules.when_bits[rule, 0]
        if column != NOTHING and not batch.when_bits[batch_row, column] & rules.when_bits[rule, 1]:
            continue
        counted_by = rules.rules_with_conditions[number, COUNTED_BY]
        if counted_by != NOTHING and not has_values(store, rules, counted_by, event):
            continue
        enough = rules.rules_with_conditions[number, ANY] != 0
        holds = not enough
        for condition in range(first, last):
            if is_condition_met(store, rules, condition) == enough:
                holds = enough
                break
        if not holds:
            continue
        for condition in range(first, last):
            reset_if_count_with_reset(store, rules, rules.conditions[condition, MEASURES], group, event)
        if count_alert_if_allowed(store, rules, number, group, event):
            if store.scalars[RETURNS]:
                store.events[event, VALUES] |= ALERTED
            for condition in range(first, last):
                number = VALUES_OF_CONDITION * (condition - first)
                for column in (MEASURES, BASE, MORE):
                    aggregate = rules.conditions[condition, column]
                    if aggregate != NOTHING and rules.saved_measures[aggregate, 3] != 0:
                        measure = saved_measure(rules, aggregate)
                        write_alert_row(alerts, alert_rows, batch_row, rule, group, number, measure)
                        alert_rows += 1
                    number += 1
        else:
            measure = saved_measure(rules, rules.conditions[first, MEASURES])
            write_alert_row(alerts, alert_rows, batch_row, rule, group, SUPPRESSED, measure)
            alert_rows += 1
    return alert_rows


@njit_without_allocation
def count_alert_if_allowed(store, rules, rule_row, group, event):
    """Counts an alert at an event and returns True, or False if the rule has raised as many as it may in the window that ends there."""
    aggregate = rules.rules_with_conditions[rule_row, SPOKEN]
    if aggregate == NOTHING:
        return True
    if rules.saved_measures[aggregate, 1] >= rules.rules_with_conditions[rule_row, AT_MOST]:
        return False
    store.events[event, rules.rules_with_conditions[rule_row, SPOKE_COLUMN]] |= rules.rules_with_conditions[
        rule_row, SPOKE_BIT
    ]
    # until now, the event did not count for this aggregate
    offset = np.int64(store.accumulator_starts[group, aggregate])
    if (
        offset != NOTHING
        and store.events[event, TIME] >= store.events[store.accumulators[offset + START], TIME]
    ):
        store.accumulators[offset + N] += 1
    # no total of a block has it yet: at an event, only totals of older blocks are computed
    return True


@njit_without_allocation
def write_alert_row(alerts, alert_row, batch_row, rule, group, value_number, measure):
    """Fills a row of `alerts`."""
    alerts[alert_row, ROW] = batch_row
    alerts[alert_row, RULE] = rule
    alerts[alert_row, IN_GROUP] = group
    alerts[alert_row, CONDITION] = value_number
    alerts[alert_row, HIGH_PART] = measure.high
    alerts[alert_row, LOW_PART] = measure.low
    alerts[alert_row, NUMERATOR] = measure.numerator
    alerts[alert_row, DENOMINATOR] = measure.denominator


@njit_without_allocation
def reset_if_count_with_reset(store, rules, aggregate, group, event):
    """Restarts a COUNT_WITH_RESET at an event; does nothing for other aggregates."""
    if rules.aggregates[aggregate].kind == COUNT_SINCE:
        offset = np.int64(store.accumulator_starts[group, aggregate])
        store.accumulators[offset + RESET] = store.events[event, SEQ]
        store.accumulators[offset + N] = 0
        record_reset(store, rules.aggregates[aggregate].rule_id, group, store.events[event, SEQ])


# -- comparing ---------------------------------------------------------------------------------------------------------


@njit_without_allocation
def is_condition_met(store, rules, condition):
    """Whether a condition is met; False if one of its sides has no value."""
    aggregate, base = rules.conditions[condition, MEASURES], rules.conditions[condition, BASE]
    measure = saved_measure(rules, aggregate)
    if measure.denominator == 0:
        return False
    if base == NOTHING:
        return is_operator_satisfied(
            rules.conditions[condition, RELATION],
            compare_with_limit(measure, rules.conditions[condition, COMPARED_LIMIT:BASE]),
        )
    other, more = saved_measure(rules, base), measure
    if rules.conditions[condition, MORE] != NOTHING:
        more = saved_measure(rules, rules.conditions[condition, MORE])
    if other.denominator == 0 or more.denominator == 0:
        return False
    sign = compare_with_sum(store.scratch, measure, other, more, rules.conditions[condition])
    return is_operator_satisfied(rules.conditions[condition, RELATION], sign)


@njit_without_allocation
def is_operator_satisfied(operator, sign):
    """Whether an operator holds for a value that is less (sign -1), equal (0) or greater (1)."""
    if operator == EQUAL:
        return sign == 0
    if operator == NOT_EQUAL:
        return sign != 0
    if operator == GREATER:
        return sign > 0
    if operator == GREATER_EQUAL:
        return sign >= 0
    if operator == LESS:
        return sign < 0
    return sign <= 0


@njit_without_allocation
def measure_as_float(measure):
    """A measure as a float."""
    if measure.high == measure.low >> 63:
        whole = np.float64(measure.low)
    else:
        whole = np.float64(measure.high) * TWO_64 + np.float64(np.uint64(measure.low))
    return whole + np.float64(measure.numerator) / np.float64(measure.denominator)


@njit_without_allocation
def plus_as_float(plus):
    """The number that is added to a limit, as a float."""
    more = 0.0
    for limb in range(len(plus) - 1, 0, -1):
        more = more * TWO_32 + plus[limb]
    return plus[0] * more / FRACTION


@njit_without_allocation
def factor_as_float(multiple):
    """The factor of a multiple in a condition."""
    factor = np.float64(multiple[1]) / np.float64(multiple[2])
    for _ in range(abs(multiple[3])):  # a loop, because the WebAssembly page has no power function
        factor = factor * 10.0 if multiple[3] > 0 else factor / 10.0
    return factor


@njit_without_allocation
def compare_with_sum(scratch, measure, base, more, condition):
    """Whether the measure is less than (-1), equal to (0) or greater than (1) the limit of a condition, where BASE and MORE are these measures.

    Floats decide if both sides are far apart; otherwise `compare_exactly` does. If one of the measures stands for its root, r + √s is
    compared with 0: it is above 0 if r is above −√s, and so if r · |r| + s is.
    """
    rest, square = -plus_as_float(condition[PLUS:]), 0.0
    doubt, square_doubt = NEARLY * (abs(rest) + 1.0), 0.0
    for number in range(VALUES_OF_CONDITION):
        if number == 2 and condition[MORE] == NOTHING:
            continue
        of = measure if number == 0 else base if number == 1 else more
        factor = 1.0 if number == 0 else -factor_as_float(condition[BASE if number == 1 else MORE :])
        value, size = measure_as_float(of), abs(factor)
        if number == condition[ROOT]:
            square = value * factor * size
            square_doubt = NEARLY * (abs(square) + size * size)
        else:
            rest += value * factor
            doubt += NEARLY * size * (abs(value) + 1.0)
    if condition[ROOT] != NOTHING:
        doubt = (2 * abs(rest) + doubt) * doubt + square_doubt
        rest = rest * abs(rest) + square
    if abs(rest) > doubt:
        return 1 if rest > 0 else -1
    return compare_exactly(scratch, measure, base, more, condition)


@njit_without_allocation
def compare_exactly(scratch, measure, base, more, condition):
    """`compare_with_sum`, multiplied out to the last digit."""
    root = condition[ROOT]
    limbs = FEW_LIMBS if root == NOTHING and condition[MORE] == NOTHING else HUGE_LIMBS
    rest, term = scratch[HUGE : HUGE + limbs], scratch[HUGE + limbs : HUGE + 2 * limbs]
    rest[:] = 0
    for number in range(VALUES_OF_CONDITION + 1):
        if number == root or number == 2 and condition[MORE] == NOTHING:
            continue
        if number == VALUES_OF_CONDITION:
            if condition[PLUS] == 0:
                continue
            term[:] = 0
            for limb in range(PLUS_LIMBS):
                term[limb] = condition[PLUS + 1 + limb]
            sign = -condition[PLUS]
        else:
            of = measure if number == 0 else base if number == 1 else more
            write_improper_numerator(term, of)
            sign = multiply_by_factor(term, condition, number)
        multiply_by_denominators(term, measure, base, more, condition, number)
        add_limbs(rest, term, sign)
    sign = sign_of_limbs(rest)
    if root == NOTHING:
        return sign
    if sign < 0:
        negate_limbs(rest)
    square = scratch[HUGE + 2 * limbs : HUGE + 3 * limbs]
    of = measure if root == 0 else base if root == 1 else more
    square_limbs(square, rest)
    write_improper_numerator(term, of)
    multiply_limbs(square, of.denominator)
    root_sign = 1
    for _ in range(2):
        root_sign = multiply_by_factor(term, condition, root)
        multiply_by_divisor(square, condition, root)
        multiply_by_denominators(term, measure, base, more, condition, root)
    if sign < 0:
        negate_limbs(square)
    add_limbs(square, term, root_sign)
    return sign_of_limbs(square)


@njit_without_allocation
def multiply_by_factor(limbs, condition, number):
    """Multiplies by the numerator of the factor of a value: of the measure 1, of BASE and MORE theirs. Returns its sign in measure − limit."""
    if number == 0:
        return 1
    multiple = condition[BASE if number == 1 else MORE :]
    multiply_limbs(limbs, abs(multiple[1]))
    multiply_by_tens(limbs, multiple[3])
    return 1 if multiple[1] < 0 else -1


@njit_without_allocation
def multiply_by_divisor(limbs, condition, number):
    """Multiplies by the denominator of the factor of a value."""
    if number != 0:
        multiple = condition[BASE if number == 1 else MORE :]
        multiply_limbs(limbs, multiple[2])
        multiply_by_tens(limbs, -multiple[3])


@njit_without_allocation
def multiply_by_denominators(limbs, measure, base, more, condition, without):
    """Multiplies by the denominators of all values and factors except one, and of the number that is added; not by those of a root."""
    for number in range(VALUES_OF_CONDITION):
        absent = number == 2 and condition[MORE] == NOTHING
        if number != without and number != condition[ROOT] and not absent:
            of = measure if number == 0 else base if number == 1 else more
            multiply_limbs(limbs, of.denominator)
            multiply_by_divisor(limbs, condition, number)
    if without != VALUES_OF_CONDITION and condition[PLUS] != 0:
        multiply_limbs(limbs, FRACTION)


@njit_without_allocation
def multiply_by_tens(limbs, power):
    """Multiplies by 10^`power`, by 1 if that is below 0."""
    for _ in range(power):
        multiply_limbs(limbs, 10)


@njit_without_allocation
def negate_limbs(limbs):
    carry = np.int64(1)
    for at in range(len(limbs)):
        total = (limbs[at] ^ LOW_BITS) + carry
        limbs[at] = total & LOW_BITS
        carry = total >> 32


@njit_without_allocation
def square_limbs(square, limbs):
    """Fills `square` with the square of a number that is not negative."""
    square[:] = 0
    for one in range(len(limbs)):
        for other in range(len(limbs) - one):
            if limbs[one] != 0 and limbs[other] != 0:
                add_from_limb(square, one + other, np.uint64(limbs[one]) * np.uint64(limbs[other]))


@njit_without_allocation
def write_improper_numerator(limbs, measure):
    """Fills limbs of 32 bits with whole · denominator + numerator of a measure."""
    low, high = np.uint64(measure.low), measure.high
    limbs[:] = LOW_BITS if high < 0 else 0
    limbs[0], limbs[1] = np.int64(low & np.uint64(LOW_BITS)), np.int64(low >> np.uint64(32))
    limbs[2], limbs[3] = high & LOW_BITS, (high >> 32) & LOW_BITS
    multiply_limbs(limbs, measure.denominator)
    add_from_limb(limbs, 0, np.uint64(measure.numerator))


@njit_without_allocation
def sign_of_limbs(limbs):
    """-1, 0 or 1."""
    if limbs[len(limbs) - 1] >> 31:
        return -1
    for limb in limbs:
        if limb != 0:
            return 1
    return 0


@njit_without_allocation
def add_limbs(limbs, others, sign):
    """Adds other limbs (sign 1), or subtracts them (-1)."""
    carry = np.int64(0)
    for at in range(len(limbs)):
        total = limbs[at] + sign * others[at] + carry
        limbs[at] = total & LOW_BITS
        carry = total >> 32


@njit_without_allocation
def add_from_limb(limbs, first_limb, value):
    """Adds an unsigned number of 64 bits, shifted up by 32 · `first_limb` bits."""
    carry = value
    while carry != 0 and first_limb < len(limbs):
        total = np.uint64(limbs[first_limb]) + (carry & np.uint64(LOW_BITS))
        limbs[first_limb] = np.int64(total & np.uint64(LOW_BITS))
        carry = (carry >> np.uint64(32)) + (total >> np.uint64(32))
        first_limb += 1


@njit_without_allocation
def multiply_limbs(limbs, factor):
    """Multiplies by a number of 63 bits."""
    if factor == 1:
        return
    low, high = np.uint64(factor) & np.uint64(LOW_BITS), np.uint64(factor) >> np.uint64(32)
    for at in range(len(limbs) - 1, -1, -1):
        limb = np.uint64(limbs[at])
        limbs[at] = 0
        add_from_limb(limbs, at, limb * low)
        add_from_limb(limbs, at + 1, limb * high)
