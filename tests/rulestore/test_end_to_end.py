"""Database, capture, broker, engine, decider and enforcement service together: how soon a row is in force and abuse is refused."""

import json
import time
from contextlib import ExitStack, closing

import numpy as np
import pytest

from lab.apps.run import OPTIONS
from lab.engine.stages import compile_kernels
from lab.logs.kafka import COMPACTED
from lab.machine import ports
from lab.model.schema import LOGINS
from lab.restrict.client import Enforcement
from lab.rulestore.store import RuleStore
from lab.stream.player import Player
from tests.restrict.test_restrictions import GUESSING
from tests.rulestore.conftest import new_database
from tests.rulestore.kills import Victim
from tests.topics import topics

EDITS, ABUSERS, RATE = 20, 10, 500
USES = {
    ("run", "--schema", "logins", "--parallelism", "1"): (
        "events",
        "rules",
        "alerts",
        "acks",
        "dead_letters",
        "stats",
    ),
    ("cdc", "run", "--schema", "logins"): ("rules", "acks"),
    ("restrict", "run", "--schema", "logins"): ("rules", "acks", "alerts", "restrictions"),
    ("restrict", "serve"): ("restrictions",),
}


def failed(user: int, first_id: int) -> list[str]:
    event = {"eventTime": time.time_ns() // 1_000_000, "userId": user, "action": "login_failed"}
    event |= {"ip": "203.0.113.9", "device": "linux", "country": "KR", "amount": None}
    return [json.dumps({"eventId": first_id + number} | event) for number in range(GUESSING["limit"])]


def told(name: str, took: list[float]) -> float:
    p50, p99 = np.percentile(took, (50, 99))
    print(f"{name}: p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms of {len(took)}")
    return p99


@pytest.mark.slow
def test_a_row_is_in_force_and_abuse_is_refused_soon(kafka, postgres, tmp_path):
    compile_kernels()  # else the first events wait for it
    url, port = new_database(postgres), ports.free_port()
    logs = topics(kafka.address, "endtoend")
    logs.log("restrictions").create(1, COMPACTED)
    store = RuleStore(url, LOGINS)
    more = {
        ("cdc", "run"): ["--store", url],
        ("restrict", "serve"): ["--port", str(port)],
        ("run", "--schema"): ["--checkpoint", str(tmp_path / "checkpoint")],
    }
    with ExitStack() as opened:
        for command, used in USES.items():
            options = [f"--{option.replace('_', '-')}={logs.log(OPTIONS[option])!r}" for option in used]
            special = more.get(command[:2], [])
            opened.enter_context(Victim(tmp_path / "out.log", *command, *options, *special))
        acks = opened.enter_context(closing(logs.log("acks").tail()))
        store.put(json.dumps(GUESSING))
        wait(lambda: store.rows()[0]["status"] == "in force", 120)
        player = Player("logins", logs.log("events"), RATE, users=100_000, burst_every_s=0)
        player.start()
        opened.callback(player.stop)
        time.sleep(5)
        acks.read()
        in_force = []
        for number in range(EDITS):
            store.put(json.dumps(GUESSING | {"window": f"{601 + number}s"}))
            committed = time.monotonic()
            wait(acks.read, 20, 0.002)
            in_force.append(time.monotonic() - committed)
        shop = opened.enter_context(closing(Enforcement(f"http://127.0.0.1:{port}")))
        refused, events = [], logs.log("events")
        for number in range(ABUSERS):
            user = 1_000_000 + number
            events.append(failed(user, 10**12 + 100 * number))
            events.flush()
            began = time.monotonic()
            wait(lambda user=user: shop.allowed([{"action": "login", "userId": user}]) == [False], 20, 0.005)
            refused.append(time.monotonic() - began)
        assert shop.unanswered == 0 and shop.allowed([{"action": "payment", "userId": user}]) == [True]
        wait(lambda: store.rows()[0]["status"] == "in force", 20)
        assert store.rows()[0]["version_in_force"] == EDITS + 1
    assert told("from commit to rule in force", in_force) < 10
    assert told("from the abusive event to the refusal", refused) < 10


def wait(true, seconds: float, pause_s: float = 0.05) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(pause_s)
