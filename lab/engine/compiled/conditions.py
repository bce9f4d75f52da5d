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
    BY,
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
    njit_without_allocation,
)
from lab.engine.compiled.limits import FRACTION, Measure, compare_with_limit

# of 32 bits, in two's complement: room for 127 bits · 10^36 · three numbers of 60 bits · 10^12, and for 10^72 · three · 10^36
HUGE_LIMBS = 16
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
                alert_rows = append_saved_measure_if_any(
                    rules,
                    condition,
                    MEASURES,
                    rule,
                    2 * (condition - first),
                    batch_row,
                    group,
                    alerts,
                    alert_rows,
                )
                alert_rows = append_saved_measure_if_any(
                    rules,
                    condition,
                    BASE,
                    rule,
                    2 * (condition - first) + 1,
                    batch_row,
                    group,
                    alerts,
                    alert_rows,
                )
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
    if store.events[event, TIME] >= store.events[store.accumulators[offset + START], TIME]:
        store.accumulators[offset + N] += 1
    # no total of a block has it yet: at an event, only totals of older blocks are computed
    return True


@njit_without_allocation
def append_saved_measure_if_any(
    rules, condition, measure_column, rule, value_number, batch_row, group, alerts, alert_rows
):
    """Appends one value of an alert to `alerts`, if there is a value; returns the number of rows after."""
    aggregate = rules.conditions[condition, measure_column]
    if aggregate == NOTHING or rules.saved_measures[aggregate, 3] == 0:
        return alert_rows
    write_alert_row(alerts, alert_rows, batch_row, rule, group, value_number, saved_measure(rules, aggregate))
    return alert_rows + 1


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
    other = saved_measure(rules, base)
    if other.denominator == 0:
        return False
    sign = compare_with_multiple(
        store.scratch,
        measure,
        other,
        rules.conditions[condition, TIMES],
        rules.conditions[condition, BY],
        rules.conditions[condition, TENS],
        rules.conditions[condition, PLUS:],
    )
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
def compare_with_multiple(scratch, measure, other, factor, divisor, power_of_ten, plus):
    """Whether the measure is less than (-1), equal to (0) or greater than (1) other · factor / divisor · 10^power_of_ten + plus.

    Floats decide if both sides are far apart; otherwise both are multiplied out, to the last digit.
    """
    float_factor = np.float64(factor) / np.float64(divisor)
    for _ in range(abs(power_of_ten)):  # a loop, because the WebAssembly page has no power function
        float_factor = float_factor * 10.0 if power_of_ten > 0 else float_factor / 10.0
    one, two, more = measure_as_float(measure), measure_as_float(other) * float_factor, plus_as_float(plus)
    if abs(one - two - more) > NEARLY * (abs(one) + abs(two) + abs(more) + float_factor + 1.0):
        return 1 if one > two + more else -1
    left, right = scratch[HUGE : HUGE + HUGE_LIMBS], scratch[HUGE + HUGE_LIMBS : HUGE + 2 * HUGE_LIMBS]
    write_improper_numerator(left, measure)
    write_improper_numerator(right, other)
    multiply_limbs(left, other.denominator)
    multiply_limbs(left, divisor)
    multiply_limbs(right, measure.denominator)
    multiply_limbs(right, factor)
    for _ in range(abs(power_of_ten)):
        multiply_limbs(right if power_of_ten > 0 else left, 10)
    if plus[0] != 0:
        added = scratch[HUGE + 2 * HUGE_LIMBS : HUGE + 3 * HUGE_LIMBS]
        added[:] = 0
        for limb in range(1, len(plus)):
            added[limb - 1] = plus[limb]
        multiply_limbs(added, measure.denominator)
        multiply_limbs(added, other.denominator)
        multiply_limbs(added, divisor)
        for _ in range(-power_of_ten):
            multiply_limbs(added, 10)
        multiply_limbs(left, FRACTION)
        multiply_limbs(right, FRACTION)
        add_limbs(left, added, -plus[0])
    add_limbs(left, right, -1)
    return sign_of_limbs(left)


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
    low, high = np.uint64(factor) & np.uint64(LOW_BITS), np.uint64(factor) >> np.uint64(32)
    for at in range(len(limbs) - 1, -1, -1):
        limb = np.uint64(limbs[at])
        limbs[at] = 0
        add_from_limb(limbs, at, limb * low)
        add_from_limb(limbs, at + 1, limb * high)
