"""One task's windows: what they hold when workers fail, twins run, windows files go, rules come back."""

import json
from unittest.mock import patch

import pytest

from lab.engine import shared, windows
from lab.engine.settings import Settings
from lab.engine.stages import Entry, Stages
from lab.model.reference import run
from lab.model.schema import LOGINS
from tests.engine.test_stages import assert_same, batches, count_rule, login

COUNTED = [count_rule(">", 0, "5m"), login(1, 100), login(2, 110), login(3, 120)]


def with_reset(rule: Entry) -> Entry:
    return "control", rule[1].replace(b'"COUNT"', b'"COUNT_WITH_RESET"')


def test_a_rule_deleted_and_added_again_between_two_events_counts_from_the_start():
    rule, other = (
        with_reset(count_rule(">", 1, "5m")),
        count_rule(">", 99, "5m")[1].replace(b'"ruleId": 1', b'"ruleId": 2'),
    )
    log = [rule, ("control", other), login(1, 100), login(2, 110)]  # fires and resets at event 2
    log += [("control", b'{"ruleId": 1, "ruleState": "DELETE"}'), rule, login(3, 120)]
    reference = run(LOGINS, log)
    assert [(alert.event_id, alert.aggregate) for alert in reference.alerts] == [(2, 2), (3, 3)]
    for at in ([], [4], [4, 6]):
        with Stages(Settings(LOGINS)) as stages:
            for entries in batches(log, at):
                stages.batch(entries)
            assert_same(stages, reference)


class Worker:
    """Another of a host's Python workers: it has the same shared memory, and windows of its own at hand."""

    def __init__(self):
        self.windows: dict = {}

    def __enter__(self):
        self.patch = patch.object(windows, "_open", self.windows)
        self.patch.start()

    def __exit__(self, *_):
        self.patch.stop()


def test_windows_at_hand_are_let_go_when_a_twin_has_made_the_shared_ones_anew():
    """
    batch      1      1 again   2      3
    worker     here   there     here   there
    """
    here, there = Worker(), Worker()
    with Stages(Settings(LOGINS)) as stages:
        with here:
            stages.batch(COUNTED[:2])
            before = stages.mark
            stages.batch(COUNTED[2:3])
        with there:
            stages.batch_id -= 1
            stages.run(before, stages.mark)
            stages.batch_id += 1
        with here:
            stages.batch(COUNTED[3:])
        with there:
            stages.batch([login(4, 130)])
        assert_same(stages, run(LOGINS, [*COUNTED, login(4, 130)]))


def test_a_twin_killed_while_it_rebuilds_memory_leaves_nothing_that_looks_right():
    with Stages(Settings(LOGINS)) as stages:
        stages.batch(COUNTED[:2])
        before = stages.mark
        stages.batch(COUNTED[2:3])
        with Worker(), patch.object(windows.RouteStore, "load", side_effect=KeyboardInterrupt):
            stages.batch_id -= 1
            with pytest.raises(KeyboardInterrupt):
                stages.run(before, stages.mark)
            stages.batch_id += 1
        with Worker():
            stages.batch(COUNTED[3:])
        assert_same(stages, run(LOGINS, COUNTED))


def test_a_task_that_failed_twice_in_one_worker_does_not_trust_what_is_left_there():
    here, there = Worker(), Worker()
    with Stages(Settings(LOGINS)) as stages:
        with here:
            stages.batch(COUNTED[:2])
            before = stages.mark
            stages.batch(COUNTED[2:3])
            stages.batch_id -= 1
            with (
                patch.object(windows.RouteStore, "evaluate", side_effect=OSError("no space")),
                pytest.raises(OSError),
            ):
                stages.run(before, stages.mark)
        with there:
            stages.run(before, stages.mark)
            stages.batch_id += 1
        with here:
            stages.batch(COUNTED[3:])
        assert_same(stages, run(LOGINS, COUNTED))


def test_a_window_file_that_is_gone_while_the_note_vouches_for_it_is_made_again_out_of_the_state_files():
    with Stages(Settings(LOGINS)) as stages:
        stages.batch(COUNTED[:2])
        (file,) = shared.private_folder(stages.job.start).glob("*/*.windows")
        file.unlink()
        with Worker():
            stages.batch(COUNTED[2:])
        assert_same(stages, run(LOGINS, COUNTED))
        assert json.loads(stages.out["stats"][-1])["heldEvents"] == 3
