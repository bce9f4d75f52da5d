"""Whoever is asked whether a rule alerts at an event says what the reference says."""

import pytest

from tests.desk.matrix import ASKED, first_difference


@pytest.mark.parametrize(
    "seeds",
    [
        range(3),
        pytest.param(range(3, 40), marks=pytest.mark.slow),
        pytest.param(range(40, 400), marks=pytest.mark.soak),
    ],
    ids=["some", "more", "many"],
)
def test_everybody_who_is_asked_gives_the_verdict_of_the_reference(seeds):
    count, difference = first_difference(seeds)
    assert not difference and all(count[name] for name in ASKED), count
