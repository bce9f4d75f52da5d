"""The engine on Spark against the reference: one engine reads random logs one after another, stops on the way and continues.

`python -m tests.engine.whole --spark --logs 1000`. Spark takes seconds to start an engine, and the reference milliseconds for a random
log. So one engine reads all logs of the same schema out of some hundreds. Each log ends with its rules deleted and its windows cleared, and
the events of the next one are later.
"""

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.filelogs import FileLogs
from lab.engine.spark.pipeline import start
from lab.model.enginelogs import WRITTEN
from lab.model.reference import Reference
from lab.model.schema import Schema
from lab.state.rescale import rescale
from tests.answers import only_answers
from tests.engine.drawn import Drawn, drawn
from tests.engine.oddlogs import DAY, later
from tests.engine.test_inprocess import DatedLogs
from tests.strategies import LOG_STEPS, PAUSES
from tests.waiting import wait_until

APART = 3 * DAY  # how much later the events of a log are than those of the one before, ms
LOGGED_FROM = 10**12  # after all event times, long before today
ENDING = [json.dumps({"ruleId": rule, "ruleState": "DELETE"}).encode() for rule in range(1, 13)]
ENDING.append(b'{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}')


def first_difference(spark: SparkSession, seeds: range) -> str:
    """What differs on these logs, empty if nothing does. An engine reads the logs of one schema."""
    by_schema = defaultdict[Schema, list[Drawn]](list)
    for seed in seeds:
        of = drawn(seed)
        by_schema[of.schema].append(of)
    for number, (schema, logs) in enumerate(by_schema.items()):
        try:
            check(spark, logs, random.Random(f"{seeds}/{number}"))
        except AssertionError as error:
            return f"seeds {seeds.start} to {seeds.stop - 1}, {schema.name}: {str(error)[:2000]}"
    return ""


def check(spark: SparkSession, logs: Sequence[Drawn], rng: random.Random) -> None:
    """Runs these logs, of one schema, through an engine that has the settings of the first. Raises AssertionError if it differs."""
    settings = Settings(logs[0].schema, **logs[0].settings)
    with TemporaryDirectory(prefix="lab-onspark-") as folder:
        both = DatedLogs(FileLogs(Path(folder)), Reference(settings.schema, **logs[0].settings), LOGGED_FROM)
        for number, of in enumerate(logs):
            steps = rng.choice(LOG_STEPS)
            for kind, text in of.log:
                # a control message is logged later than what came before
                both.take(
                    kind,
                    later(text, number * APART) if kind == "event" else text,
                    max(rng.choice(steps), kind == "control"),
                )
            both.advance(rng.choice(PAUSES))
            for text in ENDING:
                both.take("control", text, 1)
        tasks, records = 0, both.reference.counts["records"] + len(both.reference.acks)
        stops = sorted(rng.randint(1, records) for _ in range(rng.choice([0, 2, 5])))
        for stop in (*stops, records):
            before, tasks = tasks, rng.randint(1, min(3, settings.key_groups))
            if before not in (0, tasks):
                rescale(f"{folder}/checkpoint", tasks)
            most = rng.choice([20, 200]) if stop < records else rng.choice([200, 10**6])
            settings = replace(settings, parallelism=tasks, max_batch_records=most)
            with start(spark, both.logs, f"{folder}/checkpoint", settings, once=rng.random() < 0.5) as engine:
                wait_until(
                    partial(has_taken, both.logs, stop),
                    pause_s=0.005,
                    alive=lambda: engine.query.isActive or engine.query.exception() is None,
                    said=engine.query.exception,
                )
        both.assert_same({name: both.logs.log(name).read() for name in WRITTEN}, tasks=3)


def has_taken(logs: FileLogs, records: int) -> bool:
    """Whether an engine's stats and acknowledgements cover so many records, control messages included."""
    events = sum(json.loads(line).get("records", 0) for line in logs.log("stats").read())
    return events + len(only_answers(logs.log("acks").read())) >= records
