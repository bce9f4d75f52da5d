"""A history: settings and what happens, as plain values; made from a seed, made shorter, printed as a timeline."""

import json
import random
from dataclasses import dataclass, replace

from lab.model.reference import LATE_POLICIES
from tests.engine.randomlogs import (
    AMOUNTS,
    MINUTE,
    USERS,
    absent,
    derived_rule,
    looking_at_lists,
    random_change,
    random_list_change,
    random_mute,
    random_rule,
)
from tests.sim.machines import KINDS

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
AHEAD = ((0,), (0,), (0, 0, 0, 0, 40 * MINUTE), 30 * (0,) + (1200 * MINUTE,))
WINDOWS = (("1s", "30s", "1m", "2m", "5m", "30m"), ("1s", "30m"), ("2m",), ("1m", "5m"))
RESETTING = {"aggregatorFunctionType": "COUNT_WITH_RESET", "limitOperatorType": ">="}
ALWAYS = {"limitOperatorType": "!=", "limit": "-7"}
AT_STEP = (3, 8, 14, 30)  # a fault strikes one of so many first steps
TASK_FAULTS = ("kill", "fail", "twin", "twin killed", "twin lingers", "linger")
STORMS = ("any", "again", "leave and return", "window and back", "route and back")
ODDITIES = (
    "skew",
    "rescale",
    "restart",
    "once",
    "lose",
    "delete",
    "stale",
    "partition",
    "expire",
    "resume",
    "torn",
)
OFTEN = (0, 0, 1, 1, 6)  # how frequent a kind of trouble is in a history, beside the others
SKEWS = (0, 0, 0, -1, 1, 5, -5000, 5000, 60_000, -60_000, -60_000)  # of the engine's clock, ms
ROUTES = [
    (keys, filter)
    for keys in ([], ["userId"], ["userId"], ["userId", "country"], ["country"])
    for filter in (None, None, {"action": "login"} if keys != ["country"] else "amount > 0 or action = pay")
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
    if kind in ("append", "torn"):
        log, source, log_time, line, *more = rest
        return " ".join(map(str, [f"{log}/{source} at {log_time - BEGIN:+d}: {line!r}", *more]))
    return f"{kind} {' '.join(map(str, rest))}"


def random_history(seed: int, kind: str = "") -> History:
    """Settings, rules, events, and faults between them; each history has habits of its own.

    `kind`: "loop" for one that runs the engine's loop, "disk" for one whose windows lie on a disk; a seed gives another history of each kind.
    """
    of: int | str = f"{kind} {seed}" if kind else seed
    loop = kind == "loop"
    rng = random.Random(of)
    pick = rng.choice
    divisible = rng.random() < 0.3
    key_groups = pick([1, 2, 2, 3, 5, 8])
    settings = {
        "divisible": divisible,
        "segment_bytes": pick([1, 500, 8 << 20]),
        "events": pick([1, 2, 2, 3]),  # partitions of a topic, or writers of a file log
        "control": pick([1, 1, 2]),
        "at_once": pick([1, 2, 100]),
        "key_groups": key_groups,
        "parallelism": rng.randint(1, min(5, key_groups)) if not loop and rng.random() < 0.5 else 1,
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
        "sharing": pick([0, 0, 3, 5000]),
        # a generator of its own: what a seed gave before there were pairs, it gives still
        "pairs": random.Random(f"{of}/pairs").random() < 0.3,
    }
    settings["returns"] = not settings["pairs"] and random.Random(f"{of}/returns").random() < 0.4
    settings["rows"] = (
        not settings["pairs"] and not settings["returns"] and random.Random(f"{of}/rows").random() < 0.4
    )
    # where there is one task, it may run the engine's loop, with epochs of several cuts
    settings["loop"] = loop or settings["parallelism"] == 1 and random.Random(f"{seed}/loop").random() < 0.6
    habits = Habits(rng, settings)
    # of a generator of its own, and added when the others have been used, for the same reason
    settings["slice"] = random.Random(f"{of}/slice").choice([1, 1, 3, 8192])
    settings["derived"] = not settings["rows"] and random.Random(f"{of}/derived").random() < 0.3
    settings["lists"] = random.Random(f"{of}/lists").random() < 0.3
    settings["shadow"] = random.Random(f"{of}/shadow").choice([0, 0, 0.3, 0.8])
    settings["witnesses"] = random.Random(f"{of}/witnesses").choice([1, 1, 2, 4])
    of_disk = random.Random(f"{of}/disk")
    settings["disk"] = of_disk.choice(KINDS) if kind == "disk" or of_disk.random() < 0.05 else ""
    if settings["disk"] and of_disk.random() < 0.7:  # an epoch can be undone
        settings |= {"returns": False, "rows": False, "room": 64}
        habits.absences = 0
    actions = [habits.rule() for _ in range(pick([1, 2, 2, 3, 5]))]
    for _ in range(pick([2, 3, 4, 6, 8, 10, 14, 20, 30])):
        actions += habits.next()
    actions = _with_copies(random.Random(f"{of}/copies" if kind else -1 - seed), actions)
    return History(settings, tuple(with_stops(of_disk, actions) if settings["disk"] else actions))


def with_stops(rng: random.Random, actions: list[Action]) -> list[Action]:
    """The engine is stopped a few times, and what happens then to its machine while it does not run."""
    for _ in range(rng.choice([1, 2, 3, 5])):
        events = [
            at for at, (kind, *more) in enumerate(actions, 1) if [kind, *more][:2] == ["append", "events"]
        ]
        place, host = rng.choice(events or [len(actions)]), rng.randrange(2)
        then: Action = rng.choice(
            [("restart", 0)] * 5
            + [("upgrade",), ("cut_short", host, rng.randrange(10)), ("lose", host), ("disk_fails", host)]
        )
        # what undoes an epoch takes many steps more
        faults = tuple((rng.randrange(5), "kill", rng.randrange(50)) for _ in range(rng.choice([0, 1, 2])))
        die = rng.choice([None, rng.randrange(40), rng.randrange(100)])
        batch: Action = ("batch", rng.randrange(1000), faults, die, "kill")
        actions = [*actions[:place], batch, then, *actions[place:]]
    return actions


def _with_copies(rng: random.Random, actions: list[Action]) -> list[Action]:
    """In some histories the checkpoint is copied, and the copy put back later, once or twice."""
    copies: list[Action] = [("copy",), ("put_back",), ("put_back",)][: rng.choice([0, 0, 0, 2, 3])]
    places = sorted(rng.choices(range(len(actions) + 1), k=len(copies)), reverse=True)
    for place, action in zip(places, reversed(copies), strict=True):
        actions = [*actions[:place], action, *actions[place:]]
    return actions


class Habits:
    """How one history goes: of each kind of trouble it has none, some, or much."""

    def __init__(self, rng: random.Random, settings: dict):
        self.rng, self.settings, self.now = rng, settings, BEGIN
        pick = rng.choice
        self.routes = rng.sample(ROUTES, pick([1, 1, 2, 4]))
        self.amounts, self.users = pick(AMOUNTS), pick([*USERS, (1, 2, 3, 4, 5, 6)])
        self.steps, self.behind, self.ids = pick(STEPS), pick(BEHIND), pick([5, 40, 10**6])
        self.changes, self.bad = pick([0.05, 0.2, 0.5]), pick([0, 0, 0.05])
        self.batches, self.faults = pick([0.1, 0.3, 0.6, 0.9]), pick([0, 0.5, 0.9])
        self.countries: tuple[str, ...] = ("KR", "KR", "CN")
        self.disorder = pick([0, 0, 0.2, 0.5])
        self.rule_ids, self.windows = pick([2, 3, 12]), pick(WINDOWS)
        self.alike = pick([{}, {}, RESETTING, ALWAYS])  # what many of its rules have in common
        self.odd = pick([0, 0.05, 0.15, 0.4])
        self.oddities, self.storms, self.task_faults = map(self._often, (ODDITIES, STORMS, TASK_FAULTS))
        if rng.random() < 0.4:  # all meet on one route and in few groups
            self.routes, self.rule_ids = self.routes[:1], 2
            self.users, self.countries = pick([(1,), (1, 2)]), ("KR",)
        # a generator of its own: what a seed gave before there was absence, half of them still give
        self.absence = random.Random(f"{settings}/absence")
        self.absences = self.absence.choice([0, 0, 0.3, 0.9])
        self.returns = random.Random(f"{settings}/returns")
        self.returned = self.returns.choice([0.2, 0.7])
        self.filters = random.Random(f"{settings}/filters")
        self.made: list[dict] = []  # events that may be taken back
        self.derived = random.Random(f"{settings}/derived")
        self.lists = random.Random(f"{settings}/lists")
        self.shadow = random.Random(f"{settings}/shadow")
        self.newest: dict = {}  # the newest event
        self.ahead = random.Random(f"{settings}/ahead")
        self.dated_ahead = self.ahead.choice(AHEAD)
        self.last: dict[int, dict] = {}  # rule id -> its rule as it was given last

    def _often(self, kinds: tuple[str, ...]) -> list[str]:
        """Each kind as often as it occurs to this history; some kind in any case."""
        drawn = [kind for kind in kinds for _ in range(self.rng.choice(OFTEN))]
        return drawn or [self.rng.choice(kinds)]

    def append(self, log: str, line: bytes) -> Action:
        self.now += self.rng.choice(self.steps)
        at = self.now
        if self.rng.random() < self.disorder:
            at -= self.rng.choice([1, 1000, 10_000, 50_000])
        # of more sources than there are: of one that has appeared, or again of the first ones
        return ("append", log, self.rng.randrange(2 * self.settings[log]), at, line)

    def control(self, message: dict) -> Action:
        if self.rng.random() < self.bad:
            return self.append("control", self.rng.choice(BAD_RULES))
        if message.get("limit") or message.get("absence"):
            self.last[message["ruleId"]] = message
            if self.shadow.random() < self.settings["shadow"]:  # the same rule active later is its promotion
                message = message | {"ruleState": "SHADOW"}
        return self.append("control", json.dumps(message).encode())

    def rule(self) -> Action:
        given = json.loads(random_rule(self.rng, self.routes))
        given |= {"ruleId": self.rng.randint(1, self.rule_ids), "window": self.rng.choice(self.windows)}
        if self.absence.random() < self.absences:
            given = absent(self.absence, given)
        if "unique" not in given and self.rng.random() < 0.7:
            given |= self.alike
            if self.alike == RESETTING:
                given["limit"] = self.rng.choice(["1", "2", "2", "3"])
        if self.settings["derived"]:
            given = derived_rule(self.derived, given)
        return self.control(looking_at_lists(self.lists, given) if self.settings["lists"] else given)

    def list_change(self) -> Action:
        """A change of a list, or a mute of one of its rules."""
        rng = self.lists
        if self.last and rng.random() < 0.4:
            return self.append("control", random_mute(rng, rng.choice([*self.last.values()]), self.newest))
        return self.append("control", random_list_change(rng, self.newest.get("eventTime")))

    def change(self) -> list[Action]:
        """Control messages that come together."""
        rng = self.rng
        kind, rule_id = rng.choice(self.storms), rng.randint(1, self.rule_ids)
        if kind == "any" or not self.last:
            storm = []
            for _ in range(rng.choice([1, 1, 2, 4])):
                given = json.loads(random_change(rng, self.routes))
                storm.append(self.rule() if "window" in given else self.control(given))
            return storm
        rule = self.last[rng.choice(list(self.last))]
        rule_id = rule["ruleId"]
        if kind == "again":
            return [self.control(rule)]
        if kind == "leave and return":
            gone: dict = {"ruleId": rule_id, "ruleState": "DELETE"}
        elif kind == "window and back":
            gone = rule | {"window": rng.choice(["1s", "1s", "30m"])}
        else:
            keys, filter = rng.choice(ROUTES)
            if self.filters.random() < 0.5:  # the same keys
                keys = rule["groupingKeyNames"]
            gone = rule | {"groupingKeyNames": keys, "filter": filter}
        storm = [self.control(gone), self.control(rule)]
        return storm if rng.random() < 0.7 else storm[:1]

    def next(self) -> list[Action]:
        rng = self.rng
        if rng.random() < self.changes:
            actions = self.change()
        else:
            actions = [self.append("events", self.event())]
        if self.settings["lists"] and self.lists.random() < 0.3:
            actions.append(self.list_change())
        if rng.random() < self.odd:
            odd = self.oddity()
            actions += [odd] if odd[0] != "torn" or self.settings["divisible"] else []
            actions += [self.batch()] if odd[0] == "once" else []
        if rng.random() < self.batches:
            actions.append(self.batch())
        return actions

    def event(self) -> bytes:
        rng = self.rng
        if rng.random() < self.bad:
            return rng.choice(BAD)
        event = {
            "eventId": rng.randrange(self.ids),
            "eventTime": self.now - rng.choice(self.behind) + self.ahead.choice(self.dated_ahead),
            "userId": rng.choice(self.users),
            "action": rng.choice(["login", "pay"]),
            "ip": rng.choice(["a", "a", "b", None]),
            "country": rng.choice(self.countries),
            "amount": rng.choice([None, *self.amounts]),
        }
        self.newest = event
        if self.settings["returns"]:
            if self.made and self.returns.random() < self.returned:
                action = self.returns.choice(["returned", "returned", "returned", event["action"]])
                event = self.returns.choice(self.made[-8:]) | {"action": action}
            self.made.append(event)
        return self.changed_row(event) if self.settings["rows"] else json.dumps(event).encode()

    def changed_row(self, row: dict) -> bytes:
        """A new row of a table, or the deletion or update of one that may have come before."""
        op, before, rng = "c", None, self.returns
        if self.made and rng.random() < self.returned:
            op, before = rng.choice(["u", "u", "d"]), rng.choice(self.made[-8:])
            same = rng.choice(
                [["eventId", "eventTime", "userId"], ["eventId", "eventTime"], ["eventId"], [*row]]
            )
            row = row | {name: before[name] for name in same}
        self.made.append(row)
        return json.dumps({"op": op, "before": before, "after": None if op == "d" else row}).encode()

    def batch(self) -> Action:
        rng, faults, die, how = self.rng, [], None, ""
        if rng.random() < self.faults:
            for _ in range(rng.choice([0, 1, 1, 2])):
                kind = rng.choice(self.task_faults)
                faults.append((rng.randrange(5), kind, rng.randrange(rng.choice(AT_STEP))))
            if rng.random() < 0.4:
                die, how = rng.randrange(rng.choice([6, 20, 40])), rng.choice(["kill", "suspend"])
        return ("batch", rng.randrange(1000), tuple(faults), die, how)

    def oddity(self) -> Action:
        rng, kind, host = self.rng, self.rng.choice(self.oddities), self.rng.randrange(self.settings["hosts"])
        more: tuple = {
            "skew": lambda: (rng.choice(SKEWS),),
            "rescale": lambda: (rng.randint(1, min(5, self.settings["key_groups"])),),
            # on a machine with a clock of its own
            "restart": lambda: (rng.choice(SKEWS),),
            "once": lambda: (rng.choice(SKEWS),),
            "lose": lambda: (host,),
            "delete": lambda: (host, rng.randrange(10)),
            "stale": lambda: (host,),
            "partition": lambda: (rng.choice([0, 0, 2]),),
            "expire": lambda: (
                rng.choice(["events", "events", "control"]),
                rng.randrange(3),
                rng.choice([1, 3]),
            ),
            "resume": lambda: (rng.random() < 0.2,),
            "torn": lambda: (
                *rng.choice([self.rule(), self.append("events", self.event())])[1:],
                rng.randrange(9),
                rng.choice(["killed", "stopped"]),
            ),
        }.get(kind, tuple)()
        return (kind, *more)
