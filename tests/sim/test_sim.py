"""Some histories of the engine's protocol, and a few planted faults; `make sim` runs many."""

import pytest

from tests.sim.directed import DIRECTED
from tests.sim.history import History, random_history
from tests.sim.many import outcomes, planted
from tests.sim.simulate import run
from tests.sim.world import installed

HISTORIES = 60
SOON = 400


def test_whatever_happens_the_engine_gives_what_the_reference_gives():
    wrong = [(seed, found) for seed, found, *_ in outcomes(range(HISTORIES)) if found]
    assert not wrong, f"python -m tests.sim --seed {wrong[0][0]} --histories 1 shows it: {wrong[0][1]}"


def test_a_history_is_the_same_each_time():
    assert random_history(7) == random_history(7)


@pytest.mark.parametrize(
    "name",
    [
        "a limit cuts events but not control",
        "all that is there is taken",
        "the floor is ignored",
        "a cut is used before it is durable",
        "an epoch that runs again takes other cuts",
        "a twin adds cuts and delivers",
        pytest.param("what failed half way through an epoch is saved", marks=pytest.mark.slow),
    ],
)
def test_a_planted_fault_is_found(name: str):
    assert any(planted(name, map(random_history, range(SOON))))


@pytest.mark.parametrize("name", DIRECTED)
def test_the_history_of_a_planted_fault_shows_it_and_nothing_else(name: str):
    with installed():
        assert run(DIRECTED[name]) == []
    assert any(planted(name, [DIRECTED[name]]))


def test_a_file_of_an_attempt_that_wakes_up_late_does_not_bring_back_what_a_store_forgot():
    """Its event counts no more, as the route's widest window was narrow for a moment; nothing hides the file any longer."""
    calm = {
        "events": 1,
        "control": 1,
        "at_once": 100,
        "key_groups": 1,
        "parallelism": 1,
        "hosts": 1,
        "room": 64,
    }
    calm |= {"late_policy": "evaluate", "max_out_of_orderness_ms": 0, "max_future_ms": 86_400_000}
    calm |= {"max_batch_records": 1000, "one_by_one": True, "merged": 8, "merged_events": 1 << 22}
    calm |= {"ledgers": 100, "sharing": 5000, "segment_bytes": 1 << 23}
    calm |= dict.fromkeys(("divisible", "pairs", "returns", "loop"), False)
    count = b'"groupingKeyNames": ["userId"], "filter": {"action": "login"}, "aggregatorFunctionType": "COUNT", "limitOperatorType": "LESS_EQUAL", '
    count += b'"limit": "3", "window": "2m", "aggregateFieldName": "amount"'
    wide = b'{"ruleId": 8, "ruleState": "ACTIVE", ' + count + b', "atMost": {"alerts": 2, "per": "30m"}}'
    narrow = b'{"ruleId": 6, "ruleState": "ACTIVE", ' + count + b"}"
    batch = ("batch", 0, (), None, "")

    def log(name: str, at: int, line: bytes) -> tuple:
        return "append", name, 0, 1_000_000_000 + at, line

    def event(number: int, at: int, more: bytes = b"") -> tuple:
        line = b'{"eventId": %d, "eventTime": %d, "userId": 1%s}' % (number, 1_000_000_000 + at, more)
        return log("events", at, line)

    actions = (
        *(
            log("control", 430_000, wide),
            event(2, 1_960_000, b', "action": "login"'),
            batch,
            ("batch", 0, (), 3, "suspend"),
        ),
        *(log("control", 2_890_000, narrow), event(1, 2_900_000), batch, batch),
        *(
            log("control", 3_030_000, b'{"ruleId": 8, "ruleState": "DELETE"}'),
            log("control", 3_040_000, wide),
        ),
        *(batch, event(4, 3_290_000), batch, event(3, 3_710_000)),
    )
    with installed():
        assert run(History(calm, actions)) == []
