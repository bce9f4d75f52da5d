"""A compacted control log has, after its last message, the rules and lists of the whole log."""

import json
import random
import time
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.inprocess import InProcessEngine
from lab.engine.loop.kafkalogs import KafkaLogs
from lab.logs.kafka import COMPACTED, KafkaLog
from lab.model.enginelogs import LOGS
from lab.model.reference import Reference
from lab.model.rules import RuleBook
from lab.model.schema import LOGINS
from lab.running.control import compaction_key
from tests.waiting import wait_until

Log = list[tuple[str, str]]  # keys and messages
KEYS: tuple[list[str], ...] = ([], ["userId"], ["userId", "country"])


def compacted(log: Log) -> Log:
    """The last message of each key, in their order."""
    return [(key, line) for at, (key, line) in enumerate(log) if key not in dict(log[at + 1 :])]


def random_message(rng: random.Random) -> dict[str, Any]:
    """About a few rules and lists, so that messages are often about the same; some will be refused."""
    rule_id = rng.randint(1, 3)
    state = rng.choice(["ACTIVE", "PAUSE", "SHADOW", "DELETE"])
    return rng.choice([random_rule, random_state, random_mute, random_change, random_command])(
        rng, rule_id, state
    )


def random_rule(rng: random.Random, rule_id: int, state: str) -> dict[str, Any]:
    when = rng.choice([None, "country in @a", "country not in @b"])
    rule = {
        "when": when,
        "ruleId": rule_id,
        "ruleState": state,
        "groupingKeyNames": rng.choice(KEYS),
        "window": "1h",
    }
    return rule | {"aggregatorFunctionType": "COUNT", "limitOperatorType": ">=", "limit": rng.randint(1, 3)}


def random_state(rng: random.Random, rule_id: int, state: str) -> dict[str, Any]:
    return {"ruleId": rule_id, "ruleState": state}


def random_mute(rng: random.Random, rule_id: int, state: str) -> dict[str, Any]:
    groups = (None, {}, {"userId": 5}, {"userId": 5, "country": "KR"}, {"country": "KR", "userId": 5})
    of: dict[str, Any] = {"group": rng.choice(groups)}
    if rng.random() < 0.3:
        return {"unmute": rule_id} | of
    return {"mute": rule_id, "until": rng.choice([None, 7])} | of


def random_change(rng: random.Random, rule_id: int, state: str) -> dict[str, Any]:
    values = rng.sample(["KR", "CN", "US", "7"], rng.randint(1, 3))
    given: dict[str, Any] = {"list": rng.choice(["a", "b"])}
    for name in rng.sample(["add", "remove", "clear"], rng.choice([1, 1, 1, 2, 3])):
        given[name] = name == "clear" or rng.sample(values, rng.randint(1, len(values)))
    return given | ({"until": rng.randint(1, 3)} if "add" in given and rng.random() < 0.5 else {})


def random_command(rng: random.Random, rule_id: int, state: str) -> dict[str, Any]:
    controls = ["DELETE_RULES_ALL", "CLEAR_STATE_ALL", "EXPORT_RULES_CURRENT"]
    return {"ruleState": "CONTROL", "controlType": rng.choice(controls)}


def outcome(log: Log) -> tuple[list[dict], dict[str, dict[str, int]]]:
    """The rules in force, whatever their versions are, and the lists that have entries."""
    book = RuleBook(LOGINS)
    for _, message in log:
        book.apply(message)
    rules = [rule.to_dict() | {"version": None} for rule in book.sorted()]
    return rules, {name: dict(each.until_by_value) for name, each in book.lists.items() if each}


@pytest.mark.parametrize("seed", range(500))
def test_a_compacted_log_gives_the_rules_and_lists_of_the_whole_log(seed):
    """Also one that was compacted in between: compaction may run at any time, or leave the newest records as they are."""
    rng = random.Random(seed)
    whole: Log = []
    kept: Log = []
    for _ in range(rng.choice([4, 12, 40])):
        message = json.dumps(random_message(rng))
        whole.append((compaction_key(message, LOGINS), message))
        kept.append(whole[-1])
        if rng.random() < 0.2:
            end = rng.randint(0, len(kept))
            kept = compacted(kept[:end]) + kept[end:]
    assert outcome(whole) == outcome(kept) == outcome(compacted(kept))


FAST = COMPACTED | {"segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01", "min.compaction.lag.ms": "0"}


def published(log: KafkaLog) -> list[str]:
    """What is in the topic."""
    with closing(log.tail()) as tail:
        return [record.line for record in tail.records()]


def alerts_of(log: list[tuple[str, str]], events: list[str]) -> list[tuple]:
    reference = Reference(LOGINS)
    for _, message in log:
        reference.control(message)
    for line in events:
        reference.event(line.encode())
    return [(alert.rule_id, alert.event_id, alert.aggregate) for alert in reference.alerts]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, 9])  # which raise alerts
def test_an_engine_that_starts_on_a_topic_that_a_broker_has_compacted_raises_the_same_alerts(kafka, seed):
    rng, name = random.Random(seed), f"cleaned-{seed}"
    logs = KafkaLogs(kafka.address, {log: f"{log}-{name}" for log in LOGS})
    control: KafkaLog = logs.log("control")
    control.create(1, FAST)
    logs.create()
    whole: Log = []
    for _ in range(8):  # segments, all of which but the last one the broker cleans
        some = [json.dumps(random_message(rng)) for _ in range(40)]
        whole += [(compaction_key(message, LOGINS), message) for message in some]
        control.publish(some, [key for key, _ in whole[-len(some) :]])
        time.sleep(1.2)
    wait_until(lambda: len(published(control)) < len({key for key, _ in whole}) + 45, pause_s=0.5)
    events = [
        json.dumps(
            {
                "eventId": n,
                "eventTime": n,
                "userId": rng.choice([5, 6]),
                "country": rng.choice(["KR", "CN", "US"]),
            }
        )
        for n in range(60)
    ]
    logs.log("events").publish(events, [""] * len(events))
    with InProcessEngine(Settings(LOGINS, key_groups=1), logs) as engine:
        while engine.step():
            pass
        alerts = [json.loads(line) for line in engine.out["alerts"]]
    assert [(a["ruleId"], a["eventId"], Decimal(a["aggregate"])) for a in alerts] == alerts_of(whole, events)
    assert alerts
    assert outcome(whole) == outcome([("", line) for line in published(control)])
