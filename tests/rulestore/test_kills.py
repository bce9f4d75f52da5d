"""The capture killed again and again while rows are edited: nothing lost, nothing twice, all in order."""

import random
import time

from lab.model.schema import PAYMENTS
from lab.rulestore.store import RuleStore
from tests.rulestore import kills


def test_a_killed_capture_loses_and_repeats_nothing(logs, tmp_path):
    url, rng = f"sqlite:///{tmp_path}/rules.db", random.Random(1)
    store, control = RuleStore(url, PAYMENTS), logs.log("control")
    seen = 0

    def meanwhile(number: int) -> None:
        nonlocal seen
        deadline = time.monotonic() + 10
        if number % 30 == 29:
            while len(control.read()) == seen and time.monotonic() < deadline:
                time.sleep(0.01)  # it has not begun yet
            seen = len(control.read())
            capture.restart()

    command = ("cdc", "run", "--store", url, "--logs", str(logs.folder))
    with kills.Victim(tmp_path / "capture.log", *command) as capture:
        kills.edit_until_done(store, rng, 120, 0.02, meanwhile)
        assert kills.check(store, control) > 8
