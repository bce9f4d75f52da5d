"""Some histories of the engine's protocol, and a few planted faults; `make sim` runs many."""

from collections import Counter

import pytest

from tests.sim.directed import DIRECTED, ON_A_DISK
from tests.sim.history import random_history
from tests.sim.many import found_after, outcomes, planted
from tests.sim.simulate import run
from tests.sim.world import installed
from tools.simfaults import MUTANTS
from tools.simfaults.disk import DISK_FAULTS

HISTORIES = 60
SOON = 400


def test_whatever_happens_the_engine_gives_what_the_reference_gives():
    wrong = [(seed, found) for seed, found, *_ in outcomes(range(HISTORIES)) if found]
    assert not wrong, f"python -m tests.sim --seed {wrong[0][0]} --histories 1 shows it: {wrong[0][1]}"


def test_a_history_is_the_same_each_time():
    assert random_history(7) == random_history(7)
    assert random_history(7, "loop") == random_history(7, "loop")


def test_histories_drawn_to_run_the_loop_run_it():
    found = outcomes(range(HISTORIES // 3), "loop")
    wrong = [one for one in found if one.wrong]
    assert not wrong, (
        f"python -m tests.sim --loop --seed {wrong[0].seed} --histories 1 shows it: {wrong[0].wrong}"
    )
    # not in all: the engine may be rescaled first, or read everything in starts that choose their own cuts
    assert sum(one.ran_loop for one in found) >= len(found) * 3 // 4


def test_windows_that_lie_on_a_disk_are_found_again():
    found = outcomes(range(HISTORIES // 3), "disk")
    wrong = [one for one in found if one.wrong]
    assert not wrong, (
        f"python -m tests.sim --disk --seed {wrong[0].seed} --histories 1 shows it: {wrong[0].wrong}"
    )
    reused = Counter(kind for one in found for kind in one.reused)
    # not in all: the power fails, the version changes, or another host goes on
    assert reused["found again"] >= len(found) // 2 and reused["undone"]


@pytest.mark.parametrize("first", [0, 1, *(pytest.param(at, marks=pytest.mark.slow) for at in range(2, 6))])
def test_whatever_happens_to_windows_on_a_disk_is_shown_by_no_alert(first):
    with installed():
        assert [wrong for history in ON_A_DISK[first::6] if (wrong := run(history))] == []


ENDLESS = (
    "windows are found again without proof",
    "windows of another version are found again",
    "groups that an epoch added stay",
)


@pytest.mark.parametrize(
    "name",
    [name if name not in ENDLESS else pytest.param(name, marks=pytest.mark.slow) for name in DISK_FAULTS],
)
def test_a_fault_planted_into_windows_on_a_disk_is_found(name: str):
    with installed():
        assert run(ON_A_DISK[0]) == []  # so that the process of the fault need not load what is compiled
    assert found_after(name, 0, 0, patience_s=10)


@pytest.mark.parametrize(
    "name",
    [
        "a limit cuts events but not control",
        "all that is there is taken",
        "the floor is ignored",
        # after some 200 histories, the others after a few dozen
        pytest.param("a cut is used before it is durable", marks=pytest.mark.slow),
        "an epoch that runs again takes other cuts",
        "a twin adds cuts and delivers",
        pytest.param("what failed half way through an epoch is saved", marks=pytest.mark.slow),
    ],
)
def test_a_planted_fault_is_found(name: str):
    assert any(planted(name, map(random_history, range(SOON))))


def test_all_planted_faults_fit_the_code():
    with installed():
        for planted_fault in (MUTANTS | DISK_FAULTS).values():
            with planted_fault():  # which fails if what it replaces has another name by now
                pass


@pytest.mark.parametrize("name", DIRECTED)
def test_the_history_of_a_planted_fault_shows_it_and_nothing_else(name: str):
    with installed():
        assert run(DIRECTED[name]) == []
    assert any(planted(name, [DIRECTED[name]]))
