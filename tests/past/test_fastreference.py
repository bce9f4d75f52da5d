"""The reference for a page gives what the reference gives, on random logs."""

import pytest

from lab.model.reference import Reference
from lab.past.fastreference import FastReference
from tests.engine.drawn import drawn


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 400), marks=pytest.mark.slow)])
def test_alerts_counts_and_what_is_stored_are_those_of_the_reference(seeds):
    taken_back = duplicates = 0
    for seed in seeds:
        of = drawn(seed)
        plain, quick = (kind(of.schema, **of.settings) for kind in (Reference, FastReference))
        for engine in (plain, quick):
            for number, (kind, line) in enumerate(of.log):
                log_time = 10**9 + 1_000 * number
                if kind == "event":
                    engine.event(line, log_time=log_time)
                else:
                    engine.control(line, log_time)
        assert quick.alerts_and_withdrawals == plain.alerts_and_withdrawals, seed
        assert quick.shadow_alerts == plain.shadow_alerts and quick.counts == plain.counts, seed
        stored = [
            {
                key: sorted(each.arrival for each in events)
                for key, events in of.stored_events.items()
                if events
            }
            for of in (quick, plain)
        ]
        assert stored[0] == stored[1], seed
        taken_back, duplicates = (
            taken_back + plain.counts["takenBack"],
            duplicates + plain.counts["duplicates"],
        )
    assert taken_back and duplicates
