"""Every limit that the rule book accepts is decided exactly: beside the aggregate by 10⁻¹², where floats are off by billions."""

import json
from decimal import Decimal
from fractions import Fraction
from math import floor, isqrt

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from lab.engine.compiled import layout
from lab.engine.compiled.aggregates import sums
from lab.engine.compiled.aggregates.forms import ACCUMULATOR_LAYOUTS
from lab.engine.compiled.limits import Measure, compare_with_limit, limit_to_int64s
from lab.model.aggregates import AGGREGATES, median
from lab.model.field import Field
from lab.model.rules import OPERATORS, rule_message
from lab.model.schema import Schema
from tests.engine.drawn import agreed
from tests.engine.randomlogs import Entry
from tests.examples import examples

SCHEMA = Schema(
    "exact",
    (
        Field("id", "long"),
        Field("time", "long"),
        Field("whole", "long"),
        Field("cents", "decimal(18,2)"),
        Field("tiny", "decimal(18,18)"),
    ),
    id_fields=("id",),
    time_field="time",
)
LEAST, MOST = -(1 << 63), (1 << 63) - 1
MEASURED = [name for name, row in AGGREGATES.items() if row.argument_kind == "field" and not row.of_place]


def rule(rule_id: int, function: str, field: str, operator: str, limit: Decimal | str) -> Entry:
    text = f"{limit:f}" if isinstance(limit, Decimal) else limit
    window = "1h" if AGGREGATES[function].has_window else "1s"
    return "control", json.dumps(rule_message(rule_id, [], field, function, operator, text, window)).encode()


def event(number: int, field: str, value: int, scale: int = 0) -> Entry:
    line = {
        "id": number,
        "time": 10**9 + number,
        field: f"{Decimal(f'{value}E-{scale}'):f}" if scale else value,
    }
    return "event", json.dumps(line).encode()


@pytest.mark.slow
def test_a_sum_of_a_thousand_large_values_is_less_than_a_limit_a_trifle_above_it():
    value = 9_200_000_000_000_000_000
    limits = [
        (operator, f"{1000 * value + beyond}.000000000001")
        for operator in OPERATORS
        for beyond in (0, 15_000_000)
    ]
    rules = [rule(number, "SUM", "whole", *limit) for number, limit in enumerate(limits, 1)]
    reference = agreed([*rules, *(event(number, "whole", value) for number in range(1000))], SCHEMA)
    last = {limits[alert.rule_id - 1] for alert in reference.alerts if alert.event_id == 999}
    assert last == {limit for limit in limits if limit[0] in ("LESS", "LESS_EQUAL", "NOT_EQUAL")}


def twelve_places(value: Fraction) -> int:
    return floor(value * 10**12)


@settings(max_examples=examples(400), deadline=None)
@given(data=st.data())
def test_limits_beside_an_aggregate_are_decided_exactly(data):
    function = data.draw(st.sampled_from(MEASURED))
    field = data.draw(st.sampled_from(["whole", "cents", "tiny"]))
    scale = SCHEMA.field(field).scale
    most = MOST if field == "whole" else 10**18 - 1
    near = st.integers(-5, 5)
    large = st.one_of(
        st.integers(-most, most), near.map(lambda n: most - abs(n)), near.map(lambda n: abs(n) - most)
    )
    values = data.draw(
        st.one_of(st.lists(near, min_size=1, max_size=12), st.lists(large, min_size=1, max_size=12))
    )
    row = AGGREGATES[function]
    assume(len(values) > row.of_pair)
    measure = Fraction(row.measure([Fraction(value, 10**scale) for value in values]))
    units = twelve_places(measure)
    if function == "STDDEV":
        units = isqrt(floor(measure * 10**24))
    assume(abs(units) < 10**36 - 2)
    rules = [
        rule(number, function, field, operator, Decimal(f"{units + beside}E-12"))
        for number, (operator, beside) in enumerate(
            ((operator, beside) for operator in OPERATORS for beside in (-1, 0, 1)), 1
        )
    ]
    agreed(rules + [event(n, field, value, scale) for n, value in enumerate(values)], SCHEMA)


def test_a_limit_with_more_digits_than_a_rule_may_have_is_refused():
    with pytest.raises(ValueError, match="at most 24 digits"):
        limit_to_int64s(Fraction(1, 10**25))


def test_what_is_left_after_24_digits_decides():
    limit = np.array(limit_to_int64s(Fraction(10**24 // 3, 10**24)))
    assert compare_with_limit(Measure(0, 0, 1, 3), limit) == 1
    assert compare_with_limit(Measure(0, 0, 1, 4), np.array(limit_to_int64s(Fraction(1, 4)))) == 0


EDGES = [0, 1, 1 << 31, 1 << 32, (1 << 32) - 1, (1 << 63) - 1]
VALUES = st.sampled_from([sign * edge for edge in EDGES for sign in (1, -1)]) | st.integers(
    -(1 << 63) + 1, (1 << 63) - 1
)


@given(st.lists(VALUES, min_size=1, max_size=12))
@example([(1 << 63) - 1] * 9 + [0])  # the sum has three digits of 32 bits, that of the squares five
@example([(1 << 63) - 1] * 7)  # of ten, a fifth digit in the wrong place is off by a multiple of 2¹²⁸
@example([-(1 << 32), 0])
@example([-(1 << 32) + 1, 0])
def test_the_variance_of_the_largest_values_is_exact(values):
    running = np.zeros(ACCUMULATOR_LAYOUTS["VARIANCE"].lanes, np.int64)
    for value in values:
        running[layout.N] += 1
        running[layout.HIGH] += value >> 32
        running[layout.LOW] += value & layout.LOW_BITS
        sums.add_square(running, value, 1)
    found = sums.variance(running, np.zeros(sums.LIMBS, np.int64))
    n, total = len(values), sum(values)
    exact = Fraction(n * sum(value**2 for value in values) - total**2, n**2)
    whole = (int(found.high) << 64) + int(found.low) % (1 << 64)
    assert whole + Fraction(int(found.numerator), int(found.denominator)) == exact


@given(st.lists(VALUES, min_size=1, max_size=4))
@example([(1 << 63) - 1, (1 << 63) - 1])
@example([-(1 << 63) + 1, (1 << 63) - 2])
@example([-1, 0])
def test_the_median_of_the_largest_values_is_exact(values):
    log = [
        rule(1, "MEDIAN", "whole", "!=", "0.25"),
        *(event(n, "whole", each) for n, each in enumerate(values)),
    ]
    assert agreed(log, SCHEMA).alerts[-1].aggregate == median(values)


@given(VALUES | st.just(LEAST), VALUES | st.just(LEAST))
@example(MOST, LEAST)
@example(LEAST, MOST)
def test_a_change_of_the_largest_values_is_exact(before, value):
    log = [rule(1, "CHANGE", "whole", "!=", "0.25"), event(1, "whole", before), event(2, "whole", value)]
    assert agreed(log, SCHEMA).alerts[-1].aggregate == value - before


def test_limits_beyond_all_aggregates_stay_in_order():
    huge = Fraction(10**48)
    assert limit_to_int64s(-huge)[0] == -(1 << 63) and limit_to_int64s(huge)[0] == (1 << 63) - 1


@pytest.mark.parametrize("value", [LEAST, LEAST + 1, -(1 << 62), 1 << 62, MOST])
@pytest.mark.parametrize("function", MEASURED)
def test_an_alert_tells_the_aggregate_of_the_smallest_and_the_largest_values_there_are(function, value):
    log = [rule(1, function, "whole", "!=", "7"), event(1, "whole", value), event(2, "whole", value)]
    alerts = agreed(log, SCHEMA).alerts
    assert len(alerts) == 2 - (AGGREGATES[function].of_events_before or AGGREGATES[function].of_pair)
    if function == "AVG":
        assert [json.loads(alert.to_json())["aggregate"] for alert in alerts] == [f"{value}.000000"] * 2
