"""Random logs by their seeds, and the engine in this process on them, against the reference.

Some workers lose their memory between two cuts, or another one goes on. A log takes a twentieth of a second; with
NUMBA_BOUNDSCHECK=1 every array index is checked.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.inprocess import InProcessEngine
from lab.engine.loop.task import task_windows
from lab.engine.records import parallel
from lab.engine.windows import alertlines, arrays, shared, statemerge, store, waits, windowstate
from lab.engine.windows.store import RouteStore
from lab.model import horizon
from lab.model.reference import LATE_POLICIES, Reference, evaluate_log
from lab.model.schema import LOGINS, Schema
from tests.engine.killed import Killed, dead_processes, die, killed, start_again
from tests.engine.oddlogs import ROWS, with_events_ahead, with_odd_entries, with_rows, with_times_at_an_end
from tests.engine.randomlogs import (
    MINUTE,
    Entry,
    crowded_log,
    random_log,
    with_absence,
    with_derived,
    with_legs,
    with_lists,
    with_patterns,
    with_returns,
    with_rules_again,
    with_shadow,
)
from tests.engine.test_inprocess import Dated, assert_same
from tests.strategies import DERIVED, LEGS, LOG_STEPS, PAIRS, PAUSES, RETURNS


@dataclass
class Drawn:
    """A log of random entries, of events with this schema, and how an engine is set that reads it."""

    log: list[Entry]
    schema: Schema
    settings: dict[str, Any]
    witnesses: int  # how many it takes to reach a time


def drawn(seed: int, short: bool = False) -> Drawn:
    """What a seed gives."""
    rng = random.Random(seed)
    log, schema = (
        (random_log(rng, short), rng.choice([LOGINS, PAIRS]))
        if rng.random() < 0.7
        else (crowded_log(rng), LOGINS)
    )
    # a generator of its own: what a seed gave before events could be taken back, half of them still give
    returns = random.Random(f"{seed}/returns")
    odd = random.Random(f"{seed}/odd")  # likewise
    if schema is LOGINS and odd.random() < 0.2:
        log, schema = with_rows(odd, log), ROWS
    if schema is LOGINS and returns.random() < 0.5:
        log, schema = with_returns(returns, log), RETURNS
    again = random.Random(f"{seed}/again")  # likewise
    if again.random() < 0.5:
        log = with_rules_again(again, log)
    absence = random.Random(f"{seed}/absence")
    if absence.random() < 0.5:
        log = with_absence(absence, log)
    if odd.random() < 0.3:
        log = with_odd_entries(odd, log)
    ahead = random.Random(f"{seed}/ahead")
    if ahead.random() < 0.4:
        log = with_events_ahead(ahead, log)
    derived = random.Random(f"{seed}/derived")
    if schema is not ROWS and derived.random() < 0.3:
        log, schema = with_derived(derived, log), replace(schema, derived=DERIVED)
    lists = random.Random(f"{seed}/lists")
    if lists.random() < 0.4:
        log = with_lists(lists, log)
    patterns = random.Random(f"{seed}/patterns")
    if patterns.random() < 0.2:
        log = with_patterns(patterns, log)
    shadow = random.Random(f"{seed}/shadow")
    if shadow.random() < 0.4:
        log = with_shadow(shadow, log)
    legs = random.Random(f"{seed}/legs")
    if legs.random() < 0.2:
        log, schema = with_legs(legs, log), replace(schema, legs=LEGS)
    ends = random.Random(f"{seed}/ends")
    if ends.random() < 0.15:
        log = with_times_at_an_end(ends, log)
    settings: dict[str, Any] = {
        "late_policy": rng.choice(LATE_POLICIES),
        "max_out_of_orderness_ms": rng.choice([0, MINUTE // 2, 5 * MINUTE]),
        "key_groups": rng.choice([1, 4, 16]),
    }
    return Drawn(log, schema, settings, ahead.choice([1, 1, 2, horizon.WITNESSES]))


def stores(engine: InProcessEngine) -> list[RouteStore]:
    """The windows of an engine with one task, by route."""
    return [*task_windows(engine.job, 0).windows.stores.values()]


def agreed(log: list[Entry], schema: Schema = LOGINS, **settings: Any) -> Reference:
    """The reference after a log, with which the engine agrees."""
    reference = evaluate_log(schema, log, **settings)
    with InProcessEngine(Settings(schema, parallelism=1, **settings)) as engine:
        engine.run_batch(log)
        assert_same(engine.out, reference)
    return reference


def check(seed: int, short: bool = True, mortal: bool = False) -> None:
    """Runs the log of a seed through both; `mortal`: all on the disk, with many kills. Raises AssertionError if they differ."""
    of, rng = drawn(seed, short), random.Random(f"{seed}/whole")
    cut, loss, steps = rng.choice([0.02, 0.2, 0.6]), rng.choice([0, 0.3]), rng.choice(LOG_STEPS)
    room, kills = rng.choice([2, 1024]), random.Random(f"{seed}/kills")
    dies = kills.choice([0, 0.3]) if not mortal else 0.5
    left_bytes = 1 << 62 if mortal else random.Random(f"{seed}/disk").choice([0, 0, 1 << 62])
    with (
        dead_processes(),
        patch.object(horizon, "WITNESSES", of.witnesses),
        patch.object(parallel, "WORTH_ROWS", rng.choice([0, parallel.WORTH_ROWS])),
        patch.object(alertlines, "NOT_WORTH_ARROW", seed // 2 % 2 * 20),
        patch.object(arrays, "ROOM_AT_FIRST", room),
        patch.object(arrays, "SPARE_ROWS", room),
        patch.object(shared, "GROWTH", 4),
        patch.object(shared, "LEFT_BYTES", left_bytes),
        patch.object(store, "MOVED_ROWS", room),
        patch.object(store, "STEP_ROWS", room),
        patch.object(store, "ALERTS_AT_ONCE", rng.choice([1, store.ALERTS_AT_ONCE])),
        patch.object(waits, "ROOM_AT_FIRST", room),
        patch.object(statemerge, "MERGED_AT_ONCE", rng.choice([2, 3])),
        InProcessEngine(Settings(of.schema, parallelism=1, **of.settings)) as stages,
    ):
        both = Dated(stages, Reference(of.schema, **of.settings))
        for kind, text in of.log:
            # a control message is logged later than what came before
            both.take(kind, text, max(rng.choice(steps), kind == "control"))
            if rng.random() < cut:
                cut_by_mortals(both, rng.choice(PAUSES), kills, dies)
                if rng.random() < loss:
                    stages.lose_memory()
                if rng.random() < loss:  # another worker goes on with what shared memory holds
                    windowstate._open.clear()
        both.assert_same_at_end()


def cut_by_mortals(both: Dated, pause: int, rng: random.Random, dies: float) -> None:
    """A cut; now and then the worker is killed meanwhile, and another one goes on, or the engine starts again before it."""
    if rng.random() < dies / 2:
        start_again(both.stages)
    try:
        if rng.random() < dies:
            with killed(rng):
                both.cut(pause)
        else:
            both.cut(pause)
    except Killed:
        die(both.stages, starts_again=rng.random() < 0.5)
        both.stages.step()


def first_difference(seeds: Iterable[int], short: bool = True, mortal: bool = False) -> str:
    """What is wrong with the first of these logs that differs; empty if none does."""
    for seed in seeds:
        try:
            check(seed, short, mortal)
        except AssertionError as error:
            return f"seed {seed}: {str(error)[:2000]}"
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    return ""
