"""The reference for a page gives what the reference gives, on logs with late events, duplicates and changes of rules."""

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from lab.model.reference import LATE_POLICIES, Reference
from lab.model.schema import PAYMENTS
from lab.past.fastreference import FastReference

FUNCTIONS = ("SUM", "MAX", "COUNT_WITH_RESET", "UNIQUE_COUNT", "COUNT")


def log(rng: Random, events: int) -> list[tuple[str, str]]:
    def rule(number: int) -> str:
        function = rng.choice(FUNCTIONS)
        message = {"ruleId": number, "ruleState": "ACTIVE", "aggregatorFunctionType": function}
        message |= {"limit": rng.randint(1, 60), "limitOperatorType": rng.choice([">", "<"])}
        message |= {"aggregateFieldName": "paymentAmount"} if function in ("SUM", "MAX") else {}
        message |= {"unique": ["beneficiaryId"]} if function == "UNIQUE_COUNT" else {}
        if rng.random() < 0.2:
            silent = {"ruleId": number, "ruleState": "ACTIVE", "absence": True, "when": "paymentType = CRD"}
            message = silent | rng.choice([{}, {"where": "paymentType = CSH", "eventFields": ["payeeId"]}])
        keys = rng.choice([["payeeId"], [], ["payeeId", "paymentType"]])
        return json.dumps(message | {"groupingKeyNames": keys, "window": rng.choice(["5s", "20s", "2m"])})

    found, time = [("control", rule(number)) for number in (1, 2, 3)], 1_700_000_000_000
    for number in range(events):
        if rng.random() < 0.01:
            found.append(("control", rule(rng.randint(1, 4))))
        time += rng.choice([0, 1_000, 1_000, 5_000])
        late = rng.choice([0, 0, 0, 1_000, 10_000, 60_000, 300_000])
        event: dict[str, Any] = {"transactionId": number - rng.choice([0, 0, 1, 2]), "eventTime": time - late}
        event |= {"payeeId": rng.randint(1, 2), "beneficiaryId": rng.randint(1, 3)}
        event |= {"paymentType": rng.choice(["CSH", "CRD"]), "paymentAmount": rng.choice([1, 10, 25.5])}
        found.append(("event", json.dumps(event)))
        if rng.random() < 0.05:
            found.append(found[-rng.randint(1, 3)])
        if rng.random() < 0.05:
            found.append(("event", json.dumps(event | {"paymentType": "back"})))
    return found


@pytest.mark.parametrize("policy", LATE_POLICIES)
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))])
def test_alerts_and_counts_are_those_of_the_reference(policy, seed):
    settings = {"late_policy": policy, "max_out_of_orderness_ms": 20_000, "key_groups": 4}
    schema = replace(PAYMENTS, taken_back="paymentType = back")
    engines = [kind(schema, **settings) for kind in (Reference, FastReference)]
    for kind, line in log(Random(seed), 600):
        for engine in engines:
            (engine.event if kind == "event" else engine.control)(line.encode())
    plain, quick = engines
    assert [alert.to_json() for alert in quick.alerts] == [alert.to_json() for alert in plain.alerts] != []
    assert quick.counts == plain.counts and plain.counts["duplicates"] and plain.counts["takenBack"]
    assert quick.alerts_and_withdrawals == plain.alerts_and_withdrawals
    assert {key: sorted(e.arrival for e in held) for key, held in quick.stored_events.items() if held} == {
        key: sorted(e.arrival for e in held) for key, held in plain.stored_events.items() if held
    }
