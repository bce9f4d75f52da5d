"""Functions of the event time: the engine gives what the reference gives."""

import json
import random

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.inprocess import InProcessEngine
from lab.model.reference import evaluate_log
from lab.model.schema import LOGINS
from tests.engine.test_inprocess import assert_same

START = 1_738_022_400_000
RULES = (
    'MAX(eventTime where action = "b") per userId over 1 min > MIN(eventTime where action = "a") over 1 min, when action = "c"',
    "MAX(eventTime) per userId over 1 h > MIN(eventTime) over 1 h + 90000",
    f"AVG(eventTime) per userId over 1 h > {START + 60_000}",
    f"SUM(eventTime) per userId over 1 h > {40 * START}",
    "VARIANCE(eventTime) per userId over 10 min > 1000000000",
)


def test_functions_of_the_event_time_are_exact():
    rng = random.Random(1)
    log = [("control", f"{n}: {rule}".encode()) for n, rule in enumerate(RULES, 1)]
    for n in range(300):
        time = START + 1_000 * n + rng.randrange(-9_000, 9_000)
        event = {"eventId": n, "eventTime": time, "userId": rng.randrange(4), "action": rng.choice("abc")}
        log.append(("event", json.dumps(event).encode()))
    reference = evaluate_log(LOGINS, log)
    with InProcessEngine(Settings(LOGINS)) as stages:
        stages.run_batch(log)
        assert_same(stages.out, reference)
    assert {alert.rule_id for alert in reference.alerts} == set(range(1, len(RULES) + 1))
