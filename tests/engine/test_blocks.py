"""Late events of long groups: exact whatever their order, and no event is looked at as often as there are others.

Blocks of 256 events need logs that the reference takes long for. So the loop also runs uncompiled, in a process of its own, with
blocks of two events: `python -m tests.engine.test_blocks LOGS`.
"""

import json
import os
import random
import subprocess
import sys
from typing import Any

import numba
import numpy as np
import pytest

from lab.engine.checkpoint.settings import Settings
from lab.engine.compiled import blocks, groups, layout, running
from lab.engine.loop.inprocess import InProcessEngine
from lab.engine.windows import arrays, store
from lab.model.reference import Reference, evaluate_log
from lab.model.schema import LOGINS
from tests.engine.drawn import first_difference, stores
from tests.engine.randomlogs import MINUTE, Entry
from tests.engine.test_inprocess import assert_same

LOGS = int(os.environ.get("LAB_EXAMPLES", "20"))  # `make soak` takes more
EVENTS = 300
ORDERS = {
    "the oldest last": lambda n: [n - i for i in range(n)],
    "between two": lambda n: [i // 2 if i % 2 else n - i // 2 for i in range(n)],
    "any": lambda n: random.Random(n).sample(range(n), n),
    "far ahead, then late": lambda n: [5000, *range(n)],
    "all at one time, behind one": lambda n: [n, *[0] * n],
    "one ahead of a window of others": lambda n: [*range(n // 2), n + 30 * 60, *(n for _ in range(n // 2))],
}
FUNCTIONS = ("SUM", "AVG", "MIN", "MAX", "COUNT", "COUNT_WITH_RESET", "VARIANCE", "STDDEV")


def rule(rule_id: int, function: str, window: str = "30m", limit: int = 1) -> bytes:
    return f"{rule_id},(active),(userId),,(amount),({function}),(>),({limit}),({window})".encode()


def late_log(order: str, count: int, functions=FUNCTIONS) -> list[Entry]:
    """One group; the amounts go down with event time, so that a queue of largest values never gets shorter."""
    rules = [("control", rule(number, function)) for number, function in enumerate(functions, 1)]
    seconds = ORDERS[order](count)
    top = max(seconds)
    events = [
        {"eventId": n, "eventTime": 10**9 + 1000 * second, "userId": 1, "amount": top - second}
        for n, second in enumerate(seconds)
    ]
    return [*rules, *(("event", json.dumps(event).encode()) for event in events)]


LATE: dict[str, Any] = {"max_out_of_orderness_ms": 120 * MINUTE, "key_groups": 4}


def agreed_in_blocks(log: list[Entry]) -> tuple[Reference, int]:
    """The reference after a log, with which the engine agrees, and how many blocks the engine has made."""
    reference = evaluate_log(LOGINS, log, **LATE)
    with InProcessEngine(Settings(LOGINS, parallelism=1, **LATE)) as engine:
        engine.run_batch(log)
        assert_same(engine.out, reference)
        (held,) = stores(engine)
        return reference, int(held.arrays["scalars"][layout.BLOCKS])


@pytest.mark.parametrize("order", ORDERS)
def test_late_events_give_the_alerts_of_the_reference(order: str):
    log = late_log(order, 600, (*FUNCTIONS[:6], "UNIQUE_COUNT"))  # more than two blocks of 256
    _, made = agreed_in_blocks(log)
    assert made > 2 or order not in ("the oldest last", "any", "far ahead, then late")


@pytest.mark.parametrize("order", ["any", "far ahead, then late"])
def test_alerts_of_late_events_are_counted_in_long_groups_as_well(order: str):
    """Each alert counts for `atMost` from its own event on, also in the totals of blocks."""
    log = late_log(order, 700, ("COUNT", "MAX"))
    for number, most in enumerate(("at most 3 per 1 min", "at most 40 per 10 min"), 10):
        log.insert(0, ("control", f"{number}: COUNT(events) per userId over 30 min >= 1, {most}".encode()))
    reference, made = agreed_in_blocks(log)
    assert made > 2 and min(reference.suppressed.values()) > 10


@pytest.mark.slow
def test_with_blocks_of_two_events_random_logs_give_the_alerts_of_the_reference_and_reads_stay_few():
    command = [sys.executable, "-m", "tests.engine.test_blocks", str(LOGS)]
    done = subprocess.run(
        command, check=False, env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    reads = json.loads(done.stdout)
    assert reads.keys() == ORDERS.keys()
    for order, (once, twice) in reads.items():
        assert twice < 1.7 * once, (order, once, twice)


class Counted(np.ndarray):
    """An array that counts how often it is read."""

    reads = 0

    def __getitem__(self, place):
        Counted.reads += 1
        return super().__getitem__(place)


def reads_of(order: str, count: int) -> float:
    """How often the loop reads an event, for each event: blocks are as long as the root of how many events there are."""
    set_half(int(count**0.5) // 2)
    whole: Any = store.RouteStore.store
    counted = property(lambda self: (found := whole.fget(self))._replace(events=found.events.view(Counted)))
    Counted.reads = 0
    settings = Settings(LOGINS, parallelism=1, max_out_of_orderness_ms=10**6 * MINUTE)
    with InProcessEngine(settings) as engine, pytest.MonkeyPatch.context() as patched:
        patched.setattr(store.RouteStore, "store", counted)
        engine.run_batch(late_log(order, count))
    return Counted.reads / count


def set_half(half: int) -> None:
    blocks.HALF = arrays.HALF = running.HALF = half
    blocks.LONGEST_WALK = groups.LONGEST_WALK = running.LONGEST_WALK = 2 * half


def main(logs: int) -> None:
    assert numba.config.DISABLE_JIT
    set_half(2)
    if found := first_difference(range(logs), short=False):
        sys.exit(found)
    print(json.dumps({order: [reads_of(order, EVENTS), reads_of(order, 2 * EVENTS)] for order in ORDERS}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
