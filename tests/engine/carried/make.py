"""Makes a checkpoint and logs with the engine of an older commit, for `test_carried.py` to go on from.

    git worktree add --detach /tmp/older COMMIT
    cd /tmp/older && PYTHONPATH=$PWD python .../tests/engine/carried/make.py .../tests/engine/carried/COMMIT.tar.xz

It runs in the older tree: nothing of this one is imported, and what it imports of `lab` was there at 67708f0.
"""

import json
import random
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.ends import FileLogs
from lab.engine.spark import pipeline
from lab.machine.session import session
from lab.model.schema import LOGINS

START_MS = 1_356_998_400_000
RUNS = 3


def rule(number: int, **more: object) -> str:
    """A rule message on logins."""
    known = {"ruleId": number, "ruleState": "ACTIVE", "groupingKeyNames": ["userId"], "window": "10m"}
    known |= {"aggregatorFunctionType": "COUNT", "limitOperatorType": ">", "limit": 3}
    return json.dumps(known | more)


SUM = {"aggregatorFunctionType": "SUM", "aggregateFieldName": "amount", "limit": "40.5"}
UNIQUE = {"aggregatorFunctionType": "UNIQUE_COUNT", "unique": ["ip"], "limit": 2}
RESET = {"aggregatorFunctionType": "COUNT_WITH_RESET", "groupingKeyNames": ["country", "ip"]}
# before each run: rules of several routes, then changes; no window grows, as that was not always as it is now
CONTROL = [
    [rule(1, **SUM), rule(2, **UNIQUE, filter={"action": "login"}), rule(3, **RESET), rule(4)],
    [rule(1, **SUM | {"limit": "60"}), json.dumps({"ruleId": 4, "ruleState": "PAUSE"}), "no rule"],
    [rule(4), rule(5, **SUM, groupingKeyNames=["ip"])],
]


def events(run: int, count: int = 150) -> list[str]:
    """Logins, mostly in order; some are late, some come again, some are no events."""
    random_of, lines = random.Random(run), []
    for number in range(run * count, (run + 1) * count):
        event = {
            "eventId": number,
            "eventTime": START_MS + 7_000 * number - random_of.choice((0, 0, 0, 20_000, 400_000)),
            "userId": random_of.randrange(5),
            "action": random_of.choice(("login", "pay")),
            "ip": random_of.choice(("203.0.113.5", "198.51.100.7", "é;=", None)),
            "country": random_of.choice(("KR", "CN")),
            "amount": random_of.choice(("1", "2.5", "21.5", None)),
        }
        lines.append(json.dumps(event))
        if number % 40 == 7:
            lines += [lines[-1], "broken"]
    return lines


def main(archive: Path) -> None:
    with TemporaryDirectory() as name, session() as spark:
        logs = FileLogs(Path(name) / "logs")
        logs.create()
        for run in range(RUNS):
            logs.log("control").append(CONTROL[run])
            logs.log("events").append(events(run))
            with pipeline.start(
                spark, logs, logs.folder / "checkpoint", Settings(LOGINS, key_groups=4), once=True
            ) as engine:
                engine.query.awaitTermination()
        for lease in (logs.folder / "checkpoint" / "lease").iterdir():  # names this host
            lease.write_text("{}")
        with tarfile.open(archive, "w:xz") as packed:
            packed.add(logs.folder, "logs")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
