"""State stays bounded: what a long log leaves behind depends on the windows, not on the length of the log."""

import json
from unittest.mock import patch

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.inprocess import InProcessEngine
from lab.engine.windows import store
from lab.engine.windows.statemerge import MERGED_AT_ONCE
from lab.model.rules import rule_message
from lab.model.schema import PAYMENTS
from lab.model.times import HOUR_MS, MINUTE_MS

RULES = ((["payeeId"], "SUM"), (["beneficiaryId"], "UNIQUE_COUNT"), (["payeeId", "beneficiaryId"], "MAX"))
WINDOW_MS = 10 * MINUTE_MS
BATCH_MS = MINUTE_MS
EVENTS_A_BATCH = 200
SETTINGS = Settings(PAYMENTS, key_groups=2, max_out_of_orderness_ms=MINUTE_MS)


def rules() -> list[tuple[str, bytes]]:
    def rule(number: int, keys: list[str], function: str) -> dict:
        unique = ["payeeId"] if function == "UNIQUE_COUNT" else None
        return rule_message(number, keys, "paymentAmount", function, "GREATER", 10**9, "10m", unique=unique)

    return [("control", json.dumps(rule(number, *each)).encode()) for number, each in enumerate(RULES, 1)]


def payments(batch: int) -> list[tuple[str, bytes]]:
    """The payments of a minute, of keys that change from hour to hour."""
    lines = []
    for number in range(batch * EVENTS_A_BATCH, (batch + 1) * EVENTS_A_BATCH):
        time_ms = number * BATCH_MS // EVENTS_A_BATCH
        payee = 100 * (time_ms // HOUR_MS) + number % 37
        lines.append(b"%d,%d,%d,%d,CSH,%d.50" % (number, time_ms, payee, number % 11, number % 20))
    return [("event", line) for line in lines]


def stats(stages: InProcessEngine) -> dict[str, int]:
    """The newest numbers."""
    newest = json.loads(stages.out["stats"][-1])
    stages.out.clear()
    return newest


def test_after_twice_the_widest_window_state_does_not_grow():
    """
    batch     0 ─ 10 ─ 20 ─ 30 ─ … ─ 120        each a minute; W = 10 min
    reach     ╱────────────────────────         what a batch must keep: the events of 11 minutes
    """
    with patch.object(store, "SAMPLE_EVENTS", 64), InProcessEngine(SETTINGS) as stages:
        stages.run_batch(rules())
        seen = []
        for batch in range(120):
            stages.run_batch(payments(batch))
            seen.append(stats(stages))
    early, late = seen[20:70], seen[70:]
    for name in ("heldEvents", "groups", "memoryBytes", "stateBytes", "files"):
        assert max(now[name] for now in late) <= 1.25 * max(now[name] for now in early), name
    within_reach = len(RULES) * EVENTS_A_BATCH * (WINDOW_MS + SETTINGS.max_out_of_orderness_ms) // BATCH_MS
    # memory is tidied when it is full and half of it has expired, and else doubled
    assert max(now["heldEvents"] for now in seen) <= 4 * within_reach
    assert max(now["stateBytes"] for now in seen) <= 60 * within_reach
    assert max(now["files"] for now in seen) <= 3 * MERGED_AT_ONCE


def test_when_all_events_are_out_of_reach_only_the_newest_file_is_left():
    with InProcessEngine(SETTINGS) as stages:
        stages.run_batch(rules())
        for batch in range(30):
            stages.run_batch(payments(batch))
        full = stats(stages)
        a_day_later = 24 * HOUR_MS // BATCH_MS
        for batch in range(a_day_later, a_day_later + 20):
            stages.run_batch(payments(batch))
        left = stats(stages)
    assert left["files"] < full["files"] + MERGED_AT_ONCE
    assert left["stateBytes"] < full["stateBytes"] * 1.25
    assert left["heldEvents"] == len(RULES) * EVENTS_A_BATCH * 20
