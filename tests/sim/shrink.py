"""Makes a history that fails as short as it can be."""

import json
import time
from dataclasses import replace

from tests.sim.history import History
from tests.sim.simulate import run

# settings that a short history has, as far as it still fails with them
SIMPLEST = {
    "divisible": False,
    "disk": "",
    "segment_bytes": 8 << 20,
    "parallelism": 1,
    "key_groups": 1,
    "events": 1,
    "control": 1,
    "at_once": 100,
    "late_policy": "evaluate",
    "one_by_one": True,
    "hosts": 1,
    "room": 64,
    "witnesses": 4,
    "merged": 8,
    "merged_events": 1 << 22,
    "slice": 8192,
    "ledgers": 100,
    "sharing": 5000,
    "max_batch_records": 1000,
    "max_future_ms": 86_400_000,
    "max_out_of_orderness_ms": 0,
}


def shrunk(history: History, most_s: float = float("inf")) -> History:
    """The shortest history found that fails as well: fewer actions, fewer faults, simpler settings.

    `most_s`: CPU time after which no better one is looked for.
    """
    kind, begun = _kind(run(history)), time.process_time()

    def fails(candidate: History) -> bool:
        return time.process_time() < begun + most_s and kind in _kind(run(candidate))

    def fewer(history: History) -> History:
        size = max(len(history.actions) // 2, 1)
        while size:
            at = 0
            while at < len(history.actions):
                candidate = history.without(at, at + size)
                if fails(candidate):
                    history = candidate
                else:
                    at += size
            size //= 2
        return history

    while True:
        before = history
        history = fewer(history)
        for name, value in SIMPLEST.items():
            if history.settings[name] != value:
                candidate = replace(history, settings=history.settings | {name: value})
                if candidate.settings["parallelism"] <= candidate.settings["key_groups"] and fails(candidate):
                    history = candidate
        for number, action in enumerate(history.actions):
            for simpler in _simpler(action):
                candidate = replace(
                    history, actions=(*history.actions[:number], simpler, *history.actions[number + 1 :])
                )
                if fails(candidate):
                    history = candidate
                    break
        if history == before:
            return history


def _kind(found: list[str]) -> str:
    """What sort of failure it is: the first words."""
    return found[0].partition(":")[0] if found else "nothing"


def _simpler(action: tuple):
    if action[0] == "batch":
        _, seed, faults, die, how = action
        if die is not None:
            yield "batch", seed, faults, None, ""
            yield from (
                ("batch", seed, faults, earlier, how)
                for earlier in (0, die // 2, die - 1)
                if 0 <= earlier < die
            )
            if how == "suspend":
                yield "batch", seed, faults, die, "kill"
        for number in range(len(faults)):
            yield "batch", seed, faults[:number] + faults[number + 1 :], die, how
        if seed > 3:
            yield from (("batch", small, faults, die, how) for small in range(4))
    if action[0] == "append":
        _, log, source, at, line = action
        if source:
            yield "append", log, 0, at, line
        try:
            given = json.loads(line)
        except ValueError:
            return
        for name in ("ip", "country", "amount", "action", "filter", "when"):
            if isinstance(given, dict) and name in given:
                yield (
                    "append",
                    log,
                    source,
                    at,
                    json.dumps({n: v for n, v in given.items() if n != name}).encode(),
                )
