"""The values of aggregates as columns, beside what the conditions of a verdict measure."""

import json
from random import Random

import pytest

from lab.desk import world as worlds
from lab.desk.world import World
from lab.engine.checkpoint.settings import Settings
from lab.model.schema import LOGINS

RULES = [
    "1: SUM(amount) per userId over 5 min > 3 and COUNT(events where action = pay) over 1 min < 2",
    "2: STDDEV(amount) per userId, country over 30 min > 1 × AVG(amount) over 2 min + 1",
    "3: MIN(amount) where country in (KR, CN) over 2 min without the current event = 1, when userId = 2",
    "4: COUNT_WITH_RESET(events) per ip over 5 min >= 3",
]


def test_features_are_what_conditions_measure(monkeypatch):
    monkeypatch.setattr(worlds, "COMPILED", False)  # the values are the same, and nothing is compiled
    rng, at, lines = Random(5), 6_000_000, []
    for number in range(60):
        at += rng.choice([0, 1_000, 20_000, 90_000])
        event = {
            "eventId": number,
            "eventTime": at,
            "userId": rng.choice([1, 2, None]),
            "ip": rng.choice("ab"),
        }
        event |= {"action": rng.choice(["login", "pay"]), "country": rng.choice(["KR", "CN", "US"])}
        lines.append(json.dumps(event | {"amount": rng.choice([None, "-3.25", "1", "2.5"])}).encode())
    world = World(lines, RULES, LOGINS, Settings(LOGINS))
    rows = {row["eventId"]: row for row in world.features()}
    names = [name for name in rows[0] if name not in ("eventId", "eventTime")]
    assert len(names) == 6 and "COUNT(events) per ip over 5 min" in names
    compared = 0
    for number in range(60):
        for rule_id in (1, 2, 3):
            verdict = world.why_not(number, rule_id)
            assert verdict.rule
            per = f" per {', '.join(verdict.rule.keys)}" if verdict.rule.keys else ""
            per = f" where country in (CN, KR){per}" if verdict.rule.filter else per
            for each in verdict.conditions:
                found = rows[number][each.condition.aggregation.describe(per)]
                assert found == each.measured.aggregate, (number, rule_id)
                compared += found is not None
    assert compared > 100


def test_features_of_an_engine_are_refused():
    world = World.of_records(Settings(LOGINS), list, list, 1)
    with pytest.raises(ValueError, match="of an engine's logs"):
        world.features()
