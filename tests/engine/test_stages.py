"""The engine's stages against the reference, over random logs."""

import json
import os
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.engine import statefiles, store, together
from lab.engine.settings import Settings
from lab.engine.stages import Entry, Stages
from lab.model.reference import COUNTS, LATE_POLICIES, Reference, run
from lab.model.schema import LOGINS
from tests.strategies import MINUTE, cuts, logs

EXAMPLES = int(os.environ.get("LAB_EXAMPLES", "150"))  # random logs; `make soak` takes more
CHECKED = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


def batches(log: list[Entry], at: list[int]) -> list[list[Entry]]:
    return [log[first:end] for first, end in zip([0, *at], [*at, len(log)], strict=True)]


def assert_same(stages: Stages, reference: Reference) -> None:
    def without(line: str, *names: str) -> str:
        return json.dumps({name: value for name, value in json.loads(line).items() if name not in names})

    got = sorted(without(line, "logTime", "alertTime") for line in stages.out["alerts"])
    assert got == sorted(without(alert.to_json()) for alert in reference.alerts)
    acks = [without(line, "logTime", "place") for line in stages.out["acks"]]
    assert acks == [json.dumps(ack) for ack in reference.acks]
    letters = sorted(json.loads(line)["reason"] for line in stages.out["deadLetters"])
    assert letters == sorted(letter["reason"] for letter in reference.dead_letters)
    counts = dict.fromkeys(COUNTS, 0)
    for line in stages.out["stats"]:
        for name in COUNTS:
            counts[name] += json.loads(line).get(name, 0)
    assert counts == dict(reference.counts)


@CHECKED
@given(data=st.data())
def test_the_engine_gives_the_alerts_of_the_reference_on_any_log(data):
    log = data.draw(logs())
    at = data.draw(cuts(len(log)))
    policy = data.draw(st.sampled_from(LATE_POLICIES))
    out_of_orderness = data.draw(st.sampled_from([0, MINUTE // 2, 5 * MINUTE]))
    key_groups = data.draw(st.sampled_from([1, 4, 16]))
    reference = run(
        LOGINS, log, late_policy=policy, max_out_of_orderness_ms=out_of_orderness, key_groups=key_groups
    )
    engine = Settings(
        LOGINS,
        key_groups=key_groups,
        parallelism=1,
        late_policy=policy,
        max_out_of_orderness_ms=out_of_orderness,
    )
    room, merged, loss = data.draw(
        st.tuples(st.sampled_from([2, 1024]), st.integers(2, 3), st.integers(0, 3))
    )
    with (
        patch.object(together, "WORTH_ROWS", data.draw(st.sampled_from([0, together.WORTH_ROWS]))),
        patch.object(store, "ROOM_AT_FIRST", room),
        patch.object(statefiles, "MERGED_AT_ONCE", merged),
        Stages(engine) as stages,
    ):
        for number, entries in enumerate(batches(log, at)):
            stages.batch(entries)
            if number % (loss + 1) == loss:
                stages.lose_memory()
        assert_same(stages, reference)


def login(event_id: int, seconds: int, user: int = 1) -> Entry:
    return "event", json.dumps({"eventId": event_id, "eventTime": seconds * 1000, "userId": user}).encode()


def count_rule(operator: str, limit: int, window: str) -> Entry:
    rule = {
        "ruleId": 1,
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["userId"],
        "aggregatorFunctionType": "COUNT",
    }
    return "control", json.dumps(
        rule | {"limitOperatorType": operator, "limit": limit, "window": window}
    ).encode()


@pytest.mark.parametrize("lose_memory", [False, True])
@pytest.mark.parametrize(
    "log, event_ids",
    [
        # the key-group's newest event is at 165 s, so user 1's event at 100 s is no longer held when that at 106 s comes
        ([count_rule(">", 1, "1m"), login(1, 100), login(2, 165, user=2), login(3, 106)], []),
        ([count_rule(">", 1, "1m"), login(1, 106), login(2, 165, user=2), login(3, 107)], [3]),
        # 100 s went when the window was a minute; five minutes do not bring it back
        (
            [count_rule("=", 3, "1m"), login(1, 100), login(2, 170), count_rule("=", 3, "5m"), login(3, 180)],
            [],
        ),
        (
            [count_rule("=", 3, "1m"), login(1, 115), login(2, 170), count_rule("=", 3, "5m"), login(3, 180)],
            [3],
        ),
    ],
)
def test_what_is_no_longer_held_never_counts(log, event_ids, lose_memory):
    reference = run(LOGINS, log, max_out_of_orderness_ms=0, key_groups=1)
    assert [alert.event_id for alert in reference.alerts] == event_ids
    with Stages(Settings(LOGINS, key_groups=1, parallelism=1, max_out_of_orderness_ms=0)) as stages:
        for entries in batches(log, [3, 4]):
            stages.batch(entries)
            if lose_memory:
                stages.lose_memory()
        assert_same(stages, reference)


@pytest.mark.parametrize("lose_memory", [False, True])
def test_a_rule_deleted_and_added_again_counts_from_the_start(lose_memory):
    rule = count_rule(">", 1, "5m")[1].replace(b'"COUNT"', b'"COUNT_WITH_RESET"')
    other = count_rule(">", 99, "5m")[1].replace(b'"ruleId": 1', b'"ruleId": 2')  # keeps the route's history
    log = [("control", rule), ("control", other), login(1, 100), login(2, 110)]  # fires and resets at event 2
    log += [("control", b'{"ruleId": 1, "ruleState": "DELETE"}'), ("control", rule), login(3, 120)]
    reference = run(LOGINS, log)
    assert [(alert.event_id, alert.aggregate) for alert in reference.alerts] == [(2, 2), (3, 3)]
    with Stages(Settings(LOGINS)) as stages:
        for entries in batches(log, [4, 6]):
            stages.batch(entries)
            if lose_memory:
                stages.lose_memory()
        assert_same(stages, reference)


def test_an_aborted_first_batch_leaves_nothing_behind():
    log = [count_rule(">", 0, "1m"), login(1, 100)]
    with Stages(Settings(LOGINS)) as stages:
        stages.batch(log)
        stages.abort_all()
        stages.step()
        assert_same(stages, run(LOGINS, log))
