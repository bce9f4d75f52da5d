"""Legs in the engine: random logs of records that are two events each."""

import pytest

from lab.model.reference import evaluate_log
from tests.engine.drawn import drawn, first_difference


@pytest.mark.parametrize(
    "seeds",
    [
        range(60),
        pytest.param(range(60, 800), marks=pytest.mark.slow),
        pytest.param(range(800, 2_000), marks=pytest.mark.soak),
    ],
)
def test_the_engine_gives_the_alerts_of_the_reference_with_legs(seeds):
    assert not (different := first_difference(each for each in seeds if drawn(each, True).schema.legs)), (
        different
    )


def test_rules_of_random_logs_look_at_legs_and_alert_at_each():
    said, legs = b"", []
    for seed in range(200):
        if (of := drawn(seed, short=True)).schema.legs:
            said += b" ".join(text for kind, text in of.log if kind == "control")
            legs += [alert.event_id[-1] for alert in evaluate_log(of.schema, of.log, **of.settings).alerts]
    assert min(said.count(name) for name in (b"party", b"side", b"leg ")) > 5
    assert min(legs.count("out"), legs.count("in")) > 50
