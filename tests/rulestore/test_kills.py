"""What carries rules is killed again and again while rows are edited: nothing lost, nothing twice, all in order."""

import json
import random
from types import SimpleNamespace

import pytest

from lab.logs.positions import Record
from lab.model.schema import PAYMENTS
from lab.rulestore.store import RuleStore
from tests.rulestore import kills
from tests.rulestore.loop import READY, Process
from tests.rulestore.whole import Derived, whole_loop
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
        kills.edit_until_done(store, rng, 120, 0.02, meanwhile)
        assert kills.check(store, control) > 8


@pytest.mark.slow
def test_whatever_part_is_killed_rules_and_restrictions_arrive(needs_loop, tmp_path):
    """Each part once; `make soak` does it again and again."""
    print(whole_loop(tmp_path, edits=30, edits_a_kill=5))


def test_what_turns_up_after_its_cut_counts_as_logged_at_the_cut():
    """A control message's transaction ends after the engine has taken an event that was logged later; another event is late itself."""
    rule = kills.RULE | {"ruleId": 1, "limit": 1, "action": "hold_payment", "ttl": "5h"}
    logged = {
        "control": [(5, json.dumps(rule))],
        "events": [(7, "1,1970-01-01 00:00:00,2,12,CSH,30"), (9, "2,1970-01-01 00:00:00,4,12,CSH,30")],
        "stats": [
            (11, json.dumps({"batch": 0, "cut": {"from": 0, "events": {"0": 1}, "control": {"0": 0}}})),
            (14, json.dumps({"batch": 1, "cut": {"from": 10, "events": {"0": 2}, "control": {"0": 1}}})),
        ],
    }

    def log(name: str) -> SimpleNamespace:
        records = [Record(time, "", line, f"{name}/0:{n}") for n, (time, line) in enumerate(logged[name])]
        tail = SimpleNamespace(records=lambda: records, close=lambda: None)
        return SimpleNamespace(tail=lambda: tail, read=lambda: [record.line for record in records])

    derived = Derived(SimpleNamespace(log=log))
    assert derived.terms == {("hold_payment", "4"): (10, 10 + 5 * 3_600_000)}
