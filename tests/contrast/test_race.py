"""Two copies of the rules that are not in step lose alerts; the log's order loses none, however it is cut."""

import pytest

from lab.contrast.race import WAYS, comparable_alerts, comparable_reference_alerts, race, scenario
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.inprocess import InProcessEngine
from lab.model.alerts import Alert
from lab.model.schema import PAYMENTS

LOG = scenario(seed=3, events=800)


@pytest.mark.parametrize("way", WAYS)
def test_without_delay_every_way_gives_the_alerts_of_the_reference(way):
    outcome = race(LOG, 0, way)
    assert outcome.right_alerts > 100
    assert (outcome.mixed_events, outcome.lost_alerts, outcome.wrong_alerts) == (0, 0, 0)


def test_two_copies_mix_rule_sets_and_lose_alerts_more_so_with_longer_delays():
    short, long = race(LOG, 10), race(LOG, 300)
    assert 0 < short.mixed_events < long.mixed_events
    assert 0 < short.lost_alerts + short.wrong_alerts < long.lost_alerts + long.wrong_alerts


def test_a_change_that_travels_with_the_events_mixes_nothing_and_still_depends_on_its_delay():
    outcome = race(LOG, 300, "travelling")
    assert outcome.mixed_events == 0
    assert outcome.lost_alerts + outcome.wrong_alerts > 0


def test_the_log_order_does_not_ask_how_long_a_change_took():
    assert race(LOG, 1000, "log order") == race(LOG, 0)


@pytest.mark.parametrize("size", [1000, 50, 9])
def test_the_engine_gives_the_truth_of_a_race_whatever_the_cut(size):
    entries = [(kind, text) for _, kind, text in LOG]
    with InProcessEngine(Settings(PAYMENTS)) as stages:
        for first in range(0, len(entries), size):
            stages.run_batch(entries[first : first + size])
        found = [Alert.from_json(line) for line in stages.out["alerts"]]
    assert comparable_alerts(found) == comparable_reference_alerts(tuple(LOG))


def test_an_unknown_way_is_refused():
    with pytest.raises(ValueError, match="'fast', expected one of two copies, travelling, log order"):
        race(LOG, 0, "fast")
