"""What carries rules is killed again and again while rows are edited: nothing lost, nothing twice, all in order."""

import random

import pytest

from lab.model.schema import PAYMENTS
from lab.rulestore.store import RuleStore
from tests.rulestore import kills
from tests.rulestore.loop import READY, Process
from tests.rulestore.whole import whole_loop
from tests.waiting import wait_until


@pytest.mark.slow
def test_a_killed_capture_loses_and_repeats_nothing(url, logs, tmp_path):
    rng = random.Random(1)
    store, control = RuleStore(url, PAYMENTS), logs.log("control")
    seen = 0

    def meanwhile(number: int) -> None:
        nonlocal seen
        if number % 30 == 29:
            wait_until(lambda: len(control.read()) > seen)  # it may not have begun yet
            seen = len(control.read())
            capture.restart()

    command = ("cdc", "run", "--store", url, "--logs", str(logs.folder), "--schema", "payments")
    with Process(tmp_path / "capture.out", READY["capture"], *command) as capture:
        kills.edit_until_done(store, rng, 120, 0.02, meanwhile, lists=True)
        assert kills.check(store, control) > 8


@pytest.mark.slow
def test_whatever_part_is_killed_rules_and_restrictions_arrive(needs_loop, tmp_path):
    """Each part once; `make soak` does it again and again."""
    print(whole_loop(tmp_path, edits=30, edits_a_kill=5))
