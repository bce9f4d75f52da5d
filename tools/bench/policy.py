"""Measures a policy's way: `python -m tools.bench.policy`. From the commit of a row in PostgreSQL to the rule in force, and
from an abusive event to its refusal, while logins flow.

Database, broker, generator, capture, engine, decider and enforcement service are processes of their own on this machine.
"""

import argparse
import json
import os
import random
import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from lab.logs.positions import Record
from lab.model.alerts import Alert
from lab.model.schema import LOGINS
from lab.model.times import now_ms
from lab.restrict.restrictions import parse_restriction
from lab.rulestore.changes import change_in_message
from lab.stream.player import Player
from tests.rulestore.loop import Loop
from tests.waiting import wait_until
from tools.bench.live import cpu_busy

TARGET_MS = 1500  # p99 of both
PAUSE_S = 0.5  # at most, between two measurements
GUESSES = 5
POLICY = {
    "ruleId": 1,
    "ruleState": "ACTIVE",
    "groupingKeyNames": ["userId"],
    "filter": {"action": "login_failed"},
    "aggregatorFunctionType": "COUNT",
    "limitOperatorType": ">=",
    "limit": GUESSES,
    "action": "block_login",
    "ttl": "30m",
}
FIRST_ABUSER = 10**6  # the generator's users have smaller numbers
Took = dict[str, np.ndarray]  # stage -> ms, of each time it was gone through


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.policy", description=__doc__.split(": `")[0])
    parser.add_argument("--rate", type=int, default=500, metavar="N", help="logins a second meanwhile (500)")
    parser.add_argument("--edits", type=int, default=200, metavar="N", help="of a row (200)")
    parser.add_argument("--attacks", type=int, default=200, metavar="N", help="each of one user (200)")
    parser.add_argument("--warm-up", type=int, default=20, metavar="N", help="seconds (20)")
    options = parser.parse_args()
    busy, began = cpu_busy(), time.monotonic()
    edits, abuse = measured(options.rate, options.edits, options.attacks, options.warm_up)
    share = (cpu_busy() - busy) / (time.monotonic() - began) / os.cpu_count()
    console = Console(width=None if Console().is_terminal else 100, highlight=False)
    console.print(f"{options.rate} logins/s; CPUs busy {100 * share:.0f} %, what else runs here included")
    for title, took, total in (
        (f"From the commit of a row to the rule in force, {options.edits} edits", edits, "in force"),
        (f"From an abusive event to its refusal, {options.attacks} attacks", abuse, "refused"),
    ):
        console.print(table(title, took))
        p99 = np.percentile(took[total], 99)
        console.print(f"p99 {p99:,.0f} ms: {'met' if p99 <= TARGET_MS else 'NOT MET'} {TARGET_MS:,} ms")


def table(title: str, took: Took) -> Table:
    """A row for each stage."""
    shown = Table("ms", title=title)
    for name in ("p50", "p90", "p99", "longest"):
        shown.add_column(name, justify="right")
    for stage, times in took.items():
        shown.add_row(stage, *(f"{value:,.0f}" for value in np.percentile(times, (50, 90, 99, 100))))
    return shown


def measured(rate: int, edits: int, attacks: int, warm_up_s: float) -> tuple[Took, Took]:
    """How long the stages took, of edits and of attacks."""
    rng = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="lab-bench-") as folder, Loop(Path(folder), LOGINS) as loop:
        loop.store.put(json.dumps(POLICY | {"window": "10m"}))
        wait_until(lambda: loop.store.rows()[0]["status"] == "in force")
        with Player("logins", loop.logs.log("events"), rate, users=100_000, burst_every_s=0):
            time.sleep(warm_up_s)
            return edited(loop, edits, rng), attacked(loop, attacks, rng)


def edited(loop: Loop, edits: int, rng: random.Random) -> Took:
    """Edits the row again and again. Times of logs are the broker's; a commit is when the client has heard of it."""
    seen = {}
    for number in range(edits):
        time.sleep(rng.uniform(0, PAUSE_S))
        loop.store.put(json.dumps(POLICY | {"window": f"{601 + number}s"}))
        committed = now_ms()
        wait_until(lambda: loop.store.rows()[0]["status"] == "in force", pause_s=0.01)
        seen[loop.store.last_change_id()] = committed, now_ms()
    sent = {change_in_message(record.line)[1]: record for record in records(loop, "control")}
    answered = {json.loads(record.line).get("place"): record.log_time_ms for record in records(loop, "acks")}
    commit, control, answer, shown = np.array(
        [
            (committed, sent[change].log_time_ms, answered[sent[change].place], shown)
            for change, (committed, shown) in seen.items()
        ]
    ).T
    return {
        "capture: commit to control log": control - commit,
        "engine: to its answer": answer - control,
        "in force": answer - commit,
        "capture: answer to its row": shown - answer,
    }


def attacked(loop: Loop, attacks: int, rng: random.Random) -> Took:
    """Lets users fail to log in until each is refused. The shop asks every few milliseconds."""
    seen, events = {}, loop.logs.log("events")
    for number in range(attacks):
        time.sleep(rng.uniform(0, PAUSE_S))
        user = FIRST_ABUSER + number
        sent = now_ms()
        events.append(guesses(user, 10**12 + 100 * number))
        wait_until(partial(refused, loop, user), pause_s=0.005)
        seen[user] = sent, now_ms()
    events.close()
    alerts: dict[int, tuple[int, int]] = {}
    for record in records(loop, "alerts"):
        alert = Alert.from_json(record.line)
        alerts.setdefault(int(dict(alert.group)["userId"]), (alert.log_time, record.log_time_ms))
    said = {
        dict(parse_restriction(record.line).subject)["userId"]: record.log_time_ms
        for record in records(loop, "restrictions")
    }
    times = [(sent, *alerts[user], said[user], done) for user, (sent, done) in seen.items()]
    event, logged, alerted, restricted, done = np.array(times).T
    return {
        "shop: event to its log": logged - event,
        "engine: to the alert": alerted - logged,
        "decider: to the restriction": restricted - alerted,
        "service: to the refusal": done - restricted,
        "refused": done - event,
    }


def guesses(user: int, first_id: int) -> list[str]:
    """Wrong passwords of a user, the last one too many."""
    event = {"eventTime": now_ms(), "userId": user, "action": "login_failed"}
    event |= {"ip": "203.0.113.9", "device": "linux", "country": "KR", "amount": None}
    return [json.dumps({"eventId": first_id + number} | event) for number in range(GUESSES)]


def refused(loop: Loop, user: int) -> bool:
    return loop.shop.allowed([{"action": "login", "userId": user}]) == [False]


def records(loop: Loop, name: str) -> list[Record]:
    with closing(loop.logs.log(name).tail()) as tail:
        return tail.records()


if __name__ == "__main__":
    main()
