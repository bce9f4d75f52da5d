"""The definitions that everything else is compared with."""

from decimal import Decimal
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.engine.compiled.aggregates.forms import ACCUMULATOR_LAYOUTS
from lab.model.aggregates import (
    AGGREGATES,
    mean,
    median,
    percentile,
    round_to_6_places,
    signed_square,
    square_root_to_6_places,
    variance,
)

UNHURRIED = settings(deadline=None)  # other tests may take the machine


def test_each_aggregate_has_a_definition_and_a_running_form():
    assert list(AGGREGATES) == list(ACCUMULATOR_LAYOUTS)


def test_the_variance_is_that_of_the_population():
    assert variance([2, 4, 4, 4, 5, 5, 7, 9]) == 4
    assert variance([Decimal("0.01")]) == 0
    assert AGGREGATES["STDDEV"].to_reported(variance([2, 4, 4, 4, 5, 5, 7, 9])) == 2


@UNHURRIED
@given(st.lists(st.fractions(max_denominator=100), min_size=1), st.fractions(max_denominator=9))
def test_the_variance_does_not_change_when_all_values_move(values, by):
    assert variance([value + by for value in values]) == variance(values)
    assert mean([value + by for value in values]) == mean(values) + by


@UNHURRIED
@given(st.lists(st.integers(-9, 9), min_size=1), st.sampled_from([1, 5, 10, 25, 50, 75, 90, 95, 99]))
def test_a_percentile_is_the_smallest_value_that_enough_values_do_not_exceed(values, percent):
    found = percentile(percent)(values)
    assert found in values
    assert 100 * sum(value <= found for value in values) >= percent * len(values)
    assert 100 * sum(value < found for value in values) < percent * len(values)
    assert 2 * median(values) == percentile(50)(values) - percentile(50)([-value for value in values])


def test_a_row_of_percentiles_computes_its_own():
    hundred = [*range(1, 101)]
    named = {name: row for name, row in AGGREGATES.items() if row.percent and name != "MEDIAN"}
    assert {name: row.measure(hundred) for name, row in named.items()} == {
        f"P{row.percent}": row.percent for row in named.values()
    }


@UNHURRIED
@given(st.fractions(0, 10**30))
def test_a_root_is_the_nearest_number_of_six_places(square):
    told, half = Fraction(square_root_to_6_places(square)), Fraction(1, 2 * 10**6)
    assert max(told - half, 0) ** 2 <= square <= (told + half) ** 2


@UNHURRIED
@given(st.fractions(-(10**30), 10**30))
def test_rounding_moves_a_value_by_at_most_half_of_the_last_place(value):
    assert abs(Fraction(round_to_6_places(value)) - value) <= Fraction(1, 2 * 10**6)


@UNHURRIED
@given(st.fractions(0), st.fractions())
def test_a_deviation_is_above_a_limit_when_its_square_is_above_the_signed_square(deviation, limit):
    assert (deviation > limit) == (deviation**2 > signed_square(limit))
