"""What does not come: told by the engine as by the reference, from memory, from state files, by one task and by several."""

import json
import random
from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest

from lab.engine.checkpoint.settings import Settings
from lab.engine.compiled.waits import OPEN
from lab.engine.loop.inprocess import InProcessEngine
from lab.engine.loop.task import task_windows
from lab.engine.windows import statemerge
from lab.engine.windows.waits import Waits
from lab.model.reference import LATE_POLICIES, Reference
from lab.model.schema import LOGINS
from tests.engine.test_statefiles import rescaled
from tests.model.test_absence import MINUTE, ORDER, SILENT, T0, event

CHANGES = [
    b'{"ruleId": 7, "ruleState": "PAUSE"}',
    b'{"ruleId": 7, "ruleState": "DELETE"}',
    b'{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}',
]


class Clocked(InProcessEngine):
    """InProcessEngine whose log has the time that it is told."""

    now = T0

    def _clock(self) -> int:
        return self.now

    def log(self, log: str, line: bytes, at: int) -> None:
        self.now = at + 1
        self.own_logs.log(log).append([line], at)
        self.step()


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("loses", [False, True])
def test_it_is_told_though_nothing_comes(tasks, loses):
    with Clocked(Settings(LOGINS, parallelism=tasks)) as stages:
        stages.log("control", ORDER, T0)
        stages.log("events", event(1, 5), T0 + 10)
        stages.log("events", event(2, 5, user=2), T0 + 11)
        stages.log("events", event(3, 5, "pay", user=2), T0 + 12)
        if loses:
            stages.lose_memory()
        stages.now = T0 + 10 + MINUTE
        stages.step()
        assert stages.out["alerts"] == []
        stages.now += 1001
        stages.step()
        [alert] = map(json.loads, stages.out["alerts"])
        assert (alert["eventId"], alert["aggregate"], alert["logTime"]) == (1, "0", T0 + 10 + MINUTE)
        stages.now += 9 * MINUTE
        stages.step()
        assert len(stages.out["alerts"]) == 1


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 12))]
)
def test_whatever_is_logged_and_lost_it_tells_once_what_the_reference_tells(seed):
    rng, at = random.Random(seed), T0
    policy = rng.choice(LATE_POLICIES)
    reference = Reference(LOGINS, late_policy=policy, max_out_of_orderness_ms=20_000)
    settings = Settings(
        LOGINS, late_policy=policy, max_out_of_orderness_ms=20_000, parallelism=rng.choice([1, 3])
    )
    with (
        patch.object(statemerge, "MERGED_AT_ONCE", rng.choice([2, 3, 8])),
        patch.object(statemerge, "SLICE_ROWS", rng.choice([1, 3, statemerge.SLICE_ROWS])),
        Clocked(settings) as stages,
    ):
        for n in range(150):
            at += rng.choice([1, 1, 1000, 20_000, 61_000])
            if n < 2 or rng.random() < 0.05:
                rule = rng.choice([ORDER, SILENT] * 4 + CHANGES).replace(b"7", rng.choice([b"7", b"8"]))
                log, line = "control", rule
                reference.control(line, at)
            else:
                event_time, action = at - rng.choice([0, 0, 5_000, 40_000]), rng.choice(["order", "pay"])
                log, line = "events", event(n, event_time, action, rng.randrange(4))
                reference.event(line, log_time=at)
            stages.logs.log(log).append([line], at)
            if rng.random() < 0.4:
                stages.now = at + 1
                stages.step()
            if rng.random() < 0.1:
                stages.lose_memory()
            elif rng.random() < 0.1:
                rescaled(stages, rng.choice([1, 2, 3]), f"-{n}")
        stages.now = at + 9 * MINUTE
        stages.step()
        reference.advance_to(stages.now)
        found = [json.loads(line) for line in stages.out["alerts"]]
    told = Counter((alert["alertId"], alert["logTime"]) for alert in found)
    assert told == Counter((alert.alert_id, alert.log_time) for alert in reference.alerts)
    assert len(told) == len(found) > 5


def test_what_is_awaited_outlives_the_windows_in_its_file():
    with Clocked(Settings(LOGINS)) as stages:
        stages.log("control", ORDER, T0)
        stages.log("events", event(1, 5), T0 + 10)
        for n in range(3):  # event times run ahead of log times: nothing of the first files is held
            stages.log("events", event(10 + n, 3_600_000 * (n + 1), "search", user=1), T0 + 11 + n)
        stages.lose_memory()
        stages.now = T0 + 9 * MINUTE
        stages.step()
        assert [json.loads(line)["eventId"] for line in stages.out["alerts"]] == [1]


def test_what_has_ended_takes_no_room(tmp_path):
    with Clocked(Settings(LOGINS)) as stages:
        stages.log("control", SILENT, T0)
        for n in range(40):
            stages.logs.log("events").append(
                [event(100 * n + k, T0, user=k % 7) for k in range(100)], T0 + 10 + n
            )
            stages.now = T0 + 11 + n
            stages.step()
        [waits] = task_windows(stages.job, 0).windows.all_waits
        assert isinstance(waits, Waits)
        assert np.count_nonzero(waits.arrays.entries[:, 0] & OPEN) == 7
        assert len(waits.arrays.entries) <= 2048


@pytest.mark.parametrize("groups", [2_500, 4_200, 9_000])
def test_what_a_group_awaits_takes_300_bytes_at_most(groups):
    with Clocked(Settings(LOGINS)) as stages:
        stages.log("control", SILENT, T0)
        for first in range(0, groups, 500):
            lines = [event(n, T0, user=10**6 + n) for n in range(first, min(first + 500, groups))]
            stages.logs.log("events").append(lines, T0 + 10 + first)
            stages.now = T0 + 11 + first
            stages.step()
        [waits] = task_windows(stages.job, 0).windows.all_waits
        assert 100 * groups < waits.memory_bytes <= 300 * groups


def test_the_stats_log_counts_the_memory_of_what_is_awaited():
    with Clocked(Settings(LOGINS)) as stages:
        stages.log("control", ORDER, T0)
        stages.log("events", event(1, 5), T0 + 10)
        windows = task_windows(stages.job, 0).windows
        stores = sum(store.memory_bytes for store in windows.stores.values())
        waits = sum(waits.memory_bytes for waits in windows.all_waits)
        assert waits > 0
        assert json.loads(stages.out["stats"][-1])["memoryBytes"] == stores + waits


@pytest.mark.parametrize("after", [1, 2, 3])
@pytest.mark.parametrize("changed", [False, True])
def test_after_a_rescale_alerts_come_when_their_waits_have_ended(after, changed):
    """The tasks before the rescale gave their events the same numbers, whose order is not that of the log.

    `changed`: no cut falls between the ends of the first half of the waits and a change of the rule.
    """
    users, half = range(16), 8
    with Clocked(Settings(LOGINS, parallelism=2, key_groups=8)) as stages:
        stages.log("control", ORDER, T0)
        for user in users:
            stages.logs.log("events").append([event(user, 5, user=user)], T0 + 2000 * user + 10)
        stages.now = T0 + 2000 * len(users)
        stages.step()
        rescaled(stages, after, "a")
        for ended in (half,) if changed else users[: half + 1]:
            stages.now = T0 + MINUTE + 2000 * ended
            if changed:
                stages.logs.log("control").append([ORDER], stages.now - 1)
            stages.step()
            alerted = sorted(json.loads(line)["eventId"] for line in stages.out["alerts"])
            assert alerted == [*users[:ended]]


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("merged", [2, 3])
@pytest.mark.parametrize("epochs", [5, 6, 7])
def test_each_wait_outlives_the_merge_of_its_file(tasks, merged, epochs):
    """A wait starts in each epoch; then memory is lost. Which files are merged by then depends on how many epochs there were."""
    with (
        patch.object(statemerge, "MERGED_AT_ONCE", merged),
        Clocked(Settings(LOGINS, parallelism=tasks, key_groups=4)) as stages,
    ):
        stages.log("control", ORDER, T0)
        for n in range(epochs):
            stages.log("events", event(n, 5, user=n), T0 + 10 + n)
        stages.lose_memory()
        stages.now = T0 + 9 * MINUTE
        stages.step()
        alerts = sorted(
            (alert["eventId"], alert["logTime"]) for alert in map(json.loads, stages.out["alerts"])
        )
        assert alerts == [(n, T0 + 10 + n + MINUTE) for n in range(epochs)]
