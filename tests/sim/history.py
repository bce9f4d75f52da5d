"""A history: settings and what happens, as plain values; made from a seed, made shorter, printed as a timeline."""

import json
import random
from dataclasses import dataclass, replace

from lab.model.reference import LATE_POLICIES
from tests.engine.direct import AMOUNTS, MINUTE, USERS, random_change, random_rule

BEGIN = 1_000_000_000  # log time of the first record, ms
BAD = (
    b"",
    b"{",
    b"nonsense",
    b'{"eventId": 1}',
    b'{"eventId": 1, "eventTime": -5}',
    b'{"eventTime": 5}',
    b"two\nlines",
)
BAD_RULES = (b"", b"{}", b'{"ruleId": 0}', b"1,(active)", b'{"ruleId": 99, "ruleState": "PAUSE"}')
STEPS = ((0, 1, 5), (0, 0, 1000), (1000, 10_000), (0, 10_000, MINUTE, 7 * MINUTE), (0, 1000, 90 * MINUTE))
BEHIND = ((0,), (0, 0, 0, 10_000, 2 * MINUTE), (0, 0, 0, 1, 7 * MINUTE, 50 * MINUTE), (-10_000, 0, 3000))
TASK_FAULTS = ("kill", "fail", "twin", "twin killed", "twin lingers", "linger")
AT_STEP = (3, 8, 14, 30)  # a fault strikes one of so many first steps
ROUTES = [
    (keys, filter)
    for keys in ([], ["userId"], ["userId"], ["userId", "country"], ["country"])
    for filter in (None, None, {"action": "login"})
]

Action = tuple  # ("append", log, source, log time, line) and so on, see `SHOWN`


@dataclass(frozen=True)
class History:
    """What a simulation runs."""

    settings: dict  # of the engine, and of the world
    actions: tuple[Action, ...]

    def without(self, first: int, end: int) -> "History":
        """The same without some actions."""
        return replace(self, actions=self.actions[:first] + self.actions[end:])

    def timeline(self) -> str:
        """A line for each action, runs of appends in one."""
        shown = {name: value for name, value in self.settings.items()}
        lines = [f"     {shown}"]
        for number, action in enumerate(self.actions):
            lines.append(f"{number:3d}  {_shown(action)}")
        return "\n".join(lines)


def _shown(action: Action) -> str:
    kind, *rest = action
    if kind == "append":
        log, source, log_time, line = rest
        return f"{log}/{source} at {log_time - BEGIN:+d}: {line}"
    return f"{kind} {' '.join(map(str, rest))}"


def random_history(seed: int) -> History:
    """Settings, rules, events, and faults between them; each history has habits of its own."""
    rng = random.Random(seed)
    pick = rng.choice
    divisible = rng.random() < 0.3
    key_groups = pick([1, 2, 3, 5, 8])
    settings = {
        "divisible": divisible,
        "events": 1 if divisible else pick([1, 2, 2, 3]),
        "control": 1 if divisible else pick([1, 1, 2]),
        "at_once": pick([1, 2, 100]),
        "key_groups": key_groups,
        "parallelism": rng.randint(1, min(5, key_groups)) if rng.random() < 0.5 else 1,
        "late_policy": pick(LATE_POLICIES),
        "max_out_of_orderness_ms": pick([0, MINUTE // 2, 5 * MINUTE]),
        "max_future_ms": pick([5000, 86_400_000]),
        "max_batch_records": pick([1, 2, 3, 5, 1000, 1000]),
        "one_by_one": rng.random() < 0.9,  # few lines are read quicker so
        "hosts": pick([1, 1, 2]),
        "room": pick([2, 8, 64]),
        "merged": pick([2, 3, 3, 8]),
        "merged_events": pick([4, 1 << 22]),
        "ledgers": pick([2, 100]),
        "sharing": pick([0, 3, 5000]),
    }
    habits = Habits(rng, settings)
    actions = [habits.rule() for _ in range(pick([1, 2, 3, 6]))]
    for _ in range(pick([4, 6, 8, 12, 20, 40])):
        actions += habits.next()
    return History(settings, tuple(actions))


class Habits:
    """How one history goes."""

    def __init__(self, rng: random.Random, settings: dict):
        self.rng, self.settings, self.now = rng, settings, BEGIN
        pick = rng.choice
        self.routes = rng.sample(ROUTES, pick([1, 1, 2, 4]))
        self.amounts, self.users = pick(AMOUNTS), pick([*USERS, (1, 2, 3, 4, 5, 6)])
        self.steps, self.behind, self.ids = pick(STEPS), pick(BEHIND), pick([5, 40, 10**6])
        self.changes, self.bad = pick([0, 0.05, 0.2, 0.5]), pick([0, 0, 0.05])
        self.batches, self.faults = pick([0.15, 0.4, 0.8]), pick([0, 0.3, 0.7])
        self.disorder = pick([0, 0, 0.2])
        self.odd = pick([0, 0.05, 0.15])
        self.always = rng.random() < 0.2
        self.few = rng.random() < 0.4  # rules, which come and go and reset

    def append(self, log: str, line: bytes) -> Action:
        self.now += self.rng.choice(self.steps)
        at = self.now
        if self.rng.random() < self.disorder:
            at -= self.rng.choice([1, 1000, 10_000])
        return ("append", log, self.rng.randrange(self.settings[log]), at, line)

    def rule(self) -> Action:
        return self.append("control", self._of_habit(random_rule(self.rng, self.routes)))

    def _of_habit(self, line: bytes) -> bytes:
        given = json.loads(line)
        if self.few and "ruleId" in given:
            given["ruleId"] = self.rng.randint(1, 3)
            if "unique" not in given and "limit" in given and self.rng.random() < 0.5:
                given |= {
                    "aggregatorFunctionType": "COUNT_WITH_RESET",
                    "limitOperatorType": ">=",
                    "limit": "2",
                }
        if self.always and "limit" in given:
            given |= {"limitOperatorType": "!=", "limit": "-7"}
        return json.dumps(given).encode()

    def next(self) -> list[Action]:
        rng = self.rng
        actions = []
        if rng.random() < self.changes:
            storm = rng.choice([1, 1, 2, 4])
            for _ in range(storm):
                line = self._of_habit(random_change(rng, self.routes))
                if rng.random() < self.bad:
                    line = rng.choice(BAD_RULES)
                actions.append(self.append("control", line))
        else:
            actions.append(self.append("events", self.event()))
        if rng.random() < self.odd:
            actions.append(self.oddity())
        if rng.random() < self.batches:
            actions.append(self.batch())
        return actions

    def event(self) -> bytes:
        rng = self.rng
        if rng.random() < self.bad:
            return rng.choice(BAD)
        event = {
            "eventId": rng.randrange(self.ids),
            "eventTime": self.now - rng.choice(self.behind),
            "userId": rng.choice(self.users),
            "action": rng.choice(["login", "pay"]),
            "ip": rng.choice(["a", "a", "b", None]),
            "country": rng.choice(["KR", "KR", "CN"]),
            "amount": rng.choice([None, *self.amounts]),
        }
        return json.dumps(event).encode()

    def batch(self) -> Action:
        rng, faults, die, how = self.rng, [], None, ""
        if rng.random() < self.faults:
            for _ in range(rng.choice([0, 1, 1, 2])):
                faults.append((rng.randrange(5), rng.choice(TASK_FAULTS), rng.randrange(rng.choice(AT_STEP))))
            if rng.random() < 0.5:
                die, how = rng.randrange(rng.choice([6, 20, 40])), rng.choice(["kill", "suspend"])
        return ("batch", rng.randrange(1000), tuple(faults), die, how)

    def oddity(self) -> Action:
        rng = self.rng
        return rng.choice(
            [
                ("skew", rng.choice([0, 0, -1, 1, 5, -5000, 5000, 60_000])),
                ("rescale", rng.randint(1, min(5, self.settings["key_groups"]))),
                ("restart", rng.random() < 0.5),
                ("lose", rng.randrange(2)),
                ("delete", rng.randrange(2), rng.randrange(10)),
                ("stale", rng.randrange(2)),
                ("partition",),
                ("resume", rng.random() < 0.2),
            ]
        )
